"""
Where the runs of a runner are: the store, the office with its executors, the roster, and who waits.

    new ──open──► open ──close──► spent
                   │ ▲
                   └─┘ runs come in, wait, are let go of

All of it is opened together and closed together, in an order in which nothing is lost: first nothing more starts, then
what is under way ends, then everything is written, and the store goes last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft.errors import RunnerClosed, WaitTimeout, WorkflowNotFound
from weft.ports.clock import Clock
from weft.ports.counters import Counters
from weft.ports.executor import Executor
from weft.ports.store import ListableStore, LogStore
from weft.runner.custody import Custody
from weft.runner.excuses import excuse
from weft.runner.journal import Journal
from weft.runner.office import Office
from weft.runner.roster import Roster
from weft.runner.waiting import Waiters
from weft.runner.worker import Worker

if TYPE_CHECKING:
    from weft.runner.children import Children


class Premises:
    """What one runner has, from its opening to its end."""

    children: Children
    """Set by the runner, whose steps they are started by."""

    def __init__(
        self, store: LogStore, executors: Mapping[str, Executor], clock: Clock, counters: Counters, grace: float
    ) -> None:
        """
        Get everything together; :meth:`open` makes it ready.

        Args:
            grace: how many seconds what is under way gets to end when it is stopped.
        """
        self.executors = executors
        self._store, self._clock, self._counters, self._grace = store, clock, counters, grace
        self._owns_store = False
        self._door = asyncio.Lock()
        """Held to open and to close."""
        self._is_spent = False
        self._office: Office | None = None
        self.custody = Custody(store, self.is_open)
        self.waiters = Waiters(clock.time)
        self.roster = Roster(self.custody, self.waiters, clock, lambda: self.office)

    # -- opening and closing ---------------------------------------------------------------------

    def is_open(self) -> bool:
        """Whether runs can come in."""
        return self._office is not None and not self._office.is_closing

    @property
    def office(self) -> Office:
        """
        What the workers share.

        Raises:
            RunnerClosed: it is not open.
        """
        if self._office is None or self._office.is_closing:
            raise RunnerClosed
        return self._office

    def check_open(self) -> None:
        """
        Refuse to do anything where nobody is.

        Raises:
            RunnerClosed: it is not open.
        """
        self.office  # noqa: B018

    async def open(self) -> None:
        """
        Open the store and get ready; open already: nothing.

        Raises:
            StoreError: the store cannot be used.
            RunnerClosed: it was closed before.
        """
        async with self._door:
            if self._is_spent:
                raise RunnerClosed(again=True)
            if self._office is None:
                self._office = await self._opened()

    async def _opened(self) -> Office:
        if not self._store.is_open:
            await self._store.open()
            self._owns_store = True
        journal = Journal(self._store, self._clock.time)
        office = Office(
            journal=journal,
            executors=self.executors,
            clock=self._clock,
            counters=self._counters,
            crashed=self.roster.supervisor.crashed,
        )
        self.children.open(office)
        office.open()
        journal.open()
        return office

    async def close(self, grace: float | None = None) -> None:
        """Start nothing more, let what is under way end, write everything, and give up all runs."""
        async with self._door:  # who comes second waits for the first
            if self._office is not None:
                await self._close(self._office, self._grace if grace is None else grace)

    async def _close(self, office: Office, patience: float) -> None:
        office.is_closing = True
        self.roster.supervisor.close()
        self.children.close()
        workers = list(self.roster)
        for worker in workers:
            worker.stop()
        end = office.monotonic() + patience
        await asyncio.gather(*(executor.close(patience) for executor in office.executors.values()))
        office.collect()
        await self.waiters.called(workers, end - office.monotonic())
        for worker in workers:
            worker.abandon()
            worker.checkpoint()
        await office.journal.close()
        self.waiters.close()
        if self._owns_store:  # closing it gives up all runs
            await self._store.close()
        else:
            await self.custody.release([worker.id for worker in workers])
        self.roster.clear()
        self._office, self._is_spent = None, True

    # -- the runs in it --------------------------------------------------------------------------

    async def worker(self, run: str) -> Worker:
        """
        Return who drives *run*, once it is decided that it is here.

        Raises:
            WorkflowNotFound: it is not.
        """
        self.check_open()
        if self.roster.supervisor.is_at_work:
            await self.roster.supervisor.restarted(run)
            self.check_open()
        worker = self.roster.get(run)
        if worker is not None and not worker.acknowledged:  # it is being created, or turns out to exist
            async with self.roster.alone(run):
                worker = self.roster.get(run)
        if worker is None:
            stored = isinstance(self._store, ListableStore) and await self._store.exists(run)
            raise WorkflowNotFound(run, stored=stored)
        return worker

    async def written(self, worker: Worker) -> None:
        """Wait until everything that has happened in the run of *worker* is stored."""
        await self.waiters.durable(worker, len(worker.run.memory.log))

    async def taken(self, worker: Worker) -> None:
        """Wait until what *worker* was told is as durable as its strategy asks for."""
        if worker.options.checkpoints.takes_input_first:
            await self.written(worker)

    async def in_time(self, worker: Worker, timeout: float | None, future: asyncio.Future[Any]) -> Any:
        """
        Await *future*, which is about *worker*.

        Raises:
            WaitTimeout: it took longer than *timeout* seconds.
        """
        if timeout is None:
            return await future
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            if not future.cancelled():
                raise
            now = self.roster.get(worker.id) or worker
            why = excuse(now, is_calling=self.waiters.is_calling(now))
            raise WaitTimeout(worker.id, timeout, now.state, why) from None

    async def let_go(self, worker: Worker, *, persist: bool = True, grace: float | None = None) -> None:
        """
        Give the run of *worker* up, after what is under way has had its *grace*; no attempt is burnt by that.

        Args:
            persist: whether to write what has happened since the last checkpoint.
        """
        end = asyncio.get_running_loop().time() + (self._grace if grace is None else grace)
        if worker.stop():
            try:
                async with asyncio.timeout_at(end):
                    await self.waiters.grounded(worker)
            except TimeoutError:
                self.office.collect()  # what ends in the last moment counts
        if self.waiters.is_called_by(worker):  # on_complete itself lets go of its run, and is not waited for
            worker.noticed(worker.period)
        else:
            await self.waiters.called([worker], end - asyncio.get_running_loop().time())
        worker.abandon()
        try:
            if not persist:
                worker.forget()
            elif worker.lost is None:  # else everybody knows why nothing can be written
                worker.checkpoint()
                await self.written(worker)
        except Exception:
            if worker.lost is not None:  # it will never be written, so nothing keeps it here
                await self.roster.leave(worker)
            raise
        await self.roster.leave(worker)
