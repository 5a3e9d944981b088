"""
External steps in the fold: the tokens in force, and the attempts that failed outside and wait for their policy.

    ready ──TokenIssued──► has a token ──CompletionAwaited──► open (in ``memory.waiting``) ──CompletionReceived──► ended
                                │                              │
                                └──────── FailureReceived ─────┴──► ready, failed outside ──► as its policy decides

Most runs have no external step: then ``memory.external`` is None, and nothing here is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from weft.core import events as ev
from weft.core.fold.scope import Key, Waiting

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory


class ExternalAttempt(msgspec.Struct, eq=False):
    """The present attempt of one external step."""

    token: str | None = None
    """The secret part of its token; None if that was used, or if no token was issued yet."""
    failed: ev.FailureReceived | ev.RunnableCancelled | None = None
    """How it has failed outside, until its policy has decided what follows."""
    failures: int = 0
    """How often it has failed outside, counted where the log has no ``AttemptFailed``: in a run in memory."""
    since: float = 0.0
    """When the first attempt began, if that is known; in seconds since the epoch."""


class ExternalAttempts:
    """The present attempts of the external steps of one run."""

    __slots__ = ("_by_key", "_by_token")

    def __init__(self) -> None:
        self._by_key: dict[Key, ExternalAttempt] = {}
        self._by_token: dict[str, Key] = {}

    def get(self, key: Key) -> ExternalAttempt | None:
        """Return the present attempt of the step at *key*."""
        return self._by_key.get(key)

    def find(self, token: str) -> Key | None:
        """Return the step that *token*, the secret part of one, is for; None if it is not in force."""
        return self._by_token.get(token)

    def tokens(self) -> dict[str, Key]:
        """Return the tokens in force, in the order in which they were issued."""
        return dict(self._by_token)

    def issue(self, key: Key, token: str) -> None:
        """Let *token* complete the step at *key*."""
        attempt = self._by_key.setdefault(key, ExternalAttempt())
        attempt.token = token
        self._by_token[token] = key

    def fail(self, key: Key, event: ev.FailureReceived | ev.RunnableCancelled) -> None:
        """Note that the attempt at *key* has failed outside, or was cancelled: its token is used."""
        attempt = self._by_key.setdefault(key, ExternalAttempt())
        if attempt.token is not None:
            self._by_token.pop(attempt.token, None)
        attempt.token, attempt.failed = None, event
        attempt.failures += 1

    def drop(self, key: Key) -> None:
        """Forget the attempt at *key*: it has ended, and it is decided what follows."""
        attempt = self._by_key.pop(key, None)
        if attempt is not None and attempt.token is not None:
            self._by_token.pop(attempt.token, None)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def attempts(self) -> dict[Key, ExternalAttempt]:
        """Return the present attempts, in the order in which they began."""
        return dict(self._by_key)

    @classmethod
    def restored(cls, attempts: dict[Key, ExternalAttempt], tokens: dict[str, Key]) -> ExternalAttempts:
        """Return what :meth:`attempts` and :meth:`tokens` have returned, as one again."""
        made = cls()
        made._by_key, made._by_token = attempts, tokens
        return made


def token_issued(memory: Memory, event: ev.TokenIssued) -> None:
    """The attempt that is about to start has a token."""
    key = (event.component, event.inputs)
    if memory.at(key) is None:
        raise memory.story(event)
    if memory.external is None:
        memory.external = ExternalAttempts()
    if memory.external.find(event.token) is not None:
        raise memory.story(event)
    memory.external.issue(key, event.token)


def completion_awaited(memory: Memory, event: ev.CompletionAwaited) -> None:
    """The function has returned: the step is open, and waits for its completion from outside."""
    key = (event.component, event.inputs)
    attempt = None if memory.external is None else memory.external.get(key)
    activation = memory.at(key)
    if activation is None or attempt is None or attempt.token is None:
        raise memory.story(event)
    del memory.ready[key]
    if memory.unopened is not None and not memory.ready:
        memory.open_more()
    if memory.dispatched:
        memory.dispatched.pop(key, None)
    attempt.failed, attempt.since = None, event.since
    memory.keep_waiting(Waiting(activation, event.due, attempt=event.attempt))


def failure_received(memory: Memory, event: ev.FailureReceived) -> None:
    """The attempt has failed outside: the step is ready again, for what its policy says about that."""
    key = (event.component, event.inputs)
    external = memory.external
    attempt = None if external is None else external.get(key)
    if external is None or attempt is None or attempt.token is None:
        raise memory.story(event)
    _end_attempt(memory, external, key, event)


def runnable_cancelled(memory: Memory, event: ev.RunnableCancelled) -> None:
    """The runnable was cancelled: it is ready, for what its policy says about that."""
    key = (event.component, event.inputs)
    waiting = (memory.waiting or {}).get(key)
    if memory.at(key) is None and (waiting is None or not waiting.attempt):
        raise memory.story(event)
    if memory.external is None:
        memory.external = ExternalAttempts()
    _end_attempt(memory, memory.external, key, event)


def _end_attempt(
    memory: Memory, external: ExternalAttempts, key: Key, event: ev.FailureReceived | ev.RunnableCancelled
) -> None:
    external.fail(key, event)
    if memory.dispatched is None:
        memory.dispatched = {}
    memory.dispatched[key] = event.attempt  # until it is known what follows
    waiting = None if memory.waiting is None else memory.waiting.pop(key, None)
    if waiting is None:
        if memory.at(key) is None:
            raise memory.story(event)
        return
    memory.waiting = memory.waiting or None
    memory.ready[key] = waiting.activation
    memory.newly_ready.append(waiting.activation)
