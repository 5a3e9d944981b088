"""Children are cancelled with their parent, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from callers import T, ended, started
from parents import careless, parent_of
from virtual_time import GatedStore, SlowStore, double, runner_on, until_nothing_moves, virtually

from weft import AsyncRunner, Runnable, Saga, Workflow, context, current, step
from weft.errors import OwnershipLost, RunnerClosed, RunNotFound, RunParked, StoreUnavailable, UnwrittenEvents
from weft.stores import MemoryStore, SQLiteStore
from weft.testing.wrapping import WrappedStore


def asynchronously(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run *main* in a loop, for at most two minutes."""
    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.parametrize("with_parent", [True, False])
@virtually
async def test_children_are_cancelled_with_their_parent_unless_told_otherwise(with_parent: bool) -> None:
    store = MemoryStore()
    async with runner_on(store, lasts=60.0) as runner:
        await runner.start(parent_of(double, id="c", cancel_with_parent=with_parent), 5, id="p")
        await asyncio.sleep(1)
        await runner.cancel("p", "enough")

        states = {record.id: record.status for record in await runner.runs()}
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
        held = runner.held
        await runner.cancel("p")

        here = runner.held
        states = {record.id: record.status for record in await runner.runs()}

    assert (held, here) == (["p"], [])
    assert states == dict.fromkeys(["p", "child", "grandchild"], "cancelled")


class Flaky(WrappedStore):
    """A store that is unavailable from a certain append on."""

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

    async with runner_on(inner, lasts=60.0) as runner:
        runner.register(parent_of(double, id="c"), double)
        before = {record.id: record.status for record in await runner.runs()}
        await runner.resume_all()
        await asyncio.sleep(1)
        after = {record.id: record.status for record in await runner.runs()}

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

        assert {record.id: record.status for record in await runner.runs()} == {"p": "cancelled", "c": "cancelled"}


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
        states = {record.id: record.status for record in await runner.runs()}

    assert states == dict.fromkeys(["p", "c1", "c2"], "cancelled")


@virtually
async def test_a_child_whose_worker_is_being_rebuilt_is_cancelled_too() -> None:
    crashes = iter([True])

    def crash(runnable: Runnable) -> bool:
        return runnable.component == "double" and next(crashes, False)

    async with runner_on(SlowStore(MemoryStore()), refuses=crash) as runner:
        handle = await runner.start(careless(double), 1, id="p", open=True)
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

        assert {record.id: record.status for record in await runner.runs()} == dict.fromkeys("ABC", "cancelled")


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
        await runner.start(Workflow("two", step(two)), 1, id="p", open=True)
        await asyncio.sleep(1)
        if not is_here:
            await runner.stop("c1", grace=0)
        store.is_lost = True
        with pytest.raises(OwnershipLost):
            await runner.cancel("p")
        states = {record.id: record.status for record in await runner.runs()}

    assert (states["c2"], states["p"]) == ("cancelled", "running")


class Dawdling(WrappedStore):
    """Takes ten seconds for what is written of the run "c", once it is told to."""

    dawdles = False

    async def append(self, appends: Any) -> Any:
        if self.dawdles and any(append.run == "c" for append in appends):
            await asyncio.sleep(10)
        return await super().append(appends)


@virtually
async def test_a_caller_that_cancels_is_told_that_the_runner_was_closed() -> None:
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
async def test_a_caller_that_cancels_is_told_that_the_run_was_deleted() -> None:
    store = Dawdling(MemoryStore())
    async with runner_on(store, lasts=60.0) as runner:
        await runner.start(parent_of(double, id="c"), 5, id="p")
        await asyncio.sleep(1)
        store.dawdles = True
        cancelling = asyncio.create_task(runner.cancel("p"))
        await asyncio.sleep(1)
        await runner.delete("p")

        with pytest.raises(RunNotFound):
            await cancelling
        assert await runner.status("c") == "cancelled"


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
        await runner.start(Workflow("parent", step(have_child)), 1, id="parent", open=True)
        await until_nothing_moves()
        await runner.stop("child")
        store.fails_with["acquire"] = lambda: OwnershipLost("child", 1, 2)
        gate = store.hold("acquire")
        cancelling = started(runner.cancel("parent"))
        await gate.reached.wait()

        cancelling.cancel()
        assert await ended(cancelling) == "CancelledError"
        gate.open()
        await until_nothing_moves()

        assert "could not be cancelled: run 'child' " in caplog.text


class Booking:
    """A saga that books, and then waits until a test lets it go on; what was undone."""

    def __init__(self) -> None:
        self.begun, self.undoing, self.may_undo = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.done: list[str] = []
        self.failures = 0

    def workflow(self) -> Workflow:
        saga = Saga("booking")
        saga.transaction(self._book, name="book", compensate=self._give_back)
        saga.transaction(self._pay, name="pay", compensate=None)
        return Workflow("booking", saga)

    async def _book(self, request: Any, results: Any) -> str:
        self.done.append("booked")
        return "seat"

    async def _give_back(self, request: Any, results: Any) -> None:
        self.undoing.set()
        await self.may_undo.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("no answer")
        self.done.append("given back")

    async def _pay(self, request: Any, results: Any) -> None:
        self.begun.set()
        await asyncio.Event().wait()


@virtually
async def test_the_parent_is_cancelled_when_its_child_is_undone() -> None:
    booking = Booking()
    async with AsyncRunner(MemoryStore()) as runner:
        handle = await runner.start(parent_of(booking.workflow(), id="c"), 5, id="p")
        await booking.begun.wait()
        await runner.cancel("p", "enough", by="Ada")
        await booking.undoing.wait()
        before = {record.id: (record.status, record.reason) for record in await runner.runs()}
        booking.may_undo.set()
        await handle.wait()
        after = {record.id: record.status for record in await runner.runs()}

    assert before == {
        "p": ("running", "undoing, since it was cancelled by Ada: enough; it waits for its children 'c'"),
        "c": ("running", "undoing, since it was cancelled: its parent 'p' was cancelled"),
    }
    assert after == {"p": "cancelled", "c": "cancelled"}
    assert booking.done == ["booked", "given back"]


@virtually
async def test_children_undo_nothing_if_their_parent_does_not() -> None:
    booking = Booking()
    async with AsyncRunner(MemoryStore()) as runner:
        await runner.start(parent_of(booking.workflow(), id="c"), 5, id="p")
        await booking.begun.wait()
        await runner.cancel("p", "enough", undo=False)
        after = {record.id: record.status for record in await runner.runs()}

    assert after == {"p": "cancelled", "c": "cancelled"}
    assert booking.done == ["booked"]


@virtually
async def test_a_second_cancel_without_undo_ends_the_undoing_of_the_children_too() -> None:
    booking = Booking()
    async with AsyncRunner(MemoryStore()) as runner:
        await runner.start(parent_of(booking.workflow(), id="c"), 5, id="p")
        await booking.begun.wait()
        await runner.cancel("p", "enough")
        await booking.undoing.wait()
        await runner.cancel("p", "leave it", undo=False)
        after = {record.id: record.status for record in await runner.runs()}

    assert after == {"p": "cancelled", "c": "cancelled"}
    assert booking.done == ["booked"]


@virtually
async def test_a_child_that_is_stuck_holds_up_its_parent_until_it_is_retried() -> None:
    booking = Booking()
    booking.failures = 1
    booking.may_undo.set()
    async with AsyncRunner(MemoryStore()) as runner:
        handle = await runner.start(parent_of(booking.workflow(), id="c"), 5, id="p")
        await booking.begun.wait()
        await runner.cancel("p", "enough")
        with pytest.raises(RunParked):
            await runner.wait("c")
        before = {record.id: record.status for record in await runner.runs()}
        await runner.retry("c")
        await handle.wait()
        after = {record.id: record.status for record in await runner.runs()}

    assert before == {"p": "running", "c": "parked"}
    assert after == {"p": "cancelled", "c": "cancelled"}


@virtually
async def test_a_child_that_is_not_here_is_brought_back_to_be_undone() -> None:
    booking = Booking()
    booking.may_undo.set()
    async with AsyncRunner(MemoryStore()) as runner:
        runner.register(booking.workflow())
        handle = await runner.start(parent_of(booking.workflow(), id="c"), 5, id="p")
        await booking.begun.wait()
        await runner.stop("c", grace=0)
        await runner.cancel("p", "enough")
        await handle.wait()
        after = {record.id: record.status for record in await runner.runs()}

    assert after == {"p": "cancelled", "c": "cancelled"}
    assert booking.done == ["booked", "given back"]


@virtually
async def test_undoing_a_family_continues_after_a_crash() -> None:
    booking, store = Booking(), MemoryStore()
    async with AsyncRunner(store) as runner:
        await runner.start(parent_of(booking.workflow(), id="c"), 5, id="p")
        await booking.begun.wait()
        await runner.cancel("p", "enough")
        await booking.undoing.wait()
        await runner.stop("p", grace=0)
        await runner.stop("c", grace=0)
    booking.may_undo.set()
    async with AsyncRunner(store) as runner:
        runner.register(parent_of(booking.workflow(), id="c"), booking.workflow())
        await runner.resume_all()
        await runner.wait("p")
        after = {record.id: record.status for record in await runner.runs()}

    assert after == {"p": "cancelled", "c": "cancelled"}
    assert booking.done == ["booked", "given back"]


@virtually
async def test_a_parent_that_is_stuck_is_parked_while_its_child_is_undone() -> None:
    booking, failures = Booking(), ["no answer"]
    booking.may_undo.set()
    saga = Saga("trip")

    async def give_back(request: Any, results: Any) -> None:
        if failures:
            raise OSError(failures.pop())

    async def delegate(request: Any, results: Any) -> Any:
        return await (await current().astart_child(booking.workflow(), request, id="c")).result()

    saga.transaction(lambda request, results: "seat", name="book", compensate=give_back)
    saga.transaction(delegate, compensate=None)
    async with AsyncRunner(MemoryStore()) as runner:
        await runner.start(Workflow("trip", saga), 5, id="p")
        await booking.begun.wait()
        await runner.cancel("p", "enough")
        with pytest.raises(RunParked, match="no answer"):
            await runner.wait("p")
        await until_nothing_moves()
        before = {record.id: record.status for record in await runner.runs()}
        await runner.retry("p")
        await runner.wait("p")
        after = {record.id: record.status for record in await runner.runs()}

    assert before == {"p": "parked", "c": "cancelled"}
    assert after == {"p": "cancelled", "c": "cancelled"}


async def book(request: Any, results: Any) -> str:
    """Book a seat, in the event loop."""
    return "seat"


def delegating(booking: Booking, child: Workflow, id: str, name: str) -> Workflow:
    """Return a workflow whose saga books, starts a *child* and never ends; *booking* notes what it undoes."""

    async def give_back(request: Any, results: Any) -> None:
        booking.done.append(f"{name} given back")

    async def delegate(request: Any, results: Any) -> Any:
        await current().astart_child(child, request, id=id)
        await asyncio.Event().wait()

    saga = Saga("trip")
    saga.transaction(book, compensate=give_back)
    saga.transaction(delegate, name="delegate", compensate=None)
    return Workflow(name, saga)


@virtually
async def test_three_generations_are_undone_and_then_cancelled() -> None:
    booking = Booking()
    middle = delegating(booking, booking.workflow(), "grandchild", "middle")
    async with AsyncRunner(MemoryStore()) as runner:
        handle = await runner.start(delegating(booking, middle, "child", "first"), 5, id="p")
        await booking.begun.wait()
        await runner.cancel("p", "enough")
        await until_nothing_moves()
        before = {record.id: record.status for record in await runner.runs()}
        booking.may_undo.set()
        async with asyncio.timeout(60):
            await handle.wait()
        after = {record.id: record.status for record in await runner.runs()}

    assert before == dict.fromkeys(["p", "child", "grandchild"], "running")
    assert after == dict.fromkeys(["p", "child", "grandchild"], "cancelled")
    assert sorted(booking.done) == ["booked", "first given back", "given back", "middle given back"]


@virtually
async def test_a_circle_of_children_with_something_to_undo_is_cancelled() -> None:
    flows: dict[str, Workflow] = {}
    undone: list[str] = []

    def starting(child: str) -> Workflow:
        async def go(request: Any, results: Any) -> None:
            await current().astart_child(flows[child], 1, id=child)
            await asyncio.Event().wait()

        async def give_back(request: Any, results: Any) -> None:
            await asyncio.sleep(1)
            undone.append(current().run_id)

        saga = Saga("trip")
        saga.transaction(book, compensate=give_back)
        saga.transaction(go, name="go", compensate=None)
        return Workflow(f"of {child}", saga)

    flows.update(B=starting("C"), C=starting("B"))
    async with AsyncRunner(MemoryStore()) as runner:
        handle = await runner.start(starting("B"), 1, id="A")
        await asyncio.sleep(1)
        await runner.cancel("A")
        async with asyncio.timeout(60):
            await handle.wait()

        assert {record.id: record.status for record in await runner.runs()} == dict.fromkeys("ABC", "cancelled")
    assert sorted(undone) == ["A", "B", "C"]


@pytest.mark.parametrize("undo", [True, False])
def test_a_child_that_another_process_drives_is_told_and_its_parent_is_cancelled_after_it(
    tmp_path: Path, undo: bool
) -> None:
    async def main() -> None:
        booking, path = Booking(), tmp_path / "runs.db"
        async with AsyncRunner(SQLiteStore(path)) as runner, AsyncRunner(SQLiteStore(path)) as other:
            other.register(booking.workflow())
            handle = await runner.start(delegating(booking, booking.workflow(), "c", "first"), 5, id="p")
            await booking.begun.wait()
            booking.begun.clear()
            await runner.stop("c", grace=0)
            await other.resume("c")
            await booking.begun.wait()

            await runner.cancel("p", "enough", undo=undo)
            await runner.cancel("p", "enough", undo=undo)
            if undo:
                await booking.undoing.wait()
                assert {record.id: record.status for record in await runner.runs()} == dict.fromkeys("pc", "running")
            booking.may_undo.set()
            await runner.wait_until("c", lambda run: run.status == "cancelled")
            await handle.wait()
            await other.wait("p")

            assert {record.id: record.status for record in await runner.runs()} == dict.fromkeys("pc", "cancelled")
            assert await other.unread("c") == []
            assert sorted(booking.done) == (["booked", "first given back", "given back"] if undo else ["booked"])

    asynchronously(main)


def test_a_child_whose_process_leaves_it_before_it_is_undone_is_undone_by_that_of_its_parent(tmp_path: Path) -> None:
    async def main() -> None:
        booking, path = Booking(), tmp_path / "runs.db"
        async with AsyncRunner(SQLiteStore(path)) as runner, AsyncRunner(SQLiteStore(path)) as other:
            other.register(booking.workflow())
            handle = await runner.start(delegating(booking, booking.workflow(), "c", "first"), 5, id="p")
            await booking.begun.wait()
            booking.begun.clear()
            await runner.stop("c", grace=0)
            await other.resume("c")
            await booking.begun.wait()
            await runner.cancel("p", "enough")
            await booking.undoing.wait()

            await other.stop("c", grace=0)
            booking.may_undo.set()
            await handle.wait()

            assert {record.id: record.status for record in await runner.runs()} == dict.fromkeys("pc", "cancelled")
            assert sorted(booking.done) == ["booked", "first given back", "given back"]

    asynchronously(main)
