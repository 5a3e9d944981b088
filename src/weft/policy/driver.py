"""
Drives one runnable under one policy: attempts, waits, fallbacks, limits.

The driver is a generator.  It yields the next instruction, such as an attempt or a pause, and receives the reply,
until it has an outcome.  Its caller may block or be a coroutine; the driver neither waits nor reads a clock itself,
so the rules of retrying are written once.

    waiting ──► attempting ──► completed
       ▲            │
       │            ├── failed, worth a retry ──► waiting
       └────────────┘
                    ├── failed for good ──► fallback ──► completed, or attempting once more
                    └── skipped, failed, dead letter, compensated

Invariants: an attempt that was admitted to a limit leaves it again, even if the generator is dropped; no attempt
starts after the deadline or continues after it; a fallback is called once, and not after the deadline of its input.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from types import CoroutineType
from typing import Any, Literal

import msgspec

from weft.core.events import (
    Activated,
    AttemptFailed,
    CompletionAwaited,
    ErrorDetail,
    RunnableCompleted,
    RunnableDispatched,
    RunnableFailed,
    RunnableSkipped,
)
from weft.core.failure import PROPAGATES, describe, text_of
from weft.core.functions.current import Addition
from weft.core.run.runnable import Outcome, Runnable
from weft.errors import (
    CircuitOpen,
    DeadlineExceeded,
    InvalidFallback,
    InvalidPolicy,
    SilentStep,
    StepCancelled,
    StepTimeout,
)
from weft.policy.admission import Admission
from weft.policy.decision import (
    Compensate,
    DeadLetter,
    Decision,
    Fallback,
    Halt,
    Retry,
    Skip,
    TooLate,
    decide,
    first_wait,
    give_up,
)
from weft.policy.fallback import RetryWith, Value, ask
from weft.policy.instructions import (
    FRESH,
    Attempt,
    Await,
    AwaitTurn,
    Begun,
    CallPolicy,
    Conditions,
    Instruction,
    Instructions,
    Overtaken,
    Pause,
    Raised,
    Reply,
    Returned,
)
from weft.policy.policy import Policy

__all__ = [
    "FRESH",
    "Attempt",
    "Await",
    "AwaitTurn",
    "Begun",
    "CallPolicy",
    "Conditions",
    "Instruction",
    "Instructions",
    "Overtaken",
    "Pause",
    "Raised",
    "Reply",
    "RetryWith",
    "Returned",
    "Value",
    "conduct",
]


def conduct(
    runnable: Runnable,
    policy: Policy,
    given: Conditions,
    failed: BaseException | None = None,
    *,
    begun: Begun = FRESH,
) -> Instructions:
    """
    Drive *runnable* to its outcome.

    Args:
        failed: the exception of the first attempt, if that was made already.
        begun: the progress of the runnable before.
    """
    if policy.idempotency_key is not None and runnable.own_key is None:
        try:
            runnable = msgspec.structs.replace(runnable, own_key=_own_key(policy.idempotency_key(runnable)))
        except PROPAGATES:
            raise
        except BaseException as error:  # noqa: BLE001 - a key that cannot be computed is a failing attempt
            runnable = msgspec.structs.replace(runnable, broken=error)
    return _Driver(runnable, policy, given, begun).run(failed)


def _own_key(given: object) -> str:
    """Return the key that a policy has *given*; refuse an empty one, which would be the same for all runnables."""
    if given is None or given == "":
        raise InvalidPolicy(f"the idempotency_key function returned {given!r}; it must return text that names the work")
    return str(given)


class _Driver:
    """The state of the driver of one runnable."""

    def __init__(self, runnable: Runnable, policy: Policy, given: Conditions, before: Begun) -> None:
        self.runnable, self.policy, self.given, self.before = runnable, policy, given, before
        self.attempt, self.failed = before.attempts, before.failed
        self.events: list[Activated] = []
        self.began, self.duration_ns = before.since or given.now(), 0

    def run(self, failed: BaseException | None) -> Instructions:
        reply = yield from self._first(failed)
        while isinstance(reply, Raised):
            decision, error = self._judge(reply.error)
            match decision:
                case Retry(after):
                    yield Pause(after, self._attempt_failed(error, after))
                    self._look_again()
                    reply = yield from self._try(self.runnable)
                case Fallback():
                    return (yield from self._fall_back(error))
                case Skip():
                    return self._end("skipped", error=error)
                case _:
                    return (yield from self._give_up(error))
        return self._hand_out(reply) if self.policy.execution_mode == "external" else self._complete(reply)

    def _first(self, failed: BaseException | None) -> Generator[Instruction, Reply, Reply]:
        """Make the first attempt when it is due; or continue after the one that has *failed*."""
        if failed is not None:
            self._begin()
            return Raised(failed)
        now, remaining = self.given.now(), self._remaining()
        if self.before.attempts:
            wait = self.before.retry_at - now
        else:
            wait = first_wait(self.policy, now=now, since=self.began)
        if wait > 0 and remaining is not None and wait >= remaining:
            return Raised(DeadlineExceeded(self.runnable.component))
        if wait > 0:
            yield Pause(wait)
        return (yield from self._try(self.runnable))

    # -- decisions -------------------------------------------------------------------------------

    def _look_again(self) -> None:
        """Use the policy that is in force now."""
        if self.given.current is not None:
            self.policy = self.given.current()

    def _judge(self, error: BaseException) -> tuple[Decision, BaseException]:
        """Return what to do about *error*, and the error that counts: that of the policy, if the policy fails."""
        if isinstance(error, StepCancelled):
            return Halt(), error
        try:
            self._look_again()
            decision = self._decide(error)
        except PROPAGATES:
            raise
        except BaseException as broken:  # noqa: BLE001 - a function of the policy failed, and that is now the failure
            return give_up(self.policy), _because(broken, error)
        if isinstance(decision, TooLate):
            return self._last(), _because(DeadlineExceeded(self.runnable.component), error)
        return decision, error

    def _decide(self, error: BaseException) -> Decision:
        if isinstance(error, CircuitOpen):  # a breaker exists to prevent an immediate retry
            breaker = self.policy.circuit_breaker
            return Skip() if breaker is not None and breaker.on_open == "skip" else self._last()
        return decide(self.policy, attempt=self.failed, error=error, remaining=self._remaining(), draw=self.given.draw)

    def _last(self) -> Decision:
        """Return what to do when no further attempt is made."""
        return Fallback() if self.policy.fallback is not None else give_up(self.policy)

    def _attempt_failed(self, error: BaseException, after: float) -> AttemptFailed:
        """Return the event for an attempt that has failed with *error*; the next one is due *after* some seconds."""
        now, spent = self.given.now(), self.duration_ns
        return AttemptFailed(0, *self.runnable.key, describe(error), self.attempt, now + after, self.began, now, spent)

    # -- attempts --------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.attempt += 1
        self.failed += 1  # until it has returned
        self.events.append(RunnableDispatched(0, *self.runnable.key, self.attempt, self.policy.data() or None))

    def _deadline(self) -> float | None:
        """Return the deadline: that of the run, or of the present policy, counted from the beginning."""
        own = None if self.policy.deadline is None else self.began + self.policy.deadline
        return min((end for end in (own, self.given.deadline) if end is not None), default=None)

    def _remaining(self) -> float | None:
        deadline = self._deadline()
        return None if deadline is None else deadline - self.given.now()

    def _try(self, runnable: Runnable) -> Generator[Instruction, Reply, Reply]:
        """Make one attempt, as soon as the limits admit it."""
        admission, ok = Admission(runnable.component, self.policy, self.given, self._deadline()), None
        begins = None if self.policy.rate_limit is None else admission.begin
        try:
            refused = yield from admission.enter()
            while refused is None:
                timeout, capped = self._timeout()
                until = self._deadline()
                tried = msgspec.structs.replace(runnable, attempt=self.attempt + 1)
                reply = yield Attempt(tried, timeout, until, begins)
                if isinstance(reply, Overtaken):
                    refused = yield from admission.enter_again()
                    continue
                self._begin()
                is_late = capped or (until is not None and until - self.given.now() < _EARLY)
                if isinstance(reply, Raised) and is_late and _is_timeout(reply.error, runnable.component):
                    reply = Raised(DeadlineExceeded(runnable.component), reply.duration_ns)
                ok = isinstance(reply, Returned)
                self.duration_ns = 0 if reply is None else reply.duration_ns
                return reply
            return Raised(refused)
        finally:
            admission.leave(ok=ok)

    def _timeout(self) -> tuple[float | None, bool]:
        """Return how long the attempt may take, and whether that is because of the deadline."""
        remaining, timeout = self._remaining(), self.policy.timeout
        if remaining is None or (timeout is not None and timeout <= remaining):
            return timeout, False
        return remaining, True

    # -- endings ---------------------------------------------------------------------------------

    def _fall_back(self, error: BaseException) -> Instructions:
        assert self.policy.fallback is not None  # noqa: S101
        until, late = self.given.deadline, _because(DeadlineExceeded(self.runnable.component), error)
        if until is not None and self.given.now() >= until:
            return (yield from self._give_up(late))
        if self.given.falling_back is not None:
            self.given.falling_back(error)
        reply = yield CallPolicy(partial(ask, self.policy.fallback, self.runnable, error), until)
        if reply is None or (until is not None and until - self.given.now() < _EARLY):
            return (yield from self._give_up(late))
        if isinstance(reply, Raised):  # if the fallback fails, that is now the failure
            return (yield from self._give_up(_because(reply.error, error)))
        assert isinstance(reply, Returned)  # noqa: S101
        answer: Value | Runnable = reply.value
        if self.policy.execution_mode == "external" and isinstance(answer, Runnable) and answer.override is None:
            wrong = "asked for the step again, which is external; return Value(...) or runnable.using(function)"
            invalid = InvalidFallback(f"the fallback of {self.runnable.component!r} {wrong}")
            return (yield from self._give_up(_because(invalid, error)))
        if isinstance(answer, Value):
            return self._complete(Returned(answer.value))
        reply = yield from self._try(answer)
        if isinstance(reply, Raised):
            return (yield from self._give_up(reply.error))
        return self._complete(reply)

    def _complete(self, reply: Reply) -> Outcome:
        assert isinstance(reply, Returned)  # noqa: S101
        return self._end("completed", result=reply.value, added=reply.added)

    def _hand_out(self, reply: Reply) -> Outcome:
        """Return the outcome of an external step whose function has returned: it is open."""
        assert isinstance(reply, Returned)  # noqa: S101
        key, attempt, now = self.runnable.key, max(self.attempt, 1), self.given.now()
        ends = [self._deadline()]
        if self.policy.timeout is not None:
            ends.append(now - self.duration_ns / 1e9 + self.policy.timeout)
        due = min((end for end in ends if end is not None), default=None)
        self.events.append(CompletionAwaited(0, *key, attempt, now, due, self.began, self.duration_ns))
        events, run = tuple(self.events), self.runnable.run_id
        return Outcome(*key, "open", None, None, attempt, self.duration_ns, events, run_id=run, added=reply.added)

    def _give_up(self, error: BaseException) -> Instructions:
        decided = give_up(self.policy)
        if isinstance(error, StepCancelled) and not isinstance(decided, Compensate):
            decided = Halt()  # a person does not want it: it is neither skipped nor kept
        match decided:
            case Skip():
                return self._end("skipped", error=error)
            case Compensate():
                yield from self._compensate(error)
                return self._end("failed", error=error, on_failure="compensate")
            case DeadLetter():
                return self._end("failed", error=error, on_failure="dead_letter")
            case _:
                return self._end("failed", error=error)

    def _compensate(self, error: BaseException) -> Generator[Instruction, Reply, None]:
        """Run the compensation; the failure stands, with a note if the compensation failed too."""
        assert self.policy.compensation is not None  # noqa: S101
        reply = yield CallPolicy(partial(self.policy.compensation, self.runnable, error))
        if isinstance(reply, Raised):
            error.add_note(f"and its compensation failed: {type(reply.error).__name__}: {reply.error}")
            return
        done: Any = reply.value if isinstance(reply, Returned) else None
        if isinstance(done, CoroutineType):
            done.close()
            error.add_note("and its compensation returned a coroutine, which nothing awaits; use on_error(then=...)")

    def _end(
        self,
        status: Literal["completed", "failed", "skipped"],
        *,
        result: Any = None,
        error: BaseException | None = None,
        on_failure: Literal["halt", "dead_letter", "compensate"] = "halt",
        added: tuple[Addition, ...] = (),
    ) -> Outcome:
        """Return the outcome, with the events of the runnable; positions are set when it is recorded."""
        key, attempt, duration = self.runnable.key, max(self.attempt, 1), self.duration_ns
        if status == "completed":
            self.events.append(RunnableCompleted(0, *key, result, attempt, duration))
        elif status == "skipped":
            self.events.append(RunnableSkipped(0, *key, "None" if error is None else text_of(error), attempt))
        else:
            detail = ErrorDetail("Exception", (), "") if error is None else describe(error)
            self.events.append(RunnableFailed(0, *key, detail, attempt, duration, on_failure))
        events, run = tuple(self.events), self.runnable.run_id
        return Outcome(*key, status, result, error, attempt, duration, events, on_failure, run, added)


_EARLY = 0.001
"""How many seconds too early a timer may fire."""


def _is_timeout(error: BaseException, component: str) -> bool:
    """Return whether *error* means that an attempt of *component* took too long (not a heartbeat or queue timeout)."""
    return isinstance(error, StepTimeout) and not isinstance(error, SilentStep) and error.component == component


def _because(error: BaseException, cause: BaseException) -> BaseException:
    """Return *error* with *cause* as its ``__cause__``."""
    if error is not cause and error.__cause__ is None:
        error.__cause__ = cause
    return error
