"""
The callers that wait for a run: until it is idle, an event is durable, or something holds.

``on_complete`` is called here, before any caller is told that the run is idle, and once for every time that it was
busy.  That it was called is logged; a process that dies before that calls it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

from weft.calling import is_cancelled, is_ctrl_c
from weft.core.run.run import Run
from weft.errors import RunClosed, RunnerClosed, RunParked, WorkflowNotFound
from weft.ports.store import RunStatus
from weft.runner.deadline import Deadline
from weft.runner.execution.worker import Worker
from weft.runner.waiting.on_complete import Callbacks

T = TypeVar("T")
_Position = tuple[int, RunStatus | None, asyncio.Future[None]]
"""Up to which event a run must be stored, with which status, if that matters, and the future of the caller."""
_log = logging.getLogger("weft.runner")


class _Call:
    """One call of on_complete."""

    __slots__ = ("heir", "is_dropped", "task", "worker")

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        """The worker of the run."""
        self.task: asyncio.Task[None] | None = None
        self.is_dropped = False
        """Whether the runner itself has cancelled it, because its run has left."""
        self.heir: Worker | None = None
        """Another worker of the run, which has come to its end meanwhile, and is told when this call has ended."""


_CALLING: ContextVar[_Call | None] = ContextVar("weft.runner.calling", default=None)
"""The call that this is part of."""


class Waiters:
    """
    The futures of one runner, by worker.

    Positions in a log are those of one worker: another worker of the same run, one that has left or one that turns out
    to exist, never ends or fails a future that is not its own.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._callbacks = Callbacks()
        self._idle: dict[Worker, list[asyncio.Future[None]]] = {}
        self._durable: dict[Worker, list[_Position]] = {}
        self._until: dict[Worker, list[_Wish]] = {}
        self._in_flight: dict[Worker, list[asyncio.Future[None]]] = {}
        self._calling: dict[str, _Call] = {}
        """By run: the call of on_complete; one at a time, so that the last one saw the most."""
        self._told: set[Worker] = set()
        """Workers that are settled, and whose callers were told."""
        self._is_closed = False

    def is_settled(self, worker: Worker) -> bool:
        """Whether there is nothing left to wait for."""
        return worker in self._told and worker.is_settled

    def idle(self, worker: Worker) -> asyncio.Future[None]:
        """Return a future that ends when *worker* has nothing left to do."""
        return _added(self._idle, worker)

    def until(self, worker: Worker, predicate: Callable[[Run], bool]) -> asyncio.Future[Run]:
        """Return a future that ends when *predicate* holds for the run."""
        wish = _Wish(predicate)
        self._until.setdefault(worker, []).append(wish)
        wish.future.add_done_callback(partial(_dropped, self._until, worker, wish))
        worker.observer = self.progressed
        self._try(worker)
        return wish.future

    def nothing_in_flight(self, worker: Worker) -> asyncio.Future[None]:
        """Return a future that ends when nothing of *worker* is in flight."""
        worker.observer = self.progressed
        return _added(self._in_flight, worker)

    async def durable(self, worker: Worker, position: int) -> None:
        """
        Wait until the event at *position* is stored.

        Raises:
            StoreError: it never will be, or whatever else keeps the run from being written.
        """
        if worker.acknowledged < position:
            await self._waiting(worker, position, None)

    async def stored(self, worker: Worker, status: RunStatus) -> None:
        """
        Wait until everything that has happened is stored, and that the run has *status*.

        Raises:
            StoreError: as :meth:`durable`.
        """
        position = len(worker.run.memory.log)
        if not _is_stored(worker, position, status):
            await self._waiting(worker, position, status)

    def _waiting(self, worker: Worker, position: int, status: RunStatus | None) -> asyncio.Future[None]:
        if worker.lost is not None:
            raise worker.lost.with_traceback(None)  # which would grow with every caller
        if self._is_closed:
            raise RunnerClosed
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._durable.setdefault(worker, []).append((position, status, future))
        worker.observer = self.progressed
        return future

    # -- what happens ----------------------------------------------------------------------------

    def progressed(self, worker: Worker) -> None:
        """Something was stored, or has ended, or went wrong."""
        is_awaited = False
        waiting = self._durable.get(worker)
        if waiting:
            left: list[_Position] = []
            for position, status, future in waiting:
                if worker.lost is not None:
                    _fail(future, worker.lost)
                elif _is_stored(worker, position, status):
                    _end(future, None)
                elif not future.done():
                    left.append((position, status, future))
            if left:
                self._durable[worker], is_awaited = left, True
            else:
                del self._durable[worker]
        if worker in self._in_flight:
            if worker.queue.by_key:
                is_awaited = True
            else:
                for future in self._in_flight.pop(worker):
                    _end(future, None)
        if worker in self._until:
            self._try(worker)
            is_awaited = is_awaited or worker in self._until
        if not is_awaited:
            worker.observer = None

    def _try(self, worker: Worker) -> None:
        """End the futures of what holds for *worker* now, and fail those of what never will."""
        for wish in list(self._until.get(worker, ())):
            wish.look(worker)
            if worker.is_settled and worker.state in ("parked", "cancelled"):
                _fail(wish.future, _over(worker))
        self._until[worker] = [wish for wish in self._until.get(worker, ()) if not wish.future.done()]
        if not self._until[worker]:
            del self._until[worker]

    def settled(self, worker: Worker) -> None:
        """*worker* has nothing left to do: call back, then tell all callers."""
        self.progressed(worker)
        self._told.discard(worker)
        if worker.owes_notice and worker.lost is None and worker.state == "idle":
            call = self._calling.get(worker.id)
            if call is not None:  # once that one has ended, this comes again
                call.heir = worker
                return
            call = self._calling[worker.id] = _Call(worker)
            call.task = asyncio.get_running_loop().create_task(self._notify(call, worker))
            call.task.add_done_callback(partial(self._notified, call, worker, worker.period))
        else:
            self._tell(worker)

    async def _notify(self, call: _Call, worker: Worker) -> None:
        function = worker.options.on_complete
        assert function is not None  # noqa: S101
        _CALLING.set(call)
        try:
            await self._callbacks.call(function, worker.id, worker.run.frozen_copy(), *worker.options.on_complete_args)
        except BaseException as error:
            if call.is_dropped or is_ctrl_c(error):
                raise
            if is_cancelled(error):  # by code that shares the loop: callers still wait to be told
                _log.error("on_complete of run %r was cancelled; it counts as called", worker.id)
            else:
                _log.exception("on_complete of run %r failed; the run is not touched by that", worker.id)

    def _notified(self, call: _Call, worker: Worker, period: int, task: asyncio.Task[None]) -> None:
        """on_complete has returned; if other code has cancelled it before it was called, it is called now."""
        if self._calling.get(worker.id) is call:
            del self._calling[worker.id]
        if call.is_dropped:
            return
        if task.cancelled():
            if call.worker is worker and worker.is_settled:
                self.settled(worker)
        elif task.exception() is None:
            worker.noticed(period)
        heir = call.heir
        if heir is not None and heir is not worker and heir.is_settled:
            self.settled(heir)

    def is_calling(self, worker: Worker) -> bool:
        """Whether on_complete of *worker* is being called."""
        return worker.id in self._calling

    def is_called_by(self, worker: Worker) -> bool:
        """Whether on_complete of *worker* is what asks."""
        call = self._calling.get(worker.id)
        return call is not None and _CALLING.get() is call

    async def called(self, workers: Iterable[Worker], deadline: Deadline) -> None:
        """
        Wait until on_complete of *workers* has returned, or until the *deadline*.

        The one that itself stops its run, or closes the runner, is not waited for, and counts as called.
        """
        asking, tasks = _CALLING.get(), list[asyncio.Task[None]]()
        for worker in workers:
            call = self._calling.get(worker.id)
            if call is not None and call is asking:
                worker.noticed(worker.period)
            elif call is not None and call.task is not None:
                tasks.append(call.task)
        await deadline.wait(tasks)

    def hang_up(self) -> None:
        """Wait for no callback any more: those that have not returned are called again when their runs are resumed."""
        for call in self._calling.values():
            self._drop(call)

    def _tell(self, worker: Worker) -> None:
        self._told.add(worker)
        worker.report.settled(worker.state)
        for future in self._idle.pop(worker, ()):
            _end(future, None)

    # -- workers that change ---------------------------------------------------------------------

    def moved(self, old: Worker, new: Worker) -> None:
        """*new* drives the run that *old* has driven, whose log it has gone on with."""
        self._told.discard(old)
        old.observer = None
        call = self._calling.get(old.id)
        if call is not None and call.worker is old:
            call.worker = new
        _move(self._idle, old, new)
        _move(self._durable, old, new)
        _move(self._until, old, new)
        _move(self._in_flight, old, new)
        new.observer = self.progressed
        self.progressed(new)

    def gone(self, worker: Worker) -> None:
        """The run has left the runner, and callers that wait are told so."""
        self._told.discard(worker)
        call = self._calling.get(worker.id)
        if call is not None and call.worker is worker:
            call.heir = None
            if call.task is not None and not self.is_called_by(worker):  # it is called again when the run is resumed
                self._drop(call)
                del self._calling[worker.id]
        error = WorkflowNotFound(worker.id, stored=True)
        for future in self._futures(worker):
            _fail(future, error)

    def close(self) -> None:
        """The runner is closed, and writes nothing more: callers that wait, or begin to, are told so."""
        self._is_closed = True
        for worker in {*self._idle, *self._in_flight, *self._durable, *self._until}:
            for future in self._futures(worker):
                _fail(future, RunnerClosed())
                if not future.cancelled():
                    future.exception()  # a caller that waits hears of it; without one, that is not news
        self._told.clear()

    def _futures(self, worker: Worker) -> list[asyncio.Future[Any]]:
        """Forget the futures of *worker*, and return them."""
        return [
            *self._idle.pop(worker, ()),
            *self._in_flight.pop(worker, ()),
            *(future for _, _, future in self._durable.pop(worker, ())),
            *(wish.future for wish in self._until.pop(worker, ())),
        ]

    @staticmethod
    def _drop(call: _Call) -> None:
        call.is_dropped = True
        if call.task is not None:
            call.task.cancel()


class _Wish:
    """That *predicate* holds for a run, as durable as its strategy asks for."""

    __slots__ = ("_granted", "_looked_at", "_predicate", "future")

    def __init__(self, predicate: Callable[[Run], bool]) -> None:
        self._predicate = predicate
        self._granted: Run | None = None
        """The run for which it held, while that is not durable yet."""
        self._looked_at = -1
        """How many events were durable when the run was last looked at."""
        self.future: asyncio.Future[Run] = asyncio.get_running_loop().create_future()

    def look(self, worker: Worker) -> None:
        """See whether it has come true."""
        if self.future.done():
            return
        stored, is_strict = worker.acknowledged, worker.options.checkpoints.lag is not None
        if self._granted is None and not (is_strict and stored == self._looked_at):
            self._looked_at = stored
            try:
                self._granted = worker.run.where(self._predicate)
            except BaseException as error:  # noqa: BLE001 - the caller's predicate is the caller's problem
                self.future.set_exception(_tellable(error))
                return
        granted = self._granted
        if granted is not None and (not is_strict or stored >= len(granted.memory.log)):
            self.future.set_result(granted)


def _over(worker: Worker) -> Exception:
    """Return the error for callers that wait for more of *worker* than there will be."""
    if worker.state == "cancelled":
        return RunClosed(worker.id, worker.reason, status=worker.state)
    return RunParked(worker.id, worker.reason)


def _is_stored(worker: Worker, position: int, status: RunStatus | None) -> bool:
    return worker.acknowledged >= position and (status is None or worker.stored_status == status)


def _added(table: dict[Worker, list[asyncio.Future[None]]], worker: Worker) -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    table.setdefault(worker, []).append(future)
    future.add_done_callback(partial(_dropped, table, worker, future))
    return future


def _dropped(table: dict[Worker, list[T]], worker: Worker, waiting: T, future: asyncio.Future[Any]) -> None:
    """The caller that was *waiting* was cancelled: forget it."""
    if future.cancelled() and waiting in table.get(worker, ()):
        table[worker].remove(waiting)
        if not table[worker]:
            del table[worker]


def _move(table: dict[Worker, list[T]], old: Worker, new: Worker) -> None:
    if old in table:
        table.setdefault(new, []).extend(table.pop(old))


def _end(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _tellable(error: BaseException) -> BaseException:
    """Return *error*, or what says it where it cannot be raised: a StopIteration would end the caller."""
    if not isinstance(error, StopIteration):
        return error
    told = RuntimeError("the predicate raised StopIteration")
    told.__cause__ = error
    return told
