"""
The decisions of a worker, as functions of numbers: how many runs to claim, when to look again, when to let a run go.

Nothing here knows a clock, a store or a runner.
"""

from __future__ import annotations

from typing import Final

BATCH: Final = 256
"""How many runs are claimed at once, at most."""
POLL: Final = 2.5
"""Seconds between two looks at the queue, if nothing was heard: an idle worker makes less than a statement a second."""
SHORT: Final = 1.0
"""A run that is due within so many seconds stays in memory."""
LINGER: Final = 10.0
"""For how many seconds a run that waits for a message stays in memory: the next one then costs no load."""
DEFERRED: Final = 30.0
"""After how many seconds a run that this worker could not continue is offered again."""
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0
"""Seconds before something that failed is tried again, at first and at most."""
_LONG_LIFE: Final = 60.0
"""A process that has lived for so many seconds has not failed to start."""


def room(active: int, concurrency: int, *, is_asked: bool) -> int:
    """
    Return how many runs to claim for a worker with so many *active* runs.

    A statement for each run that ends would be a waste: unless the queue *is_asked* for another reason, a quarter
    of the places is filled at once.

    >>> room(0, 100, is_asked=False), room(80, 100, is_asked=False), room(80, 100, is_asked=True)
    (100, 0, 20)
    >>> room(100, 100, is_asked=True), room(0, 1000, is_asked=True)
    (0, 256)
    """
    free = concurrency - active
    if free <= 0 or (not is_asked and free * 4 < concurrency):
        return 0
    return min(free, BATCH)


def poll(lease: float) -> float:
    """
    Return how long to wait before the queue is looked at again: with a short lease, dead owners matter sooner.

    >>> poll(10.0), poll(2.0)
    (2.5, 1.0)
    """
    return min(POLL, lease / 2)


def leaves_at(since: float, wake_at: float | None) -> float | None:
    """
    Return when a run leaves memory that only waits *since* a time, until *wake_at* or for a message; None if it stays.

    >>> leaves_at(100.0, 100.5), leaves_at(100.0, 160.0), leaves_at(100.0, None)
    (None, 100.0, 110.0)
    """
    if wake_at is None:
        return since + LINGER
    return None if wake_at - since <= SHORT else since


def backoff(failures: int, draw: float) -> float:
    """
    Return how many seconds to wait after so many *failures* in a row; *draw*, from 0 to 1, spreads many processes.

    >>> backoff(1, 1.0), backoff(3, 1.0), backoff(3, 0.0), backoff(100, 1.0)
    (0.1, 0.4, 0.2, 10.0)
    """
    longest = min(_FIRST_WAIT * (1 << min(failures - 1, 30)), _LONGEST_WAIT)
    return longest * (0.5 + draw / 2)


def failures_after(failures: int, lived: float) -> int:
    """
    Return how many failures in a row a process has had that ended after it had *lived* for so many seconds.

    >>> failures_after(4, 0.5), failures_after(4, 3600.0)
    (5, 1)
    """
    return 1 if lived >= _LONG_LIFE else failures + 1
