"""The outcome of a run: when it finishes, what came of its inputs, what its record says, and who keeps it (ADR 24)."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from small_flows import chain
from weather import GatedStore, Refuses, SlowStore, double, now, runner_on, until_nothing_moves, virtually

from weft import Policy, Run, Runner, Saga, Workflow, condition, context, each, reduce, step
from weft.core.events import (
    InputReceived,
    PolicyChanged,
    RunCancelled,
    RunFinished,
    RunnableRetried,
    RunnableSkipped,
    WorkflowDefined,
)
from weft.errors import (
    InvalidArgument,
    InvalidOption,
    MissingContext,
    NoInput,
    NoSuchLetter,
    NothingProduced,
    RunClosed,
    RunExists,
    RunFailed,
    RunNotFound,
    RunNotHeld,
    RunParked,
    StepFailed,
)
from weft.log import register
from weft.log.outcome import LARGEST, decode_outcome
from weft.policy import Value
from weft.ports.store import LogStore, RunRecord
from weft.runner.execution.worker import Worker
from weft.runner.registry.recent_runs import RUNS
from weft.stores import MemoryStore, SQLiteStore
from weft.testing.wrapping import WrappedStore


def inverse(x: int) -> float:
    """Fail for 0."""
    return 10 / x


halting = Workflow("halting", step(inverse))
keeping = halting.with_policies([("inverse", Policy(on_failure="dead_letter"))])
two_leaves = Workflow("two_leaves", step(inverse)).add(step(lambda x: x + 1, name="successor"))
positive = Workflow("positive", condition(lambda x: x > 0, name="is_positive") >> step(lambda x: x, name="same"))


class Switch:
    """A step that fails until it is switched on."""

    def __init__(self) -> None:
        self.is_on = threading.Event()

    def __call__(self, x: int) -> int:
        if not self.is_on.is_set():
            raise ConnectionError("down")
        return x * 2


def switched(switch: Switch, **policy: Any) -> Workflow:
    """Return a workflow whose only step is *switch*, with a failure that is kept as a dead letter."""
    return Workflow("switched", step(switch, name="fetch")).with_policies(
        [("fetch", Policy(on_failure="dead_letter", **policy))]
    )


# -- when a run finishes -------------------------------------------------------------------------


def test_a_run_that_is_started_with_its_input_completes_by_itself(runner: Runner) -> None:
    handle = runner.start(chain, 5, id="a")

    run = handle.wait(20)

    assert (run.status, handle.status(), runner.find("a").status) == ("completed",) * 3
    assert runner.find("a").finished_at is not None
    assert (runner.held, "a" in runner) == ([], False)


def test_a_run_that_is_started_without_input_stays_open_until_it_is_told_to_finish(runner: Runner) -> None:
    handle = runner.start(chain, id="a")
    runner.send("a", 5).wait(20)
    before = (handle.status(), runner.find("a").finished_at, runner.held)

    runner.finish("a")

    assert before == ("idle", None, ["a"])
    assert (handle.wait(20).status, runner.find("a").status, runner.held) == ("completed", "completed", [])
    assert [type(event) for event in handle.log()][-1] is RunFinished


def test_a_run_that_is_kept_open_accepts_more_input_after_its_first_one(runner: Runner) -> None:
    first = runner.start(chain, 5, id="a", open=True)
    second = first.send(6)

    assert (first.result(20), second.result(20), first.status()) == (11, 13, "idle")


def test_a_run_that_is_told_to_finish_does_what_is_left_first(runner: Runner) -> None:
    gate = threading.Event()
    handle = runner.start(Workflow("w", step(lambda x: gate.wait(20) and x, name="slow")), 7, id="a", open=True)

    handle.finish()
    with pytest.raises(RunClosed, match=r"finishes with the input that it has; start\(\.\.\., open=True\) keeps"):
        handle.send(8)
    gate.set()

    assert (handle.result(20), handle.status()) == (7, "completed")


def test_a_run_that_is_told_to_finish_twice_finishes_once(runner: Runner) -> None:
    handle = runner.start(chain, id="a")

    for _ in range(3):
        runner.finish("a")

    assert [type(event) for event in handle.log()].count(RunFinished) == 1
    with pytest.raises(NothingProduced, match="it has had no input"):
        handle.result(20)


def test_finishing_costs_no_event(runner: Runner) -> None:
    handle = runner.start(chain, 5)

    log = handle.wait(20).log()

    assert len(log) == 2 + 2  # the definition, the input, and one for each of two steps
    assert [event.last for event in log if isinstance(event, InputReceived)] == [True]


@pytest.mark.parametrize("flow", [halting, keeping, two_leaves], ids=lambda flow: str(flow.name))
def test_a_run_has_failed_if_something_failed_that_nothing_handled(runner: Runner, flow: Workflow) -> None:
    handle = runner.start(flow, 0, id="a")

    assert (handle.wait(20).status, handle.status()) == ("failed", "failed")
    record = runner.find("a")
    assert (record.status, record.failures, record.dead_letters) == ("failed", 1, int(flow is keeping))
    assert record.reason == "'inverse' failed: ZeroDivisionError: division by zero"
    assert "a" not in runner


@pytest.mark.parametrize("how", ["fallback", "skip", "route"])
def test_a_run_whose_failure_was_handled_completes(runner: Runner, how: str) -> None:
    flows = {
        "fallback": halting.with_policies([("inverse", Policy(fallback=lambda *_: Value(-1.0)))]),
        "skip": halting.with_policies([("inverse", Policy(on_failure="skip"))]),
        "route": Workflow("routed", step(inverse).on_error(ZeroDivisionError, then=step(lambda _: -1.0, name="none"))),
    }

    handle = runner.start(flows[how], 0, id="a")

    assert handle.wait(20).status == "completed"
    assert runner.find("a").failures == 0


def test_an_open_run_counts_its_failures_in_its_record_so_that_lists_find_it(runner: Runner) -> None:
    runner.start(keeping, 0, id="bad", open=True).wait(20)
    runner.start(keeping, 1, id="good", open=True).wait(20)

    found = runner.runs(failed=True)

    assert [(each.id, each.status, each.failures, each.dead_letters) for each in found] == [("bad", "idle", 1, 1)]
    assert [each.id for each in runner.runs(failed=False)] == ["good"]
    assert (runner.count(failed=True), runner.count(failed=False)) == (1, 1)


def test_lists_find_finished_runs_by_their_outcome_the_newest_first(runner: Runner) -> None:
    for number, value in enumerate([1, 0, 2, 0]):
        runner.start(halting, value, id=f"r{number}").wait(20)

    assert [each.id for each in runner.runs(status="failed")] == ["r3", "r1"]
    assert [each.id for each in runner.runs(status="completed")] == ["r2", "r0"]
    assert runner.count(status=["failed", "completed"]) == 4
    assert runner.purge(before=2e10, statuses=["failed"]) == 2
    assert [each.id for each in runner.runs()] == ["r2", "r0"]


def test_parked_goes_before_failed(runner: Runner) -> None:
    trip = Saga("trip")

    @trip.transaction
    def book(x: int, results: dict[str, Any]) -> int:
        return x

    @book.compensate
    def cancel(x: int, results: dict[str, Any]) -> None:
        raise ConnectionError("down")

    @trip.transaction(compensate=None)
    def pay(x: int, results: dict[str, Any]) -> None:
        raise ValueError("declined")

    handle = runner.start(Workflow("w", trip).add(step(inverse)), 0, id="a")

    with pytest.raises(RunParked, match="ConnectionError: down"):
        handle.wait(20)
    assert (handle.status(), runner.find("a").status, runner.find("a").failures) == ("parked", "parked", 2)
    assert runner.held == ["a"]


@pytest.mark.parametrize("value", [1, 0], ids=["completed", "failed"])
def test_a_finished_run_takes_no_input_and_cannot_be_cancelled(runner: Runner, value: int) -> None:
    handle = runner.start(halting, value, id="a")
    status = handle.wait(20).status

    calls: list[Callable[[], object]] = [lambda: handle.send(1), handle.cancel, lambda: runner.set_policies("a", [])]
    for call in calls:
        with pytest.raises(RunClosed, match=f"has {status} and accepts nothing more") as refused:
            call()
        assert refused.value.status == status
    runner.finish("a")
    runner.checkpoint("a")
    runner.stop("a")
    assert (handle.status(), len(handle.log())) == (status, 3)


def test_a_cancelled_run_leaves_as_well(runner: Runner) -> None:
    handle = runner.start(chain, id="a")

    handle.cancel("not wanted", by="me")
    handle.cancel("again")

    assert (handle.wait(20).status, runner.find("a").reason, runner.held) == ("cancelled", "not wanted", [])
    with pytest.raises(RunClosed, match="not wanted"):
        handle.result(20)
    with pytest.raises(RunClosed):
        runner.finish("a")


@pytest.mark.parametrize("checkpoint", ["every_cycle", "on_complete", "manual", "pipelined"])
def test_a_run_finishes_under_every_strategy_and_leaves_when_it_is_written(runner: Runner, checkpoint: str) -> None:
    handle = runner.start(chain, 5, id="a", checkpoint=checkpoint)

    assert (handle.result(20), handle.status()) == (11, "completed")
    assert runner.held == (["a"] if checkpoint == "manual" else [])
    runner.checkpoint("a")
    assert (runner.held, runner.find("a").status, handle.result(0)) == ([], "completed", 11)


# -- the results of an input ---------------------------------------------------------------------


def test_the_result_of_a_later_input_is_never_that_of_an_earlier_one(runner: Runner) -> None:
    runner.start(positive, id="a")
    five, zero, last = (runner.send("a", value) for value in (5, 0, 7))

    assert five.result(20) == 5
    with pytest.raises(NothingProduced, match="the condition 'is_positive' did not hold"):
        zero.result(20)
    assert (last.result(20), runner.result("a")) == (7, 7)
    assert (five.results(), zero.results(), last.results()) == ({"same": 5}, {}, {"same": 7})
    assert runner.results("a") == {"same": 7}


def test_a_failure_belongs_to_its_input(runner: Runner) -> None:
    runner.start(halting, id="a")
    good, bad, better = (runner.send("a", value) for value in (5, 0, 2))

    with pytest.raises(RunFailed) as failed:
        bad.result(20)
    assert isinstance(failed.value.failures["inverse"].__cause__, ZeroDivisionError)
    assert (good.result(20), better.result(20)) == (2.0, 5.0)


def test_one_leaf_of_two_that_failed_is_raised_with_the_result_of_the_other(runner: Runner) -> None:
    handle = runner.start(two_leaves, 0, id="a")

    for result in (handle.result, lambda: runner.result("a", 20), lambda: runner.gather(["a"])):
        with pytest.raises(RunFailed, match="'inverse' failed: ZeroDivisionError") as failed:
            result()
        assert failed.value.results == {"successor": 1}
        assert [(name, type(why)) for name, why in failed.value.failures.items()] == [("inverse", StepFailed)]
    assert handle.results() == {"successor": 1}


def test_all_failures_of_an_input_are_raised_together(runner: Runner) -> None:
    flow = Workflow("w", step(inverse)).add(step(lambda x: [][x], name="item"))

    with pytest.raises(RunFailed, match="and 1 more") as failed:
        runner.start(flow, 0).result(20)

    causes = {name: type(why.__cause__) for name, why in failed.value.failures.items()}
    assert causes == {"inverse": ZeroDivisionError, "item": IndexError}


def test_that_nothing_was_produced_names_the_failure_that_it_comes_from() -> None:
    run = Workflow("w", step(inverse) >> step(lambda x: x, name="same")).run(0)

    with pytest.raises(NothingProduced, match=r"'inverse', which feeds it, failed \(ZeroDivisionError") as nothing:
        run.value("same")
    assert isinstance(nothing.value.__cause__, StepFailed)


def test_a_key_that_was_seen_returns_the_handle_of_the_first_input_with_it(runner: Runner) -> None:
    runner.start(positive, id="a")
    first = runner.send("a", 5, key="k")
    runner.send("a", 6)

    again = runner.send("a", 7, key="k")

    assert (again, again.result(20)) == (first, 5)


def test_a_handle_of_an_input_is_not_that_of_another_one_or_of_the_run(runner: Runner) -> None:
    first = runner.start(positive, 1, id="a", open=True)
    second = first.send(2)

    assert len({first, second, runner.resume("a")}) == 3
    assert first == runner.start(positive, 1, id="a", open=True)
    assert (repr(first), repr(second)) == ("Handle('a')", "Handle('a', input 2)")


def test_elements_of_a_later_input_are_not_among_those_of_an_earlier_one(runner: Runner) -> None:
    flow = Workflow("w", each(step(lambda x: x * 2, name="twice")) >> reduce(lambda a, b: a + b, init=0, name="sum"))
    runner.start(flow, id="a")
    handles = [runner.send("a", values) for values in ([1, 2], [], [3])]

    assert [handle.result(20) for handle in handles] == [6, 0, 6]


# -- forgetting ----------------------------------------------------------------------------------


def test_a_run_that_was_purged_is_not_there_any_more(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="a").wait(20)
        assert runner.purge(before=time.time() + 60) == 1

        for ask in (runner.find, runner.get, runner.status, runner.results, runner.result, runner.log):
            with pytest.raises(RunNotFound):
                ask("a")


# -- retrying ------------------------------------------------------------------------------------


_told: list[tuple[str, str]] = []


def note_status(run_id: str, run: Run) -> None:
    """Record the arguments of on_complete."""
    _told.append((run_id, run.status))


def test_on_complete_is_told_when_a_failed_run_that_was_retried_finishes_again(store: LogStore) -> None:
    switch = Switch()
    _told.clear()
    with Runner(store) as runner:
        runner.start(switched(switch), 5, id="a", on_complete=note_status).wait(20)
        switch.is_on.set()
        runner.retry("a").wait(20)

    assert _told == [("a", "failed"), ("a", "completed")]


def keyed(switch: Switch) -> Workflow:
    """Like :func:`switched`, for a step that needs a key to the line."""

    def fetch(x: int, key: str = context("key")) -> str:
        return f"{switch(x)} with {key}"

    return Workflow("keyed", step(fetch)).with_policies([("fetch", Policy(on_failure="dead_letter"))])


def test_a_failed_run_is_retried_with_the_context_and_the_callback_that_it_was_started_with(store: LogStore) -> None:
    switch, told = Switch(), list[str]()
    with Runner(store) as runner:
        runner.start(
            keyed(switch), 5, id="a", context={"key": "k"}, on_complete=lambda _, run: told.append(run.status)
        ).wait(20)
        switch.is_on.set()

        assert runner.retry("a").result(20) == "10 with k"
        assert told == ["failed", "completed"]


def test_a_failed_run_is_retried_in_another_runner_with_the_context_that_it_is_given(store: LogStore) -> None:
    switch = Switch()
    flow = keyed(switch)
    with Runner(store) as runner:
        runner.start(flow, 5, id="a", context={"key": "k"}).wait(20)
        runner.start(flow, 6, id="b", context={"key": "k"}).wait(20)
        switch.is_on.set()
        runner._inner._registry.recent.forget("a")
        runner._inner._registry.recent.forget("b")

        with pytest.raises(MissingContext, match="'key'"):
            runner.retry("a")
        assert runner.status("a") == "failed"
        assert runner.retry("a", context={"key": "other"}).result(20) == "10 with other"
        assert runner.discard("b", context={"key": "other"}).wait(20).status == "completed"


def test_an_open_run_reads_the_context_with_which_it_is_retried(runner: Runner) -> None:
    switch = Switch()
    first = runner.start(keyed(switch), 5, id="a", open=True, context={"key": "old"})
    first.wait(20)
    switch.is_on.set()

    runner.retry("a", context={"key": "new"})
    assert runner.result("a", 20) == "10 with new"
    assert first.send(6).result(20) == "12 with new"


def test_retrying_dead_letters_reopens_a_failed_run_which_then_completes(store: LogStore) -> None:
    switch = Switch()
    with Runner(store) as runner:
        handle = runner.start(switched(switch), 5, id="a")
        assert handle.wait(20).status == "failed"
        finished = runner.find("a").finished_at
        switch.is_on.set()

        again = runner.retry("a", by="me")

        assert (again.result(20), handle.result(20), runner.result("a", 20)) == (10, 10, 10)
        record = runner.find("a")
        assert (record.status, record.failures, record.dead_letters, record.reason) == ("completed", 0, 0, "")
        assert finished is not None
        assert record.finished_at is not None
        assert record.finished_at >= finished
        assert (handle.status(), runner.held) == ("completed", [])


def test_a_run_that_is_retried_and_fails_again_has_failed_again(store: LogStore) -> None:
    with Runner(store) as runner:
        handle = runner.start(switched(Switch()), 5, id="a")
        handle.wait(20)

        for _ in range(3):
            runner.retry("a").wait(20)

        assert (handle.status(), runner.find("a").dead_letters, runner.held) == ("failed", 1, [])
        with pytest.raises(RunFailed, match="ConnectionError: down"):
            handle.result(20)


def test_a_failed_run_is_retried_by_another_runner_too(store: LogStore) -> None:
    switch = Switch()
    flow = switched(switch)
    with Runner(store) as runner:
        runner.start(flow, 5, id="a").wait(20)
    switch.is_on.set()

    with Runner(store) as runner:
        runner.register(flow)
        assert runner.retry("a").result(20) == 10
        assert runner.status("a") == "completed"


def test_discarding_the_dead_letters_of_a_failed_run_lets_it_complete(runner: Runner) -> None:
    runner.start(keeping, 0, id="a").wait(20)

    run = runner.discard("a", by="me").wait(20)

    assert (run.status, run.skipped, runner.find("a").status) == ("completed", ["inverse"], "completed")


@pytest.mark.parametrize("which", [None, "inverse"])
def test_a_halted_failure_has_nothing_to_discard_which_is_said(runner: Runner, which: str | None) -> None:
    handle = runner.start(halting, 0, id="a")
    handle.wait(20)

    with pytest.raises(NoSuchLetter, match=r"the failure of 'inverse' halted it: retry\(\) runs it again") as refused:
        runner.discard("a", which)

    assert refused.value.halted == ("inverse",)
    assert (handle.status(), runner.held, runner.find("a").owner) == ("failed", [], None)


def test_a_run_that_has_completed_cannot_be_retried(runner: Runner) -> None:
    runner.start(keeping, 1, id="a").wait(20)

    with pytest.raises(RunClosed, match="has completed and accepts nothing more"):
        runner.retry("a")


def test_a_failed_run_that_is_not_written_yet_is_retried_where_it_is(runner: Runner) -> None:
    switch = Switch()
    handle = runner.start(switched(switch), 5, id="a", checkpoint="manual")
    handle.wait(20)
    switch.is_on.set()

    assert runner.retry("a").result(20) == 10
    runner.checkpoint("a")
    assert (handle.status(), runner.held) == ("completed", [])


def test_a_dead_letter_that_is_retried_takes_its_own_failure_back_and_no_other_one(runner: Runner) -> None:
    runner.start(keeping, id="a")
    handles = [runner.send("a", 0) for _ in range(2)]
    letters = runner.wait("a", 20).dead_letters

    runner.retry("a", letters[0], input=5).wait(20)

    assert handles[0].result(20) == 2.0
    with pytest.raises(RunFailed):
        handles[1].result(20)
    assert (runner.find("a").failures, runner.find("a").dead_letters) == (1, 1)


# -- starting what exists ------------------------------------------------------------------------


@pytest.mark.parametrize("is_done", [True, False], ids=["finished", "open"])
def test_the_same_start_is_the_same_run_whatever_the_options(runner: Runner, is_done: bool) -> None:
    runner.start(chain, {"a": 1}.get("a"), id="a", open=not is_done).wait(20)

    again = runner.start(chain, 1, id="a", open=not is_done, max_concurrency=3)

    assert again.result(20) == 3
    assert len([event for event in again.log() if isinstance(event, InputReceived)]) == 1


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (lambda runner: runner.start(chain, 2, id="a"), "exists already, with another input; choose another id"),
        (lambda runner: runner.start(positive, 1, id="a"), "as a run of 'chain', not of 'positive'"),
        (lambda runner: runner.start(chain, 1, id="a", open=True), "and finishes with its input"),
        (lambda runner: runner.start(chain, id="a"), "and was started with an input"),
        (
            lambda runner: runner.start(chain, 1, id="a", if_exists="error"),
            "choose another id, or say .* if_exists=$",
        ),
        (lambda runner: runner.start_many(chain, [3], ids=["a"]), "with another input"),
    ],
)
def test_another_start_with_a_known_id_is_refused_which_says_how_it_differs(
    runner: Runner, start: Callable[[Runner], object], said: str
) -> None:
    runner.start(chain, 1, id="a").wait(20)

    with pytest.raises(RunExists, match=said):
        start(runner)
    assert (runner.result("a", 20), runner.held) == (3, [])


def test_a_start_can_ask_for_whatever_run_has_the_id(runner: Runner) -> None:
    runner.start(chain, 1, id="a").wait(20)
    runner.start(chain, id="empty")

    assert runner.start(positive, 9, id="a", if_exists="return").result(20) == 3
    with pytest.raises(NothingProduced, match="it has had no input"):
        runner.start(chain, 9, id="empty", if_exists="return").result(20)
    assert runner.start(chain, 9, id="empty", if_exists="return").results() == {}


@pytest.mark.parametrize("checkpoint", ["every_cycle", "manual"])
@pytest.mark.parametrize("value", [1, 0], ids=["completed", "failed"])
def test_a_start_can_begin_again_what_has_finished(runner: Runner, value: int, checkpoint: str) -> None:
    old = runner.start(halting, value, id="a", checkpoint=checkpoint)
    old.wait(20)

    new = runner.start(halting, 5, id="a", if_exists="restart")

    assert (new.result(20), runner.result("a", 20), runner.find("a").failures) == (2.0, 2.0, 0)
    assert runner.start(halting, 2, id="b", if_exists="restart").result(20) == 5.0


def test_a_start_does_not_begin_again_what_has_not_finished(runner: Runner) -> None:
    runner.start(chain, 1, id="a", open=True).wait(20)

    with pytest.raises(RunExists, match=r"and has not finished; choose another id, or cancel\(.*\) it first$"):
        runner.start(chain, 1, id="a", if_exists="restart")
    assert runner.status("a") == "idle"


# -- who did it ----------------------------------------------------------------------------------


def test_every_change_says_who_made_it(store: LogStore) -> None:
    switch = Switch()
    with Runner(store) as runner:
        runner.start(switched(switch), id="a", by="ignored")
        runner.send("a", 1, by="ann").wait(20)
        runner.set_policies("a", [("fetch", Policy(on_failure="dead_letter"))], by="bob")
        runner.retry("a", by="cid").wait(20)
        runner.discard("a", by="dan").wait(20)
        runner.finish("a", by="eve")
        runner.start(chain, id="b").cancel(by="fay")
        runner.start(chain, 1, id="c", by="gus").wait(20)
        runner.start_many(chain, [1], ids=["d"], by="hal").gather(20)
        logs = [runner.log(run) for run in ("a", "b", "c", "d")]

    kinds = (InputReceived, PolicyChanged, RunnableRetried, RunnableSkipped, RunFinished, RunCancelled)
    found = [(type(event), event.by) for log in logs for event in log if isinstance(event, kinds)]
    assert found == [
        (InputReceived, "ann"),
        (PolicyChanged, "bob"),
        (RunnableRetried, "cid"),
        (RunnableSkipped, "dan"),
        (RunFinished, "eve"),
        (RunCancelled, "fay"),
        (InputReceived, "gus"),
        (InputReceived, "hal"),
    ]


# -- reading -------------------------------------------------------------------------------------


class Calls(WrappedStore):
    """Notes which calls a store gets; but its runner may look for messages at any time."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.seen: list[str] = []

    async def around(self, call: str, act: Callable[[], Any]) -> Any:
        """Note the *call*."""
        if call != "messages":
            self.seen.append(call)
        return await act()


def test_what_has_finished_is_read_from_its_record_and_needs_no_log(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="good").wait(20)
        runner.start(two_leaves, 0, id="bad").wait(20)
        runner.start(positive, 0, id="none").wait(20)
    calls = Calls(store)

    with Runner(calls) as runner:
        calls.seen.clear()
        assert (runner.result("good", 20), runner.results("good"), runner.status("good")) == (
            11,
            {"increment": 11},
            "completed",
        )
        with pytest.raises(RunFailed, match="'inverse' failed: ZeroDivisionError: division by zero") as failed:
            runner.result("bad", 20)
        with pytest.raises(NothingProduced, match="the condition 'is_positive' did not hold"):
            runner.result("none", 20)
        assert runner.gather(["good"]) == [11]

        assert set(calls.seen) == {"find"}
    assert failed.value.results == {"successor": 1}
    assert failed.value.failures["inverse"].attempts == 1


@dataclass(frozen=True)
class Point:
    """A class of an application."""

    x: int


@pytest.mark.parametrize("what", ["large", "class"])
def test_an_outcome_that_cannot_stand_in_the_record_is_read_from_the_log(store: LogStore, what: str) -> None:
    register(Point)
    made: Any = "x" * (LARGEST + 1) if what == "large" else Point(3)
    flow = Workflow("w", step(lambda _: made, name="make"))
    with Runner(store) as runner:
        runner.start(flow, 1, id="a").wait(20)
        outcome = runner.find("a").outcome
    assert bool(outcome) is (what == "class")

    with Runner(store) as runner:
        runner.register(flow)
        assert (runner.result("a", 20), runner.results("a"), runner.held) == (made, {"make": made}, [])


def test_reading_a_run_in_another_process_owns_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner, Runner(SQLiteStore(path)) as other:
        runner.start(chain, 5, id="done").wait(20)
        runner.start(chain, 6, id="open", open=True).wait(20)
        epochs = [runner.find(run).epoch for run in ("done", "open")]
        other.register(chain)

        for run, output, status in (("done", 11, "completed"), ("open", 13, "idle")):
            assert (other.result(run, 20), other.results(run)) == (output, {"increment": output})
            assert (other.wait(run, 20).status, other.get(run).status, other.status(run)) == (status,) * 3
            assert other.log(run) == runner.log(run)
            assert other.wait_until(run, lambda seen: bool(seen.values("increment")), 20).value("increment") == output

        assert other.resume("done").result(20) == 11
        assert other.held == []
        assert [runner.find(run).epoch for run in ("done", "open")] == epochs
        assert (runner.find("done").owner, runner.find("open").owner is None) == (None, False)
        assert runner.send("open", 7).result(20) == 15


def test_two_processes_that_start_the_same_run_both_get_its_result(tmp_path: Path) -> None:
    path, switch = tmp_path / "runs.db", threading.Event()
    flow = Workflow("slow", step(lambda x: switch.wait(20) and x * 2, name="fetch"))
    with Runner(SQLiteStore(path)) as runner, Runner(SQLiteStore(path)) as other:
        handle = runner.start(flow, 5, id="a")

        again = other.start(flow, 5, id="a")

        assert (runner.held, other.held) == (["a"], [])
        switch.set()
        assert (handle.result(20), again.result(20)) == (10, 10)


def test_a_failed_run_that_another_process_has_retried_is_read_as_it_is_now(tmp_path: Path) -> None:
    path, switch = tmp_path / "runs.db", Switch()
    flow = switched(switch)
    with Runner(SQLiteStore(path)) as runner, Runner(SQLiteStore(path)) as other:
        other.register(flow)
        handle = runner.start(flow, 5, id="a")
        assert handle.wait(20).status == "failed"
        switch.is_on.set()

        other.retry("a").wait(20)

        assert (handle.status(), handle.result(20), runner.result("a", 20)) == ("completed", 10, 10)


def test_a_predicate_that_does_not_hold_of_a_finished_run_never_will(runner: Runner) -> None:
    handle = runner.start(chain, 5)
    handle.wait(20)

    with pytest.raises(RunClosed, match="has completed"):
        runner.wait_until(handle, lambda _: False, 20)


@pytest.mark.parametrize("value", [1, 0], ids=["completed", "failed"])
def test_a_finished_run_needs_no_time_to_be_waited_for(runner: Runner, value: int) -> None:
    handle = runner.start(halting, value, id="a")
    handle.wait(20)

    assert runner.wait("a", 0).status == handle.wait(0).status
    if value:
        assert (handle.result(0), runner.gather([handle, "a"], 0)) == (10.0, [10.0, 10.0])


# -- what is finished leaves ---------------------------------------------------------------------


def test_thousands_of_finished_runs_leave_the_memory_of_their_runner() -> None:
    name = uuid.uuid4().hex  # other tests may have left something

    async def alive() -> set[int]:
        gc.collect()
        ids = [each.id for each in gc.get_objects() if type(each) is Worker]
        return {int(each.removeprefix(name)) for each in ids if each.startswith(name)}

    with Runner(executor="inline") as runner:
        for number in range(2 * RUNS):
            runner.start(chain, number, id=f"{name}{number}").result(20)
        last, found = set(range(RUNS, 2 * RUNS)), set[int]()
        for _ in range(100):  # the thread that ended the last one may be at work for it still
            found = runner._do(alive())
            if found == last:
                break

        assert found == last
        assert runner.held == []
        assert runner.count() == 2 * RUNS


def test_a_handle_keeps_its_run_after_it_has_left_the_memory_of_the_runner() -> None:
    store = Calls(MemoryStore())
    with Runner(store, executor="inline") as runner:
        handle = runner.start(chain, 5)
        runner.start_many(chain, range(RUNS + 1)).gather(60)
        store.seen.clear()

        assert (handle.result(20), handle.wait(20).values("double"), handle.results()) == (11, [10], {"increment": 11})
        assert store.seen == []


def test_a_run_that_has_left_is_not_owned(store: LogStore) -> None:
    with Runner(store) as runner:
        runner.start(chain, 5, id="a").wait(20)
        runner.start(halting, 0, id="b").wait(20)
        runner.start(chain, id="c").cancel()

        assert [runner.find(run).owner for run in "abc"] == [None] * 3


# -- in bad weather ------------------------------------------------------------------------------


@virtually
async def test_the_last_append_stores_the_outcome_and_releases_the_run() -> None:
    store = MemoryStore()
    async with runner_on(SlowStore(store)) as runner:
        handle = await runner.start(double, 5, id="a")
        before = await store.find("a")
        assert await handle.result() == 10
        after = await store.find("a")

    assert (before.status, before.outcome, before.owner is None) == ("running", b"", False)
    assert (after.status, after.owner) == ("completed", None)
    outcome = decode_outcome(after.outcome)
    assert outcome is not None
    assert (outcome.ordinal, outcome.output, outcome.results) == (1, 10, {"double": 10})


@pytest.mark.parametrize("call", ["stop", "discarding stop", "cancel", "send", "finish", "checkpoint", "wait", "close"])
@virtually
async def test_callers_of_a_run_that_is_just_leaving_are_told_and_lose_nothing(call: str) -> None:
    inner = MemoryStore()
    store = GatedStore(inner)
    async with inner:
        runner = await runner_on(store, lasts=1.0).open()
        handle = await runner.start(double, 5, id="a")
        gate = store.hold("append")
        await gate.reached.wait()  # its last events are being written
        calls: dict[str, Any] = {
            "stop": lambda: runner.stop("a"),
            "discarding stop": lambda: runner.stop("a", persist=False),
            "cancel": lambda: runner.cancel("a"),
            "send": lambda: runner.send("a", 6),
            "finish": lambda: runner.finish("a"),
            "checkpoint": lambda: runner.checkpoint("a"),
            "wait": lambda: runner.wait("a"),
            "close": runner.close,
        }
        asking = asyncio.ensure_future(calls[call]())
        waiting = asyncio.ensure_future(handle.result())
        await until_nothing_moves()
        gate.open()
        told, result = await asyncio.gather(asking, waiting, return_exceptions=True)
        await until_nothing_moves()  # a stop that discards does not wait for what is being written

        assert isinstance(told, RunClosed) is (call in ("cancel", "send"))
        assert isinstance(result, RunNotHeld) if call == "discarding stop" else result == 10
        record = await inner.find("a")
        assert (record.status, record.owner) == ("completed", None)
        await runner.close()
        async with runner_on(inner) as other:
            assert (await other.result("a"), await other.status("a")) == (10, "completed")


@virtually
async def test_a_retry_of_a_run_that_is_just_leaving_waits_until_it_has_left() -> None:
    inner, switch = MemoryStore(), Switch()
    store = GatedStore(inner)
    async with runner_on(store, lasts=1.0) as runner:
        await runner.start(switched(switch), 5, id="a")
        gate = store.hold("append", times=1)
        await gate.reached.wait()
        switch.is_on.set()
        retrying = asyncio.ensure_future(runner.retry("a"))
        await until_nothing_moves()
        gate.open()

        assert await (await retrying).result() == 10
        record = await inner.find("a")
    assert (record.status, record.owner, record.epoch) == ("completed", None, 2)


@virtually
async def test_a_caller_that_waits_for_a_run_whose_worker_was_rebuilt_gets_what_the_next_one_made() -> None:
    inner = MemoryStore()
    async with runner_on(SlowStore(inner), refuses=Refuses(1)) as runner:
        handle = await runner.start(double, 5, id="a")
        run = await handle.wait()

        assert (run.values("double"), run.status, await handle.result()) == ([10], "completed", 10)
        assert (runner.held, (await inner.find("a")).owner) == ([], None)


@virtually
async def test_a_run_that_is_stopped_before_its_end_is_written_is_finished_by_the_next_runner() -> None:
    inner = MemoryStore()
    async with runner_on(inner, lasts=5.0) as runner:
        handle = await runner.start(double, 5, id="a")
        await runner.stop("a", grace=0.0, persist=False)
        assert (await handle.status(), runner.held) == ("running", [])

    async with runner_on(inner) as runner:
        runner.register(double)
        [handle] = await runner.resume_all()
        assert (await handle.result(), await handle.status(), runner.held) == (10, "completed", [])


@pytest.mark.parametrize("value", [1, 0], ids=["completed", "failed"])
@pytest.mark.parametrize("way", ["stop", "close"])
@virtually
async def test_a_run_whose_last_step_ends_while_it_is_being_stopped_has_finished(way: str, value: int) -> None:
    async with MemoryStore() as inner:
        runner = await runner_on(inner, lasts=5.0).open()
        await runner.start(halting, value, id="a")
        await (runner.stop("a") if way == "stop" else runner.close())
        record = await inner.find("a")
        await runner.close()

    assert (record.status, record.owner) == ("completed" if value else "failed", None)
    assert ("ZeroDivisionError" in record.reason, record.failures) == (not value, 1 - value)
    assert decode_outcome(record.outcome) is not None


@virtually
async def test_on_complete_is_called_before_a_run_is_stored_as_finished() -> None:
    inner, seen = MemoryStore(), list[Any]()

    async def tell(run: str, told: Run) -> None:
        seen.append((told.status, (await inner.find(run)).status, now()))

    async with runner_on(SlowStore(inner)) as runner:
        handle = await runner.start(double, 5, id="a", on_complete=tell)
        await handle.wait()
        record = await inner.find("a")

    assert [(told, stored) for told, stored, _ in seen] == [("completed", "running")]
    assert (record.status, record.owner) == ("completed", None)
    async with runner_on(inner) as runner:
        runner.register(double)
        assert await runner.resume_all(on_complete=tell) == []
    assert len(seen) == 1


def test_the_record_counts_what_is_left_after_a_letter_was_discarded(runner: Runner) -> None:
    flow = Workflow("w", step(inverse)).add(step(lambda x: [][x], name="item"))
    flow = flow.with_policies([("item", Policy(on_failure="dead_letter"))])
    runner.start(flow, 0, id="done").wait(20)
    runner.start(flow, 0, id="open", open=True).wait(20)

    for run, status in (("done", "failed"), ("open", "idle")):
        runner.discard(run).wait(20)

        record = runner.find(run)
        assert (record.status, record.failures, record.dead_letters) == (status, 1, 0)
    with pytest.raises(RunFailed) as failed:
        runner.result("done", 20)
    assert list(failed.value.failures) == ["inverse"]


def test_an_input_that_was_sent_before_its_run_finished_can_be_sent_again(runner: Runner) -> None:
    runner.start(chain, id="a")
    first = runner.send("a", 5, key="k")
    first.result(20)
    runner.finish("a")
    runner.wait("a", 20)

    again = runner.send("a", 5, key="k")

    assert (again, again.result(20)) == (first, 11)
    with pytest.raises(RunClosed):
        runner.send("a", 5, key="another")


def test_an_input_that_is_refused_or_was_seen_changes_no_policies(runner: Runner) -> None:
    rules, no_text, no_number = [("double", Policy(max_retries=1))], cast("str", 5), cast("float", "soon")
    runner.start(chain, id="a")
    runner.send("a", 1, key="k", policies=rules).result(20)
    before = runner.log("a")

    with pytest.raises(InvalidOption, match="key=5"):
        runner.send("a", 2, key=no_text, policies=rules)
    with pytest.raises(InvalidArgument, match="deadline='soon'"):
        runner.send("a", 2, deadline=no_number, policies=rules)
    assert runner.send("a", 2, key="k", policies=rules).result(20) == 3
    assert runner.log("a") == before


def test_an_input_for_a_run_that_finishes_changes_no_policies(runner: Runner) -> None:
    gate = threading.Event()
    runner.start(Workflow("gated", step(lambda _: gate.wait(20), name="pass_gate")), 1, id="a")
    try:
        with pytest.raises(RunClosed):
            runner.send("a", 2, policies=[("pass_gate", Policy(max_retries=1))])
        assert [type(event) for event in runner.log("a")] == [WorkflowDefined, InputReceived]
    finally:
        gate.set()


def test_many_runs_can_be_started_open(runner: Runner) -> None:
    handles = runner.start_many(chain, [1, 2], ids=["a", "b"], open=True)

    assert handles.gather(20) == [3, 5]
    assert (runner.status("a"), runner.send("b", 5).result(20)) == ("idle", 11)


def test_the_caller_of_a_start_without_input_is_in_the_log_too(runner: Runner) -> None:
    runner.start(chain, id="a", by="ann", policies=[("double", Policy(max_retries=1))])

    defined, changed = runner.log("a")
    assert (defined.by, changed.by) == ("ann", "ann")  # type: ignore[union-attr]


def test_a_deadline_without_an_input_is_refused(runner: Runner) -> None:
    with pytest.raises(InvalidOption, match="it counts from an input"):
        runner.start(chain, id="a", deadline=5.0)


# -- handles that belong to no input ---------------------------------------------------------------


def test_a_handle_without_an_input_has_the_latest_results_and_no_result(runner: Runner) -> None:
    desk = runner.start(chain, id="desk")
    with pytest.raises(NoInput, match=r"use the handle that send\(\) returned, or runner.result\('desk'\)"):
        desk.result(20)
    first, second = runner.send("desk", 1), runner.send("desk", 2)
    assert (first.result(20), second.result(20)) == (3, 5)

    for handle in (desk, runner.resume("desk")):
        with pytest.raises(NothingProduced, match="belongs to no input"):
            handle.result(20)
        with pytest.raises(NoInput):
            runner.gather([handle])
        assert handle.results() == {"increment": 5}
    assert (runner.result("desk"), runner.gather(["desk"])) == (5, [5])


def test_a_handle_without_an_input_of_a_finished_run_with_several_has_no_result_either(runner: Runner) -> None:
    desk = runner.start(chain, id="desk")
    runner.send("desk", 1)
    runner.send("desk", 2)
    runner.finish("desk")
    assert desk.wait(20).status == "completed"

    with pytest.raises(NoInput):
        desk.result(20)
    with pytest.raises(NoInput):
        runner.resume("desk").result(20)
    assert runner.result("desk") == 5


def test_a_handle_of_a_run_that_finishes_with_its_only_input_has_its_result(runner: Runner) -> None:
    runner.start(chain, 1, id="a").wait(20)

    assert runner.resume("a").result(20) == 3
    assert runner.gather([runner.resume("a")]) == [3]


# -- runs that were deleted ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["delete", "purge"])
def test_a_handle_that_is_kept_says_that_its_run_was_deleted(runner: Runner, how: str) -> None:
    handle, other = runner.start(chain, 1, id="a"), runner.start(chain, 2, id="b")
    assert (handle.result(20), other.result(20)) == (3, 5)
    later = time.time() + 10

    if how == "delete":
        runner.delete("a")
    else:
        runner.purge(before=later)

    asked: list[Callable[[], object]] = [handle.status, handle.result, handle.results, handle.log, handle.wait]
    for ask in (*asked, lambda: runner.status("a"), lambda: runner.get(handle), lambda: runner.gather([handle])):
        with pytest.raises(RunNotFound):
            ask()
    if how == "delete":
        assert (other.status(), other.result(20), runner.status("b")) == ("completed", 5, "completed")


def test_runs_that_are_kept_are_not_asked_for_again_and_again_after_another_one_was_deleted() -> None:
    class Counting(WrappedStore):
        finds = 0

        async def find(self, run: str) -> RunRecord:
            self.finds += 1
            return await super().find(run)

    store = Counting(MemoryStore())
    with Runner(store) as runner:
        kept, deleted = runner.start(chain, 1, id="a"), runner.start(chain, 2, id="b")
        assert (kept.result(20), deleted.result(20)) == (3, 5)
        assert store.finds == 0
        runner.delete("b")

        for _ in range(5):
            assert (kept.result(20), kept.status()) == (3, "completed")

        assert store.finds == 1


def test_a_failure_of_an_input_does_not_say_that_its_open_run_has_failed(runner: Runner) -> None:
    runner.start(halting, id="a")

    with pytest.raises(RunFailed, match=r"^run 'a': '\w+' failed: ZeroDivisionError"):
        runner.send("a", 0).result(20)
    assert runner.status("a") == "idle"
