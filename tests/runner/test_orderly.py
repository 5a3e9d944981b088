"""
Closing, stopping, cancelled callers, and several callers of one run: nothing is lost on the orderly paths.

Most of it is on virtual time, where a hang is the error ``Stuck``.  A gate in the store decides what happens first.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from weather import (
    GatedStore,
    SlowStore,
    double,
    keys_of,
    now,
    runner_on,
    stored_log,
    until_nothing_moves,
    virtually,
)

import weft
from weft import AsyncRunner, Run, Runnable, Runner, Workflow, errors, step
from weft.errors import (
    CorruptStore,
    RunClosed,
    RunnerClosed,
    RunParked,
    StoreError,
    WaitTimeout,
    WeftError,
    WorkflowAlreadyStarted,
    WorkflowNotFound,
)
from weft.ports.store import Append
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import Fault, FaultyStore
from weft.testing.wrapping import WrappedStore

T = TypeVar("T")

chain = Workflow("chain", step(lambda x: x + 1, name="slow") >> step(lambda x: x * 2, name="next"))


def started(call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Return a caller of its own that makes this *call*."""
    return asyncio.get_running_loop().create_task(call)


async def cut_off(call: Coroutine[Any, Any, object], seconds: float) -> None:
    """Make a *call*, and stop waiting for it after so many seconds."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await call


async def ended(task: asyncio.Task[Any]) -> str:
    """Return how a call has ended: ``"returned"``, or with which error."""
    try:
        await task
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return type(error).__name__
    return "returned"


async def resumed(inner: MemoryStore, run: str, workflow: Workflow) -> Run:
    """Return *run* as it ends in another runner."""
    async with runner_on(inner) as other:
        return await (await other.resume(run, workflow=workflow)).wait()


# -- closing while the store is unavailable ------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.fail(), Fault.fail_after()], ids=["not written", "written"])
@pytest.mark.parametrize("strategy", ["every_cycle", "pipelined", "on_complete", "manual"])
@pytest.mark.parametrize("times", [5, 8])
@virtually
async def test_closing_while_the_store_is_unavailable_for_a_moment_writes_everything_once(
    times: int, strategy: str, fault: Fault
) -> None:
    inner, failures = MemoryStore(), iter([fault] * times)
    store = FaultyStore(inner, lambda call, _: next(failures, None) if call == "append" and now() >= 5.0 else None)
    runner = await runner_on(store, lasts=5.0, checkpoint=strategy, grace=30.0).open()
    await runner.start(chain, 1, id="a")
    await asyncio.sleep(5.5)

    await runner.close()

    async with inner:
        log = await stored_log(inner, "a", chain)
    assert len(log) == (3 if strategy == "every_cycle" else 4)  # the others run ahead of the store
    run = await resumed(inner, "a", chain)
    assert run.values("next") == [4]


@pytest.mark.parametrize("strategy", ["every_cycle", "on_complete", "manual"])
@virtually
async def test_closing_says_which_events_it_could_not_write_and_leaves_a_log_that_can_be_resumed(strategy: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    runner = await runner_on(store, checkpoint=strategy, grace=2.0).open()
    await runner.start_workflow("a", chain)
    store.is_unavailable("append")
    taken, waiting = started(runner.run("a", 1)), started(runner.wait("a"))
    if strategy == "manual":
        await waiting
    await until_nothing_moves()

    with pytest.raises(errors.UnwrittenEvents) as raised:
        await runner.close()

    unwritten = {"every_cycle": 1, "on_complete": 3, "manual": 3}[strategy]
    assert raised.value.runs == {"a": unwritten}
    refusals = ("RunnerClosed", "StoreUnavailable")  # as its input may be given again
    assert await ended(taken) in (refusals if strategy == "every_cycle" else ("returned",))
    assert await ended(waiting) in (("returned",) if strategy == "manual" else refusals)
    with pytest.raises(RunnerClosed):
        await runner.status("a")
    assert not store.is_open
    async with inner:
        assert len(await stored_log(inner, "a", chain)) == 1
        assert (await inner.find("a")).owner is None
    async with runner_on(inner) as other:
        handle = await other.resume("a", workflow=chain)
        await handle.send(1)
        assert (await handle.wait()).values("next") == [4]


def test_closing_a_blocking_runner_says_that_it_could_not_write(tmp_path: Path) -> None:
    class Unavailable(SQLiteStore):
        is_unavailable = False

        async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
            if self.is_unavailable:
                raise errors.StoreUnavailable("the store", "a test says so")
            return await super().append(batch)

    store = Unavailable(tmp_path / "runs.db")
    runner = Runner(store, checkpoint="manual", executor="inline", grace=0.0).open()
    runner.start_workflow("a", double)
    store.is_unavailable = True
    runner.run("a", 1)

    with pytest.raises(errors.UnwrittenEvents) as raised:
        runner.close()

    assert raised.value.runs == {"a": 2}
    assert not store.is_open


@pytest.mark.parametrize("moment", ["while it runs", "while it closes"])
@virtually
async def test_a_store_that_was_broken_for_a_moment_leaves_a_log_that_can_be_resumed(moment: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    runner = await runner_on(store, lasts=5.0).open()
    await runner.start(chain, 1, id="a")
    broken = {"append": lambda: CorruptStore("the gated store", "a test says so")}
    store.fails_with = broken
    await asyncio.sleep(7.0)
    if moment == "while it runs":
        store.fails_with = {}

    with suppress(errors.UnwrittenEvents):  # it writes what is left, or says that it cannot
        await runner.close()

    async with inner:
        await stored_log(inner, "a", chain)
    run = await resumed(inner, "a", chain)
    assert run.values("next") == [4]


# -- closing and stopping when their caller is cancelled -----------------------------------------


@pytest.mark.parametrize("strategy", ["every_cycle", "manual"])
@pytest.mark.parametrize("moment", ["a step", "append", "close"])
@virtually
async def test_closing_goes_on_when_its_caller_is_cancelled_and_a_second_caller_joins_it(
    moment: str, strategy: str
) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    runner = await runner_on(store, lasts=3.0 if moment == "a step" else 0.0, checkpoint=strategy).open()
    await runner.start_workflow("a", double)
    gate = None if moment == "a step" else store.hold(moment)
    taken = started(runner.run("a", 1, key="k"))
    await until_nothing_moves()

    await cut_off(runner.close(), 1.0)
    second = started(runner.close())
    await until_nothing_moves()
    if gate is not None:
        gate.open()
    await second

    assert not store.is_open
    async with inner:
        keys = keys_of(await stored_log(inner, "a"))
        assert (await inner.find("a")).owner is None
    assert keys == ["k"]
    assert await ended(taken) in ("returned", "RunnerClosed")


@virtually
async def test_closing_whose_caller_is_cancelled_comes_to_its_end_by_itself() -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    runner = await runner_on(store, lasts=3.0).open()
    await runner.start(double, 1, id="a")

    await cut_off(runner.close(), 1.0)
    await asyncio.sleep(10.0)

    assert not store.is_open
    assert (await resumed(inner, "a", double)).values("double") == [2]


@pytest.mark.parametrize("way", ["stop", "delete"])
@virtually
async def test_closing_waits_no_longer_than_its_own_grace_time_for_a_run_that_is_let_go_of(way: str) -> None:
    inner = MemoryStore()
    runner = await runner_on(inner, lasts=1_000.0, grace=60.0).open()
    await runner.start(double, 1, id="a")
    await until_nothing_moves()
    leaving = started(runner.stop("a") if way == "stop" else runner.delete("a"))
    await until_nothing_moves()
    began = now()

    await runner.close(grace=1.0)

    assert now() - began < 2.0
    assert await ended(leaving) in ("returned", "RunnerClosed")
    async with inner:
        assert await owned(inner) == []


def test_a_ctrl_c_while_a_runner_closes_leaves_everything_written_and_the_store_closed(tmp_path: Path) -> None:
    received = threading.Event()

    class Interrupted(SQLiteStore):
        is_closing = False

        async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
            if self.is_closing and not received.is_set():
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.get_running_loop().run_in_executor(None, received.wait, 20)
                await asyncio.sleep(0.1)  # the commit is slow: the caller gives up first
            return await super().append(batch)

    def on_signal(*_: object) -> None:
        received.set()
        raise KeyboardInterrupt

    store = Interrupted(tmp_path / "runs.db")
    runner = Runner(store, checkpoint="manual", executor="inline").open()
    runner.start_workflow("a", double)
    runner.run("a", 1, key="k")
    store.is_closing = True

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.close()
    finally:
        signal.signal(signal.SIGINT, before)

    assert not store.is_open
    with Runner(SQLiteStore(tmp_path / "runs.db")) as other:
        other.resume("a", workflow=double)
        assert keys_of(other.log("a")) == ["k"]


@virtually
async def test_stopping_goes_on_when_its_caller_is_cancelled() -> None:
    inner = MemoryStore()
    async with runner_on(inner, lasts=5.0) as runner:
        await runner.start(chain, 1, id="a")

        await cut_off(runner.stop("a"), 1.0)
        await asyncio.sleep(10.0)

        assert await runner.list_workflows() == []
        assert (await inner.find("a")).owner is None
        assert len(await stored_log(inner, "a", chain)) == 3


@virtually
async def test_a_run_goes_on_that_is_resumed_after_the_caller_of_stop_was_cancelled() -> None:
    async with runner_on(MemoryStore(), lasts=5.0) as runner:
        handle = await runner.start(chain, 1, id="a")

        await cut_off(runner.stop("a"), 1.0)
        await runner.resume("a", workflow=chain)
        await handle.send(10)
        run = await handle.wait()

    assert sorted(run.values("next")) == [4, 22]


@virtually
async def test_a_second_caller_of_stop_joins_the_first_whose_caller_was_cancelled() -> None:
    executed: list[str] = []

    def lasts(runnable: Runnable) -> float:
        executed.append(runnable.component)
        return 5.0

    inner = MemoryStore()
    async with runner_on(inner, lasts=lasts) as runner:
        await runner.start(chain, 1, id="a")
        await until_nothing_moves()

        await cut_off(runner.stop("a"), 1.0)
        await runner.stop("a")

        assert await runner.list_workflows() == []
        assert (await inner.find("a")).owner is None
        log = await stored_log(inner, "a", chain)
    assert (executed, len(log)) == (["slow"], 3)


@pytest.mark.parametrize("moment", ["append", "release"])
@virtually
async def test_a_stop_that_was_cancelled_while_it_asked_the_store_leaves_a_run_that_can_be_used(moment: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with runner_on(store, checkpoint="manual") as runner:
        handle = await runner.start_workflow("a", double)
        await handle.send(1, key="k1")
        gate = store.hold(moment)

        await cut_off(runner.stop("a"), 1.0)
        gate.open()
        await runner.resume("a", workflow=double)
        await handle.send(2, key="k2")
        run = await handle.wait()
        await runner.checkpoint("a")

        assert sorted(run.values("double")) == [2, 4]
        assert keys_of(await stored_log(inner, "a")) == ["k1", "k2"]


@pytest.mark.parametrize("way", ["close", "stop"])
@pytest.mark.parametrize("what", ["start", "cancel", "wait"])
@virtually
async def test_a_step_that_uses_a_child_while_it_is_being_stopped_burns_no_attempt(what: str, way: str) -> None:
    inner, begun, gate = MemoryStore(), asyncio.Event(), asyncio.Event()

    async def delegate(x: int) -> Any:
        child = None if what == "start" else await weft.current().astart_child(double, x)
        begun.set()
        await gate.wait()
        child = child or await weft.current().astart_child(double, x)
        if what == "cancel":
            await child.cancel()
            return "cancelled"
        return await child.result()

    parent = Workflow("parent", step(delegate))
    runner = await runner_on(inner, grace=60.0).open()
    runner.register(parent, double)
    await runner.start(parent, 1, id="p")
    await begun.wait()
    stopping = started(runner.close() if way == "close" else runner.stop("p"))
    await until_nothing_moves()
    gate.set()
    await stopping
    await runner.close()

    async with runner_on(inner) as other:
        other.register(parent, double)
        run = await (await other.resume("p")).wait()
    assert run.failures == {}
    assert run.output == ("cancelled" if what == "cancel" else 2)


# -- opening -------------------------------------------------------------------------------------


@pytest.mark.parametrize("patience", [0.25, 0.5, 0.75, 1.0])
@virtually
async def test_a_runner_whose_only_opener_was_cancelled_leaves_its_store_closed(patience: float) -> None:
    store = SlowStore(MemoryStore())
    runner = runner_on(store)

    try:
        async with asyncio.timeout(patience):
            await runner.open()
    except TimeoutError:
        with pytest.raises(RunnerClosed):
            await runner.open()
    await runner.close()

    assert not store.is_open


@virtually
async def test_a_runner_is_open_for_one_caller_although_another_was_cancelled() -> None:
    runner = runner_on(SlowStore(MemoryStore()))
    first, second = started(runner.open()), started(runner.open())
    await asyncio.sleep(0.1)
    second.cancel()
    await first

    assert await (await runner.start(double, 2)).result() == 4
    await runner.close()


# -- several callers of one run ------------------------------------------------------------------


class Traffic:
    """Callers of one run, each with an input of its own."""

    def __init__(self, runner: AsyncRunner) -> None:
        self._runner = runner
        self.inputs: dict[str, asyncio.Task[None]] = {}

    def give(self, key: str) -> None:
        """Give the run an input, which is not waited for."""
        self.inputs[key] = started(self._runner.run("x", 1, key=key))

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
        await (await runner.start(double, 0, id="x")).wait()
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
        starting = started(runner.start(double, 0, id="x"))
        await until_nothing_moves()
        if not is_patient:
            starting.cancel()
            await until_nothing_moves()
        traffic.give("k3")
        waiting, writing = started(runner.wait("x")), started(runner.checkpoint("x"))
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
            assert await runner.list_workflows() == ["x"]
        await ended(stopping)

    async with inner:
        keys = keys_of(await stored_log(inner, "x"))
    acknowledged = {key for key, how in told.items() if how == "returned"}
    assert acknowledged - set(keys) == set()
    assert len(keys) == len(set(keys))
    assert set(told.values()) | others <= {"returned", "WorkflowNotFound"}
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

        late = started(runner.run("x", 2, key="late"))
        await until_nothing_moves()
        before = len(await stored_log(inner, "x"))
        await stopping

        told = await ended(late)
        keys = keys_of(await stored_log(inner, "x"))
    assert before == 2
    assert (told, keys) in [("WorkflowNotFound", [None]), ("returned", [None, "late"])]
    assert told == "WorkflowNotFound"


@pytest.mark.parametrize("call", ["run", "stop", "checkpoint", "wait", "cancel", "set_policies"])
@virtually
async def test_callers_are_not_told_that_a_start_whose_caller_was_cancelled_found_the_run_stored(call: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with runner_on(store) as runner:
        await (await runner.start(double, 0, id="x")).wait()
        await runner.stop("x")
        gate = store.hold("append")
        await cut_off(runner.start(double, 0, id="x"), 1.0)

        calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "run": lambda: runner.run("x", 1),
            "stop": lambda: runner.stop("x"),
            "checkpoint": lambda: runner.checkpoint("x"),
            "wait": lambda: runner.wait("x"),
            "cancel": lambda: runner.cancel("x"),
            "set_policies": lambda: runner.set_policies("x", []),
        }
        asking = started(calls[call]())
        await until_nothing_moves()
        gate.open()

        assert await ended(asking) in ("returned", "WorkflowNotFound")


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
        await (await runner.start_workflow("a", double)).send(1, key="k1")
        await runner.wait("a")
        await runner.stop("a")
        await asyncio.sleep(1.0)  # two runs of one id are told apart by when they were created
        is_again = True

        with pytest.raises(WorkflowAlreadyStarted):
            await runner.start_workflow("a", double)
        assert await runner.list_workflows() == []
        handle = await runner.start(double, id="a")
        await handle.send(2, key="k2")
        run = await handle.wait()

        assert sorted(run.values("double")) == [2, 4]
        assert keys_of(await stored_log(inner, "a")) == ["k1", "k2"]


# -- resuming everything beside other callers ----------------------------------------------------


async def two_interrupted(inner: MemoryStore) -> None:
    """Leave two runs in the store that have something to do."""
    async with runner_on(inner, lasts=60.0, grace=0.0) as runner:
        for run in ("first", "second"):
            await runner.start(double, 1, id=run)


async def owned(store: MemoryStore) -> list[str]:
    """Return the runs that have an owner."""
    return [record.id for record in await store.list() if record.owner is not None]


MOMENTS = {
    "listing": ("list_free",),
    "taking": ("acquire_many",),
    "loading": ("load_many", "load_since"),
}
"""What resuming everything asks of the store, by what for: in pages, or one by one where a store can do no more."""


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("way", ["resume", "start"])
@virtually
async def test_resuming_everything_brings_back_only_what_it_owns(way: str, moment: str) -> None:
    inner = MemoryStore()
    await two_interrupted(inner)
    executed: list[str] = []

    def lasts(runnable: Runnable) -> float:
        executed.append(runnable.run_id)
        return 5.0

    store = GatedStore(inner)
    async with runner_on(store, lasts=lasts, grace=0.0) as runner:
        runner.register(double)
        gate = store.hold(*MOMENTS[moment], times=1)
        everything = started(runner.resume_all())
        await gate.reached.wait()

        async def in_between() -> None:
            if way == "resume":
                await runner.resume("second")
            else:
                await runner.start(double, 1, id="second")
            await runner.stop("second", grace=60.0)

        between = started(in_between())
        await asyncio.sleep(10.0)
        gate.open()
        await asyncio.gather(everything, between)

        assert sorted(await owned(inner)) == sorted(await runner.list_workflows())
        for run in await runner.list_workflows():
            assert (await runner.wait(run)).values("double") == [2]
        assert executed.count("second") == 1
        assert executed.count("first") == 1


@pytest.mark.parametrize("moment", MOMENTS)
@virtually
async def test_resuming_everything_leaves_no_run_owned_that_is_not_here_when_its_caller_is_cancelled(
    moment: str,
) -> None:
    inner = MemoryStore()
    await two_interrupted(inner)
    store = GatedStore(inner)
    async with runner_on(store, lasts=5.0) as runner:
        runner.register(double)
        gate = store.hold(*MOMENTS[moment], times=1)
        everything = started(runner.resume_all())
        await gate.reached.wait()
        everything.cancel()
        await until_nothing_moves()
        gate.open()
        await until_nothing_moves()

        assert sorted(await owned(inner)) == sorted(await runner.list_workflows())
        await runner.resume_all()
        assert sorted(await runner.list_workflows()) == ["first", "second"]
        assert [await runner.result(run) for run in ("first", "second")] == [2, 2]


# -- a journal that is cancelled from outside ----------------------------------------------------


def cancel_all_tasks(*but: asyncio.Task[Any]) -> None:
    """Do what some frameworks do when they shut down."""
    for task in asyncio.all_tasks() - {asyncio.current_task(), *but}:
        task.cancel()


@virtually
async def test_a_runner_goes_on_when_all_tasks_of_its_loop_were_cancelled() -> None:
    inner = MemoryStore()
    async with runner_on(inner) as runner:
        await (await runner.start(double, 1, id="a")).wait()
        await until_nothing_moves()

        cancel_all_tasks()
        await until_nothing_moves()
        handle = await runner.start(double, 2, id="b")

        assert await handle.result() == 4
        assert await (await runner.resume("a")).result() == 2


@virtually
async def test_nothing_is_lost_or_written_twice_when_the_journal_is_cancelled_in_the_middle_of_a_commit() -> None:
    inner = MemoryStore()
    store = SlowStore(inner)
    async with runner_on(store) as runner:
        await (await runner.start(double, 0, id="a")).wait()
        for moment in (0.2, 0.7):  # before and after it is written
            taken = started(runner.run("a", 1, key=f"k{moment}"))
            await asyncio.sleep(moment)

            cancel_all_tasks(taken)

            assert await ended(taken) == "returned"
        waited = await runner.wait("a")

        keys = keys_of(await stored_log(inner, "a"))
    assert keys == [None, "k0.2", "k0.7"]
    assert waited.values("double") == [0, 2, 2]


def test_a_step_that_cancels_all_tasks_of_the_loop_hangs_nobody() -> None:
    async def shut_down(x: int) -> int:
        cancel_all_tasks()
        return x

    outcomes: list[str] = []

    def use() -> None:
        with Runner(grace=1.0) as runner:
            for workflow in (Workflow("bad", step(shut_down)), double):
                try:
                    outcomes.append(str(runner.start(workflow, 2).result(timeout=5)))
                except WeftError as error:
                    outcomes.append(type(error).__name__)

    caller = threading.Thread(target=use, daemon=True)
    caller.start()
    caller.join(30)

    assert not caller.is_alive(), f"it hangs after {outcomes}"
    assert outcomes[0] != "WaitTimeout"
    assert outcomes[1] == "4"


# -- waiting -------------------------------------------------------------------------------------


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
        with pytest.raises(WorkflowNotFound):
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


@pytest.mark.parametrize("call", ["find", "list", "delete", "acquire", "load_since"])
@virtually
async def test_a_caller_that_waits_for_the_store_while_the_runner_is_closed_is_told_that_it_is_closed(
    call: str,
) -> None:
    inner = MemoryStore()
    async with runner_on(inner) as runner:
        await (await runner.start(double, 1, id="a")).wait()
    store = GatedStore(inner)
    runner = await runner_on(store).open()
    calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "find": lambda: runner.run("a", 1),
        "list": runner.records,
        "delete": lambda: runner.delete("a"),
        "acquire": lambda: runner.resume("a", workflow=double),
        "load_since": lambda: runner.resume("a", workflow=double),
    }
    gate = store.hold(call)
    asking = started(calls[call]())
    await until_nothing_moves()
    closing = started(runner.close())
    await asyncio.sleep(60.0)
    gate.open()

    await closing
    assert await ended(asking) in ("returned", "RunnerClosed", "WorkflowNotFound")
    async with inner:
        assert await owned(inner) == []


# -- callbacks -----------------------------------------------------------------------------------


def next_of_nothing(*_: Any) -> Any:
    """Raise StopIteration, as a ``next`` without a match does."""
    return next(iter(()))


async def next_of_nothing_in_the_loop(*_: Any) -> Any:
    """Raise it in a coroutine function, where Python makes a RuntimeError of it."""
    return next(iter(()))


class Callback:
    """A callable object, which is not a function."""

    def __call__(self, *_: Any) -> Any:
        """Raise it."""
        raise StopIteration


@pytest.mark.parametrize("callback", [next_of_nothing, next_of_nothing_in_the_loop, Callback()])
def test_a_callback_that_raises_stop_iteration_is_logged_and_changes_nothing(
    callback: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with Runner(grace=1.0) as runner:
        handle = runner.start(double, 1, id="a", on_complete=callback)

        assert handle.result(timeout=10) == 2

    assert "on_complete of run 'a' failed" in caplog.text


# -- a batch of which one part cannot be written -------------------------------------------------


class Picky(WrappedStore):
    """Raises for a whole batch if one run of it cannot be written, as a store with a bug does."""

    def __init__(self, inner: GatedStore) -> None:
        super().__init__(inner)
        self.refuses = {"bad"}

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Write *batch*, if all of it can be written."""
        for append in batch:
            if append.run in self.refuses and not append.create:
                raise CorruptStore("the picky store", f"the row of {append.run!r}")
        return await super().append(batch)


@virtually
async def test_a_run_that_cannot_be_written_parks_no_other_run_of_its_batch_and_comes_back() -> None:
    inner = MemoryStore()
    gated = GatedStore(inner)
    store = Picky(gated)
    async with runner_on(store) as runner:
        runner.register(double)
        for run in ("first", "good", "bad", "better"):
            await runner.start_workflow(run, double)
        gate = gated.hold("append", times=1)
        first = started(runner.run("first", 0))
        await gate.reached.wait()
        told = {run: started(runner.run(run, 1, key="k")) for run in ("good", "bad", "better")}
        await until_nothing_moves()
        gate.open()

        outcomes = {run: await ended(task) for run, task in told.items()}
        await first
        assert outcomes == {"good": "returned", "bad": "CorruptStore", "better": "returned"}
        assert [await runner.result(run) for run in ("first", "good", "better")] == [0, 2, 2]
        with pytest.raises(RunParked, match="the row of 'bad'"):
            await runner.wait("bad")

        store.refuses.clear()
        assert [handle.id for handle in await runner.resume_all()] == []
        assert [handle.id for handle in await runner.resume_all(parked=True)] == ["bad"]
        await runner.run("bad", 1, key="k")
        assert await runner.result("bad") == 2
    async with inner:
        assert {run: keys_of(await stored_log(inner, run)) for run in ("good", "bad")} == {"good": ["k"], "bad": ["k"]}


@virtually
async def test_a_run_that_was_parked_in_another_process_comes_back_when_parked_runs_are_resumed_too() -> None:
    inner = MemoryStore()
    async with runner_on(inner, refuses=lambda _: True) as runner:
        handle = await runner.start(double, 1, id="a")
        with pytest.raises(RunParked):
            await handle.wait()

    async with runner_on(inner) as runner:
        runner.register(double)
        assert [handle.id for handle in await runner.resume_all()] == []
        [handle] = await runner.resume_all(parked=True)
        assert await handle.result() == 2


# -- cancelled callers of all other calls --------------------------------------------------------


@pytest.mark.parametrize("call", ["start", "start_workflow", "run", "resume", "cancel", "delete", "visit"])
@pytest.mark.parametrize("seconds", [0.25, 0.75, 1.25, 1.75])
@virtually
async def test_a_call_whose_caller_is_cancelled_has_happened_or_not_and_can_be_made_again(
    call: str, seconds: float
) -> None:
    inner = MemoryStore()
    async with runner_on(SlowStore(inner)) as runner:
        runner.register(double)
        if call not in ("start", "start_workflow"):
            await (await runner.start(double, 1, id="a")).wait()
        if call in ("resume", "visit"):
            await runner.stop("a")
        calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "start": lambda: runner.start(double, 1, id="a"),
            "start_workflow": lambda: runner.start_workflow("a", double),
            "run": lambda: runner.run("a", 1, key="k"),
            "resume": lambda: runner.resume("a"),
            "cancel": lambda: runner.cancel("a"),
            "delete": lambda: runner.delete("a"),
            "visit": lambda: runner.start(double, 1, id="a"),
        }
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await calls[call]()

        again = await ended(started(calls[call]()))
        expected = {
            "delete": {"returned", "WorkflowNotFound"},
            "start_workflow": {"returned", "WorkflowAlreadyStarted"},
        }
        assert again in expected.get(call, {"returned"})
        if call == "start_workflow":
            await runner.resume("a")
        if call == "delete":
            assert await runner.list_workflows() == await owned(inner) == []
            return
        try:
            run = await runner.wait("a")
        except RunClosed:
            run = await runner.get_workflow("a")
        assert len(keys_of(run.log())) == {"run": 2, "start_workflow": 0}.get(call, 1)
        assert await runner.list_workflows() == await owned(inner) == ["a"]
