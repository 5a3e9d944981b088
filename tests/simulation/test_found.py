"""Defects that the simulation has found in the runner, each as small as it gets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from weft import AsyncRunner, Policy, Run, Runnable, Saga, Workflow, each, step
from weft.core.events import AttemptFailed
from weft.errors import DeadlineExceeded, InvalidPolicy
from weft.policy import DEFAULT
from weft.runner import pipelined
from weft.stores import MemoryStore
from weft.testing import FaultyStore, run_virtually
from weft.testing.faults import Fault
from weft.testing.simulation.executor import SimulatedExecutor

T = TypeVar("T")


def run_on(
    executor: SimulatedExecutor, main: Callable[[AsyncRunner], Awaitable[T]], store: Any = None, **options: Any
) -> T:
    """Return what *main* makes of a runner on *executor* alone, in virtual time."""

    async def go() -> T:
        async with AsyncRunner(store, executors={"thread": executor}, clock=Clock(), **options) as runner:
            return await main(runner)

    return run_virtually(go())


class Clock:
    """The time of day is that of the loop."""

    def time(self) -> float:
        """Return it."""
        return asyncio.get_running_loop().time()

    def sleep(self, seconds: float) -> None:
        """Refuse to block."""
        raise NotImplementedError(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


def done(workflow: Workflow, value: Any, **options: Any) -> Callable[[AsyncRunner], Coroutine[Any, Any, Run]]:
    """Return what starts *workflow* and waits for it."""

    async def main(runner: AsyncRunner) -> Run:
        return await (await runner.start(workflow, value, id="r", **options)).wait()

    return main


def test_a_silent_attempt_is_retried_although_there_is_a_deadline() -> None:
    durations = iter([100.0, 1.0])
    policy = Policy(heartbeat=5.0, deadline=1_000.0, max_retries=1)
    workflow = Workflow("w", step(lambda x: x + 1, name="more")).with_policies([("more", policy)])

    run = run_on(SimulatedExecutor(lambda _: next(durations)), done(workflow, 1))

    assert run.output == 2


def test_a_run_goes_on_with_what_a_missed_deadline_has_made_ready() -> None:
    """The late one failed while it was being started, and what that had made ready was not looked at."""
    told = step(lambda failure: failure.type.rpartition(".")[2], name="told")
    late = step(lambda x: x, name="late").on_error(DeadlineExceeded, then=told)
    workflow = Workflow("w", step(lambda x: x, name="slow") >> late).with_policies([("late", Policy(delay=0.5))])
    lasts = {"slow": 0.6, "told": 0.1}

    run = run_on(SimulatedExecutor(lambda runnable: lasts[runnable.component]), done(workflow, 1, deadline=1.0))

    assert run.results() == {"told": "DeadlineExceeded"}


@pytest.mark.parametrize("timeout", [None, 4.0])
def test_no_attempt_starts_after_the_deadline_because_it_had_to_wait_for_a_worker(timeout: float | None) -> None:
    begun: list[tuple[Any, float]] = []

    def lasts(runnable: Runnable) -> float:
        begun.append((runnable.component, asyncio.get_running_loop().time()))
        return 10.0

    first, second = step(lambda x: x, name="first"), step(lambda x: x, name="second")
    limits = Policy(deadline=5.0, timeout=timeout, priority=-1)
    workflow = Workflow("w", first, second).with_policies([("second", limits)])

    run = run_on(SimulatedExecutor(lasts, max_workers=1), done(workflow, 1))

    assert begun == [("first", 0.0)]
    assert isinstance(run.failures["second"].__cause__, DeadlineExceeded)


def test_no_attempt_starts_after_the_deadline_because_it_had_to_wait_for_the_store() -> None:
    begun: list[float] = []

    def lasts(_: Runnable) -> float:
        begun.append(asyncio.get_running_loop().time())
        return 0.0

    async def slowly(act: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.sleep(9.0)
        return await act()

    def refuse(x: int) -> int:
        raise ValueError(x)

    policy = Policy(execution_mode="durable", deadline=5.0, max_retries=1, base_delay=0.1)
    workflow = Workflow("w", step(refuse, name="refuse")).with_policies([("refuse", policy)])
    store = FaultyStore(MemoryStore(), {("append", 2): Fault(slowly)})

    run = run_on(SimulatedExecutor(lasts), done(workflow, 1), store)

    assert begun == [0.0]
    assert isinstance(run.failures["refuse"].__cause__, DeadlineExceeded)


def test_a_retry_after_a_queue_timeout_still_waits_until_its_input_is_durable() -> None:
    durable: list[int] = []
    store = MemoryStore()

    def lasts(_: Runnable) -> float:
        durable.append(store._runs["r"].record.head)
        return 0.0

    async def slowly(act: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.sleep(9.0)
        return await act()

    policy = Policy(queue_timeout=1.0, max_retries=1, base_delay=0.1)
    second = step(lambda x: x, name="second")
    workflow = Workflow("w", step(lambda x: x, name="first") >> second).with_policies([("second", policy)])
    slow = FaultyStore(store, {("append", 2): Fault(slowly)})

    run = run_on(SimulatedExecutor(lasts), done(workflow, 1), slow)

    assert run.output == 1
    assert durable == [2, 4]


def test_an_attempt_is_listened_to_as_the_policy_says_that_holds_when_it_starts() -> None:
    durations = iter([0.0, 1_000.0, 0.0])
    failures = iter([ValueError("not yet")])

    def fragile(x: int) -> int:
        for failure in failures:
            raise failure
        return x

    before = Policy(max_retries=2, backoff="linear", base_delay=10.0)
    workflow = Workflow("w", step(fragile, name="fragile")).with_policies([(DEFAULT, before)])

    async def main(runner: AsyncRunner) -> Run:
        handle = await runner.start(workflow, 1, id="r")
        await asyncio.sleep(5.0)
        await runner.set_policies("r", [(DEFAULT, Policy(max_retries=2, heartbeat=5.0))])
        return await handle.wait()

    run = run_on(SimulatedExecutor(lambda _: next(durations)), main)

    errors = [event.error.type for event in run.log() if isinstance(event, AttemptFailed)]
    assert errors == ["ValueError", "weft.errors.SilentStep"]


def test_a_dead_letter_of_a_runner_is_retried_under_a_policy_that_only_a_runner_can_keep() -> None:
    broken = [True]

    def fragile(x: int) -> int:
        if broken:
            raise ValueError("broken")
        return x

    kept = Policy(on_failure="dead_letter", executor="thread")
    workflow = Workflow("w", step(fragile, name="fragile")).with_policies([(DEFAULT, kept)])

    async def main(runner: AsyncRunner) -> Run:
        await (await runner.start(workflow, 1, id="r")).wait()
        broken.clear()
        with pytest.raises(InvalidPolicy, match="nowhere"):
            await runner.retry("r", policy=Policy(executor="nowhere"))
        await runner.retry("r", policy=Policy(heartbeat=5.0))
        return await runner.wait("r")

    run = run_on(SimulatedExecutor(lambda _: 0.0), main)

    assert run.output == 1
    assert run.dead_letters == []


@pytest.mark.parametrize("depth", [1, 64])
def test_no_step_of_a_saga_runs_ahead_of_the_store(depth: int) -> None:
    durable: dict[str, int] = {}
    store = MemoryStore()

    def lasts(runnable: Runnable) -> float:
        durable[runnable.component] = store._runs["r"].record.head
        return 0.0

    async def slowly(act: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.sleep(1.0)
        return await act()

    trip = Saga("trip")
    trip.transaction(lambda request, results: "booked", name="book", compensate=lambda request, results: "cancelled")
    trip.transaction(lambda request, results: 1 // request, name="pay", compensate=None)
    slow = FaultyStore(store, lambda call, _: Fault(slowly) if call == "append" else None)
    workflow = Workflow("w", step(lambda x: x, name="ask") >> trip)

    run_on(SimulatedExecutor(lasts), done(workflow, 0), slow, checkpoint=pipelined(depth))

    assert durable == {"ask": 2, "trip.book": 3, "trip.pay": 4, "trip.book.undo": 5, "trip": 5}


def test_a_map_of_thousands_waits_without_going_deeper_for_each() -> None:
    delayed = Workflow("w", each(step(lambda x: x, name="one"))).with_policies([("one", Policy(delay=1.0))])

    run = run_on(SimulatedExecutor(lambda _: 0.0, max_workers=100), done(delayed, list(range(1_500))))

    assert len(run.values("one")) == 1_500


def test_what_has_a_deadline_and_waits_too_long_for_a_worker_gives_its_place_back() -> None:
    """The timer of the deadline was taken for that of a limit, so the run had one place less from then on."""
    policy = Policy(deadline=1_000.0, queue_timeout=0.5, max_retries=1, base_delay=0.1)
    workflow = Workflow("w", step(lambda x: x + 1, name="more")).with_policies([("more", policy)])
    busy = Workflow("busy", step(lambda x: x, name="long"))
    lasts = {"long": 10.0, "more": 0.0}

    async def main(runner: AsyncRunner) -> Run:
        await runner.start(busy, 1)
        return await (await runner.start(workflow, 1, max_concurrency=1)).wait(timeout=100.0)

    run = run_on(SimulatedExecutor(lambda runnable: lasts[runnable.component], max_workers=1), main)

    assert run.output == 2
