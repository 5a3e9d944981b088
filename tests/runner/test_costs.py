"""The cost of a step wherever it runs: commits, statements, bytes and events.  Microseconds are in benchmarks/."""

from __future__ import annotations

import asyncio
import functools
import operator
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from weft import AsyncRunner, Workflow, step
from weft.core.events import InputReceived, ReactionOccurred, WorkflowDefined
from weft.log import decode_segments
from weft.ports.store import Append
from weft.runner import every_n
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import RecordingStore

T = TypeVar("T")

STEPS, RUNS = 5, 128


def add_one(x: int) -> int:
    return x + 1


def chain(steps: int) -> Workflow:
    return Workflow("chain", functools.reduce(operator.rshift, [step(add_one, name=f"step_{i}") for i in range(steps)]))


@pytest.fixture(params=["inline", "thread"])
def executor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store() -> RecordingStore:
    return RecordingStore(MemoryStore())


def commits(store: RecordingStore) -> int:
    return store.writes[-1].batch


async def run_chain(store: Any, executor: str, steps: int, **options: Any) -> None:
    async with AsyncRunner(store, executor=executor, **options) as runner:
        handle = await runner.start(chain(steps), 0, id="run")

        assert await handle.result() == steps


# -- commits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 5, 50])
def test_a_chain_takes_one_commit_per_step_and_one_for_its_start(
    store: RecordingStore, executor: str, steps: int
) -> None:
    asyncio.run(run_chain(store, executor, steps))

    assert commits(store) == steps + 1


def test_steps_that_are_ready_together_inline_share_a_commit(store: RecordingStore) -> None:
    wide = Workflow("wide", step(add_one, name="root") >> [step(add_one, name=f"leaf_{i}") for i in range(10)])

    async def main() -> None:
        async with AsyncRunner(store, executor="inline") as runner:
            await (await runner.start(wide, 0, id="run")).wait()

    asyncio.run(main())

    assert commits(store) == 3  # the input, the root, the leaves


def test_runs_at_the_same_point_share_a_commit(store: RecordingStore) -> None:
    async def main() -> None:
        async with AsyncRunner(store, executor="inline") as runner:
            await run_many(runner)

    asyncio.run(main())

    assert len(store.writes) == RUNS * (STEPS + 1)
    assert commits(store) == STEPS + 1


async def run_many(runner: AsyncRunner) -> None:
    workflow = chain(STEPS)
    handles = await asyncio.gather(*(runner.start(workflow, i, id=f"run-{i}") for i in range(RUNS)))

    assert await asyncio.gather(*(handle.result() for handle in handles)) == [STEPS + i for i in range(RUNS)]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("every_cycle", 51), (every_n(10), 6), ("on_complete", 2), ("manual", 2)],
    ids=str,
)
def test_a_strategy_that_promises_less_commits_less(store: RecordingStore, strategy: Any, expected: int) -> None:
    asyncio.run(run_chain(store, "inline", 50, checkpoint=strategy))

    assert commits(store) == expected  # of a manual one: the start, and closing the runner


def test_waiting_and_looking_write_nothing(store: RecordingStore) -> None:
    async def main() -> tuple[int, int]:
        async with AsyncRunner(store) as runner:
            handle = await runner.start(chain(STEPS), 0, id="run")
            await handle.wait()
            before = len(store.writes)
            for ask in (handle.wait, handle.result, handle.results, handle.status, handle.log):
                await ask()
            return before, len(store.writes)

    before, after = asyncio.run(main())

    assert before == after == STEPS + 1


# -- rounds of the loop --------------------------------------------------------------------------


def rounds_of(store: Any, steps: int) -> int:
    """Return how often the event loop comes round while a chain runs inline."""

    async def main() -> int:
        rounds = 0
        async with AsyncRunner(store, executor="inline") as runner:
            run = asyncio.create_task(result_of(runner, steps))
            while not run.done():
                rounds += 1
                await asyncio.sleep(0)
        return rounds

    return asyncio.run(main())


async def result_of(runner: AsyncRunner, steps: int) -> Any:
    return await (await runner.start(chain(steps), 0, id="run")).result()


def test_a_lone_run_goes_on_without_waiting_for_the_loop() -> None:
    rounds = rounds_of(MemoryStore(), 400)

    assert rounds < 200  # less than one for two steps


def test_a_run_that_never_waits_leaves_the_loop_to_others_now_and_then() -> None:
    rounds = rounds_of(MemoryStore(), 400)

    assert rounds > 40  # at least one for ten steps


# -- events and bytes ----------------------------------------------------------------------------


def test_a_step_is_one_event(store: RecordingStore, executor: str) -> None:
    asyncio.run(run_chain(store, executor, STEPS))

    start, *steps = [events(write.append) for write in store.writes]
    assert start == [WorkflowDefined, InputReceived]
    assert steps == [[ReactionOccurred]] * STEPS


def events(append: Append) -> list[type]:
    return [type(event) for event in decode_segments([append.body], definitions=append.definitions, facts={})]


def test_a_step_that_does_nothing_takes_at_most_120_bytes_of_log(store: RecordingStore, executor: str) -> None:
    asyncio.run(run_chain(store, executor, 300))

    sizes = [len(write.append.body) for write in store.writes[1:]]
    assert max(sizes) <= 120


def test_the_definition_is_written_once_per_run_and_stored_once(tmp_path: Path) -> None:
    store = RecordingStore(SQLiteStore(tmp_path / "runs.db"))

    async def main() -> int:
        async with AsyncRunner(store, executor="inline") as runner:
            await run_many(runner)
            opened = store.inner._opened
            return (await opened.writer.call(lambda db: db.execute("select count(*) from definitions").fetchone()))[0]

    stored = asyncio.run(main())

    assert [bool(write.append.definitions) for write in store.writes].count(True) == RUNS
    assert stored == 1


# -- statements ----------------------------------------------------------------------------------


def traced(store: SQLiteStore, act: Callable[[AsyncRunner], Awaitable[T]]) -> list[str]:
    """
    Return the statements that the writer executes while a runner does *act*.

    What a writer does when it has nothing else to do is left out: it looks for unneeded values, which is done before,
    and empties the log, which only has pragmas.
    """
    statements: list[str] = []

    async def main() -> None:
        async with AsyncRunner(store, executor="inline") as runner:
            opened = store._opened
            assert opened is not None
            writer = opened.writer

            def begin(db: sqlite3.Connection) -> None:
                writer._clean(db)
                db.set_trace_callback(statements.append)

            await writer.call(begin)
            await act(runner)
            await writer.call(lambda db: db.set_trace_callback(None))

    asyncio.run(main())
    return [statement.lower() for statement in statements if not statement.lower().startswith("pragma")]


def test_a_lone_step_is_one_statement(tmp_path: Path) -> None:
    async def act(runner: AsyncRunner) -> None:
        await (await runner.start(chain(50), 0, id="run")).result()

    statements = traced(SQLiteStore(tmp_path / "runs.db"), act)

    alone = list(between_transactions(statements))
    assert len(alone) == 49  # the last step also says that the run is idle
    assert all(statement.startswith("insert into segments") for statement in alone)


def between_transactions(statements: Sequence[str]) -> Iterator[str]:
    """Yield those that are outside of any transaction."""
    inside = False
    for statement in statements:
        if statement.startswith("begin"):
            inside = True
        elif statement.startswith(("commit", "rollback")):
            inside = False
        elif not inside:
            yield statement


def test_many_steps_take_a_fraction_of_a_statement_each(tmp_path: Path) -> None:
    statements = traced(SQLiteStore(tmp_path / "runs.db"), run_many)

    assert sum(statement.startswith("commit") for statement in statements) <= STEPS + 1
    assert len(statements) <= 0.1 * RUNS * STEPS
