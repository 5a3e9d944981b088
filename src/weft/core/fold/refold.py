"""
Folds a log again after a revision, without the events that are void (ADR 32).

Void events keep their positions, and nothing else comes of them.  A failure that is tried again becomes a dead letter
at its place.  What a fork edits has the edited outcome; the log itself still holds what happened in the original.  An
input that was moved to another workflow follows the plan of that one from its beginning.

Invariants:

1. Folding a log with revisions again makes the same memory, whether it was folded event by event or in one pass.
2. A fact without an event has the address that it had, or an address that no event before the revision names.
3. An activation that is the same before and after is the same object, so that what is in flight is not disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.fold.live_changes import keep_facts
from weft.core.fold.memory import Memory
from weft.core.fold.memory_data import MemoryData
from weft.core.fold.scope import Activation, Key
from weft.core.lineage.history import Edited
from weft.core.lineage.lineage import NONE, Cell, Element, Lineage
from weft.core.plan.plan import Plan
from weft.errors import InvalidEvent, shown

Revision = ev.RunRetried | ev.RunForked | ev.RunUpgraded


class Handlers(NamedTuple):
    """The functions that apply events to a memory."""

    of: Mapping[type[Any], Callable[[Memory, Any], None]]
    """By class of an event: its fold."""
    end_wait: Callable[[Memory, Any], None]
    """Ends a wait with the fact of an event, whatever its class."""


def positions(void: ev.Positions) -> Iterable[int]:
    """Yield the positions in the ranges *void*."""
    for first, last in void:
        yield from range(first, last + 1)


def ranges(seqs: Iterable[int]) -> ev.Positions:
    """Return *seqs* as ranges, in order."""
    found: list[tuple[int, int]] = []
    for seq in sorted(seqs):
        if found and found[-1][1] == seq - 1:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return tuple(found)


class Refold:
    """
    One pass over a log that folds it under *revisions*, the events that say what is void.

    Args:
        handlers: the fold of each event.
        known: the lineage before, whose addresses are kept.
        page: as that of the memory.
    """

    def __init__(self, handlers: Handlers, revisions: Sequence[Revision], known: Lineage, page: int | None) -> None:
        self.memory = Memory()
        self.memory.page = page
        self._handlers, self._known = handlers, known
        self.void = {seq for each in revisions for seq in positions(each.void)}
        self.failed = {seq for each in revisions if isinstance(each, ev.RunRetried) for seq in each.failed}
        self._edits: dict[int, Any] = {}
        for each in revisions:
            if isinstance(each, ev.RunForked):
                self._edits.update(zip(each.edited, each.values, strict=True))
        self._unsent: set[int] = set()
        """Void signals of the run that a fork came of: their keys count in that one alone."""
        for at, each in enumerate(revisions):
            if isinstance(each, ev.RunForked):
                self._unsent |= {seq for one in revisions[: at + 1] for seq in positions(one.void)}
        self.edited: dict[int, ev.AnyEvent] = {}
        """By position: the events that count in place of those of the log."""
        upgrades = [each for each in revisions if isinstance(each, ev.RunUpgraded)]
        self._plans: dict[int, Plan] = {seq: each.workflow.compiled for each in upgrades for seq in each.inputs}
        self._latest = upgrades[-1].workflow.compiled if upgrades else None

    def fold(self, event: ev.AnyEvent) -> None:
        """Fold the next *event* of the log; one that is void only takes its place."""
        memory = self.memory
        if event.seq not in self.void:
            if event.seq in self._edits:
                event = self.edited[event.seq] = rewritten(memory, event, self._edits[event.seq])
            if self._known.absent is not None:
                memory.lineage.pad(self._known, event.seq)
            self._apply(memory, event)
        elif isinstance(event, ev.SignalReceived) and event.seq not in self._unsent:
            memory.note_signal_key(event)
        memory.log.append(event)

    def _apply(self, memory: Memory, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.REVISIONS):
            take_effect(memory, event)
        elif event.seq in self.failed and isinstance(event, ev.RunnableFailed):
            failed = memory.take_waiting((event.component, event.inputs)) or memory.take(event)
            memory.fail(event)
            memory.keep_dead_letter(failed, event)
        elif event.seq in self._plans:
            plan, memory.plan = memory.plan, self._plans[event.seq]
            self._handlers.of[type(event)](memory, event)
            memory.plan = plan
        elif self._latest is not None and isinstance(event, (*ev.PRODUCTIONS, ev.StateChanged)):
            activation = memory.active((event.component, event.inputs))
            self._fold_in(memory, event)
            if activation is not None and activation.scope.plan is not self._latest:
                keep_facts(memory, event, activation.node, self._latest)
        else:
            self._fold_in(memory, event)

    def _fold_in(self, memory: Memory, event: ev.AnyEvent) -> None:
        """Fold *event*; a wait that did not come to a value may have an edited one all the same."""
        key = (event.component, event.inputs) if isinstance(event, ev.ReactionOccurred) else None
        if key is not None and event.seq in self.edited and key in (memory.waiting or ()):
            self._handlers.end_wait(memory, event)
        else:
            self._handlers.of[type(event)](memory, event)


def rewritten(memory: Memory, event: Any, value: Any) -> Any:
    """Return *event* with *value* as the outcome; for a failure, the event of its component when it completes."""
    match event:
        case ev.InputReceived() | ev.FannedOut():
            return replace(event, value=value)
        case ev.ReactionOccurred() | ev.SignalTaken() | ev.TimerFired() | ev.CompletionReceived():
            return replace(event, value=value)
        case ev.ConditionEvaluated():
            return replace(event, holds=bool(value))
        case ev.StateChanged():
            state, emitted = value
            return replace(event, state=state, emitted=tuple(emitted))
        case ev.RunnableFailed() | ev.RunnableSkipped():
            pending = memory.at((event.component, event.inputs))
            head = (event.seq, event.component, event.inputs)
            if pending is not None and pending.node.is_test:
                return ev.ConditionEvaluated(*head, bool(value), event.attempts)
            kind = ev.FannedOut if pending is not None and pending.node.is_fan else ev.ReactionOccurred
            return kind(*head, value, event.attempts)
        case _:
            raise InvalidEvent(f"{shown(event)} has no outcome that can be edited")


def rebuild(memory: Memory, event: Revision, handlers: Handlers) -> None:
    """Fold the log of *memory* again, now that *event* has revised it."""
    revisions = [*revisions_in(memory.log), event]
    again = Refold(handlers, revisions, memory.lineage, memory.page)
    for each in memory.log:
        again.fold(each)
    new = again.memory
    new.lineage.void = frozenset(again.void | again.failed) or NONE
    new.lineage.pad(memory.lineage, event.seq)
    if memory.children and not isinstance(event, ev.RunForked):
        new.children = {**memory.children, **(new.children or {})}  # they exist, whatever became of what started them
    become(memory, new, again.edited)
    take_effect(memory, event)


def become(memory: Memory, new: Memory, edits: Mapping[int, ev.AnyEvent]) -> None:
    """Give *memory* the content of *new*, which was folded from its log with these *edits*; the log object stays."""
    _keep_activations(memory, new)
    new.adding = memory.adding
    log = memory.log
    new.lineage.log = Edited(log, edits) if edits else log
    for slot in MemoryData.__slots__:
        setattr(memory, slot, getattr(new, slot))
    memory.log = log


def revisions_in(log: Iterable[ev.AnyEvent]) -> list[Revision]:
    """Return the revisions of *log*, in order."""
    return [event for event in log if isinstance(event, ev.REVISIONS)]


def take_effect(memory: Memory, event: Revision) -> None:
    """Apply what *event* says besides what is void."""
    if isinstance(event, ev.RunForked):
        memory.children = memory.dispatched = memory.attempts = memory.external = None
        memory.notified, memory.redacted = 0, ()
    elif isinstance(event, ev.RunUpgraded):
        old, plan = memory.plan, event.workflow.compiled
        memory.workflow, memory.plan = event.workflow, plan
        memory.lineage.follow(plan)
        memory.needs_context = tuple(dict.fromkeys((*memory.needs_context, *plan.required_context)))
        _forget_states(memory, old, plan)


def _forget_states(memory: Memory, old: Plan, plan: Plan) -> None:
    """Drop the states of components that keep another kind of state in *plan* than they did."""
    for name in set(memory.produced) | set(memory.partitions or ()):
        before, now = old.nodes.get(name), plan.nodes.get(name)
        if before is not None and (now is None or not is_same_kind(before, now)):
            memory.produced.pop(name, None)
            if memory.keyed is not None:
                memory.keyed.pop(name, None)
            if memory.partitions is not None:
                memory.partitions.pop(name, None)


def is_same_kind(one: Any, other: Any) -> bool:
    """Whether two nodes of one name make the same kind of fact, and keep the same kind of state."""
    if type(one) is not type(other) or getattr(one, "kind", None) is not getattr(other, "kind", None):
        return False
    mine, theirs = getattr(one, "state", None), getattr(other, "state", None)
    return getattr(mine, "by_key", None) == getattr(theirs, "by_key", None)


def _keep_activations(old: Memory, new: Memory) -> None:
    """Let the ready activations that are the same in both be the same objects; the others are newly ready."""
    waiting = {id(activation) for activation in old.newly_ready}
    kept: set[int] = set()
    newly_ready: list[Activation] = []
    for key, activation in list(old.ready.items()):
        again = new.at(key)
        if again is not None and is_same_work(activation, again) and _is_same_attempt(old, new, key):
            for field in Activation.__struct_fields__:
                setattr(activation, field, getattr(again, field))
            new.ready[key] = activation
            kept.add(id(activation))
            if id(activation) in waiting:
                newly_ready.append(activation)
    new.newly_ready = newly_ready + [each for each in new.ready.values() if id(each) not in kept]
    _keep_waits(old, new)


def _is_same_attempt(old: Memory, new: Memory, key: Key) -> bool:
    """Whether the attempt at *key* has the same token in both, if it has one, and was cancelled in both or in none."""
    if old.external is None and new.external is None:
        return True
    one, other = (None if each.external is None else each.external.get(key) for each in (old, new))
    mine, theirs = ((None, None) if each is None else (each.token, each.failed) for each in (one, other))
    return mine == theirs


def _keep_waits(old: Memory, new: Memory) -> None:
    """Let the waits that go on as before be the same objects; the others begin, also those that have a timer."""
    begins = {id(activation) for activation in old.newly_waiting or ()}
    begun: set[Key] = set()
    waits = new.waiting or {}
    for key, waiting in waits.items():
        before = (old.waiting or {}).get(key)
        if before is None or before.due != waiting.due or not is_same_work(before.activation, waiting.activation):
            continue
        for field in Activation.__struct_fields__:
            setattr(before.activation, field, getattr(waiting.activation, field))
        waits[key] = replace(waiting, activation=before.activation)
        if id(before.activation) not in begins:
            begun.add(key)
    new.newly_waiting = [each.activation for key, each in waits.items() if key not in begun]


def is_same_work(one: Activation, other: Activation) -> bool:
    """Whether two activations at the same key run the same function on the same facts and versions."""
    mine, theirs = one.node.component, other.node.component
    return (
        (mine is theirs or mine.identity == theirs.identity)
        and same_facts(one.facts, other.facts)
        and len(one.pins) == len(other.pins)
        and all(map(same_pin, one.pins, other.pins))
    )


def same_facts(ones: Sequence[Cell], others: Sequence[Cell]) -> bool:
    """Whether two activations work on the same facts."""
    return len(ones) == len(others) and all(map(_same_fact, ones, others))


def _same_fact(one: Cell, other: Cell) -> bool:
    if one is other:
        return True
    if one.address != other.address:
        return False
    if isinstance(one, Element) and isinstance(other, Element) and isinstance(one.address, int):
        return one.producer == other.producer and one.origin == other.origin and one.value == other.value
    return True


def same_pin(one: Any, other: Any) -> bool:
    """Whether two versions that a reader refers to are the same, as far as their addresses tell."""
    if one is None or other is None or isinstance(one, int) or isinstance(other, int):
        return bool(one == other)
    return _same_fact(cast("Cell", one), cast("Cell", other))
