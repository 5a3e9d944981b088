"""Runnables: preparing, executing and applying them, references to them, their ids and keys."""

from __future__ import annotations

import gc
from types import FunctionType, ModuleType

import msgspec
import pytest
from forking import broken, double, fork, root, total

from weft import (
    Outcome,
    Run,
    Workflow,
    each,
    step,
)
from weft.core.run.runnable import RunnableRef
from weft.errors import (
    UnknownRunnable,
)

# -- prepare, execute, apply -----------------------------------------------------------------------


def test_planning_runs_nothing() -> None:
    calls: list[int] = []

    run = Workflow("w", step(calls.append, name="call")).plan(1)

    assert calls == []
    assert run.is_runnable
    assert run.status == "running"


def test_preparing_again_changes_nothing() -> None:
    run = fork.plan(2)
    log = run.log()

    first, second = run.prepare(), run.prepare()

    assert [r.id for r in first] == [r.id for r in second]
    assert run.log() == log


def test_a_runnable_needs_nothing_of_its_run() -> None:
    run = Workflow("w", double).plan(21)
    [runnable] = run.prepare()

    del run

    assert runnable.execute().result == 42


def test_a_runnable_holds_no_reference_to_its_run() -> None:
    """It can run anywhere; of the run it shares only the log, which never changes, to say what it is."""
    run = fork.plan(2).react()
    seen: dict[int, object] = {}
    stack: list[object] = [run.prepare()[0]]

    while stack:
        thing = stack.pop()
        if id(thing) not in seen and not isinstance(thing, type | ModuleType | FunctionType):
            seen[id(thing)] = thing
            stack.extend(gc.get_referents(thing))

    assert id(run) not in seen
    assert id(run.memory) not in seen


def test_executing_changes_nothing_before_it_is_applied() -> None:
    run = Workflow("w", double).plan(21)
    [runnable] = run.prepare()

    outcome = runnable.execute()

    assert run.values() == []
    assert run.apply(outcome).values() == [42]


def test_executing_never_raises_what_the_function_raises() -> None:
    [runnable] = Workflow("w", broken).plan(1).prepare()

    outcome = runnable.execute()

    assert outcome.status == "failed"
    assert isinstance(outcome.error, ZeroDivisionError)


def test_applying_an_outcome_twice_changes_nothing() -> None:
    run = fork.plan(2)
    outcome = run.prepare()[0].execute()
    run.apply(outcome)
    log = run.log()

    run.apply(outcome)

    assert run.log() == log


def test_a_second_outcome_of_the_same_work_changes_nothing() -> None:
    """Executed twice, applied once: the first one stands, also a failure."""
    run = Workflow("w", double).plan(1)
    [runnable] = run.prepare()
    run.apply(Outcome(runnable.component, runnable.inputs, "completed", "first"))

    run.apply(Outcome(runnable.component, runnable.inputs, "completed", "second"))
    run.apply(Outcome(runnable.component, runnable.inputs, "failed", error=ValueError("late")))

    assert run.values() == ["first"]
    assert not run.failed


def test_a_second_outcome_changes_nothing_after_a_restore() -> None:
    run = fork.plan(2)
    outcome = run.prepare()[0].execute()
    run.apply(outcome)

    rebuilt = Run.from_log(run.log()).apply(outcome)

    assert rebuilt == run


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("nobody", (2,), "completed", 1),
        Outcome("root", (99,), "completed", 1),
        Outcome("plus_two", (2,), "failed"),
    ],
    ids=["component", "inputs", "not yet"],
)
def test_an_outcome_of_work_that_was_never_offered_is_an_error(outcome: Outcome) -> None:
    run = fork.plan(2)
    log = run.log()

    with pytest.raises(UnknownRunnable, match=f"has never offered '{outcome.component}'"):
        run.apply(outcome)

    assert run.log() == log


def test_an_outcome_of_another_run_is_an_error() -> None:
    """Also if it would fit: addresses belong to one log."""
    one, other = Workflow("w", double).plan(1), Workflow("w", double).plan(100)
    [runnable] = other.prepare()

    with pytest.raises(UnknownRunnable):
        one.apply(runnable.execute())

    assert one.values() == []


def test_a_skipped_outcome_ends_the_branch_and_fails_nothing() -> None:
    run = fork.plan(2)
    [runnable] = run.prepare()

    run.apply(Outcome(runnable.component, runnable.inputs, "skipped"))

    assert run.skipped == ["root"]
    assert (run.failed, run.status, run.values()) == (False, "idle", [])


# -- references to runnables -----------------------------------------------------------------------


def test_a_runnable_can_be_prepared_again_from_its_reference() -> None:
    run = fork.plan(2).react()
    original = run.prepare()[1]

    again = run.runnable(original.ref())

    assert again.id == original.id
    assert again.execute().result == 7


def test_a_reference_is_plain_data_and_outlives_the_process() -> None:
    run = fork.plan(2).react()
    sent = msgspec.msgpack.encode(run.prepare()[1].ref())
    rebuilt = Run.from_log(run.log())

    received = msgspec.msgpack.decode(sent, type=RunnableRef)

    assert rebuilt.runnable(received).execute().result == 7


def test_a_reference_to_an_element_is_plain_data() -> None:
    run = Workflow("w", each(double)).plan([1, 2]).react()
    sent = msgspec.msgpack.encode(run.prepare()[1].ref())

    received = msgspec.msgpack.decode(sent, type=RunnableRef)

    assert run.runnable(received).execute().result == 4


def test_a_reference_to_work_that_is_done_is_an_error() -> None:
    run = fork.plan(2)
    ref = run.prepare()[0].ref()
    run.react()

    with pytest.raises(UnknownRunnable, match=r"'root' .*is not ready in run"):
        run.runnable(ref)


# -- ids and keys ----------------------------------------------------------------------------------


def test_the_same_work_has_the_same_id_in_every_run() -> None:
    one, other = fork.plan(1), fork.plan(1)

    assert one.prepare()[0].id == other.prepare()[0].id
    assert one.prepare()[0].id != fork.plan(2).prepare()[0].id


def test_everything_that_is_ready_has_an_id_and_a_key_of_its_own() -> None:
    run = Workflow("w", double, each(root), total).plan([1, 1]).plan([1, 1]).react()

    runnables = run.prepare()

    assert len(runnables) > 2
    assert len({r.id for r in runnables}) == len(runnables)
    assert len({r.idempotency_key for r in runnables}) == len(runnables)


def test_a_run_has_the_id_it_is_given_and_else_one_of_its_own() -> None:
    assert fork.run(1, id="mine").id == "mine"
    assert fork.run(1).id != fork.run(1).id
