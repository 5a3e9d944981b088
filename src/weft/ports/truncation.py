"""
The checks that every store makes before it removes the beginning of a log.

    >>> check_truncation("r", 3, 4, StoredSnapshot(2, b""), {1, 3, 4})
    >>> check_truncation("r", 4, 4, StoredSnapshot(2, b""), {1, 3, 4})
    Traceback (most recent call last):
        ...
    weft.errors.InvalidAppend: the log of run 'r' cannot begin with event 4: its snapshot is of 2 events; ...
"""

from __future__ import annotations

from collections.abc import Container

from weft.errors import InvalidAppend
from weft.ports.store import StoredSnapshot
from weft.typing import RunId


def check_truncation(
    run: RunId, first: int, head: int, snapshot: StoredSnapshot | None, begins: Container[int]
) -> None:
    """
    Refuse to remove the events before number *first* of a log with this *head*; its segments *begin* at these.

    Raises:
        InvalidAppend: the snapshot does not cover them, or a segment would have to be cut.
    """
    if snapshot is None or snapshot.position < first - 1:
        has = "it has no snapshot" if snapshot is None else f"its snapshot is of {snapshot.position} events"
        raise InvalidAppend(f"the log of run {run!r} cannot begin with event {first}: {has}; write one first")
    if first != head + 1 and first not in begins:
        raise InvalidAppend(f"the log of run {run!r} cannot begin with event {first}: that is inside a segment")


def too_old_snapshot(run: RunId, position: int, first: int) -> str:
    """Return why a snapshot at *position* is refused: events after it were removed."""
    return (
        f"a snapshot of {position} events of run {run!r}, whose log begins with event {first}: those between were "
        "removed; write one of a later position"
    )
