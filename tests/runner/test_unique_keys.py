"""Unique keys of runs in a runner: of the unfinished runs of a workflow, one has a key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Workflow, step, wait_for
from weft.errors import InvalidOption, RunExists, RunFailed, UniqueKeyTaken
from weft.stores import MemoryStore, SQLiteStore

BROKEN = {"is": True}


@step
def charge(x: int) -> int:
    if BROKEN["is"]:
        raise ValueError("not now")
    return x


waiting = Workflow("orders", wait_for("paid"))
other = Workflow("others", wait_for("paid"))
failing = Workflow("payments", charge)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")


def on(store: Any, act: Callable[[AsyncRunner], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30), AsyncRunner(store, executor="inline") as runner:
            await act(runner)

    asyncio.run(main())


def test_a_second_start_with_the_key_of_an_unfinished_run_is_that_run_or_refused(store: Any) -> None:
    async def act(runner: AsyncRunner) -> None:
        first = await runner.start(waiting, 1, id="a", unique="k")

        assert (await runner.start(waiting, 1, unique="k")).id == "a"
        assert (await runner.start(waiting, 2, unique="k", if_exists="return")).id == "a"
        with pytest.raises(UniqueKeyTaken, match=r"'b' cannot .* 'k': run 'a' of 'orders' has it, with another input"):
            await runner.start(waiting, 2, id="b", unique="k")
        with pytest.raises(UniqueKeyTaken):
            await runner.start(waiting, 1, unique="k", if_exists="error")
        with pytest.raises(UniqueKeyTaken):
            await runner.start(waiting, 1, unique="k", if_exists="restart")
        assert (await runner.start(other, 2, id="o", unique="k")).id == "o"
        with pytest.raises(RunExists):
            await runner.start(waiting, 2, id="a", unique="another")
        assert len(await runner.runs()) == 2

        await runner.signal("a", "paid", True)
        assert await first.result() is True
        assert (await runner.start(waiting, 2, id="b", unique="k")).id == "b"

    on(store, act)


def test_a_key_is_text_and_the_store_has_to_keep_it(store: Any) -> None:
    async def act(runner: AsyncRunner) -> None:
        with pytest.raises(InvalidOption, match="unique="):
            await runner.start(waiting, 1, unique="")
        with pytest.raises(InvalidOption, match="1 for 2 inputs; use one key for each"):
            await runner.start_many(waiting, [1, 2], unique=["k"])
        with pytest.raises(InvalidOption, match="use a list of keys"):
            await runner.start_many(waiting, [1, 2], unique="kk")
        assert await runner.runs() == []

    on(store, act)


def test_many_starts_have_a_key_each(store: Any) -> None:
    async def act(runner: AsyncRunner) -> None:
        handles = await runner.start_many(waiting, [1, 2, 1], unique=["k", "l", "k"])

        assert handles[0].id == handles[2].id
        assert handles[1].id != handles[0].id
        assert len(await runner.runs()) == 2
        with pytest.raises(UniqueKeyTaken) as raised:
            await runner.start_many(waiting, [7, 8], ids=["x", "y"], unique=["k", "m"])
        assert raised.value.holder == handles[0].id
        assert (await runner.find("y")).status == "waiting"

    on(store, act)


def test_a_failed_run_frees_its_key_and_takes_it_again_when_it_is_retried(store: Any) -> None:
    BROKEN["is"] = True

    async def act(runner: AsyncRunner) -> None:
        with pytest.raises(RunFailed):
            await (await runner.start(failing, 1, id="a", unique="k")).result()
        with pytest.raises(RunFailed):
            await (await runner.start(failing, 2, id="b", unique="k")).result()

        BROKEN["is"] = False
        assert await (await runner.retry("a")).result() == 1

    on(store, act)


def test_a_retry_is_refused_while_another_run_has_the_key(store: Any) -> None:
    BROKEN["is"] = True

    async def act(runner: AsyncRunner) -> None:
        with pytest.raises(RunFailed):
            await (await runner.start(failing, 1, id="a", unique="k")).result()
        await runner.start(failing, id="b", unique="k")  # open, without input

        with pytest.raises(UniqueKeyTaken, match="'a' cannot have the unique key 'k': run 'b' of 'payments' has it"):
            await runner.retry("a")

        assert (await runner.find("a")).status == "failed"
        await runner.cancel("b")
        BROKEN["is"] = False
        assert await (await runner.retry("a")).result() == 1

    on(store, act)


def test_the_run_that_continues_another_has_its_key(store: Any) -> None:
    async def act(runner: AsyncRunner) -> None:
        await runner.start(waiting, id="a", unique="k")

        await runner.continue_as_new("a")

        with pytest.raises(UniqueKeyTaken) as raised:
            await runner.start(waiting, 1, unique="k")
        assert raised.value.holder == "a~2"

    on(store, act)


def test_a_key_outlives_the_process(tmp_path: Path) -> None:
    async def begin(runner: AsyncRunner) -> None:
        await runner.start(waiting, 1, id="a", unique="k")

    async def again(runner: AsyncRunner) -> None:
        with pytest.raises(UniqueKeyTaken):
            await runner.start(waiting, 2, unique="k")

    on(SQLiteStore(tmp_path / "runs.db"), begin)
    on(SQLiteStore(tmp_path / "runs.db"), again)
