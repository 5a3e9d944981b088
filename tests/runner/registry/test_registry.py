"""Runs that come, go and are forgotten, and several callers of one run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from callers import cut_off, ended, started
from virtual_time import GatedStore, SlowStore, double, keys_of, runner_on, stored_log, until_nothing_moves, virtually

from weft import AsyncRunner, Run, Workflow, step
from weft.errors import OwnershipLost, RunExists, RunParked
from weft.log.messages import decode_message
from weft.stores import MemoryStore
from weft.testing import Fault, FaultyStore
from weft.testing.wrapping import WrappedStore


@virtually
async def test_a_run_that_is_resumed_while_it_is_stopped_is_stopped_and_then_resumed() -> None:
    async with runner_on(SlowStore(MemoryStore()), lasts=3.0) as runner:
        await runner.start(double, 1, id="a", open=True)

        stops = asyncio.create_task(runner.stop("a"))
        await asyncio.sleep(0.1)
        handle = await runner.resume("a", workflow=double)
        await stops

        assert runner.held == ["a"]
        assert (await handle.wait()).values("double") == [2]


@virtually
async def test_a_second_stop_does_not_throw_out_what_was_resumed_after_the_first() -> None:
    store = SlowStore(MemoryStore())
    async with runner_on(store, lasts=3.0) as runner:
        await runner.start(double, 1, id="a", open=True)

        stops = [asyncio.create_task(runner.stop("a")) for _ in range(2)]
        await asyncio.sleep(0.1)
        await runner.resume("a", workflow=double)
        await asyncio.gather(*stops)

        assert runner.held == ["a"]
        assert (await store.find("a")).owner is not None


@virtually
async def test_a_run_that_is_started_while_it_is_deleted_is_a_new_one() -> None:
    async with runner_on(SlowStore(MemoryStore()), lasts=3.0) as runner:
        await runner.start(double, 1, id="a")

        deletes = asyncio.create_task(runner.delete("a"))
        await asyncio.sleep(0.1)
        handle = await runner.start(double, 5, id="a")
        await deletes

        assert (await handle.wait()).values("double") == [10]


@virtually
async def test_a_run_that_another_process_has_taken_over_can_be_let_go_of() -> None:
    async with MemoryStore() as store, runner_on(store, lasts=1.0) as one, runner_on(WrappedStore(store)) as other:
        handle = await one.start(double, 1, id="a", open=True)
        await other.resume("a", workflow=double)
        with pytest.raises(RunParked):
            await handle.wait()
        with pytest.raises(OwnershipLost):
            await one.checkpoint("a")

        await one.stop("a")

        await handle.send(2)
        assert [each.kind for each in await store.messages(["a"])] == ["input"]
        assert (await other.wait("a")).values("double") == [2]


@virtually
async def test_a_run_that_turns_out_to_exist_while_others_ask_for_it_was_never_here() -> None:
    store = SlowStore(MemoryStore())
    async with store:
        async with runner_on(store) as runner:
            await (await runner.start(double, 1, id="a", open=True)).wait()

        async with runner_on(store) as runner:
            starts = asyncio.create_task(runner.start(double, id="a", if_exists="error"))
            await asyncio.sleep(0.1)
            asks = [runner.set_policies("a", []), runner.send("a", 2), runner.cancel("a"), runner.get("a")]
            told: list[Any] = await asyncio.gather(*asks, return_exceptions=True)

            with pytest.raises(RunExists):
                await starts
            assert [isinstance(error, BaseException) for error in told[:3]] == [False] * 3
            assert sorted(each.kind for each in await store.messages(["a"])) == ["cancel", "input", "policies"]
            assert told[3].values("double") == [2], "reading needs no owner"


@virtually
async def test_a_caller_that_asks_for_a_run_that_is_being_created_is_served_when_it_is() -> None:
    async with runner_on(SlowStore(MemoryStore())) as runner:
        starts = asyncio.create_task(runner.start(double, id="a"))
        await asyncio.sleep(0.1)

        await runner.send("a", 2)
        await starts

        assert (await runner.wait("a")).values("double") == [4]


@pytest.mark.parametrize("patience", [0.25, 0.75, 1.25, 1.75, 2.25, 2.75])
@pytest.mark.parametrize("call", ["resume", "resume_all"])
@virtually
async def test_a_caller_that_is_cancelled_while_a_run_comes_in_leaves_it_whole(call: str, patience: float) -> None:
    """The store had given the run to this runner, which neither had it nor gave it back until it was closed."""
    store = MemoryStore()
    async with runner_on(store, lasts=60.0, grace=0.0) as runner:
        await runner.start(double, 5, id="c", open=True)

    async with runner_on(SlowStore(store), executor="inline") as runner:
        runner.register(double)
        calls: dict[str, Any] = {
            "resume": lambda: runner.resume("c"),
            "resume_all": runner.resume_all,
        }
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(calls[call](), patience)
        await asyncio.sleep(20.0)
        resumed = await runner.resume_all()

        assert [handle.id for handle in resumed] == ["c"] or "c" in runner.held
        assert await runner.result("c") == 10


# -- several callers of one run --------------------------------------------------------------------


class Traffic:
    """Callers of one run, each with another input."""

    def __init__(self, runner: AsyncRunner) -> None:
        self._runner = runner
        self.inputs: dict[str, asyncio.Task[None]] = {}

    def give(self, key: str) -> None:
        """Give the run an input, which is not waited for."""
        self.inputs[key] = started(self._runner.send("x", 1, key=key))

    async def acknowledged(self) -> dict[str, str]:
        """Return how all inputs have ended, by key."""
        return {key: await ended(task) for key, task in self.inputs.items()}


@pytest.mark.parametrize("is_patient", [False, True], ids=["a caller gives up", "all callers wait"])
@virtually
async def test_a_late_commit_of_a_worker_that_has_left_acknowledges_nothing_of_the_next_one(is_patient: bool) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with runner_on(store) as runner:
        runner.register(double)
        await (await runner.start(double, 0, id="x", open=True)).wait()
        traffic = Traffic(runner)
        gate = store.hold("append")
        traffic.give("k1")
        await gate.reached.wait()
        stopping = started(runner.stop("x"))
        await until_nothing_moves()
        traffic.give("k2")  # the worker is leaving
        while not stopping.done():
            await until_nothing_moves()
            gate.let_one_through()
            await until_nothing_moves()
        starting = started(runner.start(double, 0, id="x", open=True))
        await until_nothing_moves()
        if not is_patient:
            starting.cancel()
            await until_nothing_moves()
        traffic.give("k3")
        waiting, writing = started(runner.wait("x", timeout=5.0)), started(runner.checkpoint("x"))
        await until_nothing_moves()
        gate.let_one_through()
        await until_nothing_moves()
        traffic.give("k4")
        await until_nothing_moves()
        gate.open()

        told = await traffic.acknowledged()
        others = {await ended(waiting), await ended(writing)}
        if is_patient:
            assert await ended(starting) == "returned"
            assert runner.held == ["x"]
        await ended(stopping)

    async with inner:
        keys = keys_of(await stored_log(inner, "x"))
        keys += keys_of([decode_message(each.body) for each in await inner.messages(["x"])])
    acknowledged = {key for key, how in told.items() if how == "returned"}
    assert acknowledged - set(keys) == set()
    assert len(keys) == len(set(keys))
    assert set(told.values()) | others <= {"returned", "RunNotHeld", "WaitTimeout"}
    assert told["k1"] == "returned"


@virtually
async def test_a_worker_that_is_leaving_takes_no_input() -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with runner_on(store, lasts=5.0) as runner:
        await runner.start(double, 1, id="x")
        await until_nothing_moves()
        stopping = started(runner.stop("x"))
        await until_nothing_moves()

        late = started(runner.send("x", 2, key="late"))
        await until_nothing_moves()
        before = len(await stored_log(inner, "x"))
        await stopping

        told = await ended(late)
        keys = keys_of(await stored_log(inner, "x"))
        left = keys_of([decode_message(each.body) for each in await inner.messages(["x"])])
    assert before == 2
    assert (told, keys, left) == ("returned", [None], ["late"])


@pytest.mark.parametrize("call", ["send", "stop", "checkpoint", "wait", "cancel", "set_policies"])
@virtually
async def test_callers_are_not_told_that_a_start_whose_caller_was_cancelled_found_the_run_stored(call: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with runner_on(store) as runner:
        await (await runner.start(double, 0, id="x", open=True)).wait()
        await runner.stop("x")
        gate = store.hold("append")
        await cut_off(runner.start(double, 0, id="x", open=True), 1.0)

        calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "send": lambda: runner.send("x", 1),
            "stop": lambda: runner.stop("x"),
            "checkpoint": lambda: runner.checkpoint("x"),
            "wait": lambda: runner.wait("x"),
            "cancel": lambda: runner.cancel("x"),
            "set_policies": lambda: runner.set_policies("x", []),
        }
        asking = started(calls[call]())
        await until_nothing_moves()
        gate.open()

        assert await ended(asking) in ("returned", "RunNotHeld")


@virtually
async def test_a_run_that_is_started_beside_a_delete_is_a_new_one() -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with runner_on(store) as runner:
        await (await runner.start(double, 1, id="x")).wait()
        await runner.stop("x")
        gate = store.hold("append", times=1)
        starting = started(runner.start(double, 5, id="x"))
        await gate.reached.wait()
        deleting = started(runner.delete("x"))
        await until_nothing_moves()
        gate.open()

        assert await ended(starting) == "returned"
        await deleting
        run = await runner.wait("x")
        log = await stored_log(inner, "x")
    assert (run.values("double"), len(log)) == ([10], 3)


@virtually
async def test_a_run_that_exists_is_not_taken_for_a_new_one_because_the_store_was_unavailable() -> None:
    """The beginning of a run without an input always has the same bytes: the other one's was taken for its own."""
    inner, failures = MemoryStore(), iter([Fault.fail()])
    is_again = False
    store = FaultyStore(inner, lambda call, _: next(failures, None) if is_again and call == "append" else None)
    async with runner_on(store) as runner:
        await (await runner.start(double, id="a")).send(1, key="k1")
        await runner.wait("a")
        await runner.stop("a")
        await asyncio.sleep(1.0)  # two runs of one id are told apart by when they were created
        is_again = True

        with pytest.raises(RunExists):
            await runner.start(double, id="a", if_exists="error")
        assert runner.held == []
        handle = await runner.start(double, id="a")
        await handle.send(2, key="k2")
        run = await handle.wait()

        assert sorted(run.values("double")) == [2, 4]
        assert keys_of(await stored_log(inner, "a")) == ["k1", "k2"]


# -- starting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", ["every_cycle", "pipelined", "on_complete", "manual"])
@virtually
async def test_a_run_that_turns_out_to_exist_executes_nothing_again(checkpoint: str) -> None:
    calls: list[int] = []
    workflow = Workflow("count", step(lambda x: calls.append(x) or x, name="count"))
    store = SlowStore(MemoryStore())
    async with runner_on(store) as runner:
        await (await runner.start(workflow, 5, id="a")).wait()

    async with runner_on(store, checkpoint=checkpoint) as runner:
        handle = await runner.start(workflow, 5, id="a")
        run = await handle.wait()

    assert (run.values("count"), calls) == ([5], [5])


@virtually
async def test_starting_what_exists_keeps_the_options() -> None:
    store = MemoryStore()
    told: list[str] = []

    async def on_complete(run: str, _: Run) -> None:
        told.append(run)

    async with runner_on(store) as runner:
        await runner.start(double, id="a")

    async with runner_on(store) as runner:
        handle = await runner.start(double, id="a", on_complete=on_complete)
        await handle.send(4)
        await handle.wait()

    assert told == ["a"]


@pytest.mark.parametrize("way", ["start", "resume", "both"])
@virtually
async def test_a_run_that_is_wanted_twice_at_once_comes_once(way: str) -> None:
    calls: list[int] = []
    workflow = Workflow("count", step(lambda x: calls.append(x) or x, name="count"))
    store = SlowStore(MemoryStore())
    async with runner_on(store, lasts=60.0, grace=0.0) as runner:
        await runner.start(workflow, 5, id="a")
        await asyncio.sleep(2)
    calls.clear()

    async with runner_on(store) as runner:
        starts = [runner.start(workflow, 5, id="a") for _ in range(2 if way != "resume" else 0)]
        resumes = [runner.resume("a", workflow=workflow) for _ in range(2 if way != "start" else 0)]
        handles = await asyncio.gather(*starts, *resumes)
        runs = [await handle.wait() for handle in handles]

    assert [run.values("count") for run in runs] == [[5]] * len(runs)
    assert calls == [5]


@virtually
async def test_the_second_of_two_starts_is_told_when_the_first_is_durable() -> None:
    store = SlowStore(MemoryStore())
    async with runner_on(store) as runner:
        first = asyncio.ensure_future(runner.start(double, 5, id="a"))
        await asyncio.sleep(0)

        await runner.start(double, 5, id="a")
        is_stored = await store.inner.exists("a")

        await first
    assert is_stored
