"""The costs of a batch, counted: statements, round trips, connections."""

from __future__ import annotations

from typing import Any

import pytest
from postgres_stores import ask, inside

from weft import Workflow, step
from weft.runner.runner import AsyncRunner
from weft.stores import PostgresStore
from weft.testing.contracts.cases import first, more, write
from weft.testing.contracts.inbox_store import message


def counted(store: PostgresStore) -> list[str]:
    """
    Return a list that grows with each statement of *store*, on both of its connections.

    The hints that tell other processes of changes are left out: they follow a commit whenever the loop gets to it.
    """
    said: list[str] = []
    assert store._opened is not None
    hint = store._statements["notify"]
    for each in (store._opened.appends, store._opened.others):
        each._db.add_query_logger(lambda query: said.append(query.query) if query.query != hint else None)
    return said


def test_a_batch_of_any_kind_is_one_statement(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("warm"))
        said = counted(store)
        names = [f"r{i}" for i in range(200)]
        batches: list[list[Any]] = [
            [first(name, definitions={b"d": b"D"}, facts={b"f": name.encode()}) for name in names],
            [more(name, 1) for name in names],
            [first("new"), *(more(name, 2, status="waiting", wake_at=5.0) for name in names)],
            [more(name, 3, status="completed", release=True, facts={b"g": b"x"}) for name in names],
        ]
        for batch in batches:
            said.clear()

            await write(store, *batch)

            assert len(said) == 1

    inside(PostgresStore(dsn, schema=schema), act)


def test_a_refused_append_costs_one_more_statement(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, *(first(f"r{i}") for i in range(100)))
        said = counted(store)

        await store.append([more(f"r{i}", 7 if i % 10 == 0 else 1) for i in range(100)])

        assert len(said) == 2

    inside(PostgresStore(dsn, schema=schema), act)


@pytest.mark.parametrize(
    ("name", "statements"),
    [
        ("acquire_many", 1),
        ("load_many", 1),
        ("release", 1),
        ("post", 1),
        ("messages", 1),
        ("list", 1),
        ("list_free", 2),
    ],
)
def test_what_is_about_many_runs_is_one_statement(dsn: str, schema: str, name: str, statements: int) -> None:
    runs = [f"r{i}" for i in range(100)]

    async def act(store: PostgresStore) -> None:
        await write(store, *(first(run) for run in runs))
        said = counted(store)
        for _ in range(2):  # with the first, the driver looks its types up
            said.clear()
            match name:
                case "acquire_many" | "load_many" | "release":
                    await getattr(store, name)(runs)
                case "post":
                    await store.post([message(run, b"it") for run in runs])
                case _:
                    await getattr(store, name)()

        assert len(said) == statements

    inside(PostgresStore(dsn, schema=schema), act)


@step
def one(x: int) -> int:
    return x + 1


@step
def two(x: int) -> int:
    return x + 1


def test_a_hundred_runs_share_their_statements(dsn: str, schema: str) -> None:
    flow = Workflow("two", one >> two)

    async def act(store: PostgresStore) -> None:
        await write(store, first("warm"))
        async with AsyncRunner(store, executor="inline") as runner:
            said = counted(store)
            handles = await runner.start_many(flow, range(100), ids=[f"r{i}" for i in range(100)])
            assert await handles.gather() == [i + 2 for i in range(100)]

            appends = [text for text in said if "weft_runs r\n" in text and "set head" in text]
            assert len(appends) <= 12  # three each, in slices of 64, which overlap

    inside(PostgresStore(dsn, schema=schema), act)


def test_a_store_uses_at_most_four_connections(dsn: str, schema: str) -> None:
    name = f"weft-{schema[-8:]}"

    async def act(store: PostgresStore) -> None:
        await store.listen(lambda: None)
        await write(store, first("r", facts={b"h": b"x" * (2 << 20)}), first("s"))
        await store.load("r")

        sql = "select count(*) from pg_stat_activity where application_name = $1"
        ((used,),) = await ask(PostgresStore(dsn), sql, name)
        assert 1 < used <= 4

    separator = "&" if "?" in dsn else "?"
    inside(PostgresStore(f"{dsn}{separator}application_name={name}", schema=schema), act)


def test_a_store_that_is_closed_leaves_no_connection(dsn: str, schema: str) -> None:
    name = f"weft-{schema[-8:]}"
    separator = "&" if "?" in dsn else "?"

    async def act(store: PostgresStore) -> None:
        await store.listen(lambda: None)
        await write(store, first("r"))

    inside(PostgresStore(f"{dsn}{separator}application_name={name}", schema=schema), act)

    async def left(store: PostgresStore) -> None:
        from postgres_stores import until

        sql = "select 1 where not exists (select from pg_stat_activity where application_name = $1)"
        await until(lambda: ask(store, sql, name))

    inside(PostgresStore(dsn, schema=schema), left)
