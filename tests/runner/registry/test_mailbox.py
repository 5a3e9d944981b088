"""Messages for runs: moved into the log once, in order, wherever the run is."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Policy, Runner, Saga, Workflow, accumulator, step, wait_for
from weft.core import events as ev
from weft.errors import InvalidSignal, RunClosed, RunParked, UnknownSignal, WaitTimeout
from weft.log.messages import encode_message
from weft.ports.store import Message
from weft.runner import live
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import run_virtually
from weft.testing.wrapping import FullStore, WrappedStore


@step
def ask(order: int) -> int:
    return order


@step
def ship(approval: dict[str, Any]) -> str:
    return f"shipped, said {approval['by']}"


approved = wait_for("approved", schema=dict[str, str])
orders = Workflow("orders", ask >> approved >> ship)


@accumulator(init=0)
def total(so_far: int, n: int) -> int:
    return so_far + n


sums = Workflow("sums", total)


def asynchronously(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.fixture(params=["memory", "sqlite"])
def two_stores(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FullStore, FullStore]:
    """Two stores on the same data; in memory they are one."""
    if request.param == "memory":
        store = MemoryStore()
        return store, store
    return SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")


def test_a_run_of_another_runner_is_sent_a_signal(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            handle = await owner.start(orders, 1, id="o")

            await other.signal("o", "approved", {"by": "Ada"}, by="web")

            assert await handle.result() == "shipped, said Ada"
            (received,) = [event for event in await owner.log("o") if isinstance(event, ev.SignalReceived)]
            assert (received.by, received.value) == ("web", {"by": "Ada"})
            assert list(await theirs.messages(["o"])) == []

    asynchronously(main)


def test_a_run_of_another_runner_can_be_waited_for(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            await owner.start(orders, 1, id="o")
            waits = asyncio.ensure_future(other.wait_until("o", lambda run: run.status == "waiting"))
            result = asyncio.ensure_future(other.result("o"))

            assert (await waits).waiting_for == ["approved"]
            with pytest.raises(WaitTimeout, match="drives it"):
                await other.wait("o", timeout=0.05)
            await other.signal("o", "approved", {"by": "Ada"})

            assert await result == "shipped, said Ada"
            assert (await other.wait("o")).status == "completed"

    asynchronously(main)


def test_what_is_wrong_with_a_signal_is_said_where_it_is_sent(two_stores: tuple[FullStore, FullStore]) -> None:
    async def main() -> None:
        async with AsyncRunner(two_stores[0]) as runner:
            handle = await runner.start(orders, 1, id="o")
            await runner.wait_until("o", lambda run: run.status == "waiting")

            with pytest.raises(UnknownSignal, match="approved"):
                await runner.signal("o", "aproved")
            with pytest.raises(InvalidSignal):
                await runner.signal("o", "approved", {"by": 5})
            await handle.signal("approved", {"by": "Ada"})

            assert await handle.result() == "shipped, said Ada"
            with pytest.raises(RunClosed):
                await runner.signal("o", "approved", {"by": "Eve"})

    asynchronously(main)


def test_what_is_wrong_with_a_signal_for_a_run_that_nothing_drives_is_said_where_it_is_sent(
    two_stores: tuple[FullStore, FullStore], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with AsyncRunner(two_stores[0]) as runner:
            await runner.start(orders, 1, id="o")
            await runner.wait_until("o", lambda run: run.status == "waiting")
            await runner.stop("o")

            with pytest.raises(UnknownSignal, match="approved"):
                await runner.signal("o", "aproved")
            with pytest.raises(InvalidSignal):
                await runner.signal("o", "approved", {"by": 5})
            assert await runner.unread("o") == []
            with caplog.at_level(logging.INFO, "weft.runner"):
                await runner.signal("o", "approved", {"by": "Ada"})
            assert "no process drives run 'o': a message (signal) is stored" in caplog.text
            assert [type(each).__name__ for each in await runner.unread("o")] == ["SignalReceived"]

            assert await (await runner.resume("o", workflow=orders)).result() == "shipped, said Ada"

    asynchronously(main)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let senders wait for the answer of a busy owner as long as it takes."""
    monkeypatch.setattr("weft.runner.live.TAKEN_IN", 60.0)


@pytest.mark.usefixtures("patient")
def test_a_signal_that_the_owner_refuses_is_refused_to_its_sender_and_in_the_log(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            handle = await owner.start(orders, 1, id="o")

            with pytest.raises(InvalidSignal, match=r"^the signal 'approved' was refused: Expected `str`, got `int`"):
                await other.signal("o", "approved", {"by": 5}, by="web")
            with pytest.raises(InvalidSignal, match="it waits for 'approved'"):
                await other.signal("o", "aproved")
            await other.signal("o", "approved", {"by": "Ada"})

            assert await handle.result() == "shipped, said Ada"
            refused = [event for event in await owner.log("o") if isinstance(event, ev.SignalRefused)]
            assert [(event.name, event.by) for event in refused] == [("approved", "web"), ("aproved", None)]
            assert list(await theirs.messages(["o"])) == []

    asynchronously(main)


@pytest.mark.usefixtures("patient")
def test_a_signal_that_was_sent_before_is_taken_again_without_a_word(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            await owner.start(Workflow("two", ask >> approved >> ship, step(len) >> wait_for("more")), "a", id="o")

            await other.signal("o", "more", key="k")
            await other.signal("o", "more", key="k")

            received = [event for event in await owner.log("o") if isinstance(event, ev.SignalReceived)]
            assert [event.key for event in received] == ["k"]

    asynchronously(main)


@pytest.mark.usefixtures("patient")
def test_a_signal_for_a_run_that_no_process_drives_is_stored_and_refused_later(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRunner(SQLiteStore(tmp_path / "runs.db")) as owner:
            await owner.start(orders, 1, id="o")
        async with AsyncRunner(SQLiteStore(tmp_path / "runs.db")) as other:
            other._runtime.has_workers = True  # as a client of a fleet, it leaves the decision to the worker
            await other.signal("o", "approved", {"by": 5})

            handle = await other.resume("o", workflow=orders)
            await other.signal("o", "approved", {"by": "Ada"})
            await handle.result()

            (refused,) = [event for event in await other.log("o") if isinstance(event, ev.SignalRefused)]
            assert refused.reason == "Expected `str`, got `int` - at `$[...]`"

    asynchronously(main)


def test_inputs_from_elsewhere_come_in_order_and_once(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            await owner.start(sums, id="s")
            for n in range(20):
                await other.send("s", n, key=f"k{n}")
                await other.send("s", n, key=f"k{n}")
            last = await other.send("s", 100)

            assert await last.result() == sum(range(20)) + 100
            inputs = [event.value for event in await owner.log("s") if isinstance(event, ev.InputReceived)]
            assert inputs == [*range(20), 100]

    asynchronously(main)


def test_a_run_that_nobody_holds_finds_its_messages_when_it_is_resumed(two_stores: tuple[FullStore, FullStore]) -> None:
    async def main() -> None:
        store, another = two_stores
        async with AsyncRunner(store) as runner:
            await runner.start(orders, 1, id="o")
            await runner.wait_until("o", lambda run: run.status == "waiting")
            await runner.stop("o")
            await runner.signal("o", "approved", {"by": "Ada"})
            assert (await runner.find("o")).status == "waiting"
        async with AsyncRunner(another) as runner:
            handle = await runner.resume("o")

            assert await handle.result() == "shipped, said Ada"
            assert list(await another.messages(["o"])) == []

    asynchronously(main)


def test_cancelling_finishing_and_policies_reach_a_run_elsewhere(tmp_path: Path) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            await owner.start(orders, 1, id="o")
            await owner.start(sums, 1, id="s", open=True)

            await other.set_policies("s", [("total", Policy(max_retries=7))], by="ops")
            await other.finish("s", by="ops")
            await other.cancel("o", "too late", by="ops")

            await other.wait_until("s", lambda run: run.status == "completed")
            await other.wait_until("o", lambda run: run.status == "cancelled")
            by = {type(event).__name__: event.by for event in await other.log("s") if getattr(event, "by", None)}
            assert by == {"PolicyChanged": "ops", "RunFinished": "ops"}
            assert (await other.find("o")).reason == "too late"

    asynchronously(main)


def test_a_parked_run_takes_no_signal(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteStore(tmp_path / "runs.db")
        async with store:
            async with AsyncRunner(store) as runner:
                await runner.start(orders, 1, id="o")
                worker = runner._registry.get("o")
                assert worker is not None
                await runner.wait_until("o", lambda run: run.status == "waiting")
                worker.park("for the test")
                with pytest.raises(RunParked):
                    await runner.signal("o", "approved", {"by": "Ada"})
            async with AsyncRunner(store) as runner:
                with pytest.raises(RunParked):
                    await runner.signal("o", "approved", {"by": "Ada"})

    asynchronously(main)


def test_a_message_that_cannot_be_read_is_taken_away_and_the_next_one_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        mine, theirs = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        async with AsyncRunner(mine) as owner, theirs:
            handle = await owner.start(orders, 1, id="o")

            await theirs.post(
                [
                    Message(run="o", kind="signal", body=b"junk", at=0.0),
                    Message(run="o", kind="odd", body=encode_message(ev.Notified(0)), at=0.0),
                    Message(
                        run="o",
                        kind="signal",
                        body=encode_message(ev.SignalReceived(0, "approved", {"by": "Ada"})),
                        at=0.0,
                    ),
                ]
            )

            assert await handle.result() == "shipped, said Ada"

    asynchronously(main)
    assert "refused a message" in caplog.text
    assert "not known here" in caplog.text


OWNER = """
import sys
from weft import Runner
from weft.stores import SQLiteStore
sys.path.insert(0, sys.argv[2])
from test_mailbox import orders

with Runner(SQLiteStore(sys.argv[1])) as runner:
    handle = runner.start(orders, 1, id="o")
    runner.wait_until("o", lambda run: run.status == "waiting")
    print("waiting", flush=True)
    print(handle.result(timeout=60), flush=True)
"""


def test_a_signal_reaches_another_process(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path), str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    try:
        assert owner.stdout.readline() == "waiting\n"
        with Runner(SQLiteStore(path)) as runner:
            runner.signal("o", "approved", {"by": "Ada"})

            assert runner.result("o", timeout=60) == "shipped, said Ada"
        assert owner.stdout.read() == "shipped, said Ada\n"
        assert owner.wait() == 0
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()


def test_the_owner_dies_with_a_signal_in_the_inbox_and_the_next_one_takes_it_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path), str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    try:
        assert owner.stdout.readline() == "waiting\n"
        with Runner(SQLiteStore(path)) as runner:
            owner.kill()
            owner.wait()
            runner.signal("o", "approved", {"by": "Ada"}, key="once")
            runner.signal("o", "approved", {"by": "Eve"}, key="once")

            assert runner.resume("o", workflow=orders).result(timeout=60) == "shipped, said Ada"
            received = [event for event in runner.log("o") if isinstance(event, ev.SignalReceived)]
            assert [json.dumps(event.value) for event in received] == ['{"by": "Ada"}']
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()


def test_a_message_for_a_run_that_has_finished_stays_where_its_sender_finds_it(
    two_stores: tuple[FullStore, FullStore],
) -> None:
    async def main() -> None:
        mine, theirs = two_stores
        is_called, may_end = asyncio.Event(), asyncio.Event()

        async def called_back(_: str, __: object) -> None:
            is_called.set()
            await may_end.wait()

        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            handle = await owner.start(orders, 1, id="o", on_complete=called_back)
            await owner.signal("o", "approved", {"by": "Ada"})
            await is_called.wait()  # it has completed, which is not stored yet

            await other.signal("o", "approved", {"by": "Bob"}, key="late")
            await owner._runtime.mailbox.collected()
            may_end.set()

            assert await handle.result() == "shipped, said Ada"
            assert [(event.value, event.key) for event in await other.unread("o")] == [({"by": "Bob"}, "late")]
            assert "late" not in {getattr(event, "key", None) for event in await other.log("o")}
            with pytest.raises(RunClosed):
                await other.signal("o", "approved", {"by": "Bob"}, key="later")

    asynchronously(main)


def test_the_sender_of_a_signal_is_told_that_the_run_has_finished_first(
    two_stores: tuple[FullStore, FullStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "TAKEN_IN", 60.0)

    async def main() -> None:
        mine, theirs = two_stores
        is_called, may_end = asyncio.Event(), asyncio.Event()

        async def called_back(_: str, __: object) -> None:
            is_called.set()
            await may_end.wait()

        async with AsyncRunner(mine) as owner, AsyncRunner(theirs) as other:
            handle = await owner.start(orders, 1, id="o", on_complete=called_back)
            await owner.signal("o", "approved", {"by": "Ada"})
            await is_called.wait()  # it has completed, which is not stored yet
            late = asyncio.create_task(other.signal("o", "approved", {"by": "Bob"}, key="late"))
            while not await other.unread("o"):  # noqa: ASYNC110 - nothing tells of a message but looking
                await asyncio.sleep(0)
            may_end.set()

            with pytest.raises(RunClosed, match="has completed"):
                await late
            assert await handle.result() == "shipped, said Ada"

    asynchronously(main)


def test_a_failed_run_that_is_retried_reads_what_came_too_late(tmp_path: Path) -> None:
    async def main() -> None:
        tries: list[int] = []

        def fragile(x: int) -> int:
            tries.append(x)
            if len(tries) == 1:
                raise ValueError(x)
            return x

        kept = [("fragile", Policy(on_failure="dead_letter"))]
        workflow = Workflow("late", step(fragile) >> approved >> ship).with_policies(kept)
        async with SQLiteStore(tmp_path / "runs.db") as store, AsyncRunner(store) as runner:
            handle = await runner.start(workflow, 1, id="o")
            await handle.wait()
            signal = ev.SignalReceived(0, "approved", {"by": "Ada"}, 0.0, "k")
            await store.post([Message(run="o", kind="signal", body=encode_message(signal), at=0.0)])
            assert len(await runner.unread(handle)) == 1

            await runner.retry("o")

            assert await handle.result() == "shipped, said Ada"
            assert await runner.unread(handle) == []

    asynchronously(main)


class Slow(WrappedStore):
    """Reads messages at once, and may hold them back; may hold back appends too."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.may_append, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_append.set()
        self.may_answer.set()
        self.reads = 0

    async def around(self, call: str, act: Callable[[], Awaitable[Any]]) -> Any:
        if call == "append":
            await self.may_append.wait()
        result = await act()
        if call == "messages":
            self.reads += 1
            await self.may_answer.wait()
        return result


def test_a_message_that_was_read_before_its_run_came_back_happens_once() -> None:
    async def main() -> None:
        store = Slow()
        async with store, AsyncRunner(store, executor="inline") as owner, AsyncRunner(store) as other:
            await owner.start(sums, 1, id="s", open=True)
            await owner.wait("s")
            store.may_append.clear()
            await other.set_policies("s", [("total", Policy(max_retries=7))], by="ops")
            await owner._runtime.mailbox.collected()  # it has happened, and is not stored

            store.may_answer.clear()
            owner._runtime.mailbox.ring()
            before = store.reads
            while store.reads == before:  # noqa: ASYNC110 - it is a matter of turns
                await asyncio.sleep(0)  # the message was read once more, and the answer is on its way
            store.may_append.set()
            await owner.stop("s")
            back = asyncio.ensure_future(owner.resume("s", workflow=sums))
            while "s" not in owner:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
            store.may_answer.set()
            await back

            changes = [event for event in await owner.log("s") if isinstance(event, ev.PolicyChanged)]
            assert len(changes) == 1
            assert await owner.unread("s") == []

    run_virtually(main())


def test_a_run_whose_dead_letter_is_retried_reads_what_came_while_it_was_parked() -> None:
    async def main() -> None:
        trip, is_mended = Saga("trip"), asyncio.Event()

        @trip.transaction
        def book(request: int, results: dict[str, Any]) -> str:
            return "booked"

        @book.compensate
        def unbook(request: int, results: dict[str, Any]) -> str:
            if not is_mended.is_set():
                raise ConnectionError("not now")
            return "unbooked"

        @trip.transaction(compensate=None)
        def pay(request: int, results: dict[str, Any]) -> str:
            raise ValueError(request)

        store = MemoryStore()
        async with store, AsyncRunner(store, executor="inline") as owner, AsyncRunner(store) as other:
            handle = await owner.start(Workflow("travel", trip), 1, id="t", open=True)
            with pytest.raises(RunParked):
                await handle.wait()
            await other.finish("t", by="ops")
            await owner._runtime.mailbox.collected()
            assert [type(event) for event in await other.unread("t")] == [ev.RunFinished]

            is_mended.set()
            await owner.retry("t")
            await owner.wait_until("t", lambda run: run.status == "completed")

            assert await other.unread("t") == []

    run_virtually(main())
