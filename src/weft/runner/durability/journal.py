"""
Group commit: writes the events of all runs, many runs in one transaction.

All workers of a runner write through one journal.  While a commit is in flight, the next batch collects: a worker
announces that it has something to write (``note``), and when the batch is assembled, the journal takes all events of
that run as one append.  If the store refuses the append of a run, the other runs of the batch are still committed.

    clean ──note──► noted ──batch──► committing ──done──► clean (or noted again)
                      │                  │
                      └──large──► beside ┤   (with the same outcomes)
                                         │
                                         ├── refused ──► the worker is notified, and writes nothing more
                                         ├── the store is unavailable ──► the same batch again, later
                                         └── the store raises ──► each append again, by itself

A batch is acknowledged as a whole, and an append with large values takes the store a long time.  So a separate task
writes such appends *beside* the batches, one at a time, and the store can write the batches meanwhile.

A run can be *set apart*: the journal then writes nothing of it until it *rejoins*, because a step writes the append in
its transaction (ADR 51).

Invariants: a run is in one batch at a time, in one append beside them, or set apart; an event is written once; a worker
learns that an event is durable only after the store has confirmed it; while the store is unavailable no event is lost,
unless the journal is being closed and its grace time ends.  If other code cancels the task of the journal, a new task
starts with the batch that was being written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Protocol

from msgspec.structs import replace

from weft.errors import StoreError, StoreUnavailable
from weft.ports.store import Append, LogStore
from weft.runner.deadline import Deadline
from weft.runner.durability.store_retry import waits
from weft.runner.durability.store_spans import StoreSpan
from weft.telemetry import bus

_log = logging.getLogger("weft.runner")

LARGEST = 512
"""How many runs share a batch at most, so that one part of a busy runner computes while the other commits."""

LARGE = 1 << 20
"""Bytes: an append with more of values beside its events is written beside the batches."""

_FEW, _IN_A_ROW = 8, 4
"""After a batch of fewer events than *_FEW*, the next one follows at once, *_IN_A_ROW* times before other work runs."""


class Writer(Protocol):
    """A worker, as the journal sees it."""

    def segment(self, at: float) -> Append | None:
        """Return what the run has to write, *at* this time; None if nothing."""
        ...

    def committed(self, append: Append) -> None:
        """Note that *append* is durable."""
        ...

    def refused(self, error: Exception) -> None:
        """The events that the run had to write were not written, and never will be."""
        ...


class Journal:
    """Writes the events of workers, in batches."""

    def __init__(
        self, store: LogStore, time: Callable[[], float], afterwards: Callable[[], object] = lambda: None
    ) -> None:
        """
        Make one that writes to *store*; it begins to write when it is opened, or has something to write.

        Args:
            time: says the time of day.
            afterwards: called after the workers of a batch were notified, so that they process attempts that have ended
                meanwhile.  After a small batch it is called at once, so that the results are in the next batch; after a
                large one, in the next round of the event loop.
        """
        self._store, self._time, self._afterwards = store, time, afterwards
        self._noted: dict[Writer, None] = {}
        self._in_flight: list[tuple[Writer, Append]] = []
        """The batch that the store has been given and has not answered."""
        self._beside: deque[tuple[Writer, Append]] = deque()
        """The appends that are written beside the batches; the store has been given the first."""
        self._apart: dict[Writer, bool] = {}
        """Whose that is, what was set apart or is held, and whether they have noted more meanwhile."""
        self._asking: dict[Writer, deque[asyncio.Future[None]]] = {}
        """By writer: the callers that ask to set it apart, in order."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._task_beside: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._closed = asyncio.Event()
        self._deadline: Deadline | None = None
        """While closing: until when an unavailable store is tried again."""
        self._gave_up: Exception | None = None
        """Why nothing more is written: the store stayed unavailable until the time to close was up."""
        self.has_unstored: Callable[[str], bool] | None = None
        """Whether something of a run must be written ahead; None if no run has such a thing."""
        self.flush: Callable[[str], Awaitable[None]]
        """Writes what must be written ahead of a run, once there is such a thing."""
        self.ahead: Callable[[Sequence[Append]], Awaitable[None]] | None = None
        """Called before appends, to write what must be durable before them; None if no run has such a thing."""
        self.outage: Exception | None = None
        """Why nothing can be written just now; None if all is well."""
        self.outage_since = 0.0
        """When that began, by the clock of the loop."""
        self.batches = 0
        self.is_telling = False
        """Whether runs are being told what was stored; a call of *afterwards* follows."""

    @property
    def is_writing(self) -> bool:
        """Whether a write is in progress."""
        return bool(self._in_flight or self._apart)

    def open(self) -> None:
        """Begin to write."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="weft-journal")
        self._task.add_done_callback(self._ended)

    async def close(self, deadline: Deadline) -> None:
        """
        Write everything that is noted, and stop; an unavailable store is tried again until the *deadline*.

        What could not be written is refused to its writers.
        """
        self._deadline = deadline
        self._closing.set()
        self._wake.set()
        if self._task is None and self._apart:
            self.open()
        if self._task is not None:
            await self._closed.wait()

    def note(self, writer: Writer) -> None:
        """*writer* has something to write."""
        if self._apart and writer in self._apart:
            self._apart[writer] = True
            return
        if not self._noted:
            self._wake.set()
            if self._task is None and not self._closing.is_set():
                self.open()
        self._noted[writer] = None

    # -- what a step writes in its own transaction -------------------------------------------------

    async def set_apart(self, writer: Writer) -> None:
        """Write nothing more of *writer* until it :meth:`rejoins <rejoin>`; what is being written is waited for."""
        is_in_flight = any(each is writer for each, _ in self._in_flight)
        if writer not in self._apart and not is_in_flight:
            self._set_apart(writer)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking.setdefault(writer, deque()).append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # it was its turn already
                self.rejoin(writer)
            raise

    def hold(self, writer: Writer) -> None:
        """
        Write nothing of *writer*, which cannot say yet what it has to write, until it :meth:`rejoins <rejoin>`.

        A journal that is being closed waits for it.
        """
        self._apart[writer] = False

    def rejoin(self, writer: Writer) -> None:
        """Write what *writer* has noted since it was set apart, and what it notes from now on."""
        has_more = self._apart.pop(writer)
        if self._asking and self._next_apart(writer):
            self._apart[writer] |= has_more
        elif has_more:
            self.note(writer)
        self._wake.set()  # a journal that is being closed waits for this

    @property
    def is_out_of_time(self) -> bool:
        """Whether it is being closed, and an unavailable store is not waited for any longer."""
        return self._gave_up is not None or (self._deadline is not None and self._deadline.is_past)

    def _set_apart(self, writer: Writer) -> None:
        self._apart[writer] = writer in self._noted
        self._noted.pop(writer, None)

    def _next_apart(self, writer: Writer) -> bool:
        """Set *writer* apart for the first caller that asks for it; return whether there is one."""
        asking = self._asking.get(writer)
        while asking:
            future = asking.popleft()
            if not future.done():
                self._set_apart(writer)
                future.set_result(None)
                break
        else:
            self._asking.pop(writer, None)
            return False
        return True

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Start another task if other code has cancelled this one: workers and callers wait for their commits."""
        if self._closed.is_set():
            return
        _tell_of_end(task)
        if self._in_flight or self._noted or self._closing.is_set():
            self._wake.set()
            self.open()
        else:  # with the next note: the whole loop may be about to end
            self._task = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        if self._in_flight:
            again = [(writer, replace(append, again=True)) for writer, append in self._in_flight]
            await self._write(again)
            self._afterwards()
        while True:
            await self._wake.wait()
            self._wake.clear()
            ahead = _IN_A_ROW
            while self._noted:
                batch = self._batch()
                await self._write(batch)
                if ahead and len(batch) < _FEW and sum(append.count for _, append in batch) < _FEW:
                    ahead -= 1
                    self._afterwards()
                else:
                    ahead = _IN_A_ROW
                    loop.call_soon(self._afterwards)
                    await asyncio.sleep(0)
            if self._closing.is_set() and not self._apart:
                self._closed.set()
                return

    def _write_beside(self, writer: Writer, append: Append) -> None:
        self._apart[writer] = False
        self._beside.append((writer, append))
        if self._task_beside is None or self._task_beside.done():
            self._open_beside()

    def _open_beside(self) -> None:
        self._task_beside = asyncio.get_running_loop().create_task(self._run_beside(), name="weft-journal-beside")
        self._task_beside.add_done_callback(self._ended_beside)

    def _ended_beside(self, task: asyncio.Task[None]) -> None:
        if self._beside and task is self._task_beside:  # else another one has begun
            _tell_of_end(task)
            writer, append = self._beside[0]
            self._beside[0] = writer, replace(append, again=True)
            self._open_beside()

    async def _run_beside(self) -> None:
        loop = asyncio.get_running_loop()
        while self._beside:
            writer, append = self._beside[0]
            results = await self._append([append])
            self._beside.popleft()
            try:
                self._tell([(writer, append)], results)
            finally:
                self.rejoin(writer)
                loop.call_soon(self._afterwards)
            await asyncio.sleep(0)

    def _batch(self) -> list[tuple[Writer, Append]]:
        batch: list[tuple[Writer, Append]] = []
        noted, at = self._noted, self._time()
        for writer in list(islice(noted, LARGEST)):  # the first key of a dict comes after all that were deleted
            del noted[writer]
            try:
                append = writer.segment(at)
            except Exception as error:  # noqa: BLE001 - what one run cannot write must not keep the others from it
                writer.refused(error)
                continue
            if append is None:
                continue
            if append.facts and _is_large(append):
                self._write_beside(writer, append)
            else:
                batch.append((writer, append))
        return batch

    async def _write(self, batch: list[tuple[Writer, Append]]) -> None:
        if not batch:
            return
        self._in_flight = batch
        results = await self._append([append for _, append in batch])
        self._in_flight = []
        self._tell(batch, results)

    def _tell(self, batch: Sequence[tuple[Writer, Append]], results: Sequence[Exception | None]) -> None:
        """Notify the writers of *batch* whether it was written."""
        self.batches += 1
        self.is_telling, interrupted = True, None
        for (writer, append), refused in zip(batch, results, strict=True):
            try:
                if refused is None:
                    writer.committed(append)
                else:
                    writer.refused(refused)
            except Exception:  # noqa: BLE001 - what goes wrong in one run must not keep the others from being written
                _log.exception("the worker of run %r failed when its events were committed or refused", append.run)
            except BaseException as error:  # noqa: BLE001 - Ctrl-C ends the program, after the others are notified
                interrupted = error
        self.is_telling = False
        if self._asking:
            for writer, _ in batch:
                if writer not in self._apart:
                    self._next_apart(writer)
        if interrupted is not None:
            raise interrupted

    async def _append(self, appends: Sequence[Append]) -> Sequence[Exception | None]:
        """Write *appends*, waiting for a store that is unavailable."""
        if self._gave_up is not None:
            return [self._gave_up] * len(appends)
        for wait in waits():
            span = self._span(appends) if bus.store_start or bus.store_stop or bus.store_exception else None
            try:
                if self.ahead is not None:
                    await self.ahead(appends)
                results = await self._store.append(appends)
                if len(results) != len(appends):
                    raise StoreError(  # noqa: TRY301 - handled below, as any other bug in a store
                        f"{type(self._store).__name__} was given {len(appends)} appends and answered "
                        f"{len(results)}; append() must return one result for each"
                    )
            except StoreUnavailable as error:
                if span is not None:
                    span.fail(error)
                if self.outage is None:
                    _log.warning("the store is unavailable: %s; trying again", error)
                    self.outage_since = asyncio.get_running_loop().time()
                self.outage = error
                if not await self._waited(wait):
                    self._gave_up = error
                    return [error] * len(appends)
                appends = [replace(append, again=True) for append in appends]
            except Exception as error:  # noqa: BLE001 - a bug in a store must not end the journal
                if span is not None:
                    span.fail(error)
                if len(appends) > 1:
                    _log.exception("the store cannot write a batch of %d runs; trying them one by one", len(appends))
                    return [(await self._append([replace(append, again=True)]))[0] for append in appends]
                _log.exception("the store cannot write run %r", appends[0].run)
                return [error]
            else:
                if self.outage is not None:
                    _log.warning("the store is back")
                    self.outage = None
                if span is not None:
                    span.stop()
                return results
        raise AssertionError("waits() has no end")

    def _span(self, appends: Sequence[Append]) -> StoreSpan:
        events = sum(append.count for append in appends)
        return StoreSpan(self._store, "append", [append.run for append in appends], self._time(), events)

    async def _waited(self, seconds: float) -> bool:
        """Wait before the store is tried again; return False if the time to close is up."""
        if self._deadline is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._closing.wait()
            return True  # a journal that has just begun to close tries at once
        if self._deadline.is_past:
            return False
        await asyncio.sleep(min(seconds, self._deadline.left))
        return True


def _is_large(append: Append) -> bool:
    return sum(map(len, append.facts.values())) > LARGE


def _tell_of_end(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    _log.error(
        "the journal was %s by code that shares its event loop; it starts again",
        "cancelled" if error is None else "ended",
        exc_info=error,
    )
