"""Runs that steps start: they are waited for or not, and found again by the next attempt."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from callers import T
from parents import careless, children_of, parent_of
from virtual_time import double, now, runner_on, until_nothing_moves, virtually

from weft import AsyncRunner, Policy, Run, Runnable, Runner, Workflow, context, current, each, reduce, step, telemetry
from weft.errors import NoRun, RunFailed, StepTimeout
from weft.policy import DEFAULT
from weft.ports.store import LogStore
from weft.runner.options import WorkerHooks
from weft.stores import MemoryStore
from weft.testing.simulation.executor import SimulatedExecutor
from weft.testing.wrapping import WrappedStore

# -- starting and waiting --------------------------------------------------------------------------


def test_a_plain_function_waits_for_a_child(store: LogStore) -> None:
    parent = Workflow("parent", step(lambda x: current().start_child(double, x).result() + 1, name="delegate"))

    with Runner(store) as runner:
        result = runner.start(parent, 20).result()
        stored = [each.id for each in runner.runs()]

    assert (result, len(stored)) == (41, 2)


def test_a_coroutine_function_awaits_a_child(store: LogStore) -> None:
    with Runner(store) as runner:
        assert runner.start(parent_of(double), 21).result() == 42


def test_a_child_that_is_not_waited_for_goes_on_when_its_parent_has_ended() -> None:
    opened = threading.Event()
    slow = Workflow("slow", step(lambda x: opened.wait(10) and x + 1, name="slow"))

    with Runner() as runner:
        child = runner.start(careless(slow), 1).result()
        before = runner.status(child)
        opened.set()
        result = runner.result(child)

    assert (before, result) == ("running", 2)


def test_a_child_can_be_given_a_name_and_further_input() -> None:
    def talk(x: int) -> list[int]:
        child = current().start_child(double, id="a-double")
        child.send(x)
        child.send(x + 1)
        run = child.wait()
        return [child.id == "a-double", *run.values("double")]

    with Runner() as runner:
        assert runner.start(Workflow("talk", step(talk)), 5).result() == [True, 10, 12]


@virtually
async def test_each_child_of_a_step_has_a_name_of_its_own() -> None:
    async def spread(xs: list[int]) -> list[int]:
        children = [await current().astart_child(double, x) for x in xs]
        return [await child.result() for child in children]

    async with runner_on(MemoryStore()) as runner:
        result = await (await runner.start(Workflow("spread", step(spread)), [1, 2, 3], id="p")).result()
        named = await children_of(runner, "p")

    assert (result, len(set(named))) == ([2, 4, 6], 3)
    assert all(name.startswith("p/spread/") for name in named)


def descending(names: list[str], fails: int = 0) -> Workflow:
    """Return a workflow that starts itself until its input is 0, and notes the ids; its steps fail *fails* times."""
    failed: dict[str, int] = {}

    async def descend(depth: int) -> int:
        here = current()
        if depth == 0:
            return 0
        child = await here.astart_child(family[0], depth - 1)
        names.append(child.id)
        failed[child.id] = failed.get(child.id, 0) + 1
        if failed[child.id] <= fails:
            raise OSError("once more")
        return 1 + int(await child.result())

    family = [Workflow("descent", step(descend)).with_policies([("descend", Policy(max_retries=fails))])]
    return family[0]


@virtually
async def test_ids_of_children_of_children_are_told_apart_and_do_not_grow_for_ever() -> None:
    names: list[str] = []
    async with runner_on(MemoryStore()) as runner:
        result = await (await runner.start(descending(names), 40, id="top")).result()

        stored = [each.id for each in await runner.runs()]

    assert (result, len(names), set(stored)) == (40, 40, {"top", *names})
    assert max(map(len, names)) <= 255
    assert all(name.startswith("top/") and name.endswith("/descent") for name in names)


@virtually
async def test_a_child_deep_below_is_found_again_by_the_next_attempt() -> None:
    names: list[str] = []
    async with runner_on(MemoryStore()) as runner:
        await (await runner.start(descending(names, fails=1), 12, id="top")).result()

        stored = [each.id for each in await runner.runs()]

    assert (len(names), len(stored)) == (24, 13)


@virtually
async def test_ids_do_not_depend_on_when_or_where_they_were_made() -> None:
    families: list[list[str]] = [[], []]
    for names in families:
        async with runner_on(MemoryStore()) as runner:
            await (await runner.start(descending(names), 12, id="top")).result()

    assert families[0] == families[1]


@virtually
async def test_names_that_are_long_themselves_make_no_long_id() -> None:
    async def delegate(x: int) -> str:
        return (await current().astart_child(double.renamed("w" * 300), x)).id

    async with runner_on(MemoryStore()) as runner:
        parent = Workflow("parent", step(delegate, name="s" * 300))
        child = await (await runner.start(parent, 1, id="r" * 300)).result()

    assert child.startswith("r" * 96 + "/~")
    assert len(child) <= 255


@virtually
async def test_a_child_that_was_noted_under_a_longer_id_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, run = parent_of(double), "r" * 300
    async with MemoryStore() as store:
        with monkeypatch.context() as before:
            before.setattr("weft.runner.registry.children._LONGEST", 10_000)
            async with runner_on(store, lasts=lambda each: 100.0 * (each.component == "double"), grace=0.0) as runner:
                await runner.start(parent, 21, id=run)
                await asyncio.sleep(1.0)
        async with runner_on(store) as runner:
            result = await (await runner.resume(run, workflow=parent)).result()

            children = await children_of(runner, run)
            stored = [each.id for each in await runner.runs()]

    assert (result, len(children), len(stored)) == (42, 1, 2)
    assert len(children[0]) > 300


@virtually
async def test_elements_of_a_map_have_children_of_their_own() -> None:
    async def delegate(x: int) -> int:
        return int(await (await current().astart_child(double, x)).result())

    parent = Workflow("parent", each(step(delegate)) >> reduce(lambda total, x: total + x, init=0, name="sum"))

    async with runner_on(MemoryStore()) as runner:
        assert await (await runner.start(parent, [1, 1, 2], id="p")).result() == 8
        assert len(set(await children_of(runner, "p"))) == 3


@virtually
async def test_a_child_sees_the_context_of_its_parent() -> None:
    child = Workflow("child", step(lambda x, rate=context("rate"): x * rate, name="times"))

    async with runner_on(MemoryStore()) as runner:
        handle = await runner.start(parent_of(child), 21, context={"rate": 2})
        assert await handle.result() == 42


@virtually
async def test_a_child_has_neither_the_callback_nor_the_hooks_of_its_parent() -> None:
    told: list[str] = []

    async def tell(id: str, _: Run) -> None:
        told.append(id)

    hooks = WorkerHooks(on_dispatch=lambda runnable: told.append(runnable.component))
    async with runner_on(MemoryStore()) as runner:
        handle = await runner.start(parent_of(double), 1, id="p", on_complete=tell, hooks=hooks)
        await handle.wait()

    assert told == ["delegate", "p"]


@virtually
async def test_a_child_that_fails_fails_the_step_that_waits() -> None:
    child = Workflow("child", step(lambda x: 1 // x, name="divide"))

    async with runner_on(MemoryStore()) as runner:
        handle = await runner.start(parent_of(child), 0)
        with pytest.raises(RunFailed, match="divide"):
            await handle.result()


@virtually
async def test_a_child_that_is_cancelled_fails_the_step_that_waits() -> None:
    async with runner_on(MemoryStore(), lasts=60.0) as runner:
        await runner.start(parent_of(double, id="c"), 1, id="p")
        await asyncio.sleep(1)
        await runner.cancel("c", "not wanted")
        with pytest.raises(RunFailed, match="not wanted"):
            await runner.result("p")


# -- slots -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 12])
def test_parents_that_wait_on_threads_leave_room_for_their_children(count: int) -> None:
    def descend(depth: int) -> int:
        return 1 + int(current().start_child(tree, depth - 1).result()) if depth else 0

    tree = Workflow("tree", step(descend))

    with Runner(threads=1) as runner:
        handles = [runner.start(tree, 3) for _ in range(count)]
        assert [handle.result(timeout=60) for handle in handles] == [3] * count


@virtually
async def test_coroutines_that_wait_leave_room_for_their_children() -> None:
    async def descend(depth: int) -> int:
        return 1 + int(await (await current().astart_child(tree, depth - 1)).result()) if depth else 0

    tree = Workflow("tree", step(descend))

    async with runner_on(MemoryStore(), lasts=1.0, workers=1) as runner:
        handles = [await runner.start(tree, 3) for _ in range(12)]
        assert [await handle.result() for handle in handles] == [3] * 12


@virtually
async def test_a_thread_that_waited_too_long_is_let_go() -> None:
    let_go = threading.Event()

    def wait(x: int) -> Any:
        child = current().start_child(double, x)
        try:
            return child.result()
        except BaseException:
            let_go.set()
            raise

    parent = Workflow("parent", step(wait)).with_policies([("wait", Policy(timeout=5.0))])
    threads = SimulatedExecutor(
        lambda runnable: 60.0 if runnable.component == "double" else 0.0,
        blocks=lambda runnable: runnable.component == "wait",
    )
    async with AsyncRunner(
        executors={"thread": threads}
    ) as runner:  # time passes when the thread waits, and not before
        run = await (await runner.start(parent, 1)).wait()
        ended = now()

        await until_nothing_moves()
        assert let_go.wait(20)
    assert isinstance(run.failures["wait"].__cause__, StepTimeout)
    assert ended == 5.0


def test_a_thread_that_begins_to_wait_when_its_attempt_is_over_is_told_so() -> None:
    cut_short, ended = threading.Event(), threading.Event()
    told: list[BaseException] = []

    def wait(x: int) -> Any:
        try:  # on a busy machine the attempt may be over before it has started its child
            child = current().start_child(Workflow("endless", step(lambda x: ended.wait(20), name="endless")), x)
            assert cut_short.wait(20)
            return child.result()
        except BaseException as error:
            told.append(error)
            raise
        finally:
            ended.set()

    parent = Workflow("parent", step(wait)).with_policies([("wait", Policy(timeout=0.05))])
    telemetry.attach("cut short", ["weft.runner.runnable.timeout"], lambda *_: cut_short.set())
    try:
        with Runner() as runner:
            run = runner.start(parent, 1).wait(20)
            assert ended.wait(20)
    finally:
        telemetry.detach("cut short")

    assert isinstance(run.failures["wait"].__cause__, StepTimeout)
    assert [type(error) for error in told] == [NoRun]


@virtually
async def test_waiting_for_a_child_is_a_sign_of_life() -> None:
    slow = Workflow("slow", step(lambda x: x, name="slow"))
    parent = parent_of(slow).with_policies([(DEFAULT, Policy(heartbeat=5.0))])

    def lasts(runnable: Runnable) -> float:
        return 60.0 if runnable.component == "slow" else 0.0

    executors = {name: SimulatedExecutor(lasts) for name in ("inline", "async", "thread")}
    async with AsyncRunner(executors=executors) as runner:
        assert await (await runner.start(parent, 7)).result() == 7
        assert asyncio.get_running_loop().time() >= 60.0


# -- attempts that are made again ------------------------------------------------------------------


@virtually
async def test_a_step_that_is_tried_again_finds_its_child() -> None:
    calls: list[int] = []
    child = Workflow("child", step(lambda x: calls.append(x) or x, name="count"))

    async def delegate(x: int) -> int:
        started = await current().astart_child(child, x)
        result = int(await started.result())
        if current().attempt < 3:
            raise ConnectionError("not yet")
        return result

    parent = Workflow("parent", step(delegate)).with_policies([(DEFAULT, Policy(max_retries=3, backoff="none"))])

    async with runner_on(MemoryStore()) as runner:
        result = await (await runner.start(parent, 5, id="p")).result()
        named = await children_of(runner, "p")

    assert (result, calls, len(named)) == (5, [5], 1)


@virtually
async def test_a_parent_that_is_resumed_waits_for_the_child_that_it_had(tmp_path: Path) -> None:
    store = MemoryStore()
    calls: list[int] = []
    child = Workflow("child", step(lambda x: calls.append(x) or x, name="count") >> step(lambda x: x + 1, name="more"))
    async with runner_on(store, lasts=60.0, grace=0.0) as runner:
        await runner.start(parent_of(child), 5, id="p")
        await asyncio.sleep(90)

    async with runner_on(store) as runner:
        runner.register(parent_of(child), child)
        resumed = await runner.resume_all()
        result = await runner.result("p")
        stored = [each.id for each in await runner.runs()]

    assert (len(resumed), result, calls, len(stored)) == (2, 6, [5], 2)


@virtually
async def test_resuming_the_parent_alone_brings_the_child_back() -> None:
    store = MemoryStore()
    async with runner_on(store, lasts=60.0, grace=0.0) as runner:
        await runner.start(parent_of(double), 5, id="p")
        await asyncio.sleep(30)

    async with runner_on(store) as runner:
        handle = await runner.resume("p", workflow=parent_of(double))
        assert await handle.result() == 10


@virtually
async def test_stopping_a_runner_does_not_wait_for_a_step_that_waits_and_costs_no_attempt() -> None:
    store = MemoryStore()
    parent = parent_of(double).with_policies([(DEFAULT, Policy(execution_mode="durable"))])
    async with runner_on(store, lasts=3600.0, grace=7200.0) as runner:
        await runner.start(parent, 5, id="p")
        await runner.start(parent, 6, id="q")
        await asyncio.sleep(1)
        await runner.stop("q")
        assert asyncio.get_running_loop().time() < 10

    async with runner_on(store) as runner:
        run = await (await runner.resume("q", workflow=parent)).wait()
    assert (run.output, run.failures) == (12, {})


@virtually
async def test_a_start_that_was_interrupted_leaves_nothing_behind_that_is_in_the_way() -> None:
    store = MemoryStore()
    async with runner_on(store, lasts=60.0, grace=0.0) as runner:
        await runner.start(double, 5, id="c")

    class Slow(WrappedStore):
        async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
            await asyncio.sleep(1.5)
            return await act()

    async with runner_on(Slow(store)) as runner:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(runner.start(double, 5, id="c"), 1.0)
        handle = await runner.start(double, 5, id="c")

        assert await handle.result() == 10


# -- the log ---------------------------------------------------------------------------------------


class Watched(WrappedStore):
    """Notes which runs exist whenever something is appended."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.named: list[str] = []

    async def append(self, appends: Any) -> Any:
        self.named += [append.run for append in appends if append.create]
        for append in appends:
            if append.create and "/" in append.run:
                parent = await self.load_since(append.run.split("/", maxsplit=1)[0], 0)
                assert any(b"child_started" in segment.body for segment in parent.segments)
        return await super().append(appends)


@pytest.mark.parametrize("checkpoint", ["every_cycle", "on_complete", "manual", "pipelined"])
@virtually
async def test_no_child_exists_that_the_stored_log_of_its_parent_does_not_name(checkpoint: str) -> None:
    store = Watched(MemoryStore())

    async with runner_on(store, checkpoint=checkpoint) as runner:
        await (await runner.start(parent_of(double), 5, id="p")).result()

    assert len(store.named) == 2


# -- waiting for long ------------------------------------------------------------------------------


@virtually
async def test_an_attempt_is_alive_as_long_as_it_waits_and_from_then_on_for_itself() -> None:
    def lasts(runnable: Runnable) -> float:
        return 0.85 if runnable.component == "double" else 0.4  # its own time, after what it waited for

    executors = {name: SimulatedExecutor(lasts) for name in ("inline", "async", "thread")}
    parent = parent_of(double).with_policies([("delegate", Policy(heartbeat=1.0))])
    async with AsyncRunner(executors=executors) as runner:
        assert await (await runner.start(parent, 7)).result() == 14


def test_another_thread_may_wait_for_a_child_longer_than_the_step_that_started_it() -> None:
    opened = threading.Event()
    slow = Workflow("slow", step(lambda x: opened.wait(10) and x, name="slow"))
    results: list[Any] = []
    waiting: list[threading.Thread] = []

    def start(x: int) -> str:
        child = current().start_child(slow, x)
        thread = threading.Thread(target=lambda: results.append(child.result()))
        thread.start()
        waiting.append(thread)
        return "started"

    with Runner() as runner:
        runner.start(Workflow("parent", step(start)), 7).result()
        opened.set()
        waiting[0].join(20)

    assert results == [7]
