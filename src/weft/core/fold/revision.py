"""
Computes what a revision of a log makes void, before it is recorded (ADR 32).

The log is folded twice, side by side: as it was, and as it would be.  An event stands if its activation is the same in
both: the same component at work on the same facts, which reads the same versions and continues the same state.
Everything else follows from the fold: what depended on a void event has no activation in the second one.

Nothing is changed, and no user function is called.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from weft.core import events as ev
from weft.core.fold.fold import refolding
from weft.core.fold.memory import Memory
from weft.core.fold.refold import Revision, ranges, revisions_in, same_facts, same_pin
from weft.core.fold.scope import Activation, Key, Waiting
from weft.core.functions.references import AllValues
from weft.core.lineage.lineage import Lineage
from weft.typing import Address


class Consequences(msgspec.Struct, frozen=True, eq=False):
    """The consequences of a revision."""

    void: frozenset[int]
    """The positions of the events that the revision makes void."""
    memory: Memory
    """The memory after it; not to be driven."""

    @property
    def positions(self) -> ev.Positions:
        """The void events, as the event of the revision says it."""
        return ranges(self.void)


def consequences(
    log: Sequence[ev.AnyEvent],
    known: Lineage,
    draft: Revision,
    *,
    edited: Mapping[int, frozenset[Address]] | None = None,
    again: Collection[Key] = (),
    components: Collection[str] = (),
) -> Consequences:
    """
    Return what *draft*, a revision of *log* whose void events are not known yet, leads to.

    Args:
        known: the lineage of the log.
        edited: by position of an event that a fork edits: the addresses of the facts that have other values then.
        again: the activations that run again whatever they came to.
        components: the nodes whose activations all run again, for the inputs that an upgrade moves.

    Raises:
        HistoryTruncated: the beginning of the log was removed.
    """
    known.check_whole()
    comparison = _Comparison(log, known, draft, edited or {}, frozenset(again), frozenset(components))
    for event in log:
        comparison.take(event)
    return comparison.result()


class _Comparison:
    """Two folds of one log, side by side."""

    def __init__(
        self,
        log: Sequence[ev.AnyEvent],
        known: Lineage,
        draft: Revision,
        edits: Mapping[int, frozenset[Address]],
        again: frozenset[Key],
        components: frozenset[str],
    ) -> None:
        past = revisions_in(log)
        self._before, self._after = refolding(past, known), refolding([*past, draft], known)
        self._known = frozenset(self._before.void)
        self._edits, self._again, self._components = edits, again, components
        self._moved = frozenset(draft.inputs) if isinstance(draft, ev.RunUpgraded) else frozenset[int]()
        self._edited: set[Address] = set()
        """The addresses of facts with other values, so far."""
        self._altered: set[str] = set()
        """Components whose state was edited: whatever they made later continues from that."""
        self._timers: dict[Key, int] = {}
        """By activation that waits for time: where its timer was started."""
        self._outside: dict[Key, list[int]] = {}
        """By external or cancelled step whose attempt has not ended: where the log says so."""
        self._is_fork = isinstance(draft, ev.RunForked)
        self._same: dict[str, int] = {}
        """By component: how many of its facts are the same in both."""

    def take(self, event: ev.AnyEvent) -> None:
        """Fold *event* in both, unless it is void in the second."""
        seq = event.seq
        if seq not in self._after.void and isinstance(event, ev.Activated) and not self._stands(event):
            self._after.void.add(seq)
            if isinstance(event, ev.SignalTaken):
                self._use_up(event)
        self._before.fold(event)
        self._after.fold(event)
        if isinstance(event, ev.TimerStarted) and seq not in self._after.void:
            self._timers[event.component, event.inputs] = seq
        if self._is_fork and isinstance(event, ev.Activated) and seq not in self._after.void:
            self._note_outside(event)
        addresses = self._edits.get(seq)
        if addresses is None or seq in self._after.void:
            return
        self._edited |= addresses
        node = self._after.memory.plan.nodes.get(getattr(event, "component", ""))
        if getattr(node, "stateful", False):
            self._altered.add(event.component)  # type: ignore[union-attr]

    def _use_up(self, taken: ev.SignalTaken) -> None:
        """Make the signal of *taken*, which is void, void too: it was the answer to that wait."""
        signal, after = self._before.memory.log[taken.signal - 1], self._after
        if isinstance(signal, ev.SignalReceived) and signal.seq not in after.void:
            after.void.add(signal.seq)
            after.memory.take_signal(signal.name, signal.seq)

    def _note_outside(self, event: ev.Activated) -> None:
        """Note the events about the present attempt of an external step, or of a step that was just cancelled."""
        key = (event.component, event.inputs)
        if isinstance(event, ev.OUTSIDE):
            self._outside.setdefault(key, []).append(event.seq)
        elif isinstance(event, (ev.AttemptFailed, *ev.ENDINGS)):
            self._outside.pop(key, None)

    def _ask_again(self) -> None:
        """Let the external steps that are open in a fork begin again: their tokens belong to the original run."""
        memory = self._after.memory
        for key, seqs in self._outside.items():
            self._after.void.update(seqs)
            activation = memory.take_waiting(key)
            if activation is not None:
                memory.ready[key] = activation

    def _start_timers_again(self) -> None:
        """Make the timers of waits that go on with other arguments void, so that they start again."""
        before, after = self._before.memory.waiting or {}, self._after.memory.waiting or {}
        for key, waiting in after.items():
            known = before.get(key)
            if waiting.due is None or known is None or waiting.attempt:
                continue
            if known.activation.node.component.identity != waiting.activation.node.component.identity:
                self._after.void.add(self._timers[key])
                after[key] = Waiting(waiting.activation)

    def result(self) -> Consequences:
        """Return the consequences for the whole log."""
        after = self._after
        self._ask_again()
        self._start_timers_again()
        after.memory.lineage.void = frozenset(after.void | after.failed)
        return Consequences(frozenset(after.void) - self._known, after.memory)

    def _stands(self, event: ev.Activated) -> bool:
        """Whether *event* is about the same work in both folds."""
        key: Key = (event.component, event.inputs)
        old, new = _activation(self._before.memory, event), _activation(self._after.memory, event)
        if old is None or new is None or key in self._again:
            return False
        node = new.node
        if event.component in self._altered or not _fits(event, old, new):
            return False
        if node.owner in self._components and new.scope.root.address in self._moved:
            return False
        return (
            old.node.kind is node.kind
            and same_facts(old.facts, new.facts)
            and not any(fact.address in self._edited for fact in new.facts)
            and self._reads_the_same(old, new)
        )

    def _reads_the_same(self, old: Activation, new: Activation) -> bool:
        if len(old.pins) != len(new.pins):
            return False
        for reading, one, other in zip(new.node.readings, old.pins, new.pins, strict=True):
            if not same_pin(one, other) or getattr(other, "address", None) in self._edited:
                return False
            if isinstance(reading.read, AllValues) and not self._are_same(reading.target.name, other):
                return False
        return True

    def _are_same(self, name: str, count: int) -> bool:
        """Whether the first *count* facts of *name* are the same in both, and none of them was edited."""
        old, new = self._before.memory.produced.get(name, []), self._after.memory.produced.get(name, [])
        same = self._same.get(name, 0)
        while same < count and old[same].address == new[same].address and new[same].address not in self._edited:
            same += 1
        self._same[name] = same
        return same >= count


def _activation(memory: Memory, event: ev.Activated) -> Activation | None:
    """Return the activation in *memory* that *event* is about: a dead letter, for what happens to these."""
    key = (event.component, event.inputs)
    letter = (memory.letters or {}).get(key)
    if isinstance(event, ev.RunnableRetried):
        return None if letter is None else letter.activation
    if isinstance(event, ev.RunnableSkipped) and letter is not None:
        return letter.activation
    return memory.active(key)


def _fits(event: ev.Activated, old: Activation, new: Activation) -> bool:
    """Whether the node of *new*, perhaps of another plan than that of *old*, can have made *event*."""
    wait, state = new.node.wait, new.node.state
    if isinstance(event, ev.SignalTaken | ev.TimerFired | ev.TimerStarted):
        before = old.node.wait
        return wait is not None and before is not None and wait.signal == before.signal
    if wait is not None and not isinstance(event, ev.RunnableFailed | ev.RunnableSkipped | ev.RunnableRetried):
        return False
    if isinstance(event, ev.StateChanged):
        return (
            state is not None
            and all(part in state.fires for part in event.fired)
            and (event.key is None or state.by_key)
        )
    return True
