"""
A runner in bad weather, on virtual time: what the simulation has found, and what it cannot reach.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace
from weather import SlowStore, double, runner_on, virtually

from weft import AsyncRunner, Policy, Run, Runnable, Workflow, each, step
from weft.core.events import Notified
from weft.errors import (
    CorruptStore,
    QueueTimeout,
    RunnerClosed,
    RunParked,
    StoreFull,
    StoreUnavailable,
    UnwrittenEvents,
    WorkflowNotFound,
)
from weft.local.counters import LocalCounters
from weft.policy import DEFAULT, ConcurrencyLimit
from weft.ports.store import Append, RunRecord
from weft.runner.execution.worker import Worker
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import Fault, FaultyStore
from weft.testing.simulation.executor import SimulatedExecutor

T = TypeVar("T")


# -- starting ------------------------------------------------------------------------------------


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
        await runner.start_workflow("a", double)

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


# -- a store that is away ------------------------------------------------------------------------

AWAY = [Fault.fail(), Fault.fail_after()]


@pytest.mark.parametrize("call", ["acquire", "load_since", "load_definitions", "release"])
@pytest.mark.parametrize("fault", AWAY)
@virtually
async def test_stopping_and_resuming_wait_for_a_store_that_is_away(call: str, fault: Fault) -> None:
    store = FaultyStore(MemoryStore(), {(call, 1): fault})
    async with runner_on(store) as runner:
        handle = await runner.start(double, 5, id="a")
        await handle.wait()

        await runner.stop("a")
        is_free = (await store.inner.find("a")).owner is None
        await runner.resume("a", workflow=double)
        await handle.send(6)
        run = await handle.wait()

    assert (run.values("double"), is_free) == ([10, 12], True)


@pytest.mark.parametrize("call", ["list_free", "acquire_many", "load_many", "load_definitions"])
@pytest.mark.parametrize("fault", AWAY)
@virtually
async def test_no_run_is_left_out_because_the_store_was_away_when_all_were_resumed(call: str, fault: Fault) -> None:
    inner = MemoryStore()
    async with runner_on(inner, lasts=60.0, grace=0.0) as runner:
        for name in ("a", "b"):
            await runner.start(double, 5, id=name)

    async with runner_on(FaultyStore(inner, {(call, 1): fault})) as runner:
        runner.register(double)
        resumed = await runner.resume_all()
        results = [await handle.result() for handle in resumed]

    assert ([handle.id for handle in resumed], results) == (["a", "b"], [10, 10])


@virtually
async def test_a_run_that_could_not_be_loaded_is_free_for_others() -> None:
    inner = MemoryStore()
    async with runner_on(inner) as runner:
        await (await runner.start(double, 5, id="a")).wait()

    async with runner_on(FaultyStore(inner, {("load_since", 1): Fault.fail(CorruptStore("it", "bad"))})) as runner:
        with pytest.raises(CorruptStore):
            await runner.resume("a", workflow=double)
        is_free = (await inner.find("a")).owner is None

    assert is_free


@virtually
async def test_a_run_waits_while_the_disk_is_full() -> None:
    full = {("append", number): Fault.fail(StoreFull("the store", "by order")) for number in range(2, 8)}
    async with runner_on(FaultyStore(MemoryStore(), full)) as runner:
        handle = await runner.start(double, 1, id="a")
        waiting = await runner.status("a")

        run = await handle.wait()

    assert (waiting, run.value("double")) == ("running", 2)


@virtually
async def test_a_store_that_somebody_else_has_opened_can_be_away_when_the_runner_closes() -> None:
    async with FaultyStore(MemoryStore(), {("release", 1): Fault.fail()}) as store:
        runner = await runner_on(store).open()
        await (await runner.start(double, 5, id="a")).wait()

        await runner.close()

        assert (await store.find("a")).owner is None


@virtually
async def test_a_runner_that_could_not_give_its_runs_back_does_so_when_it_is_closed_again() -> None:
    store = FaultyStore(MemoryStore(), {("release", number): Fault.fail() for number in range(1, 4)})
    async with store:
        runner = await runner_on(store, grace=0.1).open()
        await (await runner.start(double, 5, id="a")).wait()

        with pytest.raises(StoreUnavailable):
            await runner.close()
        await runner.close()

        assert (await store.find("a")).owner is None


# -- a run that cannot be written ----------------------------------------------------------------


@virtually
async def test_a_run_that_cannot_be_written_is_parked_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = Worker.segment

    def broken(worker: Worker, at: float) -> Append | None:
        if worker.id == "bad" and len(worker.run.memory.log) > 2:
            raise ValueError("this cannot be written")
        return segment(worker, at)

    monkeypatch.setattr(Worker, "segment", broken)
    runner = await runner_on(MemoryStore()).open()
    bad = await runner.start(double, 1, id="bad")
    good = await runner.start(double, 2, id="good")

    assert await good.result() == 4
    with pytest.raises(RunParked, match="this cannot be written"):
        await bad.wait()
    with pytest.raises(ValueError, match="this cannot be written"):
        await runner.checkpoint("bad")
    with pytest.raises(UnwrittenEvents) as told:
        await runner.close()
    assert told.value.runs == {"bad": 1}


@virtually
async def test_a_step_may_fail_with_any_text() -> None:
    def fail(_: int) -> None:
        raise OSError("caf\udce9")

    async with runner_on(MemoryStore()) as runner:
        run = await (await runner.start(Workflow("w", step(fail)), 1)).wait()

    assert (run.failed, run.log()[-1].error.message) == (True, "caf\\udce9")


@virtually
async def test_a_store_that_raises_what_it_should_not_parks_its_runs_and_no_more() -> None:
    store = FaultyStore(MemoryStore(), {("append", 2): Fault.fail(ZeroDivisionError("a bug in the store"))})
    async with runner_on(store) as runner:
        await runner.start_workflow("a", double)
        with pytest.raises(ZeroDivisionError):
            await runner.run("a", 1)

        handle = await runner.start(double, 2, id="b")
        result = await handle.result()
        with pytest.raises(RunParked, match="a bug in the store"):
            await runner.wait("a")
        await runner.resume("a", workflow=double)
        await runner.run("a", 3)
        again = await runner.result("a")

    assert (result, again) == (4, 6)


# -- stopping ------------------------------------------------------------------------------------


@virtually
async def test_a_stopped_run_leaves_the_limits_that_it_had_passed() -> None:
    """A further attempt of a durable step has its place before the log says that it starts."""

    def fail(_: int) -> None:
        raise ValueError

    counters = LocalCounters()
    policy = Policy(concurrency_limit=ConcurrencyLimit("api", 1), execution_mode="durable", max_retries=1)
    workflow = Workflow("w", step(fail)).with_policies([(DEFAULT, policy)])
    async with runner_on(SlowStore(MemoryStore()), counters=counters) as runner:
        await runner.start(workflow, 1, id="a")
        await asyncio.sleep(0.5)
        before = counters.states()["concurrency_limit", "api"].used

        await runner.stop("a", grace=0.0)

    assert (before, counters.states()["concurrency_limit", "api"].used) == (1, 0)


@virtually
async def test_what_ends_in_the_last_moment_of_a_stop_counts() -> None:
    store = MemoryStore()
    async with runner_on(store, lasts=5.0) as runner:
        handle = await runner.start(double, 1, id="a")
        await asyncio.sleep(5.0)

        await runner.stop("a", grace=0.0)
        await runner.resume("a", workflow=double)
        at_once = await handle.status()

    assert at_once == "idle"


@virtually
async def test_a_stop_starts_nothing_that_waits_for_a_worker() -> None:
    calls: list[int] = []
    wide = Workflow("wide", each(step(lambda x: calls.append(x) or x, name="count")))
    async with runner_on(MemoryStore(), lasts=1.0) as runner:
        await runner.start(wide, list(range(100)), id="a")
        await asyncio.sleep(1.5)
        begun = len(calls)

        await runner.stop("a", grace=1_000.0)

    assert len(calls) == begun == 8


@pytest.mark.parametrize("way", ["cancel", "stop", "timeout"])
@virtually
async def test_a_worker_that_becomes_free_takes_who_waits_for_it(way: str) -> None:
    executors = {"thread": SimulatedExecutor(lambda r: 1.0 if r.run_id == "b" else 1_000.0, max_workers=1)}
    hanging = double.with_policies([(DEFAULT, Policy(timeout=5.0))]) if way == "timeout" else double
    async with AsyncRunner(MemoryStore(), executors=executors) as runner:
        await runner.start(hanging, 1, id="a")
        handle = await runner.start(double, 2, id="b")
        await asyncio.sleep(1.0)

        if way == "cancel":
            await runner.cancel("a")
        elif way == "stop":
            await runner.stop("a", grace=4.0)

        assert await handle.result() == 4


# -- workers that crash --------------------------------------------------------------------------


class Exhausted:
    """Lets the executors of a runner refuse the first *times* attempts."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __call__(self, _: Runnable) -> bool:
        self.left -= 1
        return self.left >= 0


@pytest.mark.parametrize("checkpoint", ["every_cycle", "on_complete", "manual"])
@virtually
async def test_a_worker_that_crashes_loses_nothing_that_was_recorded(checkpoint: str) -> None:
    async with runner_on(MemoryStore(), refuses=Exhausted(1), checkpoint=checkpoint) as runner:
        await runner.start_workflow("a", double)
        await runner.run("a", 1)
        await runner.run("a", 2)

        run = await runner.wait("a")

    assert sorted(run.values("double")) == [2, 4]


@virtually
async def test_an_input_that_comes_while_a_worker_is_rebuilt_is_taken() -> None:
    store = SlowStore(MemoryStore())
    async with runner_on(store, refuses=Exhausted(1)) as runner:
        await runner.start_workflow("a", double)
        await runner.run("a", 1)

        inputs = [asyncio.ensure_future(_later(seconds, runner.run("a", 2))) for seconds in (0.0, 0.5, 1.0, 2.0, 3.0)]
        await asyncio.gather(*inputs)
        run = await runner.wait("a")

    assert sorted(run.values("double")) == [2, 4, 4, 4, 4, 4]


@virtually
async def test_a_worker_that_keeps_crashing_is_parked_and_whoever_waits_is_told() -> None:
    store = MemoryStore()
    async with runner_on(store, refuses=Exhausted(100)) as runner:
        handle = await runner.start(double, 1, id="a")

        with pytest.raises(RunParked, match="ThreadsExhausted"):
            await handle.wait()
        with pytest.raises(RunParked, match="ThreadsExhausted"):
            await handle.send(2)
        await asyncio.sleep(1)
        stored = await store.find("a")

    assert (stored.status, stored.reason[:32]) == ("parked", "its worker crashed 4 times: Thre")


@virtually
async def test_a_store_that_is_away_parks_no_run_whose_worker_has_crashed() -> None:
    faults = {("load_since", number): Fault.fail() for number in range(1, 8)}
    async with runner_on(FaultyStore(MemoryStore(), faults), refuses=Exhausted(1)) as runner:
        handle = await runner.start(double, 1, id="a")

        result = await handle.result()

    assert result == 2


@virtually
async def test_a_runner_can_be_closed_while_a_worker_is_rebuilt() -> None:
    store = SlowStore(MemoryStore())
    async with runner_on(store, refuses=Exhausted(1)) as runner:
        await runner.start_workflow("a", double)
        await runner.run("a", 1)
        waiting = asyncio.ensure_future(runner.wait("a"))
        await asyncio.sleep(0.8)

    with pytest.raises(RunnerClosed):
        await waiting
    async with runner_on(store) as runner:
        assert await (await runner.resume("a", workflow=double)).result() == 2


async def _later(seconds: float, work: Awaitable[T]) -> T:
    await asyncio.sleep(seconds)
    return await work


# -- waiting -------------------------------------------------------------------------------------


@virtually
async def test_whoever_waits_is_told_when_it_is_durable_that_on_complete_was_called() -> None:
    store = SlowStore(MemoryStore())
    told: list[str] = []

    async def on_complete(run: str, _: Run) -> None:
        told.append(run)

    async with runner_on(store) as runner:
        run = await (await runner.start(double, 5, id="a", on_complete=on_complete)).wait()
        stored = await store.inner.find("a")

    assert isinstance(run.log()[-1], Notified)
    assert (stored.head, stored.status, told) == (len(run.log()), "idle", ["a"])


@virtually
async def test_a_wait_in_a_second_busy_period_ends_after_the_second_call_of_on_complete() -> None:
    told: list[int] = []
    begun = asyncio.Event()

    async def on_complete(_: str, run: Run) -> None:
        begun.set()
        await asyncio.sleep(1)
        told.append(len(run.values("double")))

    async with runner_on(SlowStore(MemoryStore())) as runner:
        handle = await runner.start(double, 1, id="a", on_complete=on_complete)
        await handle.wait()
        begun.clear()
        await handle.send(2)
        await begun.wait()
        await handle.wait()

    assert told == [1, 2]


@virtually
async def test_on_complete_of_a_run_is_called_one_at_a_time() -> None:
    seen: list[int] = []

    async def on_complete(_: str, run: Run) -> None:
        await asyncio.sleep(10.0 if len(run.values("double")) == 1 else 0.0)
        seen.append(len(run.values("double")))

    async with runner_on(MemoryStore()) as runner:
        handle = await runner.start(double, 1, id="a", on_complete=on_complete)
        await asyncio.sleep(1)
        await handle.send(2)
        await handle.wait()

    assert seen == [1, 2]


@pytest.mark.parametrize(("grace", "calls"), [(0.0, 2), (60.0, 1)])
@pytest.mark.parametrize("way", ["stop", "close"])
@virtually
async def test_a_call_of_on_complete_gets_the_grace_time_too(way: str, grace: float, calls: int) -> None:
    store = MemoryStore()
    begun, ended = 0, 0

    async def on_complete(_: str, run: Run) -> None:
        nonlocal begun, ended
        begun += 1
        await asyncio.sleep(10.0)
        ended += 1

    async with runner_on(store, grace=grace) as runner:
        await runner.start(double, 1, id="a", on_complete=on_complete)
        await asyncio.sleep(1.0)
        if way == "stop":
            await runner.stop("a")
    async with runner_on(store) as runner:
        runner.register(double)
        for handle in await runner.resume_all(on_complete=on_complete):
            await handle.wait()

    assert (begun, ended) == (calls, 1)


@virtually
async def test_a_run_of_which_everybody_was_told_is_resumed_without_telling_again() -> None:
    store = MemoryStore()
    told: list[str] = []

    async def on_complete(run: str, _: Run) -> None:
        told.append(run)

    async with runner_on(store) as runner:
        await (await runner.start(double, 1, id="a", on_complete=on_complete)).wait()
    async with runner_on(store) as runner:
        handle = await runner.resume("a", workflow=double, on_complete=on_complete)
        await handle.wait()
        before = list(told)
        await handle.send(2)
        await handle.wait()

    assert (before, told) == (["a"], ["a", "a"])


@virtually
async def test_a_call_that_had_not_seen_the_last_input_does_not_count_for_it() -> None:
    store = MemoryStore()
    seen: list[int] = []

    async def on_complete(_: str, run: Run) -> None:
        await asyncio.sleep(10.0)
        seen.append(len(run.values("double")))

    async with runner_on(store, grace=0.0) as runner:
        handle = await runner.start(double, 1, id="a", on_complete=on_complete)
        await asyncio.sleep(1.0)
        await handle.send(2)
        await asyncio.sleep(12.0)
    async with runner_on(store) as runner:
        runner.register(double)
        for handle in await runner.resume_all(on_complete=on_complete):
            await handle.wait()

    assert seen == [1, 2]


# -- waiting to be started -----------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, ConcurrencyLimit("two", 2)])
@pytest.mark.parametrize("mode", ["sync", "durable"])
@virtually
async def test_what_waits_too_long_for_a_worker_or_a_limit_fails(limit: ConcurrencyLimit | None, mode: Any) -> None:
    policy = Policy(queue_timeout=5.0, concurrency_limit=limit, execution_mode=mode)

    run, calls, took = await three_at_once(policy)

    assert (run.values("count"), calls, took) == ([1, 2], [1, 2], 60.0)
    assert [type(failure.__cause__) for failure in run.failures.values()] == [QueueTimeout]


@pytest.mark.parametrize("limit", [None, ConcurrencyLimit("two", 2)])
@pytest.mark.parametrize("mode", ["sync", "durable"])
@virtually
async def test_what_has_waited_too_long_and_is_retried_runs_once(limit: ConcurrencyLimit | None, mode: Any) -> None:
    policy = Policy(queue_timeout=5.0, concurrency_limit=limit, execution_mode=mode, max_retries=1)

    run, calls, took = await three_at_once(policy)

    assert (sorted(run.values("count")), calls, took) == ([1, 2, 3], [1, 2, 3], 120.0)


async def three_at_once(policy: Policy) -> tuple[Run, list[int], float]:
    """Run a step on three elements under *policy*, where two workers take a minute each."""
    calls: list[int] = []
    wide = Workflow("wide", each(step(lambda x: calls.append(x) or x, name="count"))).with_policies([("count", policy)])
    executors = {"thread": SimulatedExecutor(lambda _: 60.0, max_workers=2)}
    async with AsyncRunner(MemoryStore(), executors=executors, counters=LocalCounters()) as runner:
        run = await (await runner.start(wide, [1, 2, 3])).wait()
        return run, calls, asyncio.get_running_loop().time()


def test_a_runner_is_closed_whole_also_when_its_caller_was_cancelled(tmp_path: Path) -> None:
    """A Ctrl-C in ``asyncio.run`` cancels who waits, and then closes the runner."""
    began, ends = threading.Event(), threading.Event()

    def work(x: int) -> int:
        began.set()
        assert ends.wait(20)
        return x

    async def main() -> SQLiteStore:
        store = SQLiteStore(tmp_path / "runs.db")
        runner = await AsyncRunner(store).open()
        handle = await runner.start(Workflow("w", step(work)), 1)
        waits = asyncio.create_task(handle.wait())
        await asyncio.to_thread(began.wait, 20)
        waits.cancel()
        await asyncio.wait([waits])
        ends.set()
        await runner.close()
        return store

    assert not asyncio.run(main()).is_open


@virtually
async def test_what_a_run_was_told_that_is_stopped_without_being_persisted_is_not_written_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    async with runner_on(SlowStore(store), lasts=1.0) as runner:
        await (await runner.start(double, 1, id="a")).wait()
        head = (await store.find("a")).head
        first = asyncio.create_task(runner.run("a", 2))
        await asyncio.sleep(0.2)
        second = asyncio.create_task(runner.run("a", 3))
        await asyncio.sleep(0.2)

        await runner.stop("a", persist=False)

        told = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(each) for each in told] == [WorkflowNotFound, WorkflowNotFound]
    assert (await store_of(store, "a")).head == head + 1  # the first was on its way
    assert caplog.messages == []


@virtually
async def test_a_run_that_is_stopped_without_being_persisted_as_soon_as_it_was_told_something_is_left_as_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    async with runner_on(SlowStore(store), lasts=1.0) as runner:
        await (await runner.start(double, 1, id="a")).wait()
        before = await store.find("a")

        told = await asyncio.gather(runner.run("a", 2), runner.stop("a", persist=False), return_exceptions=True)

    assert isinstance(told[0], WorkflowNotFound)
    assert (await store_of(store, "a")) == replace(before, owner=None)
    assert caplog.messages == []


async def store_of(store: MemoryStore, run: str) -> RunRecord:
    """Return what *store*, which is closed, knows of *run*."""
    async with store:
        return await store.find(run)


# -- steps that fail badly ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("name", ["__notes__", "__str__", "__class__", "__cause__", "__traceback__", "args"])
@virtually
async def test_an_exception_that_cannot_say_what_it_is_fails_its_step_and_not_its_worker(name: str, kind: str) -> None:
    calls: list[int] = []

    def breaks(*_: object) -> Any:
        raise RuntimeError(f"{name} is broken")

    nasty: Any = type("Nasty", (Exception,), {name: breaks if name == "__str__" else property(breaks, breaks)})

    def fail(x: int) -> None:
        calls.append(x)
        raise nasty("text")

    async def afail(x: int) -> None:
        fail(x)

    flow = Workflow("w", step(fail if kind == "plain" else afail, name="fail"))
    async with runner_on() as runner:
        await runner.start(flow, 1, id="a")
        run = await runner.wait("a")
        await runner.start(flow.with_policies([("fail", Policy(max_retries=1, backoff="none"))]), 1, id="b")
        again = await runner.wait("b")

        assert (await runner.status("a"), await runner.status("b")) == ("idle", "idle")
        assert (list(run.failures), list(again.failures)) == (["fail"], ["fail"])
        assert len(calls) == 1 + 2


@virtually
async def test_a_worker_that_crashes_with_what_cannot_be_said_is_parked_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def crash(*_: Any) -> None:
        raise Unspeakable

    monkeypatch.setattr(Worker, "finish", crash)
    async with runner_on() as runner:
        await runner.start(double, 1, id="a")

        with pytest.raises(RunParked, match=r"Unspeakable: <.*Unspeakable whose text fails with RuntimeError>"):
            await runner.wait("a")
