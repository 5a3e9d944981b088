"""A journal outlives whatever a store says, and a large append keeps nobody waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest
from weather import Gate, double, runner_on, stored_log, until_nothing_moves, virtually

from weft import Workflow, step
from weft.core.events import InputReceived
from weft.errors import StoreError, StoreUnavailable
from weft.ports.store import Append
from weft.runner.deadline import Deadline
from weft.runner.durability.journal import LARGE, Journal
from weft.stores import MemoryStore
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
        with pytest.raises(StoreError, match="of each"):
            await runner.start(double, 1)
        store.is_forgetful = False

        assert await (await runner.start(double, 4)).result() == 8


# -- beside the batches --------------------------------------------------------------------------

VALUE = "x" * LARGE
takes = Workflow("takes", step(len, name="length"))


class HoldsLarge(WrappedStore):
    """Holds appends with large values, each time before it is written and again before that is told."""

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
        handle = await runner.start(takes, "a", id="r")
        await handle.wait()
        inputs = [asyncio.ensure_future(runner.run("r", value)) for value in (VALUE, "bc", VALUE + "d", "efg")]
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
async def test_a_store_that_is_away_gets_a_large_append_again() -> None:
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
