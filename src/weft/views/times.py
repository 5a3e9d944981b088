"""When events happened, as far as the log says so: an event without a time happened within 10 ms of one before it."""

from __future__ import annotations

from typing import Any


def time_of(event: Any) -> float | None:
    """
    Return when *event* happened, in seconds since the epoch; None if it does not say so.

    >>> from weft.core import events as ev
    >>> time_of(ev.TimerStarted(4, "approved", (3,), due=3_600.0, at=60.0))
    60.0
    """
    timing = getattr(event, "timing", None)
    at: float | None = getattr(event, "at", None) if timing is None else timing.at
    return at or None
