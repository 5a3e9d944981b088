"""
Checks the limits of policies from outside: how many attempts are in flight at once, how often they start, and
whether an attempt starts although its breaker is open.

A check counts the attempts that it sees begin and end, independently of the counters that it checks.  Where policies
change while a run is live, only limits that all of them share are checked: other limits only make it stricter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final, TypeVar

from weft.policy import CircuitBreaker, ConcurrencyLimit, RateLimit
from weft.testing.simulation.executor import Ending
from weft.testing.simulation.scenario import Scenario

L = TypeVar("L", ConcurrencyLimit, RateLimit, CircuitBreaker)

_FIELDS: Final = {ConcurrencyLimit: "concurrency_limit", RateLimit: "rate_limit", CircuitBreaker: "circuit_breaker"}
_EARLY = 1e-3
"""How many seconds too early a timer may fire."""


class LimitChecks:
    """Checks the limits of a scenario, in one life after another."""

    def __init__(self, scenario: Scenario, *, but: Collection[str]) -> None:
        """Watch everything *but* components that may get their own policies."""
        self._scenario, self._but = scenario, but
        self.begin_life(0.0)

    def begin_life(self, now: float) -> None:
        """Note that a process has begun: limits belong to a process, and start again."""
        self._born = now
        self._in_flight: Counter[str] = Counter()
        self._starts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._opened: dict[str, float] = {}
        self._passed: Counter[tuple[str, str]] = Counter()
        """By breaker and run: how many have started since it opened."""
        self._unsure: set[str] = set()
        """
        Breakers whose count is unknown here: only they know whether they counted an attempt that was cut short, or
        that may have belonged to another one.
        """

    def begins(self, run: str, component: str, now: float) -> list[str]:
        """Note that an attempt of *component* begins; return what is wrong with that."""
        wrong: list[str] = []
        if (places := self._limit(ConcurrencyLimit, component)) is not None:
            self._in_flight[places.name] += 1
            if self._in_flight[places.name] > places.limit:
                wrong.append(f"{self._in_flight[places.name]} are in flight where {places.limit} may be")
        if (rate := self._limit(RateLimit, component)) is not None:
            self._starts[rate.name] += 1
            count = self._starts[rate.name]
            if now + _EARLY < self._born + (count - rate.burst) * rate.per / rate.limit:
                wrong.append(f"{count} have started in {now - self._born:.3f} seconds: the rate is {rate}")
        if (breaker := self._limit(CircuitBreaker, component)) is not None and self._is_prompt(component):
            opened = None if breaker.name in self._unsure else self._opened.get(breaker.name)
            if opened is not None and now < opened + breaker.reset_timeout - _EARLY:
                self._passed[breaker.name, run] += 1
                count = self._passed[breaker.name, run]
                if count > self._scenario.max_concurrency:  # so many may have been admitted before
                    wrong.append(f"{count} have started in the {now - opened:.3f} seconds since the breaker opened")
        return wrong

    def _is_prompt(self, component: str) -> bool:
        """Return whether an attempt waits only for a worker between its admission by a breaker and its start."""
        return not any(
            policy.execution_mode == "durable" or policy.rate_limit or policy.concurrency_limit
            for policy in self._scenario.policies_of(component)
        )

    def ends(self, component: str, ending: Ending, now: float) -> None:
        """Note that an attempt of *component* has ended."""
        if (places := self._limit(ConcurrencyLimit, component)) is not None:
            self._in_flight[places.name] -= 1
        if (breaker := self._limit(CircuitBreaker, component)) is None:
            possible = [policy.circuit_breaker for policy in self._scenario.policies_of(component)]
            self._unsure.update(each.name for each in possible if each is not None)
            return
        if ending == "completed" and breaker.name not in self._opened:
            self._failures[breaker.name] = 0
        elif ending in ("completed", "cancelled"):  # a probe, or one that began before: only the breaker knows
            self._unsure.add(breaker.name)
        else:
            self._failures[breaker.name] += 1
            if self._failures[breaker.name] >= breaker.failure_threshold:
                self._opened.setdefault(breaker.name, now)

    def _limit(self, kind: type[L], component: str) -> L | None:
        """Return the limit of this *kind* that *component* has under all policies."""
        policies = () if component in self._but else self._scenario.policies_of(component)
        found = [getattr(policy, _FIELDS[kind]) for policy in policies]
        return found[0] if found and all(each == found[0] for each in found) else None
