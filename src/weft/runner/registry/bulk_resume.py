"""
Resumes many stored runs: a page at a time, each page with two calls of the store.

    free ──acquired together──► loaded, a few at a time ──► here
      │                               │
      │                               └── it cannot be rebuilt ──► free again, and the others continue
      └── it is here, or locked ──► one by one, when its lock is free

Invariants: those of the registry.  A page is resumed by a task that outlives its caller: if the caller is cancelled,
the present page is still resumed, and later pages stay free.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from weft.errors import RunnerClosed, RunNotFound, RunOwned, StoreUnavailable
from weft.ports.store import DUE, RunRecord, RunStatus
from weft.runner.durability.ownership import Ownership
from weft.runner.execution.worker import Worker
from weft.runner.options import RunOptions
from weft.runner.registry.keyed_lock import HeldLock
from weft.runner.registry.loading import RunLoader
from weft.runner.registry.registry import RunRegistry
from weft.runner.slices import pause

AT_ONCE: Final = 8
"""How many runs are resumed before the other runs continue."""


class BulkResume:
    """Resumes the stored runs of a registry."""

    def __init__(
        self,
        registry: RunRegistry,
        loader: RunLoader,
        ownership: Ownership,
        time: Callable[[], float],
        is_writing: Callable[[], bool],
    ) -> None:
        """
        Resume runs into *registry*.

        Args:
            is_writing: whether a thread writes events of other runs.
        """
        self._registry, self._loader, self._ownership = registry, loader, ownership
        self._time, self._is_writing = time, is_writing

    async def resume_all(self, options: RunOptions, *, parked: bool = False) -> list[str]:
        """
        Resume every stored run that has something to do and that no living process owns; return which.

        An idle run with messages in its inbox has something to do.

        Args:
            parked: whether to resume parked runs too, including those in this runner.
        """
        resumed: list[str] = []
        finish = self._registry.shielded.finish
        if parked:
            aside = [worker.id for worker in self._registry if worker.state == "parked"]
            resumed += await finish(self._one_by_one(aside, options))
        statuses: set[RunStatus] = {*DUE, "parked"} if parked else {*DUE}
        async for page in self._ownership.free(statuses):
            late = [record.id for record in page if self._sleeps_on(record)]
            resumed += await finish(self.together([record.id for record in page if record.id not in late], options))
            resumed += await finish(self._asleep(late, options))
            if late:
                self._registry.look_for_dangers()
        async for addressed in self._ownership.addressed():
            resumed += await finish(self.together(addressed, options))
        return resumed

    def _sleeps_on(self, record: RunRecord) -> bool:
        """Whether a stored run only waits, and there are enough of those in memory."""
        sleepers = self._registry.sleepers
        if record.status != "waiting" or not sleepers.is_full:
            return False
        return record.wake_at is None or record.wake_at > self._time()

    async def _asleep(self, runs: Iterable[str], options: RunOptions) -> list[str]:
        """Own *runs*, which only wait, and let them sleep on."""
        registry = self._registry
        absent = [run for run in runs if run not in registry]
        held = {run: lock for run in absent if (lock := registry.try_lock(run)) is not None}
        try:
            owned = await self._ownership.acquire_many(list(held), registry.supervisor.unresumable)
            for record in owned:
                registry.sleepers.put_stored(record, options)
        finally:
            for lock in held.values():
                lock.release()
        return [record.id for record in owned]

    async def together(self, runs: Iterable[str], options: RunOptions) -> list[str]:
        """
        Resume *runs*, those that are not locked with two calls of the store; return which were resumed.

        Those that are asleep are owned, so they are only loaded; if that fails for now, they sleep on.
        """
        registry, ownership = self._registry, self._ownership
        absent = [run for run in runs if run not in registry]
        held = {run: lock for run in absent if (lock := registry.try_lock(run)) is not None}
        locked = [run for run in absent if run not in held]
        came: list[str] = []
        try:
            asleep = self._owned_asleep(held)
            refused = registry.supervisor.unresumable
            owned = await ownership.acquire_many([run for run in held if run not in asleep], refused)
            async with ownership.freeing(record.id for record in owned) as free:
                async for loaded in ownership.load_many([*asleep.values(), *owned], options.rehydration):
                    if await self._came(loaded.run, self._loader.come_in(loaded, None, options, strict=False)):
                        free.discard(loaded.run)
                        if not self._is_parked(loaded.run):
                            came.append(loaded.run)
                    elif loaded.run in asleep:
                        await ownership.release([loaded.run])
                    held.pop(loaded.run).release()
                    if len(held) % AT_ONCE == 0:  # the runs that are here have their turn
                        await pause(threads=self._is_writing())
        finally:
            for lock in held.values():
                lock.release()
        return came + await self._one_by_one(locked, options)

    def _owned_asleep(self, runs: Iterable[str]) -> dict[str, RunRecord]:
        """Return what is known of those of *runs* that are asleep, by run."""
        sleepers = self._registry.sleepers
        return {run: record for run in runs if (record := sleepers.owned(run)) is not None}

    async def claimed(
        self, owned: Sequence[RunRecord], options: RunOptions, first: Mapping[str, Callable[[Worker], object]]
    ) -> list[str]:
        """
        Continue runs that were claimed, and so are *owned*; return those that this process cannot continue.

        Args:
            first: by run: what is called with its worker before it starts anything.
        """
        registry, ownership = self._registry, self._ownership
        held: dict[str, HeldLock] = {}
        refused: list[str] = []
        async with ownership.freeing(record.id for record in owned) as free:
            try:
                for record in owned:  # one that was released here a moment ago may still be locked
                    held[record.id] = await registry.lock(record.id).acquire()
                async for loaded in ownership.load_many(owned, options.rehydration):
                    coming = self._loader.come_in(loaded, None, options, strict=False, first=first.get(loaded.run))
                    came = await self._came(loaded.run, coming)
                    free.discard(loaded.run)
                    if not came:
                        refused.append(loaded.run)
                    held.pop(loaded.run).release()
                    if len(held) % AT_ONCE == 0:
                        await pause(threads=self._is_writing())
            finally:
                for lock in held.values():
                    lock.release()
        return refused

    async def _one_by_one(self, runs: Iterable[str], options: RunOptions) -> list[str]:
        """Resume *runs* one after the other, when their locks are free; return which were resumed."""
        registry = self._registry
        back = {run: partial(self._loader.bring_back, run, None, options, strict=False) for run in runs}
        came = [run for run, work in back.items() if await self._came(run, registry.locked(run, work))]
        return [run for run in came if not self._is_parked(run)]

    def _is_parked(self, run: str) -> bool:
        """Whether *run*, which was loaded, was parked at once because it keeps killing its process."""
        worker = self._registry.get(run)
        return worker is not None and worker.state == "parked"

    async def _came(self, run: str, coming: Awaitable[object]) -> bool:
        """Return whether *run* was resumed; an error is logged, and does not keep the other runs from being resumed."""
        try:
            return bool(await coming)
        except (RunnerClosed, StoreUnavailable):  # the runner is being closed
            raise
        except (RunOwned, RunNotFound):  # it was free a moment ago
            return False
        except Exception as error:  # noqa: BLE001 - as said above
            self._registry.supervisor.unresumable(run, error)
            return False
