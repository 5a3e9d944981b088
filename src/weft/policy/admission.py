"""
One attempt on its way through the limits of its policy, and out again.

First the circuit breaker, then the rate, then a place among those that run at once.  What was taken is given
back by ``leave``, whatever happened: that is the whole point of this module.
"""

from __future__ import annotations

from typing import Any

from weft.errors import CircuitOpen, DeadlineExceeded
from weft.policy import limits
from weft.policy.conversation import Await, Conditions, Part, Pause
from weft.policy.policy import Policy


class Admission:
    """The limits of *policy*, for one attempt of *component* that must end before *deadline*."""

    def __init__(self, component: str, policy: Policy, given: Conditions, deadline: float | None) -> None:
        self.component, self.policy, self.given, self.deadline = component, policy, given, deadline
        self._verdict: limits.Verdict = "refuse"
        self._asked = 0.0
        self._holds = False

    def enter(self) -> Part:
        """Wait until the attempt may start; give why it may not."""
        for pass_ in (self._pass_breaker, self._take_turn, self._take_place):
            refused = yield from pass_()
            if refused is not None:
                return refused
        return None

    def leave(self, *, ok: bool | None) -> None:
        """Give back what was taken.  *ok* says how the attempt went; None if it was never made, or never ended."""
        if self._holds:
            self._leave_place()
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
            if wait > 0:  # nothing but time can open it for a probe
                yield Pause(self._at_most(wait) or 0.0)
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
        now = self.given.now()
        within = None if self.deadline is None else self.deadline - now
        wait = self.given.counters.update(
            ("rate_limit", rate.name), lambda state: limits.rate_taken(rate, state, now=now, within=within)
        )
        if wait is None:
            return DeadlineExceeded(self.component)
        if wait > 0:
            yield Pause(wait)
        return None

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
        """Return *seconds*, but no more than there are until the deadline."""
        if self.deadline is None:
            return seconds
        remaining = max(0.0, self.deadline - self.given.now())
        return remaining if seconds is None else min(seconds, remaining)
