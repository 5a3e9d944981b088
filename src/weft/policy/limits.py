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
from typing import Final, Literal

import msgspec
from msgspec.structs import force_setattr, replace

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
    """
    At most *limit* starts in *per* seconds, evenly spread after a burst of at most *burst*, by default *limit*.

    ``RateLimit("api", 10, per=1)`` lets ten start at once, and ten a second after that; with ``burst=1`` starts are a
    tenth of a second apart from the first one on.

    >>> RateLimit("api", 10).burst
    10
    """

    name: str
    limit: int
    per: float = 1.0
    burst: int = None  # type: ignore[assignment]  # it is the limit then, which a default cannot say

    def __post_init__(self) -> None:
        _check_name(self)
        _check_count(self, "limit", self.limit)
        if self.burst is None:  # pyright: ignore[reportUnnecessaryComparison]
            force_setattr(self, "burst", self.limit)
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


EARLY: Final = 0.0005
"""How many seconds too early a timer may fire."""


class RateState(msgspec.Struct, frozen=True):
    """The state of a rate limit: when the next start is due if all are evenly spread."""

    due: float = 0.0
    declined: int = 0
    """How often a runnable that waited for a turn was given up; a change of it tells the others to ask."""


def rate_wait(rate: RateLimit, state: RateState | None, *, now: float) -> float:
    """
    Return how many seconds after *now* the next turn is free.

    >>> rate = RateLimit("mail", limit=2, per=1.0, burst=1)
    >>> state, is_taken = rate_taken(rate, None, now=10.0)
    >>> is_taken, rate_wait(rate, state, now=10.0), rate_wait(rate, state, now=10.5)
    (True, 0.5, 0.0)
    """
    return 0.0 if state is None else max(0.0, state.due - now - _apart(rate) * (rate.burst - 1))


def rate_taken(rate: RateLimit, state: RateState | None, *, now: float) -> tuple[RateState, bool]:
    """Take a turn at *now*, if one is free; return whether it was.  A runnable that takes a turn starts at once."""
    state = state or RateState()
    if rate_wait(rate, state, now=now) > EARLY:
        return state, False
    return RateState(max(state.due, now) + _apart(rate), state.declined), True


def rate_declined(state: RateState | None) -> RateState:
    """Note that a runnable that waited for a turn, or could have taken one, does not start."""
    state = state or RateState()
    return RateState(state.due, state.declined + 1)


def _apart(rate: RateLimit) -> float:
    return rate.per / rate.limit


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
