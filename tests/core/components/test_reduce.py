"""Reduces: once per collection, in its order, also for nothing, and visibly not for a broken batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft import Run, Stop, Workflow, condition, context, each, reduce, step
from weft.errors import BatchFailed, MixedRegions, NotACollection, WrongArity

square = step(lambda x: x * x, name="square")
keep = step(lambda x: x, name="keep")
invert = step(lambda x: 1 / x, name="invert")
total = reduce(lambda acc, x: acc + x, init=0, name="total")
collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")


# -- once, in order ------------------------------------------------------------------------------


def test_a_reduce_folds_what_came_of_the_elements() -> None:
    """C23."""
    run = Workflow("w", each(step(lambda n: 2 * n, name="double")) >> total).run([1, 2, 3])

    assert run.values("double") == [2, 4, 6]
    assert run.values("total") == [12]


def test_a_reduce_keeps_the_order_of_the_collection(finish: Callable[[Run], Run]) -> None:
    """C24: whatever the order of completion."""
    letters = step(lambda _: ["a", "b", "c", "d"], name="letters")

    run = finish(Workflow("w", letters >> each(keep) >> collect).plan(None))

    assert run.values("collect") == [["a", "b", "c", "d"]]


def test_a_reduce_does_not_fire_before_the_last_element() -> None:
    run = Workflow("w", each(keep) >> collect).plan([1, 2, 3]).react()
    *others, last = run.prepare()

    for runnable in others:
        run.apply(runnable.execute())

    assert [runnable.component for runnable in run.prepare()] == ["keep"]
    assert [runnable.component for runnable in run.apply(last.execute()).prepare()] == ["collect"]


def test_a_reduce_of_nothing_gives_its_initial_value_once() -> None:
    """C29."""
    run = Workflow("w", each(square) >> total).run([])

    assert run.values("total") == [0]


def test_a_reduce_of_what_is_not_a_collection_does_not_fire() -> None:
    """C29: recorded and quiescent."""
    run = Workflow("w", each(square) >> total).run(5)

    assert run.values("total") == []
    assert run.failed
    assert run.status == "idle"


def test_equal_elements_all_count(finish: Callable[[Run], Run]) -> None:
    run = finish(Workflow("w", each(keep) >> collect).plan([7, 7, 7]))

    assert run.values("collect") == [[7, 7, 7]]


def test_elements_that_become_equal_all_count() -> None:
    run = Workflow("w", each(step(lambda _: 1, name="one")) >> total).run([1, 2, 3])

    assert run.output == 3


def test_each_input_is_reduced_on_its_own(finish: Callable[[Run], Run]) -> None:
    run = finish(Workflow("w", each(square) >> total).plan([1, 2]).plan([]).plan([10]).plan([1, 2]))

    assert sorted(run.values("total")) == [0, 5, 5, 100]


def test_an_initial_value_that_is_made_is_made_for_each_batch() -> None:
    made: list[list[int]] = []

    def fresh() -> list[int]:
        made.append([])
        return made[-1]

    def append(acc: list[int], x: int) -> list[int]:
        acc.append(x)
        return acc

    run = Workflow("w", each(keep) >> reduce(append, init=fresh)).run([1, 2])
    run.run([3])

    assert run.values("append") == [[1, 2], [3]]
    assert len(made) == 2


def test_a_reduce_comes_from_the_elements() -> None:
    run = Workflow("w", each(square, name="squares") >> total).run([1, 2])

    parents = run.fact("total").parents

    assert [(fact.producer, fact.value) for fact in parents] == [("square", 1), ("square", 4)]


def test_a_reduce_of_nothing_comes_from_the_empty_collection() -> None:
    run = Workflow("w", each(square, name="squares") >> total).run([])

    assert [fact.value for fact in run.lineage(run.fact("total"))] == [[], [], 0]


def test_ten_thousand_elements_are_reduced_in_order() -> None:
    run = Workflow("w", each(keep) >> reduce(lambda acc, x: acc + (x > acc), init=-1, name="rising"))

    assert run.run(range(10_000)).output == 9_999


def test_a_decorated_reduce_is_still_the_plain_function() -> None:
    @reduce(init=0)
    def add(acc: int, x: int) -> int:
        return acc + x

    assert add(1, 2) == 3
    assert Workflow("w", each(keep) >> add).run([1, 2]).results() == {"add": 3}


# -- stopping early ------------------------------------------------------------------------------


def test_a_reduce_that_stops_sees_no_further_element() -> None:
    """C25."""
    seen: list[int] = []

    def first_large(acc: object, x: int) -> object:
        seen.append(x)
        return Stop(x) if x >= 3 else acc

    run = Workflow("w", each(keep) >> reduce(first_large, init=None)).run([1, 2, 3, 4, 5])

    assert run.output == 3
    assert seen == [1, 2, 3]


def test_a_reduce_that_never_stops_folds_everything() -> None:
    """C25."""

    def add(acc: int, x: int) -> int | Stop:
        return Stop(acc) if x > 100 else acc + x

    assert Workflow("w", each(keep) >> reduce(add, init=0)).run([1, 2, 3, 4]).output == 10


def test_a_reduce_stops_in_the_order_of_the_collection(finish: Callable[[Run], Run]) -> None:
    """C25."""
    double = step(lambda x: x * 2, name="double")

    def up_to_six(acc: list[int], x: int) -> list[int] | Stop:
        return Stop(acc) if x > 6 else [*acc, x]

    run = finish(Workflow("w", each(double) >> reduce(up_to_six, init=list)).plan(range(6)))

    assert run.output == [0, 2, 4, 6]


# -- where it stands -----------------------------------------------------------------------------


def test_a_reduce_without_a_map_folds_the_collection() -> None:
    """C26: one invocation."""
    run = Workflow("w", step(lambda _: [1, 2, 3], name="numbers") >> total).run(None)

    assert run.values() == [[1, 2, 3], 6]


@pytest.mark.parametrize("given", [[], (), range(0), set()])
def test_a_reduce_of_an_empty_plain_collection_gives_its_initial_value(given: object) -> None:
    assert Workflow("w", total).run(given).values("total") == [0]


@pytest.mark.parametrize("given", [5, "text", {"a": 1}])
def test_a_reduce_of_what_cannot_be_taken_apart_is_a_recorded_failure(given: object) -> None:
    run = Workflow("w", total).run(given)

    assert isinstance(run.failures["total"].__cause__, NotACollection)
    assert "'total' failed: NotACollection: reduce needs a list" in str(run.failures["total"])


def test_a_reduce_may_stand_at_one_branch_of_the_body() -> None:
    """C27."""
    plus_one = step(lambda x: x + 1, name="plus_one")
    plus_four = step(lambda x: x + 4, name="plus_four")
    plus_two = step(lambda x: x + 2, name="plus_two")

    run = Workflow("w", each(plus_one >> [plus_four, plus_two]), plus_two >> total).run(range(4))

    assert run.values("total") == [18]
    assert run.values("plus_four") == [5, 6, 7, 8]


def test_what_follows_a_reduce_runs_once() -> None:
    run = Workflow("w", each(square) >> total >> step(lambda x: -x, name="negate")).run([1, 2])

    assert run.values("negate") == [-5]


def test_a_reduce_can_be_joined() -> None:
    mean = step(lambda s, n: s / n, name="mean")

    run = Workflow("w", [each(keep) >> total, step(len, name="count")] >> mean).run([2, 4])

    assert run.output == 3.0


# -- several maps --------------------------------------------------------------------------------


def test_a_reduce_over_several_maps_fires_once_in_the_order_written(finish: Callable[[Run], Run]) -> None:
    tenfold = step(lambda x: x * 10, name="tenfold")

    run = finish(Workflow("w", each(keep) >> collect, each(tenfold) >> collect).plan([1, 2]))

    assert run.values("collect") == [[1, 2, 10, 20]]


def test_a_reduce_over_two_branches_of_one_map_fires_once(finish: Callable[[Run], Run]) -> None:
    tenfold = step(lambda x: x * 10, name="tenfold")

    run = finish(Workflow("w", each([keep, tenfold]), keep >> collect, tenfold >> collect).plan([1, 2]))

    assert run.values("collect") == [[1, 2, 10, 20]]


def test_a_reduce_over_maps_of_different_collections(finish: Callable[[Run], Run]) -> None:
    upto, down = step(range, name="upto"), step(lambda n: [-n], name="down")
    minus = step(lambda x: x, name="minus")

    run = finish(Workflow("w", upto >> each(keep) >> collect, down >> each(minus) >> collect).plan(3))

    assert run.values("collect") == [[0, 1, 2, -3]]


def test_a_reduce_over_several_empty_maps_gives_its_initial_value_once() -> None:
    run = Workflow("w", each(keep) >> collect, each(square) >> collect).run([])

    assert run.values("collect") == [[]]


def test_a_map_that_is_gated_off_adds_nothing_to_the_reduce() -> None:
    never = condition(lambda _: False, name="never")

    run = Workflow("w", each(keep) >> collect, never >> each(square) >> collect).run([1, 2])

    assert run.values("collect") == [[1, 2]]


def test_a_reduce_whose_only_map_is_gated_off_does_not_fire() -> None:
    never = condition(lambda _: False, name="never")

    run = Workflow("w", never >> each(square) >> collect).run([1, 2])

    assert run.values("collect") == []
    assert not run.failed


def test_a_reduce_of_elements_and_of_a_plain_collection_at_once_is_refused() -> None:
    with pytest.raises(MixedRegions, match=r"'collect' would reduce elements .*put each\(...\) around"):
        Workflow("w", each(keep) >> collect, step(list, name="plain") >> collect)


# -- what a reducer may read ---------------------------------------------------------------------


def test_a_reducer_reads_the_context() -> None:
    """C32."""
    weight = context("weight")
    weighted = reduce(lambda acc, x, w=weight: acc + x * w, init=0, name="weighted")

    run = Workflow("w", each(keep) >> weighted).run([1, 2, 3], context={"weight": 10})

    assert run.output == 60


def test_a_reducer_without_a_map_reads_the_context() -> None:
    """C32."""
    weight = context("weight", default=10)
    weighted = reduce(lambda acc, x, w=weight: acc + x * w, init=0, name="weighted")

    assert Workflow("w", weighted).run([1, 2, 3]).output == 60


def test_an_async_reducer_is_awaited_for_each_element() -> None:
    @reduce(init=0)
    async def add(acc: int, x: int) -> int:
        return acc + x

    assert Workflow("w", each(keep) >> add).run([1, 2, 3]).output == 6
    assert Workflow("w", add).run([1, 2, 3]).output == 6


def test_an_async_reducer_may_stop() -> None:
    @reduce(init=0)
    async def add(acc: int, x: int) -> int | Stop:
        return Stop(acc) if x > 2 else acc + x

    assert Workflow("w", each(keep) >> add).run([1, 2, 3, 1]).output == 3


# -- a batch that is not whole -------------------------------------------------------------------


def test_a_failing_element_fails_its_batch_visibly() -> None:
    """C31."""

    def refuse_two(x: int) -> int:
        if x == 2:
            raise ValueError("not two")
        return x

    run = Workflow("w", each(step(refuse_two)) >> total).run([1, 2, 3])

    assert run.values("refuse_two") == [1, 3]
    assert run.values("total") == []
    assert isinstance(run.failures["total"].__cause__, BatchFailed)
    assert isinstance(run.failures["refuse_two"].__cause__, ValueError)
    assert run.status == "idle"


def test_a_failed_batch_reads_well() -> None:
    run = Workflow("w", each(invert) >> total).run([1, 0])

    message = str(run.failures["total"])

    assert message.startswith("'total' failed: BatchFailed: an element of the batch failed")
    assert "attempts" not in message


def test_a_failed_batch_does_not_touch_the_next_one() -> None:
    run = Workflow("w", each(invert) >> total).run([1, 0])

    run.run([2, 4])

    assert run.values("total") == [0.75]


def test_a_batch_fails_also_if_the_failure_is_further_down_the_body() -> None:
    run = Workflow("w", each(keep >> invert >> square) >> total).run([1, 0])

    assert isinstance(run.failures["total"].__cause__, BatchFailed)


def test_a_failure_beside_the_way_to_the_reduce_does_not_fail_the_batch() -> None:
    run = Workflow("w", each([invert, keep]), keep >> total).run([1, 0])

    assert run.values("total") == [1]
    assert list(run.failures) == ["invert"]


def test_a_condition_that_fails_on_an_element_fails_the_batch() -> None:
    positive = condition(lambda x: 1 / x > 0, name="positive")

    run = Workflow("w", each(positive >> keep) >> total).run([1, 0])

    assert isinstance(run.failures["total"].__cause__, BatchFailed)


def test_a_failed_inner_batch_fails_the_outer_one() -> None:
    inner = reduce(lambda acc, x: acc + x, init=0, name="inner")

    run = Workflow("w", each(each(invert) >> inner) >> collect).run([[1, 2], [0]])

    assert run.values("inner") == [1.5]
    assert isinstance(run.failures["inner"].__cause__, BatchFailed)
    assert isinstance(run.failures["collect"].__cause__, BatchFailed)


def test_one_of_several_maps_that_fails_fails_the_batch() -> None:
    run = Workflow("w", each(invert) >> collect, each(keep) >> collect).run([1, 0])

    assert run.values("collect") == []
    assert isinstance(run.failures["collect"].__cause__, BatchFailed)


def test_a_reducer_that_raises_is_a_recorded_failure() -> None:
    run = Workflow("w", each(keep) >> reduce(lambda acc, x: acc / x, init=1, name="divide")).run([1, 0])

    assert isinstance(run.failures["divide"].__cause__, ZeroDivisionError)
    assert run.values("keep") == [1, 0]


def test_an_initial_value_that_cannot_be_made_is_a_recorded_failure() -> None:
    run = Workflow("w", each(keep) >> reduce(lambda acc, x: acc + x, init=lambda: 1 / 0, name="sum")).run([1])

    assert isinstance(run.failures["sum"].__cause__, ZeroDivisionError)


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("function", [lambda x: x, lambda acc, x, y: acc, lambda: 0])
def test_a_reducer_must_take_the_accumulator_and_a_value(function: Callable[..., object]) -> None:
    with pytest.raises(WrongArity, match=r"'bad' must take \(accumulator, value\): the accumulator first"):
        Workflow("w", each(keep) >> reduce(function, init=0, name="bad"))
