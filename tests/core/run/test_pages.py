"""Large collections, whose elements become ready one page after the other where a runner drives the run."""

from __future__ import annotations

from random import Random

import pytest

from weft import Run, Workflow, accumulator, condition, each, reduce, step
from weft.core import events as ev
from weft.core.run.runnable import RunnableRef

PAGE = 4

double = step(lambda x: 2 * x, name="double")
negate = step(lambda x: -x, name="negate")
small = condition(lambda x: x < 12, name="small")
total = reduce(lambda so_far, x: [*so_far, x], init=list, name="total")
count = accumulator(lambda so_far, x: so_far + x, init=0, name="count")
inner = reduce(lambda so_far, x: so_far + x, init=0, name="inner")
pairs = step(lambda x: [x, x + 1], name="pairs")

SHAPES = {
    "a step": Workflow("w", each(double) >> total),
    "two steps": Workflow("w", each(double >> negate) >> total),
    "two ways": Workflow("w", each([double, negate])),
    "a condition": Workflow("w", each(small >> negate) >> total),
    "state": Workflow("w", each(count)),
    "a map in a map": Workflow(
        "w", each(pairs >> each(negate) >> reduce(lambda a, x: a + x, init=0, name="inner")) >> total
    ),
    "nothing but a reduce": Workflow("w", each(double), each(negate, name="again") >> total),
}


def paged(workflow: Workflow) -> Run:
    """Return a run of *workflow* whose collections are taken in as a runner does."""
    run = Run(workflow, id="r")
    run.memory.page = PAGE
    return run


def fanned(elements: int) -> Run:
    """Return a run that has taken a collection apart."""
    run = paged(SHAPES["a step"]).plan(list(range(elements)))
    (fan,) = run.prepare()
    return run.apply(fan.execute())


def test_the_elements_of_a_large_collection_become_ready_page_by_page() -> None:
    run = fanned(10)

    assert len(run.memory.ready) == PAGE
    for done in range(1, 10):
        activation = run.memory.opened()[0]
        run.apply(run.runnable(RunnableRef(*activation.key)).execute())
        assert 1 <= len(run.memory.ready) <= PAGE, done


def test_a_small_collection_is_ready_at_once() -> None:
    assert len(fanned(PAGE).memory.ready) == PAGE
    assert fanned(PAGE).memory.unopened is None


def test_prepare_returns_every_element() -> None:
    run = fanned(10)

    assert run == Run.from_log(run.log())
    assert len(fanned(10).prepare()) == 10


def test_an_element_whose_turn_has_not_come_can_be_asked_for() -> None:
    run = fanned(10)
    event = run.log()[-1]

    assert run.memory.at(("double", ((event.seq, 7),))) is not None
    assert len(run.memory.ready) == 8
    assert run.memory.at(("double", ((event.seq, 10),))) is None
    assert run.memory.at(("negate", ((event.seq, 9),))) is None


def test_a_copy_to_be_read_has_all_elements_and_touches_nothing() -> None:
    run = fanned(10)

    assert len(run.frozen_copy().memory.offered()) == 10
    assert len(run.memory.ready) == PAGE


def test_a_run_that_is_cancelled_has_nothing_left_to_open() -> None:
    run = fanned(10)
    run.record([ev.RunCancelled(len(run.log()) + 1, "enough")])

    assert not run.memory.ready
    assert run.prepare() == []


def test_a_component_that_is_added_reaches_elements_whose_turn_has_not_come() -> None:
    run = fanned(10)
    run.add(step(lambda x: x + 1, name="added"), to="double")

    assert len(run.react_until_satisfied().values("added")) == 10


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_whatever_ends_first_the_run_is_the_fold_of_its_log_and_comes_to_the_same(shape: str, seed: int) -> None:
    random, workflow, elements = Random(seed), SHAPES[shape], list(range(11))  # noqa: S311
    run = paged(workflow).plan(elements)
    while run.memory.ready:
        activation = random.choice(run.memory.opened()[: 1 + PAGE])
        run.apply(run.runnable(RunnableRef(*activation.key)).execute())
        if random.random() < 0.2:
            assert run.frozen_copy() == Run.from_log(run.log())

    assert run.results() == workflow.run(elements).results()
    again = paged(workflow)
    again.record(run.log()[1:])
    assert again == run


def test_a_log_that_ends_the_last_element_first_is_folded() -> None:
    run = Run(SHAPES["a step"], id="r").plan(list(range(10)))
    run.react()
    for runnable in reversed(run.prepare()):
        run.apply(runnable.execute())
    again = paged(SHAPES["a step"])
    again.record(run.log()[1:])

    assert again == run
    assert again.react_until_satisfied().value("total") == [2 * x for x in range(10)]
