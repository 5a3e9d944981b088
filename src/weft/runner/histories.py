"""
Making the history of a run shorter: truncating its log, and storing it in less space (ADR 44).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.core.lineage.history import PagedLog
from weft.core.run.run import Run
from weft.errors import ConcurrentAppend, InvalidOption, NoSnapshot, OwnershipLost, RunBusy
from weft.log.hash_chain import chain, references
from weft.log.snapshot import Snapshot
from weft.ports.store import CompactStore, LoadedRun, SnapshotStore, TruncatingStore
from weft.runner.archives import RunnerArchives
from weft.runner.durability.rehydration import CHANGES, Unusable
from weft.runner.durability.truncation import last_unneeded
from weft.runner.execution.worker import Worker
from weft.runner.handle import RunHandle, id_of
from weft.runner.slices import pause

PAGE: Final = 2_000
"""How many events are looked through at once for the values that they refer to."""
TRIES: Final = 20
"""How often a truncation is tried, while the run goes on meanwhile."""


class Cut(NamedTuple):
    """Where a log is cut."""

    first: int
    """The first event that is left."""
    link: bytes
    """The hash of the log before it."""
    facts: list[bytes]
    """The large values that only the events before it refer to."""


class RunnerHistories(RunnerArchives):
    """The methods of a runner that make histories shorter."""

    async def truncate(self, id: str | RunHandle[Any]) -> int:
        """
        Remove the events of the run *id* before its last snapshot, and the values that only they refer to.

        That cannot be undone.  The run continues as before: what happened since its last input, and since the oldest
        one that is not done, stays, so that their results are known; except of a run with a single input, whose
        results are the latest of each component.  A question about what was removed raises
        ``HistoryTruncated``, and :meth:`log` begins with ``LogTruncated``.  This runner has to own the run, or no other
        process may.

        Returns:
            How many events were removed: 0 if there was no snapshot since the last time, or if all are needed.

        Raises:
            RunNotFound: no run has this id.
            RunOwned: another process that is alive has it.
            NoSnapshot: it has no snapshot from which it can be restored.
            OwnershipLost: another process has taken it over, and this runner did not know of it.
            RunBusy: it goes on so fast that its log changes at every try.
            InvalidOption: the store cannot truncate logs.
        """
        id = id_of(id)
        self._runtime.check_open()
        store = self._runtime.store
        if not isinstance(store, TruncatingStore) or not isinstance(store, SnapshotStore):
            raise InvalidOption(f"{type(store).__name__} cannot truncate logs; the stores of Weft can")
        while True:
            await self._runtime.lookup.resident(id)
            removed = await self._runtime.loader.visit(id, self._truncate)
            if removed is not None:
                return removed

    async def _truncate(self, worker: Worker) -> int | None:
        """Truncate the log of the run of *worker*, whatever it does meanwhile; return None if that is replaced."""
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
        except OwnershipLost:
            # A worker that has crashed is rebuilt in a new epoch.  The next worker relies on stored values again.
            await self._runtime.registry.supervisor.restarted(worker.id)
            if self._runtime.registry.get(worker.id) is worker:
                raise
            return None
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
            loaded, snapshot, run = await self._last_snapshot(worker)
            first = loaded.record.first
            cut = await self._cut(loaded, snapshot, await last_unneeded(run, snapshot.position))
            if cut.first == first:
                return 0
            memory = worker.run.memory
            if any(isinstance(event, CHANGES) for event in memory.log[worker.acknowledged :]):
                await self._settled(worker)  # then the snapshot is too old for it
                continue
            before, memory.lineage.cut = memory.lineage.cut, cut.first - 1  # from here on nothing changes the run
            try:
                await self._runtime.ownership.again(
                    lambda: store.truncate_before(
                        worker.id,
                        cut.first,  # noqa: B023
                        link=cut.link,  # noqa: B023
                        expected=loaded.record.head,  # noqa: B023
                        epoch=worker.unsaved.epoch,  # that of the worker which brings its values along
                        facts=cut.facts,  # noqa: B023
                    )
                )
            except ConcurrentAppend:  # it has gone on, and the values would have to be looked for again
                memory.lineage.cut = before
                continue
            except OwnershipLost:
                memory.lineage.cut = before
                raise
            log: Any = worker.run.memory.log
            if isinstance(log, PagedLog):
                log.history.forget(cut.first - 1)
            return cut.first - first
        raise RunBusy(worker.id, "its log grows at every try; try again when it does less", "truncated")

    async def _last_snapshot(self, worker: Worker) -> tuple[LoadedRun, Snapshot, Run]:
        """
        Return the tail of the log of *worker*, its snapshot, and the run that was restored from them.

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
                restored, _ = await ownership.rehydrate(loaded, stored, decoder, "hybrid", context={}, unknown={})
            except Unusable as why:
                raise NoSnapshot(run, f"the one that it has cannot be used: {why}") from why
        return loaded, Snapshot.opened(stored.body), restored

    async def _cut(self, loaded: LoadedRun, snapshot: Snapshot, last: int) -> Cut:
        """Return how to remove whole segments with events up to number *last*, which the snapshot covers."""
        store: Any = self._runtime.store
        run, link, first = loaded.record.id, loaded.link, loaded.record.first
        gone, kept = set[bytes](), references(segment.body for segment in loaded.segments).facts
        read = first
        while read <= snapshot.position:
            until = min(read + PAGE - 1, snapshot.position)
            segments = await self._runtime.ownership.again(lambda: store.load_between(run, read, until))  # noqa: B023
            for segment in segments:
                facts = references([segment.body]).facts
                if segment.first == first and segment.last <= last:
                    first, link = segment.last + 1, chain(link, segment.body)
                    gone |= facts
                else:
                    kept |= facts
            read = max(until, segments[-1].last if segments else 0) + 1
            await pause()
        return Cut(first, link, sorted(gone - kept - snapshot.references().facts))

    async def compact(self, id: str | RunHandle[Any]) -> int:
        """
        Store the old events of the run *id* in less space; nothing that is read changes.

        It is done in slices, between which the process that owns the run goes on writing.

        Returns:
            How many segments were moved.

        Raises:
            RunNotFound: no run has this id.
            InvalidOption: the store has no such form.
        """
        id = id_of(id)
        self._runtime.check_open()
        store = self._runtime.store
        if not isinstance(store, CompactStore):
            raise InvalidOption(f"{type(store).__name__} does not store segments in several forms; SQLiteStore does")
        return await self._runtime.ownership.again(lambda: store.compact(id))
