"""Transactional steps on PostgreSQL: rows and events are one commit, also when a process or a connection dies."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from typing import Any

import pytest
from killed_transactions import completions, rows, run, transacting
from servers import asked

from weft import AsyncRunner, Runner, Workflow, current, each, step, transaction
from weft.errors import RunFailed
from weft.stores import PostgresStore

KILLS = [(point, time) for point in transacting.POINTS for time in (1, 2, 4)]
QUICK = {("written", 2), ("folded", 1), ("appended", 2), ("committed", 1)}


@step
def add(x: int, tx: Any = transaction()) -> int:
    tx.execute("insert into added values ($1)", x)
    return x + int(tx.fetchval("select 1"))


@step
async def add_async(x: int, tx: Any = transaction()) -> int:
    async with tx.transaction():  # a savepoint
        await tx.execute("insert into added values ($1)", x)
    return x + 1


@pytest.fixture
def where(dsn: str, schema: str) -> str:
    """Where a connection finds the tables of this test first."""
    name = schema.replace("t ", "app_")
    asked(dsn, lambda db: db.execute(f"create schema {name}; create table {name}.added (x bigint)"))
    asked(dsn, lambda db: db.execute(f"create table {name}.shop_rows (component text, key text)"))
    return f"{dsn}&options=-csearch_path%3D{name}" if "?" in dsn else f"{dsn}?options=-csearch_path%3D{name}"


def added(where: str) -> list[int]:
    return [row["x"] for row in asked(where, lambda db: db.fetch("select x from added order by x"))]


def test_plain_and_coroutine_functions_write_in_it(where: str, schema: str) -> None:
    with Runner(PostgresStore(where, schema=schema)) as runner:
        assert runner.start(Workflow("both", add >> add_async), 1).result(60) == 3
    assert added(where) == [1, 2]


def test_a_wide_map_commits_every_element_once_with_few_connections(where: str, schema: str) -> None:
    with Runner(PostgresStore(where, schema=schema, transactions=2)) as runner:
        runner.start(Workflow("wide", each(add)), list(range(40))).wait(60)
    assert added(where) == list(range(40))


def test_a_step_that_fails_rolls_back_and_follows_its_policy(where: str, schema: str) -> None:
    @step(max_retries=2, base_delay=0.0)
    async def flaky(x: int, tx: Any = transaction()) -> int:
        await tx.execute("insert into added values ($1)", current().attempt)
        if current().attempt < 3:
            raise ValueError("not yet")
        return x

    with Runner(PostgresStore(where, schema=schema)) as runner:
        assert runner.start(Workflow("flaky", flaky), 1).result(60) == 1
    assert added(where) == [3]


def test_a_constraint_that_is_deferred_fails_the_attempt(where: str, schema: str) -> None:
    asked(where, lambda db: db.execute("alter table added add unique (x) deferrable initially deferred"))

    with Runner(PostgresStore(where, schema=schema)) as runner:
        assert runner.start(Workflow("one", add), 1).result(60) == 2
        with pytest.raises(RunFailed, match="UniqueViolation"):
            runner.start(Workflow("two", add), 1).result(60)
    assert added(where) == [1]


def test_a_step_that_commits_by_itself_has_failed(where: str, schema: str) -> None:
    @step
    async def commits(x: int, tx: Any = transaction()) -> int:
        await tx.execute("commit")
        return x

    with Runner(PostgresStore(where, schema=schema)) as runner, pytest.raises(RunFailed, match="by itself"):
        runner.start(Workflow("commits", commits), 1).result(60)


def test_a_timeout_rolls_back(where: str, schema: str) -> None:
    @step(timeout=0.5)
    async def slow(x: int, tx: Any = transaction()) -> int:
        await tx.execute("insert into added values ($1)", x)
        await tx.execute("select pg_sleep(60)")
        return x

    with Runner(PostgresStore(where, schema=schema)) as runner:
        with pytest.raises(RunFailed, match="timeout"):
            runner.start(Workflow("slow", slow), 1).result(60)
        assert runner.start(Workflow("next", add), 2).result(60) == 3
    assert added(where) == [2]


def test_an_attempt_whose_connection_was_lost_is_made_again(where: str, schema: str) -> None:
    attempts: list[int] = []

    @step
    async def unlucky(x: int, tx: Any = transaction()) -> int:
        attempts.append(current().attempt)
        await tx.execute("insert into added values ($1)", x)
        if len(attempts) == 1:
            await tx.execute("select pg_terminate_backend(pg_backend_pid())")
        return x

    with Runner(PostgresStore(where, schema=schema)) as runner:
        assert runner.start(Workflow("unlucky", unlucky), 1).result(60) == 1
    assert attempts == [1, 1]
    assert added(where) == [1]


def test_an_attempt_whose_connection_was_lost_before_its_commit_is_made_again(where: str, schema: str) -> None:
    attempts: list[int] = []

    async def main() -> None:
        @step
        async def unlucky(x: int, tx: Any = transaction()) -> int:
            attempts.append(current().attempt)
            await tx.execute("insert into added values ($1)", x)
            if len(attempts) == 1:
                pid = await tx.fetchval("select pg_backend_pid()")
                ended = "select pg_terminate_backend($1)"
                await asyncio.to_thread(asked, where, lambda db: db.execute(ended, pid))
                while tx._con is not None:  # noqa: ASYNC110 - the pool decides when it takes what was closed
                    await asyncio.sleep(0.01)
            return x

        async with asyncio.timeout(60), AsyncRunner(PostgresStore(where, schema=schema)) as runner:
            assert await (await runner.start(Workflow("unlucky", unlucky), 1)).result(30) == 1

    asyncio.run(main())  # the runner can be closed: nothing of the first attempt is waited for
    assert attempts == [1, 1]
    assert added(where) == [1]


def test_a_run_that_another_worker_has_taken_keeps_nothing_of_the_first(where: str, schema: str) -> None:
    async def main() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        @step
        async def held(x: int, tx: Any = transaction()) -> int:
            await tx.execute("insert into added values ($1)", x)
            begun.set()
            await go_on.wait()
            return x

        async with AsyncRunner(PostgresStore(where, schema=schema)) as runner:
            handle = await runner.start(Workflow("held", held), 1)
            await begun.wait()
            async with PostgresStore(where, schema=schema) as other:
                table = f"{other._statements.schema}.weft_runs"
                change = f"update {table} set epoch = epoch + 1"  # noqa: S608 - of this test alone
                await other._ask(lambda db, _: db.execute(change))
            go_on.set()
            with pytest.raises(Exception, match="another owner"):
                await handle.result(60)

    asyncio.run(main())
    assert added(where) == []


@pytest.mark.parametrize("is_made", [True, False])
def test_a_commit_in_doubt_is_decided_by_the_log(where: str, schema: str, is_made: bool) -> None:
    async def main() -> None:
        store = PostgresStore(where, schema=schema)
        begin, faults = store.begin, [ConnectionResetError("the answer was lost")]

        async def begun() -> Any:
            opened = await begin()
            commit = opened.commit

            async def committed(append: Any) -> Any:
                answer = await commit(append) if is_made or not faults else opened.abandon()
                if faults:
                    raise faults.pop()
                return answer

            opened.commit = committed  # type: ignore[method-assign]
            return opened

        store.begin = begun  # type: ignore[method-assign]
        async with AsyncRunner(store) as runner:
            assert await (await runner.start(Workflow("one", add), 1)).result(60) == 2

    asyncio.run(main())
    assert added(where) == [1]


# -- kill -9 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "time"), [pytest.param(*kill, marks=() if kill in QUICK else pytest.mark.slow) for kill in KILLS]
)
def test_a_process_that_is_killed_at_any_point_leaves_rows_and_events_that_agree(
    where: str, schema: str, point: str, time: int
) -> None:
    killed = run(where, schema, point, time)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert Counter(component for component, _ in rows(where).elements()) == completions(where, schema)

    resumed = run(where, schema)
    assert (resumed.returncode, resumed.stdout) == (0, "3\n"), resumed.stderr
    written = rows(where)
    assert set(written.values()) == {1}
    assert written.total() == transacting.EXPECTED
    assert Counter(component for component, _ in written) == completions(where, schema)
