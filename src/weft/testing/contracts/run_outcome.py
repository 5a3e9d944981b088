"""The contract of the outcome that is stored in the record of a run; a part of the contract of logs that grow."""

from __future__ import annotations

from weft.ports.store import LogStore
from weft.testing.contracts.cases import first, more, opened, write
from weft.testing.contracts.store import StoreContract


class RunOutcomeContract(StoreContract):
    """The contract of failures, dead letters, the outcome and the time of finishing: they follow the status."""

    @opened
    async def test_a_status_brings_what_came_of_the_run(self, store: LogStore) -> None:
        at_once = first("s", status="completed", outcome=b"result", at=1.0)
        await write(store, first("r", at=1.0), at_once)
        await write(store, more("r", 1, status="failed", failures=3, dead_letters=2, outcome=b"errors", at=4.0))

        record, complete = (await store.load("r")).record, (await store.load("s")).record

        assert (record.failures, record.dead_letters, record.outcome, record.finished_at) == (3, 2, b"errors", 4.0)
        assert (complete.failures, complete.outcome, complete.finished_at) == (0, b"result", 1.0)

    @opened
    async def test_what_came_of_a_run_stays_until_the_next_status(self, store: LogStore) -> None:
        await write(store, first("r", status="completed", failures=1, dead_letters=1, outcome=b"result", at=1.0))
        await write(store, more("r", 1, version="v2", at=2.0))
        await write(store, more("r", 2, failures=7, dead_letters=7, outcome=b"ignored", at=3.0))

        record = (await store.load("r")).record

        assert (record.failures, record.dead_letters, record.outcome, record.finished_at) == (1, 1, b"result", 1.0)

    @opened
    async def test_a_failed_run_that_is_running_again_has_not_finished(self, store: LogStore) -> None:
        await write(store, first("r", status="failed", reason="why", failures=2, dead_letters=1, outcome=b"errors"))
        await write(store, more("r", 1, status="running", failures=1, at=2.0))

        record = (await store.load("r")).record
        await write(store, more("r", 2, status="completed", outcome=b"result", at=3.0))
        finished = (await store.load("r")).record

        assert (record.status, record.reason, record.outcome, record.finished_at) == ("running", "", b"", None)
        assert (record.failures, record.dead_letters) == (1, 0)
        assert (finished.failures, finished.outcome, finished.finished_at) == (0, b"result", 3.0)

    @opened
    async def test_a_run_is_created_without_an_outcome_unless_a_status_says_so(self, store: LogStore) -> None:
        await write(store, first("r", failures=7, dead_letters=7, outcome=b"ignored"))

        record = (await store.load("r")).record

        assert (record.status, record.failures, record.dead_letters, record.outcome) == ("running", 0, 0, b"")
        assert record.finished_at is None
