"""
Chooses the events of a log that may be removed: those before its snapshot that no result of an input needs (ADR 44).

A snapshot holds what the *future* needs.  The result of an input is in the past: it consists of values of its leaves.
So all events of the inputs that are not done, and of the last input, are kept; and if several ways lead to a leaf, all
events of the input that it made its latest fact of.
"""

from __future__ import annotations

from typing import Any, cast

from weft.core.events import InputReceived
from weft.core.lineage.history import PagedLog
from weft.core.run.leaf_orders import oldest_needed
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


def _begins(event: object, ordinal: int) -> bool:
    return isinstance(event, InputReceived) and event.ordinal <= ordinal
