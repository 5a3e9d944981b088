"""Runs that are continued as new ones: one transaction, from the state alone."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Policy, ProcessManager, Runner, Workflow, accumulator, latest, step, wait_for
from weft.core.events import ContinuedAsNew, ContinuedFrom, InputReceived, StateCarried
from weft.errors import InvalidOption, RunBusy, RunClosed, RunExists, RunNotFound
from weft.log.messages import encode_message
from weft.ports.store import Message
from weft.runner.registry.continuation import next_id
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import FaultyStore
from weft.testing.faults import Fault

total = accumulator(operator.add, init=0, name="total")
reads = step(lambda x, before=latest("double", default=None): (x, before), name="reads")
double = step(lambda x: 2 * x, name="double")
WORKFLOW = Workflow("sums", double >> total, step(lambda x: x, name="slow") >> reads)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return an empty store."""
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db", synchronous="normal")


def test_ids_are_counted_on() -> None:
    assert [next_id(each) for each in ("w", "w~2", "w~x", "~9")] == ["w~2", "w~3", "w~x~2", "~10"]


def test_a_run_is_continued_from_its_state(store: Any) -> None:
    with Runner(store, executor="inline") as runner:
        runner.start(WORKFLOW, id="w")
        for number in range(5):
            runner.send("w", number, key=f"k{number}")
        before = runner.wait("w")

        handle = runner.continue_as_new("w", by="ann")

        new = handle.wait()
        assert (handle.id, new.status, new.state_of("total")) == ("w~2", "idle", 20)
        kinds = [type(event) for event in new.log()]
        assert kinds[1:] == [ContinuedFrom, *[StateCarried] * (len(kinds) - 2)]
        assert runner.send("w~2", 10).result()["total"] == 40
        assert runner.get("w~2").value("reads") == (10, 20), "what is read of this input"
        old = runner.get("w")
        assert old.log()[:-1] == before.log()
        assert old.log()[-1] == ContinuedAsNew(len(old.log()), "w~2", "ann")
        assert (old.status, runner.find("w").status) == ("completed", "completed")
        assert "w~2" in runner.find("w").reason


def test_what_is_sent_to_the_old_id_goes_to_the_new_run(store: Any) -> None:
    with Runner(store, executor="inline") as runner:
        runner.start(WORKFLOW, id="w")
        first = runner.send("w", 1, key="a")
        first.wait()
        runner.continue_as_new("w")
        runner.continue_as_new("w~2", "third")

        sent = runner.send("w", 5)

        assert sent.id == "third"
        assert sent.result()["total"] == 12
        assert runner.send("w", 99, key="a").id == "w", "a key that the old run has seen"
        assert runner.send("third", 99, key="a").wait().state_of("total") == 12, "seen keys are carried"
        assert first.result()["total"] == 2


def test_it_is_known_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path), executor="inline") as runner:
        runner.start(WORKFLOW, id="w", max_concurrency=3)
        runner.send("w", 1)
        runner.wait("w")
        runner.set_policies("w", [("double", Policy(max_retries=2))])
        runner.continue_as_new("w", "w-2")
    with Runner(SQLiteStore(path), executor="inline") as runner:
        runner.resume("w-2", workflow=WORKFLOW)
        assert runner.send("w", 4).result()["total"] == 10
        rules = runner.get("w-2").memory.rules
        assert rules is not None
        assert rules[0][1].max_retries == 2


def test_states_by_key_are_carried(store: Any) -> None:
    orders = ProcessManager(
        "orders", init=frozenset, key=lambda event: event["order"], complete=lambda seen: len(seen) > 0
    )
    orders.on("paid")(lambda seen, event: (seen | {"paid"}, []))
    orders.on("lost")(lambda seen, event: (seen, []))
    flow = Workflow("w", orders)
    with Runner(store, executor="inline") as runner:
        runner.start(flow, id="w")
        for order in (1, 2):
            runner.send("w", {"event": "paid" if order == 1 else "lost", "order": order})
        before = runner.wait("w")
        new = runner.continue_as_new("w").wait()

        assert new.state_of("orders") == before.state_of("orders")
        assert before.state_of("orders").keys() == {1, 2}
        assert [new.is_complete("orders", key=key) for key in (1, 2)] == [True, False]


def test_a_run_with_something_in_flight_is_refused() -> None:
    async def main() -> None:
        begun, released = asyncio.Event(), asyncio.Event()

        async def slow(x: int) -> int:
            begun.set()
            await released.wait()
            return x

        async with AsyncRunner() as runner:
            await runner.start(Workflow("w", step(slow)), id="w")
            await runner.send("w", 1)
            await begun.wait()
            with pytest.raises(RunBusy, match="in flight"):
                await runner.continue_as_new("w")
            released.set()
            assert (await runner.wait("w")).value("slow") == 1
            await runner.continue_as_new("w")

    asyncio.run(main())


def test_dead_letters_are_not_left_behind(store: Any) -> None:
    def fail(x: int) -> int:
        raise ValueError(x)

    flow = Workflow("w", step(fail), policies=[("fail", Policy(on_failure="dead_letter"))])
    with Runner(store, executor="inline") as runner:
        runner.start(flow, id="w")
        runner.send("w", 1)
        runner.wait("w")
        with pytest.raises(RunBusy, match="dead letters"):
            runner.continue_as_new("w")
        runner.discard("w")
        runner.wait("w")
        runner.continue_as_new("w")


def test_an_id_that_is_taken_is_refused_and_nothing_changes(store: Any) -> None:
    with Runner(store, executor="inline") as runner:
        runner.start(WORKFLOW, id="w")
        runner.start(WORKFLOW, 1, id="taken")
        runner.wait("taken")
        with pytest.raises(RunExists):
            runner.continue_as_new("w", "taken")
        assert runner.send("w", 1).result()["total"] == 2
        with pytest.raises(RunClosed):
            runner.continue_as_new("taken")
        with pytest.raises(RunNotFound):
            runner.continue_as_new("nope")


def test_an_answer_that_was_lost_is_asked_for_again() -> None:
    """The store has written both runs, and the runner does not know."""

    faults: dict[tuple[str, int], Fault] = {}

    async def main() -> None:
        store = FaultyStore(MemoryStore(), lambda call, number: faults.get((call, number)))
        async with AsyncRunner(store, executor="inline") as runner:
            await runner.start(WORKFLOW, id="w")
            await (await runner.send("w", 3)).wait()
            faults["append", store.calls["append"] + 1] = Fault.fail_after()
            await runner.continue_as_new("w")
            assert (await (await runner.send("w", 1)).result())["total"] == 8

    asyncio.run(main())


# -- signals and messages ------------------------------------------------------------------------

GATED = Workflow("gated", step(lambda x: x, name="first") >> wait_for("go", name="go") >> total)


def test_a_signal_to_the_old_id_goes_to_the_new_run(store: Any) -> None:
    with Runner(store, executor="inline") as runner:
        runner.start(GATED, id="w")
        runner.signal("w", "go", 5, key="early")
        runner.continue_as_new("w")

        runner.signal("w", "go", 70, key="late")
        runner.signal("w", "go", 500, key="early")
        runner.send("w", 1)
        runner.send("w", 2)

        run = runner.wait("w~2")
        assert run.values("go") == [5, 70], "kept signals and seen keys are carried, in order"


def test_a_run_that_waits_is_not_continued(store: Any) -> None:
    with Runner(store, executor="inline") as runner:
        runner.start(GATED, id="w")
        runner.send("w", 1)
        runner.wait_until("w", lambda run: run.waiting_for == ["go"])
        with pytest.raises(RunBusy, match="go waits"):
            runner.continue_as_new("w")
        runner.signal("w", "go", 3)
        assert runner.wait("w").state_of("total") == 3
        assert runner.continue_as_new("w").wait().state_of("total") == 3


def test_a_message_for_the_old_run_is_one_for_the_new_run(tmp_path: Path) -> None:
    """It was posted by another process, for a run that was not continued when that one looked."""

    async def main() -> None:
        store, other = SQLiteStore(tmp_path / "runs.db"), SQLiteStore(tmp_path / "runs.db")
        body = encode_message(InputReceived(0, 7, 0, 1.0, "k"))
        async with AsyncRunner(store, executor="inline") as runner:
            await runner.start(WORKFLOW, id="w")
            await (await runner.send("w", 3)).wait()
            await runner.continue_as_new("w")
            await other.open()
            await other.post([Message(run="w", kind="input", body=body, at=1.0)])
            await other.close()
            run = await runner.wait_until("w~2", lambda run: bool(run.log()[-1]) and run.state_of("total") > 6, 20)
            assert run.state_of("total") == 20

    asyncio.run(main())


def test_a_store_that_writes_one_run_at_a_time_says_so() -> None:
    class Whole:
        """Only the least that a store can do."""

        def __init__(self) -> None:
            self._inner = MemoryStore()
            self.open, self.close = self._inner.open, self._inner.close
            self.save, self.load = self._inner.save, self._inner.load

        @property
        def is_open(self) -> bool:
            return self._inner.is_open

    with Runner(Whole(), executor="inline") as runner:
        runner.start(WORKFLOW, id="w")
        runner.send("w", 1).wait()
        with pytest.raises(InvalidOption, match="one run at a time"):
            runner.continue_as_new("w")
        assert runner.send("w", 1).result()["total"] == 4
