"""
Making the history of a run shorter: truncating its log, and storing it in less space (ADR 44).
"""

from __future__ import annotations

from typing import Any, Final

from weft.core.lineage.history import PagedLog
from weft.errors import ConcurrentAppend, InvalidOption, NoSnapshot, RunBusy
from weft.log.hash_chain import references
from weft.log.snapshot import Snapshot
from weft.ports.store import CompactStore, LoadedRun, SnapshotStore, StoredSnapshot, TruncatingStore
from weft.runner.archives import RunnerArchives
from weft.runner.durability.rehydration import Unusable
from weft.runner.execution.worker import Worker
from weft.runner.slices import pause

PAGE: Final = 2_000
"""How many events are looked through at once for the values that they refer to."""
TRIES: Final = 20
"""How often a truncation is tried, while the run goes on meanwhile."""


class RunnerHistories(RunnerArchives):
    """The methods of a runner that make histories shorter."""

    async def truncate(self, id: str) -> int:
        """
        Remove the events of the run *id* before its last snapshot, and the values that only they refer to.

        That cannot be undone.  The run continues as before; a question about what was removed raises
        ``HistoryTruncated``, and :meth:`log` begins with ``LogTruncated``.  This runner has to own the run, or no other
        process may.

        Returns:
            How many events were removed: 0 if there was no snapshot since the last time.

        Raises:
            RunNotFound: no run has this id.
            RunOwned: another process that is alive has it.
            NoSnapshot: it has no snapshot from which it can be restored.
            RunBusy: it goes on so fast that its log changes at every try.
            InvalidOption: the store cannot truncate logs.
        """
        self._runtime.check_open()
        store = self._runtime.store
        if not isinstance(store, TruncatingStore) or not isinstance(store, SnapshotStore):
            raise InvalidOption(f"{type(store).__name__} cannot truncate logs; the stores of Weft can")
        await self._runtime.lookup.resident(id)
        return await self._runtime.loader.visit(id, self._truncate)

    async def _truncate(self, worker: Worker) -> int:
        """Truncate the log of the run of *worker*, whatever it does meanwhile."""
        # From here on every append brings its values along.  What was on its way before has to be stored first, since
        # it may rely on a value that is about to be removed; and so has what is on its way at the end, whose values
        # may have been removed since.
        worker.unsaved.repeat_values(repeats=True)
        await self._settled(worker)
        try:
            removed = await self._truncate_stored(worker)
        except NoSnapshot:  # nothing was removed
            worker.unsaved.repeat_values(repeats=False)
            raise
        await self._settled(worker)
        worker.unsaved.repeat_values(repeats=False)
        return removed

    async def _settled(self, worker: Worker) -> None:
        if worker.lost is None:
            worker.checkpoint()
            await self._runtime.lookup.written(worker)

    async def _truncate_stored(self, worker: Worker) -> int:
        store: Any = self._runtime.store
        for _ in range(TRIES):
            loaded, stored, snapshot = await self._last_snapshot(worker)
            first = loaded.record.first
            if snapshot.position < first:
                return 0
            unneeded = await self._unneeded(loaded, snapshot)
            try:
                await self._runtime.ownership.again(
                    lambda: store.truncate_before(
                        worker.id,
                        snapshot.position + 1,  # noqa: B023
                        link=snapshot.link,  # noqa: B023
                        expected=loaded.record.head,  # noqa: B023
                        epoch=loaded.record.epoch,  # noqa: B023
                        facts=unneeded,  # noqa: B023
                    )
                )
            except ConcurrentAppend:  # it has gone on, and the values would have to be looked for again
                continue
            log: Any = worker.run.memory.log
            if isinstance(log, PagedLog):
                log.history.forget(stored.position)
            return stored.position - first + 1
        raise RunBusy(worker.id, "its log grows at every try; try again when it does less", "truncated")

    async def _last_snapshot(self, worker: Worker) -> tuple[LoadedRun, StoredSnapshot, Snapshot]:
        """
        Return the tail of the log of *worker* and its snapshot, from which the run can be restored.

        Raises:
            NoSnapshot: there is none.
        """
        store: Any = self._runtime.store
        ownership, run = self._runtime.ownership, worker.id
        stored = await ownership.again(lambda: store.load_snapshot(run))
        if stored is None:
            raise NoSnapshot(run, "it has none")
        loaded = await ownership.again(lambda: store.load_since(run, stored.position))
        with ownership.decoder(loaded.record, worker.run.workflow, strict=False) as decoder:
            try:
                await ownership.rehydrate(loaded, stored, decoder, "hybrid", context={}, unknown={})
            except Unusable as why:
                raise NoSnapshot(run, f"the one that it has cannot be used: {why}") from why
        return loaded, stored, Snapshot.opened(stored.body)

    async def _unneeded(self, loaded: LoadedRun, snapshot: Snapshot) -> list[bytes]:
        """Return the large values that the events up to the snapshot refer to, and nothing else of the run does."""
        store: Any = self._runtime.store
        run, found = loaded.record.id, set[bytes]()
        for first in range(loaded.record.first, snapshot.position + 1, PAGE):
            last = min(first + PAGE - 1, snapshot.position)
            segments = await self._runtime.ownership.again(lambda: store.load_between(run, first, last))  # noqa: B023
            found |= references(segment.body for segment in segments).facts
            await pause()
        kept = references(segment.body for segment in loaded.segments).facts
        return sorted(found - kept - snapshot.references().facts)

    async def compact(self, id: str) -> int:
        """
        Store the old events of the run *id* in less space; nothing that is read changes.

        It is done in slices, and whichever process owns the run goes on writing in between.

        Returns:
            How many segments were moved.

        Raises:
            RunNotFound: no run has this id.
            InvalidOption: the store has no such form.
        """
        self._runtime.check_open()
        store = self._runtime.store
        if not isinstance(store, CompactStore):
            raise InvalidOption(f"{type(store).__name__} does not store segments in several forms; SQLiteStore does")
        return await self._runtime.ownership.again(lambda: store.compact(id))
