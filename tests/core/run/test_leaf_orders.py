"""The orders of the facts of leaves: which of two is later, also in a log that was truncated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from weft import Run, Workflow, all_values, condition, step
from weft.core.events import AnyEvent
from weft.core.lineage.history import ColdList, History, PagedLog
from weft.core.run.continuation import begun_from
from weft.core.run.input_results import event_of, results_of
from weft.core.run.leaf_orders import is_kept, oldest_needed, oldest_orders, ordered
from weft.errors import HistoryTruncated

both = step(lambda x: x, name="both")
FLOW = Workflow("flow", step(lambda x: x, name="low") >> both, step(lambda x: 10 * x, name="high") >> both)


def reacted(run: Run, *, backwards: bool = False) -> Run:
    """Return *run* with nothing left to do; what was ready last completes first, if it goes *backwards*."""
    while ready := run.prepare():
        run.apply(ready[-1 if backwards else 0].execute())
    return run


def cut(run: Run, ordinal: int, *, kept: int | None = None) -> Run:
    """Return *run* with a log that begins with the input *ordinal*, and the last orders *kept* of its leaf."""
    events = list(run.memory.log)
    orders = list((run.memory.keyed or {})["both"])
    begin = event_of(run.memory, ordinal).seq

    def load(first: int, last: int) -> Sequence[AnyEvent]:
        return events[first - 1 : last]

    load.removed = begin - 1  # type: ignore[attr-defined]
    load.run = run.id  # type: ignore[attr-defined]
    memory: Any = run.memory
    history = History(len(events), load, list)
    memory.log = memory.lineage.log = PagedLog(history, {})
    first = len(orders) - (len(orders) if kept is None else kept)
    known = {at: orders[at] for at in range(first, len(orders))}
    memory.keyed = {"both": ColdList(len(orders), known, lambda: history.items("keyed", "both"))}
    memory.lineage.forget_index()
    return run


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("kept", [2, 4, 6])
def test_a_truncated_log_says_the_same_of_the_inputs_that_it_has(backwards: bool, kept: int) -> None:
    run = Run(FLOW)
    for number in (1, 2, 3):
        reacted(run.plan(number), backwards=backwards)

    cut(run, 3, kept=kept)

    assert results_of(run, 3) == run.results() == {"both": 30}
    with pytest.raises(HistoryTruncated):
        results_of(run, 2)


def test_orders_that_are_not_known_are_not_guessed() -> None:
    run = Run(FLOW)
    for number in (1, 2):
        reacted(run.plan(number), backwards=True)

    cut(run, 2, kept=0)

    for question in (lambda: results_of(run, 2), run.results):
        with pytest.raises(HistoryTruncated):
            question()
    assert (oldest_needed(run.memory), oldest_orders(run.memory)) == (0, {})
    assert not is_kept((run.memory.keyed or {})["both"])


def test_the_input_that_a_leaf_made_its_latest_fact_of_is_needed() -> None:
    low = condition(lambda x: x < 5, name="is_low")
    run = Run(Workflow("flow", low >> step(lambda x: x, name="one") >> both, low >> step(str) >> both, step(float)))
    needed = [oldest_needed(reacted(run.plan(number)).memory) for number in (1, 2, 7, 8)]

    assert needed == [1, 2, 2, 2]
    assert oldest_orders(run.memory) == {"both": 2}


def test_a_run_with_one_input_and_one_way_to_each_leaf_needs_no_events() -> None:
    assert oldest_needed(Run(FLOW).memory) is None
    assert oldest_needed(reacted(Run(Workflow("w", step(abs))).plan(1)).memory) is None


def test_orders_belong_to_the_last_facts() -> None:
    run = reacted(reacted(Run(FLOW).plan(1)).plan(2), backwards=True)
    made = run.memory.lineage.index()["both"]

    whole, last = ordered(run.memory, "both", made), ordered(run.memory, "both", made[1:])

    assert whole is not None
    assert last == whole[1:]
    assert [at for _, at in sorted(whole)] == [made[0], made[1], made[3], made[2]]


def test_a_continued_run_reads_what_it_began_with_before_what_it_makes() -> None:
    seen = step(lambda x, before=all_values(both): before, name="seen")
    run = reacted(Run(FLOW.add(seen)).plan(1))

    new = reacted(begun_from(run, "new", None).run.plan(2), backwards=True)

    assert new.values("both") == [20, 2]
    assert new.value("seen") == [10, 2, 20]
    assert new.results() == {"both": 20, "seen": [10, 2, 20]}
