"""Retrying and discarding failures, in runs that go on and in runs that have failed."""

from __future__ import annotations

import pytest
from failing_flows import Switch, halting, keeping, switched

from weft import Policy, Run, Runner, Workflow, context, step
from weft.errors import (
    MissingContext,
    NoSuchLetter,
    RunClosed,
    RunFailed,
)
from weft.ports.store import LogStore

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
