"""
Merges two logs of one run that was advanced in two places.

The logs share a beginning.  The later events of the other log are added one by one: addresses are translated, and work
that this run has done already is recognised by its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.fold.event_equality import compare, same_events
from weft.core.fold.fold import record
from weft.core.fold.scope import Key
from weft.errors import InvalidEvent
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory


def merge_logs(memory: Memory, other: Sequence[ev.AnyEvent]) -> None:
    """
    Fold into *memory* the events that only *other*, a log of the same run, has.

    Raises:
        InvalidEvent: the logs belong to different runs, one of them was changed live since they parted, or it is
            impossible to tell whether they have received the same input.
    """
    mine = memory.log
    shared = 0
    while shared < min(len(mine), len(other)) and same_events(mine[shared], other[shared]):
        shared += 1
    if shared == 0:
        raise InvalidEvent("the logs have no common beginning: they belong to different runs")
    if shared < min(len(mine), len(other)):
        _tell_apart(mine[shared], other[shared])
    folded = {event.component for event in mine[shared:] if isinstance(event, ev.ReactionOccurred | ev.StateChanged)}
    done = {
        (event.component, event.inputs): event.seq
        for event in memory.lineage.standing()
        if isinstance(event, ev.ENDINGS)
    }
    moved = {seq: seq for seq in range(1, shared + 1)}
    for event in other[shared:]:
        seq = len(mine) + 1
        if isinstance(event, ev.InputReceived):
            if event.key is None or event.key not in (memory.keys or {}):
                moved[event.seq] = seq
                record(memory, replace(event, seq=seq, ordinal=memory.received + 1))
        elif isinstance(event, ev.SignalReceived | ev.SignalRefused):
            known = None if event.key is None else (memory.signal_keys or {}).get((event.name, event.key))
            moved[event.seq] = known or seq
            if known is None:
                record(memory, replace(event, seq=seq))
        elif isinstance(event, ev.Activated):
            inputs = _translate(event.inputs, moved)
            key = (event.component, inputs or ())
            if inputs is None:
                continue  # what it worked on was not taken over, so this run does it again
            if isinstance(event, _OF_ATTEMPTS):
                if memory.at(key) is not None:
                    record(memory, replace(event, seq=seq, inputs=inputs))
            elif isinstance(event, ev.TokenIssued | ev.CompletionAwaited | ev.FailureReceived):
                if _fits_token(memory, event, key):
                    record(memory, replace(event, seq=seq, inputs=inputs))
            elif isinstance(event, ev.RunnableCancelled):
                waiting = (memory.waiting or {}).get(key)
                if memory.at(key) is not None or (waiting is not None and waiting.attempt):
                    record(memory, replace(event, seq=seq, inputs=inputs))
            elif isinstance(event, ev.RunnableRetried):
                if key in (memory.letters or {}):
                    moved[event.seq] = seq
                    record(memory, replace(event, seq=seq, inputs=inputs))
            elif isinstance(event, ev.TimerStarted):
                if (waiting := (memory.waiting or {}).get(key)) is not None and waiting.due is None:
                    record(memory, replace(event, seq=seq, inputs=inputs))
            elif key in (memory.waiting or ()):
                signal = _signal_here(memory, event, moved)
                if signal is not None:
                    moved[event.seq] = done[key] = seq
                    record(memory, replace(event, seq=seq, inputs=inputs, **signal))
            elif memory.at(key) is None:
                if key in done:
                    moved[event.seq] = done[key]
            elif not (memory.ready[key].node.stateful and event.component in folded):
                # A state that both have changed cannot be taken over: it does not know of the change here.
                moved[event.seq] = done[key] = seq
                record(memory, replace(event, seq=seq, inputs=inputs))
        elif not isinstance(event, ev.RunTakenOver):  # that is about the process, and changes nothing
            raise InvalidEvent(f"one of the runs was changed since they parted: {event!r}")
    memory.newly_waiting = [waiting.activation for waiting in (memory.waiting or {}).values()]


_OF_ATTEMPTS = (ev.RunnableDispatched, ev.RunnableDelayed, ev.AttemptFailed, ev.ChildStarted)


def _fits_token(memory: Memory, event: ev.TokenIssued | ev.CompletionAwaited | ev.FailureReceived, key: Key) -> bool:
    """Whether *event*, of an external step, can happen in this log too: its token is the one that is in force here."""
    attempt = None if memory.external is None else memory.external.get(key)
    has_token = attempt is not None and attempt.token is not None
    if isinstance(event, ev.FailureReceived):
        return has_token
    return memory.at(key) is not None and has_token != isinstance(event, ev.TokenIssued)


def _signal_here(memory: Memory, event: ev.Activated, moved: dict[int, int]) -> dict[str, int] | None:
    """Return what *event*, the end of a wait, says of its signal; None if another wait of this log has taken that."""
    if not isinstance(event, ev.SignalTaken):
        return {}
    signal = moved.get(event.signal, 0)
    kept = [kept.seq for signals in (memory.signals or {}).values() for kept in signals]
    return {"signal": signal} if signal in kept else None


def _tell_apart(one: ev.AnyEvent, other: ev.AnyEvent) -> None:
    """Refuse two inputs that may be the same: taking one twice or losing one would go unnoticed."""
    if (
        isinstance(one, ev.InputReceived)
        and isinstance(other, ev.InputReceived)
        and one.key is None
        and replace(one, value=None) == replace(other, value=None)
        and compare(one.value, other.value) is None
    ):
        raise InvalidEvent(
            f"event {one.seq} is an input in both logs, and it is impossible to tell whether it is the same: "
            f"{type(one.value).__name__} has no == that returns a bool, and no canonical form; "
            "give inputs a key, plan(value, key=...), or the class a plain __eq__"
        )


def _translate(inputs: tuple[Address, ...], moved: dict[int, int]) -> tuple[Address, ...] | None:
    """Return the addresses in this log of *inputs* of the other log; None if one of them is not here."""
    found: list[Address] = []
    for address in inputs:
        seq, *index = (address,) if isinstance(address, int) else address
        if seq not in moved:
            return None
        found.append((moved[seq], index[0]) if index else moved[seq])
    return tuple(found)
