"""The waterfall of a run, computed from logs whose times are written down."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from weft import Policy, Run, Workflow, each, reduce, sleep, step, wait_for
from weft import events as ev
from weft.testing import TestRunner
from weft.views import Bar, waterfall

T = 1_000_000.0
CHAIN = Workflow("chain", step(lambda x: x + 1, name="a") >> step(lambda x: x * 2, name="b"))
BOOM = ev.ErrorDetail("ConnectionError", ("OSError",), "no line")


def run_of(workflow: Workflow, *events: Any) -> Run:
    """Return the run of *workflow* with an input at T and then *events*."""
    started = workflow.plan(1)
    defined = started.log()[0]
    return Run.from_log([defined, ev.InputReceived(2, 1, 1, at=T, last=True), *events])


def seconds(bar: Bar) -> tuple[str, float, float]:
    return bar.reason, round(bar.start - T, 3), round(bar.end - T, 3)


def test_a_step_that_starts_at_once_is_one_bar() -> None:
    run = run_of(CHAIN, ev.ReactionOccurred(3, "a", (2,), 2, duration_ns=2 * 10**9, timing=ev.Timing(T + 2)))

    row = waterfall(run).rows[0]

    assert [seconds(bar) for bar in row.bars] == [("running", 0, 2)]
    assert row.seconds == {"running": 2.0}


def test_the_time_between_a_fact_and_the_start_of_what_takes_it_is_spent_in_a_queue() -> None:
    run = run_of(
        CHAIN,
        ev.ReactionOccurred(3, "a", (2,), 2, duration_ns=10**9, timing=ev.Timing(T + 1)),
        ev.ReactionOccurred(4, "b", (3,), 4, duration_ns=10**9, timing=ev.Timing(T + 5)),
    )

    row = waterfall(run).rows[1]

    assert [seconds(bar) for bar in row.bars] == [("queued", 1, 4), ("running", 4, 5)]


def test_an_event_without_a_time_happened_at_that_of_the_last_one_with_a_time() -> None:
    run = run_of(CHAIN, ev.ReactionOccurred(3, "a", (2,), 2, duration_ns=1_000), ev.ReactionOccurred(4, "b", (3,), 4))

    found = waterfall(run)

    assert (found.start, found.end) == (T, T)
    assert [[bar.reason for bar in row.bars] for row in found.rows] == [["running"], ["running"]]


def test_what_a_policy_made_it_wait_for_comes_before_it_ran() -> None:
    timing = ev.Timing(T + 10, delayed=2.0, limited=3.0)
    run = run_of(CHAIN, ev.ReactionOccurred(3, "a", (2,), 2, duration_ns=4 * 10**9, timing=timing))

    row = waterfall(run).rows[0]

    assert [seconds(bar) for bar in row.bars] == [
        ("delayed", 0, 2),
        ("limited", 2, 5),
        ("queued", 5, 6),
        ("running", 6, 10),
    ]


def test_attempts_that_failed_are_bars_with_the_backoff_between_them() -> None:
    run = run_of(
        CHAIN,
        ev.AttemptFailed(3, "a", (2,), BOOM, 1, retry_at=T + 2, since=T, at=T + 1, duration_ns=10**9),
        ev.AttemptFailed(4, "a", (2,), BOOM, 2, retry_at=T + 5, since=T, at=T + 3, duration_ns=10**9),
        ev.RunnableFailed(5, "a", (2,), BOOM, 3, duration_ns=10**9, timing=ev.Timing(T + 6, backing_off=3.0)),
    )

    row = waterfall(run).rows[0]

    assert [seconds(bar) for bar in row.bars] == [
        ("running", 0, 1),
        ("backing_off", 1, 2),
        ("running", 2, 3),
        ("backing_off", 3, 5),
        ("running", 5, 6),
    ]
    assert [(bar.state, bar.is_last, bar.attempt) for bar in row.bars if bar.reason == "running"] == [
        ("failed", False, 1),
        ("failed", False, 2),
        ("failed", True, 3),
    ]
    assert row.seconds == {"running": 3.0, "backing_off": 3.0}


def test_what_was_not_reached_says_what_it_needs() -> None:
    run = run_of(CHAIN, ev.RunnableFailed(3, "a", (2,), BOOM))

    row = waterfall(run).rows[1]

    assert (row.component, row.state, row.bars, row.needs) == ("b", "unreached", (), ("a",))


def test_a_map_of_many_elements_is_one_bar() -> None:
    wide = Workflow("wide", each(step(lambda x: x, name="one"), name="all") >> reduce(lambda a, x: a + x, init=0))
    count = 1_000
    elements = [
        ev.ReactionOccurred(4 + i, "one", ((3, i),), i, duration_ns=10**9, timing=ev.Timing(T + 1 + i / count))
        for i in range(count)
    ]
    run = run_of(wide, ev.FannedOut(3, "all", (2,), list(range(count))), *elements)

    row = next(row for row in waterfall(run).rows if row.component == "one")

    assert [(bar.reason, bar.many) for bar in row.bars] == [("running", count)]
    assert row.activations == count
    assert row.seconds["running"] == pytest.approx(count)


def test_what_is_in_flight_reaches_to_the_present() -> None:
    run = run_of(CHAIN, ev.ReactionOccurred(3, "a", (2,), 2, timing=ev.Timing(T + 1)))

    found = waterfall(run, now=T + 9)

    assert found.end == T + 9
    assert [seconds(bar) for bar in found.rows[1].bars] == [("queued", 1, 9)]


def test_sleeps_and_waits_are_their_own_reasons() -> None:
    nap = Workflow("nap", step(lambda x: x, name="a") >> sleep(seconds=60, name="nap") >> wait_for("go"))
    with TestRunner() as runner:
        handle = runner.start(nap, 1)
        runner.advance(seconds=90)
        found = waterfall(runner.get(handle.id), now=runner.now)

    assert {row.component: [bar.reason for bar in row.bars] for row in found.rows} == {
        "a": ["running"],
        "nap": ["sleeping"],
        "go": ["waiting"],
    }
    assert found.seconds["sleeping"] == pytest.approx(60)
    assert found.seconds["waiting"] == pytest.approx(30)


def test_a_retry_that_has_not_come_yet_backs_off_until_it_does() -> None:
    def fails(x: int) -> int:
        raise ConnectionError(x)

    workflow = Workflow("w", step(fails)).add_policy("fails", Policy(max_retries=1, backoff="linear", base_delay=100.0))
    with TestRunner() as runner:
        handle = runner.start(workflow, 1)
        runner.advance(seconds=40)
        row = waterfall(runner.get(handle.id), now=runner.now).rows[0]

    assert [bar.reason for bar in row.bars] == ["running", "backing_off"]
    assert row.seconds["backing_off"] == pytest.approx(40)


ASK = Workflow("ask", step(lambda x: None, name="ask") >> step(str, name="told"))
OUTSIDE = [
    ev.RunnableDispatched(3, "ask", (2,), 1),
    ev.TokenIssued(4, "ask", (2,), "s3cret", T + 1),
    ev.CompletionAwaited(5, "ask", (2,), 1, T + 3, T + 63, T, 2 * 10**9),
]


def test_an_external_step_runs_and_then_waits_for_its_completion() -> None:
    run = run_of(ASK, *OUTSIDE, ev.CompletionReceived(6, "ask", (2,), "yes", at=T + 10))

    row = waterfall(run).rows[0]

    assert [seconds(bar) for bar in row.bars] == [("queued", 0, 1), ("running", 1, 3), ("waiting", 3, 10)]
    assert (row.state, [bar.state for bar in row.bars[1:]]) == ("done", ["done", "done"])
    assert row.seconds == {"queued": 1.0, "running": 2.0, "waiting": 7.0}


def test_a_step_that_is_open_waits_until_now() -> None:
    row = waterfall(run_of(ASK, *OUTSIDE), now=T + 20).rows[0]

    assert [seconds(bar) for bar in row.bars][1:] == [("running", 1, 3), ("waiting", 3, 20)]
    assert (row.state, row.bars[-1].state) == ("waiting", "waiting")


def test_a_step_that_was_completed_before_its_function_returned_has_run_until_then() -> None:
    run = run_of(ASK, *OUTSIDE[:2], ev.CompletionReceived(5, "ask", (2,), "yes", at=T + 2))

    row = waterfall(run).rows[0]

    assert (row.state, row.bars[-1].reason, row.bars[-1].end - T) == ("done", "running", 2)


def test_an_attempt_that_has_failed_outside_is_followed_by_the_next_one() -> None:
    run = run_of(
        ASK,
        *OUTSIDE,
        ev.FailureReceived(6, "ask", (2,), BOOM, 1, T + 5),
        ev.AttemptFailed(7, "ask", (2,), BOOM, 1, T + 8, T, T + 5),
        ev.RunnableDispatched(8, "ask", (2,), 2),
        ev.TokenIssued(9, "ask", (2,), "other", T + 8),
        ev.CompletionAwaited(10, "ask", (2,), 2, T + 9, None, T, 10**9),
        ev.CompletionReceived(11, "ask", (2,), "yes", 2, at=T + 12),
    )

    bars = waterfall(run).rows[0].bars
    long = [(*seconds(bar), bar.state) for bar in bars if bar.end - bar.start > 0.5]

    assert long == [
        ("queued", 0, 1, "done"),
        ("running", 1, 3, "done"),
        ("waiting", 3, 5, "failed"),
        ("backing_off", 5, 8, "done"),
        ("running", 8, 9, "done"),
        ("waiting", 9, 12, "done"),
    ]


def test_a_step_that_was_cancelled_while_it_was_open_has_failed() -> None:
    error = ev.ErrorDetail("weft.errors.StepCancelled", ("Exception",), "'ask' was cancelled by ann: no")
    run = run_of(
        ASK,
        *OUTSIDE,
        ev.RunnableCancelled(6, "ask", (2,), "no", 1, T + 7, "ann"),
        ev.RunnableFailed(7, "ask", (2,), error, 1, timing=ev.Timing(T + 7)),
    )

    row = waterfall(run).rows[0]

    assert (row.state, row.bars[-1].state) == ("failed", "failed")
    assert ("waiting", 3, 7) in [seconds(bar) for bar in row.bars]


def failing_once(*events: Any) -> Run:
    """Return the run of CHAIN whose first step failed after a second, was retried, and then had *events*."""
    failed = ev.RunnableFailed(3, "a", (2,), BOOM, duration_ns=10**9, timing=ev.Timing(T + 1))
    return run_of(CHAIN, failed, ev.RunRetried(4, (3,)), ev.RunnableRetried(5, "a", (2,)), *events)


def test_the_time_between_a_failure_and_its_retry_is_its_own_reason_and_counts_once() -> None:
    run = failing_once(
        ev.ReactionOccurred(6, "a", (2,), 2, duration_ns=10**9, timing=ev.Timing(T + 502, limited=1.0)),
        ev.ReactionOccurred(7, "b", (6,), 4, duration_ns=10**9, timing=ev.Timing(T + 503)),
    )

    found = waterfall(run)

    assert [seconds(bar) for bar in found.rows[0].bars] == [
        ("running", 0, 1),
        ("stopped", 1, 500),
        ("limited", 500, 501),
        ("running", 501, 502),
    ]
    assert [seconds(bar) for bar in found.rows[1].bars] == [("running", 502, 503)]
    assert found.rows[0].passed == pytest.approx(502)
    assert found.passed == pytest.approx({"running": 3.0, "limited": 1.0, "stopped": 499.0})


def test_a_dispatch_does_not_say_when_a_retry_came() -> None:
    run = failing_once(
        ev.RunnableDispatched(6, "a", (2,), 1),
        ev.ReactionOccurred(7, "a", (2,), 2, duration_ns=10**9, timing=ev.Timing(T + 502)),
    )

    assert [seconds(bar) for bar in waterfall(run).rows[0].bars][1:] == [("stopped", 1, 501), ("running", 501, 502)]


def test_an_attempt_that_fails_again_after_a_retry_has_been_stopped_only_before_the_first() -> None:
    run = failing_once(
        ev.AttemptFailed(6, "a", (2,), BOOM, 1, retry_at=T + 505, at=T + 502, duration_ns=10**9),
        ev.ReactionOccurred(7, "a", (2,), 2, attempt=2, duration_ns=10**9, timing=ev.Timing(T + 506)),
    )

    assert [seconds(bar) for bar in waterfall(run).rows[0].bars] == [
        ("running", 0, 1),
        ("stopped", 1, 501),
        ("running", 501, 502),
        ("backing_off", 502, 505),
        ("running", 505, 506),
    ]


def test_what_was_retried_and_has_not_said_anything_since_is_stopped_until_now() -> None:
    row = waterfall(failing_once(), now=T + 9).rows[0]

    assert [seconds(bar) for bar in row.bars] == [("running", 0, 1), ("stopped", 1, 9)]


def test_what_a_fork_has_still_to_do_was_stopped_before_the_fork() -> None:
    events = [
        ev.ReactionOccurred(3, "a", (2,), 2, duration_ns=10**9, timing=ev.Timing(T + 1)),
        ev.ReactionOccurred(4, "b", (3,), 4, duration_ns=10**9, timing=ev.Timing(T + 2)),
        ev.RunForked(5, "r", 4, (3,), (7,), ((4, 4),)),
        ev.ReactionOccurred(6, "b", (3,), 14, duration_ns=10**9, timing=ev.Timing(T + 903)),
    ]

    found = waterfall(run_of(CHAIN, *events))

    assert [seconds(bar) for bar in found.rows[1].bars] == [
        ("running", 1, 2),
        ("stopped", 2, 902),
        ("running", 902, 903),
    ]
    assert found.passed == pytest.approx({"running": 3.0, "stopped": 900.0})


def test_a_run_was_stopped_until_it_was_taken_over_from_a_process_that_had_died() -> None:
    run = run_of(
        CHAIN,
        ev.ReactionOccurred(3, "a", (2,), 2, duration_ns=10**9, timing=ev.Timing(T + 1)),
        ev.RunTakenOver(4, 1, 2, "b", T + 301),
        ev.ReactionOccurred(5, "b", (3,), 4, duration_ns=10**9, timing=ev.Timing(T + 304)),
    )

    assert [seconds(bar) for bar in waterfall(run).rows[1].bars] == [
        ("stopped", 1, 301),
        ("queued", 301, 303),
        ("running", 303, 304),
    ]


def test_elements_that_waited_at_once_count_once() -> None:
    workflow = Workflow("m", step(lambda x: [x] * 3, name="a") >> each(step(abs, name="b")))
    done = [
        ev.ReactionOccurred(5 + k, "b", ((4, k),), 1, duration_ns=10**9, timing=ev.Timing(T + 3 + k)) for k in range(3)
    ]
    run = run_of(
        workflow,
        ev.ReactionOccurred(3, "a", (2,), [1, 1, 1], duration_ns=10**9, timing=ev.Timing(T + 1)),
        ev.FannedOut(4, "map_1", (3,), [1, 1, 1]),
        *done,
    )

    found = waterfall(run)
    row = next(row for row in found.rows if row.component == "b")

    assert row.seconds["queued"] == pytest.approx(1 + 2 + 3)
    assert row.passed == pytest.approx(4)
    assert found.passed["queued"] == pytest.approx(1)
    assert sum(found.passed.values()) == pytest.approx(found.end - found.start)


@st.composite
def histories(draw: st.DrawFn) -> Run:
    """Return a run of CHAIN whose first step fails and is retried, backs off, waits and is taken over at any times."""
    events: list[Any] = []
    now = T

    def passed() -> int:
        """Let whole seconds pass, of which a shorter bar than the log can know is never one; return some of them."""
        nonlocal now
        length = draw(st.integers(0, 50))
        now += draw(st.integers(0, 50)) + length
        return length

    for _ in range(draw(st.integers(0, 4))):
        for attempt in range(1, draw(st.integers(1, 3))):
            spent = passed() * 10**9
            retry_at = now + draw(st.integers(0, 50))
            events.append(ev.AttemptFailed(0, "a", (2,), BOOM, attempt, retry_at, at=now, duration_ns=spent))
            if draw(st.booleans()):
                passed()
                events.append(ev.RunTakenOver(0, 1, 2, "a", now))
        spent = passed() * 10**9
        waits = ev.Timing(now, *(float(draw(st.integers(0, 50))) for _ in range(3)))
        events.append(ev.RunnableFailed(0, "a", (2,), BOOM, duration_ns=spent, timing=waits))
        events += [ev.RunRetried(0, (len(events) + 2,)), ev.RunnableRetried(0, "a", (2,))]
    if draw(st.booleans()):
        spent = passed() * 10**9
        events.append(ev.ReactionOccurred(0, "a", (2,), 2, duration_ns=spent, timing=ev.Timing(now)))
    return run_of(CHAIN, *(replace(event, seq=seq) for seq, event in enumerate(events, start=3)))


@given(histories(), st.integers(0, 100))
def test_the_bars_of_a_row_fill_its_span_without_gaps_or_overlaps(run: Run, later: int) -> None:
    found = waterfall(run, now=T + later)
    row = found.rows[0]

    assert row.bars[0].start == found.start
    assert all(bar.end >= bar.start for bar in row.bars)
    assert all(left.end == right.start for left, right in itertools.pairwise(row.bars))
    assert row.bars[-1].end == pytest.approx(max(bar.end for bar in row.bars))
    assert row.passed == pytest.approx(sum(bar.end - bar.start for bar in row.bars))
    assert all(0 < spent <= found.end - found.start for spent in _bars_by_reason(row.bars).values())


def _bars_by_reason(bars: tuple[Bar, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    for bar in bars:
        if bar.end > bar.start:
            found[bar.reason] = found.get(bar.reason, 0.0) + bar.end - bar.start
    return found
