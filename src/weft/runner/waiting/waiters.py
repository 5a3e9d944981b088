"""
The callers that wait for a run: until it is done, an event is durable, or a predicate holds.

``on_complete`` is called here, once for every busy period, before any caller is told that the run is done.  The call is
recorded in the log; if the process dies before that, it is called again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol

from weft.calling import is_cancelled, is_ctrl_c
from weft.core.run.run import Run
from weft.errors import RunClosed, RunFailed, RunnerClosed, RunNotHeld, RunParked
from weft.ports.store import FINISHED, RunStatus
from weft.runner.deadline import Deadline
from weft.runner.execution.status import is_done, is_to_call_back
from weft.runner.execution.worker import Worker
from weft.runner.waiting.input_done import InputDone
from weft.runner.waiting.on_complete import Callbacks
from weft.telemetry import bus

Answer = Callable[[Worker], Any]
"""Returns what a caller waits for: None as long as it has not come, the result, or an error if it never will."""
_log = logging.getLogger("weft.runner")


class _Call:
    """One call of on_complete."""

    __slots__ = ("is_dropped", "successor", "task", "worker")

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        """The worker of the run."""
        self.task: asyncio.Task[None] | None = None
        self.is_dropped = False
        """Whether the runner itself has cancelled it, because its run has left."""
        self.successor: Worker | None = None
        """Another worker of the run, which has settled meanwhile, and is told when this call has ended."""


_CALLING: ContextVar[_Call | None] = ContextVar("weft.runner.calling", default=None)
"""The call that this is part of."""


class Waiters:
    """
    The futures of one runner, by worker.

    A position in a log belongs to one worker.  Another worker of the same run (one that was released, or one of a run
    that turns out to exist) never completes or fails a future that is not its own.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._callbacks = Callbacks()
        self._waiting: dict[Worker, list[Waiter]] = {}
        self._calling: dict[str, _Call] = {}
        """By run: the call of on_complete; one at a time, so that the last one saw the most."""
        self._outlived: set[_Call] = set()
        """The calls that have not returned, of runs that were cancelled meanwhile: another run may have the id."""
        self._is_closed = False
        self._observer = self.progressed
        """`progressed`, bound once to avoid a bound method per worker."""

    async def done(self, worker: Worker) -> Worker:
        """
        Wait until *worker*, which is not done, is done (:func:`~.status.is_done`).

        Returns:
            The worker, or the one that has replaced it.
        """
        waiter = self._added(worker, None)
        try:
            done: Worker = await waiter.future
            return done
        except asyncio.CancelledError:
            self.forget(worker, waiter)
            raise

    def add(self, worker: Worker, waiter: Waiter) -> None:
        """Notify *waiter* when *worker* has nothing left to do."""
        self._put(worker, waiter)

    async def input_done(self, worker: Worker, ordinal: int) -> None:
        """
        Wait until nothing that follows from the input *ordinal* is left to do.

        Raises:
            RunClosed, RunParked: it never will be.
        """
        future = self._add(worker, InputDone(ordinal).answer)
        self.progressed(worker)
        await future

    def until(self, worker: Worker, predicate: Callable[[Run], bool]) -> asyncio.Future[Run]:
        """Return a future that ends when *predicate* holds for the run."""
        future = self._add(worker, _Predicate(predicate).answer)
        self.progressed(worker)
        return future

    def beyond(self, worker: Worker, position: int) -> asyncio.Future[Any]:
        """Return a future that ends when an event after *position* is stored."""
        future = self._add(worker, lambda worker: worker.lost or worker.acknowledged > position or None)
        self.progressed(worker)
        return future

    def at_last(self, worker: Worker) -> asyncio.Future[Any]:
        """Return a future that ends when the run of *worker* has finished, or is parked."""

        def answer(worker: Worker) -> bool | None:
            return worker.has_left or (is_done(worker) and worker.state in (*FINISHED, "parked")) or None

        future = self._add(worker, answer)
        self.progressed(worker)
        return future

    def nothing_in_flight(self, worker: Worker) -> asyncio.Future[None]:
        """Return a future that ends when nothing of *worker* is in flight."""
        return self._add(worker, lambda worker: None if worker.queue.by_key else True)

    def _add(self, worker: Worker, answer: Answer | None) -> asyncio.Future[Any]:
        """Return a future that ends with *answer*, evaluated whenever something happens, or when the run is done."""
        waiter = self._added(worker, answer)
        waiter.future.add_done_callback(partial(self._cancelled, worker, waiter))
        return waiter.future

    def _added(self, worker: Worker, answer: Answer | None) -> _Waiter:
        waiter = _Waiter(answer)
        self._put(worker, waiter)
        return waiter

    def _put(self, worker: Worker, waiter: Waiter) -> None:
        self._waiting.setdefault(worker, []).append(waiter)
        if waiter.answer is not None:
            worker.observer = self._observer

    def _cancelled(self, worker: Worker, waiter: _Waiter, future: asyncio.Future[Any]) -> None:
        """Forget a caller that was cancelled."""
        if future.cancelled():
            self.forget(worker, waiter)

    def forget(self, worker: Worker, waiter: Waiter) -> None:
        """Let *waiter* wait for *worker* no longer, if it does."""
        waiting = self._waiting.get(worker, [])
        if waiter in waiting:
            waiting.remove(waiter)
            if not waiting:
                del self._waiting[worker]

    def is_awaited(self, worker: Worker) -> bool:
        """Whether a caller waits for *worker*."""
        return any(not waiter.future.done() for waiter in self._waiting.get(worker, ()))

    async def durable(self, worker: Worker, position: int) -> None:
        """
        Wait until the event at *position* is stored.

        Raises:
            StoreError: it never will be, or something else keeps the run from being written.
        """
        if worker.acknowledged < position:
            await self.stored_at(worker, position)

    async def stored(self, worker: Worker, status: RunStatus) -> None:
        """
        Wait until everything that has happened is stored, and that the run has *status*.

        Raises:
            StoreError: as :meth:`durable`.
        """
        position = len(worker.run.memory.log)
        if not _is_stored(worker, position, status):
            await self.stored_at(worker, position, status)

    def stored_at(self, worker: Worker, position: int, status: RunStatus | None = None) -> asyncio.Future[None]:
        """
        Return a future that ends when the event at *position*, and the *status* if that is given, are stored.

        Raises:
            StoreError: as :meth:`durable`.
        """
        self._check_writing(worker)
        waiter = _UntilStored(position, status)
        self._put(worker, waiter)
        return waiter.future  # a caller that is cancelled is forgotten at the next commit

    async def status_stored(self, worker: Worker) -> None:
        """
        Wait until the status that *worker* has is stored, after its events; or another one, if it changes meanwhile.

        Raises:
            StoreError: as :meth:`durable`.
        """
        position, before = worker.acknowledged, worker.stored_status
        if not worker.is_status_stored:
            self._check_writing(worker)
            worker.checkpoint()  # it may have changed since the last append, and no other one follows by itself

            def answer(worker: Worker) -> Exception | bool | None:
                has_moved = worker.stored_status != before or worker.acknowledged > position
                return worker.lost or has_moved or None

            await self._added(worker, answer).future

    async def all_stored(self, worker: Worker) -> None:
        """
        Wait until the store has everything of *worker*: its events, its status, and which messages it has taken.

        Raises:
            StoreError: as :meth:`durable`.
        """
        if not worker.is_stored:
            self._check_writing(worker)
            worker.checkpoint()
            await self._added(worker, lambda worker: worker.lost or worker.is_stored or None).future

    def _check_writing(self, worker: Worker) -> None:
        """Raise why nothing more is written, if that is so."""
        if worker.lost is not None:
            raise worker.lost.with_traceback(None)  # which would grow with every caller
        if self._is_closed:
            raise RunnerClosed

    # -- what happens ----------------------------------------------------------------------------

    def progressed(self, worker: Worker) -> None:
        """Something was stored, or has ended, or went wrong."""
        for waiter in (*self._waiting.get(worker, ()),):
            if waiter.answer is not None and not waiter.future.done():
                waiter.tell(waiter.answer(worker))
        worker.observer = None
        for waiter in self._waiting.pop(worker, ()):  # an answer may have let others come or go
            if not waiter.future.done():
                self._put(worker, waiter)

    def settled(self, worker: Worker) -> None:
        """*worker* has nothing left to do: call back, then tell all callers."""
        if worker.observer is not None:
            self.progressed(worker)
        if is_to_call_back(worker):
            call = self._calling.get(worker.id)
            if call is not None:  # once that one has ended, this comes again
                call.successor = worker
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
            if is_cancelled(error):  # by code that shares the loop: callers still wait for an answer
                _log.error("on_complete of run %r was cancelled; it counts as called", worker.id)
            else:
                _log.exception("on_complete of run %r failed; the run is not touched by that", worker.id)

    def _notified(self, call: _Call, worker: Worker, period: int, task: asyncio.Task[None]) -> None:
        """on_complete has returned; if other code has cancelled it before it was called, it is called now."""
        if self._calling.get(worker.id) is call:
            del self._calling[worker.id]
        self._outlived.discard(call)
        if call.is_dropped:
            return
        if task.cancelled():
            if call.worker is worker and worker.is_settled:
                self.settled(worker)
        elif task.exception() is None:
            worker.noticed(period)
        successor = call.successor
        if successor is not None and successor is not worker and successor.is_settled:
            self.settled(successor)

    def is_calling(self, worker: Worker) -> bool:
        """Whether on_complete of *worker* is being called."""
        return worker.id in self._calling

    def is_called_by(self, worker: Worker) -> bool:
        """Whether this code is called by on_complete of *worker*."""
        call = self._calling.get(worker.id)
        return call is not None and _CALLING.get() is call

    async def called(self, workers: Iterable[Worker], deadline: Deadline) -> None:
        """
        Wait until on_complete of *workers* has returned, or until the *deadline*.

        A callback that itself stops its run or closes the runner is not waited for, and counts as called.
        """
        asking, tasks = _CALLING.get(), list[asyncio.Task[None]]()
        for worker in workers:
            call = self._calling.get(worker.id)
            if call is not None and call is asking:
                worker.noticed(worker.period)
            elif call is not None and call.task is not None:
                tasks.append(call.task)
        await deadline.wait(tasks)

    def drop_calls(self) -> None:
        """Stop waiting for callbacks: those that have not returned are called again when their runs are resumed."""
        for call in (*self._calling.values(), *self._outlived):
            self._drop(call)

    def _tell(self, worker: Worker) -> None:
        if worker.state == "failed" and bus.workflow_exception:
            worker.report.failed(RunFailed(worker.id, worker.run.failures, worker.run.results()))
        worker.report.settled(worker.state)
        if worker in self._waiting:
            for waiter in self._waiting.pop(worker):
                if waiter.answer is None:
                    waiter.settled(worker)
                else:
                    self._put(worker, waiter)

    async def left(self, worker: Worker) -> None:
        """
        Wait until *worker*, whose run finishes, has left the runner.

        Raises:
            StoreError: the store has refused its last events, so that it stays.
        """
        await self._add(worker, lambda worker: worker.lost or worker.has_left or None)

    def over(self, worker: Worker) -> None:
        """The run of *worker* has finished and left: tell the callers that still wait."""
        call = self._calling.get(worker.id)
        if call is not None and call.worker is worker:  # the run was cancelled, and the callback may never return
            del self._calling[worker.id]
            self._outlived.add(call)
        for waiter in self._waiting.pop(worker, ()):
            if waiter.answer is None:
                waiter.settled(worker)
            else:
                waiter.tell(waiter.answer(worker) or RunClosed(worker.id, worker.reason, status=worker.state))

    # -- workers that change ---------------------------------------------------------------------

    def moved(self, old: Worker, new: Worker) -> None:
        """*new* has replaced *old* and continues its log: move the waiters."""
        old.observer = None
        call = self._calling.get(old.id)
        if call is not None and call.worker is old:
            call.worker = new
        if old in self._waiting:
            self._waiting.setdefault(new, []).extend(self._waiting.pop(old))
        new.observer = self._observer
        self.progressed(new)

    def gone(self, worker: Worker) -> None:
        """The run was released: tell the callers that wait for it."""
        call = self._calling.get(worker.id)
        if call is not None and call.worker is worker:
            call.successor = None
            if call.task is not None and not self.is_called_by(worker):  # it is called again when the run is resumed
                self._drop(call)
                del self._calling[worker.id]
        error = RunNotHeld(worker.id)
        for waiter in self._waiting.pop(worker, ()):
            waiter.tell(error)

    def close(self) -> None:
        """The runner is closed and writes nothing more: tell callers that wait, now or later."""
        self._is_closed = True
        for waiter in [waiter for waiting in self._waiting.values() for waiter in waiting]:
            waiter.closed()
        self._waiting.clear()

    @staticmethod
    def _drop(call: _Call) -> None:
        call.is_dropped = True
        if call.task is not None:
            call.task.cancel()


class Waiter(Protocol):
    """A caller that waits: for an answer, or, without one, until the run is done."""

    @property
    def answer(self) -> Answer | None:
        """Looked at whenever something happens; None if only the end is waited for."""
        ...

    @property
    def future(self) -> asyncio.Future[Any]:
        """The future of the caller; once it is done, nothing is waited for."""
        ...

    def tell(self, answer: Any) -> None:
        """End the wait with *answer*, a result or an error, unless it is None or the wait is over."""
        ...

    def settled(self, worker: Worker) -> None:
        """*worker* has nothing left to do."""
        ...

    def closed(self) -> None:
        """The runner is closed."""
        ...


class _Caller:
    """A caller that waits for one run."""

    __slots__ = ("future",)
    future: asyncio.Future[Any]

    def tell(self, answer: Any) -> None:
        """End the wait with *answer*, a result or an error, unless it is None or the wait is over."""
        if answer is None or self.future.done():
            return
        if isinstance(answer, BaseException):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)

    def settled(self, worker: Worker) -> None:
        """End the wait: *worker* has nothing left to do."""
        self.tell(worker)

    def closed(self) -> None:
        """End the wait: the runner is closed."""
        self.tell(RunnerClosed(again=True))
        if not self.future.cancelled():
            self.future.exception()  # a caller that waits receives it; without one, it does not matter


class _Waiter(_Caller):
    """A caller that waits for an answer, or, without one, until the run is done."""

    __slots__ = ("answer",)

    def __init__(self, answer: Answer | None) -> None:
        self.future = asyncio.Future()  # of the running loop, in half the time that create_future() takes
        self.answer = answer


class _UntilStored(_Caller):
    """A caller that waits until an event, and perhaps a status, is stored: every start does, so it is one object."""

    __slots__ = ("_position", "_status")

    def __init__(self, position: int, status: RunStatus | None) -> None:
        self.future = asyncio.Future()
        self._position = position
        self._status: RunStatus | None = status

    def answer(self, worker: Worker) -> Exception | bool | None:
        """Return True if it is stored, or why it never will be; None if it is not stored yet."""
        return worker.lost or _is_stored(worker, self._position, self._status) or None


class _Predicate:
    """A caller that waits until *predicate* holds for a run, as durable as its strategy requires."""

    __slots__ = ("_found", "_looked_at", "_predicate")

    def __init__(self, predicate: Callable[[Run], bool]) -> None:
        self._predicate = predicate
        self._found: Run | None = None
        """The run for which it held, while that is not durable yet."""
        self._looked_at = -1
        """How many events were durable when the run was last looked at."""

    def answer(self, worker: Worker) -> Run | BaseException | None:
        """Return the run for which the predicate holds, or why it never will; None if it does not hold yet."""
        stored, is_strict = worker.acknowledged, worker.options.checkpoints.lag is not None
        if self._found is None and not (is_strict and stored == self._looked_at):
            self._looked_at = stored
            try:
                self._found = worker.run.where(self._predicate)
            except BaseException as error:  # noqa: BLE001 - the caller's predicate is the caller's problem
                return _tellable(error)
        found = self._found
        if found is not None and (not is_strict or stored >= len(found.memory.log)):
            return found
        is_over = is_done(worker) and (worker.state == "parked" or worker.state in FINISHED)
        return _over(worker) if is_over else None  # before that, on_complete may retry a run that has failed


def _over(worker: Worker) -> Exception:
    """Return the error for callers whose predicate can no longer hold: the run is parked, or has finished."""
    if worker.state == "parked":
        return RunParked(worker.id, worker.reason)
    return RunClosed(worker.id, worker.reason, status=worker.state)


def _is_stored(worker: Worker, position: int, status: RunStatus | None) -> bool:
    return worker.acknowledged >= position and (status is None or worker.stored_status == status)


def _tellable(error: BaseException) -> BaseException:
    """Return *error*, or another one in its place: a StopIteration cannot be set on a future."""
    if not isinstance(error, StopIteration):
        return error
    told = RuntimeError("the predicate raised StopIteration")
    told.__cause__ = error
    return told
