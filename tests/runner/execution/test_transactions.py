"""Transactional steps on SQLite: the rows of a step and its event are one commit, whatever becomes of the attempt."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Policy, Runner, Workflow, condition, current, each, step, transaction
from weft.errors import (
    InvalidComponent,
    InvalidPolicy,
    NoRun,
    NotInTransaction,
    NoTransactions,
    OwnershipLost,
    RunFailed,
    RunParked,
    TransactionEnded,
    TransactionTimeout,
)
from weft.stores import MemoryStore, SQLiteStore

_HEAD = (
    "select max((place & 4294967295) + count - 1) from segments where place >> 32 = (select key from runs where id = ?)"
)


@step
def add(x: int, tx: Any = transaction()) -> int:
    tx.execute("insert into added values (?)", (x,))
    return x + 1


@step
async def add_async(x: int, tx: Any = transaction()) -> int:
    tx.execute("insert into added values (?)", (x,))
    await asyncio.sleep(0)
    return x + 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a table of the application."""
    path = tmp_path / "runs.db"
    with Runner(str(path)):
        pass
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table added (x)")
    return path


@pytest.fixture
def runner(path: Path) -> Iterator[Runner]:
    with Runner(str(path)) as runner:
        yield runner


def added(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as db:
        return [x for (x,) in db.execute("select x from added order by x")]


def test_plain_and_coroutine_functions_write_in_it(runner: Runner, path: Path) -> None:
    assert runner.start(Workflow("both", add >> add_async), 1).result(60) == 3
    assert added(path) == [1, 2]


def test_a_map_commits_one_element_after_the_other(runner: Runner, path: Path) -> None:
    runner.start(Workflow("wide", each(add)), list(range(50))).wait(60)

    assert added(path) == list(range(50))


@pytest.mark.parametrize("checkpoints", ["pipelined", "on_complete", "manual"])
def test_what_it_depends_on_is_durable_under_every_strategy(runner: Runner, path: Path, checkpoints: str) -> None:
    seen: list[int] = []

    @step
    def look(x: int, tx: Any = transaction()) -> int:
        seen.append(tx.execute(_HEAD, (current().run_id,)).fetchone()[0])
        tx.execute("insert into added values (?)", (x,))
        return x

    flow = Workflow("late", step(lambda x: x + 1, name="before") >> look >> step(lambda x: x, name="after"))

    assert runner.start(flow, 1, checkpoint=checkpoints).result(60) == 2
    assert seen == [3]  # the definition, the input, what came before
    assert added(path) == [2]


def test_a_step_that_fails_rolls_back_and_follows_its_policy(runner: Runner, path: Path) -> None:
    @step(max_retries=2, base_delay=0.0)
    def flaky(x: int, tx: Any = transaction()) -> int:
        tx.execute("insert into added values (?)", (current().attempt,))
        if current().attempt < 3:
            raise ValueError("not yet")
        return x

    assert runner.start(Workflow("flaky", flaky), 1).result(60) == 1
    assert added(path) == [3]


def test_a_value_that_cannot_be_stored_rolls_back(runner: Runner, path: Path) -> None:
    @step
    def odd(x: int, tx: Any = transaction()) -> object:
        tx.execute("insert into added values (?)", (x,))
        return threading.Lock()

    with pytest.raises(RunFailed):
        runner.start(Workflow("odd", odd), 1).result(60)
    assert added(path) == []


def test_a_fallback_has_no_transaction(runner: Runner, path: Path) -> None:
    @step
    def fails(x: int, tx: Any = transaction()) -> int:
        tx.execute("insert into added values (?)", (x,))
        raise ValueError("no")

    flow = Workflow("spare", fails).with_policies([("fails", Policy(fallback=lambda runnable, _: runnable.using(abs)))])

    assert runner.start(flow, -5).result(60) == 5
    assert added(path) == []


def test_a_timeout_rolls_back_and_what_is_left_of_the_attempt_can_write_nothing(runner: Runner, path: Path) -> None:
    go_on, late = threading.Event(), list[BaseException]()
    ended = threading.Event()

    @step(timeout=0.2)
    def slow(x: int, tx: Any = transaction()) -> int:
        tx.execute("insert into added values (?)", (x,))
        go_on.wait(60)
        try:
            tx.execute("insert into added values (?)", (x,))
        except TransactionEnded as error:
            late.append(error)
        ended.set()
        return x

    with pytest.raises(RunFailed, match="timeout"):
        runner.start(Workflow("slow", slow), 1).result(60)
    go_on.set()
    assert ended.wait(60)
    assert len(late) == 1
    assert added(path) == []


def test_a_step_has_it_only_for_a_time(path: Path) -> None:
    @step
    def long(x: int, tx: Any = transaction()) -> int:
        tx.execute("insert into added values (?)", (x,))
        while True:  # until its time is up
            tx.execute("select count(*) from added")

    with Runner(SQLiteStore(path, transaction_timeout=0.1)) as runner:
        with pytest.raises(RunFailed) as failed:
            runner.start(Workflow("long", long), 1).result(60)
        assert failed.value.__cause__ is not None
        assert isinstance(failed.value.__cause__.__cause__, TransactionTimeout)
        assert runner.start(Workflow("next", add), 2).result(60) == 3
    assert added(path) == [2]


def test_cancelling_the_run_rolls_back(path: Path) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        @step
        async def stuck(x: int, tx: Any = transaction()) -> int:
            tx.execute("insert into added values (?)", (x,))
            begun.set()
            await asyncio.Event().wait()
            return x

        async with AsyncRunner(str(path)) as runner:
            handle = await runner.start(Workflow("stuck", stuck), 1)
            await begun.wait()
            await runner.cancel(handle.id)
            assert (await runner.find(handle.id)).status == "cancelled"

    asyncio.run(main())
    assert added(path) == []


def test_an_append_that_is_refused_rolls_back(path: Path) -> None:
    async def main() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        @step
        async def held(x: int, tx: Any = transaction()) -> int:
            tx.execute("insert into added values (?)", (x,))
            begun.set()
            await go_on.wait()
            return x

        store = SQLiteStore(path)
        async with AsyncRunner(store) as runner:
            handle = await runner.start(Workflow("held", held), 1)
            await begun.wait()
            assert store._opened is not None
            appender = store._opened.writer._appender
            assert appender is not None
            appender.append_within = lambda *_: OwnershipLost(handle.id, 1, 2)  # type: ignore[method-assign]
            go_on.set()
            with pytest.raises(RunParked, match="another owner"):
                await handle.result(60)

    asyncio.run(main())
    assert added(path) == []


def test_a_commit_that_is_reported_as_failed_and_was_made_is_found(path: Path) -> None:
    assert _after_commit(path, is_made=True) == [1]


def test_a_commit_that_has_failed_is_made_again_with_its_step(path: Path) -> None:
    assert _after_commit(path, is_made=False) == [1]


def _after_commit(path: Path, *, is_made: bool) -> list[int]:
    """Return what was added by a step whose first commit raises."""

    async def main() -> None:
        store = SQLiteStore(path)
        begin, faults = store.begin, [OSError("the answer was lost")]

        async def begun() -> Any:
            transaction = await begin()
            commit = transaction.commit

            async def committed(append: Any) -> Any:
                answer = await commit(append) if is_made or not faults else transaction.abandon()
                if faults:
                    raise faults.pop()
                return answer

            transaction.commit = committed  # type: ignore[method-assign]
            return transaction

        store.begin = begun  # type: ignore[method-assign]
        async with AsyncRunner(store) as runner:
            assert await (await runner.start(Workflow("one", add), 1)).result(60) == 2

    asyncio.run(main())
    return added(path)


def test_it_cannot_be_ended_or_used_for_other_files_or_the_tables_of_the_store(runner: Runner, path: Path) -> None:
    forbidden = ["commit", "rollback", "begin", "attach ':memory:' as other", "delete from runs", "drop table runs"]
    forbidden += ["pragma user_version = 99", "alter table runs add column x", "create index i on runs (id)"]
    allowed = ["savepoint s", "release s", "pragma table_info(added)", "create table other (x)", "select * from runs"]
    refused: list[str] = []

    @step
    def tries(x: int, tx: Any = transaction()) -> int:
        for statement in (*forbidden, *allowed):
            try:
                tx.execute(statement)
            except TransactionEnded:
                refused.append(statement)
        tx.execute("insert into added values (?)", (x,))
        return x

    assert runner.start(Workflow("tries", tries), 1).result(60) == 1
    assert refused == forbidden
    assert added(path) == [1]


def test_a_step_that_has_the_only_transaction_cannot_ask_the_store_for_more(runner: Runner) -> None:
    @step
    def starts(x: int, tx: Any = transaction()) -> int:
        with pytest.raises(NotInTransaction):
            current().start_child(Workflow("child", step(lambda x: x, name="same")), x)
        with pytest.raises(NotInTransaction):
            current().stream("items")
        return x

    assert runner.start(Workflow("starts", starts), 1).result(60) == 1


def test_a_stream_beside_it_is_stored_first(runner: Runner, path: Path) -> None:
    @step
    def talks(x: int) -> int:
        for i in range(20):
            current().stream("words").write(i)
        return x

    flow = Workflow("beside", talks, add)

    handle = runner.start(flow, 1, id="r")
    handle.wait(60)
    assert [item.value for item in runner.stream("r", "words")] == list(range(20))
    assert added(path) == [1]


def test_in_memory_there_is_none(tmp_path: Path) -> None:
    flow = Workflow("both", add >> add_async)

    with pytest.raises(NoTransactions, match=r"'add' .* Runner\(\"runs.db\"\)"):
        flow.run(1)
    with pytest.raises(NoTransactions):
        asyncio.run(flow.arun(1))
    with Runner(MemoryStore()) as runner, pytest.raises(NoTransactions):
        runner.start(flow, 1)
    with pytest.raises(NoRun, match="transaction"):
        add(1)
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("create table added (x)")
        assert add(1, tx=db) == 2


def test_only_steps_can_have_it() -> None:
    @condition
    def asks(x: int, tx: Any = transaction()) -> bool:
        return x > 0

    with pytest.raises(InvalidComponent, match="only a step"):
        Workflow("asked", asks >> step(lambda x: x, name="same")).run(1)


@pytest.mark.parametrize("policy", [Policy(executor="process"), Policy(queue="others")])
def test_a_policy_cannot_send_it_to_another_process(runner: Runner, policy: Policy) -> None:
    with pytest.raises(InvalidPolicy, match="a step with a transaction runs"):
        runner.start(Workflow("elsewhere", add).with_policies([("add", policy)]), 1)


@pytest.mark.parametrize("executor", ["thread", "inline"])
def test_it_has_its_transaction_in_the_middle_of_a_chain(runner: Runner, path: Path, executor: str) -> None:
    one, two, three = (step(lambda x: x + 1, name=name) for name in ("one", "two", "three"))

    assert runner.start(Workflow("chain", one >> two >> add >> three), 1, executor=executor).result(60) == 5
    assert added(path) == [3]


def test_a_definition_with_it_is_stored_and_found_again() -> None:
    flow = Workflow("both", add >> add_async)
    again = Workflow.from_dict(flow.to_dict())

    assert again.hash == flow.hash
    assert again.compiled.transactional == ("add", "add_async")
