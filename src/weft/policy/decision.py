"""
Decides what to do about a failure.  Pure: no clock, no sleep, no logging.

    >>> decide(Policy(max_retries=2, backoff="linear", base_delay=0.5), attempt=1, error=OSError())
    Retry(after=0.5)
    >>> decide(Policy(max_retries=2), attempt=3, error=OSError())
    Halt()
    >>> decide(Policy(on_failure="skip"), attempt=1, error=OSError())
    Skip()
    >>> decide(Policy(max_retries=9, non_retryable=(ValueError,)), attempt=1, error=ValueError())
    Halt()
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from weft.errors import DeadlineExceeded
from weft.policy.backoff import delay
from weft.policy.policy import Policy


class Retry(msgspec.Struct, frozen=True):
    """Run it again in *after* seconds."""

    after: float


class TooLate(msgspec.Struct, frozen=True):
    """A retry would start after the deadline: give up now."""

    after: float


class Fallback(msgspec.Struct, frozen=True):
    """Call the policy's fallback."""


class Skip(msgspec.Struct, frozen=True):
    """Let the run continue as if this component had produced nothing."""


class Halt(msgspec.Struct, frozen=True):
    """Fail."""


class DeadLetter(msgspec.Struct, frozen=True):
    """Fail, and keep the failure so that it can be retried."""


class Compensate(msgspec.Struct, frozen=True):
    """Undo, then fail."""


Decision = Retry | TooLate | Fallback | Skip | Halt | DeadLetter | Compensate


def decide(
    policy: Policy,
    *,
    attempt: int,
    error: BaseException,
    remaining: float | None = None,
    draw: Callable[[], float] = lambda: 0.5,
) -> Decision:
    """
    Return what to do after *attempt*, counted from 1, raised *error*.

    Args:
        remaining: seconds until the deadline, if there is one.
        draw: a number from 0 to 1, for ``jitter``.
    """
    if attempt <= policy.max_retries and is_retryable(policy, error):
        after = delay(policy, attempt, draw)
        return Retry(after) if remaining is None or after < remaining else TooLate(after)
    return Fallback() if policy.fallback is not None else give_up(policy)


def give_up(policy: Policy) -> Decision:
    """Return what to do about the last failure, when retries and fallbacks are used up."""
    match policy.on_failure:
        case "skip":
            return Skip()
        case "dead_letter":
            return DeadLetter()
        case "compensate":
            return Compensate()
        case _:
            return Halt()


def is_retryable(policy: Policy, error: BaseException) -> bool:
    """Return whether *policy* allows another attempt after *error*."""
    if isinstance(error, (DeadlineExceeded, *policy.non_retryable)):
        return False
    retryable: Any = policy.retryable
    return isinstance(error, retryable) if isinstance(policy.retryable, tuple) else bool(retryable(error))


LATE = 0.02
"""How many seconds too late a timer may fire before the loop counts as blocked."""
_LEAST = 0.1


def given_back(late: float, *, timeout: float, given: float) -> float:
    """
    Return the grace left, in seconds, for an attempt that has timed out (0: end it now).

    While other code blocks the event loop, no outcome can be collected and no coroutine continues: an attempt that
    would have ended in time must not be timed out for that.  So it gets back the time that it lost, which is how *late*
    its timer fired.  The sum of what was *given* is never more than its *timeout*, so a hanging attempt ends.

    >>> given_back(0.001, timeout=1.0, given=0.0), given_back(0.5, timeout=1.0, given=0.0)
    (0.0, 0.5)
    >>> given_back(60.0, timeout=1.0, given=0.0), given_back(60.0, timeout=1.0, given=1.0)
    (1.0, 0.0)
    """
    return 0.0 if late <= LATE else min(late, max(0.0, max(timeout, _LEAST) - given))


def first_wait(policy: Policy, *, now: float, since: float = 0.0) -> float:
    """
    Return how long the first attempt has to wait, at *now*, seconds since the epoch.

    Args:
        since: when it became ready; now if not given.  A delay is never longer than declared, even if clocks change.
    """
    waited = now - since if since else 0.0
    delay = min(policy.delay - waited, policy.delay)
    scheduled = 0.0 if policy.scheduled_at is None else _seconds_until(policy.scheduled_at, now)
    return max(delay, scheduled, 0.0)


def _seconds_until(moment: datetime, now: float) -> float:
    return moment.timestamp() - now


def is_silent(policy: Policy, *, last_sign: float, now: float) -> bool:
    """Return whether an attempt whose last heartbeat was at *last_sign* counts as dead."""
    return policy.heartbeat is not None and now - last_sign > policy.heartbeat


def has_queued_too_long(policy: Policy, *, ready_since: float, now: float) -> bool:
    """Return whether work that became ready at *ready_since* may no longer be started."""
    return policy.queue_timeout is not None and now - ready_since > policy.queue_timeout
