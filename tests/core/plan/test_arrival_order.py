"""The order of what can reach a node, by who made it."""

from __future__ import annotations

from weft.core.plan.arrival_order import ArrivalOrder, Makers, SingleFact, any_inlet, joined

a, b, c = SingleFact(["a"]), SingleFact(["b"]), SingleFact(["c"])


def ranked(ways: ArrivalOrder, *rows: Makers) -> list[Makers]:
    """Return *rows* in the order of their ranks; none of them may be without one."""
    ranks = {makers: ways.rank(makers) for makers in rows}
    assert None not in ranks.values()
    return sorted(rows, key=lambda makers: ranks[makers] or ())


def test_single_facts_come_in_the_order_of_the_first_inlet_that_can_bring_them() -> None:
    ways = any_inlet([SingleFact(["z", "a"]), SingleFact(["d", "z"]), SingleFact(["b"])])

    assert ranked(ways, ("a",), ("b",), ("d",), ("z",)) == [("z",), ("a",), ("d",), ("b",)]


def test_a_join_of_all_brings_what_its_columns_bring_in_their_order() -> None:
    ways = joined([SingleFact(["z", "a"]), b], 2)

    assert ranked(ways, ("a", "b"), ("z", "b")) == [("z", "b"), ("a", "b")]
    assert ways.rank(("b", "a")) is None
    assert ways.rank(("a",)) is None


def test_a_race_brings_winners_in_the_order_of_its_parents() -> None:
    ways = joined([a, b, c], 2)

    assert ranked(ways, ("b", "c"), ("a", "c"), ("a", "b")) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert ways.rank(("b", "a")) is None
    assert ways.rank(("a", "a")) is None


def test_a_race_of_one_parent_twice_brings_its_fact_twice() -> None:
    assert joined([a, b, a], 2).rank(("a", "a")) is not None


def test_joins_of_joins_are_taken_apart_by_their_widths() -> None:
    pairs = any_inlet([joined([a, b], 2), joined([b, a], 2)])
    ways = joined([pairs, c, pairs], 3)

    assert ways.rank(("b", "a", "c", "a", "b")) is not None
    assert ways.rank(("b", "b", "c", "a", "b")) is None
    assert ways.rank(("a", "b", "c")) is None


def test_ways_that_part_and_meet_again_often_are_looked_at_once_each() -> None:
    """There are 2 ** 100 paths through these; without a memory this would not end."""
    left, right = joined([a, b], 2), joined([b, a], 2)

    for _ in range(100):
        left, right = any_inlet([left, right]), any_inlet([right, left])

    assert left.rank(("c", "c")) is None
    assert left.rank(("b", "a")) is not None
