"""
Admits one attempt to the limits of its policy, and releases them again.

The order is: the circuit breaker; a wait until the rate limit has a free turn; a place in the concurrency limit; and
last the turn itself, when the attempt starts.  A turn that is taken early would be used late, together with others.  If
another attempt has taken the turn by then, this one leaves its place and waits again.  ``leave`` always releases what
was taken, whatever happened: that is the purpose of this module.
"""

from __future__ import annotations

from typing import Any

from weft.errors import CircuitOpen, DeadlineExceeded
from weft.policy import limits
from weft.policy.instructions import Await, AwaitTurn, Conditions, Part, Pause
from weft.policy.policy import Policy


class Admission:
    """The limits of *policy*, for one attempt of *component* that must end before *deadline*."""

    def __init__(self, component: str, policy: Policy, given: Conditions, deadline: float | None) -> None:
        self.component, self.policy, self.given, self.deadline = component, policy, given, deadline
        self._monotonic = given.monotonic or given.now
        self._verdict: limits.Verdict = "refuse"
        self._asked = 0.0
        self._holds = False
        self._wants_turn = False
        """Whether it waits for a turn of the rate, or has been notified of a free one and has not taken it yet."""

    def enter(self) -> Part:
        """Wait until the attempt may start; return the reason if it may not."""
        refused = yield from self._pass_breaker()
        return refused if refused is not None else (yield from self.enter_again())

    def enter_again(self) -> Part:
        """Wait once more, after another attempt has taken the turn."""
        if self._holds:
            self._leave_place()
        refused = yield from self._await_turn()
        return refused if refused is not None else (yield from self._take_place())

    def begin(self) -> bool:
        """Take a turn of the rate, for an attempt that starts now; return whether there was one."""
        rate, now = self.policy.rate_limit, self._monotonic()
        if rate is None:
            return True
        has_turn = self.given.counters.update(
            ("rate_limit", rate.name), lambda state: limits.rate_taken(rate, state, now=now), rate
        )
        self._wants_turn = not has_turn
        return has_turn

    def leave(self, *, ok: bool | None) -> None:
        """Release what was taken.  *ok* is whether the attempt succeeded; None if it was never made, or never ended."""
        if self._holds:
            self._leave_place()
        if self._wants_turn:
            self._decline_turn()
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
            self._asked = now = self._monotonic()
            key = ("circuit_breaker", breaker.name)

            def look(
                state: Any, breaker: limits.CircuitBreaker = breaker, now: float = now
            ) -> tuple[Any, tuple[limits.Verdict, float]]:
                state, verdict = limits.breaker_asked(breaker, state, now=now)
                return state, (verdict, limits.breaker_wait(breaker, state, now=now))

            self._verdict, wait = self.given.counters.update(key, look, breaker)
            if self._verdict != "refuse":
                return None
            if breaker.on_open != "wait":
                return CircuitOpen(self.component, breaker.name)
            if wait > 0:  # only time can open it for a probe
                yield Pause(self._at_most(wait) or 0.0, about=key)
            else:  # others are probing
                yield Await(key, self._at_most(breaker.reset_timeout))

    def _settle_breaker(self, ok: bool | None) -> None:
        breaker, probed, now = self.policy.circuit_breaker, self._verdict == "probe", self._monotonic()
        if breaker is None or (ok is None and not probed):
            return

        def settle(state: Any) -> tuple[Any, None]:
            if ok is None:
                return limits.breaker_spared(breaker, state, asked=self._asked, now=now), None
            return limits.breaker_settled(breaker, state, ok=ok, now=now, probed=probed), None

        self.given.counters.update(("circuit_breaker", breaker.name), settle, breaker)

    # -- rates -----------------------------------------------------------------------------------

    def _await_turn(self) -> Part:
        """Wait until a turn of the rate is free; :meth:`begin` takes it."""
        rate = self.policy.rate_limit
        if rate is None:
            return None
        self._wants_turn = True
        while (wait := self._until_turn()) > limits.EARLY:
            if self.deadline is not None and wait >= self.deadline - self.given.now():
                return DeadlineExceeded(self.component)
            yield AwaitTurn(("rate_limit", rate.name), self._until_turn, self._at_most(None))
        return None

    def _until_turn(self) -> float:
        rate, now = self.policy.rate_limit, self._monotonic()
        assert rate is not None  # noqa: S101
        return self.given.counters.update(
            ("rate_limit", rate.name),
            lambda state: (state or limits.RateState(), limits.rate_wait(rate, state, now=now)),
            rate,
        )

    def _decline_turn(self) -> None:
        rate = self.policy.rate_limit
        assert rate is not None  # noqa: S101
        self.given.counters.update(("rate_limit", rate.name), lambda state: (limits.rate_declined(state), None), rate)

    # -- concurrency -----------------------------------------------------------------------------

    def _take_place(self) -> Part:
        limit = self.policy.concurrency_limit
        if limit is None:
            return DeadlineExceeded(self.component) if self._is_late() else None
        key = ("concurrency_limit", limit.name)
        while True:
            if self._is_late():
                return DeadlineExceeded(self.component)
            self._holds = self.given.counters.update(key, lambda state: limits.place_asked(limit, state), limit)
            if self._holds:
                return None
            yield Await(key, self._at_most(None))

    def _leave_place(self) -> None:
        limit = self.policy.concurrency_limit
        assert limit is not None  # noqa: S101
        self._holds = False
        self.given.counters.update(
            ("concurrency_limit", limit.name), lambda state: (limits.place_left(state), None), limit
        )

    # -- time ------------------------------------------------------------------------------------

    def _is_late(self) -> bool:
        return self.deadline is not None and self.given.now() >= self.deadline

    def _at_most(self, seconds: float | None) -> float | None:
        """Return *seconds*, or the time until the deadline if that is less."""
        if self.deadline is None:
            return seconds
        remaining = max(0.0, self.deadline - self.given.now())
        return remaining if seconds is None else min(seconds, remaining)
