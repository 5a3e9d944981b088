"""
The rules of schedules: at which nominal times they fire.  Pure functions of time; nothing here knows a clock.

    >>> rule = Cron("30 2 * * *", "Europe/Berlin")
    >>> winter = datetime(2026, 3, 28, tzinfo=UTC).timestamp()
    >>> [shown(at) for at in between(rule, winter, winter + 3 * 86_400)]
    ['2026-03-28T01:30:00Z', '2026-03-29T01:00:00Z', '2026-03-30T00:30:00Z']

On 29 March 2026 there is no 02:30 in Berlin: the firing happens at the end of the gap, at 03:00.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from weft.errors import InvalidOption

_MICRO: Final = 1_000_000
SHORTEST: Final = 1.0
"""Seconds of the shortest interval."""
_FIRST_WINDOW: Final = 3600.0
"""Seconds in which the last firings before a time are looked for at first."""


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """At the times that *expression* names, in *zone*."""

    expression: str
    zone: str = "UTC"


class Every(msgspec.Struct, frozen=True, tag="every"):
    """Each multiple of a number of seconds since the epoch."""

    seconds: float


class Once(msgspec.Struct, frozen=True, tag="once"):
    """At one time."""

    at: float


Timing: TypeAlias = Cron | Every | Once


def check(rule: Timing) -> None:
    """
    Refuse a rule that cannot fire.

    Raises:
        InvalidOption: it cannot fire; the error says why.
    """
    match rule:
        case Cron(expression, zone):
            _zone(zone)
            if after(rule, 0.0) is None:
                raise InvalidOption(f"cron={expression!r} names no time")
        case Every(seconds):
            if not SHORTEST <= seconds < float("inf"):
                raise InvalidOption(f"every={seconds!r}: use seconds, at least {SHORTEST:g}")
        case Once(at):
            if not 0 <= at < float("inf"):
                raise InvalidOption(f"at={at!r}: use a time after 1970")


def after(rule: Timing, time: float) -> float | None:
    """
    Return the first nominal time after *time*; None if there is none.

    >>> after(Every(900), 1_800.0), after(Once(5.0), 4.0), after(Once(5.0), 5.0)
    (2700.0, 5.0, None)
    """
    return next(firings(rule, time), None)


def firings(rule: Timing, time: float) -> Iterator[float]:
    """Yield the nominal times after *time*, in order."""
    match rule:
        case Cron(expression, zone):
            yield from _cron_firings(expression, _zone(zone), time)
        case Every(seconds):
            step = round(seconds * _MICRO)
            first = int(round(time * _MICRO) // step + 1)
            yield from (number * step / _MICRO for number in itertools.count(first))
        case Once(at):
            if at > time:
                yield at


def between(rule: Timing, start: float, end: float, limit: int | None = None) -> list[float]:
    """Return the nominal times after *start* up to *end*, in order; the first *limit* of them."""
    found = itertools.takewhile(lambda at: at <= end, firings(rule, start))
    return list(itertools.islice(found, limit))


def latest(rule: Timing, start: float, end: float, limit: int) -> list[float]:
    """
    Return the last *limit* nominal times after *start* up to *end*, in order.

    It looks at a span before *end* that is doubled until it holds enough of them, so a year costs little.

    >>> latest(Every(60), 0.0, 1e9, 2)
    [999999900.0, 999999960.0]
    """
    if limit <= 0 or end <= start:
        return []
    window = _FIRST_WINDOW
    while True:
        begin = max(start, end - window)
        found = between(rule, begin, end)
        if len(found) >= limit or begin <= start:
            return found[-limit:]
        window *= 2


def firing_id(name: str, at: float) -> str:
    """
    Return the id of the run of the schedule *name* for the nominal time *at*.

    >>> firing_id("nightly", 0.0), firing_id("fast", 1.5)
    ('nightly@1970-01-01T00:00:00Z', 'fast@1970-01-01T00:00:01.500000Z')
    """
    return f"{name}@{shown(at)}"


def delay(name: str, at: float, jitter: float) -> float:
    """
    Return by how many seconds the firing of a schedule is delayed: less than *jitter*, and the same everywhere.

    >>> delay("nightly", 0.0, 0.0), 0 <= delay("nightly", 0.0, 10.0) < 10
    (0.0, True)
    """
    if not jitter:
        return 0.0
    drawn = int.from_bytes(hashlib.sha256(firing_id(name, at).encode()).digest()[:4], "big")
    return jitter * (drawn / (1 << 32))


def shown(at: float) -> str:
    """Return a time as text, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _zone(name: str) -> Any:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError, TypeError) as error:
        raise InvalidOption(
            f"timezone={name!r} is not known here; use a name such as 'Europe/Berlin' (Windows needs tzdata)"
        ) from error


@functools.cache
def _cronsim() -> Any:
    try:
        return importlib.import_module("cronsim")
    except ModuleNotFoundError as error:
        raise InvalidOption("cron= needs cronsim, which is not installed: pip install 'weft[schedules]'") from error


def _cron_firings(expression: str, zone: Any, time: float) -> Iterator[float]:
    """
    Yield the times of a cron *expression* in *zone* after *time*.

    If *time* is in the second pass of an hour that comes twice, the library begins in the first: firings that are not
    after *time*, or not after the one before, are left out.
    """
    library, last = _cronsim(), time
    try:
        found = library.CronSim(expression, datetime.fromtimestamp(time, UTC).astimezone(zone))
    except library.CronSimError as error:
        raise InvalidOption(f"cron={expression!r} is not a cron expression: {error}; use e.g. '0 3 * * *'") from error
    for each in found:
        at = each.timestamp()
        if at > last:
            last = at
            yield at
