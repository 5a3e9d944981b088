"""
Chooses the events of a log that may be removed: those before its snapshot that no result of an input needs (ADR 44).

A snapshot holds what the *future* needs.  The result of an input is in the past: it consists of values of its leaves.
So all events of the inputs that are not done, and of the last input, are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from weft.core.events import InputReceived
from weft.core.fold.memory import Memory
from weft.core.fold.scope import Activation
from weft.core.lineage.history import PagedLog
from weft.core.run.run import Run


async def last_unneeded(run: Run, position: int) -> int:
    """
    Return the last event that may be removed from the log of *run*, which was restored from a snapshot at *position*.

    It is at most *position*.
    """
    ordinal, log = oldest_needed(run.memory), cast("Any", run.memory.log)
    assert isinstance(log, PagedLog)  # noqa: S101 - it was restored
    if ordinal is None or any(_begins(event, ordinal) for event in log.tail):
        return position
    for seq in range(position, log.removed, -1):
        await log.history.fetch(seq)
        if _begins(log.history.event(seq), ordinal):
            return seq - 1
    return log.removed


def oldest_needed(memory: Memory) -> int | None:
    """Return the number of the oldest input whose result needs the log; None if no result does."""
    wiring = memory.workflow.wiring
    if not memory.received:
        return None
    if memory.received == 1 and all(wiring.regions[name] is None for name in memory.workflow.leaves):
        return None  # its results are the latest facts of the leaves, which a snapshot has
    if any(name in (memory.keyed or ()) for name in memory.workflow.leaves):
        return 1  # the places of its facts are counted from the first input on
    return min((memory.received, *(activation.scope.root.index for activation in _open(memory))))


def _open(memory: Memory) -> Iterator[Activation]:
    yield from memory.ready.values()
    yield from (memory.blocked or {}).values()
    yield from (each.activation for each in (memory.waiting or {}).values())


def _begins(event: object, ordinal: int) -> bool:
    return isinstance(event, InputReceived) and event.ordinal <= ordinal
