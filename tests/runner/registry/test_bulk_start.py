"""Many runs that are started at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from virtual_time import (
    Gate,
    GatedStore,
    SlowStore,
    double,
    rounds_until,
    runner_on,
    stored_log,
    until_nothing_moves,
    virtually,
)

from weft import AsyncRunner, Policy, Runner, Workflow, step
from weft.core.events import InputReceived
from weft.errors import (
    InvalidOption,
    InvalidPolicy,
    RunExists,
    RunnerClosed,
    RunOwned,
    StoreError,
    UnencodableValue,
)
from weft.policy import Value
from weft.ports.store import Append, LogStore
from weft.runner.registry import bulk_start
from weft.stores import MemoryStore, SQLiteStore
from weft.testing.wrapping import WrappedStore

failing = Workflow("failing", step(lambda x: 1 // x, name="divide"))


class _Batches(WrappedStore):
    """Notes which runs are created in each call."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.created: list[list[str]] = []

    async def append(self, appends: Any) -> Any:
        """Note the new runs among *appends*."""
        self.created.append([append.run for append in appends if append.create])
        return await super().append(appends)


def beginnings(store: _Batches) -> list[list[str]]:
    return [created for created in store.created if created]


# -- starting ------------------------------------------------------------------------------------


def test_each_input_has_a_run_and_handles_are_in_the_order_of_the_inputs(runner: Runner) -> None:
    handles = runner.start_many(double, [3, 1, 2], ids=["c", "a", "b"])

    assert [handle.id for handle in handles] == handles.ids == ["c", "a", "b"]
    assert handles.gather(timeout=10) == [6, 2, 4]
    assert [handle.result(timeout=10) for handle in handles] == [6, 2, 4]


def test_a_handle_is_one_of_the_handles_it_came_from(runner: Runner) -> None:
    handles = runner.start_many(double, [3, 1], ids=["c", "a"])

    assert handles[1] in handles
    assert handles[0] != handles[1]
    assert handles[0] == runner.start(double, 3, id="c")
    assert handles[0] != runner.resume("c"), "one is of an input, the other of the run"
    assert {*handles} == {*handles}


@virtually
async def test_one_object_that_is_changed_between_inputs_is_refused() -> None:
    def rows() -> Iterator[dict[str, int]]:
        row: dict[str, int] = {}
        for number in range(3):
            row["number"] = number
            yield row

    async with runner_on() as runner:
        with pytest.raises(InvalidOption, match=r"inputs\[1\] is the same object as inputs\[0\]"):
            await runner.start_many(Workflow("n", step(lambda row: row["number"], name="number")), rows())
        assert [each.id for each in await runner.runs()] == []


def test_one_object_may_be_the_input_of_several_runs(runner: Runner) -> None:
    row = {"number": 7}
    numbers = Workflow("n", step(lambda row: row["number"], name="number"))

    assert runner.start_many(numbers, [row, row]).gather(timeout=10) == [7, 7]


def test_without_ids_each_run_has_a_name_of_its_own(runner: Runner) -> None:
    handles = runner.start_many(double, range(5))

    assert len(set(handles.ids)) == len(handles) == 5
    assert sorted([each.id for each in runner.runs()]) == sorted(handles.ids)


def test_no_input_is_no_run(runner: Runner) -> None:
    assert runner.start_many(double, []).gather() == []


def test_a_part_of_the_handles_can_be_awaited_by_itself(runner: Runner) -> None:
    handles = runner.start_many(double, range(6), ids=[f"r{i}" for i in range(6)])

    assert handles[1:3].gather(timeout=10) == [2, 4]
    assert handles[-1].id == "r5"
    assert repr(handles[:2]) == "Handles(['r0', 'r1'])"


def test_options_hold_for_all_of_them(runner: Runner) -> None:
    told: list[str] = []
    policies = ((name, Policy(fallback=lambda *_: Value(-1))) for name in ["divide"])  # can be read once
    handles = runner.start_many(
        failing, [0, 0], on_complete=lambda run, _: told.append(run), policies=policies, deadline=60.0
    )

    assert handles.gather(timeout=10) == [-1, -1]
    assert sorted(told) == sorted(handles.ids)


@virtually
async def test_the_beginnings_of_a_slice_are_one_call_of_the_store() -> None:
    store = _Batches(MemoryStore())
    async with runner_on(store) as runner:
        handles = await runner.start_many(double, range(bulk_start.AT_ONCE))

        assert beginnings(store) == [handles.ids]


def test_the_beginnings_of_a_slice_are_one_transaction(tmp_path: Path) -> None:
    store = _Batches(SQLiteStore(tmp_path / "runs.db"))
    with Runner(store, executor="inline") as runner:
        handles = runner.start_many(double, range(bulk_start.AT_ONCE))

        assert beginnings(store) == [handles.ids]
        assert handles.gather(timeout=20) == [2 * i for i in range(bulk_start.AT_ONCE)]


@virtually
async def test_many_are_started_a_slice_at_a_time_and_other_runs_go_on_in_between() -> None:
    async with runner_on(MemoryStore()) as runner:
        started = asyncio.create_task(runner.start_many(double, range(20 * bulk_start.AT_ONCE)))
        await asyncio.sleep(0)
        other = await runner.start(double, 21)
        assert await other.result() == 42

        assert not started.done()
        assert len(await started) == 20 * bulk_start.AT_ONCE


@virtually
async def test_slices_grow_while_there_are_no_other_runs() -> None:
    store = _Batches(MemoryStore())
    async with runner_on(store) as runner:
        await runner.start_many(double, range(960))

    assert [len(each) for each in beginnings(store)] == [64, 128, 256, 256, 256]


@virtually
async def test_slices_stay_small_while_there_is_another_run() -> None:
    store = _Batches(MemoryStore())
    async with runner_on(store) as runner:
        await runner.start(double, id="other")
        await runner.start_many(double, range(256))

    assert [len(each) for each in beginnings(store)] == [1, 64, 64, 64, 64]


@virtually
async def test_slices_are_small_again_once_another_run_has_come() -> None:
    store = _Batches(MemoryStore())
    async with runner_on(store) as runner:
        started = asyncio.create_task(runner.start_many(double, range(64 + 128 + 64)))
        await rounds_until(lambda: len(beginnings(store)) == 2)
        await runner.start(double, id="other")
        await started

    sizes = [len([run for run in each if run != "other"]) for each in beginnings(store)]
    assert [size for size in sizes if size] == [64, 128, 64]


@virtually
async def test_inputs_are_read_in_slices_and_to_their_end_before_anything_is_started() -> None:
    rounds = 0

    async def count() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    async with runner_on(MemoryStore()) as runner:
        seen: list[tuple[int, int]] = []

        def inputs() -> Iterator[int]:
            for i in range(5_000):
                seen.append((rounds, len(list(runner._registry))))
                yield i

        counting = asyncio.create_task(count())
        handles = await runner.start_many(double, inputs())
        counting.cancel()

        assert len(handles) == 5_000
        assert {runs for _, runs in seen} == {0}
        assert len({passed for passed, _ in seen}) >= 4


# -- ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["a"], "more inputs than 1"),
        (["a", "b", "c"], "3 for 2 inputs"),
        (["a", "a"], r"ids\[1\]='a': this id is there twice"),
        (["a", ""], r"ids\[1\]=''"),
        (["a", 2], r"ids\[1\]=2"),
        ("ab", "use a list"),
    ],
)
def test_ids_that_do_not_fit_start_nothing(runner: Runner, ids: Any, said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        runner.start_many(double, [1, 2], ids=ids)

    assert [each.id for each in runner.runs()] == []


def test_the_same_id_again_is_the_same_run(runner: Runner) -> None:
    runner.start(double, 1, id="a").wait(timeout=10)

    again = runner.start_many(double, [1, 6], ids=["a", "b"])

    assert again.gather(timeout=10) == [2, 12]
    assert runner.start_many(double, [1, 6], ids=["a", "b"]).gather(timeout=10) == [2, 12]


def test_a_stored_id_is_the_same_run_and_the_others_are_new(store: LogStore, tmp_path: Path) -> None:
    if isinstance(store, MemoryStore):
        pytest.skip("a memory store does not outlive its runner")
    with Runner(store) as runner:
        runner.start(double, 1, id="b").wait(timeout=10)
    with Runner(SQLiteStore(tmp_path / "runs.db")) as runner:
        handles = runner.start_many(double, [5, 1, 7], ids=["a", "b", "c"])

        assert handles.gather(timeout=10) == [10, 2, 14]
        assert [len([e for e in handle.log() if isinstance(e, InputReceived)]) for handle in handles] == [1, 1, 1]


@virtually
async def test_an_id_that_is_being_started_by_another_caller_is_waited_for() -> None:
    async with runner_on(SlowStore(MemoryStore())) as runner:
        one = asyncio.create_task(runner.start(double, 1, id="a"))
        await until_nothing_moves()
        many = await runner.start_many(double, [1, 6], ids=["a", "b"])

        assert await many.gather() == [2, 12]
        await one


@virtually
async def test_two_callers_that_start_the_same_runs_get_the_same_runs() -> None:
    async with runner_on(SlowStore(MemoryStore())) as runner:
        ids = ["a", "b", "c"]
        one, two = await asyncio.gather(
            runner.start_many(double, [1, 2, 3], ids=ids), runner.start_many(double, [3, 2, 1], ids=reversed(ids))
        )

        assert await one.gather() == [2, 4, 6]
        assert await two.gather() == [6, 4, 2]


@virtually
async def test_a_run_of_another_process_is_the_same_run_among_those_that_are_started_together() -> None:
    async with MemoryStore() as store, runner_on(store, lasts=1.0) as other, runner_on(_Foreign(store)) as runner:
        await other.start(double, 2, id="b")

        handles = await runner.start_many(double, [1, 2, 3], ids=["a", "b", "c"])

        assert "b" not in runner
        assert await handles.gather() == [2, 4, 6]


@virtually
async def test_what_happens_to_ids_that_exist_can_be_said_for_all() -> None:
    async with runner_on(MemoryStore()) as runner:
        await (await runner.start(double, 1, id="b")).result()
        ids, wrong = ["a", "b"], cast("Any", "replace")

        with pytest.raises(RunExists, match="run 'b' exists already"):
            await runner.start_many(double, [1, 2], ids=ids, if_exists="error")
        assert await runner.result("a") == 2

        assert await (await runner.start_many(double, [1, 2], ids=ids, if_exists="return")).gather() == [2, 2]
        assert await (await runner.start_many(double, [3, 4], ids=ids, if_exists="restart")).gather() == [6, 8]
        with pytest.raises(InvalidOption, match="if_exists='replace'"):
            await runner.start_many(double, [3, 4], ids=ids, if_exists=wrong)


class _Foreign(WrappedStore):
    """Sees the runs of others as owned by a process that is alive."""

    async def acquire(self, run: str) -> Any:
        """Refuse it."""
        raise RunOwned(run, "another process")


@virtually
async def test_a_run_that_the_store_cannot_write_does_not_keep_the_others_from_being_started() -> None:
    async with runner_on(_Picky(MemoryStore())) as runner:
        with pytest.raises(StoreError, match="not this one") as caught:
            await runner.start_many(double, [1, 2, 3], ids=["a", "b", "c"])

        assert caught.value.__notes__ == ["1 of 3 runs could not be started: ['b']; the others are here"]
        assert runner.held == ["a", "c"]
        assert await runner.gather(["a", "c"]) == [2, 6]


class _Picky(WrappedStore):
    """Refuses the run b."""

    async def append(self, appends: Any) -> Any:
        """Refuse b, and take the others."""
        given: list[Append] = [append for append in appends if append.run != "b"]
        answers = iter(await super().append(given))
        return [StoreError("not this one") if append.run == "b" else next(answers) for append in appends]


# -- what is refused before anything is started -----------------------------------------------------


def test_an_input_that_is_not_data_starts_nothing_and_the_error_says_which_it_is(runner: Runner) -> None:
    with pytest.raises(UnencodableValue, match=r"inputs\[2\]"):
        runner.start_many(double, [1, {"a": [2]}, {"a": [object()]}, 4])

    assert [each.id for each in runner.runs()] == []


def test_an_error_of_the_iterable_starts_nothing(runner: Runner) -> None:
    def inputs() -> Iterator[int]:
        yield 1
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        runner.start_many(double, inputs())

    assert [each.id for each in runner.runs()] == []


def test_a_policy_that_cannot_be_kept_starts_nothing(runner: Runner) -> None:
    with pytest.raises(InvalidPolicy):
        runner.start_many(double, [1, 2], policies=[("double", Policy(executor="nowhere"))])

    assert [each.id for each in runner.runs()] == runner.held == []


def test_large_inputs_are_stored_as_they_were(runner: Runner) -> None:
    same = Workflow("same", step(len, name="same"))
    inputs = [[{"n": i}] * 3_000 for i in range(3)]

    assert runner.start_many(same, inputs).gather(timeout=30) == [3_000] * 3


# -- callers that are cancelled, and runners that are closed --------------------------------------------


@asynccontextmanager
async def held_runner() -> AsyncIterator[tuple[GatedStore, Gate, AsyncRunner]]:
    """Yield a runner whose store holds the first append, with its gate."""
    store = GatedStore(MemoryStore())
    async with runner_on(store) as runner:
        yield store, store.hold("append", times=1), runner


@virtually
async def test_a_caller_that_is_cancelled_leaves_its_slice_to_be_started_and_starts_no_more() -> None:
    async with held_runner() as (store, gate, runner):
        ids = [f"r{i}" for i in range(2 * bulk_start.AT_ONCE)]
        started = asyncio.create_task(runner.start_many(double, range(len(ids)), ids=ids))
        await gate.reached.wait()
        started.cancel()
        with pytest.raises(asyncio.CancelledError):
            await started
        gate.open()

        first = ids[: bulk_start.AT_ONCE]
        assert await runner.gather(first) == [2 * i for i in range(bulk_start.AT_ONCE)]
        assert sorted(record.id for record in await store.inner.list()) == sorted(first)


@virtually
async def test_runs_whose_starter_was_cancelled_are_locked_until_the_store_has_answered() -> None:
    async with held_runner() as (_, gate, runner):
        started = asyncio.create_task(runner.start_many(double, [1, 2], ids=["a", "b"]))
        await gate.reached.wait()
        started.cancel()
        asks = asyncio.create_task(runner.status("a"))
        await until_nothing_moves()
        assert not asks.done()
        gate.open()

        assert await asks in ("running", "idle")
        assert await runner.gather(["a", "b"]) == [2, 4]


@virtually
async def test_a_caller_that_is_cancelled_leaves_no_run_that_turns_out_to_exist() -> None:
    async with MemoryStore() as inner:
        async with runner_on(inner) as runner:
            await (await runner.start(double, 1, id="a")).wait()
        store = GatedStore(inner)
        async with runner_on(store, lasts=60.0) as runner:
            gate = store.hold("append", times=1)
            started = asyncio.create_task(runner.start_many(double, [5, 6], ids=["a", "b"]))
            await gate.reached.wait()
            started.cancel()
            gate.open()
            await until_nothing_moves()

            assert runner.held == ["b"]
            assert await runner.gather(["b"]) == [12]


@virtually
async def test_a_task_of_the_runner_that_other_code_cancels_is_gone_on_with_by_another() -> None:
    async with held_runner() as (_, gate, runner):
        started = asyncio.create_task(runner.start_many(double, [1, 2], ids=["a", "b"]))
        await gate.reached.wait()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            if "_decide" in repr(task.get_coro()):
                task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await started
        gate.open()

        assert await runner.gather(["a", "b"]) == [2, 4]


@virtually
async def test_a_runner_that_is_closed_midway_has_stored_a_whole_number_of_slices() -> None:
    async with MemoryStore() as inner:
        store = GatedStore(inner)
        runner = await runner_on(store).open()
        gate = store.hold("append", times=1)
        ids = [f"r{i}" for i in range(2 * bulk_start.AT_ONCE)]
        started = asyncio.create_task(runner.start_many(double, range(len(ids)), ids=ids))
        await gate.reached.wait()
        closes = asyncio.create_task(runner.close())
        await until_nothing_moves()
        gate.open()
        await closes

        with pytest.raises(RunnerClosed):
            await started
        assert {record.id for record in await inner.list(limit=1_000)} == set(ids[: bulk_start.AT_ONCE])
        assert len(await stored_log(inner, "r0")) >= 2


@virtually
async def test_a_closed_runner_starts_nothing() -> None:
    runner = AsyncRunner()
    with pytest.raises(RunnerClosed):
        await runner.start_many(double, [1])
    with pytest.raises(RunnerClosed):
        await runner.gather(["a"])
