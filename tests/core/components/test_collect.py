"""Collecting: a batch as a list or in groups, in its order, also of nothing, never of a broken batch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

from weft import Aggregate, Collect, GroupBy, Run, Workflow, collect, condition, context, each, group_by, step, workflow
from weft.errors import BatchFailed, InvalidComponent, InvalidJoin, MixedRegions, PortMismatch, WrongArity

keep = step(lambda x: x, name="keep")
invert = step(lambda x: 12 // x, name="invert")
whole = collect(name="whole")
by_size = group_by(len, name="by_size")
WORDS = ["if", "all", "to", "a", "one", "b"]


# -- after an each -------------------------------------------------------------------------------


def test_what_came_of_the_elements_is_a_list_in_their_order(finish: Callable[[Run], Run]) -> None:
    run = finish(Workflow("w", each(step(lambda n: 2 * n, name="double")) >> whole).plan([3, 1, 2, 1]))

    assert run.values("whole") == [[6, 2, 4, 2]]


def test_groups_are_in_the_order_of_their_first_element_and_keep_that_of_the_collection(
    finish: Callable[[Run], Run],
) -> None:
    run = finish(Workflow("w", each(keep) >> by_size).plan(WORDS))

    [made] = run.values("by_size")
    assert list(made.items()) == [(2, ["if", "to"]), (3, ["all", "one"]), (1, ["a", "b"])]


def test_of_no_elements_there_is_an_empty_list_and_no_group() -> None:
    run = Workflow("w", each(keep) >> whole, each(keep.named("again")) >> by_size).run([])

    assert run.results() == {"whole": [], "by_size": {}}


def test_elements_that_a_condition_drops_are_left_out() -> None:
    is_even = condition(lambda x: x % 2 == 0, name="is_even")
    flow = Workflow("w", each(is_even >> keep) >> whole, keep >> group_by(lambda x: x > 3, name="large"))

    assert flow.run([1, 2, 3, 4, 6]).results() == {"whole": [2, 4, 6], "large": {False: [2], True: [4, 6]}}
    assert flow.run([1, 3]).results() == {"whole": [], "large": {}}


def test_an_element_that_fails_fails_its_batch_visibly() -> None:
    flow = Workflow("w", each(invert) >> whole, invert >> group_by(lambda x: x, name="same"))
    run = flow.run([1, 0, 2])

    assert run.values("whole") == run.values("same") == []
    assert {"invert", "whole", "same"} == set(run.failures)
    assert isinstance(run.failures["whole"].__cause__, BatchFailed)
    assert isinstance(run.failures["same"].__cause__, BatchFailed)
    run.run([3])
    assert run.results() == {"whole": [4], "same": {4: [4]}}


def test_inner_batches_are_collected_by_themselves(finish: Callable[[Run], Run]) -> None:
    inner = each(keep) >> collect(name="row")
    run = finish(Workflow("w", each(inner) >> collect(name="rows")).plan([[1, 2], [], [3]]))

    assert run.value("rows") == [[1, 2], [], [3]]


def test_what_several_maps_make_is_one_list_in_the_order_written(finish: Callable[[Run], Run]) -> None:
    more = step(lambda x: x + 100, name="more")
    run = finish(Workflow("w", each(more) >> whole, each(keep) >> whole).plan([1, 2]))

    assert run.values("whole") == [[101, 102, 1, 2]]


def test_each_input_is_collected_on_its_own(finish: Callable[[Run], Run]) -> None:
    run = finish(Workflow("w", each(keep) >> whole).plan([1, 2]).plan([]).plan([3]))

    assert sorted(run.values("whole")) == [[], [1, 2], [3]]


def test_a_collected_list_comes_from_the_elements() -> None:
    run = Workflow("w", each(keep) >> whole).run([1, 2])

    assert [(fact.producer, fact.value) for fact in run.fact("whole").parents] == [("keep", 1), ("keep", 2)]


def test_what_follows_runs_once() -> None:
    run = Workflow("w", each(keep) >> whole >> step(len, name="count")).run(range(5))

    assert run.values("count") == [5]


# -- the facts of one input ----------------------------------------------------------------------


def test_facts_of_one_input_are_collected_in_the_order_written(finish: Callable[[Run], Run]) -> None:
    first, second = step(lambda x: x + 1, name="first"), step(lambda x: [x], name="second")
    run = finish(Workflow("w", second >> whole, first >> whole).plan(1).plan(5))

    assert sorted(run.values("whole"), key=str) == [[[1], 2], [[5], 6]]


def test_what_a_condition_stops_is_left_out_of_the_facts() -> None:
    large = condition(lambda x: x > 10, name="large")
    flow = Workflow("w", keep >> whole, large >> step(lambda x: -x, name="negate") >> whole)

    assert flow.run(12).value("whole") == [12, -12]
    assert flow.run(2).value("whole") == [2]


def test_all_facts_that_one_component_makes_of_an_input_are_taken() -> None:
    account = Aggregate("account", init=0)
    account.command("pay")(lambda state, command: [("paid", n) for n in command[1]])
    account.event("paid")(lambda state, n: state + n)
    flow = Workflow("w", account >> whole, account >> group_by(lambda event: event[1] > 1, name="large"))

    run = flow.run(("pay", [1, 2, 3]))

    assert run.value("whole") == [("paid", 1), ("paid", 2), ("paid", 3)]
    assert run.value("large") == {False: [("paid", 1)], True: [("paid", 2), ("paid", 3)]}
    assert flow.check() == []


@pytest.mark.parametrize("gathering", [whole, by_size])
def test_one_fact_that_is_not_taken_apart_is_a_finding(gathering: Any) -> None:
    [at_a_step] = Workflow("w", step(list, name="words") >> gathering).check()
    [at_the_input] = Workflow("w", gathering).check()

    assert (at_a_step.kind, at_a_step.component) == ("gathers_one", gathering.name)
    assert "'words' makes one of it, which is not taken apart; put an each(...) before it" in str(at_a_step)
    assert "the input makes one of it" in str(at_the_input)
    assert Workflow("w", each(keep) >> gathering).check() == []


# -- the function that says a group --------------------------------------------------------------


def test_the_key_may_be_a_coroutine_and_read_the_context() -> None:
    async def is_over(x: int, limit: int = context("limit")) -> bool:
        return x > limit

    flow = Workflow("w", each(keep) >> group_by(is_over))

    assert flow.run([1, 5, 2], context={"limit": 2}).results() == {"by_is_over": {False: [1, 2], True: [5]}}


def test_a_group_by_is_named_after_its_key_and_can_decorate_it() -> None:
    @group_by
    def first_letter(word: str) -> str:
        return word[0]

    assert first_letter.name == "by_first_letter"
    assert group_by(operator.itemgetter(0)).name is None
    assert Workflow("w", each(keep) >> first_letter).run(["ab", "ba", "ac"]).output == {"a": ["ab", "ac"], "b": ["ba"]}


def test_a_key_that_raises_or_cannot_be_a_key_is_a_recorded_failure() -> None:
    run = Workflow("w", each(keep) >> group_by(lambda x: [x], name="grouped")).run([1])

    assert "the group of 1 is [1], a list, which cannot be a key of a dict" in str(run.failures["grouped"].__cause__)
    assert list(Workflow("w", each(keep) >> by_size).run([5]).failures) == ["by_size"]


# -- what is refused -----------------------------------------------------------------------------


def test_a_key_takes_one_value() -> None:
    with pytest.raises(WrongArity, match="the key of 'grouped' takes a, b; it must take one value"):
        Workflow("w", each(keep) >> group_by(lambda a, b: a, name="grouped"))
    with pytest.raises(InvalidComponent, match=r"operator.itemgetter\('country'\)"):
        group_by("country")  # type: ignore[call-overload]


def test_a_join_is_refused_with_what_to_write() -> None:
    a, b = step(lambda x: x, name="a"), step(lambda x: x, name="b")

    with pytest.raises(InvalidJoin, match="to gather what both make write a >> whole, b >> whole"):
        Workflow("w", [a, b] >> whole)


def test_elements_and_plain_facts_are_not_gathered_at_once() -> None:
    with pytest.raises(MixedRegions, match="'whole' would gather elements of an each"):
        Workflow("w", each(keep) >> whole, step(abs, name="plain") >> whole)


def test_annotations_are_checked_against_the_elements() -> None:
    def sizes(text: str) -> list[int]: ...
    def is_upper(word: str) -> bool: ...
    def double(x: int) -> int: ...

    with pytest.raises(PortMismatch, match="'double' produces int, and 'by_is_upper' takes str as 'word'"):
        Workflow("w", step(sizes) >> each(step(double)) >> group_by(is_upper))
    flow = Workflow("w", step(sizes) >> each(step(double)) >> whole, step(double).named("d") >> step(abs, name="a"))
    assert flow.outputs["whole"] == list[int]
    grouped = Workflow("w", each(step(str, name="s") >> step(lambda s: s, name="t")) >> group_by(is_upper))
    assert grouped.outputs["by_is_upper"] == dict[bool, list[Any]]


# -- where it stands -----------------------------------------------------------------------------


def test_they_stand_in_a_traced_workflow() -> None:
    @workflow
    def sorted_out(words: list[str]) -> Any:
        kept = each(keep)(words)
        return whole(kept), by_size(kept)

    assert sorted_out.run(["a", "bb", "c"]).output == (["a", "bb", "c"], {1: ["a", "c"], 2: ["bb"]})


def test_they_have_an_identity_and_come_back_from_data() -> None:
    flow = Workflow("w", each(keep) >> whole, keep >> group_by(operator.neg, name="negated"))

    again = Workflow.from_dict(flow.to_dict(), workflow=flow)

    assert again == flow
    assert [type(again.components[name]) for name in ("whole", "negated")] == [Collect, GroupBy]
    assert group_by(operator.neg).identity != group_by(operator.pos).identity
    assert collect().identity == whole.identity


def test_a_picture_draws_them_as_what_puts_a_collection_together() -> None:
    drawn = Workflow("w", each(keep) >> whole, keep >> by_size).to_mermaid()

    assert 'whole[\\"whole"/]' in drawn
    assert 'by_size[\\"by_size"/]' in drawn
