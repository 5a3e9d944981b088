"""Upgrades of the schema keep the rights of roles and what is in the queue; rows that belong to no run are found."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from postgres_stores import ask, inside, nothing
from servers import asked

from weft.ports.checkup import Finding
from weft.stores import PostgresStore
from weft.stores.postgres import statements
from weft.stores.postgres.checkup import Checkup

known = statements._migrations()
_RIGHTS = """
    select c.relname, has_table_privilege($2, c.oid, 'select'), has_table_privilege($2, c.oid, 'insert, update')
    from pg_class c
    where c.relnamespace = to_regnamespace(quote_ident($1)) and c.relkind = 'r' and c.relname <> 'weft_schema'
"""


def test_roles_have_their_rights_on_the_tables_of_later_versions(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, reader = (f"{kind}_{uuid.uuid4().hex[:8]}" for kind in ("worker", "reader"))
    asked(dsn, lambda db: db.execute(f"create role {worker}; create role {reader}"))
    store = PostgresStore(dsn, schema=schema)
    try:
        with monkeypatch.context() as of_the_past:
            of_the_past.setattr(statements, "_migrations", lambda: known[:8])
            asyncio.run(store.migrate(worker=worker, reader=reader))

        asyncio.run(store.migrate())

        rights = asked(dsn, lambda db: db.fetch(_RIGHTS, schema, worker))
        assert len(rights) > 18
        assert all(reads and writes for _, reads, writes in rights)
        rights = asked(dsn, lambda db: db.fetch(_RIGHTS, schema, reader))
        assert all(reads and not writes for _, reads, writes in rights)
    finally:
        asked(dsn, lambda db: db.execute(f'drop schema if exists "{schema}" cascade; drop role {worker}, {reader}'))


def test_a_worker_can_neither_change_what_was_logged_nor_the_schema(dsn: str, schema: str) -> None:
    worker = f"worker_{uuid.uuid4().hex[:8]}"
    asked(dsn, lambda db: db.execute(f"create role {worker}"))
    may = "select has_table_privilege($1, quote_ident($2) || '.' || $3, $4)"
    try:
        asyncio.run(PostgresStore(dsn, schema=schema).migrate(worker=worker))

        for table, right in (
            *((name, "update") for name in ("weft_events", "weft_facts", "weft_definitions", "weft_chunks")),
            *((name, "delete") for name in ("weft_definitions", "weft_limits", "weft_shard", "weft_shards")),
            *(("weft_schema", right) for right in ("insert", "update", "delete")),
            ("weft_queue", "truncate"),
        ):
            name = schema, table, right
            assert not asked(dsn, lambda db, name=name: db.fetchval(may, worker, *name)), name
        assert asked(dsn, lambda db: db.fetchval(may, worker, schema, "weft_queue", "delete"))
    finally:
        asked(dsn, lambda db: db.execute(f'drop schema if exists "{schema}" cascade; drop role {worker}'))


def test_rows_of_steps_and_deadlines_without_a_run_are_found_and_deleted(dsn: str, schema: str) -> None:
    store = PostgresStore(dsn, schema=schema)
    inside(store, nothing)
    for sql in (
        "insert into weft_deadlines (run, danger_at, deadline) values (77, 1, 2)",
        "insert into weft_task_values (run, hash, body) values ('gone', 'h', 'b')",
        """
        insert into weft_tasks (run, runnable, attempt, epoch, queue, priority, workflow, version, owner, body)
        values ('gone', 'it', 1, 1, 'wide', 0, 'w', 'v', 1, '')
        """,
    ):
        asyncio.run(ask(store, sql))

    async def found(checkup: Checkup) -> list[Finding]:
        return [each async for each in checkup.findings() if "belong to no run" in each.what]

    async def main() -> None:
        checkup = Checkup(dsn, schema=schema)
        findings = await found(checkup)
        assert [each.where for each in findings] == ["weft_deadlines", "weft_tasks", "weft_task_values"]
        for each in findings:
            assert await checkup.repair(each) == 1
        assert await found(checkup) == []

    asyncio.run(main())


def test_the_queue_of_an_older_schema_says_what_its_runs_are(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(dsn, schema=schema)
    with monkeypatch.context() as of_the_past:
        of_the_past.setattr(statements, "_migrations", lambda: known[:12])
        asyncio.run(store.migrate())
    runs = """
        with run as (
            insert into weft_runs (head, epoch, created_at, updated_at, failures, dead_letters, id, workflow, version,
                                   status, reason, chain, outcome)
            select 0, 1, 1, 1, 0, 0, 'r' || i, 'orders', 'v' || i, case when i = 3 then 'parked' else 'running' end, '',
                   '', ''
            from generate_series(1, 3) i returning key
        )
        insert into weft_queue (run, scheduled_at, wake) select key, 1, 2 from run
    """
    asyncio.run(ask(store, runs))
    steps = """
        insert into weft_tasks (run, runnable, attempt, epoch, queue, priority, workflow, version, owner, body)
        values ('r1', 'it', 1, 1, 'wide', 0, 'orders', 'v1', 1, '')
    """
    asyncio.run(ask(store, steps))

    async def main() -> None:
        stores = [PostgresStore(dsn, schema=schema) for _ in range(4)]
        await asyncio.gather(*(each.open() for each in stores))  # one of them migrates
        found = await ask(store, "select program, seen from weft_queue order by run")
        assert [seen for _, seen in found] == [2, 2, 2]
        assert found[2]["program"] == 1
        assert len({0, 1, *(program for program, _ in found)}) == 4
        claimed = await stores[0].claim(9, queues=["default"], workflows=[("orders", "v1")])
        assert [each.id for each in claimed] == ["r1"]
        taken = await stores[0].claim_tasks(9, queues=["wide"], workflows=[("orders", "v1")], deaths=3)
        assert len(taken) == 1
        for each in stores:
            await each.close()

    asyncio.run(main())
