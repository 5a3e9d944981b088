"""Retries, forks and upgrades of runs with external steps, and with steps that were cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from weft import INPUT, Policy, Run, Workflow, current, diff, events, join, step, wait_for
from weft.core.run.external import parse_token, token_text
from weft.core.run.waits import begin_waits, fire_timer, next_due, timers
from weft.errors import ExternalFailure, InvalidArgument, StepCancelled, TokenExpired

EXTERNAL = Policy(execution_mode="external")


class Desk:
    """Hands out tokens, and says whether it may; the step ``price`` is before it and ``wrap`` behind."""

    def __init__(self, policy: Policy = EXTERNAL) -> None:
        self.tokens: list[str] = []
        self.price = step(lambda x: x * 10, name="price")
        self.asked = step(self.ask, name="ask")
        self.wrap = step(lambda value: [value], name="wrap")
        self.policies = [("ask", policy)]
        self.workflow = Workflow("desk", self.price >> self.asked >> self.wrap, policies=self.policies)

    def ask(self, _: Any) -> None:
        self.tokens.append(current().token)

    def completed(self) -> Run:
        run = self.workflow.run(5)
        run.complete(self.tokens[-1], "yes")
        return run.react_until_satisfied()


def same(run: Run) -> Run:
    """Return *run*, which is the fold of its log."""
    twin = Run.from_log(run.log())
    assert twin == run
    assert (twin.status, twin.waiting_for, twin.results()) == (run.status, run.waiting_for, run.results())
    assert twin.tokens == run.tokens
    assert timers(twin.memory) == timers(run.memory)
    return run


def cancel(run: Run, name: str, reason: str = "wrong desk", by: str | None = "ann") -> None:
    """Record that a step was cancelled, as a runner does before its policy is asked."""
    keys = [*run.memory.ready, *(run.memory.waiting or ())]
    key = next(key for key in keys if key[0] == name)
    run.record([events.RunnableCancelled(len(run.log()) + 1, *key, reason, 1, 1.0, by)])


def standing(run: Run) -> list[str]:
    return [type(event).__name__ for event in run.memory.lineage.standing()]


# -- forks ---------------------------------------------------------------------------------------


def test_an_open_step_asks_again_in_a_fork_with_a_token_of_its_own() -> None:
    desk = Desk()
    run = desk.workflow.run(5)

    fork = same(run.fork())
    assert (fork.status, fork.waiting_for, fork.tokens) == ("running", [], {})
    assert standing(fork)[-1] == "RunForked"
    assert not {"TokenIssued", "CompletionAwaited"} & set(standing(fork))
    fork.react_until_satisfied()

    first, second = desk.tokens
    assert parse_token(second)[0] == fork.id
    assert (same(fork).tokens, run.tokens) == ({second: "ask"}, {first: "ask"})
    fork.complete(second, "no")
    run.complete(first, "yes")
    assert fork.react_until_satisfied().value("wrap") == ["no"]
    assert run.react_until_satisfied().value("wrap") == ["yes"]


def test_a_token_of_the_original_is_void_in_a_fork() -> None:
    desk = Desk()
    fork = desk.workflow.run(5).fork()
    copied = token_text(fork.id, parse_token(desk.tokens[0])[1])

    with pytest.raises(TokenExpired, match="the run was retried, forked or upgraded since, and 'ask' has another"):
        fork.complete(copied, "yes")


def test_a_fork_downstream_of_an_external_step_keeps_what_it_was_completed_with() -> None:
    desk = Desk()
    fork = same(desk.completed().fork(at="wrap")).react_until_satisfied()

    assert (fork.value("ask"), fork.value("wrap"), len(desk.tokens)) == ("yes", ["yes"], 1)


def test_a_fork_upstream_of_an_external_step_asks_again() -> None:
    desk = Desk()
    fork = desk.completed().fork(at="price", value=7).react_until_satisfied()

    assert same(fork).waiting_for == ["ask"]
    assert len(desk.tokens) == 2, "the answer was given for another price"


def test_an_external_step_has_another_answer_in_a_fork_or_asks_again() -> None:
    desk = Desk()
    run = desk.completed()
    received = next(event.seq for event in run.log() if isinstance(event, events.CompletionReceived))

    assert same(run.fork(at="ask", value="no").react_until_satisfied()).value("wrap") == ["no"]
    assert same(run.fork(at=received, value="no").react_until_satisfied()).value("wrap") == ["no"]
    assert same(run.fork(at=run.facts("ask")[0], value="no").react_until_satisfied()).value("wrap") == ["no"]
    assert run.fork(at="ask").react_until_satisfied().waiting_for == ["ask"]
    assert run.value("wrap") == ["yes"]


@pytest.mark.parametrize("kind", [events.TokenIssued, events.CompletionAwaited])
def test_a_fork_as_the_run_was_while_it_waited_asks_again(kind: type[events.AnyEvent]) -> None:
    desk = Desk()
    run = desk.completed()
    seq = next(event.seq for event in run.log() if isinstance(event, kind))

    fork = same(run.fork(at=seq)).react_until_satisfied()

    assert same(fork).waiting_for == ["ask"]
    assert len(desk.tokens) == 2


def test_a_fork_at_the_completion_of_a_step_goes_on_behind_it() -> None:
    run = Desk().completed()
    seq = next(event.seq for event in run.log() if isinstance(event, events.CompletionReceived))

    assert same(run.fork(at=seq)).react_until_satisfied().value("wrap") == ["yes"]


def test_an_attempt_that_has_failed_outside_and_is_not_judged_begins_again_in_a_fork() -> None:
    desk = Desk(EXTERNAL)
    run = desk.workflow.run(5)
    run.fail(desk.tokens[0], "no time")
    seq = next(event.seq for event in run.log() if isinstance(event, events.FailureReceived))

    fork = same(run.fork(at=seq)).react_until_satisfied()

    assert fork.waiting_for == ["ask"]
    assert not fork.failures
    with pytest.raises(InvalidArgument, match="FailureReceived is not the outcome of a component"):
        run.fork(at=seq, value="yes")


def test_a_step_that_failed_outside_has_an_edited_answer_in_a_fork() -> None:
    desk = Desk()
    run = desk.workflow.run(5)
    run.fail(desk.tokens[0], "no time").react_until_satisfied()
    assert run.failed

    fork = same(run.fork(at="ask", value="after all").react_until_satisfied())

    assert (fork.value("wrap"), fork.failed) == (["after all"], False)


def test_what_was_cancelled_and_is_not_judged_runs_in_a_fork() -> None:
    desk = Desk()
    run = desk.workflow.run(5)
    cancel(run, "ask")

    fork = same(run.fork()).react_until_satisfied()

    assert fork.waiting_for == ["ask"]
    assert "StepCancelled" in str(run.react_until_satisfied().failures["ask"])


def test_a_cancelled_step_stays_so_in_a_fork_until_it_runs_again() -> None:
    desk = Desk()
    run = desk.workflow.run(5)
    cancel(run, "ask")
    run.react_until_satisfied()

    assert same(run.fork()).failed
    assert same(run.fork(at="ask")).react_until_satisfied().waiting_for == ["ask"]
    assert same(run.fork(at="ask", value=1)).react_until_satisfied().value("wrap") == [1]


def test_the_preview_of_a_fork_says_that_an_open_step_runs() -> None:
    run = Desk().workflow.run(5)

    preview = run.fork(preview=True)

    assert (preview.runs, preview.waits, preview.stands) == ({"ask": 1}, {}, {"price": 1})


def test_a_fork_of_a_fork_asks_again() -> None:
    desk = Desk()
    fork = desk.workflow.run(5).fork().react_until_satisfied()

    again = same(fork.fork()).react_until_satisfied()

    assert len(desk.tokens) == 3
    assert again.complete(desk.tokens[2], 3).react_until_satisfied().value("wrap") == [3]


def test_runs_that_were_completed_differently_differ() -> None:
    one, other = Desk().completed(), Desk().completed().fork(at="ask", value="no").react_until_satisfied()

    assert [each.component for each in diff(one, other).differences] == ["ask", "wrap"]


# -- retries -------------------------------------------------------------------------------------


def test_a_step_that_failed_outside_is_retried_with_another_token() -> None:
    desk = Desk()
    run = desk.workflow.run(5)
    run.fail(desk.tokens[0], ExternalFailure("no time")).react_until_satisfied()
    assert run.failed

    same(run.retry()).react_until_satisfied()

    assert same(run).waiting_for == ["ask"]
    assert len(set(desk.tokens)) == 2
    with pytest.raises(TokenExpired, match="this attempt of 'ask' has failed"):
        run.complete(desk.tokens[0], "late")
    assert run.complete(desk.tokens[1], "yes").react_until_satisfied().value("wrap") == ["yes"]
    assert not same(run).failed


def test_a_step_that_timed_out_is_retried_with_its_whole_time() -> None:
    desk = Desk(Policy(execution_mode="external", timeout=60))
    run = desk.workflow.run(5)
    due = next_due(run.memory)
    assert due is not None
    assert fire_timer(run, timers(run.memory)[0][0], due)
    run.react_until_satisfied()
    assert run.failed

    run.retry().react_until_satisfied()

    again = next_due(same(run).memory)
    assert again is not None
    assert again >= due


def test_a_cancelled_step_is_retried_like_any_that_failed() -> None:
    desk = Desk()
    run = desk.workflow.run(5)
    cancel(run, "ask")
    run.react_until_satisfied()
    assert str(run.failures["ask"]) == "'ask' failed: StepCancelled: 'ask' was cancelled by ann: wrong desk"

    same(run.retry("ask")).react_until_satisfied()

    assert run.complete(desk.tokens[1], "yes").react_until_satisfied().value("wrap") == ["yes"]
    assert not same(run).failed


def test_a_cancelled_wait_waits_again_when_it_is_retried() -> None:
    run = Workflow("w", wait_for("go", timeout=60, name="go")).plan(1)
    begin_waits(run, 0.0)
    waiting = next(iter((run.memory.waiting or {}).values()))
    run.record_failure(waiting.activation, StepCancelled("go"), 1, 0)
    assert run.failed

    run.retry()
    begin_waits(run, 100.0)

    assert (same(run).waiting_for, next_due(run.memory)) == (["go"], 160.0)


def failing_beside(desk: Desk, bad: set[int]) -> Workflow:
    """Return a workflow with a step that fails on *bad*, and an external one for which that does not matter."""

    def picky(x: int) -> int:
        if x in bad:
            raise ValueError(f"no {x}")
        return x

    return Workflow("desk", [step(picky, name="picky"), desk.asked] >> step(lambda *all: all, name="met"))


def test_a_retry_leaves_open_steps_alone() -> None:
    desk, bad = Desk(), {5}
    run = failing_beside(desk, bad).with_policies(desk.policies).run(5)
    before = run.memory.waiting
    assert before is not None
    [waiting] = before.values()

    bad.clear()
    run.retry().react_until_satisfied()

    [after] = (run.memory.waiting or {}).values()
    assert (after.activation, after.attempt) == (waiting.activation, 1)
    assert len(desk.tokens) == 1
    assert same(run).complete(desk.tokens[0], "yes").react_until_satisfied().value("met") == (5, "yes")


def test_an_external_step_behind_what_failed_asks_again_and_its_token_is_void() -> None:
    desk, bad = Desk(), {5}

    def picky(x: int) -> int:
        if x in bad:
            raise ValueError(f"no {x}")
        return x

    told = step(lambda a, b: f"{a} {b}", name="told")
    flow = join(INPUT >> desk.price, step(picky, name="picky"), wait="all_done") >> told >> desk.asked >> desk.wrap
    run = Workflow("desk", flow, policies=desk.policies).run(5)
    assert len(desk.tokens) == 1

    bad.clear()
    run.retry().react_until_satisfied()

    assert len(desk.tokens) == 2
    with pytest.raises(TokenExpired, match="the run was retried, forked or upgraded since"):
        run.complete(desk.tokens[0], "for what it was")
    assert same(run).complete(desk.tokens[1], "yes").react_until_satisfied().values("wrap") == [["yes"]]


# -- upgrades ------------------------------------------------------------------------------------


def test_an_open_step_stays_open_in_the_new_graph_and_keeps_its_token_and_its_time() -> None:
    desk = Desk(Policy(execution_mode="external", timeout=60))
    run = desk.workflow.run(5)
    due = next_due(run.memory)
    other = step(lambda x: [desk.ask(x)], name="ask")
    later = Workflow("desk", desk.price >> other >> desk.wrap >> step(len, name="count"), policies=desk.policies)

    preview = run.upgrade(later, preview=True)
    run.upgrade(later).react_until_satisfied()

    assert (preview.waits, preview.runs) == ({"ask": 1}, {})
    assert (same(run).waiting_for, next_due(run.memory), len(desk.tokens)) == (["ask"], due, 1)
    run.complete(desk.tokens[0], "yes").react_until_satisfied()
    assert same(run).value("count") == 1


def test_an_open_step_asks_again_if_the_upgrade_says_so() -> None:
    desk = Desk()
    run = desk.workflow.run(5)

    run.upgrade(desk.workflow, again=["ask"]).react_until_satisfied()

    assert len(desk.tokens) == 2
    with pytest.raises(TokenExpired):
        run.complete(desk.tokens[0], "yes")
    assert same(run).complete(desk.tokens[1], "yes").react_until_satisfied().value("wrap") == ["yes"]


def test_an_external_step_becomes_a_wait_and_a_wait_an_external_step() -> None:
    desk = Desk()
    run = desk.workflow.run(5)
    waits = Workflow("desk", desk.price >> wait_for("ask") >> desk.wrap)

    run.upgrade(waits)
    begin_waits(run, 0.0)
    assert run.memory.awaited_signals == {"ask"}
    with pytest.raises(TokenExpired):
        same(run).complete(desk.tokens[0], "yes")

    run.upgrade(desk.workflow).react_until_satisfied()
    assert same(run).complete(desk.tokens[1], "yes").react_until_satisfied().value("wrap") == ["yes"]


def test_an_open_step_that_is_gone_is_waited_for_no_more() -> None:
    desk = Desk()
    run = desk.workflow.run(5)

    run.upgrade(Workflow("desk", desk.price >> desk.wrap)).react_until_satisfied()

    assert (same(run).tokens, run.value("wrap")) == ({}, [50])
    with pytest.raises(TokenExpired):
        run.complete(desk.tokens[0], "yes")
