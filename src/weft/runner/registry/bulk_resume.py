"""
Brings many stored runs back at once: a page at a time, each with two calls of the store.

    free ──acquired together──► loaded, a few at a time ──► here
      │                               │
      │                               └── it cannot be rebuilt ──► free again, and the others come
      └── it is here, or locked ──► one by one, as its lock is free

Invariants: those of the registry.  A page is brought back by a task that outlives its caller: one that is cancelled
leaves a page coming in, and the others free.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from weft.errors import RunnerClosed, RunOwned, StoreUnavailable, WorkflowNotFound
from weft.ports.store import DUE, RunStatus
from weft.runner.durability.ownership import Ownership
from weft.runner.options import RunOptions
from weft.runner.registry.registry import RunRegistry
from weft.runner.slices import pause

AT_ONCE: Final = 8
"""How many runs come in before those that are here have their turn."""


class BulkResume:
    """Brings the runs of a store back into a registry."""

    def __init__(self, registry: RunRegistry, ownership: Ownership, is_writing: Callable[[], bool]) -> None:
        """Bring them into *registry*; *is_writing* says whether the store is at work for the runs that are there."""
        self._registry, self._ownership, self._is_writing = registry, ownership, is_writing

    async def resume_all(self, options: RunOptions, *, parked: bool = False) -> list[str]:
        """
        Bring back every stored run that has something to do and that no runner that is alive owns; return which.

        Args:
            parked: whether to bring back runs that were set aside, too, those in this runner among them.
        """
        resumed: list[str] = []
        finish = self._registry.shielded.finish
        if parked:
            aside = [worker.id for worker in self._registry if worker.state == "parked"]
            resumed += await finish(self._one_by_one(aside, options))
        statuses: set[RunStatus] = {*DUE, "parked"} if parked else {*DUE}
        async for page in self._ownership.free(statuses):
            resumed += await finish(self._together(page, options))
        return resumed

    async def _together(self, runs: Iterable[str], options: RunOptions) -> list[str]:
        """Bring *runs* back, all that are not locked with two calls of the store; return which came."""
        registry, ownership = self._registry, self._ownership
        absent = [run for run in runs if run not in registry]
        held = {run: lock for run in absent if (lock := registry.try_lock(run)) is not None}
        locked = [run for run in absent if run not in held]
        came: list[str] = []
        try:
            owned = await ownership.acquire_many(list(held), registry.supervisor.unresumable)
            async with ownership.freeing(record.id for record in owned) as free:
                async for loaded in ownership.load_many(owned):
                    if await self._came(loaded.run, registry.come_in(loaded, None, options, strict=False)):
                        came.append(loaded.run)
                        free.discard(loaded.run)
                    held.pop(loaded.run).release()
                    if len(held) % AT_ONCE == 0:  # the runs that are here have their turn
                        await pause(threads=self._is_writing())
        finally:
            for lock in held.values():
                lock.release()
        return came + await self._one_by_one(locked, options)

    async def _one_by_one(self, runs: Iterable[str], options: RunOptions) -> list[str]:
        """Bring *runs* back, one after the other, as their locks are free; return which came."""
        registry = self._registry
        back = {run: partial(registry.bring_back, run, None, options, strict=False) for run in runs}
        return [run for run, work in back.items() if await self._came(run, registry.locked(run, work))]

    async def _came(self, run: str, coming: Awaitable[object]) -> bool:
        """Return whether *run* came; one that cannot be brought back must not keep the others from it."""
        try:
            return bool(await coming)
        except (RunnerClosed, StoreUnavailable):  # the runner is being closed
            raise
        except (RunOwned, WorkflowNotFound):  # it was free a moment ago
            return False
        except Exception as error:  # noqa: BLE001 - as said above
            self._registry.supervisor.unresumable(run, error)
            return False
