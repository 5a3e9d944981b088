"""Closing a runner: everything is written, or the caller is told what is not, and the store is closed."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from callers import cut_off, ended, owned, resumed, started
from virtual_time import (
    GatedStore,
    LoopClock,
    chain,
    double,
    keys_of,
    now,
    runner_on,
    stored_log,
    until_nothing_moves,
    virtually,
)

from weft import AsyncRunner, Runner, Workflow, each, errors, step, wait_for
from weft.errors import (
    CorruptStore,
    RunnerClosed,
    StoreError,
    StoreUnavailable,
    UnwrittenEvents,
    WaitTimeout,
    WeftError,
)
from weft.ports.store import Append
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import Fault, FaultyStore

# -- while the store is unavailable ----------------------------------------------------------------


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


@pytest.mark.parametrize("fails", [False, True])
@virtually
async def test_closing_waits_for_the_history_that_an_outcome_needs(fails: bool) -> None:
    """The values of the run have left memory, and its last event is written together with its outcome."""

    async def slowly(act: Callable[[], Any]) -> Any:
        await asyncio.sleep(5.0)
        if fails:
            raise StoreUnavailable("in the middle of it")
        return await act()

    inner = MemoryStore()
    store = FaultyStore(inner, {("load_between", 1): Fault(slowly)})
    squares = Workflow("squares", each(step(lambda x: x * x, name="square")), wait_for("go") >> step(str, name="said"))
    runner = await AsyncRunner(store, clock=LoopClock(), executor="inline", grace=30.0).open()
    await runner.start(squares, [1, 2, 3], id="a")
    await runner.wait_until("a", lambda run: run.waiting_for == ["go"])
    assert (await runner.evict("a")).facts
    await runner.signal("a", "go", "on")
    await asyncio.sleep(0.5)
    assert inner._runs["a"].record.status == "running"  # its outcome is not known yet

    await runner.close()

    async with inner:
        record = inner._runs["a"].record
        assert (record.status, record.head) == ("completed", len(await stored_log(inner, "a", squares)))


@pytest.mark.parametrize("strategy", ["every_cycle", "on_complete", "manual"])
@virtually
async def test_closing_says_which_events_it_could_not_write_and_leaves_a_log_that_can_be_resumed(strategy: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    runner = await runner_on(store, checkpoint=strategy, grace=2.0).open()
    await runner.start(chain, id="a")
    store.is_unavailable("append")
    taken, waiting = started(runner.send("a", 1)), started(runner.wait("a"))
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
    with pytest.raises(RunnerClosed, match="was closed and stays closed"):
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
    runner.start(double, id="a")
    store.is_unavailable = True
    runner.send("a", 1)

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


# -- callers that are cancelled --------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["every_cycle", "manual"])
@pytest.mark.parametrize("moment", ["a step", "append", "close"])
@virtually
async def test_closing_goes_on_when_its_caller_is_cancelled_and_a_second_caller_joins_it(
    moment: str, strategy: str
) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    runner = await runner_on(store, lasts=3.0 if moment == "a step" else 0.0, checkpoint=strategy).open()
    await runner.start(double, id="a")
    gate = None if moment == "a step" else store.hold(moment)
    taken = started(runner.send("a", 1, key="k"))
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
    runner.start(double, id="a")
    runner.send("a", 1, key="k")
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


# -- callers that wait -----------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["find", "list", "delete", "acquire", "load_since"])
@virtually
async def test_a_caller_that_waits_for_the_store_while_the_runner_is_closed_is_told_that_it_is_closed(
    call: str,
) -> None:
    inner = MemoryStore()
    async with runner_on(inner) as runner:
        await (await runner.start(double, 1, id="a", open=True)).wait()
    store = GatedStore(inner)
    runner = await runner_on(store).open()
    calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "find": lambda: runner.send("a", 1),
        "list": runner.runs,
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
    assert await ended(asking) in ("returned", "RunnerClosed", "RunNotFound")
    async with inner:
        assert await owned(inner) == []


# -- what it says ----------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["its own", "handed over"])
@virtually
async def test_closing_says_what_is_unwritten_also_if_the_runs_cannot_be_given_back(whose: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    if whose == "handed over":
        await store.open()
    runner = await runner_on(store, grace=2.0).open()
    await runner.start(double, id="a")
    store.is_unavailable("append", "release", "close")
    taken = started(runner.send("a", 1))
    await until_nothing_moves()

    with pytest.raises(UnwrittenEvents) as raised:
        await runner.close()

    assert (raised.value.runs, await ended(taken)) == ({"a": 1}, "StoreUnavailable")
    store.fails_with.clear()
    with pytest.raises(UnwrittenEvents):  # which goes on with it, and returns the runs
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
    await runner.start(double, id="a")
    store.is_unavailable("append")
    taken = started(runner.send("a", 1))
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
            await (await runner.start(double, 1, id="a", open=True)).wait()
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
    await runner.start(double, id="a")
    await runner.start(double, id="b")
    store.fails_with["append"] = lambda: ValueError("a bug in the store")
    with pytest.raises(ValueError, match="a bug"):
        await runner.send("a", 1)
    store.fails_with.clear()
    gate = store.hold("append")
    taken = started(runner.send("b", 1))

    await gate.reached.wait()
    with pytest.raises(WaitTimeout) as late:
        await runner.wait("b", timeout=1.0)
    gate.open()
    await taken
    with pytest.raises(UnwrittenEvents, match="the error of the store: a bug in the store") as raised:
        await runner.close()

    assert "away" not in str(late.value)
    assert isinstance(raised.value, WeftError)
    assert raised.value.runs == {"a": 1}


@virtually
async def test_a_store_that_was_opened_elsewhere_can_be_unavailable_when_the_runner_closes() -> None:
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
        await (await runner.start(double, 5, id="a", open=True)).wait()

        with pytest.raises(StoreUnavailable):
            await runner.close()
        await runner.close()

        assert (await store.find("a")).owner is None
