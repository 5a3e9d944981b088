"""
The evaluator on graphs that were worked out by hand, so that there is a first opinion before the second.

The functions add up what they are given: the k-th argument counts k + 1 times, all modulo 23.
"""

from __future__ import annotations

import pytest
from building import build
from description import (
    Accumulator,
    And,
    Code,
    Condition,
    Gate,
    Graph,
    Inlet,
    Map,
    Not,
    Or,
    Part,
    Read,
    Reduce,
    Rule,
    Step,
)
from driving import outline, outline_of
from evaluator import evaluate

ROOT = (Inlet(("INPUT",)),)


def after(*parents: str, wait: str | int = "all") -> tuple[Inlet, ...]:
    return (Inlet(parents, wait),)  # type: ignore[arg-type]


A = Step("a", ROOT, code=Code(k=1))
"""1 + 2x"""
B = Step("b", ROOT, code=Code(k=2))
"""2 + 2x"""
BAD = Step("bad", ROOT, code=Code(fails=True))
"""2x; fails where that is a multiple of 3"""
M = Map("m", ROOT)
S = Step("s", after("m"), "m")
"""2x per element"""

HAND_MADE: dict[str, tuple[tuple[Part, ...], object, dict[str, list[object]], set[str]]] = {
    "a join takes its parents in the order written": (
        (A, B, Step("ab", after("a", "b")), Step("ba", after("b", "a"))),
        5,
        {"a": [11], "b": [12], "ab": [12], "ba": [11]},  # 22 + 36 = 58 = 12, 24 + 33 = 57 = 11
        set(),
    ),
    "a step with two inlets runs once per parent": (
        (A, B, Step("c", (*after("a"), *after("b")))),
        5,
        {"a": [11], "b": [12], "c": [22, 1]},
        set(),
    ),
    "what several parents make is zipped": (
        (A, B, Step("c", (*after("a"), *after("b"))), Step("d", after("c", "a"))),
        5,
        {"a": [11], "b": [12], "c": [22, 1], "d": [(44 + 33) % 23]},
        set(),
    ),
    "what comes after a failure does not run": (
        (BAD, Step("after", after("bad")), A, Step("both", after("bad", "a"))),
        3,
        {"bad": [], "after": [], "a": [7], "both": []},
        {"bad"},
    ),
    "all_done gives what there is and says what there is not": (
        (BAD, A, Step("done", after("bad", "a", wait="all_done"))),
        3,
        {"bad": [], "a": [7], "done": [(2 * 4 + 3 * 7) % 23]},
        {"bad"},
    ),
    "a condition lets through what it was asked about": (
        (Condition("c", ROOT), Step("yes", after("c"))),
        3,
        {"yes": [6]},  # 6 % 3 = 0 holds
        set(),
    ),
    "and stops the rest": ((Condition("c", ROOT), Step("yes", after("c"))), 2, {"yes": []}, set()),
    "and short-circuits: the failing condition is not asked": (
        (
            Condition("no", code=Code(k=1, takes="nothing")),
            Condition("raises", code=Code(takes="nothing", fails=True)),
            Rule("r", ROOT, when=And("no", "raises")),
            Rule("q", ROOT, when=Or(Not("no"), "raises")),
        ),
        3,
        {"r": [], "q": [6]},
        set(),
    ),
    "a fact that comes by two ways is taken once": (
        (Condition("c", ROOT), Step("s", (*after("c"), *after("INPUT")))),
        3,
        {"s": [6]},
        set(),
    ),
    "a composed condition can be asked by name": (
        (Condition("c"), Gate("g", ROOT, when=Not("c")), Rule("r", ROOT, when="g"), Step("s", after("g"))),
        2,
        {"r": [4], "s": [4]},
        set(),
    ),
    "a reduce of a map keeps the order": (
        (M, S, Reduce("f", after("s"), code=Code(makes="list"))),
        [3, 1, 2],
        {"s": [6, 2, 4], "f": [[6, 2, 4]]},
        set(),
    ),
    "a reduce of nothing is its initial value": ((M, S, Reduce("f", after("s"))), [], {"s": [], "f": [1]}, set()),
    "a reduce of a broken batch fails": (
        (M, Step("s", after("m"), "m", Code(fails=True)), Reduce("f", after("s"))),
        [1, 3],
        {"s": [2], "f": []},
        {"s", "f"},
    ),
    "what a condition drops is left out of the reduce": (
        (
            M,
            Condition("c", after("m"), "m"),
            Step("s", after("c"), "m"),
            Reduce("f", after("s"), code=Code(makes="list")),
        ),
        [3, 2, 1],
        {"s": [6, 2], "f": [[6, 2]]},
        set(),
    ),
    "a reduce of two maps folds one after the other": (
        (
            M,
            S,
            Map("n", ROOT),
            Step("t", after("n"), "n", Code(k=1)),
            Reduce("f", (*after("t"), *after("s")), code=Code(makes="list")),
        ),
        [1, 2],
        {"s": [2, 4], "t": [3, 5], "f": [[3, 5, 2, 4]]},
        set(),
    ),
    "a map in a map": (
        (
            M,
            Step("s", after("m"), "m", Code(makes="list")),
            Map("n", after("s"), "m"),
            Step("t", after("n"), "n"),
            Reduce("inner", after("t"), "m", Code(makes="list")),
            Reduce("outer", after("inner"), code=Code(makes="list")),
        ),
        [1, 3],
        {"s": [[2, 5], [6, 9]], "t": [4, 10, 12, 18], "inner": [[4, 10], [12, 18]], "outer": [[8, 17]]},
        set(),
    ),
    "a map of what is no collection fails": ((M, S), 5, {"s": []}, {"m"}),
    "a state is read as it is after the same input": (
        (Accumulator("acc", ROOT), Step("s", ROOT, code=Code(reads=(Read("state_of", "acc"),)))),
        3,
        {"acc": [7], "s": [(6 + 21) % 23]},
        set(),
    ),
    "what failed is read as it was before": (
        (BAD, Step("s", ROOT, code=Code(reads=(Read("latest", "bad"),)))),
        3,
        {"bad": [], "s": [(6 + 27) % 23]},
        {"bad"},
    ),
    "inside a map the latest is that of the same element": (
        (M, S, Step("t", after("m"), "m", Code(reads=(Read("latest", "s"),)))),
        [1, 2],
        {"s": [2, 4], "t": [2 + 6, 4 + 12]},
        set(),
    ),
    "a count covers all elements": (
        (M, S, Step("t", after("m"), "m", Code(reads=(Read("fact_count", "s"),)))),
        [1, 2],
        {"s": [2, 4], "t": [2 + 6, 4 + 6]},
        set(),
    ),
    "what comes later is read as it was before this input": (
        (Step("s", ROOT, code=Code(reads=(Read("fact_count", "t"),))), Step("t", after("s"))),
        1,
        {"s": [2], "t": [4]},
        set(),
    ),
}


@pytest.mark.parametrize("name", HAND_MADE)
def test_a_graph_that_was_worked_out_by_hand(name: str) -> None:
    parts, value, values, failed = HAND_MADE[name]
    graph = Graph(parts)

    expected = evaluate(graph, value)

    assert expected.values == values
    assert expected.failed == failed
    run = build(graph).run(value)
    assert outline(run, graph, expected.untold) == outline_of(expected)


def test_a_race_is_racy_where_the_winner_shows() -> None:
    twin = Step("twin", ROOT, code=A.code)

    shown = evaluate(Graph((A, B, Step("first", after("a", "b", wait="any")), Step("next", after("first")))), 5)
    equal = evaluate(Graph((A, twin, Step("first", after("a", "twin", wait="any")))), 5)
    alone = evaluate(Graph((A, BAD, Step("first", after("a", "bad", wait=1)))), 3)

    assert shown.racy.values == {"first", "next"}
    assert equal.racy.values == set()
    assert alone.racy.values == set()
    assert alone.values["first"] == [14]


def test_an_accumulator_of_several_values_is_racy_but_not_its_final_state() -> None:
    added = Accumulator("added", after("s"), "m")
    mixed = Accumulator("mixed", after("s"), "m", commutes=False)
    total = Step("total", ROOT, code=Code(takes="nothing", reads=(Read("state_of", "added"),)))

    expected = evaluate(Graph((M, S, added, mixed, total)), [1, 2])

    assert expected.racy.values == {"added", "mixed"}
    assert expected.racy.states == {"mixed"}
    assert expected.states["added"] == 1 + 4 + 8
    assert expected.values["total"] == [(2 * 13) % 23]
