"""
The mailbox of a runner: moves the messages of its runs from the store into their logs.

    posted ──notified──► read ──► applied by the worker ──► taken by its next append
                        │
                        ├── the run is asleep ──► it is brought back, and reads its inbox then
                        ├── the run refuses it ──► noted, and taken as well
                        ├── the run has failed meanwhile, and is to be retried ──► it is reopened, with the message
                        ├── the run has finished ──► it stays, unread, until the run is deleted or retried
                        └── the run is parked, or is not here ──► it stays

The messages of a run are applied in the order of their numbers, each once (ADR 34): a worker knows the last number that
it has applied, and the append that holds the events takes the message out of the store.  If the worker of a
run was replaced while the store was being read, the new one is handed nothing of what was read: the worker before it
may have applied it already.
"""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from weft.core import events as ev
from weft.errors import (
    RunClosed,
    RunnerClosed,
    RunNotHeld,
    RunOwned,
    StoreClosed,
    StoreError,
    UniqueKeyTaken,
)
from weft.log.messages import decode_message, encode_message
from weft.ports.store import InboxStore, Message, Store
from weft.runner.durability.store_retry import retry_while_unavailable
from weft.runner.execution.worker import Worker
from weft.runner.options import RunOptions
from weft.runner.registry.loading import RunLoader
from weft.runner.registry.message_handlers import FOR_FAILED, PROGRESS, deliver, revise_at_rest
from weft.runner.registry.waking import Waking

T = TypeVar("T")

_log = logging.getLogger("weft.runner")

PAGE: Final = 1000
"""How many messages are read at once."""
UNREAD: Final = -1
"""In place of the number of the last message: the worker came in after the present read of the store had begun."""
READING: Final = -2
"""In place of the number of the last message: the inbox of the worker is being read for the first time."""
AGAIN: Final = 1.0
"""Seconds until the inbox is read again, if the store could not be read."""


class Runs(Protocol):
    """The runs of a runner, as its mailbox sees them."""

    def get(self, run: str) -> Worker | None:
        """Return the worker of *run*, if it is in memory."""
        ...

    def is_asleep(self, run: str) -> bool:
        """Whether *run* is here, and not in memory."""
        ...

    def is_locked(self, run: str) -> bool:
        """Whether *run* is being created, loaded or released."""
        ...

    def lock(self, run: str) -> AbstractAsyncContextManager[Any]:
        """Return the lock under which *run* is created, loaded or released."""
        ...

    async def awaken(self, runs: Iterable[str]) -> None:
        """Bring runs that are asleep back into memory."""
        ...

    def cancel_orphans(self, worker: Worker) -> None:
        """Cancel the children of the run of *worker*, if it is cancelled and they are not yet."""
        ...


class Mailbox:
    """The messages of one runner's runs; without an inbox in the *store*, there are none."""

    def __init__(
        self,
        store: Store,
        runs: Runs,
        loader: RunLoader,
        waking: Waking,
        time: Callable[[], float],
        may_wait: Callable[[], bool],
    ) -> None:
        """
        Move the messages in *store* to *runs*.

        Args:
            loader: loads a run that has failed, as the recipient of a message.
            waking: loads what a run needs to receive a message.
            may_wait: whether an unavailable store is worth waiting for.
        """
        self._store = store if isinstance(store, InboxStore) else None
        self._runs, self._loader, self._waking, self._time, self._may_wait = runs, loader, waking, time, may_wait
        self._end: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_rung = False
        """Whether there may be more messages than the present read finds."""
        self._later: asyncio.TimerHandle | None = None
        self._newcomers: list[Worker] = []
        """The workers that have come in since the present read of the store began."""
        self._readers: list[Worker] = []
        """Runs whose inbox is being read; they are not evicted meanwhile."""
        self._locked: dict[str, asyncio.Task[None]] = {}
        """By run that has messages and is locked: the task that looks again afterwards."""
        self._failed: set[asyncio.Task[None]] = set()
        """The tasks that look for messages of runs that have failed."""

    @property
    def is_there(self) -> bool:
        """Whether runs that are not here can be sent messages."""
        return self._store is not None

    async def open(self) -> None:
        """Listen for messages."""
        if self._store is not None:
            self._end = await self._retried(partial(self._store.listen, self.ring))

    async def close(self) -> None:
        """Take nothing more."""
        if self._end is not None:
            self._end()
            self._end = None
        if self._later is not None:
            self._later.cancel()
        tasks = [*self._locked.values(), *self._failed, *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _retried(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the answer of the store, once it is available; one that was closed meanwhile is a closed runner."""
        try:
            return await retry_while_unavailable(call, while_=self._may_wait)
        except StoreClosed:
            raise RunnerClosed from None

    async def post(self, run: str, kind: str, event: ev.AnyEvent) -> int:
        """
        Store a message for *run*, which another process, or none, has; return its number.

        If the store was unavailable the message may be stored twice, so inputs and signals must have keys.

        Raises:
            RunNotFound: nothing is stored under this id.
            RunNotHeld: the store takes no messages.
            UnencodableValue: a value could not be stored.
        """
        if self._store is None:
            raise RunNotHeld(run)
        message = Message(run=run, kind=kind, body=encode_message(event), at=self._time())
        (answer,) = await self._retried(partial(self._store.post, [message]))
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def ask_progress(self, run: str) -> bytes:
        """
        Ask the process that drives *run* how far its steps have come; return the question, which the answer repeats.

        Raises:
            RunNotFound: nothing is stored under this id.
        """
        question = uuid.uuid4().bytes
        assert self._store is not None  # noqa: S101
        message = Message(run=run, kind=PROGRESS, body=question, at=self._time())
        (answer,) = await self._retried(partial(self._store.post, [message]))
        if isinstance(answer, StoreError):
            raise answer
        return question

    async def look_after(self, run: str, options: RunOptions) -> None:
        """
        Reopen *run* if it has failed and left, and messages that came too late ask for a retry.

        Raises:
            RunNotFound: nothing is stored under this id.
        """
        store = self._store
        if store is None:
            return
        messages = await self._retried(partial(store.messages, [run]))
        if not any(message.kind in FOR_FAILED for message in messages):
            return
        try:
            if await self._loader.reopen(run, options, partial(revise_at_rest, messages)) is None:
                self.ring()
        except (RunNotHeld, RunOwned, RunClosed):
            pass  # it has not finished, and reads its inbox; or another caller was first
        except UniqueKeyTaken as taken:
            _log.warning("run %r has refused a message (retry): %s", run, taken)

    def left(self, worker: Worker) -> None:
        """The run of *worker* has failed, and was released: see whether a message came too late to be taken in."""
        if self._end is not None:
            task = asyncio.get_running_loop().create_task(self._look_after(worker), name="weft-mailbox-failed")
            self._failed.add(task)
            task.add_done_callback(self._failed.discard)

    async def _look_after(self, worker: Worker) -> None:
        try:
            await self.look_after(worker.id, worker.options)
        except RunnerClosed:
            pass
        except Exception as error:  # noqa: BLE001 - the messages stay, and the next retry finds them
            _log.warning("the inbox of run %r, which has failed, cannot be read: %s", worker.id, error)

    async def has_messages(self, run: str) -> bool:
        """Return whether there are messages for *run* that it has not taken in."""
        return self._store is not None and bool(await self._retried(partial(self._store.messages, [run], limit=1)))

    async def unread(self, run: str, *, before: float = math.inf) -> list[ev.AnyEvent]:
        """
        Return the messages for *run* that it has not taken in: the events that their senders want.

        Args:
            before: only messages with lower numbers.
        """
        if self._store is None:
            return []
        found: list[Message] = []
        while page := await self._retried(partial(self._store.messages, [run], after=_last(found), limit=PAGE)):
            found += page
        return [decode_message(each.body) for each in found if each.kind != PROGRESS and each.number < before]

    async def collected(self) -> None:
        """Wait until the messages that were there before this call have been delivered."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def cancellations(self, runs: Sequence[str]) -> dict[str, Callable[[Worker], object]]:
        """Return what lets those of *runs* that are to be cancelled know that before they start anything."""
        if self._store is None or not runs:
            return {}
        by_run: dict[str, list[Message]] = {}
        for message in await self._retried(partial(self._store.messages, runs, limit=PAGE)):
            by_run.setdefault(message.run, []).append(message)
        cancelled = {run for run, messages in by_run.items() if any(each.kind == "cancel" for each in messages)}
        return {run: partial(self._deliver_first, by_run[run]) for run in cancelled}

    def _deliver_first(self, messages: Sequence[Message], worker: Worker) -> None:
        """Let *worker*, which has just come in, have *messages*; one without its values gets them a little later."""
        if worker.sleeping is None and worker in self._newcomers:
            self._newcomers.remove(worker)
            worker.heard = 0
            deliver(worker, messages)

    def came_in(self, worker: Worker) -> None:
        """Look for messages for *worker*, whose run was brought back."""
        if self._store is not None and self._end is not None:
            worker.heard = UNREAD
            self._newcomers.append(worker)
            self.ring()

    def _begin_to_read(self) -> None:
        """Let the workers that are here now have the messages that are read from now on."""
        self._readers, self._newcomers = self._newcomers, []
        for worker in self._readers:
            worker.heard = READING

    def _end_reading(self) -> None:
        """Let the workers for which the store was read leave memory again."""
        for worker in self._readers:
            worker.heard = max(0, worker.heard)
        self._readers = []

    def ring(self) -> None:
        """Look for messages soon: some may have been posted, or a run has come in that may have some."""
        if self._store is None or self._end is None:
            return
        self._is_rung = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._collect(), name="weft-mailbox")

    async def _collect(self) -> None:
        store = self._store
        assert store is not None  # noqa: S101
        while self._is_rung:
            self._is_rung = False
            last = 0
            try:
                while page := await self._retried(partial(self._page, store, last)):
                    last = page[-1].number
                    await self._deliver(page)
                    if len(page) < PAGE:
                        break
            except RunnerClosed:
                return
            except Exception as error:  # noqa: BLE001 - the messages stay where they are, and the runs go on
                _log.warning("messages for runs cannot be read now, trying again: %s", error)
                self._later = asyncio.get_running_loop().call_later(AGAIN, self.ring)
                return
            finally:
                self._end_reading()

    async def _page(self, store: InboxStore, last: int) -> Sequence[Message]:
        """Return the messages after number *last* that are for the runs which are here."""
        if not last:  # a later page lacks what stood on the pages before
            self._begin_to_read()
        return await store.messages(after=last, limit=PAGE)

    def _ring_after(self, run: str) -> None:
        """Look again once *run* has been created, loaded or released."""
        if run not in self._locked:
            self._locked[run] = asyncio.get_running_loop().create_task(self._unlocked(run), name="weft-mailbox-lock")

    async def _unlocked(self, run: str) -> None:
        try:
            async with self._runs.lock(run):
                pass
        finally:
            del self._locked[run]
        self.ring()

    async def _deliver(self, page: Iterable[Message]) -> None:
        by_run: dict[str, list[Message]] = {}
        for message in page:
            by_run.setdefault(message.run, []).append(message)
        asleep = [run for run in by_run if self._runs.is_asleep(run)]
        if asleep:
            await self._runs.awaken(asleep)
        for run, messages in by_run.items():
            worker = self._runs.get(run)
            if worker is not None and worker.sleeping is not None:
                await self._waking.awake(worker)
            if worker is not None and any(message.kind in FOR_FAILED for message in messages):
                await self._waking.load(worker)
            if self._runs.is_locked(run):
                self._ring_after(run)
            elif worker is not self._runs.get(run) or (worker is not None and worker.heard == UNREAD):
                self._is_rung = True
            elif worker is not None:
                worker.dispatcher.guard(worker, deliver, worker, messages)
                self._runs.cancel_orphans(worker)


def _last(messages: Sequence[Message]) -> int:
    """Return the number of the last of *messages*."""
    return messages[-1].number if messages else 0
