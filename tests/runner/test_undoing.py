"""Cancelling a run: what it has done is undone before it is cancelled."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from virtual_time import until_nothing_moves

from weft import AsyncRunner, Policy, Run, Runner, Saga, Workflow, current, each, step, wait_for
from weft.core import events as ev
from weft.errors import InvalidArgument, InvalidOption, NoSuchLetter, RunClosed, RunParked, StepCancelled, TokenExpired
from weft.stores import MemoryStore, SQLiteStore
from weft.testing import TestRunner, run_virtually
from weft.testing.wrapping import WrappedStore
from weft.views.attention import attention
from weft.views.event_text import sentence


class Trip:
    """A saga of three transactions, of which the last one hangs until it is released; it says what was done."""

    def __init__(self) -> None:
        self.begun, self.go_on, self.undoing, self.may_undo = (threading.Event() for _ in range(4))
        self.may_undo.set()
        self.done: list[str] = []
        self.fails: dict[str, int] = {}

    def _undo(self, what: str) -> Any:
        def undo(request: Any, results: dict[str, Any]) -> str:
            self.undoing.set()
            assert self.may_undo.wait(60)
            if self.fails.get(what, 0):
                self.fails[what] -= 1
                raise OSError(f"{what} is not answering")
            self.done.append(f"no {results[what]}")
            return f"no {results[what]}"

        undo.__name__ = f"no_{what}"
        return undo

    def _do(self, what: str) -> Any:
        def do(request: Any, results: dict[str, Any]) -> str:
            self.done.append(what)
            return what

        return do

    def _hang(self, request: Any, results: dict[str, Any]) -> str:
        self.begun.set()
        assert self.go_on.wait(60)
        return "paid"

    def saga(self) -> Saga:
        trip = Saga("trip", on_abort=lambda outcome: self.done.append("on_abort"))
        trip.transaction(self._do("flight"), name="flight", compensate=self._undo("flight"))
        trip.transaction(self._do("hotel"), name="hotel", compensate=self._undo("hotel"))
        trip.transaction(self._hang, name="pay", compensate=None)
        return trip

    def workflow(self, **policies: Policy) -> Workflow:
        after = step(lambda outcome: self.done.append("after"), name="after")
        rules = [(name.replace("__", "."), policy) for name, policy in policies.items()]
        return Workflow("travel", self.saga() >> after, policies=rules)


@pytest.fixture
def trip() -> Any:
    made = Trip()
    yield made
    made.go_on.set()
    made.may_undo.set()


def test_what_a_saga_has_done_is_undone_last_one_first(runner: Runner, trip: Trip) -> None:
    handle = runner.start(trip.workflow(), "Rome")
    assert trip.begun.wait(60)

    handle.cancel("no time", by="Ada")

    with pytest.raises(RunClosed, match="no time"):
        handle.result()
    assert trip.done == ["flight", "hotel", "no hotel", "no flight"]
    record = runner.find(handle.id)
    assert (record.status, record.reason, record.failures) == ("cancelled", "no time", 0)
    outcome = runner.get(handle.id).state_of("trip")
    assert (outcome.status, outcome.compensated, outcome.remaining) == ("aborted", ["hotel", "flight"], [])
    assert "'trip.pay' was cancelled by Ada: no time" in next(
        event.error.message for event in handle.log() if isinstance(event, ev.RunnableFailed)
    )


def test_nothing_is_undone_without_undo(runner: Runner, trip: Trip) -> None:
    handle = runner.start(trip.workflow(), "Rome")
    assert trip.begun.wait(60)

    handle.cancel("no time", undo=False)

    assert handle.status() == "cancelled"
    assert trip.done == ["flight", "hotel"]
    assert isinstance(handle.log()[-1], ev.RunCancelled)


def test_a_run_with_nothing_to_undo_is_cancelled_by_one_event_as_ever(runner: Runner) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(x: int) -> int:
        begun.set()
        assert go_on.wait(60)
        return x

    handle = runner.start(Workflow("w", step(slow) >> step(str)), 1)
    assert begun.wait(60)

    handle.cancel("late", by="Ada")

    assert handle.status() == "cancelled"
    last = handle.log()[-1]
    assert last == ev.RunCancelled(last.seq, "late", "Ada")
    go_on.set()


class Counting(WrappedStore):
    """A store that counts what is written to it."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.commits, self.events = 0, 0

    async def append(self, appends: Any) -> Any:
        self.commits += 1
        self.events += sum(each.count for each in appends)
        return await super().append(appends)


@pytest.mark.parametrize("undo", [True, False])
@pytest.mark.parametrize("waits", ["in flight", "for a signal", "idle"])
def test_a_run_with_nothing_to_undo_is_cancelled_by_one_event_in_one_commit(waits: str, undo: bool) -> None:
    async def main() -> tuple[int, int, Any]:
        begun = asyncio.Event()

        async def work(x: int) -> None:
            begun.set()
            if waits == "in flight":
                await asyncio.Event().wait()

        store = Counting(MemoryStore())
        async with AsyncRunner(store) as runner:
            flow = step(work) >> wait_for("go") if waits == "for a signal" else step(work)
            handle = await runner.start(Workflow("w", flow), 1, open=True)
            await begun.wait()
            expected = {"in flight": "running", "for a signal": "waiting", "idle": "idle"}[waits]
            await until_nothing_moves()
            assert (await runner.find(handle.id)).status == expected
            commits, events = store.commits, store.events

            await handle.cancel("late", undo=undo)
            await until_nothing_moves()

            last = (await handle.log())[-1]
            assert (await runner.find(handle.id)).status == "cancelled"
            return store.commits - commits, store.events - events, last

    commits, events, last = run_virtually(main())

    assert (commits, events) == (1, 1)
    assert last == ev.RunCancelled(last.seq, "late")


def test_a_saga_that_has_completed_stays_so(runner: Runner) -> None:
    undone: list[Any] = []
    done = Saga("done")
    done.transaction(lambda request, results: "done", name="do", compensate=lambda request, results: undone.append(1))
    handle = runner.start(Workflow("w", done >> wait_for("more")), 1)
    runner.wait_until(handle, lambda run: run.waiting_for == ["more"])

    handle.cancel()

    assert handle.status() == "cancelled"
    assert undone == []


def test_a_step_in_flight_is_compensated_as_its_policy_says_and_one_that_has_not_begun_is_not(runner: Runner) -> None:
    begun, go_on, undone = threading.Event(), threading.Event(), list[Any]()

    def slow(x: int) -> int:
        begun.set()
        assert go_on.wait(60)
        return x

    def undo(runnable: Any, error: BaseException) -> None:
        undone.append((runnable.component, type(error), str(error)))

    policy = Policy(on_failure="compensate", compensation=undo)
    work = Workflow("w", step(slow), step(lambda x: x, name="next"), policies=[("slow", policy), ("next", policy)])
    handle = runner.start(work, 1, max_concurrency=1)
    assert begun.wait(60)

    handle.cancel("late", by="Ada")
    handle.wait()

    assert handle.status() == "cancelled"
    assert undone == [("slow", StepCancelled, "'slow' was cancelled by Ada: late")]
    go_on.set()


def test_nothing_but_compensations_starts(runner: Runner) -> None:
    begun, go_on, done = threading.Event(), threading.Event(), list[str]()

    def slow(x: int) -> int:
        begun.set()
        assert go_on.wait(60)
        return x

    policy = Policy(on_failure="compensate", compensation=lambda runnable, error: done.append("undone"))
    handler = step(lambda failure: done.append("handled"), name="handle")
    slowly = step(slow)
    work = Workflow("w", slowly.on_error(Exception, then=handler), policies=[("slow", policy)])
    handle = runner.start(work, 1)
    assert begun.wait(60)

    handle.cancel()
    handle.wait()

    assert done == ["undone"]
    go_on.set()


def test_a_run_that_is_being_undone_says_so_and_takes_nothing_more(runner: Runner, trip: Trip) -> None:
    trip.may_undo.clear()
    handle = runner.start(trip.workflow(), "Rome", open=True)
    assert trip.begun.wait(60)
    handle.cancel("no time", by="Ada")
    assert trip.undoing.wait(60)

    record = runner.find(handle.id)
    assert (record.status, record.reason) == ("running", "undoing, since it was cancelled by Ada: no time")
    with pytest.raises(RunClosed, match="no time"):
        handle.send("Paris")
    with pytest.raises(RunClosed, match="no time"):
        handle.finish()
    handle.cancel("again", by="Bob")

    trip.may_undo.set()
    assert handle.wait().status == "cancelled"
    assert [(event.reason, event.by) for event in handle.log() if isinstance(event, ev.RunCancelled)] == [
        ("no time", "Ada")
    ]


def test_a_run_that_is_being_undone_is_neither_retried_nor_upgraded_and_says_why(runner: Runner, trip: Trip) -> None:
    trip.may_undo.clear()
    work = trip.workflow()
    handle = runner.start(work, "Rome")
    assert trip.begun.wait(60)
    handle.cancel("no time")
    assert trip.undoing.wait(60)
    run = Run.from_log(handle.log())

    with pytest.raises(InvalidArgument, match="was cancelled, and only undoes what it has done"):
        run.upgrade(work)
    trip.may_undo.set()
    handle.wait()
    with pytest.raises(InvalidArgument, match="was cancelled, and nothing more happens in it"):
        Run.from_log(handle.log()).upgrade(work)


def test_a_failure_from_before_is_not_retried_while_the_run_is_undone(runner: Runner, trip: Trip) -> None:
    def fail(x: str) -> None:
        raise OSError(x)

    trip.may_undo.clear()
    handle = runner.start(Workflow("travel", trip.saga(), step(fail)), "Rome")
    assert trip.begun.wait(60)
    runner.wait_until(handle, lambda run: "fail" in run.failures)
    handle.cancel()
    assert trip.undoing.wait(60)

    for change in (runner.retry, runner.discard):
        with pytest.raises(NoSuchLetter) as refused:
            change(handle.id, "fail")
        assert "retry() runs it again" not in str(refused.value)
    trip.may_undo.set()
    assert handle.wait().status == "cancelled"


def test_undoing_is_ended_by_a_second_cancel_without_undo(runner: Runner, trip: Trip) -> None:
    trip.may_undo.clear()
    handle = runner.start(trip.workflow(), "Rome")
    assert trip.begun.wait(60)
    handle.cancel("no time")
    assert trip.undoing.wait(60)

    handle.cancel("leave it", undo=False)

    assert handle.status() == "cancelled"
    assert runner.find(handle.id).reason == "leave it"
    assert trip.done == ["flight", "hotel"]
    assert runner.get(handle.id).state_of("trip").remaining == ["hotel", "flight"]


def test_a_compensation_is_tried_as_often_as_its_policy_says(runner: Runner, trip: Trip) -> None:
    trip.fails["hotel"] = 2
    handle = runner.start(trip.workflow(trip__no_hotel=Policy(max_retries=2, backoff="none")), "Rome")
    assert trip.begun.wait(60)

    handle.cancel()

    assert handle.wait().status == "cancelled"
    assert trip.done == ["flight", "hotel", "no hotel", "no flight"]


def test_a_compensation_that_fails_for_good_parks_the_run_until_it_is_retried(runner: Runner, trip: Trip) -> None:
    trip.fails["hotel"] = 1
    handle = runner.start(trip.workflow(), "Rome")
    assert trip.begun.wait(60)
    handle.cancel("no time")

    with pytest.raises(RunParked, match=r"a saga cannot be undone: .*hotel is not answering"):
        handle.wait()
    assert runner.find(handle.id).status == "parked"
    with pytest.raises(NoSuchLetter):
        runner.retry(handle.id, "trip.pay")
    handle.cancel("again")
    assert runner.find(handle.id).status == "parked"
    runner.retry(handle.id)

    assert handle.wait().status == "cancelled"
    assert trip.done == ["flight", "hotel", "no hotel", "no flight"]
    assert runner.find(handle.id).reason == "no time"


def test_a_compensation_that_is_discarded_leaves_the_others_to_be_undone(runner: Runner, trip: Trip) -> None:
    trip.fails["hotel"] = 1
    handle = runner.start(trip.workflow(), "Rome")
    assert trip.begun.wait(60)
    handle.cancel()
    with pytest.raises(RunParked):
        handle.wait()

    runner.discard(handle.id)

    assert handle.wait().status == "cancelled"
    assert trip.done == ["flight", "hotel", "no flight"]


def test_a_stuck_saga_is_tried_again_when_its_run_is_cancelled(runner: Runner, trip: Trip) -> None:
    trip.fails["hotel"] = 1
    handle = runner.start(trip.workflow(), "Rome")
    assert trip.begun.wait(60)
    handle.cancel(component="trip.pay")
    with pytest.raises(RunParked):
        handle.wait()

    handle.cancel("enough")

    assert handle.wait().status == "cancelled"
    assert trip.done == ["flight", "hotel", "no hotel", "no flight"]


def test_a_compensation_in_flight_is_not_interrupted(runner: Runner, trip: Trip) -> None:
    trip.may_undo.clear()
    handle = runner.start(trip.workflow(), "Rome")
    assert trip.begun.wait(60)
    handle.cancel(component="trip.pay")
    assert trip.undoing.wait(60)

    handle.cancel("enough")
    trip.may_undo.set()

    assert handle.wait().status == "cancelled"
    assert trip.done == ["flight", "hotel", "no hotel", "no flight"]


@pytest.mark.parametrize("given", ["no", None, 1])
def test_the_choice_is_true_or_false(runner: Runner, given: Any) -> None:
    handle = runner.start(Workflow("w", wait_for("go")), 1)

    with pytest.raises(InvalidOption, match="use True or False"):
        handle.cancel(undo=given)
    with pytest.raises(InvalidOption, match="is for a whole run"):
        handle.cancel(component="go", undo=False)
    handle.cancel()


def test_pages_and_logs_say_that_it_was_undone_since_it_was_cancelled(runner: Runner, trip: Trip) -> None:
    trip.may_undo.clear()
    handle = runner.start(trip.workflow(), "Rome")
    assert trip.begun.wait(60)
    handle.cancel("no time", by="Ada")
    assert trip.undoing.wait(60)
    (before,) = [
        line for line in attention(runner.get(handle.id), runner.find(handle.id), now=0.0) if "undoing" in line.text
    ]
    trip.may_undo.set()
    run = handle.wait()

    (after,) = [line for line in attention(run, runner.find(handle.id), now=0.0) if line.text.startswith("cancelled")]
    assert (before.state, before.text, before.error) == ("running", "undoing, since it was cancelled by Ada", "no time")
    assert (after.state, after.text, after.detail) == (
        "cancelled",
        "cancelled by Ada",
        "undone: trip.hotel, trip.flight",
    )
    (event,) = [event for event in run.log() if isinstance(event, ev.RunCancelled)]
    assert str(sentence(event)) == "cancelled: no time, by Ada; what it has done is undone"
    assert "trip.pay = Failure('trip.pay', weft.errors.StepCancelled" in str(run.explain("trip.no_flight"))


def test_a_test_runner_undoes_on_virtual_time() -> None:
    done: list[str] = []
    trip = Saga("trip")
    trip.transaction(lambda request, results: "seat", name="book", compensate=lambda r, results: done.append("undone"))

    async def pay(request: Any, results: Any) -> None:
        await asyncio.Event().wait()

    trip.transaction(pay, compensate=None)
    with TestRunner() as runner:
        handle = runner.start(Workflow("travel", trip), 1, id="r")
        handle.cancel("no time")

        assert handle.status() == "cancelled"
        assert done == ["undone"]


def test_every_element_undoes_its_own(runner: Runner) -> None:
    begun, go_on, undone = threading.Barrier(4), threading.Event(), list[Any]()
    saga = Saga("order")
    saga.transaction(
        lambda request, results: request, name="take", compensate=lambda request, results: undone.append(request)
    )

    def pay(request: int, results: Any) -> None:
        begun.wait(60)
        assert go_on.wait(60)

    saga.transaction(pay, compensate=None)
    handle = runner.start(Workflow("orders", each(saga)), [1, 2, 3])
    begun.wait(60)

    handle.cancel()

    assert handle.wait().status == "cancelled"
    assert sorted(undone) == [1, 2, 3]
    go_on.set()


def test_a_crash_after_any_event_of_it_comes_to_the_same(runner: Runner, trip: Trip) -> None:
    handle = runner.start(trip.workflow(), "Rome")
    assert trip.begun.wait(60)
    handle.cancel("no time")
    log = handle.wait().log()
    (place,) = [event.seq for event in log if isinstance(event, ev.RunCancelled)]
    trip.go_on.set()

    for length in range(place, len(log) + 1):
        again = Run.from_log(log[:length]).react_until_satisfied()
        assert again.status == "cancelled"
        made = [event.component for event in again.log() if isinstance(event, ev.Activated)]
        assert made == [event.component for event in log if isinstance(event, ev.Activated)]


def test_a_run_that_no_process_drives_is_undone_when_it_is_resumed(tmp_path: Path, trip: Trip) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as first:
        handle = first.start(trip.workflow(), "Rome", id="r")
        assert trip.begun.wait(60)
        first.stop("r", grace=0)
    with Runner(SQLiteStore(path)) as second:
        second.cancel("r", "no time", by="web")
        second.resume("r", workflow=trip.workflow())
        assert second.wait("r").status == "cancelled"

    assert trip.done == ["flight", "hotel", "no hotel", "no flight"]
    assert handle.id == "r"


@pytest.mark.parametrize("snapshot_every", [None, 1])
def test_undoing_continues_in_the_next_process(tmp_path: Path, trip: Trip, snapshot_every: int | None) -> None:
    path = tmp_path / "runs.db"
    trip.may_undo.clear()
    with Runner(SQLiteStore(path)) as first:
        first.start(trip.workflow(), "Rome", id="r", snapshot_every=snapshot_every)
        assert trip.begun.wait(60)
        first.cancel("r", "no time", by="Ada")
        assert trip.undoing.wait(60)
        first.stop("r", grace=0)
        record = first.find("r")
    assert (record.status, record.reason) == ("running", "undoing, since it was cancelled by Ada: no time")
    trip.may_undo.set()
    with Runner(SQLiteStore(path)) as second:
        second.register(trip.workflow())
        second.resume_all()
        assert second.wait("r").status == "cancelled"
        log = second.log("r")

    undone = [event.component for event in log if isinstance(event, ev.ReactionOccurred)]
    assert len(undone) == len(set(undone)) == 4


def test_what_waits_outside_is_stopped_and_undone(runner: Runner) -> None:
    asked, tokens, undone = threading.Event(), list[str](), list[Any]()
    trip = Saga("trip")
    trip.transaction(lambda request, results: "seat", name="book", compensate=lambda r, results: undone.append(results))

    def ask(request: Any, results: Any) -> None:
        tokens.append(current().token)
        asked.set()

    trip.transaction(ask, compensate=None)
    external = Policy(execution_mode="external")
    handle = runner.start(Workflow("travel", trip, policies=[("trip.ask", external)]), 1)
    assert asked.wait(60)
    runner.wait_until(handle, lambda run: run.status == "waiting")

    handle.cancel("no time")

    assert handle.wait().status == "cancelled"
    assert undone == [{"book": "seat"}]
    with pytest.raises((TokenExpired, RunClosed)):
        runner.complete(tokens[0], 1)
