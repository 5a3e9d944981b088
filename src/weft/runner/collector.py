"""
Changes the thresholds of Python's garbage collector while a runner has many live runs, or asks for it.

The thresholds belong to the whole process:

    >>> import gc
    >>> before = gc.get_threshold()
    >>> hold((1_000_000, 5, 20))
    >>> gc.get_threshold()
    (1000000, 5, 20)
    >>> release((1_000_000, 5, 20))
    >>> gc.get_threshold() == before
    True

If several runners ask for thresholds, or the application has set some itself, those with the rarest full collections
are in force.  The last runner that is closed restores the thresholds that were there before.  If the application has
switched the collector off, it stays off; if the application sets thresholds meanwhile, they stay as they are.
"""

from __future__ import annotations

import gc
import sys
import threading
from typing import Final, Literal, cast

from weft.errors import InvalidOption

Thresholds = tuple[int, int, int]
"""Thresholds of the collector: new objects before the young ones are examined, then how often before older ones."""

SELDOM: Final[Thresholds] = (10_000, 5, 20)
"""
For thousands of live runs: all objects are looked at after 1.2 million new ones instead of 77,000.

A young collection takes 3 to 10 ms and a middle one up to 30, so no run is kept from the loop for longer than by other
slices of work.  Garbage in cycles, such as a run that has left, stays until then: 200 MB at most, roughly.
"""

MANY: Final = 64
FEW: Final = 32
"""
With "auto": how many live runs make full collections rare, and with fewer than how many they are as before.

Runs that finish or leave memory are freed without the collector, so that little waits for it.
"""

_lock = threading.Lock()
_held: list[Thresholds] = []
"""The wishes of the runners that are open."""
_found: Thresholds = gc.get_threshold()
"""The thresholds that the application had set."""
_set: Thresholds | None = None
"""The thresholds that were set here, while a runner is open."""


def as_thresholds(given: object) -> Thresholds | Literal["auto"] | None:
    """
    Return the thresholds that *given* asks for; None if they are to stay as they are.

    Raises:
        InvalidOption: it is neither a known name nor three numbers.
    """
    if given == "auto":
        return "auto"
    if given == "unchanged":
        return None
    if given == "seldom":
        return SELDOM
    three = cast("tuple[object, ...]", given) if isinstance(given, tuple) else ()
    if len(three) != 3 or not all(isinstance(each, int) and 0 < each < 1 << 31 for each in three):
        use = "use 'auto', 'unchanged', 'seldom' or three numbers, as gc.set_threshold()"
        raise InvalidOption(f"collector={given!r}: {use}")
    return cast("Thresholds", three)


class CollectorWatch:
    """Makes full collections rare while one runner has many live runs."""

    __slots__ = ("few", "many")

    def __init__(self) -> None:
        self.many = sys.maxsize
        """Call :meth:`grown` when this many runs are live."""
        self.few = -1
        """Call :meth:`shrunk` when fewer runs than this are live."""

    def open(self) -> None:
        """Begin to look at how many live runs there are."""
        self.many = MANY

    def grown(self) -> None:
        """Make full collections rare."""
        hold(SELDOM)
        self.many, self.few = sys.maxsize, FEW

    def shrunk(self) -> None:
        """Restore the thresholds."""
        release(SELDOM)
        self.many, self.few = MANY, -1

    def close(self) -> None:
        """Leave the collector alone from now on."""
        if self.few >= 0:
            self.shrunk()
        self.many = sys.maxsize


def hold(thresholds: Thresholds) -> None:
    """Put *thresholds* in force, unless rarer ones are, until they are released."""
    global _found, _set  # noqa: PLW0603 - the collector is one for the process, too
    with _lock:
        now = gc.get_threshold()
        if now != _set:
            _found = now
        _held.append(thresholds)
        _set = _apply()


def release(thresholds: Thresholds) -> None:
    """Withdraw a request for *thresholds*."""
    global _set  # noqa: PLW0603
    with _lock:
        _held.remove(thresholds)
        if gc.get_threshold() == _set:  # else the application has set others meanwhile
            _set = _apply()
        if not _held:
            _set = None


def _apply() -> Thresholds:
    is_off = not _found[0]
    gc.set_threshold(*(_found if is_off else max((_found, *_held), key=_until_all)))
    return gc.get_threshold()


def _until_all(thresholds: Thresholds) -> int:
    """Return about how many new objects there may be before the next full collection."""
    young, middle, old = thresholds
    return young * (middle + 1) * (old + 1)
