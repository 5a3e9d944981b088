"""A journal outlives whatever a store says or a task does, and a large append holds no other run up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest
from callers import cancel_all_tasks, ended, started
from virtual_time import (
    Gate,
    GatedStore,
    SlowStore,
    double,
    keys_of,
    runner_on,
    stored_log,
    until_nothing_moves,
    virtually,
)

from weft import Runner, Workflow, step
from weft.core.events import InputReceived
from weft.errors import CorruptStore, RunParked, StoreError, StoreUnavailable, UnwrittenEvents, WeftError
from weft.ports.store import Append
from weft.runner.deadline import Deadline
from weft.runner.durability.journal import LARGE, Journal
from weft.runner.execution.worker import Worker
from weft.stores import MemoryStore
from weft.testing import Fault, FaultyStore
from weft.testing.contracts.cases import first, more
from weft.testing.wrapping import WrappedStore

T = TypeVar("T")


@virtually
async def test_a_store_that_answers_for_too_few_runs_fails_those_and_no_others() -> None:
    class Forgetful(WrappedStore):
        is_forgetful = True

        async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> Any:
            result = await act()
            return [] if call == "append" and self.is_forgetful else result

    store = Forgetful(MemoryStore())
    async with runner_on(store) as runner:
        with pytest.raises(StoreError, match="one result for each"):
            await runner.start(double, 1)
        store.is_forgetful = False

        assert await (await runner.start(double, 4)).result() == 8


# -- beside the batches ----------------------------------------------------------------------------


VALUE = "x" * LARGE


takes = Workflow("takes", step(len, name="length"))


class HoldsLarge(WrappedStore):
    """Holds appends with large values, each time before it is written and again before that is reported."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.gate = Gate()
        self.batches: list[list[Append]] = []
        self.error: Exception | None = None

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        self.batches.append(list(batch))
        is_large = any(len(body) > LARGE for each in batch for body in each.facts.values())
        if is_large:
            await self.gate.passed()
            if self.error is not None:
                error, self.error = self.error, None
                raise error
        results = await super().append(batch)
        if is_large:
            await self.gate.passed()
        return results


@virtually
async def test_other_runs_go_on_while_a_large_append_is_being_written() -> None:
    store = HoldsLarge(MemoryStore())
    async with runner_on(store) as runner:
        large = asyncio.ensure_future(runner.start(takes, VALUE, id="large"))
        await store.gate.reached.wait()

        for number in range(3):
            assert await (await runner.start(double, number)).result() == 2 * number
        assert not large.done()
        store.gate.open()

        assert await (await large).result() == LARGE
    assert [len(batch) for batch in store.batches if any(each.facts for each in batch)] == [1]


@virtually
async def test_what_a_run_has_to_write_after_a_large_append_follows_it() -> None:
    store = HoldsLarge(MemoryStore())
    async with runner_on(store) as runner:
        handle = await runner.start(takes, "a", id="r", open=True)
        await handle.wait()
        inputs = [asyncio.ensure_future(runner.send("r", value)) for value in (VALUE, "bc", VALUE + "d", "efg")]
        await store.gate.reached.wait()
        await until_nothing_moves()
        under_way = [each.run for each in store.batches[-1]]
        store.gate.open()
        await asyncio.gather(*inputs)
        await runner.wait("r")

        log = await stored_log(store.inner, "r", takes)
    assert under_way == ["r"], "nothing else of it is written meanwhile"
    values = [event.value for event in log if isinstance(event, InputReceived)]
    assert sorted(values, key=len) == ["a", "bc", "efg", VALUE, VALUE + "d"]


@virtually
async def test_closing_waits_for_a_large_append() -> None:
    store = HoldsLarge(MemoryStore())
    async with store.inner:
        runner = runner_on(store)
        await runner.__aenter__()
        large = asyncio.ensure_future(runner.start(takes, VALUE, id="large"))
        await store.gate.reached.wait()
        closing = asyncio.ensure_future(runner.close())
        await until_nothing_moves()
        assert not closing.done()
        store.gate.open()
        await closing
        await asyncio.wait([large])

        assert (await store.inner.find("large")).head > 0


@pytest.mark.parametrize("is_written", [False, True], ids=["before it is written", "after it was"])
@virtually
async def test_a_large_append_whose_task_is_cancelled_is_written_once(is_written: bool) -> None:
    store = HoldsLarge(MemoryStore())
    async with runner_on(store) as runner:
        large = asyncio.ensure_future(runner.start(takes, VALUE, id="large"))
        await store.gate.reached.wait()
        if is_written:
            store.gate.let_one_through()
            await until_nothing_moves()
        for task in asyncio.all_tasks() - {asyncio.current_task(), large}:
            task.cancel()
        await until_nothing_moves()
        store.gate.open()

        assert await (await large).result() == LARGE
        log = await stored_log(store.inner, "large", takes)
    assert len([event for event in log if isinstance(event, InputReceived)]) == 1


@virtually
async def test_a_store_that_is_unavailable_gets_a_large_append_again() -> None:
    store = HoldsLarge(MemoryStore())
    store.error = StoreUnavailable("the store", "a test says so")
    store.gate.open()
    async with runner_on(store) as runner:
        assert await (await runner.start(takes, VALUE)).result() == LARGE


@virtually
async def test_a_large_append_that_is_refused_is_told_to_its_run_alone() -> None:
    store = HoldsLarge(MemoryStore())
    store.error = ValueError("no")
    store.gate.open()
    async with runner_on(store) as runner:
        other = await runner.start(double, 4)
        with pytest.raises(ValueError, match="no"):
            await runner.start(takes, VALUE)

        assert await other.result() == 8


class Script:
    """A writer that has these appends to write, one after the other, and always has more."""

    def __init__(self, journal: Journal, *appends: Append) -> None:
        self._journal, self._left = journal, list(appends)
        self.written: list[Append] = []

    def segment(self, at: float) -> Append | None:
        return self._left.pop(0) if self._left else None

    def committed(self, append: Append) -> None:
        self.written.append(append)
        self._journal.note(self)

    def refused(self, error: Exception) -> None:
        raise error


@virtually
async def test_a_large_append_that_comes_as_another_ends_is_written_once() -> None:
    store, facts = HoldsLarge(MemoryStore()), {b"f": b"x" * (LARGE + 1)}
    store.gate.open()
    async with store.inner:
        journal = Journal(store, lambda: 0.0)
        appends = [first("r", facts=facts), more("r", 1, facts=facts), more("r", 2), more("r", 3, facts=facts)]
        script = Script(journal, *appends)
        journal.note(script)
        await until_nothing_moves()
        await journal.close(Deadline(1.0))

    assert store.batches == [[each] for each in appends]
    assert script.written == appends


# -- a journal that is cancelled from outside ------------------------------------------------------


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
        await (await runner.start(double, 0, id="a", open=True)).wait()
        for moment in (0.2, 0.7):  # before and after it is written
            taken = started(runner.send("a", 1, key=f"k{moment}"))
            await asyncio.sleep(moment)

            cancel_all_tasks(taken)

            assert await ended(taken) == "returned"
        waited = await runner.wait("a")

        keys = keys_of(await stored_log(inner, "a"))
    assert keys == [None, "k0.2", "k0.7"]
    assert waited.values("double") == [0, 2, 2]


def test_a_step_that_cancels_all_tasks_of_the_loop_makes_no_caller_hang() -> None:
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


# -- a batch of which one part cannot be written ---------------------------------------------------


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
            await runner.start(double, id=run)
        gate = gated.hold("append", times=1)
        first = started(runner.send("first", 0))
        await gate.reached.wait()
        told = {run: started(runner.send(run, 1, key="k")) for run in ("good", "bad", "better")}
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
        await runner.send("bad", 1, key="k")
        assert await runner.result("bad") == 2
    async with inner:
        assert {run: keys_of(await stored_log(inner, run)) for run in ("good", "bad")} == {"good": ["k"], "bad": ["k"]}


# -- a run that cannot be written ------------------------------------------------------------------


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
        await runner.start(double, id="a")
        with pytest.raises(ZeroDivisionError):
            await runner.send("a", 1)

        handle = await runner.start(double, 2, id="b")
        result = await handle.result()
        with pytest.raises(RunParked, match="a bug in the store"):
            await runner.wait("a")
        await runner.resume("a", workflow=double)
        await runner.send("a", 3)
        again = await runner.result("a")

    assert (result, again) == (4, 6)
