"""
Views of a run while it runs: its events, the streams of its steps, and how far they have come (ADR 38).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, Final

from weft.core import events as ev
from weft.core.functions.reports import Progress
from weft.errors import InvalidOption, InvalidSignal, NoStreams, RunClosed, RunParked
from weft.log.value_decoder import Values
from weft.ports.store import FINISHED, RunRecord
from weft.ports.streams import Chunk, StreamStore
from weft.runner.completions import ExternalCompletions
from weft.runner.delivery import Posted
from weft.runner.durability.rehydration import events_between
from weft.runner.execution.streams import StreamItem, decode_progress
from weft.runner.execution.worker import Worker
from weft.runner.handle import RunHandle, RunRef, as_ref
from weft.runner.waiting.changes import Follower
from weft.runner.waiting.pauses import pauses

PAGE: Final = 100
"""How many chunks are read at once."""
WATCHED: Final = (0.01, 1.5, 0.5)
"""The pauses between two looks at what another process does: the first, by which factor they grow, the longest."""
ANSWERED: Final = 2.0
"""How many seconds another process gets to say how far its steps have come."""
TAKEN_IN: Final = 1.0
"""How many seconds another process gets to take in a signal, before the sender learns only that it is stored."""


class LiveViews(ExternalCompletions):
    """The calls that follow a run."""

    async def events(self, run: str | RunHandle[Any], from_: int = 1) -> AsyncGenerator[ev.AnyEvent, None]:
        """
        Yield the events of *run*, an id or a handle, as they become durable, until it has finished.

        Args:
            from_: the position of the first one, counted from 1.

        Raises:
            RunNotFound: no run has this id.
            RunParked: it was set aside until a person resumes it; all that has happened was yielded before.
        """
        _check_position(from_, 1)
        ref, position = as_ref(run), from_ - 1
        stored = self._runtime.loader.follow(ref.id)

        def news(worker: Worker) -> asyncio.Future[Any]:
            return self._runtime.waiters.beyond(worker, position)

        async for found, _ in self._looks(ref, news):
            head = found.acknowledged if isinstance(found, Worker) else found.head
            if head > position:
                if isinstance(found, Worker):
                    async for event in events_between(found.run, position, head):
                        position = event.seq
                        yield event
                else:
                    for event in await stored.more():
                        if event.seq > position:
                            position = event.seq
                            yield event
            status = found.state if isinstance(found, Worker) else found.status
            if status == "parked":
                raise RunParked(ref.id, found.reason)

    async def stream(self, run: str | RunHandle[Any], name: str, from_: int = 0) -> AsyncGenerator[StreamItem, None]:
        """
        Yield the items of the stream *name* of *run*, an id or a handle, as they become durable, until it has finished.

        Args:
            from_: the offset of the first one, counted from 0.

        Raises:
            RunNotFound: no run has this id.
            NoStreams: the store keeps none.
        """
        _check_position(from_, 0)
        store, ref, offset = self._stream_store(), as_ref(run), from_
        hub, again = self._runtime.streams, self._runtime.ownership.again
        async for _, is_over in self._looks(ref, lambda _: hub.written(ref.id, name)):
            if is_over:
                await hub.flush(ref.id)
            while chunks := await again(partial(store.read_chunks, ref.id, name, start=offset, limit=PAGE)):
                for chunk in chunks:
                    for item in _items(chunk, offset):
                        yield item
                    offset = max(offset, chunk.offset + len(chunk.items))

    async def progress(self, run: str | RunHandle[Any]) -> list[Progress]:
        """
        Return how far the steps of *run*, an id or a handle, have come that are running and have said so.

        A process that drives the run elsewhere is asked, and has two seconds to answer.  If it does not answer, or no
        process drives the run, the list is the last one that was reported.

        Raises:
            RunNotFound: no run has this id.
        """
        ref = as_ref(run)
        found = await self._found(ref)
        if isinstance(found, Worker):
            return self._runtime.streams.progress(ref.id)
        store = self._runtime.store
        if found.owner is None or not isinstance(store, StreamStore) or not self._runtime.mailbox.is_there:
            return []
        question = await self._runtime.mailbox.ask_progress(ref.id)
        until = asyncio.get_running_loop().time() + ANSWERED
        for seconds in pauses(*WATCHED):
            body = await self._runtime.ownership.again(partial(store.load_progress, ref.id))
            asked, told = (b"", []) if body is None else decode_progress(body)
            if asked == question or asyncio.get_running_loop().time() > until:
                return told
            await asyncio.sleep(seconds)
        raise AssertionError("pauses() has no end")

    async def _answer(self, posted: Posted) -> None:
        """
        Wait until the process that drives a run has taken in the signal that was *posted*, for a moment at most.

        A run that no living process drives answers later, and then only its log says so.

        Raises:
            InvalidSignal: it was refused.
            RunClosed: the run has finished before it was taken in.
        """
        before, signal = posted.record, posted.signal
        if before is None or before.owner is None:
            return
        reader, position = self._runtime.loader.follow(before.id, before), before.head
        until = asyncio.get_running_loop().time() + TAKEN_IN
        for seconds in pauses(*WATCHED):
            is_taken = not await self._runtime.mailbox.has_messages(before.id)
            record = await self._runtime.ownership.record(before.id)  # only now: what was taken is in the log
            for event in await reader.more() if record.head > position else ():
                if isinstance(event, ev.SignalRefused) and event.key == signal.key:
                    raise InvalidSignal(signal.name, event.reason)
            position = record.head
            if is_taken or asyncio.get_running_loop().time() > until:
                return
            if record.status in FINISHED:
                left = await self._runtime.mailbox.unread(before.id)
                if any(isinstance(each, ev.SignalReceived) and each.key == signal.key for each in left):
                    raise RunClosed(before.id, record.reason, status=record.status)
                return
            await asyncio.sleep(seconds)

    # --------------------------------------------------------------------------------------------

    def _stream_store(self) -> StreamStore:
        store = self._runtime.store
        if not isinstance(store, StreamStore):
            raise NoStreams(repr(store))
        return store

    async def _looks(
        self, ref: RunRef, news: Callable[[Worker], asyncio.Future[Any]]
    ) -> AsyncGenerator[tuple[Worker | RunRecord, bool], None]:
        """
        Yield the worker or the record of a run whenever there may be *news* of it, and whether this is the last time.

        A run that is here is waited for; one that another process drives, or none, is looked at in pauses.
        """
        changes = self._runtime.changes
        change, follower, waiting = changes.of(ref.id), Follower(changes, ref.id), changes.pauses(WATCHED)
        seen: tuple[Any, ...] = ()
        while True:
            number = change.number
            found = await self._found(ref)
            coming: list[asyncio.Future[Any]] = []
            if isinstance(found, Worker) and not found.has_left:
                coming = [news(found), self._runtime.waiters.at_last(found)]
            status = found.state if isinstance(found, Worker) else found.status
            is_over = status == "parked" or (status in FINISHED and (not coming or coming[1].done()))
            try:
                yield found, is_over
                if is_over:
                    return
                if coming:
                    await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
                    waiting = changes.pauses(WATCHED)
                    continue
            finally:
                for future in coming:
                    if not future.cancel() and not future.cancelled():
                        future.exception()  # retrieved, so that it is not logged
            self._runtime.check_open()
            now = (found.head, found.status) if not isinstance(found, Worker) else ()
            if now != seen:
                seen, waiting = now, changes.pauses(WATCHED)
            if changes.is_missing:
                await changes.listen()  # and look again: it may have changed before
            elif not await follower.ask():
                await change.beyond(number, next(waiting))


def _items(chunk: Chunk, start: int) -> list[StreamItem]:
    """Return the items of *chunk* from the offset *start* on."""
    values = Values()
    return [
        StreamItem(offset, values.decode(item), chunk.component, chunk.attempt, chunk.execution)
        for offset, item in enumerate(chunk.items, chunk.offset)
        if offset >= start
    ]


def _check_position(given: Any, least: int) -> None:
    """
    Refuse *given* unless it is a whole number of at least *least*.

    Raises:
        InvalidOption: it is not.
    """
    if type(given) is not int or given < least:
        raise InvalidOption(f"from_={given!r}: use a whole number of at least {least}")
