"""Lists and groups of elements, driven in all orders, cut off and restored anywhere, against comprehensions."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from cases import budget
from hypothesis import given
from hypothesis import strategies as st

from weft import Run, Workflow, collect, condition, each, group_by, step
from weft.log import decode, encode


class Batches(msgspec.Struct, frozen=True):
    """Rows of numbers; a number that is a multiple of *drops* is dropped, *bad* fails."""

    rows: list[list[int]]
    drops: int
    bad: int
    groups: int

    def workflow(self) -> Workflow:
        """Collect every row, and all of them; group the numbers of every row, and the rows by their lengths."""

        def work(x: int) -> int:
            if x == self.bad:
                raise ValueError(x)
            return x * 10

        passes = condition(lambda x: x % self.drops != 0, name="passes")
        number = step(work, name="number")
        row = collect(name="row")
        inner = each(passes >> number)
        kinds = group_by(lambda x: x // 10 % self.groups, name="kinds")
        outer = each([inner >> row, inner >> kinds])
        return Workflow("w", outer, row >> collect(name="rows"), row >> group_by(len, name="sizes"))

    def plainly(self) -> dict[str, Any]:
        """Return what should come of the rows: values by component."""
        kept = [[x for x in row if x % self.drops] for row in self.rows]
        whole = [row for row in kept if self.bad not in row]
        rows = [[x * 10 for x in row] for row in whole]
        made: dict[str, Any] = {"row": rows, "kinds": [grouped(row, lambda x: x // 10 % self.groups) for row in rows]}
        is_whole = len(whole) == len(kept)
        return {**made, "rows": [rows] if is_whole else [], "sizes": [grouped(rows, len)] if is_whole else []}


def grouped(values: list[Any], key: Any) -> list[tuple[Any, list[Any]]]:
    """Return the groups of *values*, in the order of their first members."""
    keys = list(dict.fromkeys(key(value) for value in values))
    return [(found, [value for value in values if key(value) == found]) for found in keys]


def found(run: Run) -> dict[str, Any]:
    """Return the values of *run* like :meth:`Batches.plainly`."""
    return {
        "row": run.values("row"),
        "kinds": [list(groups.items()) for groups in run.values("kinds")],
        "rows": run.values("rows"),
        "sizes": [list(groups.items()) for groups in run.values("sizes")],
    }


def sorted_inside(made: dict[str, Any]) -> dict[str, Any]:
    """Return *made* with the values of rows in one order, for they are in that of the log."""
    return {**made, "row": sorted(made["row"]), "kinds": sorted(made["kinds"])}


batches = st.builds(
    Batches,
    st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=4),
    st.integers(2, 5),
    st.integers(0, 12),
    st.integers(1, 3),
)


@budget(0.5)
@given(batches, st.integers(), st.integers(0, 30))
def test_lists_and_groups_are_those_of_the_collection_in_any_order(batch: Batches, seed: int, cut: int) -> None:
    order = random.Random(seed)  # noqa: S311 - an order, not a secret
    flow = batch.workflow()
    run = flow.plan(batch.rows)
    turn = 0

    while runnables := run.prepare():
        run.apply(order.choice(runnables).execute())
        turn += 1
        if turn == cut:
            run = Run.from_log(decode(encode(run.log()), workflow=flow))

    assert sorted_inside(found(run)) == sorted_inside(batch.plainly())
    assert Run.from_log(run.log()) == run
