"""
External steps in a worker: tokens before attempts, and completions and failures that come from outside (ADR 36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.core import events as ev
from weft.core.failure import described
from weft.core.fold.fold import record
from weft.core.run.external import complete_outside, fail_outside, failure_outside, issue_token, open_step, token_of
from weft.errors import RunParked
from weft.log import encode_once, needs_encoding
from weft.runner.execution.inflight import InFlight, dispatched
from weft.runner.execution.large_values import exhausted
from weft.runner.execution.outcomes import failed

if TYPE_CHECKING:
    from weft.policy.policy import Policy
    from weft.runner.execution.worker import Worker


def announce_attempt(worker: Worker, inflight: InFlight, attempt: int, policy: Policy) -> None:
    """Record that an *attempt* of a durable or external step is about to start, with the token of an external one."""
    memory, key = worker.run.memory, inflight.activation.key
    record(memory, dispatched(memory, key, attempt, policy))
    if policy.execution_mode == "external":
        issue_token(memory, key, worker.dispatcher.new_secret(), worker.dispatcher.clock.time())


def take_failure(worker: Worker, inflight: InFlight) -> bool:
    """Return whether the last attempt of *inflight* has failed outside; its driver is told when it has a slot."""
    memory = worker.run.memory
    inflight.outside = None if memory.external is None else failure_outside(memory, inflight.activation.key)
    return inflight.outside is not None


def has_been_completed(worker: Worker, inflight: InFlight) -> bool:
    """Return whether *inflight*, whose attempt has just ended, was completed from outside while it ran."""
    memory, key = worker.run.memory, inflight.activation.key
    return inflight.is_external and memory.ready.get(key) is not inflight.activation


def token_for(worker: Worker, inflight: InFlight) -> str | None:
    """Return the token that the function of *inflight* hands to the outside; None if it is not external."""
    return token_of(worker.run.memory, inflight.activation.key) if inflight.is_external else None


def complete_step(worker: Worker, secret: str, value: Any, by: str | None) -> None:
    """
    Complete the external step of the token with this *secret*.

    Raises:
        TokenExpired, InvalidToken: it is not in force.
        UnencodableValue: the value could not be stored.
        RunClosed, RunParked: it has finished, or needs a person.
    """
    _check_open(worker)
    memory = worker.run.memory
    if needs_encoding(value):
        exhausted(encode_once(value, open_step(memory, secret)[0]))
    key = complete_outside(memory, secret, value, at=worker.dispatcher.clock.time(), by=by)
    inflight = worker.queue.by_key.get(key)
    if inflight is not None and not inflight.is_started and not inflight.has_ended:
        worker.attempts.drop(inflight)
    worker.changed()
    worker.checkpoint()


def fail_step(worker: Worker, secret: str, error: ev.ErrorDetail, by: str | None) -> None:
    """
    Fail the attempt of the external step of the token with this *secret*; its policy decides what follows.

    Raises:
        TokenExpired, InvalidToken, RunClosed, RunParked: as :func:`complete_step`.
    """
    _check_open(worker)
    memory = worker.run.memory
    key = fail_outside(memory, secret, error, at=worker.dispatcher.clock.time(), by=by)
    inflight = worker.queue.by_key.get(key)
    if inflight is not None:
        _cut_short(worker, inflight, error)
    worker.changed()
    worker.checkpoint()


def _cut_short(worker: Worker, inflight: InFlight, error: ev.ErrorDetail) -> None:
    """Stop an attempt that has failed outside before its function returned, or has not started again after a crash."""
    if inflight.is_started and inflight.runnable is not None:
        worker.dispatcher.withdraw(inflight)
        worker.attempts.ended(inflight, failed(inflight.runnable, described(error)))
    elif not inflight.has_ended:
        worker.attempts.drop(inflight)
        worker.run.memory.newly_ready.append(inflight.activation)


def _check_open(worker: Worker) -> None:
    worker.check_open()
    if worker.state == "parked":
        raise RunParked(worker.id, worker.reason)
