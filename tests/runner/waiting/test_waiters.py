"""A caller that waits for a run receives what is durable, and learns when there is nothing to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from callers import ended, started
from small_flows import Gate, chain
from virtual_time import GatedStore, SlowStore, double, now, runner_on, until_nothing_moves, virtually

from weft import Policy, Run, Runner, Workflow, step
from weft.core.events import RunCancelled
from weft.errors import InvalidOption, NothingProduced, RunClosed, RunFrozen, RunNotFound, RunParked, WaitTimeout
from weft.runner.execution.worker import Worker
from weft.stores import MemoryStore


@pytest.mark.parametrize("checkpoint", ["every_cycle", "pipelined"])
@virtually
async def test_what_a_predicate_was_told_is_durable_when_its_caller_hears_of_it(checkpoint: str) -> None:
    store = MemoryStore()
    async with runner_on(SlowStore(store), lasts=1.0, checkpoint=checkpoint) as runner:
        await runner.start(double, 1, id="a")

        run = await runner.wait_until("a", lambda run: bool(run.values("double")))

        assert (await store.find("a")).head >= len(run.log())


@pytest.mark.parametrize("way", ["wait", "get_workflow", "wait_until", "on_complete", "a predicate"])
@virtually
async def test_a_run_that_is_handed_out_is_frozen_and_shares_nothing_with_the_one_that_goes_on(way: str) -> None:
    handed: list[Run] = []
    left, right = step(lambda x: x + 1, name="left"), step(lambda x: x * 10, name="right")
    pair = Workflow("pair", [left, right] >> step(lambda a, b: (a, b), name="both"))

    def is_half_way(run: Run) -> bool:
        if way == "a predicate":
            handed.append(run)
        return run.values("left") == [2] and not run.values("right")

    async def completed(_: str, run: Run) -> None:
        if way == "on_complete":
            handed.append(run)

    lengths = {"left": 1.0, "right": 5.0}
    async with runner_on(lasts=lambda runnable: lengths.get(runnable.component, 1.0)) as runner:
        await runner.start(pair, 1, id="a", on_complete=completed)
        half = await runner.wait_until("a", is_half_way)
        handed += [half] if way == "wait_until" else []
        handed += [await runner.get("a")] if way == "get_workflow" else []
        if way in ("wait", "on_complete"):
            handed += [await runner.wait("a")] if way == "wait" else []
            await runner.wait("a")
        for run in handed:
            for runnable in run.prepare():
                outcome = await runnable.aexecute()
                with pytest.raises(RunFrozen):
                    run.apply(outcome)
            with pytest.raises(RunFrozen, match=r"runner\.send\('a', value\)"):
                run.plan(100)

        assert handed
        assert await runner.result("a") == (2, 10)
        assert (await runner.wait("a")).values("both") == [(2, 10)]


@virtually
async def test_a_predicate_may_hold_in_the_middle_where_nothing_is_written_before_the_end() -> None:
    chain = Workflow("chain", step(lambda x: x, name="first") >> step(lambda x: x, name="second"))
    async with runner_on(lasts=1.0, checkpoint="on_complete") as runner:
        await runner.start(chain, 1, id="a")

        run = await runner.wait_until("a", lambda run: bool(run.values("first")))

        assert (run.values("second"), now()) == ([], 1.0)


@virtually
async def test_a_caller_that_waits_for_what_a_cancelled_run_will_never_do_is_told() -> None:
    async with runner_on(lasts=1.0) as runner:
        await runner.start(double, 1, id="a")
        waits = asyncio.create_task(runner.wait_until("a", lambda _: False))
        await asyncio.sleep(0.5)

        await runner.cancel("a", "not wanted")

        with pytest.raises(RunClosed, match="not wanted"):
            await waits
        with pytest.raises(RunClosed):
            await runner.wait_until("a", lambda _: False)
        assert (await runner.wait_until("a", lambda _: True)).values("double") == []


@virtually
async def test_a_caller_that_waits_for_what_a_parked_run_will_not_do_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    async with runner_on(lasts=1.0) as runner:
        await runner.start(double, 1, id="a")
        waits = asyncio.create_task(runner.wait_until("a", lambda _: False))
        await asyncio.sleep(0.5)

        monkeypatch.setattr(Worker, "ended", crash)

        with pytest.raises(RunParked):
            await waits


@virtually
async def test_a_caller_that_runs_into_its_timeout_is_forgotten() -> None:
    async with runner_on(lasts=3600.0) as runner:
        handle = await runner.start(double, 1, id="a")

        for _ in range(3):
            with pytest.raises(WaitTimeout):
                await handle.wait(1.0)
            with pytest.raises(WaitTimeout):
                await runner.wait_until("a", lambda _: False, 1.0)

        waiters = runner._runtime.waiters
        assert waiters._waiting == {}


# -- runs that will do nothing more ----------------------------------------------------------------


@virtually
async def test_a_caller_that_waits_for_a_run_that_was_parked_and_then_cancelled_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def crash(*_: Any) -> None:
        raise ZeroDivisionError("a bug")

    async with runner_on(lasts=1.0) as runner:
        monkeypatch.setattr(Worker, "ended", crash)
        handle = await runner.start(double, 1, id="a")
        with pytest.raises(RunParked):
            await handle.wait()

        await runner.cancel("a", "not wanted")

        assert isinstance((await handle.wait(60.0)).log()[-1], RunCancelled)


@virtually
async def test_a_duplicate_input_is_acknowledged_only_when_the_first_is_durable() -> None:
    async with runner_on(SlowStore(MemoryStore())) as runner:
        await runner.start(double, id="a")
        began = now()

        await asyncio.gather(*(runner.send("a", 1, key="once") for _ in range(2)))

        assert now() == began + 1.0
        assert (await runner.wait("a")).values("double") == [2]


@virtually
async def test_a_run_that_was_cancelled_has_no_result_and_says_so() -> None:
    async with runner_on(lasts=1.0) as runner:
        handle = await runner.start(double, 1)
        await handle.cancel("not wanted")

        with pytest.raises(RunClosed, match="not wanted"):
            await handle.result()


# -- timeouts --------------------------------------------------------------------------------------


def test_a_wait_ends_when_its_time_is_up(runner: Runner) -> None:
    gate = Gate()
    runner.start(Workflow("w", step(gate, name="slow")), 1, id="a")
    assert gate.begun.wait(20)

    with pytest.raises(WaitTimeout, match="still running"):
        runner.wait("a", timeout=0.01)

    gate.opened.set()
    assert runner.wait("a", timeout=20).value("slow") == 1


def test_what_wait_gives_does_not_change_any_more(runner: Runner) -> None:
    runner.start(chain, 5, id="a", open=True)
    before = runner.wait("a")

    runner.send("a", 6)
    runner.wait("a")

    assert before.values("increment") == [11]
    with pytest.raises(NothingProduced):
        runner.start(chain, id="empty").wait().value("increment")


@pytest.mark.parametrize("way", ["wait", "result", "wait_until"])
@pytest.mark.parametrize("what", ["a start that is not decided", "a worker that is rebuilt", "a run that is not here"])
@virtually
async def test_waiting_keeps_its_timeout_while_the_store_is_unavailable(what: str, way: str) -> None:
    store = GatedStore(MemoryStore())
    crashes = iter([True])
    runner = await runner_on(store, refuses=lambda _: next(crashes, False)).open()
    starting: asyncio.Task[Any] | None = None
    if what == "a start that is not decided":
        store.is_unavailable("append")
        starting = started(runner.start(double, 1, id="job"))
    elif what == "a worker that is rebuilt":
        store.is_unavailable("load_since")
        await runner.start(double, 1, id="job")
        await asyncio.sleep(0.5)
    else:
        gate = store.hold("find")
    await until_nothing_moves()
    asks: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "wait": lambda: runner.wait("job", timeout=1.0),
        "result": lambda: runner.result("job", timeout=1.0),
        "wait_until": lambda: runner.wait_until("job", lambda run: not run.is_runnable, timeout=1.0),
    }
    began = now()

    with pytest.raises(WaitTimeout):
        await asks[way]()

    assert now() - began == pytest.approx(1.0)
    store.fails_with = {}
    if what == "a run that is not here":
        gate.open()
        with pytest.raises(RunNotFound):
            await asks[way]()
    else:
        if starting is not None:
            await starting
        assert await runner.result("job", timeout=100.0) == 2
    await runner.close()


@pytest.mark.parametrize("way", ["wait", "result", "wait_until"])
@virtually
async def test_a_timeout_that_expires_in_the_moment_of_the_answer_is_the_answer_or_a_wait_timeout(way: str) -> None:
    store = GatedStore(MemoryStore())
    async with runner_on(store, lasts=1.0) as runner:
        await runner.start(double, 1, id="a")
        gate = store.hold("append")
        await gate.reached.wait()  # all that is left is to write that the step has completed
        asks: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "wait": lambda: runner.wait("a", timeout=0.0),
            "result": lambda: runner.result("a", timeout=0.0),
            "wait_until": lambda: runner.wait_until("a", lambda run: bool(run.values("double")), timeout=0.0),
        }

        asking = started(asks[way]())
        gate.open()

        assert await ended(asking) in ("returned", "WaitTimeout")


@pytest.mark.parametrize("retries", [True, False])
@virtually
async def test_waiting_for_something_in_a_failed_run_goes_on_while_its_on_complete_may_retry_it(retries: bool) -> None:
    failures = [1]

    def fails_once(x: int) -> int:
        if failures:
            raise ConnectionError(f"attempt {failures.pop()}")
        return x

    flow = Workflow("flow", step(fails_once)).add_policy("fails_once", Policy(on_failure="dead_letter"))
    async with runner_on() as runner:

        async def told(run: str, seen: Run) -> None:
            await asyncio.sleep(5.0)
            if retries and seen.status == "failed":
                await runner.retry(run)

        await runner.start(flow, 7, id="a", on_complete=told)
        waits = runner.wait_until("a", lambda run: bool(run.values("fails_once")))

        if retries:
            assert (await waits).values("fails_once") == [7]
        else:
            with pytest.raises(RunClosed, match="has failed"):
                await waits
        assert now() >= 5.0


@pytest.mark.parametrize("timeout", [-1, -0.5, float("nan"), True, "soon"])
def test_a_timeout_that_is_not_a_length_of_time_is_refused(runner: Runner, timeout: Any) -> None:
    with pytest.raises(InvalidOption, match="timeout="):
        runner.wait("a", timeout)
