"""
External steps: tokens, and what comes from outside with them (ADR 36).

A driver calls :func:`issue_token` before an attempt, :func:`complete_outside` or :func:`fail_outside` for what came,
and :func:`token_of` for the text that the function hands to the outside.

    >>> token = token_text("order-17", "s3cret")
    >>> parse_token(token)
    ('order-17', 's3cret')
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from weft.core import events as ev
from weft.core.failure import describe, described
from weft.core.fold.fold import record
from weft.core.fold.memory import Memory
from weft.core.fold.scope import Key
from weft.core.run.texts import check_text_or_none
from weft.errors import (
    ExternalFailure,
    HistoryNotLoaded,
    InvalidArgument,
    InvalidToken,
    StepCancelled,
    TokenExpired,
    shown,
)


def token_text(run_id: str, secret: str) -> str:
    """Return the token of the run *run_id* with this *secret*: text without spaces, also for an address of the web."""
    return f"{base64.urlsafe_b64encode(run_id.encode()).decode().rstrip('=')}.{secret}"


def parse_token(token: object) -> tuple[str, str]:
    """
    Return the id of the run that issued *token*, and its secret part.

    Raises:
        InvalidToken: it is not a token.
    """
    if not isinstance(token, str):
        raise InvalidToken(f"{shown(token)} is not a token, which is text")
    run, dot, secret = token.partition(".")
    try:
        run_id = base64.b64decode(run + "=" * (-len(run) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        run_id = ""
    if not dot or not secret or not run_id:
        raise InvalidToken("this text is not a token; pass what weft.current().token was in the step")
    return run_id, secret


def issue_token(memory: Memory, key: Key, secret: str, now: float) -> None:
    """Let the attempt at *key*, which is about to start, be completed with a token; it keeps the one that it has."""
    attempt = None if memory.external is None else memory.external.get(key)
    if attempt is None or attempt.token is None:
        record(memory, ev.TokenIssued(len(memory.log) + 1, *key, secret, now))


def token_of(memory: Memory, key: Key) -> str | None:
    """Return the token that is in force for the step at *key*; None if there is none."""
    attempt = None if memory.external is None else memory.external.get(key)
    return None if attempt is None or attempt.token is None else token_text(memory.run_id, attempt.token)


def failure_outside(memory: Memory, key: Key) -> BaseException | None:
    """Return the error with which the attempt at *key* has failed outside, if its policy has not decided yet."""
    attempt = None if memory.external is None else memory.external.get(key)
    failed = None if attempt is None else attempt.failed
    if isinstance(failed, ev.RunnableCancelled):
        return StepCancelled(key[0], failed.reason, failed.by)
    return None if failed is None else described(failed.error)


def await_completion(memory: Memory, awaited: ev.CompletionAwaited, secret: str, now: float) -> None:
    """Record that a step is open, unless it has failed outside already; one without a token gets this *secret*."""
    key = (awaited.component, awaited.inputs)
    if failure_outside(memory, key) is None or token_of(memory, key) is not None:
        issue_token(memory, key, secret, now)
        record(memory, ev.CompletionAwaited(len(memory.log) + 1, *key, *_rest(awaited)))


def _rest(awaited: ev.CompletionAwaited) -> tuple[Any, ...]:
    return awaited.attempt, awaited.at, awaited.due, awaited.since, awaited.duration_ns


def open_step(memory: Memory, secret: str) -> Key:
    """
    Return the step that the token with this *secret* is for.

    Raises:
        TokenExpired: that attempt has ended.  Where the beginning of the log is not in memory, or was removed, that is
            said of a token that this run has not issued, too; in the first case ``HistoryNotLoaded`` is the cause.
        InvalidToken: this run has not issued such a token.
    """
    key = None if memory.external is None else memory.external.find(secret)
    if key is not None:
        return key
    try:
        issued = next((each for each in memory.log if isinstance(each, ev.TokenIssued) and each.token == secret), None)
        why = None if issued is None else _why_expired(memory, issued)
    except HistoryNotLoaded as missing:  # but what is open is always in memory
        raise TokenExpired(memory.run_id, "its attempt has ended, if this run has issued it") from missing
    if why is not None:
        raise TokenExpired(memory.run_id, why)
    if memory.lineage.removed:
        why = "its attempt has ended, if this run has issued it: the beginning of the log was removed"
        raise TokenExpired(memory.run_id, why)
    raise InvalidToken(
        f"run {memory.run_id!r} has not issued this token; pass what weft.current().token was in the step"
    )


def _why_expired(memory: Memory, issued: ev.TokenIssued) -> str:
    """Return, in words, what has ended the attempt that *issued* a token."""
    if memory.cancelled is not None:
        return "the run was cancelled"
    if issued.seq in memory.lineage.void:
        return f"the run was retried, forked or upgraded since, and {issued.component!r} has another token, or none"
    for event in memory.log[issued.seq :]:
        if not isinstance(event, ev.Activated) or (event.component, event.inputs) != (issued.component, issued.inputs):
            continue
        if isinstance(event, ev.CompletionReceived):
            return f"{issued.component!r} was completed with it{_by(event.by)}"
        if isinstance(event, ev.FailureReceived):
            return f"this attempt of {issued.component!r} has failed ({event.error.type}){_by(event.by)}"
        if isinstance(event, ev.RunnableCancelled):
            return f"{issued.component!r} was cancelled{_by(event.by)}"
        if isinstance(event, (ev.AttemptFailed, *ev.ENDINGS)):
            break
    return f"this attempt of {issued.component!r} has ended"


def _by(by: str | None) -> str:
    return "" if by is None else f", by {by}"


def attempt_number(memory: Memory, key: Key) -> int:
    """Return the number of the present attempt of the external step at *key*."""
    waiting = (memory.waiting or {}).get(key)
    return (memory.dispatched or {}).get(key, 1) if waiting is None else waiting.attempt


def complete_outside(memory: Memory, secret: str, value: Any, *, at: float, by: str | None = None) -> Key:
    """
    Record that the step of a token was completed with *value*; return its key.

    Raises:
        TokenExpired, InvalidToken: as :func:`open_step`.
    """
    check_text_or_none("by", by)
    key = open_step(memory, secret)
    number = attempt_number(memory, key)
    record(memory, ev.CompletionReceived(len(memory.log) + 1, *key, value, number, at=at, by=by))
    return key


def fail_outside(memory: Memory, secret: str, error: ev.ErrorDetail, *, at: float, by: str | None = None) -> Key:
    """
    Record that the attempt of a token has failed outside with *error*; return its key.

    Raises:
        TokenExpired, InvalidToken: as :func:`open_step`.
    """
    check_text_or_none("by", by)
    key = open_step(memory, secret)
    record(memory, ev.FailureReceived(len(memory.log) + 1, *key, error, attempt_number(memory, key), at, by))
    return key


def failure_from(error: object) -> ev.ErrorDetail:
    """
    Return *error*, an exception or text that the outside gave, as data.

    Raises:
        InvalidArgument: it is neither.
    """
    if isinstance(error, str):
        return describe(ExternalFailure(error))
    if not isinstance(error, BaseException):
        raise InvalidArgument(f"fail(token, {shown(error)}): pass an exception, or text that says what went wrong")
    return describe(error)
