"""
Admits one attempt to the limits of its policy, and releases them again.

First the circuit breaker, then the rate, then the concurrency limit.  ``leave`` always releases what was taken,
whatever happened: that is the purpose of this module.
"""

from __future__ import annotations

from typing import Any

from weft.errors import CircuitOpen, DeadlineExceeded
from weft.policy import limits
from weft.policy.instructions import Await, Conditions, Part, Pause
from weft.policy.policy import Policy
from weft.ports.counters import CounterKey, Counters


class Admission:
    """The limits of *policy*, for one attempt of *component* that must end before *deadline*."""

    def __init__(self, component: str, policy: Policy, given: Conditions, deadline: float | None) -> None:
        self.component, self.policy, self.given, self.deadline = component, policy, given, deadline
        self._verdict: limits.Verdict = "refuse"
        self._asked = 0.0
        self._holds = False
        self._turn: float | None = None
        """The turn of the rate that was taken."""
        self._has_begun = False

    def enter(self) -> Part:
        """Wait until the attempt may start; return the reason if it may not."""
        for pass_ in (self._pass_breaker, self._take_turn, self._take_place):
            refused = yield from pass_()
            if refused is not None:
                return refused
        return None

    def begin(self) -> None:
        """Note that the attempt is being started: its place in the rate is used."""
        self._has_begun = True

    def leave(self, *, ok: bool | None) -> None:
        """Release what was taken.  *ok*: whether the attempt succeeded; None if it was never made, or never ended."""
        if self._holds:
            self._leave_place()
        if self._turn is not None and not self._has_begun:
            self._leave_turn(self._turn)
        if self._verdict != "refuse":
            self._settle_breaker(ok)

    # -- circuit breakers ------------------------------------------------------------------------

    def _pass_breaker(self) -> Part:
        breaker = self.policy.circuit_breaker
        while True:
            if self._is_late():
                return DeadlineExceeded(self.component)
            if breaker is None:
                return None
            self._asked = now = self.given.now()
            key = ("circuit_breaker", breaker.name)

            def look(
                state: Any, breaker: limits.CircuitBreaker = breaker, now: float = now
            ) -> tuple[Any, tuple[limits.Verdict, float]]:
                state, verdict = limits.breaker_asked(breaker, state, now=now)
                return state, (verdict, limits.breaker_wait(breaker, state, now=now))

            self._verdict, wait = self.given.counters.update(key, look)
            if self._verdict != "refuse":
                return None
            if breaker.on_open != "wait":
                return CircuitOpen(self.component, breaker.name)
            if wait > 0:  # only time can open it for a probe
                yield Pause(self._at_most(wait) or 0.0, about=key)
            else:  # others are probing
                yield Await(key, self._at_most(breaker.reset_timeout))

    def _settle_breaker(self, ok: bool | None) -> None:
        breaker, probed, now = self.policy.circuit_breaker, self._verdict == "probe", self.given.now()
        if breaker is None or (ok is None and not probed):
            return

        def settle(state: Any) -> tuple[Any, None]:
            if ok is None:
                return limits.breaker_spared(breaker, state, asked=self._asked, now=now), None
            return limits.breaker_settled(breaker, state, ok=ok, now=now, probed=probed), None

        self.given.counters.update(("circuit_breaker", breaker.name), settle)

    # -- rates -----------------------------------------------------------------------------------

    def _take_turn(self) -> Part:
        rate = self.policy.rate_limit
        if rate is None:
            return None
        key, now = ("rate_limit", rate.name), self.given.now()
        within = None if self.deadline is None else self.deadline - now
        self._turn = self.given.counters.update(
            key, lambda state: limits.rate_taken(rate, state, now=now, within=within)
        )
        if self._turn is None:
            return DeadlineExceeded(self.component)
        wait = limits.rate_wait(rate, self._turn, now=now)
        while wait > 0:
            yield Pause(wait, unless=_returned_key(rate))
            wait = self._move_up(rate)
        return None

    def _move_up(self, rate: limits.RateLimit) -> float:
        """Take an earlier place in the rate, if one was given back; return how long to wait for it."""
        now, turn = self.given.now(), self._turn
        assert turn is not None  # noqa: S101
        wait = limits.rate_wait(rate, turn, now=now)
        if wait < _EARLY:
            return 0.0
        moved = self.given.counters.update(
            ("rate_limit", rate.name), lambda state: limits.rate_moved(rate, state, turn, now=now)
        )
        if moved == turn:
            return wait
        self._turn = moved
        _tell_waiting(self.given.counters, rate)
        return limits.rate_wait(rate, moved, now=now)

    def _leave_turn(self, turn: float) -> None:
        rate, now = self.policy.rate_limit, self.given.now()
        assert rate is not None  # noqa: S101
        if self.given.counters.update(
            ("rate_limit", rate.name), lambda state: limits.rate_left(rate, state, turn, now=now)
        ):
            _tell_waiting(self.given.counters, rate)

    # -- concurrency -----------------------------------------------------------------------------

    def _take_place(self) -> Part:
        limit = self.policy.concurrency_limit
        if limit is None:
            return DeadlineExceeded(self.component) if self._is_late() else None
        key = ("concurrency_limit", limit.name)
        while True:
            if self._is_late():
                return DeadlineExceeded(self.component)
            self._holds = self.given.counters.update(key, lambda state: limits.place_asked(limit, state))
            if self._holds:
                return None
            yield Await(key, self._at_most(None))

    def _leave_place(self) -> None:
        limit = self.policy.concurrency_limit
        assert limit is not None  # noqa: S101
        self.given.counters.update(("concurrency_limit", limit.name), lambda state: (limits.place_left(state), None))

    # -- time ------------------------------------------------------------------------------------

    def _is_late(self) -> bool:
        return self.deadline is not None and self.given.now() >= self.deadline

    def _at_most(self, seconds: float | None) -> float | None:
        """Return *seconds*, or the time until the deadline if that is less."""
        if self.deadline is None:
            return seconds
        remaining = max(0.0, self.deadline - self.given.now())
        return remaining if seconds is None else min(seconds, remaining)


_EARLY = 0.0005
"""How many seconds too early a timer may fire."""


def _returned_key(rate: limits.RateLimit) -> CounterKey:
    """Return the counter that changes when places of *rate* are given back, but not when they are taken."""
    return (limits.RATE_RETURNED, rate.name)


def _tell_waiting(counters: Counters, rate: limits.RateLimit) -> None:
    """Wake the runnables that wait for later places of *rate*."""
    counters.update(_returned_key(rate), lambda returned: ((returned or 0) + 1, None))
