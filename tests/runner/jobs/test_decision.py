"""The effect of a page on a job, and the changes of a job: pure decisions."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.ports.store import FINISHED, RunRecord, RunStatus
from weft.runner.jobs.decision import (
    ENDED,
    Job,
    Operation,
    OperationKind,
    Place,
    RunFilter,
    cancelled,
    paused,
    rate,
    reason_of,
    resumed,
    skip_reason,
    take_page,
    taken,
    without_deleted,
)

STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
KINDS: tuple[OperationKind, ...] = get_args(OperationKind)


def job(kind: OperationKind = "cancel") -> Job:
    return Job(operation=Operation(kind=kind), filter=RunFilter(), newest=Place(9.0, "z"), matched=3)


def run(id: str, status: RunStatus = "running", failures: int = 0) -> RunRecord:
    return RunRecord(id=id, workflow="w", status=status, failures=failures, created_at=1.0, updated_at=1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", STATUSES)
def test_a_finished_run_is_skipped_unless_it_has_failed_and_is_retried(kind: OperationKind, status: RunStatus) -> None:
    reason = skip_reason(kind, status, has_failures=True)

    is_for_it = status not in FINISHED or (kind == "retry" and status == "failed")
    assert (reason is None) == is_for_it


def test_a_retry_skips_a_run_in_which_nothing_has_failed() -> None:
    assert reason_of("retry", run("a", "idle")) == "nothing has failed"
    assert reason_of("retry", run("a", "idle", failures=1)) is None
    assert reason_of("retry", run("a", "failed")) is None


def test_a_page_counts_each_of_its_runs_once_and_moves_the_position_to_its_last() -> None:
    page = take_page(job(), [run("c"), run("b", "completed"), run("a", "cancelled")], 5.0)

    assert [each.id for each in page.runs] == ["c"]
    assert (page.job.sent, page.job.skipped) == (1, {"has completed": 1, "was cancelled": 1})
    assert page.job.position == Place(1.0, "a")
    assert (page.job.state, page.job.updated_at) == ("running", 5.0)


def test_an_empty_page_completes_the_job() -> None:
    done = take_page(job(), [], 5.0).job

    assert (done.state, done.finished_at) == ("completed", 5.0)


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(STATUSES), st.integers(0, 1)), min_size=1, max_size=5), max_size=5),
    st.sampled_from(KINDS),
)
def test_what_was_visited_was_sent_or_skipped(pages: list[list[tuple[RunStatus, int]]], kind: OperationKind) -> None:
    state, sent = job(kind), 0
    for number, page in enumerate(pages):
        found = [run(f"{number} {place}", *each) for place, each in enumerate(page)]
        state, chosen = take_page(state, found, float(number))
        sent += len(chosen)
        state = without_deleted(state, len(chosen) // 2)
        sent -= len(chosen) // 2

    assert state.sent == sent
    assert state.visited == sum(len(page) for page in pages)


def test_a_job_is_paused_resumed_and_cancelled_and_one_that_has_ended_stays_so() -> None:
    assert paused(job()).state == "paused"
    assert resumed(paused(job())).state == "running"
    assert resumed(job()) == job()
    assert cancelled(paused(job()), 7.0).finished_at == 7.0
    for ended in (cancelled(job(), 7.0), take_page(job(), [], 8.0).job):
        assert ended.state in ENDED
        assert paused(ended) == resumed(ended) == cancelled(ended, 9.0) == ended


def test_the_rate_is_that_since_the_job_was_last_begun() -> None:
    begun = taken(job(), "worker", 10.0)
    assert rate(begun) is None

    after = take_page(begun, [run("b"), run("a")], 12.0).job
    assert rate(after) == 1.0

    again = taken(resumed(paused(after)), "worker", 100.0)
    assert rate(again) is None
    assert rate(take_page(again, [run("0")], 101.0).job) == 1.0
