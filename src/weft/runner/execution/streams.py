"""
The reports of the steps of a runner while they run: the last progress of each, and the items of streams (ADR 38).

Steps write from threads, coroutines and worker processes; one task of the event loop stores what they have written,
the buffers of many of them in one transaction.

Invariants:

1. The items of one writer are stored in the order in which they were written, each once.
2. A buffer holds at most :data:`MOST_BYTES` and :data:`MOST_ITEMS` that are not stored, those that are being stored
   included; of a writer in the event loop, which cannot wait, a few times as many.
3. Before an append of a run, all that its steps have written is stored (:meth:`StreamHub.write_ahead`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from weft.core.fold.scope import Key
from weft.core.functions.reports import Progress
from weft.core.run.runnable import Runnable
from weft.errors import NoStreams, StoreClosed, StoreError, StoreUnavailable, StreamFull
from weft.log.value_encoder import encode_value
from weft.ports.store import Append
from weft.ports.streams import Chunk, StreamStore
from weft.runner.durability.store_retry import waits
from weft.shield import shielded

SOON: Final = 0.05
"""Longest time until items are stored, in seconds, if the store can."""
BATCH_BYTES: Final = 1 << 16
"""How many bytes in a buffer are stored at once."""
MOST_BYTES: Final = 1 << 18
MOST_ITEMS: Final = 4096
IN_THE_LOOP: Final = 16
"""How many times as much a writer in the event loop may buffer, since it cannot wait."""
PRUNED_AT: Final = 1000
"""How many reports of one run are kept before those of runnables that have ended are dropped."""

_log = logging.getLogger("weft.runner")


class StreamItem(msgspec.Struct, frozen=True):
    """One item of a stream."""

    offset: int
    value: Any
    component: str
    attempt: int
    """The attempt that wrote it: what an attempt wrote stays if it fails, and the next one writes its own."""
    execution: str
    """Different whenever the step began to run, also after a crash."""


class Journal(Protocol):
    """The journal, as streams see it."""

    ahead: Any
    """Called before an append."""
    flush: Any
    """Called with a run, to store what its steps have written."""
    has_unstored: Any
    """Called with a run: whether its steps have written something that is not stored."""


class Buffer:
    """The items that one attempt has written to one stream, and that are not stored yet."""

    __slots__ = (
        *("_hub", "attempt", "component", "execution", "is_gone", "items", "name", "place", "run"),
        *("size", "unstored", "unsure"),
    )

    def __init__(self, hub: StreamHub, runnable: Runnable, name: str) -> None:
        self._hub, self.name = hub, name
        self.run, self.component, self.attempt = runnable.run_id, runnable.component, runnable.attempt
        self.execution = uuid.uuid4().hex[:12]
        self.items: list[bytes] = []
        self.size = 0
        """How many bytes are in *items*, and in what is being stored."""
        self.unstored = 0
        """How many items are not stored, those that are being stored included."""
        self.place = 0
        """How many of its items are stored."""
        self.unsure = 0
        """How many of its first items the store had when it became unavailable: it may have stored them."""
        self.is_gone = False
        """Whether its run was deleted."""

    def write(self, item: Any) -> None:
        """Add *item*; on a thread, wait until there is room for it."""
        self._hub.add(self, encode_value(item))

    async def drain(self) -> None:
        """Wait until there is room for more items."""
        await self._hub.drained(self)

    @property
    def is_full(self) -> bool:
        """Whether a writer that can wait has to."""
        return self.size >= MOST_BYTES or self.unstored >= MOST_ITEMS


class StreamHub:
    """The progress and the streams of the steps of one runner."""

    def __init__(
        self,
        store: object,
        journal: Journal,
        time: Callable[[], float],
        in_flight: Callable[[str], Sequence[Key]],
    ) -> None:
        """Keep streams in *store*; *in_flight* returns the runnables of a run that are in flight, on any thread."""
        self._store, self._journal, self._time, self._in_flight = store, journal, time, in_flight
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._lock = threading.Condition()
        """Held to change buffers; notified when some of them were stored."""
        self._dirty: dict[Buffer, None] = {}
        self._runs: dict[str, int] = {}
        """By run: how many of its items are not stored."""
        self._storing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._readers: dict[tuple[str, str], list[asyncio.Future[None]]] = {}
        self._drained: list[asyncio.Future[None]] = []
        self._is_closed = False
        self._progress: dict[str, dict[Key, Progress]] = {}
        self._answers: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Get ready, in the loop of the runner."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    async def close(self) -> None:
        """Store what was written, as far as the store is available, and let the writers that wait go on."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._answers, *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        try:
            await self._store_all(None)
        except StoreError as error:
            _log.warning("the last items of streams could not be stored: %s", error)
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()
        self._tell_drained()
        for reader in [future for futures in self._readers.values() for future in futures]:
            if not reader.done():
                reader.set_result(None)

    # -- progress --------------------------------------------------------------------------------

    def report(self, runnable: Any, done: float, total: float | None, note: str) -> None:
        """Keep how far *runnable* has come; called on any thread."""
        told = Progress(runnable.component, done, total, note, runnable.attempt)
        of_run = self._progress.get(runnable.run_id)
        if of_run is None:
            of_run = self._progress.setdefault(runnable.run_id, {})
            if len(self._progress) > PRUNED_AT:
                self._prune_runs()
        of_run[runnable.key] = told
        if len(of_run) > PRUNED_AT:
            self.progress(runnable.run_id)

    def progress(self, run: str) -> list[Progress]:
        """Return the last report of each runnable of *run* that is in flight; others are forgotten."""
        known = self._progress.get(run)
        if not known:
            return []
        kept = {key: told for key in self._in_flight(run) if (told := known.get(key)) is not None}
        self._progress[run] = dict(kept)
        return list(kept.values())

    def _prune_runs(self) -> None:
        """Forget the reports of runs that have nothing in flight; called on any thread."""
        for run in list(self._progress):
            if not self._in_flight(run):
                self._progress.pop(run, None)

    def answer(self, run: str, question: bytes) -> None:
        """Store how far *run* has come, for another process that has asked."""
        if isinstance(self._store, StreamStore) and self._loop is not None:
            saved = self._store.save_progress(run, _pack((question, self.progress(run))))
            task = self._loop.create_task(_logged(saved), name="weft-progress")
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)

    # -- writing ---------------------------------------------------------------------------------

    @property
    def keeps_streams(self) -> bool:
        """Whether the store keeps streams."""
        return isinstance(self._store, StreamStore)

    def stream(self, runnable: Any, name: str) -> Buffer:
        """
        Return a buffer for what *runnable* writes to the stream *name*.

        Raises:
            NoStreams: the store keeps none.
        """
        if not self.keeps_streams:
            raise NoStreams(repr(self._store))
        journal = self._journal
        journal.ahead, journal.flush, journal.has_unstored = self.write_ahead, self.flush, self._runs.__contains__
        return Buffer(self, runnable, name)

    def add(self, buffer: Buffer, item: bytes) -> None:
        """Add *item* to *buffer*, when there is room for it."""
        is_in_loop = threading.get_ident() == self._thread
        with self._lock:
            if buffer.is_full:
                if is_in_loop:
                    if buffer.size >= IN_THE_LOOP * MOST_BYTES or buffer.unstored >= IN_THE_LOOP * MOST_ITEMS:
                        raise StreamFull(buffer.name)
                else:
                    self._lock.wait_for(lambda: not buffer.is_full or self._is_closed or buffer.is_gone)
            if self._is_closed or buffer.is_gone:
                return  # the attempt was abandoned, or its run was deleted
            is_first = not self._dirty
            was_small = buffer.size < BATCH_BYTES
            buffer.items.append(item)
            buffer.size += len(item)
            buffer.unstored += 1
            self._dirty[buffer] = None
            self._runs[buffer.run] = self._runs.get(buffer.run, 0) + 1
            is_urgent = was_small and buffer.size >= BATCH_BYTES
        if (is_first or is_urgent) and self._loop is not None:
            if is_in_loop:
                self._wake(is_urgent=is_urgent)
            else:
                self._loop.call_soon_threadsafe(lambda: self._wake(is_urgent=is_urgent))

    async def drained(self, buffer: Buffer) -> None:
        """Wait until *buffer* is not full."""
        while buffer.is_full and not self._is_closed and not buffer.is_gone:
            waits_for = asyncio.get_running_loop().create_future()
            self._drained.append(waits_for)
            self._wake(is_urgent=True)
            await waits_for

    def _wake(self, *, is_urgent: bool) -> None:
        """Store what was written, soon or at once."""
        if self._is_closed or self._loop is None:
            return
        if is_urgent:
            self._begin()
        elif self._timer is None and (self._task is None or self._task.done()):
            self._timer = self._loop.call_later(SOON, self._begin)

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (self._task is None or self._task.done()) and self._loop is not None and not self._is_closed:
            self._task = self._loop.create_task(self._run(), name="weft-streams")

    async def _run(self) -> None:
        for seconds in waits():
            try:
                while self._dirty:
                    await self._store_all(None)
            except StoreUnavailable:
                await asyncio.sleep(seconds)
            except StoreClosed:
                return
            except Exception:  # noqa: BLE001 - the runs go on without these items, which is logged
                _log.exception("items of streams could not be stored, and are lost")
                self._drop()
                return
            else:
                return

    async def flush(self, run: str) -> None:
        """
        Store what steps of *run* have written.

        Raises:
            StoreUnavailable: the store cannot be written now.
        """
        while run in self._runs:
            await self._store_all({run})

    async def write_ahead(self, appends: Sequence[Append]) -> None:
        """
        Store what steps of the runs of *appends* have written, before these appends are.

        Raises:
            StoreUnavailable: the store cannot be written now.
        """
        if self._runs:
            runs = {append.run for append in appends if append.run in self._runs}
            while runs & self._runs.keys():
                await self._store_all(runs)

    async def _store_all(self, runs: set[str] | None) -> None:
        """Store the items of *runs*, or all; those that are being stored are waited for."""
        async with self._storing:
            taken = self._take(runs)
            if not taken:
                return
            now = self._time()
            chunks = [
                Chunk(
                    run=each.run,
                    stream=each.name,
                    component=each.component,
                    attempt=each.attempt,
                    execution=each.execution,
                    items=tuple(items),
                    place=each.place,
                    again=each.unsure > 0,
                    at=now,
                )
                for each, items in taken
            ]
            assert isinstance(self._store, StreamStore)  # noqa: S101
            try:
                answers = await shielded(asyncio.ensure_future(self._store.write_chunks(chunks)))
            except StoreUnavailable:
                self._put_back(taken)
                raise
            except BaseException:
                self._stored(taken)
                raise
            for (buffer, _), answer in zip(taken, answers, strict=True):
                buffer.is_gone = buffer.is_gone or isinstance(answer, StoreError)
            self._stored(taken)

    def _take(self, runs: set[str] | None) -> list[tuple[Buffer, list[bytes]]]:
        with self._lock:
            wanted = [each for each in self._dirty if runs is None or each.run in runs]
            taken: list[tuple[Buffer, list[bytes]]] = []
            for buffer in wanted:
                count = buffer.unsure or len(buffer.items)  # what may be stored goes again as it was
                taken.append((buffer, buffer.items[:count]))
                buffer.items = buffer.items[count:]
                if not buffer.items:
                    del self._dirty[buffer]
        return taken

    def _put_back(self, taken: list[tuple[Buffer, list[bytes]]]) -> None:
        with self._lock:
            for buffer, items in taken:
                buffer.items[:0] = items
                buffer.unsure = len(items)
                self._dirty[buffer] = None

    def _stored(self, taken: list[tuple[Buffer, list[bytes]]]) -> None:
        with self._lock:
            for buffer, items in taken:
                buffer.size -= sum(map(len, items))
                buffer.unstored -= len(items)
                buffer.place += len(items)
                buffer.unsure = 0
                left = self._runs.get(buffer.run, 0) - len(items)
                if left > 0:
                    self._runs[buffer.run] = left
                else:
                    self._runs.pop(buffer.run, None)
            self._lock.notify_all()
        self._tell_drained()
        for buffer, _ in taken:
            for reader in self._readers.pop((buffer.run, buffer.name), ()):
                if not reader.done():
                    reader.set_result(None)

    def _drop(self) -> None:
        self._stored(self._take(None))

    def _tell_drained(self) -> None:
        drained, self._drained = self._drained, []
        for future in drained:
            if not future.done():
                future.set_result(None)

    # -- reading ---------------------------------------------------------------------------------

    def written(self, run: str, name: str) -> asyncio.Future[None]:
        """Return a future that ends when a chunk of this stream is stored by this runner."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.setdefault((run, name), []).append(future)
        return future


async def _logged(saved: Awaitable[None]) -> None:
    try:
        await saved
    except StoreError as error:
        _log.warning("how far a run has come could not be stored: %s", error)


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes, list[Progress]]).decode


def decode_progress(body: bytes) -> tuple[bytes, list[Progress]]:
    """Return a question for progress, and the answer."""
    return _unpack(body)
