"""
The decisions of a worker, as functions of numbers: how many runs to claim, when to poll again, when to release a run.

Nothing here knows a clock, a store or a runner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from weft.ports.workers import Load

BATCH: Final = 256
"""How many runs are claimed at once, at most."""
POLL: Final = 2.5
"""Seconds between two looks at the queue without a notification: less than a statement a second when idle."""
SHORT: Final = 1.0
"""A run that is due within this many seconds stays in memory."""
LINGER: Final = 10.0
"""Seconds that a run waiting for a message stays in memory: the next message then costs no load."""
UNUSED_TURN: Final = 1.0
"""Seconds after which an unused turn of a rate is lost."""
DEFERRED: Final = 30.0
"""Seconds until a run that this worker could not continue is offered again."""
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0
"""Seconds before something that failed is tried again, at first and at most."""
_LONG_LIFE: Final = 60.0
"""A process that has lived this long, in seconds, has not failed to start."""


SLACK: Final = 8
"""How many runs a worker may have above its share before it lets some go."""
LET_GO: Final = 16
"""Most runs released per step of rebalancing: a fleet evens out slowly."""


def room(active: int, concurrency: int, *, is_asked: bool) -> int:
    """
    Return how many runs to claim for a worker with *active* runs.

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


def most_of_one(concurrency: int, others: int, shards: int) -> int:
    """
    Return how many runs of one database may be active in a process that serves *shards* databases.

    They share the places of the process: what the *others* do not use, and at least an equal part.

    >>> most_of_one(256, 0, 2), most_of_one(256, 100, 2), most_of_one(256, 256, 2), most_of_one(1, 1, 3)
    (256, 156, 128, 1)
    """
    return max(concurrency - others, concurrency // shards, 1)


def first_turn(last: int | None, head: int | None) -> int:
    """
    Return the turn of the next run of a key; the one with the lowest turn is claimed first.

    It comes after the *last* run of its key that waits, and not before the *head*, the lowest turn of all that wait.
    So keys alternate from now on, whatever each of them has had before.  ``append.sql`` says the same.

    >>> first_turn(None, None), first_turn(None, 7), first_turn(9, 7)
    (0, 7, 10)
    """
    return max(0 if last is None else last + 1, head or 0)


def places_to_take(used: int, waiting: int, limit: int) -> int:
    """
    Return how many places of a concurrency limit to ask for: twice as many as are *used*, while attempts wait.

    Only the first one that waits asks, so how many do is not known.  What is not used is given back.

    >>> places_to_take(0, 1, 100), places_to_take(8, 1, 100), places_to_take(80, 1, 100), places_to_take(3, 0, 100)
    (1, 17, 100, 3)
    """
    return used if not waiting else min(limit, 2 * used + waiting)


def burst_time(limit: int, per: float, burst: int) -> float:
    """
    Return how many seconds before its evenly spread time a turn of a rate may be used.

    >>> burst_time(10, 1.0, 10), burst_time(10, 1.0, 1)
    (0.9, 0.0)
    """
    return per / limit * (burst - 1)


def turns_left(times: list[float], now: float, early: float) -> list[float]:
    """
    Return the turns that can still be used: one is lost a second after it could have been.

    >>> turns_left([10.0, 10.5, 20.0], 11.6, 0.0), turns_left([12.0], 12.9, 1.0)
    ([20.0], [])
    """
    return [at for at in times if at - early >= now - UNUSED_TURN]


def turns_to_take(last: int, seconds: float, per_second: float, soon: float) -> int:
    """
    Return how many turns of a rate to take at once, if *last* were taken before and used up in *seconds*.

    They are doubled while they are used up *soon*, up to those of a tenth of a second.

    >>> turns_to_take(1, 0.1, 1000.0, 0.25), turns_to_take(64, 0.1, 1000.0, 0.25), turns_to_take(64, 9.0, 1000.0, 0.25)
    (2, 100, 1)
    >>> turns_to_take(1, 0.1, 10.0, 0.25)
    1
    """
    return 1 if seconds > soon else max(1, min(last * 2, int(per_second / 10)))


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
    Return how many seconds to wait after *failures* consecutive failures; *draw*, from 0 to 1, spreads many processes.

    >>> backoff(1, 1.0), backoff(3, 1.0), backoff(3, 0.0), backoff(100, 1.0)
    (0.1, 0.4, 0.2, 10.0)
    """
    longest = min(_FIRST_WAIT * (1 << min(failures - 1, 30)), _LONGEST_WAIT)
    return longest * (0.5 + draw / 2)


def failures_after(failures: int, lived: float) -> int:
    """
    Return how many consecutive failures a process has had that ended after it had *lived* this many seconds.

    >>> failures_after(4, 0.5), failures_after(4, 3600.0)
    (5, 1)
    """
    return 1 if lived >= _LONG_LIFE else failures + 1


def share(mine: Load, others: Iterable[Load]) -> float:
    """
    Return how many of the runs of a fleet are the share of a worker, by how many each could have.

    >>> share(Load(30, 100), [Load(0, 100)]), share(Load(30, 100), [Load(0, 200)]), share(Load(3, 10), [])
    (15.0, 10.0, 3.0)
    """
    fleet = [mine, *others]
    return sum(each.active for each in fleet) * mine.concurrency / sum(each.concurrency for each in fleet)


def surplus(mine: Load, others: Sequence[Load]) -> int:
    """
    Return how many runs a worker lets go now: a part of what it has above its share, if that is much.

    >>> surplus(Load(100, 256), [Load(0, 256)]), surplus(Load(20, 256), [Load(14, 256)]), surplus(Load(100, 256), [])
    (12, 0, 0)
    """
    fair = share(mine, others)
    excess = mine.active - fair
    if excess <= max(SLACK, fair / 4):
        return 0
    return min(int(excess / 4), LET_GO)


def ceiling(mine: Load, others: Sequence[Load]) -> int:
    """
    Return how many runs a worker that has released some may have until the next report of the others: its share.

    >>> ceiling(Load(88, 256), [Load(12, 256)])
    50
    """
    return max(1, math.ceil(share(mine, others)))
