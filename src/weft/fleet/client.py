"""
The client of a fleet: starts runs that workers drive, sends them messages, and waits for what comes of them.

It drives nothing and owns nothing: it has no lease, and may be closed at any time.

    async with AsyncClient("postgresql://weft@localhost/runs") as client:
        handle = await client.start("orders", {"id": 7}, id="order-7")
        print(await handle.result())
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple, Self, overload

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.functions.outlet import Progress
from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import InvalidOption, RunClosed, RunExists, RunNotFound, StoreError, WorkerNotFound
from weft.fleet import registry as known_workflows
from weft.fleet.limits import LimitStatus, limit_status
from weft.fleet.placement import ALONE
from weft.fleet.sharded_store import ShardedStore
from weft.fleet.shards import Shards
from weft.fleet.starting import new_run
from weft.fleet.within import execute
from weft.log import check_encodable, needs_encoding
from weft.ports.queue import QUEUE, Placement, QueueStatus
from weft.ports.store import FINISHED, Append, RunRecord
from weft.ports.workers import Waiting, WorkerRecord, stranded, wish
from weft.runner.durability.store_retry import retry_while_unavailable
from weft.runner.execution.large_values import encoded_input
from weft.runner.execution.streams import StreamItem
from weft.runner.execution.worker import Worker
from weft.runner.handle import AsyncHandle, AsyncHandles, RunHandle, RunRef
from weft.runner.options import StartRequest, Time, as_time, check_deadline, check_text, check_workflow
from weft.runner.portability import check_portable
from weft.runner.queries import RunnerQueries
from weft.runner.registry.bulk_start import new_runs
from weft.runner.registry.mailbox import named_failure
from weft.runner.registry.same_start import difference
from weft.runner.runner import AsyncRunner
from weft.runner.schedules.commands import ScheduleCommands, declared_schedule
from weft.runner.schedules.decision import Overlap
from weft.runner.schedules.rows import ScheduleStatus
from weft.stores.postgres import PostgresStore
from weft.typing import In, Out, PoliciesMode

AT_ONCE: Final = 512
"""How many runs are started by one statement."""


class AsyncClient(RunnerQueries, ScheduleCommands):
    """
    Starts runs in the database at *dsn*, or in several databases, and talks to them.

    ``wait``, ``wait_until``, ``result``, ``gather``, ``results``, ``get``, ``log``, ``status``, ``find``, ``runs`` and
    ``count`` are those of :class:`weft.AsyncRunner`.

    Args:
        dsn: ``postgresql://user:password@host:port/database``; a list of those of all databases of the fleet, if there
            are several; or a store of this event loop; one that is open stays open.
        schema: where the tables are.
        prepared: False if *dsn* goes through a pooler that does not keep prepared statements.
        timeout: for how many seconds to wait for an answer of the server.
    """

    def __init__(
        self,
        dsn: str | Sequence[str] | PostgresStore,
        *,
        schema: str = "public",
        prepared: bool = True,
        timeout: float = 60.0,
    ) -> None:
        self._store: PostgresStore | ShardedStore
        make = partial(PostgresStore, schema=schema, prepared=prepared, timeout=timeout)
        if isinstance(dsn, str | PostgresStore):
            self._store = make(dsn) if isinstance(dsn, str) else dsn
            self._store.fence = ALONE
        else:
            self._store = ShardedStore(Shards([make(each) for each in dsn]))
        self._has_to_check = isinstance(dsn, str)
        """Whether it is told at once that there are other databases; a store is used as it is, to look."""
        self._reader = _Reader(self._store)
        self._runtime = self._reader.parts
        self._checked: set[tuple[str, str]] = set()
        """The definitions that are known to be portable."""
        self._retried: dict[str, int] = {}
        """By run that has failed and was told to go on: its head when it was."""

    # -- opening and closing ---------------------------------------------------------------------

    async def migrate(self, *, worker: str | None = None, reader: str | None = None) -> None:
        """Bring the tables to the version of this Weft; see :meth:`PostgresStore.migrate`."""
        await self._store.migrate(worker=worker, reader=reader)

    async def open(self) -> Self:
        """Connect; open already: nothing."""
        await self._reader.open()
        if self._has_to_check:
            await retry_while_unavailable(self._store.check_fence, while_=self._runtime.is_open)
        return self

    async def close(self) -> None:
        """Disconnect."""
        await self._reader.close(grace=0.0)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- starting --------------------------------------------------------------------------------

    @overload
    async def start(
        self,
        workflow: Workflow[In, Out],
        input: In = ...,
        *,
        id: str | None = None,
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
    ) -> AsyncHandle[Out]: ...
    @overload
    async def start(
        self,
        workflow: str,
        input: Any = ...,
        *,
        id: str | None = None,
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
    ) -> AsyncHandle[Any]: ...
    async def start(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any = MISSING,  # noqa: A002 - what one would say
        *,
        id: str | None = None,
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
    ) -> AsyncHandle[Any]:
        """
        Store a new run of *workflow*, which a worker will drive; it is durable when this returns.

        Args:
            workflow: a workflow, or the name of one that was added to ``weft.registry``.
            input: its first input; without one the run stays open for what it is sent.
            id: the id of the run.  A run of this id with the same workflow name and an equal input is the same run.
            queue: which workers drive it.
            priority: runs with a higher one are claimed first.
            fair_key: such as the name of a customer: the keys of a queue take turns, so that a flood of one does not
                hold up the others.
            scheduled_at: not before this time: seconds since the epoch, or a datetime with a time zone.
            open: whether the run stays open although it has its first input.
            policies: rules in front of the workflow's own, or in their place.
            policies_mode: ``"merge"`` or ``"replace"``.
            deadline: seconds within which everything that follows from the input must be done.
            by: the caller, as that one names itself; kept in the log.
            within: a connection of asyncpg or psycopg to the same database, or a connection or session of SQLAlchemy
                over one of them, in whose transaction the run is stored: it is there when that has committed.

        Raises:
            UnknownWorkflow: no workflow of this name was added to the registry.
            RunExists: another run has this id.
            NotPortable: a worker could not find some parts of the workflow.
            UnencodableValue: the input could not be stored.
        """
        new = await self._prepared(
            workflow,
            input,
            id=id,
            queue=queue,
            priority=priority,
            fair_key=fair_key,
            scheduled_at=scheduled_at,
            open=open,
            policies=policies,
            policies_mode=policies_mode,
            deadline=deadline,
            by=by,
        )
        if within is None:
            return AsyncHandle(self, await self._start(new))
        await self._started_within(new, await execute(within, *await self._statement(new)))
        return AsyncHandle(self, new.ref)

    async def _start_prepared(self, prepared: Awaitable[NewRun]) -> RunRef:
        """Store the run that was *prepared*."""
        return await self._start(await prepared)

    async def _start(self, new: NewRun) -> RunRef:
        (refused,) = await self._enqueue([new.id], new.workflow, [new.request], new.placement)
        if refused is not None:
            await self._check_same(refused, new.id, new.workflow, new.request)
        return new.ref

    async def _prepared(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any,  # noqa: A002 - what one would say
        *,
        id: str | None,
        queue: str,
        priority: int,
        fair_key: str | None,
        scheduled_at: Time | None,
        open: bool,  # noqa: A002 - what one would say
        policies: Iterable[Any] | None,
        policies_mode: PoliciesMode,
        deadline: float | None,
        by: str | None,
    ) -> NewRun:
        """Return the run that :meth:`start` stores, with what is wrong about it told."""
        if deadline is not None:
            check_deadline(deadline)
        run = uuid.uuid4().hex if id is None else id
        check_text("id", run)
        encoded = await encoded_input(input) if needs_encoding(input) else None
        request = StartRequest(input, policies, policies_mode, deadline, not open, by, encoded)
        return NewRun(run, self._workflow(workflow), request, _placement(queue, priority, scheduled_at, fair_key))

    async def _statement(self, new: NewRun) -> tuple[str, Sequence[Any]]:
        """Return the statement that stores *new*, and its values."""
        self._runtime.check_open()
        at = self._runtime.dispatcher.clock.time()
        append = await new_run(new.id, new.workflow, self._reader.usual, new.request, at)
        return self._store.enqueueing(append, new.placement)

    async def _started_within(self, new: NewRun, row: Sequence[Any]) -> None:
        """
        See what came of the statement of *new*: the *row* that it has returned.

        Raises:
            RunExists: another run has this id.
        """
        if row[0]:
            return
        await self._store.check_fence()
        try:
            await self._check_same(RunExists(new.id), new.id, new.workflow, new.request)
        except RunNotFound:  # it is visible to that transaction alone
            raise RunExists(new.id, "it was started in the same transaction") from None

    async def start_many(
        self,
        workflow: Workflow[Any, Any] | str,
        inputs: Iterable[Any],
        *,
        ids: Iterable[str] | None = None,
        queue: str = QUEUE,
        priority: int = 0,
        fair_key: str | None = None,
        scheduled_at: Time | None = None,
        by: str | None = None,
    ) -> AsyncHandles[Any]:
        """
        Store a new run for each of *inputs*, hundreds of them by one statement; see :meth:`start`.

        Raises:
            RunExists: a run with one of the ids exists and is not the same; all others are started.
        """
        found, placement = self._workflow(workflow), _placement(queue, priority, scheduled_at, fair_key)
        runs = await new_runs(inputs, ids)
        failed: StoreError | None = None
        for first in range(0, len(runs), AT_ONCE):
            part = runs[first : first + AT_ONCE]
            requests = [StartRequest(new.value, by=by, encoded=new.encoded) for new in part]
            answers = await self._enqueue([new.id for new in part], found, requests, placement)
            for new, request, refused in zip(part, requests, answers, strict=True):
                if refused is not None:
                    try:
                        await self._check_same(refused, new.id, found, request)
                    except StoreError as error:
                        failed = failed or error
        if failed is not None:
            raise failed
        return AsyncHandles(self, [RunRef(new.id, 1) for new in runs])

    def _workflow(self, given: Workflow[Any, Any] | str) -> Workflow[Any, Any]:
        workflow = known_workflows.get(given) if isinstance(given, str) else given
        check_workflow(workflow)
        key = (workflow.name, workflow.version)
        if key not in self._checked:
            check_portable(workflow, self._reader.usual)
            self._checked.add(key)
        self._reader.register(workflow)
        return workflow

    async def _enqueue(
        self,
        ids: Sequence[str],
        workflow: Workflow[Any, Any],
        requests: Sequence[StartRequest],
        placement: Placement,
    ) -> Sequence[StoreError | None]:
        self._runtime.check_open()
        at = self._runtime.dispatcher.clock.time()
        batch: list[Append] = []
        for id, request in zip(ids, requests, strict=True):
            batch.append(await new_run(id, workflow, self._reader.usual, request, at))
        tried = False

        async def write() -> Sequence[StoreError | None]:
            nonlocal tried
            again, tried = tried, True
            return await self._store.enqueue([replace(each, again=again) for each in batch], placement)

        return await retry_while_unavailable(write, while_=self._runtime.is_open)

    async def _check_same(
        self, refused: StoreError, run: str, workflow: Workflow[Any, Any], request: StartRequest
    ) -> None:
        """Raise why a run could not be started, unless it is the same run."""
        if not isinstance(refused, RunExists):
            raise refused
        known = (await self._runtime.loader.read(run)).run
        differs = difference(known, workflow, request)
        if differs:
            raise RunExists(run, differs)

    # -- schedules -------------------------------------------------------------------------------

    async def schedule(
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
        """
        Let the workers start a run of *workflow* at each time that a rule names; each time is started once.

        The options are those of :meth:`AsyncRunner.schedule`; see docs/how-to/schedules.md.  The workers that know the
        workflow fire it, in the version that they know, by the clock of the database.

        Args:
            workflow: a workflow, or the name of one; this process need not know it.
            queue: which workers drive its runs.
            priority: runs with a higher one are claimed first.
        """
        if not isinstance(workflow, str):
            workflow = self._workflow(workflow).name
        check_text("workflow", workflow)
        _placement(queue, priority, None)
        return await self._declare(
            declared_schedule(
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

    # -- messages --------------------------------------------------------------------------------

    async def send(
        self,
        id: str | RunHandle[Any],
        input: Any,  # noqa: A002 - what one would say
        *,
        key: str | None = None,
        deadline: float | None = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        by: str | None = None,
    ) -> AsyncHandle[Any]:
        """Send the run *id* an input, which is in its inbox when this returns; see :meth:`AsyncRunner.send`."""
        sent = await self._reader.send(
            id, input, key=key, deadline=deadline, policies=policies, policies_mode=policies_mode, by=by
        )
        return AsyncHandle(self, sent.ref)

    async def signal(
        self,
        id: str | RunHandle[Any],
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
        by: str | None = None,
    ) -> None:
        """Send the run *id* the signal *name*; see :meth:`AsyncRunner.signal`."""
        await self._reader.signal(id, name, value, key=key, by=by)

    async def finish(self, id: str | RunHandle[Any], *, by: str | None = None) -> None:
        """Let the run *id* accept no more input, and finish when nothing is left to do."""
        await self._reader.finish(id, by=by)

    async def cancel(self, id: str | RunHandle[Any], reason: str = "", *, by: str | None = None) -> None:
        """Close the run *id* for good; see :meth:`AsyncRunner.cancel`."""
        await self._reader.cancel(id, reason, by=by)

    async def set_policies(
        self, id: str, policies: Iterable[Any], *, mode: PoliciesMode = "replace", by: str | None = None
    ) -> None:
        """Put *policies* in force for the run *id*, from the next decision on."""
        await self._reader.set_policies(id, policies, mode=mode, by=by)

    async def retry(
        self,
        id: str,
        which: object = None,
        *,
        policy: Any = None,
        input: Any = MISSING,  # noqa: A002 - what one would say
        by: str | None = None,
    ) -> AsyncHandle[Any]:
        """
        Run again what has failed in the run *id*, also if the run has failed and left; see :meth:`AsyncRunner.retry`.

        Raises:
            NoSuchLetter: there is no such failure.
            RunClosed: the run has completed, or was cancelled.
        """
        if input is not MISSING:
            check_encodable(input, "INPUT")
        record = await self.find(id)
        if record.status in FINISHED and record.status != "failed":
            raise RunClosed(id, record.reason, status=record.status)
        run: Run[Any] = (await self._runtime.loader.read(id)).run
        head, (name, inputs) = len(run.memory.log), named_failure(run, which)
        run.retry(which, input=input)  # what cannot be retried is told here
        given = None if input is MISSING else (input,)
        await self._runtime.mailbox.post(id, "retry", ev.RunnableRetried(head, name, inputs, given, policy, by))
        if record.status == "failed":
            self._retried[id] = head
        return AsyncHandle(self, RunRef(id))

    # -- looking ---------------------------------------------------------------------------------

    async def _found(self, ref: RunRef) -> Worker | RunRecord:
        """As :class:`AsyncRunner` does; a run that was told to go on, and that no worker has had since, is running."""
        found = await super()._found(ref)
        head = self._retried.get(ref.id)
        if head is None or isinstance(found, Worker):
            return found
        if found.status == "failed" and found.head <= head:
            return replace(found, status="running")
        self._retried.pop(ref.id, None)
        return found

    def events(self, run: str | RunHandle[Any], from_: int = 1) -> AsyncGenerator[ev.AnyEvent, None]:
        """Yield the events of *run* as they become durable, until it has finished; see :meth:`AsyncRunner.events`."""
        return self._reader.events(run, from_)

    def stream(self, run: str | RunHandle[Any], name: str, from_: int = 0) -> AsyncGenerator[StreamItem, None]:
        """Yield the items of a stream of *run* as they become durable; see :meth:`AsyncRunner.stream`."""
        return self._reader.stream(run, name, from_)

    async def progress(self, run: str | RunHandle[Any]) -> list[Progress]:
        """Return how far the steps of *run* have come; see :meth:`AsyncRunner.progress`."""
        return await self._reader.progress(run)

    async def workers(self) -> list[WorkerRecord]:
        """Return the workers that are alive, oldest first."""
        self._runtime.check_open()
        return list(await retry_while_unavailable(self._store.workers, while_=self._runtime.is_open))

    async def drain(self, worker: str, *, resume: bool = False, by: str | None = None) -> None:
        """
        Let *worker*, the id of one, release its runs, as soon as nothing of them is in flight, and claim none.

        Other workers take them, and nothing is repeated.  It is told at once; :meth:`workers` says how far it is.

        Args:
            resume: let it claim again instead.
            by: the caller, as that one names itself; :meth:`workers` shows it.

        Raises:
            WorkerNotFound: no worker of this id is alive.
        """
        self._runtime.check_open()
        wanted = partial(self._store.want, worker, "" if resume else wish(by))
        if not await retry_while_unavailable(wanted, while_=self._runtime.is_open):
            raise WorkerNotFound(worker)

    async def stranded(self) -> list[Waiting]:
        """
        Return the runs that are due and that no worker which is alive can drive, by workflow, version and queue.

        None knows their workflow in their version, or none serves their queue: start a worker with that code, or
        :meth:`AsyncRunner.upgrade` them.
        """
        self._runtime.check_open()
        waiting = await retry_while_unavailable(self._store.waiting, while_=self._runtime.is_open)
        return stranded(waiting, await self.workers())

    async def queue_depth(self, queue: str | None = None) -> int:
        """Return how many runs have something to do, now or later, in one *queue* or in all."""
        self._runtime.check_open()
        return await retry_while_unavailable(partial(self._store.queue_depth, queue), while_=self._runtime.is_open)

    async def limits(self) -> list[LimitStatus]:
        """Return the limits of steps that workers have used, as they are in the database."""
        self._runtime.check_open()
        found = await retry_while_unavailable(self._store.list_limits, while_=self._runtime.is_open)
        return [limit_status(row) for row in found]

    async def queues(self) -> list[QueueStatus]:
        """Return the queues that have runs: how many wait, for how long the oldest has, and how many workers have."""
        self._runtime.check_open()
        return list(await retry_while_unavailable(self._store.queues, while_=self._runtime.is_open))


class NewRun(NamedTuple):
    """A run that is not stored yet."""

    id: str
    workflow: Workflow[Any, Any]
    request: StartRequest
    placement: Placement

    @property
    def ref(self) -> RunRef:
        """The reference for a handle."""
        return RunRef(self.id, None if self.request.input is MISSING else 1)


class _Reader(AsyncRunner):
    """A runner that drives nothing: it reads runs, and leaves messages for those that workers drive."""

    def __init__(self, store: PostgresStore | ShardedStore) -> None:
        super().__init__(store)
        self.parts, self.usual = self._runtime, self._options
        self._runtime.has_workers = True


def _placement(queue: str, priority: int, scheduled_at: Time | None, fair_key: str | None = None) -> Placement:
    check_text("queue", queue)
    if fair_key is not None:
        check_text("fair_key", fair_key)
    if type(priority) is not int or not -(1 << 31) <= priority < 1 << 31:
        raise InvalidOption(f"priority={priority!r}: use a number")
    return Placement(queue, priority, as_time("scheduled_at", scheduled_at), fair_key)
