"""The parts of a run that need attention: steps that wait for the outside, or were cancelled."""

from __future__ import annotations

from msgspec.structs import replace

from weft import Policy, Run, Runner, Saga, Workflow, current, each, step, wait_for
from weft.ports.store import RunRecord
from weft.testing import TestRunner
from weft.views import attention, undriven, waterfall
from weft.views.hidden import hidden_line

ASK = Workflow(
    "ask",
    step(lambda _: current().token, name="ask") >> step(str, name="told"),
    policies=[("ask", Policy(execution_mode="external", timeout=60))],
)


def test_a_step_that_is_open_waits_for_a_completion_and_says_when_it_times_out() -> None:
    with TestRunner() as runner:
        handle = runner.start(ASK, 1)
        runner.advance(seconds=10)
        [line] = attention(runner.get(handle.id), runner.find(handle.id), now=runner.now)

    assert (line.state, line.component, line.text) == ("waiting", "ask", "waits for a completion from outside")
    assert (line.detail, line.action) == ("times out in 50 s", "")


def test_an_open_step_without_a_timeout_says_so() -> None:
    with Runner() as runner:
        handle = runner.start(ASK.with_policies([("ask", Policy(execution_mode="external"))]), 1)
        runner.wait_until(handle.id, lambda run: run.status == "waiting")
        [line] = attention(runner.get(handle.id), runner.find(handle.id), now=0.0)

    assert (line.state, line.detail) == ("waiting", "no timeout")


def test_a_step_that_was_cancelled_says_by_whom_and_why_and_can_be_retried() -> None:
    for workflow, name in ((ASK, "ask"), (Workflow("w", wait_for("go", name="go") >> step(str, name="told")), "go")):
        with Runner() as runner:
            handle = runner.start(workflow, 1)
            runner.wait_until(handle.id, lambda run: run.status == "waiting")
            runner.cancel(handle.id, "wrong desk", component=name, by="ann")
            runner.wait(handle)
            [line] = attention(runner.get(handle.id), runner.find(handle.id), now=0.0)

        assert (line.state, line.component, line.text) == ("cancelled", name, "cancelled")
        assert line.error == f"{name!r} was cancelled by ann: wrong desk"
        assert (line.detail, line.action) == ("told cannot start", "retry")


def test_a_deadline_in_danger_or_past_is_a_line() -> None:
    run = Run(Workflow("w", step(abs, name="a")))
    run.plan(1, deadline=100.0, at=1000.0)
    record = RunRecord(id="r", workflow="w", created_at=1000.0, updated_at=1000.0)

    def lines(now: float) -> list[tuple[str, str, str]]:
        return [(line.state, line.text, line.detail) for line in attention(run, record, now=now)]

    assert lines(1079.0) == []
    assert lines(1090.0) == [("waiting", "the deadline is in danger", "10 s left")]
    assert lines(1160.0) == [("failed", "the deadline is past", "for 1 min")]


RECORD = RunRecord(id="r", workflow="w", created_at=1_000.0, updated_at=1_060.0)


def test_a_run_with_work_left_and_without_a_process_says_since_when_and_how_it_goes_on() -> None:
    released = undriven(RECORD, option=" --store runs.db")
    waiting = undriven(replace(RECORD, status="waiting", owner_died=True), modules=["shop", "mail"])

    assert released is not None
    assert waiting is not None
    assert released.command == "weft resume r --import MODULE --store runs.db"
    assert waiting.command == "weft resume r --import shop --import mail"
    assert (released.line(1_090.0).text, released.line(1_090.0).detail) == (
        "no process drives it",
        "last change 30 s ago",
    )
    assert waiting.line(1_090.0).detail == "its process has died, last change 30 s ago"
    assert released.line(1_090.0).action == "resume"


def test_a_run_that_is_driven_or_has_nothing_left_to_do_is_not_left_alone() -> None:
    assert undriven(replace(RECORD, owner="process 4711")) is None
    for status in ("idle", "parked", "completed", "failed", "cancelled"):
        assert undriven(replace(RECORD, status=status)) is None


def test_a_run_of_a_fleet_needs_no_process_while_a_worker_is_alive() -> None:
    assert undriven(RECORD, workers=2) is None
    left = undriven(RECORD, workers=0, option=" --store postgresql://db/shop")

    assert left is not None
    assert left.command == "weft worker --import MODULE --store postgresql://db/shop"
    assert left.line(1_090.0).text == "no process drives it, and no worker is alive"


def test_that_no_process_drives_a_run_comes_before_what_it_waits_for() -> None:
    with TestRunner() as runner:
        handle = runner.start(Workflow("w", wait_for("go")), 1)
        run, record = runner.get(handle.id), replace(runner.find(handle.id), owner=None)
        lines = attention(run, record, now=runner.now, left=undriven(record))

    assert [line.text for line in lines] == ["no process drives it", "waits for the signal 'go'"]


def refuse_some(x: int) -> int:
    if x % 10 == 7:
        raise ValueError(x)
    return x


def test_a_map_says_how_far_it_is_what_was_skipped_and_how_long_the_rest_will_take() -> None:
    flow = Workflow(
        "w",
        step(list, name="split") >> each(step(refuse_some)),
        policies=[("refuse_some", Policy(on_failure="skip"))],
    )
    with Runner(executor="inline") as runner:
        whole = runner.start(flow, range(100), id="r").wait()
        record = replace(runner.find("r"), status="running")
    events = whole.log()
    begin = next(at for event in events if (at := getattr(event, "at", None)))
    first = next(place for place, event in enumerate(events) if getattr(event, "component", "") == "refuse_some")
    few, half = (Run.from_log(events[: first + number]) for number in (5, 50))

    [line] = attention(half, record, now=begin + 600)
    assert (line.component, line.text, line.detail) == ("refuse_some", "50 of 100", "10 % skipped · ~10 min left")
    assert line.share == 0.5
    [line] = attention(few, record, now=begin + 600)
    assert (line.text, line.detail) == ("5 of 100", "")


def test_a_saga_that_was_undone_says_so_though_its_run_is_completed() -> None:
    trip = Saga("trip")

    @trip.transaction(compensate=lambda request, results: "cancelled")
    def flight(request: str, results: dict[str, str]) -> str:
        return "LH 400"

    @trip.transaction(compensate=None)
    def car(request: str, results: dict[str, str]) -> str:
        raise LookupError("no car in Lyon")

    with Runner(executor="inline") as runner:
        run = runner.start(Workflow("travel", trip), "Lyon", id="r").wait()
        record = runner.find("r")

    [line] = attention(run, record, now=0.0)
    assert (record.status, line.component, line.text) == ("completed", "trip", "was undone")
    assert (line.error, line.detail) == ("car: LookupError: no car in Lyon", "undone: flight")
    assert hidden_line(line).error == "car: hidden"
    parts = [row.component for row in waterfall(run).rows]
    assert parts[:3] == ["trip", "trip.flight", "trip.car"]
    assert len(parts) == 4  # and what undid the flight
