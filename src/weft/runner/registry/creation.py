"""
Creates runs in a runner: new ones with their first input, and new ones that have a history already.

    (not here) ──create──► undecided ──stored──► here
                               │
                               └── it exists ──► (not here), or what ``if_exists`` says

Invariants:

1. A run is created under its lock, which is held until the store has accepted or refused the first events, even if the
   caller is cancelled in between.
2. A run whose first events were not stored was never here: callers that ask for it wait until that is decided.
3. A run that has a history is written in one transaction: there is never a part of it in the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import InvalidOption, RunExists, RunNotFound, RunOwned, UniqueKeyTaken
from weft.log import needs_encoding
from weft.ports.store import FINISHED, RunRecord, RunStatus
from weft.runner.durability.ownership import Ownership
from weft.runner.durability.rehydration import answered
from weft.runner.durability.unsaved import UnsavedLog, whole
from weft.runner.execution.commands import take_input
from weft.runner.execution.dispatcher import Dispatcher
from weft.runner.execution.large_values import encoded_input
from weft.runner.execution.worker import Worker
from weft.runner.option_checks import check_text
from weft.runner.options import IfExists, RunOptions, StartRequest
from weft.runner.portability import PortabilityWarnings
from weft.runner.registry.definitions import Definitions
from weft.runner.registry.loading import RunLoader, restored_options
from weft.runner.registry.registry import RunRegistry
from weft.runner.registry.same_start import difference
from weft.runner.waiting.waiters import Waiters
from weft.shield import shielded
from weft.telemetry import bus

_INSTEAD: Final = "say what to do with if_exists="


class RunCreator:
    """Creates the runs of one runner in its registry; one that exists is loaded instead."""

    def __init__(
        self,
        registry: RunRegistry,
        loader: RunLoader,
        definitions: Definitions,
        ownership: Ownership,
        waiters: Waiters,
        dispatcher: Dispatcher,
    ) -> None:
        self._registry, self._loader, self._definitions = registry, loader, definitions
        self._ownership, self._waiters, self._dispatcher = ownership, waiters, dispatcher
        self._portability = PortabilityWarnings(is_durable=ownership.is_durable)

    async def create(self, run: str, workflow: Workflow, options: RunOptions, request: StartRequest) -> Worker:
        """
        Create a new run, wait until its first events are stored, and return its worker.

        Raises:
            RunExists: a run with this id exists.
        """
        if request.encoded is None and needs_encoding(request.input):
            request = replace(request, encoded=await encoded_input(request.input))
        lock = self._registry.try_lock(run)  # the usual case: neither this nor leave() needs a coroutine
        if lock is None:
            lock = await self._registry.lock(run).acquire()
        try:
            worker, position = self.begin(run, workflow, options, request)
            try:
                await self._waiters.stored_at(worker, position)
            except (RunExists, UniqueKeyTaken):
                self._registry.drop(worker)
                raise
            except asyncio.CancelledError:  # the run goes on, unless it turns out to exist
                lock.release_after(self._registry.shielded.start(self._decide(worker)))
                raise
            except BaseException as error:
                self._registry.drop(worker)
                if isinstance(error, Exception) and worker.lost is not None:  # the store may have taken it all the same
                    lock.release_after(self._registry.shielded.start(self._ownership.release([run])))
                raise
        finally:
            lock.leave()
        return worker

    def begin(self, run: str, workflow: Workflow, options: RunOptions, request: StartRequest) -> tuple[Worker, int]:
        """
        Hand the beginning of a new *run*, which is locked, to the journal; return its worker, and the position at
        which the beginning is stored.

        Raises:
            RunExists: a run of this id is here.
        """
        worker = self._new_worker(run, workflow, options, request.by)
        if request.unique is not None:
            check_text("unique", request.unique)
            if not self._ownership.has_keys:
                raise InvalidOption(
                    f"unique={request.unique!r}: this store keeps no unique keys; use a SQLiteStore, a PostgresStore "
                    "or a MemoryStore"
                )
            worker.unsaved.unique = request.unique
        if request.policies is not None:
            worker.policies.change(request.policies, request.policies_mode, request.by)
        elif workflow.policies:
            worker.policies.check_all()
        if self._definitions.follow(workflow) or options.unstorable:
            self._portability.look_at(workflow, options)
        self._registry.add(worker)
        try:
            if request.input is not MISSING:
                take_input(
                    worker,
                    request.input,
                    deadline=request.deadline,
                    last=request.is_last,
                    by=request.by,
                    encoded=request.encoded,
                )
            if bus.workflow_start:
                worker.report.called()
            worker.checkpoint()
        except BaseException:
            self._registry.drop(worker)
            raise
        return worker, 1 if request.input is MISSING else len(worker.run.memory.log)

    async def _decide(self, worker: Worker) -> None:
        """Wait until the store has accepted or refused the new run of *worker*, whose creator was cancelled."""
        try:
            await self._waiters.durable(worker, 1)
        except BaseException:
            self._registry.drop(worker)
            raise

    async def adopt(self, run: Run, options: RunOptions, change: Callable[[Worker], object]) -> Worker:
        """
        Write *run*, a new one with a history, make a *change* first, and continue it.

        It is written in one transaction: there is never a part of it in the store.

        Raises:
            RunExists: a run with this id exists.
        """
        return await shielded(self._registry.change(run.id, partial(self._adopt, run, options, change)))

    async def _adopt(self, run: Run, options: RunOptions, change: Callable[[Worker], object]) -> Worker:
        check_text("id", run.id)
        if run.id in self._registry:
            raise RunExists(run.id)
        self._dispatcher.check_open()
        options = restored_options(run, options, self._dispatcher)
        run.has_transactions = self._dispatcher.transactions is not None
        run.check_context()
        unsaved = UnsavedLog(run)
        worker = Worker(self._dispatcher, run, options, self._registry, unsaved)
        change(worker)
        worker.policies.check_all()
        await self._ownership.create(await whole(run, unsaved, self._dispatcher.clock.time()))
        self._definitions.follow(run.workflow)
        self._registry.add(worker)
        worker.report.resumed(self._dispatcher.clock.time)
        if run.memory.has_deadlines:
            unsaved.due_changed = self._dispatcher.dangers.due_changed
            self._dispatcher.dangers.look()
        self._dispatcher.guard(worker, worker.turn)
        return worker

    async def store(self, run: Run, status: RunStatus, reason: str) -> None:
        """
        Write *run*, a new one with a history, in one transaction, and leave it to be resumed or read.

        Raises:
            RunExists: a run with this id exists.
        """
        await shielded(self._registry.change(run.id, partial(self._store, run, status, reason)))

    async def _store(self, run: Run, status: RunStatus, reason: str) -> None:
        check_text("id", run.id)
        if run.id in self._registry:
            raise RunExists(run.id)
        appends = await whole(run, UnsavedLog(run), self._dispatcher.clock.time(), status, reason)
        async with self._ownership.freeing([run.id]):
            await self._ownership.create(appends)

    def _new_worker(self, run: str, workflow: Workflow, options: RunOptions, by: str | None) -> Worker:
        check_text("id", run)
        if run in self._registry:
            raise RunExists(run)
        self._dispatcher.check_open()
        new = Run(workflow, id=run, context=options.context, options=options.said, by=by)
        new.has_transactions = self._dispatcher.transactions is not None
        new.check_context()
        return Worker(self._dispatcher, new, options, self._registry)

    async def start(
        self, run: str, workflow: Workflow, options: RunOptions, request: StartRequest, if_exists: IfExists = "same"
    ) -> Worker | None:
        """
        Create a run as :meth:`create` does; if there is one with this id, do what *if_exists* says.

        A run that is stored as parked stays parked: a person has to resume it.

        Returns:
            The worker of a run that is here, or was a moment ago; None if another process that is alive drives it.

        Raises:
            RunExists: another run has this id.
        """
        try:
            return await self.create(run, workflow, options, request)
        except RunExists as error:
            return await self.start_existing(error, run, workflow, options, request, if_exists)

    async def start_existing(
        self,
        error: RunExists,
        run: str,
        workflow: Workflow,
        options: RunOptions,
        request: StartRequest,
        if_exists: IfExists,
    ) -> Worker | None:
        """
        Do what *if_exists* says with *run*, which exists, as the *error* of :meth:`create` says; as :meth:`start`.

        Raises:
            RunExists: another run has this id.
        """
        while True:
            if if_exists == "error":
                raise RunExists(run, error.differs, _INSTEAD) from error
            try:
                if if_exists == "restart":
                    await shielded(self._registry.change(run, partial(self._clear, run)))
                else:
                    if if_exists == "same":
                        differs = await self._difference(run, workflow, request)
                        if differs:
                            raise RunExists(run, differs, _INSTEAD)
                    return await self._loader.resume(run, workflow, options, parked=False, graph="its own")
            except RunOwned:  # the same run, which another process drives: it can be waited for
                return None
            except RunNotFound:  # it was deleted meanwhile: then this is a new one
                pass
            try:
                return await self.create(run, workflow, options, request)
            except RunExists as again:
                error = again

    async def start_unique(
        self, run: str, workflow: Workflow, options: RunOptions, request: StartRequest, if_exists: IfExists = "same"
    ) -> tuple[str, Worker | None]:
        """
        Create a run as :meth:`start` does; if another one has its unique key, do with that one what *if_exists* says.

        Returns:
            The id of the new run, or of the one that has the key, and its worker.

        Raises:
            UniqueKeyTaken: another run has the key, and it is not the same, or *if_exists* says so.
        """
        while True:
            try:
                return run, await self.start(run, workflow, options, request, if_exists)
            except UniqueKeyTaken as error:
                if if_exists in ("error", "restart"):
                    raise
                taken = error
            try:
                if if_exists == "same":
                    differs = await self._difference(taken.holder, workflow, request)
                    if differs:
                        raise UniqueKeyTaken(run, taken.workflow, taken.unique, taken.holder, differs)
                worker = await self._loader.resume(taken.holder, workflow, options, parked=False, graph="its own")
                return taken.holder, worker
            except RunOwned:
                return taken.holder, None
            except RunNotFound:  # it was deleted meanwhile
                pass

    async def _difference(self, run: str, workflow: Workflow, request: StartRequest) -> str:
        """
        Return how *run* differs from the run that *request* would create; empty if it does not.

        A run that is here is compared as it is here: the store may not have its first input yet.
        """
        async with self._registry.lock(run):  # it may be about to be created
            here = self._registry.get(run) or self._registry.recent.get(run)
        if here is None:
            return difference((await self._loader.read(run)).run, workflow, request)
        compared = partial(difference, workflow=workflow, request=request)
        return await answered(here.run, compared, self._ownership.again)

    async def _clear(self, run: str) -> None:
        """Delete *run*, which is locked, so that another one can have its id; refuse one that has not finished."""
        known = self._registry.get(run)
        if known is not None and known.state in FINISHED:
            await self._loader.write(known)  # then it leaves
        if run in self._registry:
            raise RunExists(run, "and has not finished", f"cancel({run!r}) it first")
        stored = await self._ownership.record(run)
        if stored.status not in FINISHED:
            raise RunExists(run, *_unfinished(stored))
        self._registry.recent.forget(run)
        await self._ownership.delete(run)


def _unfinished(stored: RunRecord) -> tuple[str, str]:
    """Return why a *stored* run that is not here cannot be restarted, and what helps."""
    if stored.owner is not None:
        return f"and has not finished: {stored.owner} drives it", f"cancel({stored.id!r}) it first, and wait() for that"
    died = "has died" if stored.owner_died else "has released it"
    # A cancel() alone would be a message that waits until a process takes it in.
    instead = f"delete({stored.id!r}) it first; resume({stored.id!r}) continues it"
    return f"and has not finished: the process that drove it {died}", instead
