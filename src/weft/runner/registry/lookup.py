"""
Finds what answers for a run: its worker if it is here, otherwise what has left or what the store has.

    in memory ──► its worker
    asleep    ──► its worker, once it is back in memory
    finished here a moment ago ──► the worker that it has left with, if the store has nothing newer
    elsewhere ──► its record

A run that is being created, rebuilt, brought back or continued is waited for, until it is decided where it is.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.core.run.run import Run
from weft.errors import RunClosed, RunNotHeld, RunReplaced
from weft.log.outcome import decode_outcome
from weft.ports.store import FINISHED, RunRecord
from weft.runner.durability.ownership import Ownership
from weft.runner.execution.worker import Worker
from weft.runner.handle import RunRef
from weft.runner.registry.continuation import Continuation
from weft.runner.registry.loading import RunLoader
from weft.runner.registry.registry import RunRegistry
from weft.runner.waiting.waiters import Waiters


class RunLookup:
    """Finds the runs of one runner, and those of its store."""

    def __init__(
        self,
        registry: RunRegistry,
        loader: RunLoader,
        continuation: Continuation,
        ownership: Ownership,
        waiters: Waiters,
        *,
        is_open: Callable[[], bool],
        check_open: Callable[[], None],
    ) -> None:
        """
        Look for runs in *registry* first.

        Args:
            is_open: whether the runner is open.
            check_open: raises RunnerClosed if it is not.
        """
        self._registry, self._loader, self._continuation = registry, loader, continuation
        self._ownership, self._waiters = ownership, waiters
        self._is_open, self._check_open = is_open, check_open

    # -- those that are here ---------------------------------------------------------------------

    async def worker(self, run: str) -> Worker:
        """
        Return the worker of *run*, once it is decided that it is here.

        Raises:
            RunNotFound: no run has this id.
            RunClosed: it has finished.
            RunNotHeld: it is stored, and not here.
        """
        worker = await self.resident(run)
        if worker is None:
            stored = await self._ownership.record(run)
            if stored.status in FINISHED:
                raise RunClosed(run, stored.reason, status=stored.status)
            raise RunNotHeld(run, stored.owner, owner_died=stored.owner_died)
        return worker

    async def resident(self, run: str) -> Worker | None:
        """Return the worker of *run*, which is brought back into memory if it is asleep; None if it is not here."""
        worker = await self.held(run)
        if worker is None and self._registry.is_asleep(run):
            with self._registry.kept(run):
                while worker is None and self._registry.is_asleep(run):
                    await self._registry.awaken([run])
                    worker = await self.held(run)
        return worker

    async def held(self, run: str) -> Worker | None:
        """Return the worker of *run*, once it is decided whether it is in memory; None if it is not."""
        self._check_open()
        if self._registry.supervisor.is_at_work:
            await self._registry.supervisor.restarted(run)
            self._check_open()
        worker = self._registry.get(run)
        if worker is not None and not worker.acknowledged:  # it is being created, or turns out to exist
            async with self._registry.lock(run):
                worker = self._registry.get(run)
            self._check_open()
        return worker

    async def told(self, ref: RunRef) -> Worker:
        """
        Return the worker of a run that a caller refers to, as the recipient of a call.

        Raises:
            RunNotFound, RunClosed, RunNotHeld: as :meth:`changeable`; the first also if another run has the id since.
        """
        try:
            worker = await self.changeable(ref.id)
        except (RunClosed, RunNotHeld):
            if ref.created_at is not None:  # that may be another run
                await self.found(ref)
            raise
        check_same(ref, worker)
        return worker

    async def changeable(self, run: str) -> Worker:
        """
        Return the worker of *run*, as the recipient of a call.

        Raises:
            RunNotFound: no run has this id.
            RunClosed: it has finished.
            RunNotHeld: it is not here, or is being released.
        """
        worker = await self.worker(run)
        while worker.state == "parked" and worker.accepts and self._registry.is_locked(run):
            async with self._registry.lock(run):  # it is being brought back: this worker loses calls made now
                pass
            worker = await self.worker(run)
        while not worker.accepts and run in self._continuation:
            async with self._registry.lock(run):  # another run is about to take its place, or it stays
                pass
            worker = await self.worker(run)
        if worker.sleeping is not None:
            await self._registry.waking.awake(worker)
        if not worker.accepts:
            raise RunClosed(run, worker.reason, status=worker.state) if worker.state in FINISHED else RunNotHeld(run)
        return worker

    async def gone(self, run: str) -> None:
        """If *run* is here and is being stored as finished, wait until it has left."""
        worker = await self.held(run)
        while worker is not None and not worker.accepts and worker.state in FINISHED:
            await self._waiters.left(worker)
            worker = await self.held(run)

    async def finished(self, run: str) -> None:
        """
        Wait until *run*, which has finished, is stored as finished.

        Raises:
            StoreError: it could not be written.
        """
        worker = self._registry.get(run)
        if worker is not None and worker.acknowledged and worker.outcome is not None:  # its end is on its way
            await self.written(worker)

    async def written(self, worker: Worker) -> None:
        """Wait until everything that has happened in the run of *worker* is stored."""
        await self._waiters.durable(worker, len(worker.run.memory.log))

    async def taken(self, worker: Worker) -> None:
        """Wait until the last change of *worker* is as durable as its strategy requires."""
        if worker.options.checkpoints.takes_input_first:
            await self.written(worker)

    # -- those that are here, or were, or are stored -----------------------------------------------

    async def found(self, ref: RunRef) -> Worker | RunRecord:
        """
        Return the worker of a run that is here, or was when it finished; otherwise its record.

        Raises:
            RunNotFound: no run has this id, or another run than the one of the handle.
        """
        worker = await self.held(ref.id)
        if worker is not None:
            check_same(ref, worker)
            return worker
        left, deletions = self.left(ref), self._ownership.deletions
        if left is not None and left.state != "failed" and left.left_after == deletions:
            return left
        stored = await self._ownership.record(ref.id)
        check_same(ref, stored)
        if left is None or (left.acknowledged, left.chain) != (stored.head, stored.chain):
            return stored  # it was retried since, or another run has its id
        left.left_after = deletions
        return left

    def here(self, ref: RunRef) -> Worker | None:
        """Return the worker of a run that is here for certain; None where :meth:`found` has to wait for that."""
        worker = self._registry.get(ref.id)
        if worker is None or not worker.acknowledged or self._registry.supervisor.is_at_work or not self._is_open():
            return None
        return worker if ref.worker is worker or is_same(ref, worker) else None

    def ref(self, run: str) -> RunRef:
        """Return a reference to *run*, which is here; if it is in memory, never to a later run with its id."""
        worker = self._registry.get(run)
        return RunRef(run, at=None if worker is None else worker.created_at)

    def left(self, ref: RunRef) -> Worker | None:
        """Return the worker of a run that has finished here, if it is still in memory."""
        kept = self._registry.recent.get(ref.id)
        if kept is None or not is_same(ref, kept):
            kept = ref.worker
        return kept if kept is not None and kept.presence == "left" else None

    async def run(self, found: Worker | RunRecord) -> Run:
        """Return the run that was *found*: the one that is here, or else as the store has it."""
        return found.run if isinstance(found, Worker) else (await self._loader.read(found.id)).run

    async def successor(self, id: str) -> str | None:
        """Return the run that continues from the state of *id*, which has finished; None if there is none."""
        found = await self.found(RunRef(id))
        if isinstance(found, Worker):
            return found.run.memory.successor
        outcome = decode_outcome(found.outcome)
        return (await self.run(found)).memory.successor if outcome is None else outcome.successor


def is_same(ref: RunRef, found: Worker | RunRecord) -> bool:
    """Whether what was *found* under the id of *ref* is the run that its handle was made for, as far as is known."""
    known, worker = ref.created_at, ref.worker
    if known is None or found.created_at is None or worker is found:
        return True
    is_later = worker is not None and worker.presence == "left" and _is_later(worker, found)
    return bool(known == found.created_at) and not is_later


def _is_later(left: Worker, found: Worker | RunRecord) -> bool:
    """Whether *found*, which was created at the same time as a run that has *left*, is another run: see its log."""
    if isinstance(found, Worker):
        return left.state in ("completed", "cancelled")  # such a run does not come back
    return found.head <= left.acknowledged and found.chain != left.chain


def check_same(ref: RunRef, found: Worker | RunRecord) -> None:
    """
    Refuse what was *found* under the id of *ref* if that is another run.

    Raises:
        RunReplaced: it is.
    """
    if not is_same(ref, found):
        raise RunReplaced(ref.id)
