"""
The run that continues another one: it begins with the states of that one, and with the inputs that still wait.

The future needs nothing of an input that is done, except the states that it has left behind.  An input that waits has
activations in the middle of its graph, which follow from its events: these are copied, in their order, under new
numbers.  Where another input has changed a state in between, the state is carried at that place, so that every copied
event finds the versions that it found before.

Invariants:

1. No function of the user is called, and the old run is not changed.
2. The new run waits for what the old run waits for, in the same order and until the same times, and nothing in it is
   ready.  A run that cannot be carried like this is refused: :class:`CannotCarry` says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.core.fold.memory import Memory
from weft.core.fold.scope import Key
from weft.core.run.run import Run
from weft.errors import InvalidEvent
from weft.typing import Address

_COPIED: Final = (
    *(ev.ReactionOccurred, ev.FannedOut, ev.StateChanged, ev.ConditionEvaluated, ev.SignalTaken, ev.TimerStarted),
    *(ev.TimerFired, ev.CompletionReceived, ev.RunnableFailed, ev.RunnableSkipped, ev.RunnableRetried),
)
"""The events of an activation that say what came of it, and until when it waits."""


class CannotCarry(Exception):
    """A run cannot be continued as a new one now, for the reason that it names."""


class Begun(NamedTuple):
    """A run that continues another one."""

    run: Run
    inputs: tuple[tuple[int, int], ...]
    """The inputs that still wait: their ordinals in the old run and in this one."""


def begun_from(old: Run, new_id: str, by: str | None) -> Begun:
    """
    Return a run that begins with the workflow, states, policies, seen keys, kept signals and waits of *old*.

    Raises:
        CannotCarry: what waits in *old* cannot be carried.
        HistoryNotLoaded, HistoryTruncated: events that are needed for that are not in memory, or were removed.
    """
    memory = old.memory
    options = getattr(memory.log[0], "options", None)
    new = Run(memory.workflow, id=new_id, context=old.context, options=options, by=by)
    _add(new, ev.ContinuedFrom(0, old.id, tuple(memory.keys or ()), tuple(memory.signal_keys or ())))
    if not memory.waiting:
        for state in _states(memory):
            _add(new, state)
        if memory.rules is not None:
            _add(new, ev.PolicyChanged(0, memory.rules, by))
        for signal in sorted(_kept_signals(memory), key=lambda each: each.seq):
            _add(new, signal)
        return Begun(new, ())
    copy = _Copy(memory, new)
    try:
        copy.events()
    except InvalidEvent as error:
        raise CannotCarry(f"what waits does not fit the workflow any more ({error})") from error
    if memory.rules is not None:
        _add(new, ev.PolicyChanged(0, memory.rules, by))
    if memory.is_ending and not new.memory.is_ending:
        _add(new, ev.RunFinished(0, by))
    copy.check()
    return Begun(new, tuple(copy.ordinals.items()))


class _Copy:
    """Copies the inputs of a run that wait into another one."""

    def __init__(self, memory: Memory, new: Run) -> None:
        self._memory, self._new = memory, new
        pending = [each.activation for each in (memory.waiting or {}).values()]
        pending += (memory.blocked or {}).values()
        self._open = {activation.scope.root.index for activation in pending}
        self._seqs: dict[int, int] = {}
        """By number of an event that was copied: its new number."""
        self.ordinals: dict[int, int] = {}
        """By ordinal of an input that was copied: its new ordinal."""
        self._changes = sorted(
            ((_seq(item), name, item) for name, made in memory.produced.items() for item in made),
            key=lambda change: change[0],
            reverse=True,
        )
        """The facts of components that keep state or are read, the last one first."""
        self._changed: dict[str, Any] = {}
        """The last of them that other inputs have made since something was copied."""

    def events(self) -> None:
        """Copy the events, and carry the states."""
        memory = self._memory
        standing = list(memory.lineage.standing())
        signals = {each.seq for each in _kept_signals(memory)}
        signals |= {event.signal for event in standing if isinstance(event, ev.SignalTaken) and self._is_open(event)}
        for event in standing:
            if isinstance(event, ev.InputReceived):
                if event.ordinal in self._open:
                    ordinal = self.ordinals[event.ordinal] = len(self.ordinals) + 1
                    self._copy(event, ordinal=ordinal)
            elif isinstance(event, ev.SignalReceived):
                if event.seq in signals:
                    self._copy(event)
            elif isinstance(event, _COPIED) and self._is_open(event):
                self._copy_activated(event)
        self._carry_until(len(memory.log) + 1)
        for name, by_key in (memory.partitions or {}).items():
            for key, last in by_key.items():
                if last.seq not in self._seqs:
                    _add(self._new, ev.StateCarried(0, name, last.state, key, _is_done(last)))

    def _is_open(self, event: ev.Activated) -> bool:
        return self._memory.lineage.ordinal(event.inputs[0]) in self._open

    def _copy_activated(self, event: Any) -> None:
        changed: dict[str, Any] = {"inputs": self._moved(event.inputs)}
        if isinstance(event, ev.SignalTaken):
            changed["signal"] = self._seqs[event.signal]
        if isinstance(event, ev.RunnableRetried) and event.values is None:
            key = (event.component, changed["inputs"])
            if key not in (self._new.memory.letters or {}):  # the failure had halted its branch, and does not count
                return
        if isinstance(event, ev.CompletionReceived):  # there is no attempt that it could complete
            self._carry_until(event.seq)
            self._add(event.seq, ev.ReactionOccurred(0, event.component, changed["inputs"], event.value))
        else:
            self._copy(event, **changed)

    def _copy(self, event: Any, **changed: Any) -> None:
        self._carry_until(event.seq)
        self._add(event.seq, replace(event, **changed))

    def _add(self, seq: int, event: Any) -> None:
        _add(self._new, event)
        self._seqs[seq] = len(self._new.memory.log)

    def _carry_until(self, seq: int) -> None:
        """Carry the states that inputs which are not copied have changed before the event *seq*."""
        while self._changes and self._changes[-1][0] < seq:
            at, name, item = self._changes.pop()
            if at in self._seqs:
                self._changed.pop(name, None)
            else:
                self._changed[name] = item
        for name, item in self._changed.items():
            _add(self._new, ev.StateCarried(0, name, item.value, None, _is_done(item)))
        self._changed.clear()

    def _moved(self, addresses: Iterable[Address]) -> tuple[Address, ...]:
        """Return where the facts at *addresses* stand in the new run."""
        return tuple(map(self._moved_one, addresses))

    def _moved_one(self, address: Address) -> Address:
        seq, rest = (address, None) if isinstance(address, int) else (address[0], address[1])
        if seq < 0:
            return self._moved_absent(-seq - 1)
        if seq not in self._seqs:
            raise CannotCarry("what waits depends on an input that is done")
        return self._seqs[seq] if rest is None else cast("Address", (self._seqs[seq], rest))

    def _moved_absent(self, place: int) -> Address:
        """Return where a fact without an event stands in the new run: it follows from an event, after others."""
        lineage, new = self._memory.lineage, self._new.memory.lineage
        since = list(lineage.absent_since or ())
        nth = since[:place].count(since[place])
        moved = self._seqs.get(since[place])
        found = [at for at, event in enumerate(new.absent_since or ()) if event == moved]
        if moved is None or nth >= len(found):
            raise CannotCarry("what waits depends on an input that is done")
        return -found[nth] - 1

    def check(self) -> None:
        """
        Check that the new run waits for what the old one waits for.

        Raises:
            CannotCarry: it does not.
        """
        old, new = self._memory, self._new.memory
        waits = [(self._moved_key(key), each.due, each.is_relative) for key, each in (old.waiting or {}).items()]
        blocked = {self._moved_key(key) for key in old.blocked or ()}
        if (
            waits != [(key, each.due, each.is_relative) for key, each in (new.waiting or {}).items()]
            or blocked != set(new.blocked or ())
            or new.ready
            or new.letters
        ):
            raise CannotCarry("what waits does not fit the workflow any more")

    def _moved_key(self, key: Key) -> Key:
        return key[0], self._moved(key[1])


def _states(memory: Memory) -> list[ev.StateCarried]:
    """Return the last values of the components that keep state, or that others read."""
    found: list[ev.StateCarried] = []
    for name, made in memory.produced.items():
        if len(made):
            last: Any = made[-1]
            found.append(ev.StateCarried(0, name, last.value, None, _is_done(last)))
    for name, by_key in (memory.partitions or {}).items():
        found += [ev.StateCarried(0, name, last.state, key, _is_done(last)) for key, last in by_key.items()]
    return found


def _kept_signals(memory: Memory) -> list[ev.SignalReceived]:
    return [signal for signals in (memory.signals or {}).values() for signal in signals]


def _seq(item: Any) -> int:
    """Return the number of the event that has made a fact."""
    at: Address = item.address
    return at if isinstance(at, int) else at[0]


def _is_done(last: Any) -> bool:
    return bool(getattr(last, "done", False))


def _add(run: Run, event: Any) -> None:
    record(run.memory, replace(event, seq=len(run.memory.log) + 1))
