"""Calls of on_complete: once for every busy period, one at a time, and before a wait ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from callers import cancel_tasks_of, ended, started
from small_flows import chain
from virtual_time import GatedStore, SlowStore, double, now, runner_on, until_nothing_moves, virtually

from weft import Policy, Run, Runner, Workflow, step
from weft.core.events import Notified, RunCancelled
from weft.errors import RunClosed
from weft.ports.store import LogStore
from weft.runner.execution.worker import Worker
from weft.stores import MemoryStore

# -- one call for each busy period -----------------------------------------------------------------


@virtually
async def test_an_input_whose_key_was_seen_is_nothing_to_tell() -> None:
    told: list[int] = []

    async def tell(_: str, run: Run) -> None:
        told.append(run.memory.received)

    async with runner_on() as runner:
        await runner.start(double, id="a", on_complete=tell)
        for _ in range(2):
            await runner.send("a", 1, key="once")
            await runner.wait("a")

    assert told == [1]


@virtually
async def test_on_complete_is_called_once_at_a_time_also_by_a_worker_that_was_rebuilt() -> None:
    order: list[tuple[str, int]] = []
    crashes, has_begun = iter([False, True]), asyncio.Event()

    async def tell(_: str, run: Run) -> None:
        inputs = run.memory.received
        order.append(("begins", inputs))
        has_begun.set()
        await asyncio.sleep(10.0 if inputs == 1 else 0.0)
        order.append(("ends", inputs))

    async with runner_on(refuses=lambda _: next(crashes, False)) as runner:
        await runner.start(double, 1, id="a", on_complete=tell, open=True)
        await has_begun.wait()
        await runner.send("a", 2)
        await runner.wait("a")

    assert order == [("begins", 1), ("ends", 1), ("begins", 2), ("ends", 2)]


@virtually
async def test_a_change_of_policies_is_nothing_to_tell_here_or_after_a_resume() -> None:
    told: list[int] = []

    async def tell(_: str, run: Run) -> None:
        told.append(run.memory.received)

    async with MemoryStore() as store:
        async with runner_on(store) as runner:
            await (await runner.start(double, 1, id="a", on_complete=tell, open=True)).wait()
            await runner.set_policies("a", [("double", Policy(max_retries=1))])
            await runner.wait("a")
        async with runner_on(store) as runner:
            await runner.resume("a", workflow=double, on_complete=tell)
            await runner.wait("a")

    assert told == [1]


def test_on_complete_is_called_once_for_every_busy_period_before_wait_returns(store: LogStore) -> None:
    """CONFORMANCE 90."""
    told: list[Any] = []

    def note(id: str, run: Run, *more: object) -> None:
        told.append((id, run.values("increment"), *more))

    with Runner(store) as runner:
        runner.start(chain, id="a", on_complete=note, on_complete_args=("x",))
        runner.send("a", 5)
        runner.wait("a")
        assert told == [("a", [11], "x")]
        runner.send("a", 6)
        runner.wait("a")
        events = runner.log("a")

    assert told == [("a", [11], "x"), ("a", [11, 13], "x")]
    assert sum(isinstance(event, Notified) for event in events) == 2


@virtually
async def test_a_caller_that_waits_is_told_when_it_is_durable_that_on_complete_was_called() -> None:
    store = SlowStore(MemoryStore())
    told: list[str] = []

    async def on_complete(run: str, _: Run) -> None:
        told.append(run)

    async with runner_on(store) as runner:
        run = await (await runner.start(double, 5, id="a", on_complete=on_complete)).wait()
        stored = await store.inner.find("a")

    assert isinstance(run.log()[-1], Notified)
    assert (stored.head, stored.status, told) == (len(run.log()), "completed", ["a"])


@virtually
async def test_a_wait_in_a_second_busy_period_ends_after_the_second_call_of_on_complete() -> None:
    told: list[int] = []
    begun = asyncio.Event()

    async def on_complete(_: str, run: Run) -> None:
        begun.set()
        await asyncio.sleep(1)
        told.append(len(run.values("double")))

    async with runner_on(SlowStore(MemoryStore())) as runner:
        handle = await runner.start(double, 1, id="a", on_complete=on_complete, open=True)
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
        handle = await runner.start(double, 1, id="a", on_complete=on_complete, open=True)
        await asyncio.sleep(1)
        await handle.send(2)
        await handle.wait()

    assert seen == [1, 2]


@virtually
async def test_a_run_whose_on_complete_was_called_is_resumed_without_calling_it_again() -> None:
    store = MemoryStore()
    told: list[str] = []

    async def on_complete(run: str, _: Run) -> None:
        told.append(run)

    async with runner_on(store) as runner:
        await (await runner.start(double, 1, id="a", on_complete=on_complete, open=True)).wait()
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
        handle = await runner.start(double, 1, id="a", on_complete=on_complete, open=True)
        await asyncio.sleep(1.0)
        await handle.send(2)
        await asyncio.sleep(12.0)
    async with runner_on(store) as runner:
        runner.register(double)
        for handle in await runner.resume_all(on_complete=on_complete):
            await handle.wait()

    assert seen == [1, 2]


# -- calls that are cut off ------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", ["every_cycle", "on_complete", "manual"])
@virtually
async def test_a_caller_that_waits_for_a_run_that_is_cancelled_while_its_on_complete_is_called_is_told(
    checkpoint: str,
) -> None:
    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    async with runner_on(grace=0.0, checkpoint=checkpoint) as runner:
        handle = await runner.start(double, 1, id="a", on_complete=never, open=True)
        waits = asyncio.create_task(handle.wait(60.0))
        await asyncio.sleep(1.0)

        await runner.cancel("a", "not wanted")

        assert isinstance((await waits).log()[-1], RunCancelled)
        assert isinstance((await runner.wait("a", 60.0)).log()[-1], RunCancelled)


def fails(_: Any) -> Any:
    raise ValueError("no")


@pytest.mark.parametrize("checkpoint", ["every_cycle", "on_complete", "manual"])
@pytest.mark.parametrize("workflow", [double, Workflow("fails", step(fails))], ids=["completed", "failed"])
@virtually
async def test_a_run_whose_on_complete_never_returns_can_be_cancelled(workflow: Workflow, checkpoint: str) -> None:
    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    store = MemoryStore()
    async with runner_on(store, grace=0.0, checkpoint=checkpoint) as runner:
        handle = await runner.start(workflow, 1, id="a", on_complete=never)
        waits = asyncio.create_task(handle.wait(60.0))
        await asyncio.sleep(1.0)

        await runner.cancel("a", "not wanted", by="me")

        assert (await waits).status == "cancelled"
        record = await store.find("a")
        assert (record.status, record.reason, runner.held) == ("cancelled", "not wanted", [])
        with pytest.raises(RunClosed, match="not wanted"):
            await handle.result()


@virtually
async def test_a_run_whose_on_complete_has_returned_cannot_be_cancelled_any_more() -> None:
    async def told(*_: Any) -> None:
        pass

    async with runner_on() as runner:
        handle = await runner.start(double, 1, id="a", on_complete=told)
        await handle.wait()

        with pytest.raises(RunClosed, match="has completed"):
            await runner.cancel("a")
        assert await handle.result() == 2


@virtually
async def test_a_callback_that_has_not_returned_does_not_hold_up_that_of_the_next_run_with_its_id() -> None:
    called: list[int] = []

    async def never_at_first(_: str, run: Run) -> None:
        called.append(run.results()["double"])
        if len(called) == 1:
            await asyncio.Event().wait()

    async with runner_on(grace=0.0) as runner:
        await runner.start(double, 1, id="a", on_complete=never_at_first)
        await until_nothing_moves()
        await runner.cancel("a")

        again = await runner.start(double, 5, id="a", if_exists="restart", on_complete=never_at_first)

        assert (await again.wait(60.0)).status == "completed"
    assert called == [2, 10]


@virtually
async def test_a_run_that_is_cancelled_while_it_is_told_that_it_is_idle_gets_no_event_after_that() -> None:
    async def tell(*_: object) -> None:
        await asyncio.sleep(1.0)

    async with runner_on() as runner:
        handle = await runner.start(double, 1, on_complete=tell, open=True)
        await asyncio.sleep(0.5)

        await handle.cancel()
        await asyncio.sleep(1.0)

        assert isinstance((await handle.log())[-1], RunCancelled)


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

        await runner.start(double, id="a", on_complete=done)
        await until_nothing_moves()
        monkeypatch.setattr(waiters, "settled", settled_and_cancelled)
        await runner.send("a", 1)

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


# -- callbacks that misbehave ----------------------------------------------------------------------


def test_a_callback_that_fails_changes_nothing(store: LogStore) -> None:
    def fails(id: str, run: Run) -> None:
        raise RuntimeError("no")

    with Runner(store) as runner:
        assert runner.start(chain, 5, on_complete=fails).wait(20).value("increment") == 11


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


# -- kinds of callbacks ----------------------------------------------------------------------------


async def _note_async(told: list[str], id: str) -> None:
    await asyncio.sleep(0)
    told.append(id)


def test_a_callback_may_be_a_coroutine_function(store: LogStore) -> None:
    told: list[str] = []

    async def note(id: str, run: Run) -> None:
        await _note_async(told, id)

    with Runner(store) as runner:
        runner.start(chain, 5, id="a", on_complete=note).wait(20)

    assert told == ["a"]


def test_a_callback_can_be_named_by_its_place(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="by-name", on_complete=f"{__name__}:_remember").wait(20)

    assert "by-name" in _REMEMBERED


_REMEMBERED: list[str] = []


def _remember(id: str, run: Run) -> None:
    _REMEMBERED.append(id)
