"""
The client of a fleet: starts runs that workers drive, sends them messages, and waits for what comes of them.

It drives nothing and owns nothing: it has no lease, and may be closed at any time.

    async with AsyncClient("postgresql://weft@localhost/runs") as client:
        handle = await client.start("orders", {"id": 7}, id="order-7")
        print(await handle.result())
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias, overload

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.functions.references import MISSING
from weft.core.functions.reports import Progress
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import (
    RunClosed,
    RunExists,
    RunNotFound,
    StoreError,
    UniqueKeyTaken,
    WorkerNotFound,
)
from weft.fleet import registry as known_workflows
from weft.fleet.limits import LimitStatus, limit_status
from weft.fleet.placement import ALONE
from weft.fleet.reader import Reader
from weft.fleet.revisions import ClientRevisions
from weft.fleet.sharded_store import ShardedStore
from weft.fleet.shards import Shards
from weft.fleet.starting import new_run, placement
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
from weft.runner.jobs.commands import JobCommands
from weft.runner.jobs.loop import JobRunStore
from weft.runner.option_checks import Time, check_choice, check_deadline, check_text, check_workflow
from weft.runner.options import StartRequest
from weft.runner.portability import check_portable
from weft.runner.queries import RunnerQueries
from weft.runner.registry.bulk_start import NewRun as BulkRun
from weft.runner.registry.bulk_start import new_runs
from weft.runner.registry.message_handlers import named_failure
from weft.runner.registry.same_start import difference
from weft.runner.schedules.commands import ScheduleCommands, declared_schedule
from weft.runner.schedules.decision import Overlap
from weft.runner.schedules.rows import ScheduleStatus
from weft.runner.slices import pause
from weft.stores.postgres import PostgresStore
from weft.typing import In, Out, PoliciesMode

IfThere: TypeAlias = Literal["same", "return", "error"]
"""The choices if there is a run with the id or the unique key of a new one."""
_ELSEWHERE: Final = (None,)
"""The row of a statement that was not executed, since the run is there, in another database."""
AT_ONCE: Final = 512
"""How many runs are started by one statement."""
MADE_AT_ONCE: Final = 32
"""How many runs are made before other work of the event loop runs."""


class AsyncClient(RunnerQueries, ClientRevisions, ScheduleCommands, JobCommands):
    """
    Starts runs in the database at *dsn*, or in several databases, and talks to them.

    ``wait``, ``wait_until``, ``result``, ``gather``, ``results``, ``get``, ``log``, ``status``, ``find``, ``runs`` and
    ``count`` are those of :class:`weft.AsyncRunner`.

    Args:
        dsn: ``postgresql://user:password@host:port/database``; a list of those of all databases of the fleet, if there
            are several; or a store of this event loop; one that is open stays open.
        schema: where the tables are.
        prepared: False if *dsn* goes through a pooler that does not keep prepared statements.
        timeout: how many seconds to wait for an answer of the server.
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
        """Whether to check at once for other databases; a store that was passed is used as it is."""
        self._reader = Reader(self._store)
        self._runtime = self._reader.parts
        self._checked: set[tuple[str, str]] = set()
        """The definitions that are known to be portable."""
        self._retried: dict[str, int] = {}
        """The head of each failed run at the moment it was asked to continue."""

    # -- opening and closing ---------------------------------------------------------------------

    async def migrate(self, *, worker: str | None = None, reader: str | None = None) -> None:
        """Bring the tables to the version of this Weft; see :meth:`PostgresStore.migrate`."""
        await self._store.migrate(worker=worker, reader=reader)

    async def open(self) -> Self:
        """Connect; do nothing if it is open already."""
        await self._reader.open()
        if self._has_to_check:
            await retry_while_unavailable(self._store.check_fence, while_=self._runtime.is_open)
        return self

    async def close(self) -> None:
        """Disconnect."""
        await self._reader.close(grace=0.0)

    async def __aenter__(self) -> Self:
        try:
            return await self.open()
        except BaseException:
            await self.close()
            raise

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
    ) -> AsyncHandle[Out]: ...
    @overload
    async def start(
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
    ) -> AsyncHandle[Any]: ...
    async def start(
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
    ) -> AsyncHandle[Any]:
        """
        Store a new run of *workflow*, which a worker will drive; it is durable when this returns.

        Args:
            workflow: a workflow, or the name of one that was added to ``weft.registry``.
            input: its first input; without one the run stays open for what it is sent.
            id: the id of the run.  A run of this id with the same workflow name and an equal input is the same run.
            if_exists: what to do if there is a run with this id, or an unfinished one with this unique key.
                ``"same"``: return a handle of it if it was started with the same workflow name and an equal input, else
                raise an error.  ``"return"``: return a handle of it in any case.  ``"error"``: raise an error.
            unique: a key, such as ``"customer-42"``, that no other unfinished run of a workflow of this name has, in
                the whole fleet.
            queue: which workers drive it.
            priority: runs with a higher one are claimed first.
            fair_key: a key, such as the name of a customer: the keys of a queue take turns, so that many runs of one do
                not hold up the others.
            scheduled_at: not before this time: seconds since the epoch, or a datetime with a time zone.
            open: whether the run stays open although it has its first input.
            policies: rules in front of the workflow's own, or in their place.
            policies_mode: ``"merge"`` or ``"replace"``.
            deadline: seconds within which everything that follows from the input must be done.
            by: the name of the caller; kept in the log.
            within: a connection of asyncpg or psycopg to the same database, or a connection or session of SQLAlchemy
                over one of them, in whose transaction the run is stored: it is there when that has committed.  Of
                several databases, a run that is given no id is in the one of the connection.

        Raises:
            UnknownWorkflow: no workflow of this name was added to the registry.
            RunExists: another run has this id.
            UniqueKeyTaken: another run has this unique key, and has not finished.
            NotPortable: a worker could not find some parts of the workflow.
            UnencodableValue: the input could not be stored.
        """
        home = await self._home_within(within)
        new = await self._prepared(
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
            return AsyncHandle(self, await self._start(new))
        statement = await self._statement(new)
        row = _ELSEWHERE if statement is None else await execute(within, *statement)
        return AsyncHandle(self, await self._started_within(new, row))

    def _asking_home(self) -> tuple[str, Sequence[Any]] | None:
        """Return the statement that says which database a connection is to; None if there is but one."""
        self._runtime.check_open()
        return None if isinstance(self._store, PostgresStore) else self._store.asking_shard()

    async def _home_within(self, within: Any) -> str | None:
        """Return the database in which the transaction *within* is, if there are several."""
        asking = None if within is None else self._asking_home()
        return None if asking is None else (await execute(within, *asking))[0]

    async def _start_prepared(self, prepared: Awaitable[NewRun]) -> RunRef:
        """Store the run that was *prepared*."""
        return await self._start(await prepared)

    async def _start(self, new: NewRun) -> RunRef:
        while True:
            append = await new_run(new.id, new.workflow, self._reader.usual, new.request, new.at)
            (refused,) = await self._enqueue([append], new.placement)
            if refused is None:
                return new.ref
            found = await self._existing(refused, new.id, new.workflow, new.request, new.if_exists)
            if found is not None:
                return found

    async def _prepared(
        self,
        workflow: Workflow[Any, Any] | str,
        input: Any,  # noqa: A002 - what one would say
        *,
        id: str | None,
        if_exists: IfThere,
        unique: str | None,
        queue: str,
        priority: int,
        fair_key: str | None,
        scheduled_at: Time | None,
        open: bool,  # noqa: A002 - what one would say
        policies: Iterable[Any] | None,
        policies_mode: PoliciesMode,
        deadline: float | None,
        by: str | None,
        home: str | None = None,
    ) -> NewRun:
        """Check the arguments of :meth:`start` and return the run that it stores."""
        if deadline is not None:
            check_deadline(deadline)
        check_choice("if_exists", if_exists, IfThere)
        found, place = self._workflow(workflow), placement(queue, priority, scheduled_at, fair_key)
        if unique is not None:
            check_text("unique", unique)
        run = self._new_id(found.name, unique, home) if id is None else id
        check_text("id", run)
        encoded = await encoded_input(input) if needs_encoding(input) else None
        request = StartRequest(input, policies, policies_mode, deadline, not open, by, encoded, unique)
        return NewRun(run, found, request, place, self._runtime.dispatcher.clock.time(), if_exists, home)

    def _new_id(self, workflow: str, unique: str | None, home: str | None = None) -> str:
        """
        Return an id for a run that is not given one.

        Of several databases, it is in the one of its unique key, or in the one of the transaction that it is stored in.
        """
        if isinstance(self._store, PostgresStore) or (unique is None and home is None):
            return uuid.uuid4().hex
        if unique is None and home is not None:
            return self._store.id_in(home)
        assert unique is not None  # noqa: S101 - see above
        self._runtime.check_open()
        return self._store.id_for_key(workflow, unique)

    async def _statement(self, new: NewRun) -> tuple[str, Sequence[Any]] | None:
        """Return the statement that stores *new*, and its values; None if it is there, in another database."""
        self._runtime.check_open()
        append = await new_run(new.id, new.workflow, self._reader.usual, new.request, new.at)
        if isinstance(self._store, PostgresStore):
            return self._store.enqueueing(append, new.placement)
        assert new.home is not None  # noqa: S101 - there are several databases, and the connection was asked
        return await self._store.enqueueing(append, new.placement, new.home)

    async def _started_within(self, new: NewRun, row: Sequence[Any]) -> RunRef:
        """
        Return the run that the statement of *new* has stored or found, by the *row* that it has returned.

        Raises:
            RunExists: another run has this id.
            UniqueKeyTaken: another run has its unique key.
        """
        if row[0]:
            return new.ref
        if isinstance(self._store, PostgresStore):
            await self._store.check_fence()
        elif new.home is not None:
            await self._store.check_fence_of(new.home)
        refused: StoreError = RunExists(new.id)
        unique, workflow = new.request.unique, new.workflow.name
        if unique is not None and (holder := await self._store.key_holder(workflow, unique)) not in (None, new.id):
            refused = UniqueKeyTaken(new.id, workflow, unique, holder)
        try:
            found = await self._existing(refused, new.id, new.workflow, new.request, new.if_exists)
        except RunNotFound:  # it is visible to that transaction alone
            found = None
        if found is None:
            which = "it" if unique is None else "it, or one with its unique key,"
            raise RunExists(new.id, f"{which} was started in the same transaction")
        return found

    async def start_many(
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
    ) -> AsyncHandles[Any]:
        """
        Store a new run for each of *inputs*, hundreds of them by one statement; see :meth:`start`.

        Args:
            ids: the ids of the runs, in the order of the inputs.
            unique: the unique keys of the runs, in the order of the inputs.

        Raises:
            RunExists: a run with one of the ids exists and is not the same; all others are started.
            UniqueKeyTaken: a run has one of the unique keys and is not the same; all others are started.
        """
        check_choice("if_exists", if_exists, IfThere)
        found, place = self._workflow(workflow), placement(queue, priority, scheduled_at, fair_key)
        runs = await new_runs(inputs, ids, unique)
        if ids is None and unique is not None:
            runs = [replace(new, id=self._new_id(found.name, new.unique)) for new in runs]
        failed: StoreError | None = None
        started: list[RunRef] = []
        requests = [StartRequest(new.value, by=by, encoded=new.encoded, unique=new.unique) for new in runs]
        clock = self._runtime.dispatcher.clock
        following: list[Append] | BaseException = await self._new_runs(runs[:AT_ONCE], found, requests, clock.time())
        for first in range(0, len(runs), AT_ONCE):
            if isinstance(following, BaseException):
                raise following
            batch, last = following, first + AT_ONCE
            # While the database writes a batch, this process makes the next one.
            answers, following = await asyncio.gather(
                self._enqueue(batch, place),
                self._new_runs(runs[last : last + AT_ONCE], found, requests[last:], clock.time()),
                return_exceptions=True,
            )
            if isinstance(answers, BaseException):
                raise answers
            for new, request, append, refused in zip(runs[first:last], requests[first:], batch, answers, strict=False):
                ref = RunRef(new.id, 1, at=append.at)
                if refused is not None:
                    try:
                        there = await self._existing(refused, new.id, found, request, if_exists)
                        ref = there or await self._start(NewRun(new.id, found, request, place, append.at, if_exists))
                    except StoreError as error:
                        failed = failed or error
                started.append(ref)
        if failed is not None:
            raise failed
        return AsyncHandles(self, started)

    def _workflow(self, given: Workflow[Any, Any] | str) -> Workflow[Any, Any]:
        workflow = known_workflows.get(given) if isinstance(given, str) else given
        check_workflow(workflow)
        key = (workflow.name, workflow.version)
        if key not in self._checked:
            check_portable(workflow, self._reader.usual)
            self._checked.add(key)
        self._reader.register(workflow)
        return workflow

    async def _new_runs(
        self, runs: Sequence[BulkRun], workflow: Workflow[Any, Any], requests: Sequence[StartRequest], at: float
    ) -> list[Append]:
        """Return the appends that create *runs*; other work of the event loop runs meanwhile."""
        made: list[Append] = []
        for new, request in zip(runs, requests, strict=False):
            made.append(await new_run(new.id, workflow, self._reader.usual, request, at))
            if len(made) % MADE_AT_ONCE == 0:
                await pause(threads=False)
        return made

    async def _enqueue(self, batch: Sequence[Append], placement: Placement) -> Sequence[StoreError | None]:
        """Create the runs of *batch*; return, for each, None or why it was refused."""
        self._runtime.check_open()
        tried = False

        async def write() -> Sequence[StoreError | None]:
            nonlocal tried
            given = [replace(each, again=True) for each in batch] if tried else batch
            tried = True
            return await self._store.enqueue(given, placement)

        return await retry_while_unavailable(write, while_=self._runtime.is_open)

    async def _existing(
        self,
        refused: StoreError,
        run: str,
        workflow: Workflow[Any, Any],
        request: StartRequest,
        if_exists: IfThere,
    ) -> RunRef | None:
        """
        Return the run that is there in place of a new one, which was *refused*; None if it was deleted meanwhile.

        Raises:
            RunExists, UniqueKeyTaken: it is not the same, or *if_exists* says so.
        """
        if if_exists == "error" or not isinstance(refused, RunExists | UniqueKeyTaken):
            raise refused
        there = refused.holder if isinstance(refused, UniqueKeyTaken) else run
        try:
            known = await self._runtime.loader.read(there)
        except RunNotFound:
            if isinstance(refused, RunExists):
                raise
            return None
        differs = difference(known.run, workflow, request) if if_exists == "same" else ""
        if differs and isinstance(refused, UniqueKeyTaken):
            raise UniqueKeyTaken(run, refused.workflow, refused.unique, there, differs)
        if differs:
            raise RunExists(run, differs)
        return RunRef(there, None if request.input is MISSING else 1, at=known.record.created_at)

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
        placement(queue, priority, None)
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

    async def cancel(
        self, id: str | RunHandle[Any], reason: str = "", *, undo: bool = True, by: str | None = None
    ) -> None:
        """Close the run *id* for good, and undo what it has done; see :meth:`AsyncRunner.cancel`."""
        await self._reader.cancel(id, reason, undo=undo, by=by)

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
            UniqueKeyTaken: the run has failed, and another one has its unique key by now.
        """
        if input is not MISSING:
            check_encodable(input, "INPUT")
        record = await self.find(id)
        if record.status in FINISHED and record.status != "failed":
            raise RunClosed(id, record.reason, status=record.status)
        if record.status == "failed" and (rival := await self._store.key_rival(id)) is not None:
            raise UniqueKeyTaken(id, *rival)
        run: Run[Any] = (await self._runtime.loader.read(id)).run
        head, (name, inputs) = len(run.memory.log), named_failure(run, which)
        run.retry(which, input=input)  # raises if something cannot be retried
        given = None if input is MISSING else (input,)
        await self._runtime.mailbox.post(id, "retry", ev.RunnableRetried(head, name, inputs, given, policy, by))
        if record.status == "failed":
            self._retried[id] = head
        return AsyncHandle(self, RunRef(id))

    async def _job_stores(self) -> Sequence[JobRunStore]:
        """Return the databases, each of which has its own row of a job."""
        self._runtime.check_open()
        store = self._store
        if isinstance(store, PostgresStore):
            return [store]
        return await retry_while_unavailable(store.databases, while_=self._runtime.is_open)

    # -- looking ---------------------------------------------------------------------------------

    async def _found(self, ref: RunRef) -> Worker | RunRecord:
        """Like :class:`AsyncRunner`; a run that was asked to continue counts as running before a worker claims it."""
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

        Other workers take them, and nothing is repeated.  It is notified at once; :meth:`workers` shows its progress.

        Args:
            resume: let it claim again instead.
            by: the name of the caller; :meth:`workers` shows it.

        Raises:
            WorkerNotFound: no worker of this id is alive.
        """
        self._runtime.check_open()
        wanted = partial(self._store.want, worker, "" if resume else wish(by))
        if not await retry_while_unavailable(wanted, while_=self._runtime.is_open):
            raise WorkerNotFound(worker)

    async def stranded(self) -> list[Waiting]:
        """
        Return the due runs that no living worker can drive, by workflow, version and queue.

        No worker knows that version of their workflow, or none serves their queue: start a worker with that code, or
        :meth:`upgrade` them.
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
    at: float
    """When it is created, which tells it from other runs of its id."""
    if_exists: IfThere = "same"
    home: str | None = None
    """The database of the transaction that it is to be stored in, if there are several."""

    @property
    def ref(self) -> RunRef:
        """The reference for a handle."""
        return RunRef(self.id, None if self.request.input is MISSING else 1, at=self.at)
