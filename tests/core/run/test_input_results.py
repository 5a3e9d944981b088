"""The results of one input: its own facts and failures, found without reading the history before it."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import Policy, Run, Workflow, condition, each, join, reduce, step
from weft.core.events import AnyEvent
from weft.core.functions.references import MISSING
from weft.core.lineage.history import ColdList, History, PagedLog
from weft.core.run.input_results import event_of, failures_of, last_result, output_of_input, results_of
from weft.errors import HistoryTruncated, NoSuchLetter, NothingProduced


def inverse(x: int) -> float:
    """Fail for 0."""
    return 10 / x


def fed(workflow: Workflow, *values: Any) -> Run:
    """Return a run of *workflow* that has had *values*, one after the other."""
    run = workflow.plan(values[0])
    run.react_until_satisfied()
    for value in values[1:]:
        run.plan(value).react_until_satisfied()
    return run


positive = Workflow("positive", condition(lambda x: x > 0, name="is_positive") >> step(lambda x: x, name="same"))
two_leaves = Workflow("two_leaves", step(inverse)).add(step(lambda x: x + 1, name="successor"))
sums = Workflow("sums", each(step(lambda x: x * 2, name="twice")) >> reduce(lambda a, b: a + b, init=0, name="sum"))


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=6))
def test_the_result_of_an_input_is_what_a_run_of_this_input_alone_makes(values: list[int]) -> None:
    run = fed(positive, *values)

    for ordinal, value in enumerate(values, start=1):
        assert results_of(run, ordinal) == fed(positive, value).results()


@pytest.mark.parametrize("flow", [positive, two_leaves, sums], ids=lambda flow: flow.name)
@pytest.mark.parametrize("values", [[1], [0], [2, 3]], ids=str)
def test_the_last_event_of_a_run_is_its_result_or_is_not_taken_for_it(flow: Workflow, values: list[int]) -> None:
    run = fed(flow, *([[value] for value in values] if flow is sums else values))
    leaf = flow.leaves[0]

    found = last_result(run.memory, leaf)

    is_plain = flow is positive and values == [1]
    assert (found is MISSING) is not (is_plain or (flow is sums and len(values) == 1))
    assert found is MISSING or {leaf: found} == results_of(run, 1)


def test_a_leaf_inside_an_each_is_not_the_result_of_its_last_element() -> None:
    run = fed(Workflow("w", each(step(abs))), [1, 2])

    assert last_result(run.memory, "abs") is MISSING


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=4))
def test_the_elements_of_an_input_are_in_the_order_of_its_collection(values: list[list[int]]) -> None:
    flow = Workflow("w", each(step(lambda x: x * 2, name="twice")))
    run, total = fed(flow, *values), fed(sums, *values)

    for ordinal, collection in enumerate(values, start=1):
        assert results_of(run, ordinal) == {"twice": [2 * x for x in collection]}
        assert output_of_input(total, ordinal) == 2 * sum(collection)


def test_failures_belong_to_their_input_in_the_order_of_the_log() -> None:
    run = fed(two_leaves, 0, 5, 0)

    assert [[event.component for event in failures_of(run, number)] for number in (1, 2, 3)] == [
        ["inverse"],
        [],
        ["inverse"],
    ]
    assert [results_of(run, number) for number in (1, 2, 3)] == [
        {"successor": 1},
        {"inverse": 2.0, "successor": 6},
        {"successor": 1},
    ]


def test_that_nothing_came_of_an_input_is_explained_by_what_this_input_met() -> None:
    gated, failed = fed(positive, 5, 0, 7), fed(Workflow("w", step(inverse) >> step(abs)), 5, 0, 2)

    with pytest.raises(NothingProduced, match="the condition 'is_positive' did not hold"):
        output_of_input(gated, 2)
    with pytest.raises(NothingProduced, match=r"'inverse', which feeds it, failed \(ZeroDivisionError"):
        output_of_input(failed, 2)
    assert (output_of_input(gated, 3), output_of_input(failed, 3)) == (7, 5.0)


def test_an_input_that_a_run_has_not_had_has_no_results() -> None:
    assert results_of(fed(positive, 5), 2) == {}
    assert results_of(Run(positive), 1) == {}


class Counted(list[AnyEvent]):
    """A log that counts how many of its events are read from its end."""

    read = 0

    def __reversed__(self) -> Iterator[AnyEvent]:  # type: ignore[override]
        for event in super().__reversed__():
            self.read += 1
            yield event


def test_the_event_of_a_recent_input_is_found_without_reading_the_history() -> None:
    run = fed(positive, *range(1, 200))
    run.memory.log = log = Counted(run.memory.log)

    assert event_of(run.memory, 199).value == 199
    assert log.read <= 3


def test_discarding_what_halted_a_run_says_what_to_do() -> None:
    run = fed(Workflow("w", step(inverse)), 0)

    for which in (None, "inverse"):
        with pytest.raises(NoSuchLetter, match=r"'inverse' halted it: retry\(\) runs it again") as refused:
            run.discard(which)
        assert refused.value.halted == ("inverse",)


def test_retrying_a_run_in_which_nothing_failed_changes_nothing() -> None:
    run = fed(Workflow("w", step(inverse)), 1)

    assert run.retry().discard().status == "idle"
    with pytest.raises(NoSuchLetter, match="this run has none"):
        run.retry("inverse")


def test_each_dead_letter_takes_back_its_own_failure() -> None:
    flow = Workflow("w", step(inverse)).with_policies([("inverse", Policy(on_failure="dead_letter"))])
    run = fed(flow, 0, 0)

    run.retry(run.dead_letters[0], input=5).react_until_satisfied()

    assert (len(failures_of(run, 1)), len(failures_of(run, 2)), results_of(run, 1)) == (0, 1, {"inverse": 2.0})
    assert list(run.failures) == ["inverse"]


missed = join(condition(lambda _: False, name="never") >> step(abs), step(float), wait="all_done")
CUT = {
    "steps": Workflow("w", step(abs) >> step(float) >> step(str)),
    "leaves": Workflow("w", step(abs) >> step(float), step(inverse)),
    "each": Workflow("w", step(lambda x: [x, -x], name="both") >> each(step(abs))),
    "sum": Workflow("w", step(lambda x: [x, x], name="both") >> each(step(abs)) >> reduce(operator.add, init=0)),
    "join": Workflow("w", missed >> step(lambda _, x: x, name="second")),
}


def truncated(run: Run, begin: int) -> Run:
    """Return *run* with a log of which all is in the store, and the events before number *begin* are not."""
    events = [*run.memory.log]

    def load(first: int, last: int) -> list[AnyEvent]:
        return events[first - 1 : last]

    load.removed = begin - 1  # type: ignore[attr-defined]
    run.memory.log = run.memory.lineage.log = PagedLog(History(len(events), load, list), {})
    run.memory.lineage.absent = ColdList(len(run.memory.lineage.absent or ()), {}, run.memory.lineage.history.absent)
    run.memory.lineage.gathered = run.memory.lineage.read = None
    run.memory.lineage.forget_index()
    return run


@pytest.mark.parametrize("flow", CUT.values(), ids=list(CUT))
def test_the_results_of_an_input_need_nothing_from_before_it(flow: Workflow) -> None:
    """An earlier input has gone on after it, and the events before it were removed."""
    run = flow.plan(1)
    run.plan(2).react_until_satisfied()
    wanted = results_of(run, 2)

    truncated(run, event_of(run.memory, 2).seq)

    assert wanted
    assert results_of(run, 2) == wanted
    with pytest.raises(HistoryTruncated):
        results_of(run, 1)


REASONS = {
    "the condition 'is_positive' did not hold": positive,
    "which feeds it, failed": Workflow("w", step(inverse) >> step(abs)),
}


@pytest.mark.parametrize(("reason", "flow"), REASONS.items(), ids=list(REASONS))
def test_that_nothing_came_of_an_input_is_explained_by_nothing_from_before_it(reason: str, flow: Workflow) -> None:
    """An earlier input, whose event was removed, has come to something else after it."""
    run = flow.plan(3)
    run.plan(0).react_until_satisfied()

    truncated(run, event_of(run.memory, 2).seq)

    with pytest.raises(NothingProduced, match=reason):
        output_of_input(run, 2)


def test_a_reason_that_may_have_been_removed_is_not_guessed() -> None:
    run = fed(positive, 0)

    truncated(run, len(run.memory.log) + 1)

    with pytest.raises(NothingProduced, match="was truncated"):
        output_of_input(run, 1)


def test_what_a_reduce_has_made_for_each_element_needs_nothing_from_before_the_input() -> None:
    inner = each(step(abs)) >> reduce(operator.add, init=0, name="sum")
    run = Workflow("w", each(inner >> step(lambda x: x, name="said"))).run([[1, -2], [-3]])

    truncated(run, event_of(run.memory, 1).seq)

    assert run.results() == {"said": [3, 3]}


def test_what_a_dead_letter_makes_of_another_input_stands_where_its_element_does() -> None:
    flow = Workflow("w", each(step(inverse))).with_policies([("inverse", Policy(on_failure="dead_letter"))])
    run = fed(flow, [5, 0, 2], [0, 10])

    for letter, other in zip(run.dead_letters, (4, 8), strict=True):
        run.retry(letter, input=other)
    run.react_until_satisfied()

    assert results_of(run, 1) == {"inverse": [2.0, 2.5, 5.0]}
    assert results_of(run, 2) == run.results() == {"inverse": [1.25, 1.0]}
