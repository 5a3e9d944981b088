"""
The runs that are in a runner: how they come in, new or from the store, are rebuilt, and leave.

What always holds: a run has one worker at most; one that comes in is in no other runner that is alive; one whose
beginning is not stored has never been here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from weft.core.references import MISSING
from weft.core.run import Run
from weft.core.workflow import Workflow
from weft.errors import (
    RunExists,
    RunnerClosed,
    RunNotFound,
    StoreError,
    StoreUnavailable,
    WorkflowAlreadyStarted,
    WorkflowNotFound,
)
from weft.ports.clock import Clock
from weft.ports.store import RunRecord
from weft.runner.arrivals import Arrivals
from weft.runner.custody import Custody
from weft.runner.draft import Draft
from weft.runner.office import Office
from weft.runner.options import RunOptions, check_text
from weft.runner.recovery import Recovered
from weft.runner.supervisor import Supervisor
from weft.runner.waiting import Waiters
from weft.runner.worker import Worker
from weft.typing import PoliciesMode


class Roster:
    """The workers of one runner, by run."""

    def __init__(self, custody: Custody, waiters: Waiters, clock: Clock, office: Callable[[], Office]) -> None:
        """Make an empty one; *office* gives what workers share, or raises if the runner is closed."""
        self._custody, self._waiters, self._clock, self._office = custody, waiters, clock, office
        self._workers: dict[str, Worker] = {}
        self._known: dict[tuple[str, str], Workflow] = {}
        """Definitions that this process has seen, by name and version."""
        self._arrivals = Arrivals()
        self._leaving: set[asyncio.Future[None]] = set()
        """What is being given back."""
        self.bereft: Callable[[Worker], None] | None = None
        """Told of a cancelled run that was brought back before its children were cancelled."""
        self.supervisor = Supervisor(self._rebuild, self._parked)
        self._on_settled = self._settled  # one bound method for all workers

    def __iter__(self) -> Iterator[Worker]:
        return iter(list(self._workers.values()))

    def __contains__(self, run: object) -> bool:
        return run in self._workers

    def get(self, run: str) -> Worker | None:
        """Return the worker of *run*, if it is here."""
        return self._workers.get(run)

    def alone(self, run: str) -> AbstractAsyncContextManager[None]:
        """Be the only one who brings *run* in or lets it go."""
        return self._arrivals.alone(run)

    def register(self, workflow: Workflow) -> None:
        """Make *workflow* known, so that stored runs of it find functions that have no name of their own."""
        self._known[workflow.name, workflow.version] = workflow

    # -- coming in -------------------------------------------------------------------------------

    async def create(
        self,
        run: str,
        workflow: Workflow,
        options: RunOptions,
        *,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        value: Any = MISSING,
        deadline: float | None = None,
    ) -> None:
        """
        Begin a new run, and wait until its beginning is stored.

        Raises:
            WorkflowAlreadyStarted: a run of this id exists.
        """
        async with self._arrivals.alone(run):
            worker = self._hired(run, workflow, options)
            if policies is None:
                worker.rules.look_through()
            else:
                worker.rules.change(policies, policies_mode)
            self.register(workflow)
            self._workers[run] = worker
            try:
                if value is not MISSING:
                    worker.take(value, deadline=deadline)
                worker.report.begun(self._clock.time, is_resumed=False)
                worker.checkpoint()
                await self._waiters.durable(worker, 1 if value is MISSING else len(worker.run.memory.log))
            except RunExists:
                self._workers.pop(run, None)
                raise WorkflowAlreadyStarted(run) from None
            except Exception:  # whoever only stops waiting leaves a run behind that goes on
                self._workers.pop(run, None)
                raise

    def _hired(self, run: str, workflow: Workflow, options: RunOptions) -> Worker:
        check_text("id", run)
        if run in self._workers:
            raise WorkflowAlreadyStarted(run)
        office = self._office()
        new = Run(workflow, id=run, context=options.context)
        new.check_context()
        return Worker(office, new, options, self._on_settled)

    async def start(self, run: str, workflow: Workflow, options: RunOptions, **given: Any) -> None:
        """Begin a run as :meth:`create` does; if there is one of this id, have that one here."""
        try:
            await self.create(run, workflow, options, **given)
        except WorkflowAlreadyStarted:
            if await self._decided(run) is None:
                await self.resume(run, workflow, options)

    async def resume(self, run: str, workflow: Workflow | None, options: RunOptions, *, strict: bool = False) -> None:
        """
        Bring the stored *run* back, and go on with it; one that is here already is left as it is, unless it is parked.

        Raises:
            WorkflowNotFound: nothing is stored under this id.
            RunOwned: another process that is alive has it.
        """
        async with self._arrivals.alone(run):
            known = self._workers.get(run)
            if known is not None and known.state != "parked":
                return
            try:
                await self._acquire(run)
                await self._bring_back(run, workflow, options, strict=strict)
            except RunNotFound:
                raise WorkflowNotFound(run) from None

    async def resume_all(self, options: RunOptions) -> list[str]:
        """Bring back every stored run that has something to do and that nobody alive owns; return which."""
        resumed: list[str] = []
        owning = asyncio.ensure_future(self._custody.acquire_all(but=self._workers))
        try:
            for found in await asyncio.shield(owning):
                async with self._arrivals.alone(found.id):
                    if found.id in self._workers:
                        continue
                    try:
                        await self._bring_back(found.id, None, options, strict=False)
                    except StoreUnavailable:  # the runner is being closed
                        raise
                    except Exception as error:  # noqa: BLE001 - one that cannot be brought back must not keep the others
                        self.supervisor.unresumable(found, error)
                    else:
                        resumed.append(found.id)
        except asyncio.CancelledError:  # whoever waited has lost patience: what did not come in is free
            leaving = asyncio.ensure_future(self._leave_alone(owning))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            raise
        return resumed

    async def _acquire(self, run: str) -> None:
        """Own *run*; if whoever waits for that loses patience, leave it as free as it was."""
        try:
            await self._custody.acquire(run)
        except asyncio.CancelledError:  # the store may have done it
            if run not in self._workers:
                with suppress(StoreError):  # the runner is being closed, which gives up all runs
                    await self._custody.release([run])
            raise

    async def _leave_alone(self, owning: asyncio.Future[Sequence[RunRecord]]) -> None:
        """Give back what was acquired and has not come in."""
        with suppress(StoreError, RunnerClosed):  # then nothing is owned, or closing gives it back
            for found in await owning:
                async with self._arrivals.alone(found.id):
                    if found.id not in self._workers:
                        await self._custody.release([found.id])

    async def _bring_back(self, run: str, workflow: Workflow | None, options: RunOptions, *, strict: bool) -> Worker:
        office = self._office()
        try:
            found = await self._custody.load(run, self._live(workflow), context=options.context, strict=strict)
            worker = Worker(office, found.run, options, self._on_settled, _draft(found))
            worker.rules.look_through()
        except BaseException:
            if run not in self._workers:
                await self._custody.release([run])
            raise
        self._workers[run] = worker
        worker.report.begun(self._clock.time, is_resumed=True)
        office.guard(worker, worker.turn)
        if worker.orphans and self.bereft is not None:
            self.bereft(worker)
        return worker

    @asynccontextmanager
    async def visiting(self, run: str) -> AsyncGenerator[Worker, None]:
        """
        Have *run* for a moment: its worker if it is here, else one that only writes, and goes on with nothing.

        Raises:
            WorkflowNotFound: nothing is stored under this id.
            RunOwned: another process that is alive has it.
        """
        async with self._arrivals.alone(run):
            await self.supervisor.restarted(run)  # a worker that crashed writes nothing more, the next one does
            here = await self._decided(run)
            if here is not None:
                yield here
                return
            try:
                await self._acquire(run)
            except RunNotFound:
                raise WorkflowNotFound(run) from None
            try:
                found = await self._custody.load(run, self._live(None), context={}, strict=False, goes_on=False)
                yield Worker(self._office(), found.run, RunOptions(), self._on_settled, _draft(found))
            finally:
                await self._custody.release([run])

    async def _decided(self, run: str) -> Worker | None:
        """Return the worker of *run*, if it is here for good: one that is being created may turn out to exist."""
        here = self._workers.get(run)
        if here is not None and not here.acknowledged:
            with suppress(Exception):  # whoever creates it is told, if he still waits
                await self._waiters.durable(here, 1)
        return self._workers.get(run)

    def _live(self, given: Workflow | None) -> Callable[[RunRecord], Workflow | None]:
        """Return what finds the live definition of a stored run."""
        return lambda stored: given or self._known.get((stored.workflow, stored.version))

    # -- being here ------------------------------------------------------------------------------

    async def _rebuild(self, worker: Worker) -> None:
        """Write what a crashed *worker* still has to write, and take its run from the store again."""
        if self._workers.get(worker.id) is not worker:
            return
        if worker.lost is None:
            worker.checkpoint()
            await self._waiters.durable(worker, len(worker.run.memory.log))
        await self._custody.acquire(worker.id)
        new = await self._bring_back(worker.id, worker.run.workflow, worker.options, strict=False)
        self._waiters.moved(worker, new)

    def _parked(self, worker: Worker, reason: str) -> None:
        worker.park(reason)
        worker.report.parked(reason)
        self._settled(worker)

    def _settled(self, worker: Worker) -> None:
        """*worker* has nothing left to do; whoever waits does not care if it has been replaced."""
        if self._workers.get(worker.id) is worker:
            if isinstance(worker.lost, RunExists):  # it has never been here
                del self._workers[worker.id]
            self._waiters.settled(worker)

    # -- leaving ---------------------------------------------------------------------------------

    async def leave(self, worker: Worker) -> None:
        """Let go of a run that has been stopped."""
        if self._workers.get(worker.id) is worker:
            del self._workers[worker.id]
        self._waiters.gone(worker)
        await self._custody.release([worker.id])

    def clear(self) -> None:
        """Forget all runs: the runner is closed."""
        self._workers.clear()


def _draft(found: Recovered) -> Draft:
    stored = found.record
    return Draft(found.run, epoch=stored.epoch, stored=stored.head, link=stored.chain, status=stored.status)
