"""
The corners of the orderly paths: two things in one round of the loop, and tasks that are cancelled before they begin.

On virtual time, where a hang is the error ``Stuck``; as ``test_orderly.py``, which has the broad ways.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from weather import GatedStore, SlowStore, double, now, runner_on, stored_log, until_nothing_moves, virtually

from weft import AsyncRunner, Policy, Run, Runnable, Workflow, current, step
from weft.errors import RunOwned, RunParked, StoreUnavailable, UnwrittenEvents, WaitTimeout, WeftError
from weft.runner.execution.worker import Worker
from weft.stores import MemoryStore
from weft.testing import Fault, FaultyStore
from weft.testing.simulation.executor import SimulatedExecutor

T = TypeVar("T")


def started(call: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Return a caller of its own that makes this *call*."""
    return asyncio.get_running_loop().create_task(call)


async def ended(task: asyncio.Task[Any]) -> str:
    """Return how a call has ended: ``"returned"``, or with which error."""
    try:
        await task
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the test looks at it
        return type(error).__name__
    return "returned"


def cancel_tasks_of(function: str) -> None:
    """Cancel all tasks that run this *function*, as code that shares the loop may."""
    for task in asyncio.all_tasks():
        if getattr(task.get_coro(), "__name__", "") == function:
            task.cancel()


# -- opening -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_alone", [True, False])
@virtually
async def test_a_caller_that_is_cancelled_in_the_moment_in_which_a_runner_is_open_leaves_nothing_open(
    is_alone: bool,
) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    gate = store.hold("open")
    runner = runner_on(store)
    cancelled = started(runner.open())
    await asyncio.sleep(0)
    others = [] if is_alone else [started(runner.open())]
    await gate.reached.wait()
    [opening] = [task for task in asyncio.all_tasks() if task.get_name() == "weft-open"]
    opening.add_done_callback(lambda _: cancelled.cancel())
    gate.open()

    assert await ended(cancelled) == "CancelledError"
    assert [await ended(other) for other in others] == ["returned"] * len(others)
    if others:
        assert await (await runner.start(double, 1)).result() == 2
        await runner.close()
    await until_nothing_moves()
    assert not inner.is_open


@virtually
async def test_a_caller_of_open_that_is_cancelled_does_not_close_what_another_one_has_opened() -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    gate = store.hold("open")
    runner = runner_on(store)

    async def open_first() -> None:
        await runner.open()
        second.cancel()

    first = started(open_first())
    await asyncio.sleep(0)
    second = started(runner.open())
    await gate.reached.wait()
    await until_nothing_moves()
    gate.open()

    assert (await ended(first), await ended(second)) == ("returned", "CancelledError")
    await until_nothing_moves()
    assert await (await runner.start(double, 1)).result() == 2
    await runner.close()
    assert not inner.is_open


@virtually
async def test_a_caller_that_opens_a_runner_after_it_could_not_be_opened_can_close_it() -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    store.is_unavailable("open")
    gate = store.hold("open", times=1)
    runner = runner_on(store)

    async def open_twice() -> None:
        with pytest.raises(StoreUnavailable):
            await runner.open()
        store.fails_with.clear()
        await runner.open()

    first = started(open_twice())
    await asyncio.sleep(0)
    second = started(runner.open())  # which is told of the failure when the first one tries again already
    await gate.reached.wait()
    await until_nothing_moves()
    gate.open()

    assert (await ended(first), await ended(second)) == ("returned", "StoreUnavailable")
    await runner.close()
    assert not inner.is_open


@virtually
async def test_a_runner_that_is_closed_while_it_opens_is_closed_once_if_the_caller_of_open_is_cancelled() -> None:
    closed: list[float] = []

    class Watched(SlowStore):
        async def close(self) -> None:
            await super().close()
            closed.append(now())

    runner = runner_on(Watched(MemoryStore()))
    opening = started(runner.open())
    await asyncio.sleep(0.2)
    closing = started(runner.close())
    await asyncio.sleep(0.2)

    opening.cancel()

    assert (await ended(opening), await ended(closing)) == ("CancelledError", "returned")
    await asyncio.sleep(10)
    assert len(closed) == 1


@virtually
async def test_a_runner_whose_executors_cannot_be_opened_leaves_its_store_closed() -> None:
    class Broken(SimulatedExecutor):
        def open(self, wake: Callable[[], None]) -> None:
            raise OSError("no more threads")

    store = MemoryStore()
    runner = AsyncRunner(store, executors={"thread": Broken(lambda _: 0.0)})

    with pytest.raises(OSError, match="no more threads"):
        await runner.open()

    assert not store.is_open


# -- crashes -------------------------------------------------------------------------------------


def crash() -> None:
    raise ValueError("a bug")


class Refuses:
    """Lets executors refuse the first *times* attempts, which crashes their workers; calls *then* just before."""

    def __init__(self, times: int, then: Callable[[], object] = lambda: None) -> None:
        self.left, self._then = times, then

    def __call__(self, _: Runnable) -> bool:
        self.left -= 1
        if self.left >= 0:
            self._then()
        return self.left >= 0


@virtually
async def test_a_worker_is_rebuilt_although_other_code_cancels_that_before_it_begins() -> None:
    def cancel() -> None:
        asyncio.get_running_loop().call_soon(cancel_tasks_of, "_restart")

    async with runner_on(MemoryStore(), refuses=Refuses(1, cancel)) as runner:
        handle = await runner.start(double, 1)

        assert await handle.result() == 2


@virtually
async def test_a_run_whose_worker_crashes_while_it_is_stopped_leaves_at_once() -> None:
    async with runner_on(MemoryStore(), lasts=50.0, refuses=lambda runnable: runnable.args == (2,)) as runner:
        await runner.start(double, 1, id="a")
        worker = runner._runtime.registry.get("a")
        assert worker is not None
        stopping = started(runner.stop("a", grace=20.0))
        await asyncio.sleep(1.0)

        worker.dispatcher.guard(worker, crash)
        await stopping

        assert now() < 2.0


@virtually
async def test_crashes_are_forgotten_after_a_while() -> None:
    crashed: set[str] = set()

    def once(runnable: Runnable) -> bool:
        is_first = runnable.run_id not in crashed
        crashed.add(runnable.run_id)
        return is_first

    async with runner_on(MemoryStore(), refuses=once) as runner:
        for number in range(10):
            await (await runner.start(double, 1, id=f"run {number}")).wait()
            await runner.stop(f"run {number}")
            await asyncio.sleep(50.0)

        assert list(runner._runtime.registry.supervisor._restarts) == ["run 8", "run 9"]


# -- callbacks -----------------------------------------------------------------------------------


@virtually
async def test_on_complete_is_called_although_other_code_cancels_that_before_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[str] = []

    async def done(run: str, _: Run) -> None:
        called.append(run)

    async with runner_on(MemoryStore()) as runner:
        waiters = runner._runtime.waiters
        settled = waiters.settled

        def settled_and_cancelled(worker: Worker) -> None:
            settled(worker)
            cancel_tasks_of("_notify")
            monkeypatch.undo()

        await runner.start_workflow("a", double, on_complete=done)
        await until_nothing_moves()
        monkeypatch.setattr(waiters, "settled", settled_and_cancelled)
        await runner.run("a", 1)

        assert await runner.result("a") == 2
    assert called == ["a"]


@pytest.mark.parametrize("moment", ["append", "release"])
@virtually
async def test_a_callback_that_returns_when_everything_is_written_leaves_nothing_unwritten(moment: str) -> None:
    store, returns = GatedStore(MemoryStore()), asyncio.Event()

    async def done(*_: object) -> None:
        try:
            await returns.wait()
        except asyncio.CancelledError:  # it does not let itself be cancelled
            await returns.wait()

    runner = await runner_on(store, grace=1.0).open()
    await runner.start(double, 1, id="a", on_complete=done)
    await runner.start(double, 1, id="b", on_complete=done)
    await runner.start(double, 1, id="c", checkpoint="manual")
    await until_nothing_moves()
    gate = store.hold(moment)
    stopping = started(runner.stop("b", grace=0.5))
    await asyncio.sleep(0.6)
    closing = started(runner.close())
    await asyncio.sleep(1.1)
    assert gate.reached.is_set()

    returns.set()
    await until_nothing_moves()
    gate.open()

    assert (await ended(closing), await ended(stopping)) == ("returned", "returned")


@virtually
async def test_a_callback_that_closes_its_runner_does_not_wait_for_itself() -> None:
    called: list[str] = []

    async def close(run: str, _: Run) -> None:
        called.append(run)
        await runner.close()

    inner = MemoryStore()
    runner = await runner_on(inner, grace=10.0).open()
    await runner.start(double, 1, id="a", on_complete=close)
    await until_nothing_moves()

    await runner.close()

    assert now() < 1.0
    async with runner_on(inner) as other:
        await other.resume("a", workflow=double, on_complete=close)
        await other.wait("a")
    assert called == ["a"]  # it counts as called


# -- parked runs ---------------------------------------------------------------------------------


def tell(runner: AsyncRunner, call: str, run: str) -> Coroutine[Any, Any, None]:
    """Return a *call* that changes a *run*."""
    match call:
        case "cancel":
            return runner.cancel(run)
        case "set_policies":
            return runner.set_policies(run, [("double", Policy(max_retries=1))])
        case "retry":
            return runner.retry(run)
        case _:
            return runner.discard(run)


@pytest.mark.parametrize("call", ["set_policies", "retry", "discard"])
@virtually
async def test_a_parked_run_that_is_told_something_is_still_parked_to_who_waits_for_it(call: str) -> None:
    async with runner_on(MemoryStore(), refuses=lambda _: True) as runner:
        handle = await runner.start(double, 1, id="a")
        with pytest.raises(RunParked):
            await handle.wait()

        await tell(runner, call, "a")

        with pytest.raises(RunParked):
            await handle.wait()


@pytest.mark.parametrize("call", ["cancel", "set_policies"])
@pytest.mark.parametrize("moment", ["acquire", "load_since", "append"])
@virtually
async def test_what_a_parked_run_is_told_while_it_is_brought_back_is_in_its_log(moment: str, call: str) -> None:
    inner = MemoryStore()
    store, refuses = GatedStore(inner), Refuses(4)
    async with runner_on(store, lasts=1.0, refuses=refuses) as runner:
        handle = await runner.start(double, 1, id="a")
        with pytest.raises(RunParked):
            await handle.wait()
        loading = store.hold("acquire" if moment == "acquire" else "load_since", times=1)
        back = started(runner.resume("a"))
        await loading.reached.wait()
        writing = store.hold("append", times=1 if moment == "append" else 0)

        told = started(tell(runner, call, "a"))
        await until_nothing_moves()
        loading.open()
        await until_nothing_moves()
        writing.open()

        assert (await ended(back), await ended(told)) == ("returned", "returned")
        kinds = {type(event).__name__ for event in await stored_log(inner, "a")}
        assert ("RunCancelled" if call == "cancel" else "PolicyChanged") in kinds


@pytest.mark.parametrize("call", ["cancel", "set_policies", "retry", "discard"])
@virtually
async def test_a_run_that_the_store_has_refused_is_not_changed_and_can_be_resumed(call: str) -> None:
    store = GatedStore(MemoryStore())
    async with runner_on(store) as runner:
        await runner.start_workflow("a", double)
        store.fails_with["append"] = lambda: ValueError("a bug in the store")
        with pytest.raises(ValueError, match="a bug"):
            await runner.run("a", 1)
        store.fails_with.clear()

        with pytest.raises(RunParked, match="a bug in the store"):
            await tell(runner, call, "a")

        assert await runner.status("a") == "parked"
        with pytest.raises(RunParked):
            await runner.wait("a")
        await runner.resume("a", workflow=double)
        await runner.run("a", 1)
        assert await runner.result("a") == 2


@virtually
async def test_callers_of_a_run_that_the_store_has_refused_leave_nothing_in_memory() -> None:
    store = GatedStore(MemoryStore())
    async with runner_on(store) as runner:
        await runner.start_workflow("a", double)
        store.fails_with["append"] = lambda: ValueError("a bug in the store")
        with pytest.raises(ValueError, match="a bug"):
            await runner.run("a", 1)
        store.fails_with.clear()

        depths: list[int] = []
        for _ in range(3):
            with pytest.raises(ValueError, match="a bug") as raised:
                await runner.checkpoint("a")
            depths.append(len(raised.traceback))

        assert depths == depths[:1] * 3
        await runner.resume("a", workflow=double)


# -- what closing says ---------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["its own", "handed over"])
@virtually
async def test_closing_says_what_is_unwritten_also_if_the_runs_cannot_be_given_back(whose: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    if whose == "handed over":
        await store.open()
    runner = await runner_on(store, grace=2.0).open()
    await runner.start_workflow("a", double)
    store.is_unavailable("append", "release", "close")
    taken = started(runner.run("a", 1))
    await until_nothing_moves()

    with pytest.raises(UnwrittenEvents) as raised:
        await runner.close()

    assert (raised.value.runs, await ended(taken)) == ({"a": 1}, "StoreUnavailable")
    store.fails_with.clear()
    with pytest.raises(UnwrittenEvents):  # which goes on with it, and gives the runs back
        await runner.close()
    if whose == "handed over":
        assert (await inner.find("a")).owner is None
        await store.close()
    assert not inner.is_open
    await runner.close()


@virtually
async def test_closing_says_what_is_unwritten_to_the_first_caller_that_is_there_to_hear_it() -> None:
    store = GatedStore(MemoryStore())
    runner = await runner_on(store, grace=2.0).open()
    await runner.start_workflow("a", double)
    store.is_unavailable("append")
    taken = started(runner.run("a", 1))
    await until_nothing_moves()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await runner.close()
    await asyncio.sleep(10.0)

    with pytest.raises(UnwrittenEvents):
        await runner.close()

    await runner.close()
    assert await ended(taken) == "StoreUnavailable"


@pytest.mark.parametrize("call", ["resume", "resume_all"])
@virtually
async def test_a_run_that_was_acquired_without_an_answer_is_given_back_when_the_runner_is_closed(call: str) -> None:
    async with MemoryStore() as inner:
        async with runner_on(inner, lasts=5.0, grace=0.0) as runner:
            await runner.start(double, 1, id="a")
        store = FaultyStore(inner, lambda of, _: Fault.fail_after() if of.startswith("acquire") else None)
        runner = await runner_on(store, grace=1.0).open()
        caller = started(runner.resume("a", workflow=double) if call == "resume" else runner.resume_all())
        await asyncio.sleep(1.0)

        await runner.close()

        assert await ended(caller) == "StoreUnavailable"
        assert (await inner.find("a")).owner is None


@pytest.mark.parametrize("call", ["stop", "resume"])
@virtually
async def test_runs_that_could_not_be_given_back_are_when_the_runner_is_closed_again(call: str) -> None:
    async with MemoryStore() as inner:
        async with runner_on(inner) as runner:
            await (await runner.start(double, 1, id="a")).wait()
        store = GatedStore(inner)
        runner = await runner_on(store, grace=1.0).open()
        if call == "stop":
            await runner.resume("a", workflow=double)
        gate = store.hold("release" if call == "stop" else "load_since")
        caller = started(runner.stop("a") if call == "stop" else runner.resume("a", workflow=double))
        await gate.reached.wait()
        closing = started(runner.close())
        await until_nothing_moves()
        store.is_unavailable("release", "load_since")
        gate.open()
        outcomes = (await ended(caller), await ended(closing))
        assert outcomes[1] in ("returned", "StoreUnavailable")
        store.fails_with.clear()

        await runner.close()

        assert (await inner.find("a")).owner is None


@virtually
async def test_a_run_that_cannot_be_written_does_not_make_its_store_unavailable() -> None:
    store = GatedStore(MemoryStore())
    runner = await runner_on(store).open()
    await runner.start_workflow("a", double)
    await runner.start_workflow("b", double)
    store.fails_with["append"] = lambda: ValueError("a bug in the store")
    with pytest.raises(ValueError, match="a bug"):
        await runner.run("a", 1)
    store.fails_with.clear()
    gate = store.hold("append")
    taken = started(runner.run("b", 1))

    await gate.reached.wait()
    with pytest.raises(WaitTimeout) as late:
        await runner.wait("b", timeout=1.0)
    gate.open()
    await taken
    with pytest.raises(UnwrittenEvents, match="the store said: a bug in the store") as raised:
        await runner.close()

    assert "away" not in str(late.value)
    assert isinstance(raised.value, WeftError)
    assert raised.value.runs == {"a": 1}


# -- children ------------------------------------------------------------------------------------


@virtually
async def test_that_children_could_not_be_cancelled_is_logged_if_the_caller_is_not_there_to_hear_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def wait(_: int) -> None:
        await asyncio.sleep(3600.0)

    async def have_child(_: int) -> None:
        await (await current().astart_child(Workflow("child", step(wait)), 1, id="child")).result()

    store = GatedStore(MemoryStore())
    async with runner_on(store, grace=0.0) as runner:
        await runner.start(Workflow("parent", step(have_child)), 1, id="parent")
        await until_nothing_moves()
        await runner.stop("child")
        store.fails_with["acquire"] = lambda: RunOwned("child", "another process")
        gate = store.hold("acquire")
        cancelling = started(runner.cancel("parent"))
        await gate.reached.wait()

        cancelling.cancel()
        assert await ended(cancelling) == "CancelledError"
        gate.open()
        await until_nothing_moves()

        assert "could not be cancelled: run 'child' is held by another process" in caplog.text
