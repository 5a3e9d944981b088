"""Scopes and activations, which the garbage collector does not track."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from weft import Run, Workflow, accumulator, condition, each, join, latest, reduce, repeat, rule, step
from weft.core.fold.scope import Activation, Scope
from weft.core.lineage.lineage import Element


class Held:
    """A value that tells when it is freed."""


def same(x: object, *_: object) -> object:
    return x


def of(x: object, made: object = latest("first")) -> object:
    return (x, made)


def gathered(so_far: list[object], x: object) -> list[object]:
    return [*so_far, x]


first, second = step(same, name="first"), step(same, name="second")
UNFINISHED: dict[str, Callable[[], Workflow]] = {
    "ready": lambda: Workflow("w", first >> second),
    "a reader that waits for what it reads": lambda: Workflow("w", first, step(of, name="reader")),
    "elements": lambda: Workflow("w", each(first >> second) >> reduce(gathered, init=list, name="all")),
    "elements that wait for what they read": lambda: Workflow("w", each([first, step(of, name="reader")] >> second)),
    "a join": lambda: Workflow("w", join(first, second) >> step(same, name="both")),
    "a gate": lambda: Workflow("w", first >> rule(when=condition(bool, name="is_there"), then=same, name="then")),
    "a queue of states": lambda: Workflow("w", each(accumulator(gathered, init=list, name="all"))),
    "a loop": lambda: Workflow("w", repeat(first >> second, until=bool, at_most=3, name="again")),
}


@pytest.mark.parametrize("taken", [0, 1, 2])
@pytest.mark.parametrize("kind", UNFINISHED)
def test_a_run_that_is_dropped_is_freed_wherever_it_was(kind: str, taken: int) -> None:
    value = Held()
    freed = weakref.ref(value)
    run: Run | None = UNFINISHED[kind]().plan([value, value])
    assert run is not None
    for _ in range(taken):
        if runnables := run.prepare():
            run.apply(runnables[0].execute())

    del value, run
    runnables = []
    gc.collect()

    assert freed() is None


@pytest.mark.parametrize("kind", [Activation, Element, Scope])
def test_what_a_run_has_most_of_is_not_tracked(kind: type) -> None:
    run = Workflow("w", each(first) >> reduce(gathered, init=list, name="all")).plan([object() for _ in range(100)])

    gc.collect()

    assert run.prepare()
    assert not [tracked for tracked in gc.get_objects() if type(tracked) is kind]
