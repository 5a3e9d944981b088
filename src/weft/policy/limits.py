"""
Circuit breakers, rates and concurrency: decisions over counters that many runs share.

A limit is named; everything that uses the name shares its state, in every run of the process, or of the
fleet if the counters are there.  The decisions are pure: a state and a time in, a state and a decision
out.  ``weft.ports.counters`` keeps the states.

    >>> breaker = CircuitBreaker("api", failure_threshold=2, reset_timeout=60.0)
    >>> state = None
    >>> for moment in (0.0, 1.0):
    ...     state = breaker_settled(breaker, state, ok=False, now=moment)
    >>> breaker_asked(breaker, state, now=2.0)[1], breaker_asked(breaker, state, now=61.5)[1]
    ('refuse', 'probe')
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from typing import Literal

import msgspec
from msgspec.structs import replace

from weft.errors import InvalidPolicy


class CircuitBreaker(msgspec.Struct, frozen=True):
    """
    Stops calls that keep failing: opens after *failure_threshold* failures in a row, for *reset_timeout* seconds.

    Then *probes* calls at a time test whether it works again; a success closes the breaker, a failure opens
    it again.  While it is open, *on_open* says what happens to a component: it fails, is skipped, or waits.
    """

    name: str
    failure_threshold: int = 5
    reset_timeout: float = 60.0
    probes: int = 1
    on_open: Literal["fail", "skip", "wait"] = "fail"

    def __post_init__(self) -> None:
        _check_name(self)
        _check_count(self, "failure_threshold", self.failure_threshold)
        _check_count(self, "probes", self.probes)
        _check_seconds(self, "reset_timeout", self.reset_timeout)
        if self.on_open not in ("fail", "skip", "wait"):
            raise InvalidPolicy(f"on_open={self.on_open!r}: use 'fail', 'skip' or 'wait'")


class RateLimit(msgspec.Struct, frozen=True):
    """At most *limit* starts in *per* seconds, evenly spread after a burst of at most *burst*."""

    name: str
    limit: int
    per: float = 1.0
    burst: int = 1

    def __post_init__(self) -> None:
        _check_name(self)
        _check_count(self, "limit", self.limit)
        _check_count(self, "burst", self.burst)
        _check_seconds(self, "per", self.per)


class ConcurrencyLimit(msgspec.Struct, frozen=True):
    """At most *limit* at once."""

    name: str
    limit: int

    def __post_init__(self) -> None:
        _check_name(self)
        _check_count(self, "limit", self.limit)


Limit = CircuitBreaker | RateLimit | ConcurrencyLimit


def _check_name(limit: Limit) -> None:
    name: object = limit.name
    if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidPolicy(f"{type(limit).__name__} needs a name, by which others share it; got {limit.name!r}")


def _check_count(limit: Limit, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidPolicy(
            f"{type(limit).__name__} {limit.name!r}: {name}={value!r}: use a whole number of at least 1"
        )


def _check_seconds(limit: Limit, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise InvalidPolicy(f"{type(limit).__name__} {limit.name!r}: {name}={value!r}: use seconds above 0")


# -- circuit breakers ----------------------------------------------------------------------------


class BreakerState(msgspec.Struct, frozen=True):
    """The state of a breaker."""

    failures: int = 0
    """In a row."""
    opened_at: float | None = None
    probing: int = 0
    """How many probes are in flight."""
    probed_at: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether calls are refused."""
        return self.opened_at is not None


Verdict = Literal["go", "probe", "refuse"]


def breaker_asked(breaker: CircuitBreaker, state: BreakerState | None, *, now: float) -> tuple[BreakerState, Verdict]:
    """
    Return whether a call may start at *now*.

    A probe without a result, because its process died, is forgotten after another reset timeout.
    """
    state = state or BreakerState()
    if state.opened_at is None:
        return state, "go"
    if now - state.opened_at < breaker.reset_timeout:
        return state, "refuse"
    probing = 0 if now - state.probed_at >= breaker.reset_timeout else state.probing
    if probing >= breaker.probes:
        return state, "refuse"
    return replace(state, probing=probing + 1, probed_at=now), "probe"


def breaker_settled(
    breaker: CircuitBreaker, state: BreakerState | None, *, ok: bool, now: float, probed: bool = False
) -> BreakerState:
    """
    Return the state after an admitted call has succeeded, or failed, at *now*.

    Once it is open, only a probe decides: late results of calls that were admitted before are ignored.
    """
    state = state or BreakerState()
    if state.is_open and not probed:
        return state
    if ok:
        return BreakerState()
    failures = state.failures + 1
    if state.is_open or failures >= breaker.failure_threshold:
        return BreakerState(failures, opened_at=now)
    return BreakerState(failures)


def breaker_spared(breaker: CircuitBreaker, state: BreakerState | None, *, asked: float, now: float) -> BreakerState:
    """Return the state after a probe that was admitted at *asked* was never made."""
    state = state or BreakerState()
    if now - asked >= breaker.reset_timeout:  # it was forgotten, and others have taken its place
        return state
    return replace(state, probing=max(0, state.probing - 1))


def breaker_wait(breaker: CircuitBreaker, state: BreakerState, *, now: float) -> float:
    """Return how long to wait before asking again."""
    return max(0.0, (state.opened_at or now) + breaker.reset_timeout - now)


# -- rates ---------------------------------------------------------------------------------------


RATE_RETURNED = "rate_limit_left"
"""The kind of the counter that counts how many places of a rate were given back."""


class RateState(msgspec.Struct, frozen=True):
    """The state of a rate limit: when the next start is due if all are evenly spread."""

    due: float = 0.0
    free: tuple[float, ...] = ()
    """Earlier places that were taken and given back, in order."""


def rate_taken(
    rate: RateLimit, state: RateState | None, *, now: float, within: float | None = None
) -> tuple[RateState, float | None]:
    """
    Take the next place at *now*; return it, for :func:`rate_wait`.

    Returns None, and takes no place, if the next one is not *within* so many seconds.

    >>> rate = RateLimit("mail", limit=2, per=1.0)
    >>> state, first = rate_taken(rate, None, now=10.0)
    >>> state, second = rate_taken(rate, state, now=10.0)
    >>> rate_wait(rate, first, now=10.0), rate_wait(rate, second, now=10.0)
    (0.0, 0.5)
    >>> rate_taken(rate, state, now=10.0, within=0.8)[1] is None
    True
    """
    state = _ahead(state, now)
    turn = state.free[0] if state.free else max(state.due, now)
    if within is not None and rate_wait(rate, turn, now=now) >= within:
        return state, None
    return RateState(state.due, state.free[1:]) if state.free else RateState(turn + _apart(rate)), turn


def rate_wait(rate: RateLimit, turn: float, *, now: float) -> float:
    """Return how many seconds after *now* the holder of *turn* may start."""
    return max(0.0, turn - now - _apart(rate) * (rate.burst - 1))


def rate_left(rate: RateLimit, state: RateState | None, turn: float, *, now: float) -> tuple[RateState, bool]:
    """
    Give back *turn*, which was not used; return whether runnables that wait for later places could use it.

    >>> rate = RateLimit("mail", limit=2, per=1.0)
    >>> state, first = rate_taken(rate, None, now=10.0)
    >>> state, second = rate_taken(rate, state, now=10.0)
    >>> state, third = rate_taken(rate, state, now=10.0)
    >>> rate_left(rate, state, second, now=10.2)
    (RateState(due=11.5, free=(10.5,)), True)
    >>> rate_left(rate, state, third, now=10.2)
    (RateState(due=11.0, free=()), False)
    """
    state = _ahead(state, now)
    due, free = state.due, list(state.free)
    if due != turn + _apart(rate):
        if turn < now:  # its time is past, so it cannot be used any more
            return state, False
        insort(free, turn)
        return RateState(due, tuple(free)), True
    due = turn
    while free and due == free[-1] + _apart(rate):
        due = free.pop()
    return RateState(due, tuple(free)), False


def rate_moved(rate: RateLimit, state: RateState | None, turn: float, *, now: float) -> tuple[RateState, float]:
    """Exchange *turn* for the first place that was given back, if that is earlier; return the new place."""
    state = _ahead(state, now)
    if not state.free or state.free[0] >= turn:
        return state, turn
    return rate_left(rate, RateState(state.due, state.free[1:]), turn, now=now)[0], state.free[0]


def _apart(rate: RateLimit) -> float:
    return rate.per / rate.limit


def _ahead(state: RateState | None, now: float) -> RateState:
    """Return *state* without places whose time is past, which cannot be used any more."""
    if state is None or not state.free or state.free[0] >= now:
        return state or RateState()
    return RateState(state.due, state.free[bisect_left(state.free, now) :])


# -- concurrency ---------------------------------------------------------------------------------


class UseState(msgspec.Struct, frozen=True):
    """The state of a concurrency limit: how many attempts are in flight."""

    used: int = 0


def place_asked(limit: ConcurrencyLimit, state: UseState | None) -> tuple[UseState, bool]:
    """Take a place if there is one; return whether there was."""
    state = state or UseState()
    return (UseState(state.used + 1), True) if state.used < limit.limit else (state, False)


def place_left(state: UseState | None) -> UseState:
    """Give a place back."""
    return UseState(max(0, (state or UseState()).used - 1))


LimitState = BreakerState | RateState | UseState
