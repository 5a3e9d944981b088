"""
Defects that the laws have found, as fixed cases: small, named, and run at every test.

Each was wrong once.  They follow the laws of ``test_laws.py``; a new one is the shrunk example of a failure.
"""

from __future__ import annotations

from typing import Any

import pytest
from building import build
from cases import Case, made_of, rebuilt
from description import Code, Condition, Gate, Graph, Inlet, Map, Not, Read, Reduce, Rule, Step
from driving import drive, multiset, outline, outline_of, strange
from evaluator import evaluate
from strategies import Schedule

from weft import Workflow

ROOT = Inlet(("INPUT",))
TWICE = Inlet(("INPUT", "INPUT"))
ELEMENT = Inlet(("m",))
LIST = Code(makes="list")


def reading(how: Any, target: str) -> Code:
    """Return code that reads *target*."""
    return Code(reads=(Read(how, target),))


FOUND: dict[str, tuple[Graph, Any]] = {
    "a leaf that closes an inner map": (
        Graph(
            (
                Map("m", (ROOT,)),
                Step("s", (ELEMENT,), "m", LIST),
                Map("n", (Inlet(("s",)),), "m"),
                Step("t", (Inlet(("n",)),), "n"),
                Reduce("f", (Inlet(("t",)),), "m"),
            )
        ),
        [3, 1, 2],
    ),
    "a composed condition that is asked by name": (
        Graph((Condition("c"), Gate("g", (ROOT,), when=Not("c")), Rule("r", (ROOT,), when="g"))),
        2,
    ),
    "a leaf that runs twice": (Graph((Step("s", (ROOT, TWICE)), Rule("r", (TWICE, ROOT), when=Code()))), 3),
    "a map of two collections": (
        Graph((Step("s", (ROOT, TWICE), code=LIST), Map("m", (Inlet(("s",)),)), Step("t", (ELEMENT,), "m"))),
        1,
    ),
    "a count inside a map": (
        Graph(
            (
                Map("m", (ROOT,)),
                Step("s", (ELEMENT,), "m", reading("fact_count", "s")),
                Step("t", (ELEMENT,), "m", reading("all_values", "s")),
            )
        ),
        [1, 2, 3],
    ),
    "the same fact by a race and by itself": (
        Graph(
            (
                Step("a", (ROOT,)),
                Step("s", (Inlet(("a", "a"), "any"), Inlet(("a",))), code=reading("latest", "a")),
                Step("t", (ROOT,), code=reading("latest", "s")),
            )
        ),
        1,
    ),
    "the same facts by two joins": (
        Graph((Step("a", (ROOT,)), Step("s", (Inlet(("a", "a"), 2), Inlet(("a", "a"))), code=reading("latest", "a")))),
        1,
    ),
    "what a join did not get, beside the element": (
        Graph(
            (
                Map("m", (ROOT,)),
                Condition("c", (ELEMENT,), "m"),
                Step("s", (ELEMENT, Inlet(("c", "c"), "all_done")), "m"),
                Reduce("f", (Inlet(("s",)),), code=LIST),
            )
        ),
        [2, 5],
    ),
    "the order of what a condition passes on": (
        Graph(
            (
                Step("z", (ROOT,), code=Code(k=1)),
                Step("a", (ROOT,), code=Code(k=2)),
                Step("d", (ROOT,), code=Code(k=3)),
                Condition("c", (Inlet(("z",)), Inlet(("a",)))),
                Step("s", (Inlet(("c",)), Inlet(("d",)))),
                Step("t", (Inlet(("s", "INPUT")),)),
            )
        ),
        7,
    ),
    "a race that cannot bring what another join does": (
        Graph((Step("a", (ROOT,)), Step("s", (Inlet(("INPUT", "a"), 2), TWICE)))),
        1,
    ),
    "what conditions pass on, one after the other": (
        Graph(
            (
                Step("z", (ROOT,), code=Code(k=1)),
                Step("a", (ROOT,), code=Code(k=2)),
                Step("d", (ROOT,), code=Code(k=3)),
                Condition("c", (Inlet(("z",)), Inlet(("a",)))),
                Condition("b", (Inlet(("c",)), Inlet(("d",)))),
                Step("s", (Inlet(("b",)),)),
                Step("t", (Inlet(("s", "INPUT")),)),
            )
        ),
        1,
    ),
    "a condition about two facts beside the same in another order": (
        Graph(
            (
                Step("a", (ROOT,)),
                Step("b", (ROOT,), code=Code(k=1)),
                Condition("c", (Inlet(("b", "a")),)),
                Step("s", (Inlet(("c",)), Inlet(("a", "b")))),
                Step("t", (Inlet(("s", "INPUT")),)),
            )
        ),
        1,
    ),
    "what two joins did not get, beside what the second did": (
        Graph(
            (
                Step("a", (ROOT, TWICE)),
                Step("z", (ROOT, TWICE)),
                Condition("c", (ROOT,), code=Code(fails=True)),
                Condition("d", (Inlet(("z",)), Inlet(("a",)))),
                Step("s", (Inlet(("d", "a")), Inlet(("d", "c"), "all_done"))),
                Step("t", (Inlet(("s", "INPUT")),)),
            )
        ),
        6,
    ),
    "the same missing fact by two joins": (
        Graph(
            (
                Condition("c", (ROOT,)),
                Rule("r", (ROOT,), when=Code(k=2)),
                Condition("d", (Inlet(("r", "c"), "all_done"),)),
                Rule("s", (Inlet(("d",)), Inlet(("r", "INPUT"), "all_done")), when=Code()),
            ),
            "list",
        ),
        [],
    ),
    "a condition that fails when it is asked about something else": (
        Graph(
            (
                Step("s", (ROOT,), code=LIST),
                Condition("c", (Inlet(("s",)),), code=Code(k=2, fails=True)),
                Gate("g", (ROOT,), when=Not("c")),
                Reduce("f", (Inlet(("c",)),)),
            )
        ),
        5,
    ),
    "the input, and what is made of it, in this order": (
        Graph((Step("a", (ROOT,)), Step("s", (ROOT, Inlet(("a",))), code=LIST), Reduce("f", (Inlet(("s",)),)))),
        7,
    ),
    "two joins of the same parents in another order": (
        Graph(
            (
                Step("a", (ROOT,)),
                Step("b", (ROOT,), code=Code(k=1)),
                Step("s", (Inlet(("b", "a")), Inlet(("a", "b")))),
                Step("t", (Inlet(("s", "INPUT")),)),
            )
        ),
        1,
    ),
}


@pytest.mark.parametrize("schedule", [Schedule((0,)), Schedule((11,), eager=False), Schedule((1, 0, 2), eager=False)])
@pytest.mark.parametrize("name", FOUND)
def test_what_was_wrong_once_is_right_in_any_order(name: str, schedule: Schedule) -> None:
    graph, value = FOUND[name]
    expected = evaluate(graph, value)

    run = drive(Case(graph, [value]).plan(), schedule)

    assert outline(run, graph, expected.untold) == outline_of(expected)
    assert not run.memory.blocked
    assert rebuilt(run) == run


@pytest.mark.parametrize("name", FOUND)
def test_what_was_wrong_once_is_right_in_a_nested_workflow(name: str) -> None:
    graph, value = FOUND[name]
    told = outline_of(evaluate(graph, value)).values

    run = Workflow("outer", build(graph)).run(value)

    assert {part: multiset(run.values(f"drawn.{part}")) for part in told} == told


FOUND_CHANGES: dict[str, tuple[Graph, Any, str]] = {
    "a map whose elements are under way": (
        Graph(
            (
                Map("m", (ROOT,)),
                Step("s", (ELEMENT,), "m"),
                Step("t", (Inlet(("s", "s"), "all_done"),), "m"),
                Condition("c", (ROOT,), code=reading("latest", "s")),
            )
        ),
        [1, 2],
        "m",
    ),
    "all that stands between a map and its reduce": (
        Graph(
            (
                Map("m", (ROOT,)),
                Step("s", (ELEMENT,), "m"),
                Reduce("f", (Inlet(("s",)),)),
                Step("t", (ELEMENT,), "m", reading("latest", "f")),
            )
        ),
        [1, 2],
        "s",
    ),
    "an inner map, so that a reduce closes the outer one": (
        Graph(
            (
                Map("m", (ROOT,)),
                Step("s", (ELEMENT,), "m", LIST),
                Map("n", (Inlet(("s",)),), "m"),
                Step("t", (Inlet(("n",)),), "n"),
                Reduce("f", (Inlet(("t",)),), "m"),
                Reduce("g", (Inlet(("s",)),)),
            )
        ),
        [1, 2],
        "n",
    ),
    "one of two parents": (
        Graph(
            (
                Step("a", (ROOT,)),
                Step("s", (ROOT, Inlet(("a",)))),
                Step("t", (ROOT,), code=reading("all_values", "s")),
                Condition("c", (Inlet(("s",)),)),
            )
        ),
        1,
        "a",
    ),
    "a condition that nothing follows": (
        Graph((Step("s", (ROOT, TWICE)), Condition("c", (Inlet(("s",)),)))),
        1,
        "c",
    ),
}


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("name", FOUND_CHANGES)
def test_what_was_wrong_once_after_a_removal_is_right(name: str, turns: int) -> None:
    graph, value, removed = FOUND_CHANGES[name]
    expected = evaluate(graph, value)

    run = drive(Case(graph, [value]).plan(), Schedule(), turns=turns).remove(removed)
    drive(drive(run, Schedule()).plan(value), Schedule())

    for part in expected.values.keys() - {removed}:
        assert made_of(run, 1, part) == multiset(expected.values[part])
    assert run.results().keys() <= set(run.workflow.components)
    assert not run.memory.blocked
    assert not strange(run)
    assert rebuilt(run) == run
