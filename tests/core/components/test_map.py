"""Maps: a body for each element of a collection, in its order, alone or nested."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from weft import INPUT, Run, Workflow, condition, each, join, reduce, rule, step
from weft.errors import InvalidComponent, InvalidJoin, MixedRegions, NotACollection, an

square = step(lambda x: x * x, name="square")
add_one = step(lambda x: x + 1, name="add_one")
collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
is_odd = condition(lambda x: x % 2 == 1, name="is_odd")


# -- what can be taken apart ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "collection",
    [[1, 2, 3], (1, 2, 3), range(1, 4), {3, 1, 2}, frozenset({3, 1, 2}), {1: "a", 2: "b", 3: "c"}.keys()],
    ids=["list", "tuple", "range", "set", "frozenset", "keys"],
)
def test_any_finite_iterable_is_taken_apart_in_order(collection: object) -> None:
    run = Workflow("w", each(square)).run(collection)

    assert run.values("square") == [1, 4, 9]


def test_a_generator_is_taken_apart() -> None:
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    run = Workflow("w", step(count) >> each(square)).run(4)

    assert run.values("square") == [0, 1, 4, 9]


def test_numbers_and_texts_of_a_set_come_by_value() -> None:
    """tests/core/functions/test_identity.py has the same in another process, and other members."""
    show = Workflow("w", each(step(lambda x: x, name="keep")))

    assert show.run({100, 9, 10}).output == [9, 10, 100]
    assert show.run({"b", "a", "ab"}).output == ["a", "ab", "b"]


def test_a_set_whose_members_have_no_order_is_a_recorded_failure() -> None:
    run = Workflow("w", each(step(lambda x: x, name="keep"))).run({object(), object()})

    assert isinstance(run.failures["map_1"].__cause__, NotACollection)
    assert "pass a list" in str(run.failures["map_1"])


@pytest.mark.parametrize("given", ["text", b"bytes", bytearray(b"x"), {"a": 1}, 5, None])
def test_what_is_not_a_collection_is_a_recorded_failure(given: object) -> None:
    """C29: recorded, quiescent, and the error says where and what to do."""
    run = Workflow("w", each(square, name="squares") >> collect, step(lambda x: x, name="other")).run(given)

    failure = run.failures["squares"]
    assert isinstance(failure.__cause__, NotACollection)
    assert "'squares' failed" in str(failure)
    assert f"got {an(type(given).__name__)}" in str(failure)
    assert "return a list" in str(failure)
    assert run.results() == {"other": given}
    assert run.status == "idle"


def test_a_generator_that_raises_is_a_failure_of_the_step_that_made_it() -> None:
    @step
    def count(_: int) -> Iterator[int]:
        yield 1
        raise ConnectionError("gone")

    run = Workflow("w", count >> each(square)).run(1)

    assert isinstance(run.failures["count"].__cause__, ConnectionError)
    assert run.values("square") == []
    assert run.status == "idle"


def test_an_iterable_that_raises_when_it_is_taken_apart_fails_the_map() -> None:
    class Cursor:
        def __iter__(self) -> Iterator[int]:
            raise ConnectionError("gone")

    run = Workflow("w", each(square, name="squares")).run(Cursor())

    assert isinstance(run.failures["squares"].__cause__, ConnectionError)
    assert run.status == "idle"


def test_what_a_generator_gives_reaches_every_child() -> None:
    """It is a list, not something that the first one uses up."""

    @step
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    run = Workflow("w", count >> [each(square), step(len, name="length")]).run(3)

    assert run.values("count") == [[0, 1, 2]]
    assert run.results() == {"square": [0, 1, 4], "length": 3}


def test_an_iterator_that_is_given_is_taken_whole() -> None:
    """So a run that is rebuilt before it ran gets the same elements."""
    run = Workflow("w", each(square)).plan(iter([1, 2]))
    rebuilt = Run.from_log(run.log())

    run.react_until_satisfied()
    rebuilt.react_until_satisfied()

    assert run.values("square") == rebuilt.values("square") == [1, 4]


# -- per element ---------------------------------------------------------------------------------


def test_the_body_runs_once_for_each_element() -> None:
    """C23: the map's half."""
    run = Workflow("w", each(step(lambda n: 2 * n, name="double"))).run([1, 2, 3])

    assert run.values("double") == [2, 4, 6]


def test_equal_elements_are_elements_of_their_own() -> None:
    run = Workflow("w", each(square)).run([2, 2, 2])

    assert run.values("square") == [4, 4, 4]


def test_nothing_runs_for_an_empty_collection() -> None:
    run = Workflow("w", each(square)).run([])

    assert run.values() == []
    assert run.status == "idle"


def test_an_element_knows_its_collection_and_its_index() -> None:
    run = Workflow("w", each(square, name="squares")).run([5, 6])
    element = run.facts("square")[1].parents[0]

    assert (element.value, element.index, element.producer) == (6, 1, "squares")
    assert [fact.value for fact in run.lineage(element)] == [[5, 6], 6]


def test_a_leaf_inside_each_gives_a_list_of_results(finish: Callable[[Run], Run]) -> None:
    run = finish(Workflow("w", each(square)).plan([3, 1, 2]))

    assert run.results() == {"square": [9, 1, 4]}
    assert run.output == [9, 1, 4]


def test_the_results_are_those_of_the_latest_collection() -> None:
    run = Workflow("w", each(square)).run([1, 2, 3])

    run.run([4])

    assert run.results() == {"square": [16]}
    assert run.values("square") == [1, 4, 9, 16]


def test_what_follows_the_body_also_runs_for_each_element() -> None:
    run = Workflow("w", each(square) >> add_one).run([1, 2])

    assert run.values("add_one") == [2, 5]


def test_a_pipeline_runs_for_each_element() -> None:
    run = Workflow("w", each(square >> add_one) >> collect).run([1, 2, 3])

    assert run.output == [2, 5, 10]


def test_a_graph_runs_for_each_element() -> None:
    pair = step(lambda a, b: (a, b), name="pair")

    run = Workflow("w", each([square, add_one] >> pair) >> collect).run([1, 2, 3])

    assert run.output == [(1, 2), (4, 3), (9, 4)]


def test_several_components_each_get_the_element() -> None:
    run = Workflow("w", each([square, add_one])).run([1, 2])

    assert run.results() == {"square": [1, 4], "add_one": [2, 3]}


def test_a_workflow_runs_for_each_element() -> None:
    inner = Workflow("inner", square >> add_one)

    run = Workflow("w", each(inner) >> collect).run([1, 2])

    assert run.output == [2, 5]
    assert run.values("inner.square") == [1, 4]


def test_a_workflow_with_a_map_of_its_own_runs_for_each_element() -> None:
    inner = Workflow("inner", each(square) >> reduce(lambda acc, x: acc + x, init=0, name="sum"))

    run = Workflow("w", each(inner) >> collect).run([[1, 2], [], [3]])

    assert run.output == [5, 0, 9]


def test_a_rule_runs_for_each_element() -> None:
    large = rule(when=lambda x: x > 1, then=lambda x: x * 10, name="large")

    run = Workflow("w", each(large) >> collect).run([1, 2, 3])

    assert run.output == [20, 30]


def test_an_async_body_runs_for_each_element() -> None:
    @step
    async def fetch(x: int) -> int:
        return x + 1

    run = Workflow("w", each(fetch) >> collect).run([1, 2, 3])

    assert run.output == [2, 3, 4]


# -- elements that are dropped or fail -----------------------------------------------------------


def test_what_a_condition_drops_is_left_out() -> None:
    run = Workflow("w", each(is_odd >> square) >> collect).run([1, 2, 3, 4])

    assert run.output == [1, 9]


def test_a_condition_alone_can_be_the_body() -> None:
    run = Workflow("w", each(is_odd) >> collect).run([1, 2, 3, 4])

    assert run.output == [1, 3]


def test_if_a_condition_drops_everything_the_reduce_gives_its_initial_value() -> None:
    run = Workflow("w", each(is_odd >> square) >> collect).run([2, 4])

    assert run.values("collect") == [[]]


def test_a_failing_element_leaves_the_others_alone() -> None:
    invert = step(lambda x: 1 / x, name="invert")

    run = Workflow("w", each(invert >> add_one)).run([1, 0, 2])

    assert run.values("add_one") == [2.0, 1.5]
    assert list(run.failures) == ["invert"]
    assert run.status == "idle"


def test_a_failure_in_one_collection_leaves_another_alone(finish: Callable[[Run], Run]) -> None:
    invert = step(lambda x: 1 / x, name="invert")
    run = Workflow("w", each(invert) >> collect).plan([1, 0]).plan([2, 4])

    finish(run)

    assert run.values("collect") == [[0.5, 0.25]]
    assert set(run.failures) == {"invert", "collect"}


# -- nested --------------------------------------------------------------------------------------


def nested() -> Workflow:
    words = step(str.split, name="words")
    shout = step(str.upper, name="shout")
    line = reduce(lambda acc, word: f"{acc} {word}".strip(), init="", name="line")
    text = reduce(lambda acc, each_line: [*acc, each_line], init=list, name="text")
    return Workflow("w", each(words >> each(shout) >> line) >> text)


def test_a_map_within_a_map_keeps_both_orders(finish: Callable[[Run], Run]) -> None:
    run = finish(nested().plan(["to be", "", "or not"]))

    assert run.values("text") == [["TO BE", "", "OR NOT"]]
    assert sorted(run.values("line")) == ["", "OR NOT", "TO BE"]


def test_a_map_directly_within_a_map_takes_a_collection_of_collections() -> None:
    inner = reduce(lambda acc, x: acc + x, init=0, name="inner")

    run = Workflow("w", each(each(square) >> inner) >> collect).run([[1, 2], [3], []])

    assert run.output == [5, 9, 0]


def test_three_maps_deep() -> None:
    one, two = (reduce(lambda acc, x: acc + x, init=0, name=name) for name in ("one", "two"))

    run = Workflow("w", each(each(each(square) >> one) >> two) >> collect).run([[[1], [2, 3]], [], [[]]])

    assert run.output == [14, 0, 0]


def test_the_results_of_a_leaf_two_maps_deep_are_in_order(finish: Callable[[Run], Run]) -> None:
    run = finish(Workflow("w", each(each(square))).plan([[1, 2], [3]]))

    assert run.results() == {"square": [1, 4, 9]}


def test_the_results_of_an_inner_reduce_are_one_for_each_element(finish: Callable[[Run], Run]) -> None:
    words = step(str.split, name="words")
    line = reduce(lambda acc, word: [*acc, word], init=list, name="line")
    workflow = Workflow("w", each(words >> each(step(str.upper, name="shout")) >> line))

    run = finish(workflow.plan(["to be", "", "or not"]))

    assert run.results() == {"line": [["TO", "BE"], [], ["OR", "NOT"]]}


def test_the_results_inside_each_hold_where_a_parent_was_absent(finish: Callable[[Run], Run]) -> None:
    invert = step(lambda x: 1 / x, name="invert")
    safe = step(lambda value, x: (bool(value), x), name="safe")
    workflow = Workflow("w", each(each(join(invert, square, wait="all_done") >> safe)))

    run = finish(workflow.plan([[1, 0], [2]]))

    assert run.results() == {"safe": [(True, 1), (False, 0), (True, 4)]}


# -- two maps ------------------------------------------------------------------------------------


def test_two_maps_over_one_collection_are_independent() -> None:
    other = reduce(lambda acc, x: acc + x, init=0, name="sum")

    run = Workflow("w", each(square) >> collect, each(add_one) >> other).run([1, 2])

    assert run.results() == {"collect": [1, 4], "sum": 5}


def test_a_map_over_what_another_one_collected() -> None:
    again = reduce(lambda acc, x: [*acc, x], init=list, name="again")

    run = Workflow("w", each(square) >> collect >> each(add_one) >> again).run([1, 2])

    assert run.output == [2, 5]


def test_two_parents_may_feed_one_map() -> None:
    upto, down = step(range, name="upto"), step(lambda n: [-n], name="down")
    squares = each(square)

    run = Workflow("w", upto >> squares, down >> squares).run(3)

    assert sorted(run.values("square")) == [0, 1, 4, 9]


# -- what is refused -----------------------------------------------------------------------------


def test_a_component_inside_and_outside_of_each_is_refused() -> None:
    with pytest.raises(MixedRegions, match=r"'square' would run .*use square.named\('other'\)"):
        Workflow("w", each(square), INPUT >> square)


def test_a_component_in_two_maps_is_refused() -> None:
    with pytest.raises(MixedRegions, match="'square' stands in the bodies of two maps"):
        Workflow("w", each(square, name="one"), each(square, name="two"))


def test_another_name_puts_a_component_inside_and_outside() -> None:
    shown = step(str, name="shown")

    run = Workflow("w", each(shown), shown.named("whole")).run([1, 2])

    assert run.results() == {"shown": ["1", "2"], "whole": "[1, 2]"}


def test_a_join_of_an_element_with_something_outside_is_refused() -> None:
    pair = step(lambda a, b: (a, b), name="pair")

    with pytest.raises(MixedRegions, match=r"'pair' would run once per input .* and per element of .*latest"):
        Workflow("w", each(square), [INPUT, square] >> pair)


def test_a_join_of_elements_of_two_maps_is_refused() -> None:
    pair = step(lambda a, b: (a, b), name="pair")

    with pytest.raises(MixedRegions, match=r"per element of 'one' .* and per element of 'two'"):
        Workflow("w", [each(square, name="one"), each(add_one, name="two")] >> pair)


def test_a_map_takes_no_join() -> None:
    with pytest.raises(InvalidJoin, match="is a map and takes no join of square, add_one"):
        Workflow("w", join(square, add_one) >> each(step(str, name="show")))


def test_a_body_that_does_not_take_the_element_is_refused() -> None:
    with pytest.raises(InvalidComponent, match="must take the element"):
        each(INPUT)


def test_a_body_that_is_not_a_component_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a component"):
        each([1, 2, 3])
