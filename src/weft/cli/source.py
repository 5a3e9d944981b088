"""
Reads stores for commands that only show something: the file of a SQLite store directly, any other store through a
runner that drives nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from weft.cli import stored
from weft.core.events import AnyEvent, LogTruncated
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import CommandError, DamagedRow, RunNotFound
from weft.ports.store import RunRecord, RunStatus
from weft.stores import SQLiteView
from weft.typing import RunId

if TYPE_CHECKING:
    from weft.cli.store_option import StoreUrl
    from weft.fleet import Client
    from weft.runner import Runner

_HAS_INBOX = "select 1 from sqlite_master where type = 'table' and name = 'inbox'"
_INBOX = "select r.id, count(*), min(m.at) from inbox m join runs r on r.key = m.run group by r.key order by r.id"

Damaged = Callable[[DamagedRow], object]


class Source(Protocol):
    """A store, for reading."""

    def list(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        after: RunRecord | None = None,
        limit: int = 100,
        damaged: Damaged | None = None,
    ) -> Sequence[RunRecord]:
        """Return a page of runs, newest first; *damaged* is called for each run that cannot be read."""
        ...

    def count(self, *, statuses: Collection[RunStatus] | None = None) -> int:
        """Return how many runs there are."""
        ...

    def owners(self, run: RunId | None = None) -> Mapping[RunId, str]:
        """Return the processes that own runs, in words, as far as they are alive."""
        ...

    def workers(self) -> int | None:
        """Return how many workers are alive; None if the store is not that of a fleet."""
        ...

    def find(self, run: RunId) -> RunRecord:
        """Return the record of a run."""
        ...

    def reader(self, run: RunId, workflow: Workflow | None = None) -> stored.RunReader:
        """Return what reads *run* as it grows."""
        ...

    def read(self, run: RunId, workflow: Workflow | None = None) -> stored.Stored:
        """Return *run* as it is; functions that cannot be found by name are taken from *workflow*."""
        ...

    def verify(self, run: RunId) -> stored.Checked:
        """Return what there is of the log of *run*, if all of it is as it was written."""
        ...


class FileSource(SQLiteView):
    """The file of a SQLite store: nothing in it is changed."""

    def inbox(self) -> list[tuple[RunId, int, float]]:
        """Return for each run that has messages: its id, how many, and when the oldest came."""
        return self.ask(lambda db: db.execute(_INBOX).fetchall() if db.execute(_HAS_INBOX).fetchone() else [])

    def workers(self) -> int | None:
        """Return None: a file has no workers."""
        return None

    def find(self, run: RunId) -> RunRecord:
        """Return the record of a run; a damaged index is not taken for a run that is missing."""
        try:
            return super().find(run)
        except RunNotFound:
            return self.load(run).record

    def reader(self, run: RunId, workflow: Workflow | None = None) -> stored.RunReader:
        """Return what reads *run* as it grows."""
        return stored.Reader(self, run, workflow)

    def read(self, run: RunId, workflow: Workflow | None = None) -> stored.Stored:
        """Return *run* as it is."""
        return stored.read(self, run, workflow=workflow)

    def verify(self, run: RunId) -> stored.Checked:
        """Check the hash chain of *run*."""
        return stored.check(self, run)


class RunnerSource:
    """Any other store, read through *runner*."""

    def __init__(self, runner: Runner, url: str) -> None:
        self._runner, self._url = runner, url
        self._client: Client | None = None

    def close(self) -> None:
        """Close what it has opened itself."""
        if self._client is not None:
            self._client.close()

    def list(
        self,
        *,
        statuses: Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        after: RunRecord | None = None,
        limit: int = 100,
        damaged: Damaged | None = None,  # noqa: ARG002 - of files only
    ) -> Sequence[RunRecord]:
        """Return a page of runs, newest first."""
        return self._runner.runs(status=statuses, workflow=workflow, failed=failed, after=after, limit=limit)

    def count(self, *, statuses: Collection[RunStatus] | None = None) -> int:
        """Return how many runs there are."""
        return self._runner.count(status=statuses)

    def owners(self, run: RunId | None = None) -> Mapping[RunId, str]:
        """Return the processes that own runs."""
        found: list[RunRecord] = []
        if run is not None:
            found.append(self._runner.find(run))
        else:
            while page := self._runner.runs(
                status=("running", "waiting", "idle"), limit=1_000, after=found[-1] if found else None
            ):
                found += page
        return {record.id: record.owner for record in found if record.owner is not None}

    def workers(self) -> int | None:
        """Return how many workers are alive."""
        if self._client is None:
            from weft.fleet import Client

            self._client = Client(self._url).open()
        return len(self._client.workers())

    def find(self, run: RunId) -> RunRecord:
        """Return the record of a run."""
        return self._runner.find(run)

    def reader(self, run: RunId, workflow: Workflow | None = None) -> stored.RunReader:
        """Return what reads *run* as it grows."""
        if workflow is not None:
            self._runner.register(workflow)
        return _Growing(self._runner, run)

    def read(self, run: RunId, workflow: Workflow | None = None) -> stored.Stored:
        """Return *run* as it is."""
        return self.reader(run, workflow).more()

    def verify(self, run: RunId) -> stored.Checked:
        """Check the hash chain of *run*."""
        import asyncio

        from weft.runner import defaults

        async def check() -> stored.Checked:
            store: Any = defaults.store(self._url)
            await store.open()
            try:
                return await stored.check_stored(store, run)
            finally:
                await store.close()

        return asyncio.run(check())


class _Growing:
    """Reads a run of a runner as it grows."""

    def __init__(self, runner: Runner, run: RunId) -> None:
        self._runner, self._run = runner, run
        self._position = 0

    def more(self) -> stored.Stored:
        """Return the events since the last call."""
        record = self._runner.find(self._run)
        if record.head == self._position:
            return stored.Stored(record, [], record.owner, [])
        events = self._runner.log(self._run)
        new = [event for event in events if event.seq > self._position]
        self._position = events[-1].seq
        restore = self._restored if isinstance(new[0], LogTruncated) else None
        return stored.Stored(record, new, record.owner, stored.times_of(events), restore)

    def _restored(self, _: Sequence[AnyEvent]) -> Run:
        """Return the run as it is, of which its runner has the snapshot."""
        return Run.from_memory(self._runner.get(self._run).memory)


@contextmanager
def opened(url: StoreUrl) -> Generator[Source, None, None]:
    """
    Yield the store at *url*, for reading.

    Raises:
        StoreError: it is not there, or cannot be read.
    """
    if url.file is not None:
        if not url.is_given and not url.file.exists():  # the store of a project in which nothing has run yet
            raise CommandError(
                f"there are no runs yet in {url.shown}; the first one creates it: "
                "weft run MODULE:WORKFLOW --input VALUE"
            )
        with FileSource(url.file) as view:
            yield view
    else:
        from weft.runner import Runner

        with Runner(url.text) as runner, closing(RunnerSource(runner, url.text)) as source:
            yield source
