"""Large values and large collections: encoded once and taken in bit by bit, and nothing of them is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from virtual_time import rounds_until

from weft import AsyncRunner, Policy, Workflow, each, reduce, step
from weft.core.fold.memory import PAGE
from weft.errors import RunClosed, UnencodableValue
from weft.log import decode_segments, references
from weft.ports.store import RunStatus
from weft.runner.durability.unsaved import MOST
from weft.runner.execution.worker import Worker
from weft.runner.options import WorkerHooks
from weft.stores import MemoryStore
from weft.testing import RecordingStore

ITEMS = 50_000
calls: list[int] = []


def make(count: int) -> list[dict[str, Any]]:
    """Return many small values."""
    calls.append(count)
    return [{"id": i} for i in range(count)]


LARGE = Workflow("large", step(make, name="make") >> step(len, name="count"))
SMALL = Workflow("small", step(lambda x: x + 1, name="next"))
COUNT = Workflow("counting", step(len, name="count"))
SUM = Workflow(
    "sum", each(step(lambda x: -x, name="negate")) >> reduce(lambda so_far, x: so_far + x, init=0, name="total")
)


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    calls.clear()


def run(main: Callable[[MemoryStore, AsyncRunner], Awaitable[None]]) -> None:
    """Run *main* with a runner."""

    async def inside() -> None:
        async with MemoryStore() as store, AsyncRunner(store, executor="inline") as runner:
            await main(store, runner)

    asyncio.run(inside())


def worker_of(runner: AsyncRunner, id: str) -> Worker:
    """Return what drives the run *id*."""
    found = runner._runtime.registry.get(id)
    assert found is not None
    return found


async def landing(runner: AsyncRunner, id: str) -> Worker:
    """Wait until a step of the run *id* has ended, and its value is being encoded."""
    worker = worker_of(runner, id)
    await rounds_until(lambda: worker.queue.in_state("encoding"))
    return worker


# -- values --------------------------------------------------------------------------------------


def test_another_run_begins_and_ends_while_a_large_result_is_encoded() -> None:
    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        handle = await runner.start(LARGE, ITEMS, id="large")
        worker = await landing(runner, "large")

        assert await (await runner.start(SMALL, 1)).result() == 2
        assert worker.queue.in_state("encoding")
        assert await handle.result() == ITEMS

    run(main)


def test_another_run_begins_and_ends_while_a_large_input_is_encoded() -> None:
    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        starting = asyncio.ensure_future(runner.start(COUNT, make(ITEMS)))
        await asyncio.sleep(0)

        assert await (await runner.start(SMALL, 1)).result() == 2
        assert not starting.done()
        assert await (await starting).result() == ITEMS

    run(main)


def test_a_large_result_is_stored_as_it_was_returned_whatever_becomes_of_it_later() -> None:
    def grow(rows: list[dict[str, Any]]) -> int:
        rows.append({"id": -1})
        return len(rows)

    workflow = Workflow("growing", step(make, name="make") >> step(grow, name="grow"))

    async def main(store: MemoryStore, runner: AsyncRunner) -> None:
        await (await runner.start(workflow, ITEMS, id="a", checkpoint="on_complete")).wait()
        bodies = [segment.body for segment in (await store.load("a")).segments]
        wanted = references(bodies)
        definitions = await store.load_definitions(wanted.definitions)
        facts = await store.load_facts("a", wanted.facts)
        events: Any = decode_segments(bodies, definitions=definitions, facts=facts, workflow=workflow)

        assert [len(event.value) for event in events if getattr(event, "component", "") == "make"] == [ITEMS]
        assert events[-1].value == ITEMS + 1 or events[-2].value == ITEMS + 1

    run(main)


def test_a_large_result_that_is_not_data_fails_its_step_and_says_where() -> None:
    workflow = Workflow("wrong", step(lambda n: [*make(n), {"id": object()}], name="make"))

    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        handle = await runner.start(workflow, ITEMS)
        await handle.wait()
        failure = (await runner.get(handle.id)).failures["make"]

        assert isinstance(failure.__cause__, UnencodableValue)
        assert (failure.__cause__.component, failure.__cause__.path) == ("make", f"value[{ITEMS}]['id']")

    run(main)


def test_a_large_input_that_is_not_data_is_refused_and_starts_nothing() -> None:
    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        with pytest.raises(UnencodableValue, match="the input cannot be written"):
            await runner.start(COUNT, [*make(ITEMS), object()], id="a")

        assert runner._runtime.registry.get("a") is None

    run(main)


def test_an_input_for_a_run_that_leaves_while_it_is_encoded_is_left_in_its_inbox() -> None:
    async def main(store: MemoryStore, runner: AsyncRunner) -> None:
        await runner.start(COUNT, id="a")
        giving = asyncio.ensure_future(runner.send("a", make(ITEMS)))
        await asyncio.sleep(0)
        await runner.stop("a")

        await giving

        assert [each.kind for each in await store.messages(["a"])] == ["input"]

    run(main)


def test_a_run_that_is_stopped_while_a_result_is_encoded_keeps_it() -> None:
    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        await runner.start(LARGE, ITEMS, id="a")
        await landing(runner, "a")
        await runner.stop("a")
        handle = await runner.resume("a", workflow=LARGE)

        assert await handle.result() == ITEMS
        assert calls == [ITEMS]

    run(main)


def test_a_runner_that_is_closed_while_a_result_is_encoded_keeps_it() -> None:
    async def main() -> None:
        async with MemoryStore() as store:
            async with AsyncRunner(store, executor="inline") as runner:
                await runner.start(LARGE, ITEMS, id="a")
                await landing(runner, "a")
            async with AsyncRunner(store, executor="inline") as another:
                handle = await another.resume("a", workflow=LARGE)
                assert await handle.result() == ITEMS

    asyncio.run(main())

    assert calls == [ITEMS]


def test_a_run_that_is_cancelled_while_a_result_is_encoded_has_nothing_of_it() -> None:
    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        handle = await runner.start(LARGE, ITEMS, id="a")
        worker = await landing(runner, "a")
        await runner.cancel("a")
        await (await runner.start(LARGE, ITEMS)).result()  # which takes as many rounds as were left, and more

        assert not worker.queue.by_key
        assert [type(event).__name__ for event in await handle.log()][-1] == "RunCancelled"
        with pytest.raises(RunClosed):
            await runner.send("a", 1)

    run(main)


# -- collections ---------------------------------------------------------------------------------


def test_between_two_rounds_of_the_loop_no_more_than_a_page_of_elements_is_taken_in() -> None:
    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        handle = await runner.start(SUM, list(range(10 * PAGE)), id="a")
        worker, most = worker_of(runner, "a"), 0
        while not worker.is_settled:
            most = max(most, len(worker.queue.by_key))
            await asyncio.sleep(0)

        assert PAGE <= most <= PAGE + worker.options.max_concurrency
        assert await handle.result() == -sum(range(10 * PAGE))

    run(main)


def waiting_for(event: asyncio.Event) -> Workflow:
    """Return a map over steps that wait for *event*."""

    async def wait(x: int) -> int:
        await event.wait()
        return x

    return Workflow("waiting", each(step(wait, name="wait")))


def test_as_many_elements_are_in_flight_as_the_run_may_have() -> None:
    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        event, elements = asyncio.Event(), PAGE + PAGE // 2
        handle = await runner.start(waiting_for(event), list(range(elements)), max_concurrency=10 * PAGE, id="a")
        worker = worker_of(runner, "a")

        await rounds_until(lambda: [each.is_started for each in worker.queue.by_key.values()] == [True] * elements)

        event.set()
        await handle.wait()

    run(main)


def test_elements_whose_policy_counts_the_time_in_the_queue_are_all_taken_in() -> None:
    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        event = asyncio.Event()
        workflow = waiting_for(event).with_policies([("wait", Policy(queue_timeout=60.0))])
        await runner.start(workflow, list(range(3 * PAGE)), max_concurrency=1, id="a")
        worker = worker_of(runner, "a")

        await rounds_until(lambda: len(worker.queue.by_key) == 3 * PAGE)
        await runner.cancel("a")

    run(main)


def test_elements_that_wait_for_their_next_attempt_do_not_keep_the_others_from_starting() -> None:
    tried: set[int] = set()

    def fail(x: int) -> int:
        tried.add(x)
        raise ValueError(x)

    policy = Policy(max_retries=1, backoff="linear", base_delay=50.0)
    workflow = Workflow("failing", each(step(fail, name="fail"))).with_policies([("fail", policy)])

    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        await runner.start(workflow, list(range(3 * PAGE)), id="a")
        worker = worker_of(runner, "a")
        await rounds_until(lambda: worker.state == "waiting")
        await runner.cancel("a")

    run(main)

    assert len(tried) == 3 * PAGE


def test_a_transform_hook_is_shown_the_whole_collection() -> None:
    shown: list[int] = []

    def transform(runnables: list[Any]) -> list[Any]:
        shown.append(len(runnables))
        return runnables

    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        handle = await runner.start(SUM, list(range(3 * PAGE)), hooks=WorkerHooks(transform=transform))
        await handle.wait()

    run(main)

    assert max(shown) == 3 * PAGE


@pytest.mark.parametrize("rounds", [5, 40, 150])
def test_a_map_that_is_stopped_on_its_way_goes_on_where_it_was(rounds: int) -> None:
    negated: list[int] = []

    def negate(x: int) -> int:
        negated.append(x)
        return -x

    total = reduce(lambda so_far, x: so_far + x, init=0, name="total")
    workflow = Workflow("sum", each(step(negate, name="negate")) >> total)
    elements = list(range(5 * PAGE))

    async def main(_: MemoryStore, runner: AsyncRunner) -> None:
        await runner.start(workflow, elements, id="a")
        for _ in range(rounds):
            await asyncio.sleep(0)
        await runner.stop("a")
        handle = await runner.resume("a", workflow=workflow)

        assert await handle.result() == -sum(elements)

    run(main)

    assert sorted(negated) == elements


# -- long logs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["on_complete", "manual"])
def test_a_long_log_is_written_in_several_segments_and_the_last_one_says_how_the_run_stands(strategy: str) -> None:
    recording = RecordingStore(MemoryStore())
    elements = 3 * MOST

    async def main() -> None:
        async with AsyncRunner(recording, executor="inline", checkpoint=strategy) as runner:
            await (await runner.start(SUM, list(range(elements)), id="a")).wait()
            await runner.checkpoint("a")

    asyncio.run(main())

    appends = [write.append for write in recording.writes]
    assert max(append.count for append in appends) <= MOST
    assert sum(append.count for append in appends) == elements + 4
    statuses: list[RunStatus] = [append.status for append in appends if append.status is not None]
    assert statuses[-1] == "completed"
    assert "completed" not in statuses[:-1]
