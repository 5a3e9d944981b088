"""The orders of the facts of leaves that a snapshot keeps."""

from __future__ import annotations

from typing import Any

import pytest

from weft import Run, Workflow, step, wait_for
from weft.core.lineage.history import ColdList
from weft.log import kept_orders
from weft.log.eviction import SnapshotWriter, evict, mark
from weft.log.kept_orders import KeptOrders

both = step(lambda x: x, name="both")
FLOW = Workflow("flow", step(abs) >> both, step(float) >> both, wait_for("go") >> step(str, name="said"))


def fed(run: Run, *values: Any, at_once: bool = True) -> Run:
    """Return *run* with these inputs, each of which waits unless it is signalled *at once*."""
    for value in values:
        run.plan(value).react_until_satisfied()
        if at_once:
            run.signal("go", value).react_until_satisfied()
    return run


def test_the_orders_of_the_last_input_are_kept() -> None:
    run, kept = Run(FLOW), KeptOrders()

    found = [kept.needed(fed(run, number).memory).get("both") for number in (1, 2, 3)]

    assert found == [range(2), range(2, 4), range(4, 6)]


def test_those_of_an_input_that_waits_are_kept_and_all_that_came_since() -> None:
    run, kept = fed(Run(FLOW), 1), KeptOrders()

    before = [kept.needed(fed(run, number, at_once=False).memory) for number in (2, 3, 4)]
    run.signal("go", "on").signal("go", "on").react_until_satisfied()

    assert before == [{"both": range(2, 4)}, {"both": range(2, 6)}, {"both": range(2, 8)}]
    assert kept.needed(run.memory) == {"both": range(6, 8)}


def test_what_is_kept_does_not_depend_on_the_snapshots_before() -> None:
    run, kept = Run(FLOW), KeptOrders()

    for number in range(1, 100):
        fed(run, number, at_once=number % 3 == 0)
        assert kept.needed(run.memory) == KeptOrders().needed(run.memory)


def test_earlier_snapshots_are_looked_through_as_far_as_something_may_be_needed() -> None:
    run, kept = Run(FLOW), KeptOrders()
    for number in range(200):
        kept.needed(fed(run, number).memory)

    assert len(kept._earlier) <= 3

    for number in range(200):
        kept.needed(fed(run, number, at_once=False).memory)

    assert len(kept._earlier) <= kept_orders.MOST + 2


def test_too_many_orders_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_orders, "LARGEST", 3)
    run, kept = fed(Run(FLOW), 1, at_once=False), KeptOrders()

    assert kept.needed(run.memory) == {"both": range(2)}
    assert kept.needed(fed(run, 2, at_once=False).memory) == {}


def test_orders_that_were_lost_are_not_taken_for_complete_until_an_input_has_all_of_its_own() -> None:
    """A snapshot had too many of them."""
    run = fed(Run(FLOW), 1, at_once=False)
    orders = list((run.memory.keyed or {})["both"])
    run.memory.keyed = {"both": ColdList(1, {}, lambda: orders, orders[1:])}  # type: ignore[dict-item]
    kept = KeptOrders()

    assert kept.needed(run.memory) == {}
    run.signal("go", "on").react_until_satisfied()
    assert kept.needed(run.memory) == {}
    assert kept.needed(fed(run, 2).memory) == {"both": range(2, 4)}


def test_a_run_whose_values_have_left_memory_keeps_the_orders_that_results_need() -> None:
    run, snapshots = fed(Run(FLOW), *range(1, 20)), SnapshotWriter()
    stored = run.log()
    wanted = run.results()

    evict(run.memory, mark(run.memory), snapshots, lambda first, last: stored[first - 1 : last])

    orders: Any = (run.memory.keyed or {})["both"]
    assert (orders.begins, orders.cold) == (36, 38)
    assert run.results() == wanted
