"""The earliest deadline of what is open in a run."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from weft import Run, Workflow, each, step
from weft.core.run.deadlines import OpenDeadlines, open_deadlines

chain = Workflow("chain", step(abs, name="a") >> step(abs, name="b"))
fan = Workflow("fan", step(list, name="a") >> each(step(abs, name="b")))


def act(run: Run[Any], choice: int) -> None:
    """Let one of the runnables of *run* be done."""
    ready = run.prepare()
    if ready:
        run.apply(ready[choice % len(ready)].execute())


inputs = st.tuples(st.just("input"), st.none() | st.floats(1.0, 100.0))
steps = st.tuples(st.just("step"), st.integers(0, 10))


@given(st.lists(inputs | steps, max_size=25), st.sampled_from([chain, fan]), st.booleans())
def test_it_is_the_earliest_of_the_inputs_that_are_open(
    plan: list[tuple[str, Any]], workflow: Workflow[Any, Any], looks: bool
) -> None:
    run: Run[Any] = Run(workflow)
    found = OpenDeadlines()
    for kind, what in plan:
        if kind == "input":
            run.plan([1, 2, 3] if workflow is fan else 1, deadline=what, at=1000.0)
        else:
            act(run, what)
        if looks:
            found.earliest(run.memory, 0.0)

        expected = open_deadlines(run.memory, 0.0)
        assert OpenDeadlines().earliest(run.memory, 0.0) == (expected[0] if expected else None)
    assert found.earliest(run.memory, 0.0) == (expected[0] if plan and expected else None)


def test_it_counts_from_when_the_input_came() -> None:
    run: Run[Any] = Run(chain)
    run.plan(1, deadline=50.0, at=1000.0)

    deadline = OpenDeadlines().earliest(run.memory, 5.0)

    assert deadline is not None
    assert (deadline.at, deadline.ordinal, deadline.began, deadline.due) == (1050.0, 1, 1000.0, (1040.0, 1050.0))


def test_nothing_is_due_of_a_run_that_is_done() -> None:
    run: Run[Any] = Run(chain)
    run.plan(1, deadline=50.0, at=1000.0)
    found = OpenDeadlines()
    found.earliest(run.memory, 0.0)

    act(run, 0)
    assert found.earliest(run.memory, 0.0) is not None
    act(run, 0)

    assert found.earliest(run.memory, 0.0) is None
    assert open_deadlines(run.memory, 0.0) == []
