"""
``complete`` and ``fail`` of a runner, by which other programs end external steps (ADR 36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weft.core import events as ev
from weft.core.run.external import failure_from, open_step, parse_token
from weft.core.run.texts import check_text_or_none
from weft.errors import (
    HistoryNotLoaded,
    InvalidToken,
    RunClosed,
    RunNotFound,
    RunNotHeld,
    RunParked,
    TokenExpired,
    WeftError,
)
from weft.log import check_encodable
from weft.runner.execution.external import complete_step, fail_step
from weft.runner.execution.worker import Worker
from weft.runner.histories import RunnerHistories

USED: Final = "it was used, and the run takes that in when it is driven"
MOST_READ: Final = 4096
"""Of a run elsewhere with more events than these, a token is not looked for: reading its log would take too long."""


class ExternalCompletions(RunnerHistories):
    """The calls that end external steps."""

    async def complete(self, token: str, value: Any = None, *, by: str | None = None) -> None:
        """
        Complete the external step that *token* is for, with *value*.

        When this returns, the completion is stored.  For a run that is not in this runner, it is stored as a message in
        the inbox of the run.  Before that, the token is looked for in the stored log, if that has at most 4,096
        events.  A token that expires after that is refused by the process that drives the run, with a warning of the
        logger ``weft.runner``.

        Args:
            token: what ``weft.current().token`` was in the step.
            value: the value of the step.
            by: the name of the caller; kept in the log.

        Raises:
            TokenExpired: it was used, or that attempt has ended otherwise: in time, or since the run was cancelled.
            InvalidToken: no run has issued it.
            UnencodableValue: the value could not be stored.
            RunNotHeld: another process drives the run, and the store takes no messages.
        """
        _, secret = parse_token(token)
        check_encodable(value, "complete()")
        message = ev.CompletionReceived(0, "", (), value, at=self._now(), by=by, token=secret)
        await self._outside(token, by, lambda worker: complete_step(worker, secret, value, by), message)

    async def fail(self, token: str, error: BaseException | str, *, by: str | None = None) -> None:
        """
        Fail the attempt of the external step that *token* is for; its policy decides what follows.

        Args:
            token: what ``weft.current().token`` was in the step.
            error: an exception, or text that says what went wrong.
            by: the name of the caller; kept in the log.

        Raises:
            TokenExpired, InvalidToken, RunNotHeld: as :meth:`complete`.
        """
        _, secret = parse_token(token)
        detail = failure_from(error)
        message = ev.FailureReceived(0, "", (), detail, at=self._now(), by=by, token=secret)
        await self._outside(token, by, lambda worker: fail_step(worker, secret, detail, by), message)

    def _now(self) -> float:
        return self._runtime.dispatcher.clock.time()

    async def _outside(
        self,
        token: str,
        by: str | None,
        change: Callable[[Worker], None],
        message: ev.CompletionReceived | ev.FailureReceived,
    ) -> None:
        """Let the worker of the run of *token* make a *change*; leave a *message* for a run that is not here."""
        check_text_or_none("by", by)
        run, secret = parse_token(token)
        try:
            worker = await self._runtime.lookup.changeable(run)
            change(worker)
        except RunNotFound:
            raise InvalidToken(f"this token is one of run {run!r}, and there is no such run") from None
        except RunClosed as closed:
            raise TokenExpired(run, f"the run is {closed.status}") from None
        except TokenExpired as expired:
            if isinstance(expired.__cause__, HistoryNotLoaded):  # the store may know why
                await self._check_elsewhere(run, secret)
            raise
        except (RunNotHeld, RunParked) as refused:
            mailbox = self._runtime.mailbox
            if not mailbox.is_there:
                raise refused from None
            await self._check_elsewhere(run, secret)
            number = await mailbox.post(run, "completion", message)
            await self._check_first(run, message, number)
        else:
            await self._runtime.lookup.written(worker)

    async def _check_elsewhere(self, run: str, secret: str) -> None:
        """
        Check in the stored log of a *run* that a token is in force: when the message is taken in, its sender is gone.

        The inbox is read first: a message that leaves it meanwhile is in the log, which is read next.

        Raises:
            TokenExpired, InvalidToken: it is not.
        """
        record = await self._runtime.ownership.record(run)
        if record.head > MOST_READ:
            return
        try:
            messages = await self._runtime.mailbox.unread(run)
            memory = (await self._runtime.loader.read(run)).run.memory
        except WeftError:  # values or code that are not known here: the owner has them, and judges
            return
        if any(getattr(message, "token", None) == secret for message in messages):
            raise TokenExpired(run, USED)
        open_step(memory, secret)

    async def _check_first(self, run: str, message: ev.CompletionReceived | ev.FailureReceived, number: int) -> None:
        """
        See that *message*, which was posted for *run*, is the first that uses its token: two may come at once.

        One that was stored twice, since the store was unavailable, is one use.

        Raises:
            TokenExpired: it is not, and the run will refuse it.
        """
        try:
            earlier = await self._runtime.mailbox.unread(run, before=number)
        except WeftError:  # it is stored, and the process that drives the run judges
            return
        for each in earlier:
            is_same = getattr(each, "token", None) == message.token
            if is_same and (getattr(each, "at", None), getattr(each, "by", None)) != (message.at, message.by):
                raise TokenExpired(run, USED)
