"""
The client of a fleet for scripts and threads: the methods of :class:`AsyncClient`, but blocking.

It owns a thread with an event loop, which the first call starts.  All methods can be called from any thread.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal, Self, TypeVar, overload

from weft.core.events import AnyEvent
from weft.core.functions.references import MISSING
from weft.core.functions.reports import Progress
from weft.core.run.preview import Preview
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import Interrupted, RunnerClosed
from weft.fleet.client import AsyncClient, IfThere
from weft.fleet.limits import LimitStatus
from weft.fleet.within import execute_blocking
from weft.ports.deadlines import Endangered
from weft.ports.queue import QUEUE, QueueStatus
from weft.ports.store import FINISHED, RunRecord, RunStatus
from weft.ports.workers import Waiting, WorkerRecord
from weft.runner.execution.streams import StreamItem
from weft.runner.handle import Handle, Handles
from weft.runner.jobs.blocking import BlockingJobCommands
from weft.runner.option_checks import Time
from weft.runner.schedules.blocking import BlockingScheduleCommands
from weft.runner.schedules.decision import Overlap
from weft.runner.schedules.rows import ScheduleStatus
from weft.runner.termination import result_of
from weft.stores.postgres import PostgresStore
from weft.typing import In, Out, PoliciesMode

T = TypeVar("T")

_PATIENCE = 10.0
"""Seconds that a forgotten client gets to disconnect."""


class Client(BlockingScheduleCommands, BlockingJobCommands):
    """
    Starts runs in the database at *dsn*, or in several databases, and talks to them.

    The arguments are those of :class:`AsyncClient`.
    It connects with the first call, and ``close`` or ``with`` disconnects it.
    """

    def __init__(
        self,
        dsn: str | Sequence[str] | PostgresStore,
        *,
        schema: str = "public",
        prepared: bool = True,
        timeout: float = 60.0,
    ) -> None:
        self._inner = AsyncClient(dsn, schema=schema, prepared=prepared, timeout=timeout)
        self._opening = threading.Lock()
        """Held while it is opened or closed."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = self._is_open = False
        self._end: Callable[[], object] = lambda: None

    # -- opening and closing ---------------------------------------------------------------------

    def migrate(self, *, worker: str | None = None, reader: str | None = None) -> None:
        """Bring the tables to the version of this Weft; see :meth:`PostgresStore.migrate`."""
        self._call(self._inner.migrate(worker=worker, reader=reader))

    def open(self) -> Self:
        """Connect; do nothing if it is open already."""
        with self._opening:
            if not self._is_open:
                self._call_in(self._begun(), self._inner.open())
                self._is_open = True
        return self

    def close(self) -> None:
        """Disconnect; calls that wait raise ``RunnerClosed``."""
        with self._opening:
            self._is_closed = True
            self._loop = None
        self._end()

    def __enter__(self) -> Self:
        try:
            return self.open()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begun(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which the first call starts; called while *_opening* is held."""
        if self._is_closed:
            raise RunnerClosed(again=True)
        if self._loop is None:
            loop = self._loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_live, args=(loop,), name="weft-client", daemon=True)
            thread.start()
            self._end = weakref.finalize(self, _end, loop, thread, self._inner)
        return self._loop

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* in the loop of the client, which is connected, and wait for it."""
        try:
            self.open()
        except BaseException:
            work.close()
            raise
        return self._call(work)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            with self._opening:
                loop = self._begun()
        except BaseException:
            work.close()
            raise
        return self._call_in(loop, work)

    def _call_in(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return result_of(future)
        except CancelledError as error:
            if self._is_closed:
                raise RunnerClosed(again=True) from None
            raise Interrupted from error
        except BaseException:
            future.cancel()
            raise

    @property
    def _schedule_commands(self) -> AsyncClient:
        return self._inner

    @property
    def _job_commands(self) -> AsyncClient:
        return self._inner

    # -- the same methods ------------------------------------------------------------------------

    @overload
    def start(
        self,
        workflow: Workflow[In, Out],
        input: In = ...,
        *,
        id: str | None = None,
        if_exists: IfThere = "same",
        unique: str | None = None,
        queue: str = QUEUE,
        priority: int = 0,
        fair_key: str | None = None,
        scheduled_at: Time | None = None,
        open: bool = False,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        deadline: float | None = None,
        by: str | None = None,
        within: Any = None,
    ) -> Handle[Out]: ...
    @overload
    def start(
        self,
        workflow: str,
        input: Any = ...,
        *,
        id: str | None = None,
        if_exists: IfThere = "same",
        unique: str | None = None,
        queue: str = QUEUE,
        priority: int = 0,
        fair_key: str | None = None,
        scheduled_at: Time | None = None,
        open: bool = False,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        deadline: float | None = None,
        by: str | None = None,
        within: Any = None,
    ) -> Handle[Any]: ...
    def start(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any = MISSING,  # noqa: A002 - what one would say
        *,
        id: str | None = None,
        if_exists: IfThere = "same",
        unique: str | None = None,
        queue: str = QUEUE,
        priority: int = 0,
        fair_key: str | None = None,
        scheduled_at: Time | None = None,
        open: bool = False,  # noqa: A002 - what one would say
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        deadline: float | None = None,
        by: str | None = None,
        within: Any = None,
    ) -> Handle[Any]:
        """Store a new run of *workflow*, which a worker will drive; see :meth:`AsyncClient.start`."""
        inner, home = self._inner, None
        if within is not None:
            self.open()
            asking = inner._asking_home()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            home = None if asking is None else execute_blocking(within, *asking)[0]
        prepared = inner._prepared(  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            workflow,
            input,
            id=id,
            if_exists=if_exists,
            unique=unique,
            queue=queue,
            priority=priority,
            fair_key=fair_key,
            scheduled_at=scheduled_at,
            open=open,
            policies=policies,
            policies_mode=policies_mode,
            deadline=deadline,
            by=by,
            home=home,
        )
        if within is None:
            return Handle(self, self._do(inner._start_prepared(prepared)))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        new = self._do(prepared)
        statement = self._do(inner._statement(new))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        row = (None,) if statement is None else execute_blocking(within, *statement)  # in the thread that has it
        ref = self._do(inner._started_within(new, row))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return Handle(self, ref)

    def start_many(
        self,
        workflow: Workflow[Any, Any] | str,
        inputs: Iterable[Any],
        *,
        ids: Iterable[str] | None = None,
        if_exists: IfThere = "same",
        unique: Iterable[str] | None = None,
        queue: str = QUEUE,
        priority: int = 0,
        fair_key: str | None = None,
        scheduled_at: Time | None = None,
        by: str | None = None,
    ) -> Handles[Any]:
        """Store a new run for each of *inputs*; see :meth:`AsyncClient.start_many`."""
        started = self._do(
            self._inner.start_many(
                workflow,
                inputs,
                ids=ids,
                if_exists=if_exists,
                unique=unique,
                queue=queue,
                priority=priority,
                fair_key=fair_key,
                scheduled_at=scheduled_at,
                by=by,
            )
        )
        return Handles(self, started.refs)

    def schedule(
        self,
        name: str,
        workflow: Workflow[Any, Any] | str,
        *,
        cron: str | None = None,
        timezone: str = "UTC",
        every: float | timedelta | None = None,
        at: Time | None = None,
        input: Any = MISSING,  # noqa: A002 - what one would say
        jitter: float = 0.0,
        catch_up: int = 1,
        tolerance: float = 60.0,
        overlap: Overlap = "skip",
        queue: str = QUEUE,
        priority: int = 0,
    ) -> ScheduleStatus:
        """Start a run of *workflow* at each time that a rule names; see :meth:`AsyncClient.schedule`."""
        return self._do(
            self._inner.schedule(
                name,
                workflow,
                cron=cron,
                timezone=timezone,
                every=every,
                at=at,
                input=input,
                jitter=jitter,
                catch_up=catch_up,
                tolerance=tolerance,
                overlap=overlap,
                queue=queue,
                priority=priority,
            )
        )

    def send(
        self,
        id: str | Handle[Any],
        input: Any,  # noqa: A002 - what one would say
        *,
        key: str | None = None,
        deadline: float | None = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        by: str | None = None,
    ) -> Handle[Any]:
        """Send the run *id* an input; see :meth:`AsyncClient.send`."""
        sent = self._inner.send(
            id, input, key=key, deadline=deadline, policies=policies, policies_mode=policies_mode, by=by
        )
        return Handle(self, self._do(sent).ref)

    def signal(
        self,
        id: str | Handle[Any],
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
        by: str | None = None,
    ) -> None:
        """Send the run *id* the signal *name*."""
        self._do(self._inner.signal(id, name, value, key=key, by=by))

    def finish(self, id: str | Handle[Any], *, by: str | None = None) -> None:
        """Let the run *id* accept no more input, and finish when nothing is left to do."""
        self._do(self._inner.finish(id, by=by))

    def cancel(self, id: str | Handle[Any], reason: str = "", *, undo: bool = True, by: str | None = None) -> None:
        """Close the run *id* for good, and undo what it has done; see :meth:`AsyncRunner.cancel`."""
        self._do(self._inner.cancel(id, reason, undo=undo, by=by))

    def set_policies(
        self, id: str, policies: Iterable[Any], *, mode: PoliciesMode = "replace", by: str | None = None
    ) -> None:
        """Put *policies* in force for the run *id*, from the next decision on."""
        self._do(self._inner.set_policies(id, policies, mode=mode, by=by))

    def retry(
        self,
        id: str,
        which: object = None,
        *,
        policy: Any = None,
        input: Any = MISSING,  # noqa: A002 - what one would say
        by: str | None = None,
    ) -> Handle[Any]:
        """Run again what has failed in the run *id*; see :meth:`AsyncClient.retry`."""
        return Handle(self, self._do(self._inner.retry(id, which, policy=policy, input=input, by=by)).ref)

    @overload
    def fork(
        self,
        id: str,
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        preview: Literal[False] = False,
        by: str | None = None,
        queue: str = QUEUE,
        priority: int = 0,
    ) -> Handle[Any]: ...
    @overload
    def fork(
        self,
        id: str,
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        preview: Literal[True],
        by: str | None = None,
        queue: str = QUEUE,
        priority: int = 0,
    ) -> Preview: ...
    def fork(
        self,
        id: str,
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        preview: bool = False,
        by: str | None = None,
        queue: str = QUEUE,
        priority: int = 0,
    ) -> Handle[Any] | Preview:
        """Start another run with the history of the run *id* and an edit; see :meth:`AsyncClient.fork`."""
        if preview:
            return self._do(self._inner.fork(id, at=at, value=value, preview=True))
        forked = self._inner.fork(
            id,
            new_id,
            at=at,
            value=value,
            policies=policies,
            policies_mode=policies_mode,
            by=by,
            queue=queue,
            priority=priority,
        )
        return Handle(self, self._do(forked).ref)

    @overload
    def upgrade(
        self,
        id: str,
        workflow: Workflow[Any, Any],
        *,
        again: Collection[object] = (),
        preview: Literal[False] = False,
        by: str | None = None,
    ) -> Handle[Any]: ...
    @overload
    def upgrade(
        self,
        id: str,
        workflow: Workflow[Any, Any],
        *,
        again: Collection[object] = (),
        preview: Literal[True],
        by: str | None = None,
    ) -> Preview: ...
    def upgrade(
        self,
        id: str,
        workflow: Workflow[Any, Any],
        *,
        again: Collection[object] = (),
        preview: bool = False,
        by: str | None = None,
    ) -> Handle[Any] | Preview:
        """Let the run *id* follow another version of its workflow; see :meth:`AsyncClient.upgrade`."""
        if preview:
            return self._do(self._inner.upgrade(id, workflow, again=again, preview=True))
        return Handle(self, self._do(self._inner.upgrade(id, workflow, again=again, by=by)).ref)

    def delete(self, id: str) -> None:
        """Delete the stored run *id*; see :meth:`AsyncClient.delete`."""
        self._do(self._inner.delete(id))

    def purge(
        self,
        *,
        before: Time,
        statuses: RunStatus | Collection[RunStatus] = FINISHED,
        limit: int | None = None,
    ) -> int:
        """Delete finished runs that were last written *before* a time; see :meth:`AsyncClient.purge`."""
        return self._do(self._inner.purge(before=before, statuses=statuses, limit=limit))

    def wait(self, run: str | Handle[Out], timeout: float | None = None) -> Run[Out]:
        """Wait until *run* has nothing left to do; return it."""
        return self._do(self._inner.wait(run, timeout))

    def wait_until(
        self, run: str | Handle[Out], predicate: Callable[[Run[Out]], bool], timeout: float | None = None
    ) -> Run[Out]:
        """Wait until *predicate* holds for *run*, as far as it is stored."""
        return self._do(self._inner.wait_until(run, predicate, timeout))

    def result(self, run: str | Handle[Out], timeout: float | None = None) -> Out:
        """Wait until *run* has nothing left to do; return its output."""
        return self._do(self._inner.result(run, timeout))

    @overload
    def gather(
        self,
        runs: Iterable[str | Handle[Out]],
        timeout: float | None = None,
        *,
        return_exceptions: Literal[False] = False,
    ) -> list[Out]: ...
    @overload
    def gather(
        self, runs: Iterable[str | Handle[Out]], timeout: float | None = None, *, return_exceptions: bool
    ) -> list[Out | Exception]: ...
    def gather(
        self, runs: Iterable[str | Handle[Any]], timeout: float | None = None, *, return_exceptions: bool = False
    ) -> list[Any]:
        """Wait until all of *runs* have nothing left to do; return their outputs, in order."""
        return self._do(self._inner.gather(runs, timeout, return_exceptions=return_exceptions))

    def results(self, run: str | Handle[Any]) -> dict[str, Any]:
        """Return the latest values that the leaves of *run* have produced."""
        return self._do(self._inner.results(run))

    def get(self, run: str | Handle[Out]) -> Run[Out]:
        """Return *run* as it is now."""
        return self._do(self._inner.get(run))

    def log(self, run: str | Handle[Any]) -> list[AnyEvent]:
        """Return everything that has happened in *run*."""
        return self._do(self._inner.log(run))

    def unread(self, run: str | Handle[Any]) -> list[AnyEvent]:
        """Return the messages in the inbox of *run* that it has not taken in, in order."""
        return self._do(self._inner.unread(run))

    def status(self, run: str | Handle[Any]) -> RunStatus:
        """Return the status of *run*."""
        return self._do(self._inner.status(run))

    def find(self, id: str) -> RunRecord:
        """Return the record of the run *id*."""
        return self._do(self._inner.find(id))

    def runs(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: Time | None = None,
        limit: int = 100,
        after: RunRecord | None = None,
    ) -> list[RunRecord]:
        """Return the records of stored runs, newest first."""
        return self._do(
            self._inner.runs(status=status, workflow=workflow, failed=failed, since=since, limit=limit, after=after)
        )

    def count(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: Time | None = None,
    ) -> int:
        """Return how many runs there are."""
        return self._do(self._inner.count(status=status, workflow=workflow, failed=failed, since=since))

    def waiting_runs(
        self,
        *,
        workflow: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int = 100,
        after: RunRecord | None = None,
    ) -> list[RunRecord]:
        """Return the records of waiting runs, the next one to be woken first; see :meth:`AsyncRunner.waiting_runs`."""
        return self._do(self._inner.waiting_runs(workflow=workflow, since=since, until=until, limit=limit, after=after))

    def tally(self) -> dict[tuple[str, RunStatus], int]:
        """Return how many runs are stored, by workflow and status."""
        return self._do(self._inner.tally())

    def count_versions(self, workflow: str) -> dict[str, int]:
        """Return how many runs of a workflow there are, by version."""
        return self._do(self._inner.count_versions(workflow))

    def endangered(self, *, limit: int = 100) -> list[Endangered]:
        """Return the runs whose deadline is in danger or past; see :meth:`AsyncRunner.endangered`."""
        return self._do(self._inner.endangered(limit=limit))

    def histogram(self, *, since: Time, width: float, workflow: str | None = None) -> dict[tuple[int, RunStatus], int]:
        """Return how many runs were created when, by the number of the interval and status."""
        return self._do(self._inner.histogram(since=since, width=width, workflow=workflow))

    def events(self, run: str | Handle[Any], from_: int = 1) -> Iterator[AnyEvent]:
        """Iterate over the events of *run* as they become durable, until it has finished."""
        return self._iterated(self._inner.events(run, from_))

    def stream(self, run: str | Handle[Any], name: str, from_: int = 0) -> Iterator[StreamItem]:
        """Iterate over the items of a stream of *run* as they become durable."""
        return self._iterated(self._inner.stream(run, name, from_))

    def _iterated(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Iterate over *items* in the loop of the client, one call each."""
        end: Any = object()

        async def following() -> T:
            return await anext(items, end)

        async def closed() -> None:
            await items.aclose()

        try:
            while (item := self._do(following())) is not end:
                yield item
        finally:
            with suppress(RunnerClosed):
                self._do(closed())

    def progress(self, run: str | Handle[Any]) -> list[Progress]:
        """Return how far the steps of *run* have come."""
        return self._do(self._inner.progress(run))

    def workers(self) -> list[WorkerRecord]:
        """Return the workers that are alive, oldest first."""
        return self._do(self._inner.workers())

    def drain(self, worker: str, *, resume: bool = False, by: str | None = None) -> None:
        """Let *worker* release its runs and claim none, or claim again; see :meth:`AsyncClient.drain`."""
        self._do(self._inner.drain(worker, resume=resume, by=by))

    def stranded(self) -> list[Waiting]:
        """Return the runs that are due and that no worker can drive; see :meth:`AsyncClient.stranded`."""
        return self._do(self._inner.stranded())

    def queue_depth(self, queue: str | None = None) -> int:
        """Return how many runs have something to do, now or later, in one *queue* or in all."""
        return self._do(self._inner.queue_depth(queue))

    def limits(self) -> list[LimitStatus]:
        """Return the limits of steps that workers have used, as they are in the database."""
        return self._do(self._inner.limits())

    def queues(self) -> list[QueueStatus]:
        """Return the queues that have runs: how many wait, for how long the oldest has, and how many workers have."""
        return self._do(self._inner.queues())


def _live(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, inner: AsyncClient) -> None:
    """Disconnect, and end the thread; also at the end of the program."""

    async def close() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        try:
            await inner.close()
        finally:
            for task in others:
                task.cancel()
            await asyncio.sleep(0)
            loop.call_soon(loop.stop)

    if threading.current_thread() is thread or loop.is_closed():
        return
    with suppress(Exception):
        asyncio.run_coroutine_threadsafe(close(), loop).result(_PATIENCE)
    thread.join(_PATIENCE)
