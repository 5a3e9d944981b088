"""The serial loop: cycles, checkpoints, and what a step may do to its own run."""

from __future__ import annotations

import pytest

from weft import Run, Workflow, condition, context, rule, step
from weft.errors import AlreadyRunning, MissingContext

root = step(lambda x: x + 1, name="root")
double = step(lambda x: x * 2, name="double")
negate = step(lambda x: -x, name="negate")
chain = Workflow("chain", root >> double >> negate)


# -- cycles --------------------------------------------------------------------------------------


def test_a_cycle_is_what_was_ready_when_it_began() -> None:
    run = chain.plan(1)

    sizes = []
    while run.is_runnable:
        run.react()
        sizes.append(len(run.values()))

    assert sizes == [1, 2, 3]


def test_a_cycle_of_a_run_that_has_nothing_to_do_changes_nothing() -> None:
    run = chain.run(1)
    log = run.log()

    assert run.react() is run
    assert run.react_until_satisfied() is run
    assert run.log() == log


def test_reacting_from_a_workflow_does_one_cycle() -> None:
    run = chain.react(1)

    assert run.values() == [2]
    assert run.react_until_satisfied().values() == [2, 4, -4]


def test_several_inputs_go_through_a_cycle_together() -> None:
    run = chain.plan(1).plan(10)

    run.react()

    assert run.values() == [2, 11]


def test_planning_eagerly_goes_through_conditions_behind_conditions() -> None:
    positive = condition(lambda x: x > 0, name="positive")
    large = rule(when=lambda x: x > 10, then=lambda x: x, name="large")
    calls: list[int] = []

    run = Workflow("w", positive >> large, step(calls.append, name="note")).plan_eagerly(11)

    assert [runnable.component for runnable in run.prepare()] == ["note", "large"]
    assert calls == []


def test_planning_eagerly_asks_async_conditions() -> None:
    async def is_large(x: int) -> bool:
        return x > 10

    run = Workflow("w", rule(when=is_large, then=lambda x: x, name="large")).plan_eagerly(11)

    assert [runnable.component for runnable in run.prepare()] == ["large"]


# -- checkpoints ---------------------------------------------------------------------------------


def test_the_checkpoint_is_called_after_every_cycle() -> None:
    seen: list[list[int]] = []

    chain.run(1, checkpoint=lambda run: seen.append(run.values()))

    assert seen == [[2], [2, 4], [2, 4, -4]]


def test_a_run_goes_on_from_any_checkpoint() -> None:
    logs: list[list[object]] = []

    chain.run(1, checkpoint=lambda run: logs.append(run.log()))

    assert [Run.from_log(log).react_until_satisfied().output for log in logs] == [-4, -4, -4]


def test_a_checkpoint_that_raises_stops_the_loop_and_harms_nothing() -> None:
    run = chain.plan(1)

    def full(_: Run) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run.react_until_satisfied(checkpoint=full)

    assert run.values() == [2]
    assert run.react_until_satisfied().output == -4


def test_a_checkpoint_may_give_more_input() -> None:
    def once(run: Run) -> None:
        if len(run.values()) == 1:
            run.plan(10)

    run = chain.run(1, checkpoint=once)

    assert sorted(run.values("negate")) == [-22, -4]


# -- errors that propagate -------------------------------------------------------------------------


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_propagates_and_the_work_stays_ready(signal: type[BaseException]) -> None:
    interrupted = [True]

    def work(x: int) -> int:
        if interrupted:
            raise signal
        return x

    run = Workflow("w", root >> step(work)).plan(1)
    with pytest.raises(signal):
        run.react_until_satisfied()
    after = (run.values(), run.failed, [runnable.component for runnable in run.prepare()])
    interrupted.clear()

    assert after == ([2], False, ["work"])
    assert run.react_until_satisfied().output == 2


def test_an_interrupt_in_a_condition_propagates() -> None:
    def ask(_: int) -> bool:
        raise KeyboardInterrupt

    run = Workflow("w", condition(ask) >> root).plan(1)

    with pytest.raises(KeyboardInterrupt):
        run.react_until_satisfied()
    assert [runnable.component for runnable in run.prepare()] == ["ask"]


# -- steps that touch their own run --------------------------------------------------------------


def run_whose_step(act: object) -> Run:
    """A run of two steps, of which the first acts on the run itself."""
    box: list[Run] = []

    def meddle(x: int) -> int:
        act(box[0])
        return x

    run = Workflow("w", step(meddle), double).plan(1)
    box.append(run)
    return run


@pytest.mark.parametrize("name", ["double", "meddle"])
def test_a_step_may_remove_another_one_or_itself(name: str) -> None:
    """The input in flight finishes as it began."""
    run = run_whose_step(lambda run: run.remove(name))

    run.react_until_satisfied()

    assert len(run.values()) == 2
    assert run.status == "idle"
    assert name not in run.workflow
    assert Run.from_log(run.log()) == run


def test_a_step_may_add_another_one() -> None:
    run = run_whose_step(lambda run: run.add(negate, to="double"))

    run.react_until_satisfied()

    assert run.value("negate") == -2


@pytest.mark.parametrize(
    "act",
    [lambda run: run.react(), lambda run: run.react_until_satisfied(parallel=2)],
    ids=["react", "in parallel"],
)
def test_a_step_that_waits_for_its_own_run_is_told_so(act: object) -> None:
    run = run_whose_step(act)

    run.react_until_satisfied()

    assert isinstance(run.failures["meddle"].__cause__, AlreadyRunning)
    assert "run.plan(...)" in str(run.failures["meddle"])
    assert run.value("double") == 2


def test_a_run_that_is_refused_takes_no_input() -> None:
    tried: list[int] = []

    def once(run: Run) -> None:
        if not tried:
            tried.append(1)
            run.run(10)

    run = run_whose_step(once)

    run.react_until_satisfied()

    assert isinstance(run.failures["meddle"].__cause__, AlreadyRunning)
    assert run.values("double") == [2]


def test_a_run_that_missed_context_takes_no_input() -> None:
    use = step(lambda x, key: (x, key), name="use").bind(key=context("key"))
    run = Workflow("w", double).run(1).add(use)

    with pytest.raises(MissingContext):
        run.run(2)

    assert [fact.value for fact in run.facts() if fact.is_input] == [1]


def test_a_run_can_go_on_after_it_was_told_so() -> None:
    run = run_whose_step(lambda run: run.react())

    run.react_until_satisfied()

    assert run.run(10).values("double") == [2, 20]


def test_a_step_may_give_its_run_more_input() -> None:
    given: list[int] = []

    def once(run: Run) -> None:
        if not given:
            given.append(1)
            run.plan(10)

    run = run_whose_step(once)

    run.react_until_satisfied()

    assert run.values("double") == [2, 20]
    assert Run.from_log(run.log()) == run
