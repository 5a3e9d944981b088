"""
Computes the status of each component in a run, for a picture.

One pass over the log finds what has happened, one over the memory what is in flight.  Elements of a map are not shown
one by one: a component inside it shows how many of them are done.  Parts that a component needs for its value (a
rule's condition, the turns of a loop) count for the component; parts that react to its value count for themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from weft.core import events as ev
from weft.core.compose.questions import verdict
from weft.core.draw.progress import Progress, State
from weft.core.fold.joins import JoinState
from weft.core.fold.ordering import maker_of
from weft.core.fold.scope import BARRED, FIRED, Activation, Scope
from weft.core.lineage.lineage import Cell
from weft.core.plan.node import FunctionNode, GateNode, LoopNode, LoopTest, Node, successors
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory


def progress_of(memory: Memory) -> dict[str, Progress]:
    """Return the status of each component and of each part of one, by name."""
    tally = _Tally(memory)
    is_changed = False
    for event in memory.lineage.standing():
        if isinstance(event, ev.Activated):
            tally.count(event)
        is_changed = is_changed or isinstance(event, ev.ComponentAdded | ev.ComponentRemoved | ev.RunUpgraded)
    if not is_changed:  # else a gate may not have been there yet when its conditions were asked
        tally.decide(memory)
    tally.give_up(memory)
    tally.look_at(memory)
    return {name: tally.progress(name, _standing(memory, name)) for name in tally.names}


class _Counts:
    """The counts of one component while the log is read."""

    __slots__ = (
        *("attempts", "children", "done", "error", "failed", "letters", "nanoseconds", "refused", "skipped"),
        "in_flight",
    )

    def __init__(self) -> None:
        self.done = self.failed = self.skipped = self.refused = self.attempts = self.nanoseconds = 0
        self.letters = self.children = 0
        self.error = ""
        self.in_flight: State | None = None


class _Tally:
    def __init__(self, memory: Memory) -> None:
        self._nodes = memory.plan.nodes
        self._functions = {name: node for name, node in self._nodes.items() if isinstance(node, FunctionNode)}
        self._components = memory.workflow.components
        self._regions = memory.workflow.wiring.regions
        parts = {node.name for node in self._nodes.values() if node.name != node.owner and "\0" not in node.name}
        self.names = [*self._components, *sorted(parts)]
        self._found = {name: _Counts() for name in self.names}
        self._stand_for: dict[str, list[str]] = {}
        self._gates = [node for node in self._nodes.values() if isinstance(node, GateNode)]
        self._loops = {
            name: (node, test)
            for name, node in self._functions.items()
            if (test := node.loop_test) is not None and not test.gives_last
        }
        self._noes: list[tuple[FunctionNode, LoopTest, tuple[Address, ...]]] = []
        """The tests of loops that said no, and of what."""
        self._taken: set[tuple[str, tuple[Address, ...]]] = set()
        """The activations that have ended; kept if there are loops."""
        self._answers: dict[tuple[Address, ...], dict[str, bool]] = {}
        """The answers of conditions, by what they were asked about."""
        self._elements: dict[str, int] = {}
        self._pending: dict[str, set[object]] = {}

    def count(self, event: ev.Activated) -> None:
        """Add what *event* says to its component, and to the component that this one is a part of."""
        node = self._functions.get(event.component)
        for name in self._shown(event.component):
            if name == event.component:
                self._add(self._found[name], event)
            else:
                self._add_part(self._found[name], event, node)
        opening = None if node is None or node.loop_test is None else node.loop_test.opening
        if opening is not None and isinstance(event, ev.ConditionEvaluated):
            self._found[opening.name].done += 1
        if self._loops:
            self._taken.add((event.component, event.inputs))
            if isinstance(event, ev.ConditionEvaluated) and not event.holds and event.component in self._loops:
                self._noes.append((*self._loops[event.component], event.inputs))
        if self._gates and isinstance(event, ev.ConditionEvaluated):
            self._answers.setdefault(event.inputs, {})[event.component] = event.holds
        if isinstance(event, ev.FannedOut) and event.component in self._components:
            self._elements[event.component] = self._elements.get(event.component, 0) + len(event.value)

    def _add(self, found: _Counts, event: ev.Activated) -> None:
        match event:
            case ev.ConditionEvaluated(holds=False):
                found.refused += 1
            case ev.RunnableFailed(error=error):
                found.failed += 1
                found.error = f"{error.type}: {error.message}" if error.message else error.type
            case ev.RunnableSkipped():
                found.skipped += 1
            case ev.ConditionEvaluated() | ev.ReactionOccurred() | ev.FannedOut() | ev.StateChanged():
                found.done += 1
            case ev.SignalTaken() | ev.TimerFired() | ev.CompletionReceived():
                found.done += 1
            case _:
                pass
        self._time(found, event)

    def _add_part(self, found: _Counts, event: ev.Activated, node: FunctionNode | None) -> None:
        """Add what *event*, of a part, means for its component: a loop goes on after a "no", a saga after a failure."""
        is_relay = node is not None and node.is_relay
        goes_on = is_relay or (node is not None and (node.loop_test is not None or node.turn is not None))
        ends = isinstance(event, ev.RunnableFailed | ev.RunnableSkipped) and not is_relay
        if ends or (isinstance(event, ev.ConditionEvaluated) and not event.holds and not goes_on):
            self._add(found, event)
        else:
            self._time(found, event)

    def _time(self, found: _Counts, event: ev.Activated) -> None:
        attempts = getattr(event, "attempts", 0) or getattr(event, "attempt", 0) or 1
        found.attempts = max(found.attempts, attempts)
        found.nanoseconds += getattr(event, "duration_ns", 0)

    def _shown(self, node: str) -> Iterable[str]:
        """Return under which names *node* counts: its own, and that of its component if this needs it for its value."""
        if node not in self._stand_for:
            known = self._nodes.get(node)
            names = {node: None} if known is None or not _serves(known) else {node: None, known.owner: None}
            self._stand_for[node] = [name for name in names if name in self._found]
        return self._stand_for[node]

    def give_up(self, memory: Memory) -> None:
        """Add loops that have used all their turns.  No event says so: their test said no, and no turn came after."""
        pending = (*memory.open_all().values(), *(memory.blocked or {}).values(), *_waiting(memory))
        known = self._taken | {activation.key for activation in pending}
        for until, test, inputs in self._noes:
            if until.turn is not None and (until.turn.first.name, inputs) not in known:
                self._found[until.owner].failed += 1
                self._found[until.owner].error = f"LoopExhausted: {test.at_most} turns were not enough"

    def decide(self, memory: Memory) -> None:
        """Add what gates over conditions let through or not.  No event says so: it follows from the answers."""
        for gate in self._gates:
            inlets = memory.workflow.wiring.fed_by(gate.owner)
            for inputs, answers in self._answers.items():
                said = verdict(gate.questions, answers)
                if all(not inlet.is_join and answers.get(inlet.parents[0]) is False for inlet in inlets):
                    continue  # a condition before it said no
                if said is None or not self._reaches(gate, [memory.lineage.cell(at) for at in inputs]):
                    continue
                self._found[gate.owner].refused += not said
                self._found[gate.owner].done += said and gate.name == gate.owner  # a rule has its own event

    def _reaches(self, gate: GateNode, facts: Iterable[Cell]) -> bool:
        """Whether *facts*, which conditions were asked about, came to *gate*: others may have asked them too."""
        makers = [maker_of(fact) for fact in facts]
        if gate.arrivals is None:
            return False
        if gate.arrivals.rank(tuple(makers)) is not None:
            return True
        start, inside = gate.region, self._nodes  # in a turn of a loop, what it began with was made before
        begun = [start if start and self._begins(inside.get(maker), start) else maker for maker in makers]
        return gate.arrivals.rank(tuple(begun)) is not None

    def _begins(self, maker: Node | None, start: str) -> bool:
        """Whether a turn that *start* opens may begin with a fact of *maker*."""
        opening = self._nodes[start]
        targets = () if maker is None else successors(maker)
        tests = [target.loop_test for target in targets if isinstance(target, FunctionNode)]
        ends = any(test is not None and test.opening is opening for test in tests)
        return isinstance(opening, LoopNode) and (maker is None or maker.region != start or ends)

    # -- what is in flight -----------------------------------------------------------------------

    def look_at(self, memory: Memory) -> None:
        """Add what runs, may run, or waits."""
        for (name, _), failure in (memory.failures or {}).items():  # no event says that the batch of a reduce failed
            for shown in self._shown(name):
                self._found[shown].failed = self._found[shown].failed or 1
                self._found[shown].error = f"{failure.error.type}: {failure.error.message}"
        for letter in (memory.letters or {}).values():
            for shown in self._shown(letter.event.component):
                self._found[shown].letters += 1
        for child in (memory.children or {}).values():
            for shown in self._shown(child.component):
                self._found[shown].children += 1
        ready = [*memory.open_all().values()]
        blocked = [*(memory.blocked or {}).values(), *_waiting(memory)]
        scopes: dict[int, Scope] = {}
        for activation in (*ready, *blocked):
            for scope in activation.scope.around():
                scopes[id(scope)] = scope
        for scope in scopes.values():
            if scope.region is not None:
                self._pending.setdefault(scope.region, set()).add(scope.address)
                if scope.region in self._found:
                    self._found[scope.region].in_flight = "running"
            for node in self._held(scope):
                self._mark(node, "waiting")
        for activation in blocked:
            self._mark(activation.node, "waiting")
        for activation in ready:
            self._mark(activation.node, "ready")
            self._asks(activation)
        for key in memory.dispatched or ():
            self._mark(self._nodes.get(key[0]), "running")

    def _mark(self, node: Node | None, state: State) -> None:
        for name in self._shown(node.name) if node is not None else ():
            self._found[name].in_flight = state

    def _asks(self, activation: Activation) -> None:
        """Mark what waits for the answer of a condition that is about to be asked."""
        for state in activation.gates or ():
            self._mark(state.gate, "waiting")

    def _held(self, scope: Scope) -> Iterable[Node]:
        """Return the nodes that have some facts and wait for more."""
        for name, held in (scope.slots or {}).items():
            node = self._nodes.get(name)
            is_over = held is FIRED or held is BARRED
            if node is not None and not is_over and (not isinstance(held, JoinState) or any(held.groups)):
                yield from successors(node) if "\0" in name else (node,)

    # -- the sum ---------------------------------------------------------------------------------

    def progress(self, name: str, at: str) -> Progress:
        """Return the progress of *name*, which is in the state *at*."""
        found = self._found[name]
        done, total = found.done, None
        if name in self._elements:
            total = self._elements[name]
            done = total - len(self._pending.get(name, ()))
        elif (region := self._region(name)) is not None:
            total = self._elements.get(region, 0) or None
            if total is not None and done + found.refused > total:
                total = None  # it runs more than once per element, or is asked elsewhere too: no part of a whole
        return Progress(
            self._state(found),
            done=done,
            failed=found.failed,
            skipped=found.skipped,
            refused=found.refused,
            of=total,
            attempts=found.attempts,
            seconds=found.nanoseconds / 1e9,
            error=found.error,
            at=at,
            letters=found.letters,
            children=found.children,
        )

    def _region(self, name: str) -> str | None:
        """Return the map that *name*, a component or a part of one, is in."""
        return self._regions[name] if name in self._regions else self._nodes[name].region

    @staticmethod
    def _state(found: _Counts) -> State:
        if found.failed:
            return "failed"
        if found.in_flight is not None:
            return found.in_flight
        if found.done:
            return "done"
        if found.skipped:
            return "skipped"
        return "gated" if found.refused else "unreached"


def _waiting(memory: Memory) -> list[Activation]:
    """Return what waits for time or a signal."""
    return [waiting.activation for waiting in (memory.waiting or {}).values()]


def _standing(memory: Memory, name: str) -> str:
    """Return the text about the state that *name* is in."""
    component, node = memory.workflow.components.get(name), memory.plan.nodes.get(name)
    state = node.state if isinstance(node, FunctionNode) and node.stateful else None
    if component is None or state is None or state.by_key:
        return ""
    made = memory.produced.get(name)
    last = made[-1] if made else None
    return component.describe_state(state.initial.make() if last is None else last.value)


def _serves(node: Node) -> bool:
    """Whether the component that *node* belongs to needs it for its value; if not, *node* reacts to that value."""
    seen: set[str] = set()
    stack = [node]
    while stack:
        top = stack.pop()
        rescuers = [then for _, then, _ in top.error_routes] if isinstance(top, FunctionNode) else []
        for target in (*successors(top), *rescuers):
            if target.name == node.owner:
                return True
            if target.owner == node.owner and target.name not in seen:
                seen.add(target.name)
                stack.append(target)
    return False
