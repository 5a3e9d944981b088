"""
What a run knows: the fold of its events, and nothing else.

Only :meth:`Memory.fold` changes it.  Everything that follows from an event is derived here: which facts
there are, what may run now, what waits and for what.  No user function is called.

The way of a fact: it is *delivered* along the routes of its node; a node that can run is *admitted* once
what it reads has settled, and *offered* in ``ready``; gates, joins and batches hold facts until they are
complete (``weft.core.meeting``); a node that can make nothing more *settles* (``weft.core.settling``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from weft.core import events as ev
from weft.core import meeting, settling
from weft.core.fact import Fact
from weft.core.node import Kind, Node, Reading
from weft.core.plan import Plan
from weft.core.references import Latest, StateOf
from weft.core.scope import NOTHING, Activation, Asked, Ending, Key, Order, Scope
from weft.errors import InvalidEvent
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.workflow import Workflow

# Comparing with a plain int costs a third of looking a member of an enum up.
_GATE, _JOIN, _COLLECT = int(Kind.GATE), int(Kind.JOIN), int(Kind.COLLECT)

_STORY = 8
"""How many events an error shows of what happened before."""


class Memory:
    """Mutable state of one run."""

    __slots__ = (
        "_peak",
        "absences",
        "blocked",
        "dispatched",
        "dropped",
        "failures",
        "fresh",
        "inputs",
        "keyed",
        "keys",
        "lines",
        "log",
        "plan",
        "produced",
        "productions",
        "ready",
        "run_id",
        "skipped",
        "workflow",
    )

    workflow: Workflow
    plan: Plan
    run_id: str

    def __init__(self) -> None:
        self.log: list[ev.AnyEvent] = []
        self.inputs: list[Fact] = []
        self.productions: list[Fact] = []
        self.produced: dict[str, list[Fact]] = {}
        """By component: facts that the fold itself looks up, and the elements of maps."""
        # Dicts used as ordered sets: insertion order is dispatch order.
        self.ready: dict[Key, Activation] = {}
        self.fresh: list[Activation] = []
        """What became ready since somebody last emptied this list."""
        self.blocked: dict[Key, Activation] | None = None
        """What waits for the settling of something it reads, or for its turn at a stateful node."""
        self.lines: dict[str, deque[Activation]] | None = None
        """By stateful node that is busy: who comes next."""
        self.keyed: dict[str, list[Order]] | None = None
        self.keys: dict[str, int] | None = None
        """Idempotency keys of inputs, and their ordinals."""
        self.failures: dict[str, ev.RunnableFailed] | None = None
        self.skipped: dict[str, None] | None = None
        self.dispatched: dict[Key, int] | None = None
        """What was handed out and has not come back, and at which attempt."""
        self.dropped: set[Key] | None = None
        """What was pending at a component that left the run."""
        self.absences = 0
        """How many facts of ``all_done`` joins were not made; each has an address of its own."""
        self._peak = 0

    def fold(self, events: Iterable[ev.AnyEvent]) -> None:
        """
        Apply *events* in order.

        Raises:
            InvalidEvent: an event that cannot have happened here; it and what follows is not applied.
        """
        log = self.log
        seq = len(log)
        for event in events:
            seq += 1
            handler = _FOLD.get(type(event))
            if handler is None:
                raise InvalidEvent(f"{event!r} is no event", log[-_STORY:])
            if event.seq != seq:
                raise InvalidEvent(f"expected event {seq}, got {event!r}", log[-_STORY:])
            if seq == 1 and handler is not _defined:
                raise InvalidEvent(f"a log begins with WorkflowDefined, not with {event!r}")
            handler(self, event)
            log.append(event)

    def record(self, event: ev.AnyEvent) -> None:
        """Apply one *event* that this process has just made, whose position is right by construction."""
        _FOLD[type(event)](self, event)
        self.log.append(event)

    def complete(self, activation: Activation, value: Any, attempt: int, duration_ns: int) -> None:
        """Record that *activation*, which is ready, has made *value*."""
        key = activation.key
        del self.ready[key]
        log = self.log
        seq = len(log) + 1
        if activation.node.is_test:
            holds = bool(value)
            answered(self, activation, holds)
            log.append(ev.ConditionEvaluated(seq, key[0], key[1], holds, attempt, duration_ns))
        else:
            made(self, activation, seq, value)
            log.append(ev.ReactionOccurred(seq, key[0], key[1], value, attempt, duration_ns))

    def offered(self) -> list[Activation]:
        """Return what may run now, in the order it became ready."""
        ready = self.ready
        count = len(ready)
        if count > self._peak:
            self._peak = count
        elif self._peak > 64 and count * 8 < self._peak:  # iterating a dict visits deleted entries too
            self.ready = ready = dict(ready.items())
            self._peak = count
        return list(ready.values())

    def story(self, event: ev.Activated) -> InvalidEvent:
        """Return an error that says what happened before *event*, which should not have happened."""
        return InvalidEvent(
            f"{event.component!r} has nothing ready at {event.inputs} for {event!r}", self.log[-_STORY:]
        )

    # -- facts on their way ----------------------------------------------------------------------

    def deliver(
        self, node: Node, facts: tuple[Fact, ...], inputs: tuple[Address, ...], scope: Scope, order: Order
    ) -> None:
        """Send *facts* along the routes of *node*."""
        if node.easy:
            ready, fresh = self.ready, self.fresh
            for target in node.easy:
                key = (target.name, inputs)
                ready[key] = activation = Activation(target, key, facts, scope, order)
                fresh.append(activation)
                if target.tracked:
                    scope.count(target.name, 1)
            return
        for target, port in node.routes:
            kind = target.kind
            if kind == _JOIN:
                meeting.arrive(self, target, port, facts, scope, order)
            elif kind == _COLLECT:
                meeting.gather((target, port), facts[0], scope, order)
            else:
                self.accept(target, facts, inputs, scope, (port, *order) if target.inlets > 1 else order)

    def accept(
        self,
        node: Node,
        facts: tuple[Fact, ...],
        inputs: tuple[Address, ...],
        scope: Scope,
        order: Order,
        sources: tuple[Fact, ...] | None = None,
    ) -> None:
        """Let *node* run, or decide, on *facts*."""
        if node.deduplicates:
            if scope.seen is None:
                scope.seen = set()
            if (node.name, inputs) in scope.seen:
                return
            scope.seen.add((node.name, inputs))
        if node.tracked:
            scope.count(node.name, 1)
        if node.kind == _GATE:
            meeting.decide_gate(self, Asked(node, facts, inputs, scope, order, {}))
        elif node.shared:
            meeting.test_shared(self, node, facts, inputs, scope, order)
        else:
            self.admit(Activation(node, (node.name, inputs), facts, scope, order, sources))

    def admit(self, activation: Activation) -> None:
        """Offer *activation*, as soon as everything that it reads has settled and it is its turn."""
        node = activation.node
        if node.readings:
            missing = 0
            for reading in node.readings:
                unit = reading.unit
                if unit is not None:
                    scope = activation.scope.outward(reading.levels)
                    if unit.name in scope.open:
                        if scope.waiters is None:
                            scope.waiters = {}
                        scope.waiters.setdefault(unit.name, []).append(activation)
                        missing += 1
            activation.missing = missing
            if missing:
                self.block(activation)
                return
        self.line_up(activation)

    def line_up(self, activation: Activation) -> None:
        """Offer *activation*, or let it stand in line at a stateful node that is busy."""
        node = activation.node
        if node.stateful:
            if self.lines is None:
                self.lines = {}
            line = self.lines.get(node.name)
            if line is not None:
                line.append(activation)
                self.block(activation)
                return
            self.lines[node.name] = deque()
        if node.readings:
            activation.pins = tuple(self._pin(reading, activation.scope) for reading in node.readings)
        self.ready[activation.key] = activation
        self.fresh.append(activation)

    def block(self, activation: Activation) -> None:
        """Keep *activation* until it can be offered."""
        if self.blocked is None:
            self.blocked = {}
        self.blocked[activation.key] = activation

    def unblock(self, activation: Activation) -> None:
        """One thing that *activation* reads has settled."""
        activation.missing -= 1
        if activation.missing == 0 and self.blocked is not None:
            del self.blocked[activation.key]
            self.line_up(activation)

    def _pin(self, reading: Reading, scope: Scope) -> Any:
        """Choose the version that *reading* refers to, from *scope*, at this place of the log."""
        name = reading.target.name
        facts = self.produced.get(name, ())
        if not isinstance(reading.read, StateOf | Latest):
            return len(facts)
        if reading.unit is not None:
            made = scope.outward(reading.levels).made
            if made is not None and name in made:
                return made[name][1]
        before = scope.root.before
        if before is not None and name in before:
            return before[name]
        return facts[-1] if facts else None

    def remember(self, node: Node, fact: Fact, scope: Scope, order: Order) -> None:
        """Keep *fact* where readers of *node* will look for it."""
        name = node.name
        root = scope.root
        if root.before is None:
            root.before = {}
        if name not in root.before:
            earlier = self.produced.get(name)
            root.before[name] = earlier[-1] if earlier else None
        place: Order = (order,)
        levels = 0
        for level in node.records:
            while levels < level:
                place = (scope.path, *place)
                scope = scope.outward(1)
                levels += 1
            if scope.made is None:
                scope.made = {}
            known = scope.made.get(name)
            if known is None or node.stateful or place >= known[0]:
                scope.made[name] = (place, fact)
        if node.keyed:
            while scope.parent is not None:
                place = (scope.path, *place)
                scope = scope.parent
            if self.keyed is None:
                self.keyed = {}
            self.keyed.setdefault(name, []).append((scope.fact.index, place))

    # -- activations that end --------------------------------------------------------------------

    def take(self, event: ev.Activated) -> Activation:
        """Remove and return the activation that *event* is about."""
        activation = self.ready.pop((event.component, event.inputs), None)
        if activation is None:
            raise self.story(event)
        if self.dispatched:
            self.dispatched.pop(activation.key, None)
        return activation

    def release(self, activation: Activation) -> None:
        """Let the next one in line run, and the node settle if this was the last."""
        node = activation.node
        if node.stateful and self.lines is not None:
            line = self.lines.pop(node.name)
            if line:
                following = line.popleft()
                assert self.blocked is not None  # noqa: S101
                del self.blocked[following.key]
                self.line_up(following)
                self.lines[node.name] = line
        if node.tracked and activation.flows:
            settling.close(self, node, activation.scope)

    def close(self, node: Node, scope: Scope) -> None:
        """One source or one activation of a tracked *node* in *scope* is done with."""
        settling.close(self, node, scope)

    def end(self, activation: Activation, ending: Ending) -> None:
        """*activation* made nothing: *ending* says why."""
        node, scope = activation.node, activation.scope
        if node.tracked:
            scope.end(node.name, ending)
        if node.shared:
            if scope.outcomes is None:
                scope.outcomes = {}
            scope.outcomes[activation.key] = None
        for asked in activation.asked or ():
            meeting.abandon(self, asked, ending)
        self.release(activation)


# -- one function per event ----------------------------------------------------------------------


def _defined(memory: Memory, event: ev.WorkflowDefined) -> None:
    if memory.log:
        raise InvalidEvent("a run is defined once", memory.log[-_STORY:])
    memory.run_id = event.run
    memory.workflow = event.workflow
    memory.plan = event.workflow.compiled


def _changed(memory: Memory, event: ev.ComponentAdded | ev.ComponentRemoved) -> None:
    old = memory.plan
    memory.workflow = event.workflow
    memory.plan = event.workflow.compiled
    settling.replan(memory, old)


def _input(memory: Memory, event: ev.InputReceived) -> None:
    fact = Fact(event.seq, event.value, None, (), event.ordinal)
    memory.inputs.append(fact)
    if event.key is not None:
        if memory.keys is None:
            memory.keys = {}
        memory.keys[event.key] = event.ordinal
    begin(memory, fact, None, None, ())


def begin(memory: Memory, fact: Fact, parent: Scope | None, region: str | None, order: Order) -> None:
    """Open a scope for *fact*, an input or an element, and deliver it."""
    plan = memory.plan
    scope = Scope(fact, parent, region, order)
    scope.open = plan.openings.get(region, NOTHING)
    entry = plan.entries[region]
    inputs = (fact.address,)
    if entry.easy:
        ready, fresh, facts = memory.ready, memory.fresh, (fact,)
        for target in entry.easy:
            key = (target.name, inputs)
            ready[key] = activation = Activation(target, key, facts, scope)
            fresh.append(activation)
        return
    memory.deliver(entry, (fact,), inputs, scope, ())
    for node in plan.released[region]:
        settling.close(memory, node, scope)


def _reaction(memory: Memory, event: ev.ReactionOccurred) -> None:
    made(memory, memory.take(event), event.seq, event.value)


def made(memory: Memory, activation: Activation, seq: int, value: Any) -> None:
    """*activation* made *value*, which stands at *seq*."""
    node, scope = activation.node, activation.scope
    if node.bare:
        fact = Fact(seq, value, node.name, activation.facts or activation.sources or ())
        memory.productions.append(fact)
        if node.easy:
            memory.deliver(node, (fact,), (seq,), scope, activation.order)
        return
    if node.is_fan:
        _fan_out(memory, activation, seq, value)
        return
    name = node.name
    fact = Fact(seq, value, name, activation.facts or activation.sources or ())
    if node.records:
        memory.remember(node, fact, scope, activation.order)
    memory.productions.append(fact)
    if node.keeps:
        memory.produced.setdefault(name, []).append(fact)
    if node.gathers is not None:
        meeting.gather(node.gathers, fact, scope, activation.order)
    elif node.routes:
        memory.deliver(node, (fact,), (seq,), scope, activation.order)
    if node.stateful:
        memory.release(activation)
    elif node.tracked:
        settling.close(memory, node, scope)


def _fan_out(memory: Memory, activation: Activation, seq: int, collection: Any) -> None:
    """Open a scope for every element of *collection*, in its order."""
    node, scope, parents, order = activation.node, activation.scope, activation.facts, activation.order
    fan = Fact(seq, collection, node.name, parents)
    for collect, port in node.collects:
        meeting.batch_of(collect, scope).fans.append(((port, order), fan))
    for exit_ in node.opened:
        scope.count(exit_.name, len(collection))
    elements = memory.produced.setdefault(node.name, [])
    for index, value in enumerate(collection):
        fact = Fact((seq, index), value, node.name, parents, index)
        elements.append(fact)
        begin(memory, fact, scope, node.name, order)
    memory.release(activation)


def _evaluated(memory: Memory, event: ev.ConditionEvaluated) -> None:
    answered(memory, memory.take(event), event.holds)


def answered(memory: Memory, activation: Activation, holds: bool) -> None:
    """A condition has said whether it *holds* for the facts of *activation*."""
    node, scope = activation.node, activation.scope
    if node.shared:
        if scope.outcomes is None:
            scope.outcomes = {}
        scope.outcomes[activation.key] = holds
    if holds and activation.flows:
        memory.deliver(node, activation.facts, activation.key[1], scope, activation.order)
    if activation.asked is not None:
        for asked in activation.asked:
            asked.known[node.name] = holds
            meeting.decide_gate(memory, asked)
    if node.tracked:
        memory.release(activation)


def _dispatched(memory: Memory, event: ev.RunnableDispatched) -> None:
    key = (event.component, event.inputs)
    if key not in memory.ready:
        raise memory.story(event)
    if memory.dispatched is None:
        memory.dispatched = {}
    memory.dispatched[key] = event.attempt


def _failed(memory: Memory, event: ev.RunnableFailed) -> None:
    activation = memory.take(event)
    if memory.failures is None:
        memory.failures = {}
    memory.failures[event.component] = event
    memory.end(activation, "failed")


def _skipped(memory: Memory, event: ev.RunnableSkipped) -> None:
    activation = memory.take(event)
    if memory.skipped is None:
        memory.skipped = {}
    memory.skipped[event.component] = None
    memory.end(activation, "skipped")


# A new event without a line here fails test_every_event_can_be_folded.
_FOLD: dict[type[Any], Callable[[Memory, Any], None]] = {
    ev.WorkflowDefined: _defined,
    ev.ComponentAdded: _changed,
    ev.ComponentRemoved: _changed,
    ev.InputReceived: _input,
    ev.ReactionOccurred: _reaction,
    ev.ConditionEvaluated: _evaluated,
    ev.RunnableDispatched: _dispatched,
    ev.RunnableFailed: _failed,
    ev.RunnableSkipped: _skipped,
}
