"""Runs that are continued as new ones: one transaction, from the state alone."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Policy, ProcessManager, Runner, Workflow, accumulator, latest, sleep, step, wait_for
from weft.core.events import ContinuedAsNew, ContinuedFrom, InputReceived, StateCarried
from weft.errors import InvalidOption, RunBusy, RunClosed, RunExists, RunNotFound, StoreError
from weft.log.messages import encode_message
from weft.ports.store import Message
from weft.runner.registry.continuation import next_id
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import FaultyStore, TestRunner, run_virtually
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


@pytest.mark.parametrize("is_held", [True, False], ids=["held here", "held by no process"])
def test_what_is_asked_of_the_old_id_is_done_in_the_new_run(store: Any, is_held: bool) -> None:
    with Runner(store, executor="inline") as runner:
        for run in ("w", "v"):
            runner.start(GATED, id=run)
            runner.continue_as_new(run)
            runner.send(run, 2)
            runner.wait_until(f"{run}~2", lambda run: run.waiting_for == ["go"])
            if not is_held:
                runner.stop(f"{run}~2")

        runner.set_policies("w", [("first", Policy(max_retries=2))], by="ann")
        runner.cancel("w", "no", component="go", by="bob")
        runner.finish("w", by="cai")
        runner.cancel("v", "enough", by="dan")

        if not is_held:
            for run in ("w~2", "v~2"):
                runner.resume(run, workflow=GATED)
        assert (runner.wait("w~2").status, runner.wait("v~2").status) == ("failed", "cancelled")
        said = [getattr(event, "by", None) for event in runner.log("w~2")]
        assert [by for by in said if by] == ["ann", "cai"]
        assert "'go' was cancelled by bob: no" in str(runner.get("w~2").failures["go"])
        assert runner.find("v~2").reason == "enough"
        assert {runner.find(run).status for run in ("w", "v")} == {"completed"}
        with pytest.raises(RunClosed, match="enough"):
            runner.set_policies("v", [])
        runner.finish("w")  # it has finished by now


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


# -- waits ---------------------------------------------------------------------------------------


def test_what_waits_goes_on_waiting_in_the_new_run(store: Any) -> None:
    with Runner(store, executor="inline") as runner:
        runner.start(GATED, id="w")
        handles = [runner.send("w", number) for number in (1, 2)]
        runner.wait_until("w", lambda run: len(run.memory.waiting or ()) == 2)

        runner.continue_as_new("w")

        assert (runner.status("w"), runner.status("w~2")) == ("completed", "waiting")
        assert runner.get("w~2").waiting_for == ["go"]
        runner.signal("w", "go", 10)
        assert handles[0].result() == 10, "the handle of an input leads to where it went on"
        runner.send("w", 3)
        for value in (20, 30):
            runner.signal("w~2", "go", value)
        assert handles[1].result() == 30
        assert runner.wait("w~2").values("total") == [10, 30, 60]
        assert runner.gather(handles) == [10, 30]
        assert [handle.results() for handle in handles] == [{"total": 10}, {"total": 30}]


def test_a_caller_that_waits_for_an_input_hears_of_it_from_the_new_run() -> None:
    async def main() -> None:
        async with AsyncRunner(executor="inline") as runner:
            await runner.start(GATED, id="w")
            handle = await runner.send("w", 1)
            await runner.wait_until("w", lambda run: run.waiting_for == ["go"])
            waiting = asyncio.create_task(handle.result())
            await asyncio.sleep(0)
            await runner.continue_as_new("w")
            await runner.signal("w", "go", 7)
            assert await waiting == 7

    asyncio.run(main())


def test_timers_keep_the_time_that_was_set() -> None:
    flow = Workflow("naps", sleep(60, name="nap") >> total)
    with TestRunner() as runner:
        runner.start(flow, id="w")
        handle = runner.send("w", 5)
        runner.advance(seconds=50)
        due = [each.due for each in (runner.get("w").memory.waiting or {}).values()]

        runner.continue_as_new("w")

        assert [each.due for each in (runner.get("w~2").memory.waiting or {}).values()] == due
        assert runner.find("w~2").wake_at == due[0]
        runner.advance(seconds=9)
        assert runner.status("w~2") == "waiting"
        runner.advance(seconds=2)
        assert handle.result() == 5


@pytest.mark.parametrize("on_failure", ["halt", "dead_letter"])
def test_a_run_that_waits_is_continued_after_a_failure_of_its_was_retried(store: Any, on_failure: Any) -> None:
    broken = [True]

    def attempt(x: int) -> int:
        if broken:
            raise ValueError("not yet")
        return x

    picky = step(attempt, name="picky")
    flow = Workflow("w", picky >> total, wait_for("go")).with_policies([("picky", Policy(on_failure=on_failure))])
    with Runner(store, executor="inline") as runner:
        runner.start(flow, id="w")
        runner.send("w", 5)
        runner.wait_until("w", lambda run: run.waiting_for == ["go"] and bool(run.failures))
        broken.clear()
        runner.retry("w")
        runner.wait_until("w", lambda run: run.state_of("total") == 5)

        assert runner.continue_as_new("w").id == "w~2"

        runner.signal("w", "go", 7)
        run = runner.wait("w~2")
        assert (run.state_of("total"), run.values("go"), run.failures) == (5, [7], {})


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_fork_of_a_run_that_was_continued_goes_on_by_itself(store: Any, is_waiting: bool) -> None:
    with Runner(store, executor="inline") as runner:
        runner.start(GATED, id="w")
        runner.send("w", 1)
        if not is_waiting:
            runner.signal("w", "go", 5)
        runner.wait_until("w", lambda run: run.status == ("waiting" if is_waiting else "idle"))
        runner.continue_as_new("w")

        forks = [runner.fork("w", "whole"), runner.fork("w", "edited", at="first", value=7)]

        for fork in forks:
            if is_waiting or fork.id == "edited":
                runner.wait_until(fork.id, lambda run: run.waiting_for == ["go"])
                runner.signal(fork.id, "go", 5)
            fork.send(2)
            runner.signal(fork.id, "go", 10)
            run = fork.wait()
            assert (run.id, run.status, run.state_of("total")) == (fork.id, "idle", 15)
            assert run.values("first") == [1 if fork.id == "whole" else 7, 2]
        assert runner.send("w", 3).id == "w~2"


class Held(MemoryStore):
    """A store whose appends of two runs wait until they are let through, and may be refused."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.released, self.refuses = asyncio.Event(), asyncio.Event(), False

    async def append(self, batch: Any) -> Any:
        if any(each.group for each in batch):
            self.asked.set()
            await self.released.wait()
            if self.refuses:
                return [StoreError("not now")] * len(batch)
        return await super().append(batch)


@pytest.mark.parametrize("refuses", [False, True], ids=["continued", "refused"])
def test_a_timer_that_is_up_while_a_run_is_continued_ends_its_wait_once(refuses: bool) -> None:
    naps = Workflow("naps", sleep(60, name="nap") >> step(lambda x: x, name="woken"))

    async def main() -> None:
        store = Held()
        store.refuses = refuses
        async with AsyncRunner(store, executor="inline") as runner:
            await runner.start(naps, id="w")
            handle = await runner.send("w", 5)
            await runner.wait_until("w", lambda run: run.status == "waiting")
            continuing = asyncio.ensure_future(runner.continue_as_new("w"))
            await store.asked.wait()
            await asyncio.sleep(100)
            store.released.set()
            if refuses:
                with pytest.raises(StoreError, match="not now"):
                    await continuing
            else:
                assert (await continuing).id == "w~2"

            assert await handle.result() == 5
            run = await runner.get("w" if refuses else "w~2")
            assert (run.status, run.values("woken")) == ("idle", [5])

    run_virtually(main())


def test_the_record_of_a_continued_run_names_the_new_one_whatever_is_asked_of_it(store: Any) -> None:
    naps = Workflow("naps", sleep(60, name="nap") >> step(lambda x: x, name="woken"), total)
    with Runner(store, executor="inline") as runner:
        runner.start(naps, id="w")
        runner.send("w", 5)
        runner.wait_until("w", lambda run: run.status == "waiting" and run.state_of("total") == 5)
        runner.continue_as_new("w")

        for call in (runner.wait, runner.results, runner.log, runner.evict, runner.unread):
            call("w")
        runner.wait_until("w~2", lambda run: run.status == "waiting")

        assert runner.find("w").reason == "continued as 'w~2'"
        assert runner.find("w").wake_at is None
        assert runner.send("w", 6).id == "w~2"


def test_of_two_callers_that_continue_a_run_at_once_one_is_told_that_it_was_continued() -> None:
    async def main() -> None:
        async with AsyncRunner(executor="inline") as runner:
            await runner.start(WORKFLOW, id="w")
            calls = [runner.continue_as_new("w") for _ in range(3)]
            handle, *others = await asyncio.gather(*calls, return_exceptions=True)
            assert getattr(handle, "id", handle) == "w~2"
            assert [(type(each), getattr(each, "reason", "")) for each in others] == [
                (RunClosed, "continued as 'w~2'")
            ] * 2

    asyncio.run(main())


def test_waits_are_known_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path), executor="inline", snapshot_every=2) as runner:
        runner.start(GATED, id="w")
        for number in range(5):
            runner.send("w", number)
        runner.wait_until("w", lambda run: len(run.memory.waiting or ()) == 5)
        runner.signal("w", "go", 1)
        runner.stop("w")
        runner.resume("w", workflow=GATED)
        runner.continue_as_new("w")
    with Runner(SQLiteStore(path), executor="inline") as runner:
        runner.resume("w~2", workflow=GATED)
        for number in range(4):
            runner.signal("w", "go", 10 * number)
        assert runner.wait("w~2").state_of("total") == 61


def test_a_step_that_waits_for_its_completion_is_not_left_behind(store: Any) -> None:
    outside = Workflow("w", step(lambda x: x, name="ask"), policies=[("ask", Policy(execution_mode="external"))])
    with Runner(store) as runner:
        runner.start(outside, id="w")
        runner.send("w", 1)
        runner.wait_until("w", lambda run: run.waiting_for == ["ask"])
        with pytest.raises(RunBusy, match="completed from outside; complete"):
            runner.continue_as_new("w")
        runner.cancel("w")


# -- after a number of events --------------------------------------------------------------------


def test_a_run_is_continued_after_a_number_of_events(store: Any) -> None:
    with Runner(store, executor="inline") as runner:
        runner.start(WORKFLOW, id="w", continue_after=20)
        for number in range(60):
            runner.send("w", number).wait()

        runs = {record.id: record for record in runner.runs()}
        last = f"w~{len(runs)}"
        assert len(runs) > 4
        assert {record.status for record in runs.values() if record.id != last} == {"completed"}
        assert runs[last].status == "idle"
        assert max(record.head for record in runs.values()) < 60
        assert runner.get(last).state_of("total") == 2 * sum(range(60))


def test_a_run_that_waits_is_continued_after_a_number_of_events(store: Any) -> None:
    flow = Workflow("w", double >> total, step(lambda x: x, name="first") >> wait_for("go", match=is_it, name="go"))
    with Runner(store, executor="inline", continue_after=30) as runner:
        runner.start(flow, id="w")
        first = runner.send("w", 1_000)
        for number in range(40):
            runner.send("w", number)
            runner.signal("w", "go", number)
        runner.signal("w", "go", 1_000)
        assert first.result()["go"] == 1_000
        last = max((record.created_at, record.id) for record in runner.runs())[1]
        assert last != "w"
        assert runner.wait(last).state_of("total") == 2 * (sum(range(40)) + 1_000)


def is_it(value: int, waiting: int) -> bool:
    return value == waiting


def test_a_run_that_carries_much_does_not_go_in_circles(store: Any) -> None:
    with Runner(store, executor="inline", continue_after=5) as runner:
        runner.start(GATED, id="w")
        for number in range(30):
            runner.send("w", number)
        runner.send("w", 30)
        for number in range(31):
            runner.signal("w", "go", number)
        last = max((record.created_at, record.id) for record in runner.runs())[1]
        runner.wait_until(last, lambda run: run.state_of("total") == sum(range(31)), 60)
        assert runner.count() < 12


def test_a_number_of_events_is_a_number() -> None:
    with pytest.raises(InvalidOption, match="continue_after"):
        Runner(continue_after=0)


def test_a_run_cannot_be_continued_under_its_own_id(store: Any) -> None:
    with Runner(store, executor="inline") as runner:
        runner.start(WORKFLOW, id="w")
        runner.send("w", 1).wait()

        with pytest.raises(RunExists, match="is the one that ends"):
            runner.continue_as_new("w", "w")

        assert runner.send("w", 2).result()["total"] == 6  # nothing has happened, and nothing is locked
        runner.stop("w")


NAP = Workflow("nap", wait_for("go", timeout=1000) >> step(lambda x: x, name="last"))


@pytest.mark.parametrize("budget", [None, 1])
@pytest.mark.parametrize("ask", [lambda _, handle: handle.result(10), lambda runner, _: runner.result("w", 10)])
def test_an_input_that_went_on_is_answered_although_its_old_run_has_left_memory(
    store: Any, budget: int | None, ask: Any
) -> None:
    with Runner(store, memory_budget=budget) as runner:
        handle = runner.start(NAP, 5, id="w")
        runner.wait_until("w", lambda run: run.status == "waiting")
        runner.continue_as_new("w")
        runner.evict()
        runner.signal("w", "go", 9)

        assert ask(runner, handle) == 9
        assert handle.results() == {"last": 9}
        assert runner.gather([handle]) == [9]
