"""Runs that steps start: `current().start_child`, awaited or not, cancelled with their parent or not."""

from __future__ import annotations

import asyncio
import sys
import threading
import types
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pytest
from weather import SlowStore, double, runner_on, virtually

from weft import AsyncRunner, Policy, Run, Runnable, Runner, Workflow, context, current, each, reduce, step
from weft.core.events import ChildStarted
from weft.errors import (
    InvalidOption,
    NoRun,
    NoRunner,
    OwnershipLost,
    RunClosed,
    RunnerClosed,
    StepFailed,
    StoreUnavailable,
    UnwrittenEvents,
    WorkflowNotFound,
)
from weft.policy import DEFAULT
from weft.ports.store import LogStore
from weft.runner.options import WorkerHooks
from weft.stores import MemoryStore, SQLiteStore
from weft.testing.simulation.executor import SimulatedExecutor
from weft.testing.wrapping import WrappedStore

T = TypeVar("T")


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LogStore:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")


def parent_of(child: Workflow, **options: Any) -> Workflow:
    """Return a workflow whose only step gives what *child* makes of its input."""

    async def delegate(x: Any) -> Any:
        started = await current().astart_child(child, x, **options)
        return await started.result()

    return Workflow("parent", step(delegate, name="delegate"))


def careless(child: Workflow, **options: Any) -> Workflow:
    """Return a workflow that starts *child*, gives its id and does not wait for it."""

    async def start(x: Any) -> str:
        return (await current().astart_child(child, x, **options)).id

    return Workflow("careless", step(start, name="start"))


async def children_of(runner: AsyncRunner, run: str) -> list[str]:
    return [event.child for event in await runner.log(run) if isinstance(event, ChildStarted)]


# -- starting and waiting ------------------------------------------------------------------------


def test_a_plain_function_waits_for_a_child(store: LogStore) -> None:
    parent = Workflow("parent", step(lambda x: current().start_child(double, x).result() + 1, name="delegate"))

    with Runner(store) as runner:
        result = runner.start(parent, 20).result()
        stored = runner.stored()

    assert (result, len(stored)) == (41, 2)


def test_a_coroutine_function_awaits_a_child(store: LogStore) -> None:
    with Runner(store) as runner:
        assert runner.start(parent_of(double), 21).result() == 42


def test_a_child_that_nobody_waits_for_goes_on_when_its_parent_has_ended() -> None:
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

        stored = await runner.stored()

    assert (result, len(names), set(stored)) == (40, 40, {"top", *names})
    assert max(map(len, names)) <= 255
    assert all(name.startswith("top/") and name.endswith("/descent") for name in names)


@virtually
async def test_a_child_deep_below_is_found_again_by_the_next_attempt() -> None:
    names: list[str] = []
    async with runner_on(MemoryStore()) as runner:
        await (await runner.start(descending(names, fails=1), 12, id="top")).result()

        stored = await runner.stored()

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

    assert child.startswith("r" * 40 + "/~")
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
            stored = await runner.stored()

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
        with pytest.raises(StepFailed, match="divide"):
            await handle.result()


@virtually
async def test_a_child_that_is_cancelled_fails_the_step_that_waits() -> None:
    async with runner_on(MemoryStore(), lasts=60.0) as runner:
        await runner.start(parent_of(double, id="c"), 1, id="p")
        await asyncio.sleep(1)
        await runner.cancel("c", "not wanted")
        with pytest.raises(StepFailed, match="not wanted"):
            await runner.result("p")


# -- room ----------------------------------------------------------------------------------------


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


def test_a_thread_that_waited_too_long_is_let_go() -> None:
    opened, let_go = threading.Event(), threading.Event()
    slow = Workflow("slow", step(lambda x: opened.wait(60) and x, name="slow"))

    def wait(x: int) -> Any:
        try:
            return current().start_child(slow, x).result()
        except BaseException:
            let_go.set()
            raise

    parent = Workflow("parent", step(wait)).with_policies([(DEFAULT, Policy(timeout=0.05))])
    with Runner() as runner:
        with pytest.raises(StepFailed):
            runner.start(parent, 1).result()
        in_time = let_go.wait(30)  # it is told by then, and comes round when it does
        opened.set()

    assert in_time


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


# -- again ---------------------------------------------------------------------------------------


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
        stored = await runner.stored()

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
async def test_stopping_a_runner_does_not_wait_for_who_waits_and_burns_no_attempt() -> None:
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


# -- the log -------------------------------------------------------------------------------------


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


# -- cancelling ----------------------------------------------------------------------------------


@pytest.mark.parametrize("with_parent", [True, False])
@virtually
async def test_children_are_cancelled_with_their_parent_unless_told_otherwise(with_parent: bool) -> None:
    store = MemoryStore()
    async with runner_on(store, lasts=60.0) as runner:
        await runner.start(parent_of(double, id="c", cancel_with_parent=with_parent), 5, id="p")
        await asyncio.sleep(1)
        await runner.cancel("p", "enough")

        states = {record.id: record.status for record in await runner.records()}
        result = None if with_parent else await runner.result("c")

    assert states["p"] == "cancelled"
    assert (states["c"] == "cancelled", result) == ((True, None) if with_parent else (False, 10))


@virtually
async def test_children_of_children_are_cancelled_too_also_those_that_are_not_here() -> None:
    store = MemoryStore()
    middle = parent_of(double, id="grandchild")
    async with runner_on(store, lasts=60.0) as runner:
        await runner.start(parent_of(middle, id="child"), 5, id="p")
        await asyncio.sleep(1)
        await runner.stop("grandchild", grace=0)
        await runner.stop("child", grace=0)
        await runner.cancel("p")

        here = await runner.list_workflows()
        states = {record.id: record.status for record in await runner.records()}

    assert here == ["p"]
    assert states == dict.fromkeys(["p", "child", "grandchild"], "cancelled")


class Flaky(WrappedStore):
    """A store that is away from a certain append on."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.appends_left = 1_000

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        if call == "append":
            self.appends_left -= 1
        if call == "append" and self.appends_left < 0:
            raise StoreUnavailable("the store", "it has gone fishing")
        return await act()


@virtually
async def test_a_crash_in_the_middle_of_cancelling_is_made_up_for() -> None:
    inner = MemoryStore()
    store = Flaky(inner)
    runner = await runner_on(store, lasts=60.0, grace=0.0).open()
    await runner.start(parent_of(double, id="c"), 5, id="p")
    await asyncio.sleep(1)
    store.appends_left = 1  # only the parent's own end is stored
    cancelling = asyncio.create_task(runner.cancel("p"))
    await asyncio.sleep(1)
    assert not cancelling.done()
    with pytest.raises(UnwrittenEvents):
        await runner.close()
    cancelling.cancel()

    async with runner_on(inner) as runner:
        runner.register(parent_of(double, id="c"), double)
        before = {record.id: record.status for record in await runner.records()}
        await runner.resume_all()
        await asyncio.sleep(1)
        after = {record.id: record.status for record in await runner.records()}

    assert before["p"] == "running"
    assert after == {"p": "cancelled", "c": "cancelled"}


@virtually
async def test_a_child_that_is_just_being_created_is_cancelled_too() -> None:
    creating = asyncio.Event()

    class Slow(WrappedStore):
        async def append(self, appends: Any) -> Any:
            if any(append.run == "c" and append.create for append in appends):
                creating.set()
                await asyncio.sleep(10)
            return await super().append(appends)

    async with runner_on(Slow(MemoryStore()), lasts=60.0) as runner:
        await runner.start(parent_of(double, id="c"), 5, id="p")
        await creating.wait()
        await runner.cancel("p")

        assert {record.id: record.status for record in await runner.records()} == {"p": "cancelled", "c": "cancelled"}


# -- where it is not possible --------------------------------------------------------------------


def test_without_a_runner_there_are_no_children() -> None:
    parent = Workflow("parent", step(lambda x: current().start_child(double, x), name="delegate"))

    assert isinstance(parent.run(1).failures["delegate"].__cause__, NoRunner)


def test_another_process_starts_no_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weft_parents.py").write_text(PARENTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))  # a worker would import pytest
    delegate = import_module("weft_parents").delegate

    with Runner(executor="process", processes=1) as runner, pytest.raises(StepFailed, match="no runner here"):
        runner.start(Workflow("parent", step(delegate)), 1).result()


PARENTS = """
from weft import Workflow, current, step

double = Workflow("double", step(lambda x: x * 2, name="double"))


def delegate(x):
    return current().start_child(double, x).result()
"""


def _delegate(x: int) -> Any:
    return current().start_child(double, x).result()


@pytest.mark.parametrize("executor", ["inline", "thread"])
def test_start_child_in_the_event_loop_is_refused(executor: str) -> None:
    async def in_a_coroutine(x: int) -> Any:
        return current().start_child(double, x)

    parent = Workflow("parent", step(_delegate if executor == "inline" else in_a_coroutine))

    with Runner(executor=executor) as runner, pytest.raises(StepFailed, match="astart_child") as caught:
        runner.start(parent, 1).result()

    assert isinstance(caught.value.__cause__, InvalidOption)


def test_a_run_is_not_its_own_child() -> None:
    parent = Workflow("parent", step(lambda x: current().start_child(double, x, id="p"), name="delegate"))

    with Runner() as runner, pytest.raises(StepFailed, match="its own child"):
        runner.start(parent, 1, id="p").result()


def test_an_attempt_that_is_over_starts_no_children() -> None:
    begun, opened, ended = threading.Event(), threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def late(x: int) -> None:
        here = current()
        begun.set()
        opened.wait(10)
        try:
            here.start_child(double, x, id="c")
        except NoRun as error:
            raised.append(error)
        ended.set()

    with Runner() as runner:
        runner.start(Workflow("late", step(late)), 1, id="p")
        begun.wait(10)
        runner.cancel("p")
        opened.set()
        ended.wait(10)
        with pytest.raises(WorkflowNotFound):
            runner.result("c")

    assert "is over" in str(raised[0])


def test_the_result_of_a_cancelled_run_says_so() -> None:
    with Runner() as runner:
        runner.start_workflow("a", double)
        runner.cancel("a", "not wanted")
        with pytest.raises(RunClosed, match="not wanted"):
            runner.result("a")


# -- what was tried to break it ------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"id": 5}, {"id": "\ud800"}, {"cancel_with_parent": "yes"}, {"executor": "nowhere"}], ids=str
)
def test_a_child_that_cannot_be_is_refused_before_the_log_names_it(store: LogStore, options: dict[str, Any]) -> None:
    def delegate(x: int) -> str:
        with pytest.raises(InvalidOption):
            current().start_child(double, x, **options)
        return "refused"

    parent = Workflow("parent", step(delegate))
    with Runner(store) as runner:
        run = runner.start(parent, 1, id="p").wait()

        assert (run.output, run.children) == ("refused", {})


@virtually
async def test_cancelling_needs_neither_the_code_nor_the_context_of_a_child() -> None:
    child = Workflow("child", step(lambda x, rate=context("rate"): x * rate, name="times"))

    async def two(x: int) -> None:
        await current().astart_child(child, x, id="c1")
        await current().astart_child(child, x, id="c2")

    store = MemoryStore()
    async with runner_on(store, lasts=60.0, grace=0.0) as runner:
        await runner.start(Workflow("two", step(two)), 1, id="p", context={"rate": 2})
        await asyncio.sleep(1)

    async with runner_on(store, lasts=60.0) as runner:
        await runner.resume("p", workflow=Workflow("two", step(two)))
        await runner.cancel("p")
        states = {record.id: record.status for record in await runner.records()}

    assert states == dict.fromkeys(["p", "c1", "c2"], "cancelled")


@virtually
async def test_a_child_whose_worker_is_being_rebuilt_is_cancelled_too() -> None:
    crashes = iter([True])

    def crash(runnable: Runnable) -> bool:
        return runnable.component == "double" and next(crashes, False)

    async with runner_on(SlowStore(MemoryStore()), refuses=crash) as runner:
        handle = await runner.start(careless(double), 1, id="p")
        child = await handle.result()

        await handle.cancel()

        assert await runner.status(child) == "cancelled"


@virtually
async def test_a_circle_of_children_is_cancelled() -> None:
    flows: dict[str, Workflow] = {}

    def starting(child: str) -> Workflow:
        async def start(x: int) -> None:
            await current().astart_child(flows[child], x, id=child)

        return Workflow(f"of {child}", step(start))

    flows.update(B=starting("C"), C=starting("B"))
    async with runner_on(MemoryStore(), lasts=60.0) as runner:
        await runner.start(starting("B"), 1, id="A")
        await asyncio.sleep(1)
        await runner.cancel("A")

        assert {record.id: record.status for record in await runner.records()} == dict.fromkeys("ABC", "cancelled")


@pytest.mark.parametrize("is_here", [True, False])
@virtually
async def test_one_child_that_cannot_be_cancelled_does_not_save_the_others(is_here: bool) -> None:
    class Lost(WrappedStore):
        is_lost = False

        async def append(self, appends: Any) -> Any:
            answers = list(await super().append([each for each in appends if not self.is_lost or each.run != "c1"]))
            return [
                OwnershipLost("c1", 1, 2) if self.is_lost and each.run == "c1" else answers.pop(0) for each in appends
            ]

    async def two(x: int) -> None:
        await current().astart_child(double, x, id="c1")
        await current().astart_child(double, x, id="c2")

    store = Lost(MemoryStore())
    async with runner_on(store, lasts=60.0) as runner:
        await runner.start(Workflow("two", step(two)), 1, id="p")
        await asyncio.sleep(1)
        if not is_here:
            await runner.stop("c1", grace=0)
        store.is_lost = True
        with pytest.raises(OwnershipLost):
            await runner.cancel("p")
        states = {record.id: record.status for record in await runner.records()}

    assert (states["c2"], states["p"]) == ("cancelled", "running")


class Dawdling(WrappedStore):
    """Takes ten seconds for what is written of the run "c", once it is told to."""

    dawdles = False

    async def append(self, appends: Any) -> Any:
        if self.dawdles and any(append.run == "c" for append in appends):
            await asyncio.sleep(10)
        return await super().append(appends)


@virtually
async def test_whoever_cancels_is_told_that_the_runner_was_closed() -> None:
    store = Dawdling(MemoryStore())
    async with runner_on(store, lasts=60.0, grace=0.0) as runner:
        await runner.start(parent_of(double, id="c"), 5, id="p")
        await asyncio.sleep(1)
        store.dawdles = True
        cancelling = asyncio.create_task(runner.cancel("p"))
        await asyncio.sleep(1)

    with pytest.raises(RunnerClosed):
        await cancelling


@virtually
async def test_whoever_cancels_is_told_that_the_run_was_deleted() -> None:
    store = Dawdling(MemoryStore())
    async with runner_on(store, lasts=60.0) as runner:
        await runner.start(parent_of(double, id="c"), 5, id="p")
        await asyncio.sleep(1)
        store.dawdles = True
        cancelling = asyncio.create_task(runner.cancel("p"))
        await asyncio.sleep(1)
        await runner.delete("p")

        with pytest.raises(WorkflowNotFound):
            await cancelling
        assert await runner.status("c") == "cancelled"


def test_a_handle_that_outlives_its_runner_says_that_it_is_closed() -> None:
    kept: list[Any] = []

    def keep(x: int) -> int:
        kept.append(current().start_child(double, x))
        return int(kept[0].result())

    with Runner() as runner:
        runner.start(Workflow("keep", step(keep)), 1).result()

    with pytest.raises(RunnerClosed):
        kept[0].result()


@virtually
async def test_an_attempt_is_alive_as_long_as_it_waits_and_from_then_on_for_itself() -> None:
    def lasts(runnable: Runnable) -> float:
        return 0.85 if runnable.component == "double" else 0.4  # its own time, after what it waited for

    executors = {name: SimulatedExecutor(lasts) for name in ("inline", "async", "thread")}
    parent = parent_of(double).with_policies([("delegate", Policy(heartbeat=1.0))])
    async with AsyncRunner(executors=executors) as runner:
        assert await (await runner.start(parent, 7)).result() == 14


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
