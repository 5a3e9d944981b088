"""The schema: its migrations, the processes that run them, and the roles that use it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import asyncpg
import pytest
from postgres_stores import ask, inside, nothing
from servers import asked

from weft import Workflow, step
from weft.errors import ForeignStore, InvalidStoreOption, NewerStore, ReadOnlyStore
from weft.runner.blocking import Runner
from weft.stores import PostgresStore
from weft.stores.postgres import statements
from weft.stores.postgres.schema import newest
from weft.stores.postgres.statements import Migration, Statements
from weft.testing.contracts.cases import bodies, first, more, write


def test_many_processes_create_the_schema_at_once(dsn: str, schema: str) -> None:
    async def main() -> None:
        stores = [PostgresStore(dsn, schema=schema) for _ in range(6)]
        await asyncio.gather(*(store.open() for store in stores))
        await asyncio.gather(*(write(store, first(f"r{i}")) for i, store in enumerate(stores)))

        assert await stores[0].count() == 6
        versions = await ask(stores[0], "select version from weft_schema order by version")
        assert [version for (version,) in versions] == [each.version for each in known]
        for store in stores:
            await store.close()

    asyncio.run(main())


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be of a later Weft."""
    more_columns = Migration(known[-1].version + 1, "alter table {schema}.weft_runs add column later bytea")
    monkeypatch.setattr(statements, "_migrations", lambda: (*known, more_columns))


known = statements._migrations()


def test_a_schema_with_data_is_migrated_by_many_at_once(dsn: str, schema: str, request: pytest.FixtureRequest) -> None:
    inside(PostgresStore(dsn, schema=schema), lambda store: write(store, first("r", b"old")))
    request.getfixturevalue("next_version")

    async def main() -> None:
        stores = [PostgresStore(dsn, schema=schema) for _ in range(4)]
        await asyncio.gather(*(store.open() for store in stores))
        record = await stores[0].acquire("r")
        await write(stores[0], more("r", 1, b"new", epoch=record.epoch))

        assert bodies(await stores[1].load("r")) == [b"old", b"new"]
        assert await ask(stores[0], "select later from weft_runs") is not None
        for store in stores:
            await store.close()

    asyncio.run(main())


def test_the_first_schema_is_brought_to_this_version_with_its_runs(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(dsn, schema=schema)
    with monkeypatch.context() as of_the_past:
        of_the_past.setattr(statements, "_migrations", lambda: known[:1])
        asyncio.run(store.migrate())
    asyncio.run(
        ask(
            store,
            """
            with run as (
                insert into weft_runs (head, epoch, created_at, updated_at, failures, dead_letters, id, workflow,
                                       version, status, reason, chain, outcome)
                values (0, 1, 1, 1, 0, 0, 'old', 'orders', 'v1', 'running', '', '', '') returning key
            )
            insert into weft_queue (run, scheduled_at, wake, queue, priority) select key, 1, 0, 'reports', 3 from run
            """,
        )
    )

    async def act(store: PostgresStore) -> None:
        (record,) = await store.claim(5, queues=["reports"], workflows=[("orders", "v1")])
        await write(store, more("old", 0, epoch=record.epoch, previous=b"", snapshot=b"s"))
        found = await ask(store, "select queue, priority from weft_runs")
        assert [tuple(row) for row in found] == [("reports", 3)]

    inside(store, act)


def test_the_newest_version_is_known_without_the_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Statements, "_in_schema", None)  # a worker asks before each claim

    assert newest(Statements("weft")) == known[-1].version


def test_a_process_that_meets_a_newer_schema_says_so_and_changes_nothing(dsn: str, schema: str) -> None:
    inside(PostgresStore(dsn, schema=schema), nothing)
    asyncio.run(ask(PostgresStore(dsn, schema=schema), "insert into weft_schema (version) values (99)"))

    with pytest.raises(NewerStore, match=f"version 99 and this Weft knows versions up to {known[-1].version}"):
        inside(PostgresStore(dsn, schema=schema), nothing)
    with pytest.raises(NewerStore):
        asyncio.run(PostgresStore(dsn, schema=schema).migrate())


def test_a_migration_that_fails_leaves_nothing_behind(dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Migration(known[-1].version + 1, "create table {schema}.weft_half (a int); select 1 / 0")
    monkeypatch.setattr(statements, "_migrations", lambda: (*known, broken))

    with pytest.raises(InvalidStoreOption, match="division by zero"):
        inside(PostgresStore(dsn, schema=schema), nothing)

    assert asked(dsn, lambda db: db.fetch("select 1 from pg_namespace where nspname = $1", schema)) == []


def test_tables_that_weft_did_not_create_are_left_alone(dsn: str, schema: str) -> None:
    asked(dsn, lambda db: db.execute(f'create schema "{schema}"; create table "{schema}".weft_runs (a int)'))

    with pytest.raises(ForeignStore, match="weft_runs"):
        inside(PostgresStore(dsn, schema=schema), nothing)


def test_a_store_can_be_told_not_to_migrate(dsn: str, schema: str) -> None:
    with pytest.raises(InvalidStoreOption, match="has to be migrated first"):
        inside(PostgresStore(dsn, schema=schema, migrate=False), nothing)
    asyncio.run(PostgresStore(dsn, schema=schema).migrate())

    inside(PostgresStore(dsn, schema=schema, migrate=False), nothing)


@pytest.mark.parametrize("name", ["", "n" * 64, "nul\0"])
def test_a_schema_has_a_name_that_postgresql_can_keep(dsn: str, name: str) -> None:
    with pytest.raises(InvalidStoreOption, match="name of a schema"):
        PostgresStore(dsn, schema=name)


@pytest.mark.parametrize("name", ['quo"ted', "semi; drop schema public", "Ünïcode 🧵", "public%s{schema}$1"])
def test_a_schema_has_any_name(dsn: str, name: str) -> None:
    schema = f"{name} {uuid.uuid4().hex[:8]}"
    quoted = statements.quoted(schema)
    try:
        assert inside(PostgresStore(dsn, schema=schema), lambda store: store.append([first("r")])) == [None]
        found = asked(dsn, lambda db: db.fetchval("select count(*) from pg_namespace where nspname = $1", schema))
        assert found == 1
    finally:
        asked(dsn, lambda db: db.execute(f"drop schema if exists {quoted} cascade"))


def test_a_database_that_cannot_hold_all_text_is_refused(dsn: str) -> None:
    name = f"weft_{uuid.uuid4().hex}"
    asked(dsn, lambda db: db.execute(f"create database {name} encoding 'LATIN1' locale 'C' template template0"))
    try:
        with pytest.raises(InvalidStoreOption, match="encoded as LATIN1"):
            inside(PostgresStore(dsn.replace("/postgres?", f"/{name}?")), nothing)
    finally:
        asked(dsn, lambda db: db.execute(f"drop database {name} with (force)"))


# -- roles ---------------------------------------------------------------------------------------


@pytest.fixture
def roles(dsn: str, schema: str) -> Iterator[tuple[str, str]]:
    """The addresses of a worker and of a reader, who have the rights that the migrator has granted them."""
    worker, reader = (f"{kind}_{uuid.uuid4().hex[:8]}" for kind in ("worker", "reader"))
    asked(dsn, lambda db: db.execute(f"create role {worker} login; create role {reader} login"))
    asyncio.run(PostgresStore(dsn, schema=schema).migrate(worker=worker, reader=reader))
    yield dsn.replace("postgres:@", f"{worker}:@"), dsn.replace("postgres:@", f"{reader}:@")
    asked(dsn, lambda db: db.execute(f'drop schema "{schema}" cascade; drop role {worker}; drop role {reader}'))


@step
def double(x: int) -> int:
    return 2 * x


needs_trust = pytest.mark.skipif("WEFT_TEST_DSN" in __import__("os").environ, reason="logs in without a password")


@needs_trust
def test_a_worker_drives_runs_and_creates_nothing(roles: tuple[str, str], schema: str) -> None:
    worker, _ = roles
    with Runner(PostgresStore(worker, schema=schema)) as runner:
        assert runner.start(Workflow("double", double), 4, id="r").result(60) == 8
        runner.delete("r")

    with pytest.raises(ReadOnlyStore, match="role that may create tables"):
        inside(PostgresStore(worker, schema=f"{schema} 2"), nothing)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        asked(worker, lambda db: db.execute(f'drop table "{schema}".weft_facts'))


@needs_trust
def test_a_reader_reads_runs_and_changes_nothing(roles: tuple[str, str], schema: str) -> None:
    worker, reader = roles
    inside(PostgresStore(worker, schema=schema), lambda store: write(store, first("r", b"it")))

    async def act(store: PostgresStore) -> None:
        assert bodies(await store.load("r")) == [b"it"]
        assert [each.id for each in await store.list()] == ["r"]
        with pytest.raises(ReadOnlyStore):
            await store.append([first("s")])
        with pytest.raises(ReadOnlyStore):
            await store.delete("r")

    inside(PostgresStore(reader, schema=schema), act)
