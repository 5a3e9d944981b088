"""The driver's conversation, led by hand: its promises hold for every answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import Outcome, Policy, Runnable, Workflow, context, step
from weft.errors import DeadlineExceeded, InvalidFallback, InvalidPolicy, StepTimeout
from weft.local.counters import LocalCounters
from weft.policy import CircuitBreaker, ConcurrencyLimit, RateLimit, RetryWith, Value
from weft.policy.driver import (
    Attempt,
    Await,
    AwaitTurn,
    CallPolicy,
    Conditions,
    Instruction,
    Overtaken,
    Pause,
    Raised,
    Reply,
    Returned,
    conduct,
)
from weft.policy.instructions import Begun
from weft.policy.limits import BreakerState, RateState, UseState

COMPONENT = step(lambda x, model=context("model", default="large"): x, name="work")
[RUNNABLE] = Workflow("w", COMPONENT).plan(1).prepare()
BREAKER = CircuitBreaker("api", failure_threshold=2, reset_timeout=3.0, on_open="wait")
PLACE, PLACES = ("concurrency_limit", "db"), ConcurrencyLimit("db", 1)


class Partner:
    """Speaks with a driver: time passes when the script says so, and attempts end as it says."""

    def __init__(self, policy: Policy, *, deadline: float | None = None, script: list[tuple[float, str]] | None = None):
        self.now, self.deadline, self.policy = 100.0, None if deadline is None else 100.0 + deadline, policy
        self.counters, self.script = LocalCounters(), list(script or [])
        self.attempts: list[Attempt] = []
        self.pauses: list[float] = []

    def conditions(self, current: Callable[[], Policy] | None = None) -> Conditions:
        return Conditions(lambda: self.now, self.counters, lambda: 0.5, self.deadline, current)

    def latest(self) -> float:
        """Return when everything has to be over."""
        own = [100.0 + self.policy.deadline] if self.policy.deadline is not None else []
        return min([*own, *([self.deadline] if self.deadline is not None else [])], default=float("inf"))

    def answer(self, instruction: Instruction) -> Reply:
        """Do what the driver says."""
        match instruction:
            case Attempt():
                return self.attempt(instruction)
            case CallPolicy():
                return instruction.answered()
            case Pause(seconds):
                assert seconds >= 0
                self.pauses.append(seconds)
                self.now += seconds
            case AwaitTurn(_, wait, seconds):
                assert seconds is None or seconds >= 0
                pause = wait() if seconds is None else min(wait(), seconds)
                self.pauses.append(pause)
                self.now += pause
            case Await(key, seconds):
                assert seconds is None or seconds >= 0
                if key == PLACE:
                    self.leave()
                self.now += min(0.5, 0.5 if seconds is None else seconds)
        return None

    def attempt(self, instruction: Attempt) -> Reply:
        assert self.now < self.latest(), "an attempt after the deadline"
        if instruction.begins is not None and not instruction.begins():
            return Overtaken()
        self.attempts.append(instruction)
        taken, ends = self.script.pop(0) if self.script else (0.0, "returned")
        if instruction.timeout is not None and taken >= instruction.timeout:
            self.now += instruction.timeout
            assert self.now <= self.latest() + 1e-9, "an attempt goes on after the deadline"
            return Raised(StepTimeout("work", instruction.timeout))
        self.now += taken
        return Returned("made") if ends == "returned" else Raised(OSError(f"attempt {len(self.attempts)}"))

    def lead(self, *, most: int = 10_000, failed: BaseException | None = None) -> Outcome | None:
        """Lead the conversation to its end; or drop it after *most* instructions, and give nothing."""
        instructions = conduct(RUNNABLE, self.policy, self.conditions(), failed)
        reply: Reply = None
        for _ in range(most):
            try:
                instruction = instructions.send(reply)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            reply = self.answer(instruction)
        instructions.close()
        return None

    def hold(self) -> None:
        """Take the only place, as another runnable."""
        self.counters.update(PLACE, lambda state: (UseState(1), None))

    def leave(self) -> None:
        self.counters.update(PLACE, lambda state: (UseState(0), None))

    def used(self) -> tuple[int, int]:
        """Return how many places are taken, and how many probes are in flight that are not forgotten by now."""
        states = self.counters.states()
        place = states.get(PLACE, UseState())
        breaker = states.get(("circuit_breaker", "api"), BreakerState())
        return place.used, breaker.probing if self.now - breaker.probed_at < BREAKER.reset_timeout else 0


FALLBACKS: list[Any] = [None, lambda r, e: Value(7), lambda r, e: RetryWith(model="small"), lambda r, e: "junk"]
seconds = st.sampled_from([0.0, 0.5, 1.0, 4.0])
policies = st.builds(
    Policy,
    max_retries=st.integers(0, 3),
    backoff=st.sampled_from(["none", "linear", "exponential", "jitter"]),
    base_delay=seconds,
    timeout=st.sampled_from([None, 0.4, 2.0]),
    deadline=st.sampled_from([None, 3.0, 9.0]),
    delay=seconds,
    on_failure=st.sampled_from(["halt", "skip", "dead_letter"]),
    fallback=st.sampled_from(FALLBACKS),
    circuit_breaker=st.sampled_from([None, BREAKER, msgspec.structs.replace(BREAKER, on_open="fail")]),
    rate_limit=st.sampled_from([None, RateLimit("mail", limit=1, per=2.0)]),
    concurrency_limit=st.sampled_from([None, PLACES]),
)
scripts = st.lists(st.tuples(seconds, st.sampled_from(["raised", "returned", "raised"])), max_size=6)
deadlines = st.sampled_from([None, 0.3, 2.0, 8.0])


@given(policies, scripts, deadlines, st.booleans())
def test_whatever_happens_limits_are_left_and_attempts_are_counted_and_in_time(
    policy: Policy, script: list[tuple[float, str]], deadline: float | None, others: bool
) -> None:
    partner = Partner(policy, deadline=deadline, script=script)
    if others:
        partner.hold()

    outcome = partner.lead()

    assert outcome is not None
    if policy.concurrency_limit is not None and partner.attempts:
        assert partner.used()[0] == 0
    assert partner.used()[1] == 0
    assert len(partner.attempts) <= policy.max_retries + 1 + (policy.fallback is not None)
    assert [a.runnable.attempt for a in partner.attempts] == list(range(1, len(partner.attempts) + 1))
    told = [event for event in outcome.events if type(event).__name__ == "RunnableDispatched"]
    assert len(told) == len(partner.attempts)
    assert outcome.attempt == max(1, len(partner.attempts))
    if outcome.status == "skipped":
        assert policy.on_failure == "skip"


@given(policies, scripts, deadlines, st.integers(0, 8))
def test_a_instructions_that_is_dropped_leaves_its_limits(
    policy: Policy, script: list[tuple[float, str]], deadline: float | None, most: int
) -> None:
    partner = Partner(policy, deadline=deadline, script=script)

    partner.lead(most=most)

    assert partner.used() == (0, 0)


@given(st.integers(0, 5), st.integers(0, 5))
def test_calls_are_as_many_as_failures_and_retries_allow(failures: int, retries: int) -> None:
    """G72."""
    partner = Partner(Policy(max_retries=retries), script=[(0.0, "raised")] * failures)

    outcome = partner.lead()

    assert outcome is not None
    assert len(partner.attempts) == min(failures, retries) + 1
    assert (outcome.status == "completed") == (failures <= retries)


@given(st.integers(0, 4), st.sampled_from(FALLBACKS[1:]))
def test_a_fallback_is_asked_once_after_the_last_retry(retries: int, fallback: Any) -> None:
    asked: list[int] = []

    def noted(runnable: Runnable, error: BaseException) -> Any:
        asked.append(len(partner.attempts))
        return fallback(runnable, error)

    partner = Partner(Policy(max_retries=retries, fallback=noted), script=[(0.0, "raised")] * 9)
    partner.lead()

    assert asked == [retries + 1]


# -- time ----------------------------------------------------------------------------------------


def test_a_first_wait_beyond_the_deadline_is_not_waited_for() -> None:
    partner = Partner(Policy(delay=60.0), deadline=5.0)

    outcome = partner.lead()

    assert outcome is not None
    assert isinstance(outcome.error, DeadlineExceeded)
    assert partner.pauses == partner.attempts == []


def test_a_retry_that_would_be_too_late_is_the_last_failure_and_the_fallback_is_asked() -> None:
    policy = Policy(max_retries=9, backoff="linear", base_delay=10.0, deadline=5.0, fallback=lambda r, e: Value(str(e)))
    partner = Partner(policy, script=[(1.0, "raised")] * 9)

    outcome = partner.lead()

    assert outcome is not None
    assert "deadline" in outcome.result


def test_an_attempt_that_the_deadline_cut_short_has_run_into_it_even_if_the_clock_lags() -> None:
    partner = Partner(Policy(max_retries=3), deadline=5.0)
    instructions = conduct(RUNNABLE, partner.policy, partner.conditions())
    attempt = next(instructions)
    assert isinstance(attempt, Attempt)
    assert attempt.timeout == 5.0

    with pytest.raises(StopIteration) as end:
        instructions.send(Raised(StepTimeout("work", 5.0)))  # no time has passed on the clock

    assert isinstance(end.value.value.error, DeadlineExceeded)


def test_a_timeout_of_what_the_component_waited_for_is_retried_like_any_error() -> None:
    partner = Partner(Policy(max_retries=1), deadline=5.0)
    instructions = conduct(RUNNABLE, partner.policy, partner.conditions())
    next(instructions)

    following = instructions.send(Raised(TimeoutError("a socket")))

    assert isinstance(following, Pause)
    instructions.close()


def test_a_changed_deadline_holds_from_the_next_decision_on() -> None:
    partner = Partner(Policy(max_retries=9, backoff="linear", base_delay=10.0))
    changed = Policy(max_retries=9, backoff="linear", base_delay=10.0, deadline=5.0)
    instructions = conduct(RUNNABLE, partner.policy, partner.conditions(lambda: changed))
    next(instructions)

    with pytest.raises(StopIteration) as end:
        instructions.send(Raised(OSError()))

    assert isinstance(end.value.value.error, DeadlineExceeded)


# -- limits --------------------------------------------------------------------------------------


def test_a_runnable_that_is_too_late_for_a_rate_takes_no_place_of_it() -> None:
    partner = Partner(Policy(rate_limit=RateLimit("mail", limit=1, per=10.0)), deadline=5.0)
    partner.lead()
    before = partner.counters.states()

    outcome = partner.lead()

    assert outcome is not None
    assert isinstance(outcome.error, DeadlineExceeded)
    assert partner.counters.states()["rate_limit", "mail"].due == before["rate_limit", "mail"].due


MAIL = RateLimit("mail", limit=1, per=10.0)


def turn(partner: Partner) -> RateState:
    state: RateState = partner.counters.states()["rate_limit", "mail"]
    return state


def test_a_turn_is_taken_when_the_attempt_starts_and_not_before() -> None:
    partner = Partner(Policy(rate_limit=MAIL))
    instructions = conduct(RUNNABLE, partner.policy, partner.conditions())
    attempt = next(instructions)
    assert isinstance(attempt, Attempt)
    assert attempt.begins is not None
    assert turn(partner).due == 0.0

    partner.now += 3.0

    assert attempt.begins()
    assert turn(partner).due == partner.now + 10.0


def test_an_attempt_that_was_overtaken_waits_for_the_next_turn_and_counts_as_one() -> None:
    partner = Partner(Policy(rate_limit=MAIL))
    instructions = conduct(RUNNABLE, partner.policy, partner.conditions())
    next(instructions)
    partner.lead()

    awaited = instructions.send(Overtaken())

    assert isinstance(awaited, AwaitTurn)
    assert awaited.wait() == 10.0
    partner.now += 10.0
    attempt = instructions.send(None)
    assert isinstance(attempt, Attempt)
    assert attempt.runnable.attempt == 1
    with pytest.raises(StopIteration) as end:
        instructions.send(Returned("made"))
    assert end.value.value.attempt == 1


def test_an_attempt_that_was_overtaken_leaves_its_place_while_it_waits() -> None:
    partner = Partner(Policy(rate_limit=MAIL, concurrency_limit=PLACES))
    instructions = conduct(RUNNABLE, partner.policy, partner.conditions())
    next(instructions)
    assert partner.used()[0] == 1
    partner.counters.update(("rate_limit", "mail"), lambda _: (RateState(partner.now + 10.0), None))

    instructions.send(Overtaken())

    assert partner.used()[0] == 0


def test_no_attempt_starts_if_the_place_comes_free_after_the_deadline() -> None:
    partner = Partner(Policy(concurrency_limit=PLACES), deadline=5.0)
    partner.hold()
    instructions = conduct(RUNNABLE, partner.policy, partner.conditions())
    assert isinstance(next(instructions), Await)
    partner.now += 5.0
    partner.leave()

    with pytest.raises(StopIteration) as end:
        instructions.send(None)

    assert isinstance(end.value.value.error, DeadlineExceeded)
    assert partner.used() == (0, 0)


def test_waiting_for_a_breaker_is_waiting_for_its_time() -> None:
    partner = Partner(Policy(circuit_breaker=BREAKER, max_retries=2), script=[(0.0, "raised")] * 2)

    outcome = partner.lead()

    assert outcome is not None
    assert outcome.status == "completed"
    assert partner.pauses[-1] == BREAKER.reset_timeout


# -- functions of the policy that fail -----------------------------------------------------------


class Odd(BaseException):
    """No Exception."""


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*_: object) -> Any:
        raise error

    return function


BROKEN: list[tuple[str, Callable[[Any], Policy]]] = [
    ("backoff", lambda f: Policy(max_retries=1, backoff=f)),
    ("retryable", lambda f: Policy(max_retries=1, retryable=f)),
    ("fallback", lambda f: Policy(fallback=f)),
    ("idempotency_key", lambda f: Policy(idempotency_key=f)),
]


class Keyed(Partner):
    """Executes what it is given, as far as it takes."""

    def attempt(self, instruction: Attempt) -> Reply:
        broken = instruction.runnable.broken
        return Raised(broken) if broken is not None else super().attempt(instruction)


@pytest.mark.parametrize(("name", "make"), BROKEN)
@pytest.mark.parametrize("error", [RuntimeError("broken"), Odd("broken")])
def test_a_function_of_the_policy_that_fails_is_the_failure(
    name: str, make: Callable[[Any], Policy], error: BaseException
) -> None:
    outcome = Keyed(make(raising(error)), script=[(0.0, "raised")]).lead()

    assert outcome is not None
    assert (outcome.status, outcome.error) == ("failed", error)
    if name != "idempotency_key":
        assert isinstance(error.__cause__, OSError)


@pytest.mark.parametrize(("name", "make"), BROKEN)
def test_what_ends_a_program_propagates_from_them_too(name: str, make: Callable[[Any], Policy]) -> None:
    del name

    with pytest.raises(KeyboardInterrupt):
        Keyed(make(raising(KeyboardInterrupt())), script=[(0.0, "raised")]).lead()


def test_a_backoff_that_gives_no_seconds_is_the_failure() -> None:
    policy = Policy(max_retries=1, backoff=lambda retry: "soon", on_failure="skip")  # type: ignore[arg-type, return-value]

    outcome = Partner(policy, script=[(0.0, "raised")]).lead()

    assert outcome is not None
    assert (outcome.status, type(outcome.error)) == ("skipped", InvalidPolicy)


@pytest.mark.parametrize("error", [RuntimeError("no"), Odd("no")])
def test_a_compensation_that_fails_is_told_with_the_failure_that_stands(error: BaseException) -> None:
    policy = Policy(on_failure="compensate", compensation=raising(error))

    outcome = Partner(policy, script=[(0.0, "raised")]).lead()

    assert outcome is not None
    assert isinstance(outcome.error, OSError)
    assert outcome.error.__notes__ == [f"and its compensation failed: {type(error).__name__}: no"]


async def waits(*_: object) -> Any:
    """Stands for a coroutine that is not awaited."""


def test_a_fallback_or_compensation_that_gives_a_coroutine_is_told_so() -> None:
    fallback = Partner(Policy(fallback=lambda r, e: waits()), script=[(0.0, "raised")]).lead()
    undoing = Policy(on_failure="compensate", compensation=lambda r, e: waits())
    undone = Partner(undoing, script=[(0.0, "raised")]).lead()

    assert fallback is not None
    assert undone is not None
    assert isinstance(fallback.error, InvalidFallback)
    assert "coroutine" in str(fallback.error)
    assert isinstance(undone.error, OSError)
    assert "coroutine" in undone.error.__notes__[0]


def test_a_value_that_can_be_read_once_becomes_a_list() -> None:
    outcome = Partner(Policy(fallback=lambda r, e: Value(iter([1, 2]))), script=[(0.0, "raised")]).lead()

    assert outcome is not None
    assert outcome.result == [1, 2]


def test_a_deadline_counts_from_the_first_attempt_also_in_another_process() -> None:
    """A runner has read in the log that two attempts have failed, the first one 9 s ago."""
    now = [100.0]
    conditions = Conditions(now=lambda: now[0], counters=LocalCounters(), draw=lambda: 0.5)
    [runnable] = Workflow("w", step(lambda x: x, name="work")).plan(1).prepare()
    policy = Policy(max_retries=9, deadline=10.0)

    instructions = conduct(runnable, policy, conditions, begun=Begun(attempts=2, failed=2, retry_at=100.0, since=91.0))
    attempt = next(instructions)

    assert isinstance(attempt, Attempt)
    assert (attempt.timeout, attempt.runnable.attempt) == (1.0, 3)


# -- the deadline of the input -------------------------------------------------------------------


def test_a_fallback_is_not_called_after_the_deadline_of_its_input() -> None:
    asked: list[object] = []
    policy = Policy(fallback=lambda runnable, error: asked.append(error) or Value(1))
    partner = Partner(policy, deadline=5.0, script=[(5.0, "raised")])

    outcome = partner.lead()

    assert outcome is not None
    assert isinstance(outcome.error, DeadlineExceeded)
    assert asked == []


def test_a_fallback_has_until_the_deadline_of_its_input_and_no_longer() -> None:
    partner = Partner(Policy(fallback=lambda runnable, error: Value(1)), deadline=5.0)
    instructions = conduct(RUNNABLE, partner.policy, partner.conditions())
    next(instructions)
    call = instructions.send(Raised(OSError()))
    assert isinstance(call, CallPolicy)
    assert call.until == partner.deadline
    partner.now += 5.0

    with pytest.raises(StopIteration) as end:
        instructions.send(Returned(Value(1)))

    assert isinstance(end.value.value.error, DeadlineExceeded)


def test_a_fallback_may_answer_after_the_deadline_of_its_policy() -> None:
    policy = Policy(deadline=5.0, timeout=9.0, fallback=lambda runnable, error: Value("instead"))
    partner = Partner(policy, script=[(9.0, "returned")])

    outcome = partner.lead()

    assert outcome is not None
    assert outcome.result == "instead"
