"""
Where a page of a list ends, as a part of the address of the next one.

It says where the last run stood in the order of the list, and not only which it was: that run may be gone by then, or
wait for another time.

    >>> last = RunRecord(id="a:b", workflow="w", status="waiting", created_at=1.5, updated_at=2.0, wake_at=9.0)
    >>> written(last)
    'waiting:1.5:9.0:a:b'
    >>> cursor = read(written(last))
    >>> cursor.id, cursor.status, cursor.created_at, cursor.wake_at
    ('a:b', 'waiting', 1.5, 9.0)
    >>> read("waiting:soon::r") is None
    True
"""

from __future__ import annotations

import math
from typing import cast, get_args

from weft.ports.store import RunRecord, RunStatus


def written(record: RunRecord) -> str:
    """Return the place of *record* as text."""
    wake_at = "" if record.wake_at is None else repr(record.wake_at)
    return f"{record.status}:{record.created_at!r}:{wake_at}:{record.id}"


def read(text: str | None) -> RunRecord | None:
    """Return a record that has the place in *text*; None, which is the first page, if there is none in it."""
    status, _, rest = (text or "").partition(":")
    created, _, rest = rest.partition(":")
    wake, _, id = rest.partition(":")
    try:
        created_at, wake_at = float(created), float(wake) if wake else None
    except ValueError:
        return None
    if status not in get_args(RunStatus) or not math.isfinite(created_at) or not math.isfinite(wake_at or 0.0):
        return None
    known = cast("RunStatus", status)
    return RunRecord(id=id, workflow="", status=known, created_at=created_at, updated_at=created_at, wake_at=wake_at)
