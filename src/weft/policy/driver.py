"""
One runnable under one policy: attempts, waits, fallbacks, limits.

The driver is a conversation.  It says what is to be done next, an attempt or a pause, and is told what came
of it, until it has an outcome.  Who speaks with it may block or be a coroutine; it neither waits nor reads a
clock itself, so the rules of retrying exist once.

    waiting ──► attempting ──► completed
       ▲            │
       │            ├── failed, worth a retry ──► waiting
       └────────────┘
                    ├── failed for good ──► fallback ──► completed, or attempting once more
                    └── skipped, failed, dead letter, compensated

What always holds: an attempt that was let through a limit leaves it again, also if the conversation is
dropped; no attempt starts after the deadline, and none goes on after it; a fallback is asked once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Literal

import msgspec

from weft.core.current import Addition
from weft.core.events import (
    Activated,
    AttemptFailed,
    ErrorDetail,
    RunnableCompleted,
    RunnableDispatched,
    RunnableFailed,
    RunnableSkipped,
)
from weft.core.failure import describe
from weft.core.runnable import Outcome, Runnable
from weft.errors import CircuitOpen, DeadlineExceeded, InvalidFallback
from weft.policy import limits
from weft.policy.decision import (
    Compensate,
    DeadLetter,
    Decision,
    Fallback,
    Retry,
    Skip,
    TooLate,
    decide,
    first_wait,
    give_up,
)
from weft.policy.policy import Policy
from weft.ports.counters import CounterKey, Counters


class Attempt(msgspec.Struct, frozen=True):
    """Execute *runnable*, for at most *timeout* seconds."""

    runnable: Runnable
    timeout: float | None


class Pause(msgspec.Struct, frozen=True):
    """Let *seconds* pass."""

    seconds: float
    after: AttemptFailed | None = None
    """The failed attempt that the pause follows, for those who write down how far they are."""


class Await(msgspec.Struct, frozen=True):
    """Wait until the counter at *key* changes, for at most *seconds*."""

    key: CounterKey
    seconds: float | None


class Returned(msgspec.Struct, frozen=True):
    """The attempt gave *value*."""

    value: Any
    added: tuple[Addition, ...] = ()
    """What it added to its run."""


class Raised(msgspec.Struct, frozen=True):
    """The attempt failed with *error*."""

    error: BaseException


class Value(msgspec.Struct, frozen=True):
    """What a fallback gives to complete the component with *value*."""

    value: Any


class RetryWith:
    """What a fallback gives for one more attempt with other context: ``RetryWith(model="small")``."""

    def __init__(self, **context: Any) -> None:
        self.context = context

    def __repr__(self) -> str:
        return f"RetryWith({', '.join(f'{key}={value!r}' for key, value in self.context.items())})"


Instruction = Attempt | Pause | Await
Reply = Returned | Raised | None
Conversation = Generator[Instruction, Reply, Outcome]


class Conditions(msgspec.Struct, frozen=True):
    """What the driver is given besides the policy."""

    now: Callable[[], float]
    counters: Counters
    draw: Callable[[], float]
    """A number from 0 to 1, for ``jitter``."""
    deadline: float | None = None
    """When the run must be done, in seconds since the epoch."""
    current: Callable[[], Policy] | None = None
    """Gives the policy that holds now, asked at every decision: policies may change while a runnable is under way."""


class Begun(msgspec.Struct, frozen=True):
    """How far a runnable had come before, in this process or another."""

    attempts: int = 0
    """The number of the last attempt that was started."""
    failed: int = 0
    """How many attempts have failed; one that was cut short by a crash has not."""
    retry_at: float = 0.0
    """When the next attempt is due, in seconds since the epoch."""


FRESH = Begun()


def conduct(
    runnable: Runnable,
    policy: Policy,
    given: Conditions,
    failed: BaseException | None = None,
    *,
    begun: Begun = FRESH,
) -> Conversation:
    """
    Lead *runnable* to its outcome.

    Args:
        failed: what the first attempt raised, if that was made already.
        begun: what happened to it before.
    """
    if policy.idempotency_key is not None and runnable.own_key is None:
        try:
            own = str(policy.idempotency_key(runnable))
            runnable = msgspec.structs.replace(runnable, own_key=own)
        except Exception as error:  # noqa: BLE001 - a key that cannot be made is a failing attempt
            runnable = msgspec.structs.replace(runnable, broken=error)
    return _Driver(runnable, policy, given, begun).run(failed)


class _Driver:
    """The state of one conversation."""

    def __init__(self, runnable: Runnable, policy: Policy, given: Conditions, before: Begun) -> None:
        self.runnable, self.policy, self.given, self.before = runnable, policy, given, before
        self.attempt, self.failed = before.attempts, before.failed
        self.events: list[Activated] = []
        begun = given.now()
        ends = [given.deadline] if given.deadline is not None else []
        if policy.deadline is not None:
            ends.append(begun + policy.deadline)
        self.deadline = min(ends, default=None)

    def run(self, failed: BaseException | None) -> Conversation:
        reply: Reply
        if failed is not None:
            self._begin()
            reply = Raised(failed)
        else:
            now = self.given.now()
            wait = self.before.retry_at - now if self.before.attempts else first_wait(self.policy, now=now)
            if wait > 0:
                yield Pause(wait)
            reply = yield from self._try(self.runnable)
        while isinstance(reply, Raised):
            error = reply.error
            self._look_again()
            decision: Decision = Skip() if self._is_shut_quietly(error) else self._decide(error)
            match decision:
                case Retry(after):
                    due = self.given.now() + after
                    yield Pause(after, AttemptFailed(0, *self.runnable.key, describe(error), self.attempt, due))
                    self._look_again()
                    reply = yield from self._try(self.runnable)
                case TooLate():
                    late = DeadlineExceeded(self.runnable.component)
                    late.__cause__ = error
                    return self._give_up(late)
                case Fallback():
                    return (yield from self._fall_back(error))
                case Skip():
                    return self._end("skipped", error=error)
                case _:
                    return self._give_up(error)
        return self._complete(reply)

    def _look_again(self) -> None:
        """Take the policy that holds now."""
        if self.given.current is not None:
            self.policy = self.given.current()

    def _decide(self, error: BaseException) -> Decision:
        if isinstance(error, CircuitOpen):  # trying again at once is what a breaker is there to prevent
            return Fallback() if self.policy.fallback is not None else give_up(self.policy)
        return decide(self.policy, attempt=self.failed, error=error, remaining=self._remaining(), draw=self.given.draw)

    def _is_shut_quietly(self, error: BaseException) -> bool:
        breaker = self.policy.circuit_breaker
        return isinstance(error, CircuitOpen) and breaker is not None and breaker.on_open == "skip"

    # -- attempts --------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.attempt += 1
        self.failed += 1  # until it has returned
        self.events.append(RunnableDispatched(0, *self.runnable.key, self.attempt, self.policy.data() or None))

    def _remaining(self) -> float | None:
        return None if self.deadline is None else self.deadline - self.given.now()

    def _try(self, runnable: Runnable) -> Generator[Instruction, Reply, Reply]:
        """Make one attempt, as soon as the limits let it."""
        refused = yield from self._pass_breaker()
        if refused is not None:
            return Raised(refused)
        settled = False
        holds = False
        try:
            late = yield from self._take_turn()
            if late is None:
                holds, late = yield from self._take_place()
            if late is not None:
                return Raised(late)
            self._begin()
            timeout, capped = self._timeout()
            reply = yield Attempt(msgspec.structs.replace(runnable, attempt=self.attempt), timeout)
            if capped and isinstance(reply, Raised) and isinstance(reply.error, TimeoutError) and self._is_late():
                reply = Raised(DeadlineExceeded(runnable.component))
            self._settle_breaker(ok=isinstance(reply, Returned))
            settled = True
            return reply
        finally:
            if holds:
                self._leave_place()
            if not settled:
                self._settle_breaker(ok=None)

    def _timeout(self) -> tuple[float | None, bool]:
        """Return how long the attempt may take, and whether the deadline is what says so."""
        remaining, timeout = self._remaining(), self.policy.timeout
        if remaining is None or (timeout is not None and timeout <= remaining):
            return timeout, False
        return remaining, True

    def _is_late(self) -> bool:
        remaining = self._remaining()
        return remaining is not None and remaining <= 0

    # -- limits ----------------------------------------------------------------------------------

    def _pass_breaker(self) -> Generator[Instruction, Reply, Exception | None]:
        breaker = self.policy.circuit_breaker
        while True:
            if self._is_late():
                return DeadlineExceeded(self.runnable.component)
            if breaker is None:
                return None
            now = self.given.now()
            key = ("circuit_breaker", breaker.name)

            def ask(state: Any, breaker: limits.CircuitBreaker = breaker, now: float = now) -> tuple[Any, Any]:
                state, verdict = limits.breaker_asked(breaker, state, now=now)
                return state, (verdict, limits.breaker_wait(breaker, state, now=now))

            verdict, wait = self.given.counters.update(key, ask)
            if verdict != "refuse":
                return None
            if breaker.on_open != "wait":
                return CircuitOpen(self.runnable.component, breaker.name)
            yield Await(key, self._at_most(wait or breaker.reset_timeout))

    def _settle_breaker(self, *, ok: bool | None) -> None:
        """Tell the breaker what came of the call; None if it was let through and never made."""
        breaker = self.policy.circuit_breaker
        if breaker is None:
            return
        now = self.given.now()

        def settle(state: Any) -> tuple[Any, None]:
            if ok is None:
                return limits.breaker_spared(state), None
            return limits.breaker_settled(breaker, state, ok=ok, now=now), None

        self.given.counters.update(("circuit_breaker", breaker.name), settle)

    def _take_turn(self) -> Generator[Instruction, Reply, Exception | None]:
        rate = self.policy.rate_limit
        if rate is None:
            return None
        now = self.given.now()
        wait = self.given.counters.update(("rate_limit", rate.name), lambda s: limits.rate_taken(rate, s, now=now))
        remaining = self._remaining()
        if remaining is not None and wait >= remaining:
            return DeadlineExceeded(self.runnable.component)
        if wait > 0:
            yield Pause(wait)
        return None

    def _take_place(self) -> Generator[Instruction, Reply, tuple[bool, Exception | None]]:
        limit = self.policy.concurrency_limit
        if limit is None:
            return False, None
        key = ("concurrency_limit", limit.name)
        while not self.given.counters.update(key, lambda state: limits.place_asked(limit, state)):
            if self._is_late():
                return False, DeadlineExceeded(self.runnable.component)
            yield Await(key, self._at_most(None))
        return True, None

    def _leave_place(self) -> None:
        limit = self.policy.concurrency_limit
        assert limit is not None  # noqa: S101
        self.given.counters.update(("concurrency_limit", limit.name), lambda state: (limits.place_left(state), None))

    def _at_most(self, seconds: float | None) -> float | None:
        remaining = self._remaining()
        if remaining is None:
            return seconds
        return max(0.0, remaining if seconds is None else min(seconds, remaining))

    # -- endings ---------------------------------------------------------------------------------

    def _fall_back(self, error: BaseException) -> Conversation:
        assert self.policy.fallback is not None  # noqa: S101
        try:
            answer = self.policy.fallback(self.runnable, error)
            match answer:
                case Value(value):
                    return self._complete(Returned(value))
                case RetryWith():
                    other = self.runnable.with_context(answer.context)
                case Runnable():
                    other = answer
                case _:
                    raise InvalidFallback(  # noqa: TRY301 - it is recorded like any failure of the fallback
                        f"the fallback of {self.runnable.component!r} gave {answer!r:.80}; it must give "
                        "Value(...), RetryWith(...) or runnable.using(function)"
                    )
        except Exception as broken:  # noqa: BLE001 - a fallback that fails is the failure now
            broken.__cause__ = broken.__cause__ or error
            return self._give_up(broken)
        reply = yield from self._try(other)
        return self._give_up(reply.error) if isinstance(reply, Raised) else self._complete(reply)

    def _complete(self, reply: Reply) -> Outcome:
        assert isinstance(reply, Returned)  # noqa: S101
        return self._end("completed", result=reply.value, added=reply.added)

    def _give_up(self, error: BaseException) -> Outcome:
        match give_up(self.policy):
            case Skip():
                return self._end("skipped", error=error)
            case Compensate():
                assert self.policy.compensation is not None  # noqa: S101
                try:
                    self.policy.compensation(self.runnable, error)
                except Exception as broken:  # noqa: BLE001 - the failure stands, and says that undoing failed too
                    error.add_note(f"and its compensation failed: {type(broken).__name__}: {broken}")
                return self._end("failed", error=error, on_failure="compensate")
            case DeadLetter():
                return self._end("failed", error=error, on_failure="dead_letter")
            case _:
                return self._end("failed", error=error)

    def _end(
        self,
        status: Literal["completed", "failed", "skipped"],
        *,
        result: Any = None,
        error: BaseException | None = None,
        on_failure: Literal["halt", "dead_letter", "compensate"] = "halt",
        added: tuple[Addition, ...] = (),
    ) -> Outcome:
        """Return the outcome, with the life of the runnable; positions are given when it is recorded."""
        key, attempt = self.runnable.key, max(self.attempt, 1)
        if status == "completed":
            self.events.append(RunnableCompleted(0, *key, result, attempt))
        elif status == "skipped":
            self.events.append(RunnableSkipped(0, *key, str(error), attempt))
        else:
            detail = ErrorDetail("Exception", (), "") if error is None else describe(error)
            self.events.append(RunnableFailed(0, *key, detail, attempt, 0, on_failure))
        events, run = tuple(self.events), self.runnable.run_id
        return Outcome(*key, status, result, error, attempt, 0, events, on_failure, run, added)
