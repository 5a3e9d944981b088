"""The short way to record a reaction makes the same run as the usual one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from weft import Run, Workflow, each, join, step
from weft.core.fold.fold import complete, react

double = step(lambda x: x * 2, name="double")
increment = step(lambda x: x + 1, name="increment")
negate = step(lambda x: -x, name="negate")

WORKFLOWS = {
    "a step": Workflow("one", double),
    "a chain": Workflow("chain", double >> increment >> negate),
    "branches": Workflow("branches", double >> [increment, negate]),
    "branches that meet": Workflow("met", double >> join([increment, negate]) >> step(max, name="larger")),
    "a map": Workflow("map", each(double >> increment)),
}


def driven(workflow: Workflow, value: Any, record: Callable[..., None]) -> tuple[Run, int]:
    """Return a run whose plain reactions were recorded by *record*, and how many these were."""
    run, count = Run(workflow, id="it"), 0
    run.plan(value, at=0.0)
    while run.memory.ready:
        key, activation = next(iter(run.memory.ready.items()))
        runnable = next(each for each in run.prepare() if each.key == key)
        if activation.node.only_delivers:
            count += 1
            record(run.memory, activation, runnable.execute().result, 1, 5)
        else:
            run.apply(replace(runnable.execute(), duration_ns=5))
    return run, count


@pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=WORKFLOWS)
def test_a_reaction_recorded_the_short_way_is_the_same(workflow: Workflow) -> None:
    value = [1, 2, 3] if workflow.name == "map" else 3

    usual, _ = driven(workflow, value, complete)
    short, count = driven(workflow, value, react)

    assert count > 0
    assert short == usual
    assert short.results() == usual.results()
    assert Run.from_log(short.log()).results() == usual.results()
