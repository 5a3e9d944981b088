"""The straight lane: a runnable that is alone in its run, and whatever comes up meanwhile is as on the usual way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import reduce
from operator import rshift
from typing import Any

import pytest
from eager import Eager
from virtual_time import Gate, GatedStore, stored_log, until_nothing_moves, virtually

from weft import AsyncRunner, Policy, Run, Runner, Saga, Workflow, condition, each, step, telemetry
from weft.core.events import InputReceived, ReactionOccurred, RunnableDispatched, RunnableFailed
from weft.errors import RunClosed, RunFailed, StoreError, WaitTimeout
from weft.ports.store import Append
from weft.runner.execution.run_queue import RunQueue
from weft.runner.options import WorkerHooks
from weft.stores import MemoryStore
from weft.testing import RecordingStore


def two_steps(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Workflow:
    """Return a workflow of two steps."""
    return Workflow("two", step(first, name="first") >> step(second, name="second"))


class Held:
    """A run whose first step has ended, and whose second waits until that is stored."""

    def __init__(self, runner: AsyncRunner, gate: Gate, store: GatedStore) -> None:
        self.runner, self.gate, self.store = runner, gate, store

    async def ended(self) -> Run:
        """Let the store write, and return the run once it is done."""
        self.gate.open()
        return await self.runner.wait("it")


@asynccontextmanager
async def held(second: Callable[[Any], Any], **options: Any) -> AsyncIterator[Held]:
    """Open a runner with a run that is between its two steps."""
    store = GatedStore(MemoryStore())
    async with AsyncRunner(store, executor="inline") as runner:
        await runner.start(two_steps(lambda x: x + 1, second), id="it", **options)
        gate = store.hold("append")
        gate.let_one_through()
        await runner.send("it", 1)
        await until_nothing_moves()
        yield Held(runner, gate, store)
        gate.open()


async def begun(call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Return *call* as a task that has come as far as it can while the store writes nothing."""
    task = asyncio.create_task(call)
    await until_nothing_moves()
    return task


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of all components that are put into the queue of a run."""
    names: list[str] = []
    add = RunQueue.add

    def noted(queue: RunQueue, inflight: Any) -> None:
        names.append(inflight.activation.node.name)
        add(queue, inflight)

    monkeypatch.setattr(RunQueue, "add", noted)
    return names


@virtually
async def test_a_chain_of_plain_steps_never_has_a_place_in_the_queue(queued: list[str]) -> None:
    flow = step(lambda x: x + 1, name="a") >> step(lambda x: x * 2, name="b") >> step(str, name="c")
    async with AsyncRunner(executor="inline") as runner:
        handle = await runner.start(Workflow("plain", flow), 1)

        assert await handle.result() == "4"
    assert queued == []


@virtually
async def test_a_step_that_makes_a_small_record_takes_the_straight_lane_too(queued: list[str]) -> None:
    store = MemoryStore()
    async with AsyncRunner(store, executor="inline") as runner:
        handle = await runner.start(two_steps(lambda x: {"x": x}, lambda record: record["x"]), 7, id="it")

        assert await handle.result() == 7
        assert [getattr(event, "value", None) for event in await stored_log(store, "it")][2:] == [{"x": 7}, 7]
    assert queued == []


@virtually
async def test_a_value_that_is_not_data_fails_its_step(queued: list[str]) -> None:
    async with AsyncRunner(executor="inline") as runner:
        handle = await runner.start(two_steps(lambda x: {"x": object()}, str), 7)

        with pytest.raises(RunFailed, match="'first'"):
            await handle.result()
    assert queued == ["first"]


def test_conditions_and_steps_take_the_straight_lane_also_where_steps_run_on_threads(queued: list[str]) -> None:
    flow = condition(lambda x: x > 0, name="positive") >> step(lambda x: -x, name="negate")

    with Runner(executor="thread") as runner:
        assert runner.start(Workflow("rule", flow), 3).result(timeout=60) == -3

    assert queued == []


@pytest.mark.parametrize("made", [object(), "x" * 100_000], ids=["not data", "large"])
def test_an_unusual_value_that_is_made_on_a_thread_ends_its_step_as_on_the_usual_way(made: object) -> None:
    with Runner(executor="thread") as runner:
        run = runner.start(two_steps(lambda _: made, len), 1).wait(timeout=60)

    assert run.status == ("completed" if isinstance(made, str) else "failed")


def test_a_step_that_fails_on_a_thread_is_tried_again_as_its_new_policy_says() -> None:
    calls, may_fail = list[int](), threading.Event()

    def flaky(x: int) -> int:
        calls.append(x)
        may_fail.wait(60)
        if len(calls) == 1:
            raise ValueError(x)
        return x

    with Runner(executor="thread") as runner:
        handle = runner.start(Workflow("w", step(flaky, name="flaky")), 1)
        runner.set_policies(handle.id, [("flaky", Policy(max_retries=1))])
        may_fail.set()

        assert handle.result(timeout=60) == 1
    assert calls == [1, 1]


@virtually
async def test_an_input_that_comes_meanwhile_is_handled_beside_the_upcoming_step() -> None:
    seen: list[int] = []
    async with held(lambda x: seen.append(x) or x) as run:
        sending = await begun(run.runner.send("it", 10))
        run.gate.open()
        await sending
        done = await run.ended()
        log = await stored_log(run.store, "it", done.workflow)

    made = [event.value for event in log if isinstance(event, ReactionOccurred) and event.component == "second"]
    assert sorted(seen) == sorted(made) == [2, 11]
    assert sum(isinstance(event, InputReceived) for event in log) == 2


@virtually
async def test_a_policy_that_is_set_meanwhile_holds_for_the_upcoming_step() -> None:
    tried: list[int] = []

    def flaky(x: int) -> int:
        tried.append(x)
        if len(tried) < 3:
            raise OSError("not yet")
        return x

    async with held(flaky) as run:
        policies = [("second", Policy(max_retries=5, execution_mode="durable"))]
        setting = await begun(run.runner.set_policies("it", policies))
        run.gate.open()
        await setting
        done = await run.ended()

    assert (tried, done.output) == ([2, 2, 2], 2)
    assert any(isinstance(event, RunnableDispatched) for event in done.log())


@virtually
async def test_a_listener_that_comes_meanwhile_hears_of_the_upcoming_step() -> None:
    told: list[tuple[str, str]] = []
    names = ["weft.runner.runnable.start", "weft.runner.runnable.stop"]
    async with held(lambda x: x) as run:
        telemetry.attach("meanwhile", names, lambda event, _, about: told.append((event[-5:], about["component"])))
        try:
            await run.ended()
        finally:
            telemetry.detach("meanwhile")

    assert told == [("start", "second"), (".stop", "second")]


@virtually
async def test_the_run_says_that_it_is_running_and_what_its_upcoming_step_waits_for() -> None:
    async with held(lambda x: x) as run:
        assert await run.runner.status("it") == "running"
        with pytest.raises(WaitTimeout, match="'second' starts once what it needs is stored"):
            await run.runner.wait("it", timeout=1.0)


@virtually
async def test_a_run_that_is_stopped_meanwhile_goes_on_with_its_upcoming_step_when_it_is_resumed() -> None:
    seen: list[int] = []
    workflow = two_steps(lambda x: x + 1, lambda x: seen.append(x) or x)
    store = GatedStore(MemoryStore())
    async with AsyncRunner(store, executor="inline") as runner:
        await runner.start(workflow, id="it")
        gate = store.hold("append")
        gate.let_one_through()
        await runner.send("it", 1)
        await until_nothing_moves()
        gate.open()
        await runner.stop("it")
        assert seen == []
        await runner.resume("it", workflow=workflow)

        assert await runner.result("it") == 2
    assert seen == [2]


@virtually
async def test_a_step_that_fails_there_fails_as_any_other() -> None:
    def broken(x: int) -> int:
        raise OSError("no")

    async with AsyncRunner(executor="inline") as runner:
        handle = await runner.start(two_steps(lambda x: x, broken), 1)

        with pytest.raises(RunFailed, match="OSError: no"):
            await handle.result()


@virtually
async def test_a_large_value_that_is_made_there_is_stored_as_any_other() -> None:
    store = MemoryStore()
    async with AsyncRunner(store, executor="inline") as runner:
        handle = await runner.start(two_steps(lambda n: [{"x": x} for x in range(n)], len), 50_000, id="large")

        assert await handle.result() == 50_000
        assert len((await stored_log(store, "large"))[2].value) == 50_000  # type: ignore[union-attr]


@virtually
async def test_elements_of_a_map_wait_in_the_queue(queued: list[str]) -> None:
    async with AsyncRunner(executor="inline") as runner:
        handle = await runner.start(Workflow("wide", each(step(lambda x: x, name="s"))), [1, 2, 3])
        await handle.wait()

    assert queued == ["s", "s", "s"]


# -- a run that ends meanwhile -------------------------------------------------------------------


@virtually
async def test_a_run_that_is_cancelled_meanwhile_is_cancelled_in_the_store_too() -> None:
    seen: list[int] = []
    async with held(seen.append) as run:
        cancelling = await begun(run.runner.cancel("it", "enough"))
        run.gate.open()
        await cancelling

        assert (await run.store.find("it")).status == "cancelled"
        assert await run.runner.status("it") == "cancelled"
        with pytest.raises(RunClosed):
            await run.runner.send("it", 2)
    assert seen == []


@virtually
async def test_a_run_that_is_cancelled_while_an_earlier_event_is_written_stays_cancelled() -> None:
    store = GatedStore(MemoryStore())
    async with AsyncRunner(store, executor="inline") as runner:
        await runner.start(two_steps(lambda x: x, lambda x: x), id="it")
        gate = store.hold("append")
        calls = [
            await begun(runner.set_policies("it", [])),
            await begun(runner.send("it", 1)),
            await begun(runner.cancel("it", "enough")),
        ]
        gate.open()
        await asyncio.gather(*calls)

        assert await runner.status("it") == (await store.find("it")).status == "cancelled"


# -- a step that tells its own run something -------------------------------------------------------


OUTCOMES: dict[str, Callable[[int], Any]] = {
    "a small value": lambda x: x,
    "a large value": lambda x: [x] * 100_000,
    "a failure": lambda x: 1 // 0,
}


@pytest.mark.parametrize("makes", OUTCOMES.values(), ids=OUTCOMES)
@pytest.mark.parametrize("inputs", [1, 2])
@virtually
async def test_inputs_that_a_step_gives_its_own_run_are_taken_in_when_it_has_ended(
    inputs: int, makes: Callable[[int], Any]
) -> None:
    seen: list[int] = []
    running: list[int] = []
    eager = [Eager() for _ in range(inputs)]

    def tell(x: int) -> Any:
        seen.append(x)
        running.append(x)
        assert running == [x]
        if x == 1:
            for number, each_ in enumerate(eager):
                each_.start(runner.send("it", 50 + number))
        running.remove(x)
        return makes(x)

    async with AsyncRunner(executor="inline", max_concurrency=1) as runner:
        await runner.start(Workflow("tells", step(tell)), id="it")
        await runner.send("it", 1)
        run = await runner.wait("it", timeout=60.0)

    assert seen == [1, *range(50, 50 + inputs)]
    assert len([event for event in run.log() if isinstance(event, ReactionOccurred | RunnableFailed)]) == len(seen)


@virtually
async def test_hooks_hear_of_a_condition_that_is_alone() -> None:
    told: list[str] = []
    hooks = WorkerHooks(on_dispatch=lambda runnable: told.append(runnable.component))
    flow = condition(lambda x: x > 0, name="positive") >> step(lambda x: -x, name="negate")
    async with AsyncRunner(executor="inline") as runner:
        await (await runner.start(Workflow("rule", flow), 3, hooks=hooks)).wait()

    assert told == ["positive", "negate"]


# -- a row of steps ------------------------------------------------------------------------------


class Counting(MemoryStore):
    """A store in memory that counts the events of each append."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        self.counts += [each.count for each in batch]
        return await super().append(batch)


def chain_of(*functions: Callable[[Any], Any]) -> Workflow:
    """Return a chain of steps with the names s0, s1 and so on."""
    return Workflow("row", reduce(rshift, (step(each, name=f"s{i}") for i, each in enumerate(functions))))


def plus_one(x: int) -> int:
    return x + 1


@pytest.mark.parametrize(
    ("steps", "counts"),
    [(1, [2, 1]), (5, [2, 5]), (8, [2, 8]), (9, [2, 8, 1]), (20, [2, 8, 8, 4])],
)
def test_in_memory_a_chain_is_written_a_row_of_steps_at_a_time(steps: int, counts: list[int]) -> None:
    store = Counting()
    with Runner(store, executor="inline") as runner:
        assert runner.start(chain_of(*[plus_one] * steps), 0).result(timeout=10) == steps

    assert store.counts == counts


def test_a_row_makes_the_same_log_as_steps_that_are_written_one_by_one() -> None:
    flow = chain_of(plus_one, lambda x: [x] * 3, lambda x: x[:2], len, lambda x: x / 0)

    def events(store: Any) -> list[Any]:
        with Runner(store, executor="inline") as runner:
            handle = runner.start(flow, 1, id="it")
            handle.wait(timeout=10)
            log = handle.log()
        return [(type(event), getattr(event, "component", None), getattr(event, "value", None)) for event in log]

    together, one_by_one = Counting(), RecordingStore(MemoryStore())

    assert events(together) == events(one_by_one)
    assert together.counts == [2, 5]
    assert [write.append.count for write in one_by_one.writes][:4] == [2, 1, 1, 1]


def test_a_step_that_cancels_its_run_ends_the_row() -> None:
    async def main() -> tuple[str, list[Any]]:
        async with AsyncRunner(Counting(), executor="inline") as runner:
            stopping: list[asyncio.Task[None]] = []

            def stop(x: int) -> int:
                stopping.append(asyncio.get_running_loop().create_task(runner.cancel("it", "enough")))
                return x

            flow = chain_of(plus_one, stop, *[plus_one] * 200)
            await runner.start(flow, 0, id="it")
            await asyncio.gather(*stopping)
            run = await runner.wait("it")
            return await runner.status("it"), [e for e in run.log() if isinstance(e, ReactionOccurred)]

    status, reactions = asyncio.run(main())

    assert status == "cancelled"
    assert 2 <= len(reactions) <= 40  # the others of its row, and those of the rounds until it was cancelled


def test_a_step_of_a_saga_waits_for_the_store_in_memory_too() -> None:
    store = Counting()
    trip = Saga("trip")
    for name in ("book", "pay", "pack"):
        trip.transaction(lambda request, results: request, name=name, compensate=None)
    with Runner(store, executor="inline") as runner:
        runner.start(Workflow("travel", step(plus_one, name="plan") >> trip), 0).wait(timeout=10)

    assert max(store.counts[1:]) < 3
