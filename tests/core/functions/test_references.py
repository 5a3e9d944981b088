"""A parameter may read more than its input: other components of the run, and the context."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft import (
    Run,
    Workflow,
    accumulator,
    all_values,
    condition,
    context,
    each,
    fact_count,
    join,
    latest,
    reduce,
    rule,
    state_of,
    step,
    step_ran,
)
from weft.core.components.step import Step
from weft.core.run.runnable import Outcome
from weft.errors import MissingContext, MutualWait, UnknownReference

root = step(lambda x: x, name="root")
double = step(lambda x: x * 2, name="double")
invert = step(lambda x: 1 / x, name="invert")
square = step(lambda x: x * x, name="square")
total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")
positive = condition(lambda x: x > 0, name="positive")


def reader(reference: object, name: str = "reader") -> Step:
    """A step that shows its input and what *reference* stands for."""
    return step(lambda x, read: (x, read), name=name).bind(read=reference)


# -- the same input ------------------------------------------------------------------------------


def test_a_reader_sees_the_state_after_its_own_input(finish: Callable[[Run], Run]) -> None:
    """F62: (above, 10) and (above, 1) are both produced."""
    spent = state_of("total")
    above = rule(when=lambda _, s=spent: s > 5, then=lambda x: ("above", x), name="above")
    run = Workflow("w", above, total).plan(10)

    finish(run)
    finish(run.plan(1))

    assert run.values("above") == [("above", 10), ("above", 1)]


def test_a_reader_sees_what_was_made_of_its_own_input(finish: Callable[[Run], Run]) -> None:
    run = finish(Workflow("w", reader(latest("double")), double).plan(1).plan(2).plan(3))

    assert sorted(run.values("reader")) == [(1, 2), (2, 4), (3, 6)]


def test_a_state_that_is_read_belongs_to_the_input_also_with_others_in_flight(
    finish: Callable[[Run], Run],
) -> None:
    """States fold in the order of the log; each reader sees the one after its own input."""
    run = finish(Workflow("w", root >> total, reader(state_of("total"))).plan(1).plan(10).plan(100))

    folded = [fact.parents[0].value for fact in run.productions("total")]
    expected = {x: sum(folded[: folded.index(x) + 1]) for x in folded}
    assert dict(run.values("reader")) == expected


def test_whether_a_step_ran_covers_this_input() -> None:
    """F65: fires for 1 and for 2."""
    ran = step_ran("root")
    after = rule(when=lambda _, r=ran: r, then=lambda x: x, name="after")
    run = Workflow("w", after, root).run(1)

    run.run(2)

    assert run.values("after") == [1, 2]


def test_a_reader_waits_for_a_long_way_to_what_it_reads() -> None:
    chain = root >> double >> square >> step(lambda x: x + 1, name="last")

    run = Workflow("w", reader(latest("last")), chain).run(3)

    assert run.value("reader") == (3, 37)


def test_a_reader_may_read_its_own_parent() -> None:
    run = Workflow("w", double >> reader(latest("double"))).run(3)

    assert run.value("reader") == (6, 6)


def test_readers_may_read_readers() -> None:
    first = reader(latest("double"), "first")
    second = reader(latest("first"), "second")

    run = Workflow("w", second, first, double).run(1)

    assert run.value("second") == (1, (1, 2))


def test_an_accumulator_may_read_another_one(finish: Callable[[Run], Run]) -> None:
    so_far = state_of("total")
    peak = accumulator(lambda most, _, s=so_far: max(most, s), init=0, name="peak")
    run = Workflow("w", peak, total)

    ran = run.plan()
    for value in (5, -3, 1):
        finish(ran.plan(value))

    assert ran.values("total") == [5, 2, 3]
    assert ran.values("peak") == [5, 5, 5]


def test_a_reduce_may_read_a_state() -> None:
    factor = state_of("total")
    weighted = reduce(lambda acc, x, k=factor: acc + x * k, init=0, name="weighted")
    length = step(len, name="length")

    run = Workflow("w", length >> total, each(root) >> weighted).run([1, 2, 3])

    assert run.value("weighted") == 18


def test_a_condition_may_read_a_state() -> None:
    so_far = state_of("total")
    within = condition(lambda x, s=so_far: s <= 10, name="within")
    run = Workflow("w", total, within >> root).run(6)

    run.run(7)

    assert run.values("root") == [6]


def test_a_shared_condition_may_read_a_state() -> None:
    so_far = state_of("total")
    within = condition(lambda x, s=so_far: s <= 10, name="within")
    first = rule(when=within, then=lambda x: x, name="first")
    second = rule(when=~within, then=lambda x: x, name="second")
    run = Workflow("w", first, second, total).run(6)

    run.run(7)

    assert (run.values("first"), run.values("second")) == ([6], [7])


def test_a_component_may_be_referred_to_by_object() -> None:
    run = Workflow("w", total, reader(state_of(total))).run(3)

    assert run.value("reader") == (3, 3)


def test_a_prepared_reader_keeps_what_it_read() -> None:
    run = Workflow("w", total, reader(state_of("total"))).plan(1)
    run.react()
    [prepared] = run.prepare()

    run.plan(10).apply(run.prepare()[-1].execute())

    assert prepared.execute().result == (1, 1)
    assert next(r for r in run.prepare() if r.component == "reader").execute().result == (1, 1)


# -- the version before --------------------------------------------------------------------------


@pytest.mark.parametrize("reference", [latest("invert"), latest(invert)])
def test_of_what_failed_the_version_before_is_read(reference: object) -> None:
    run = Workflow("w", invert, reader(reference)).plan()

    for value in (2, 0, 4):
        run.run(value)

    assert run.values("reader") == [(2, 0.5), (0, 0.5), (4, 0.25)]


def test_of_what_failed_upstream_the_version_before_is_read() -> None:
    run = Workflow("w", invert >> double, reader(latest("double"))).plan()

    for value in (2, 0, 4):
        run.run(value)

    assert run.values("reader") == [(2, 1.0), (0, 1.0), (4, 0.5)]


def test_of_a_fold_that_failed_the_state_before_is_read() -> None:
    run = Workflow("w", total, reader(state_of("total"))).plan()

    for value in (1, "text", 2):
        run.run(value)

    assert run.values("reader") == [(1, 1), ("text", 1), (2, 3)]


def test_of_what_is_gated_off_the_version_before_is_read() -> None:
    run = Workflow("w", positive >> double, reader(latest("double"))).plan()

    for value in (1, -1, 2):
        run.run(value)

    assert run.values("reader") == [(1, 2), (-1, 2), (2, 4)]


def test_of_what_was_skipped_the_version_before_is_read() -> None:
    run = Workflow("w", double, reader(latest("double"))).run(1)
    run.plan(2)
    [skipped] = run.prepare()

    run.apply(Outcome(skipped.component, skipped.inputs, "skipped"))
    run.react_until_satisfied()

    assert run.values("reader") == [(1, 2), (2, 2)]


def test_of_what_lies_downstream_the_version_before_is_read() -> None:
    first = step(lambda x, read: (x, read), name="first").bind(read=latest("double"))
    second = step(lambda seen: seen[0] * 2, name="double")
    run = Workflow("w", first >> second).plan()

    for value in (1, 2, 3):
        run.run(value)

    assert run.values("first") == [(1, None), (2, 2), (3, 4)]


def test_a_state_downstream_feeds_back_into_the_next_input() -> None:
    capped = step(lambda x, so_far: min(x, 10 - so_far), name="capped").bind(so_far=state_of("total"))
    run = Workflow("w", capped >> total).plan()

    for value in (6, 6, 6):
        run.run(value)

    assert run.values("total") == [6, 10, 10]


def test_a_component_that_reads_itself_reads_the_version_before() -> None:
    smooth = step(lambda x, before: (x + before) / 2, name="smooth").bind(before=latest("smooth", default=0))
    run = Workflow("w", smooth).plan()

    for value in (8, 8, 8):
        run.run(value)

    assert run.values("smooth") == [4, 6, 7]


def test_of_a_join_that_never_fires_the_version_before_is_read() -> None:
    pair = step(lambda a, b: (a, b), name="pair")
    run = Workflow("w", [invert, double] >> pair, reader(latest("pair"))).run(1)

    run.run(0)

    assert run.values("reader") == [(1, (1.0, 2)), (0, (1.0, 2))]


def test_of_a_reduce_whose_batch_failed_the_version_before_is_read() -> None:
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
    run = Workflow("w", each(invert) >> collect, reader(latest("collect"))).run([1])

    run.run([0])

    assert run.values("reader") == [([1], [1.0]), ([0], [1.0])]


def test_of_a_race_that_is_over_the_winner_is_read(finish: Callable[[Run], Run]) -> None:
    won = step(lambda x: x, name="won")

    run = finish(Workflow("w", join(invert, double, wait="any") >> won, reader(latest("won"))).plan(0))

    assert run.values("reader") == [(0, 0)]


# -- the words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "read"),
    [
        (latest("double"), None),
        (latest("double", default="none yet"), "none yet"),
        (all_values("double"), []),
        (fact_count("double"), 0),
        (step_ran("double"), False),
        (state_of("total"), 0),
    ],
    ids=["latest", "latest with a default", "all_values", "fact_count", "step_ran", "state_of"],
)
def test_what_has_made_nothing_reads_as_nothing(reference: object, read: object) -> None:
    """F64."""
    never = condition(lambda _: False, name="never")

    run = Workflow("w", never >> [double, total], reader(reference)).run(1)

    assert run.value("reader") == (1, read)


@pytest.mark.parametrize(
    ("reference", "reads"),
    [
        (latest("double"), [2, 4, 6]),
        (all_values("double"), [[2], [2, 4], [2, 4, 6]]),
        (fact_count("double"), [1, 2, 3]),
        (step_ran("double"), [True, True, True]),
        (state_of("total"), [1, 3, 6]),
        (latest("total"), [1, 3, 6]),
        (all_values("total"), [[1], [1, 3], [1, 3, 6]]),
    ],
    ids=["latest", "all_values", "fact_count", "step_ran", "state_of", "latest state", "all states"],
)
def test_what_has_been_made_so_far_includes_this_input(reference: object, reads: list[object]) -> None:
    run = Workflow("w", reader(reference), double, total).plan()

    for value in (1, 2, 3):
        run.run(value)

    assert [read for _, read in run.values("reader")] == reads


def test_none_is_a_value_that_latest_reads() -> None:
    nothing = step(lambda _: None, name="nothing")

    run = Workflow("w", nothing, reader(latest("nothing", default="none yet"))).run(1)

    assert run.value("reader") == (1, None)


@pytest.mark.parametrize(
    ("reference", "read"),
    [(latest("sink"), 20), (all_values("sink"), [11, 20]), (fact_count("sink"), 2)],
    ids=["latest", "all_values", "fact_count"],
)
def test_several_facts_of_one_input_are_read_in_an_order_of_their_own(
    reference: object, read: object, finish: Callable[[Run], Run]
) -> None:
    """Whichever was finished last: the order is that of the wiring."""
    add_one, sink = step(lambda x: x + 1, name="add_one"), step(lambda x: x, name="sink")

    run = finish(Workflow("w", add_one >> sink, double >> sink, reader(reference)).plan(10))

    assert run.value("reader") == (10, read)


def test_a_list_that_was_read_belongs_to_the_reader() -> None:
    """Changing it changes nothing else."""
    consume = step(lambda x, values: values.clear(), name="consume").bind(values=all_values("double"))

    run = Workflow("w", double, consume).run(1)
    run.run(2)

    assert run.values("double") == [2, 4]


# -- elements ------------------------------------------------------------------------------------


def test_an_element_reads_what_stands_outside(finish: Callable[[Run], Run]) -> None:
    size = accumulator(lambda so_far, xs: so_far + len(xs), init=0, name="size")

    run = finish(Workflow("w", each(reader(state_of("size"))), size).plan([7, 8]))

    assert run.results()["reader"] == [(7, 2), (8, 2)]


def test_an_element_reads_what_was_made_of_the_same_element(finish: Callable[[Run], Run]) -> None:
    run = finish(Workflow("w", each([reader(latest("square")), square])).plan([1, 2, 3]))

    assert run.results()["reader"] == [(1, 1), (2, 4), (3, 9)]


def test_an_element_of_which_nothing_was_made_reads_the_version_before(finish: Callable[[Run], Run]) -> None:
    body = [reader(latest("square")), positive >> square]
    run = finish(Workflow("w", each(body)).plan([5]))

    finish(run.plan([1, -2, 3]))

    assert run.results()["reader"] == [(1, 1), (-2, 25), (3, 9)]


@pytest.mark.parametrize(
    ("reference", "read"),
    [
        (latest("square"), 9),
        (all_values("square"), [1, 4, 9]),
        (fact_count("square"), 3),
        (step_ran("square"), True),
    ],
    ids=["latest", "all_values", "fact_count", "step_ran"],
)
def test_what_stands_outside_reads_all_elements_in_order(
    reference: object, read: object, finish: Callable[[Run], Run]
) -> None:
    run = finish(Workflow("w", reader(reference), each(square)).plan([1, 2, 3]))

    assert run.value("reader") == ([1, 2, 3], read)


@pytest.mark.parametrize("given", [[], 5], ids=["empty", "no collection"])
def test_what_stands_outside_does_not_wait_for_elements_that_never_come(given: object) -> None:
    run = Workflow("w", reader(latest("square", default="none")), each(square)).run(given)

    assert run.value("reader") == (given, "none")


def test_an_element_reads_the_elements_of_another_map(finish: Callable[[Run], Run]) -> None:
    run = finish(Workflow("w", each(reader(all_values("square"))), each(square)).plan([1, 2]))

    assert run.results()["reader"] == [(1, [1, 4]), (2, [1, 4])]


def test_an_inner_element_reads_what_was_made_of_its_outer_one(finish: Callable[[Run], Run]) -> None:
    size = step(len, name="size")

    run = finish(Workflow("w", each([size, each(reader(latest("size")))])).plan([[1, 2], [3], []]))

    assert run.results()["reader"] == [(1, 2), (2, 2), (3, 1)]


def test_an_outer_element_reads_its_own_inner_ones(finish: Callable[[Run], Run]) -> None:
    run = finish(Workflow("w", each([reader(latest("square")), each(square)])).plan([[1, 2], [3]]))

    assert run.results()["reader"] == [([1, 2], 4), ([3], 9)]


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("word", [state_of, latest, all_values, step_ran, fact_count])
def test_a_reference_to_nothing_is_refused(word: Callable[[object], object]) -> None:
    with pytest.raises(UnknownReference, match=rf"'reader' refers to {word.__name__} 'nobody', .*add it first"):
        Workflow("w", reader(word("nobody")), root)


def test_the_state_of_something_without_a_state_is_refused() -> None:
    with pytest.raises(UnknownReference, match=r"'double', which is a step and keeps no state; read latest"):
        Workflow("w", double, reader(state_of("double")))


@pytest.mark.parametrize("fragment", [positive >> root, each(root, name="positive")])
def test_what_makes_no_values_cannot_be_read(fragment: object) -> None:
    with pytest.raises(UnknownReference, match=r"'positive', which is a \w+ and makes no values"):
        Workflow("w", fragment, reader(latest("positive")))


def test_something_without_a_name_cannot_be_referred_to() -> None:
    with pytest.raises(TypeError, match="expected a component with a name, or its name"):
        latest(step(lambda x: x))


@pytest.mark.parametrize(
    ("fragments", "members"),
    [
        ((reader(latest("b"), "a"), reader(latest("a"), "b")), {"a", "b"}),
        ((reader(latest("d"), "b"), reader(latest("b"), "c") >> double.named("d")), {"b", "c", "d"}),
        (
            (reader(latest("b"), "a"), reader(latest("c"), "b"), reader(latest("a"), "c")),
            {"a", "b", "c"},
        ),
    ],
    ids=["two", "by way of an edge", "three"],
)
def test_components_that_would_wait_for_each_other_are_refused(
    fragments: tuple[object, ...], members: set[str]
) -> None:
    with pytest.raises(MutualWait, match=r"wait for each other: .*>>") as caught:
        Workflow("w", *fragments)

    assert set(caught.value.cycle) == members


def test_one_of_two_readers_may_feed_the_other() -> None:
    first = reader(latest("second"), "first")
    second = reader(latest("first"), "second")
    run = Workflow("w", first >> second).run(1)

    run.run(2)

    assert run.values("first") == [(1, None), (2, ((1, None), (1, None)))]


# -- context -------------------------------------------------------------------------------------


def capped(**options: object) -> Workflow:
    return Workflow("w", step(lambda x, n: min(n, x), name="cap").bind(n=context("limit", **options)))


def test_context_is_what_the_caller_hands_over() -> None:
    assert capped().run(9, context={"limit": 5}).output == 5


def test_context_for_one_component_wins() -> None:
    """F68."""
    assert capped().run(9, context={"limit": 5, "cap.limit": 7}).output == 7
    assert capped().run(9, context={"limit": 5, "other.limit": 7}).output == 5


def test_a_default_counts_only_where_the_key_is_absent() -> None:
    """F68."""
    assert capped(default=3).run(9).output == 3
    assert capped(default=3).run(9, context={"limit": 5}).output == 5


def test_a_default_that_is_a_function_is_called_only_when_needed() -> None:
    """F68."""
    calls: list[int] = []

    def make() -> int:
        calls.append(1)
        return 3

    workflow = capped(default=make)

    assert workflow.run(9, context={"limit": 5}).output == 5
    assert calls == []
    assert workflow.run(9).output == 3
    assert calls == [1]


def test_a_default_that_cannot_be_made_is_a_recorded_failure() -> None:
    run = capped(default=lambda: 1 // 0).run(9)

    assert isinstance(run.failures["cap"].__cause__, ZeroDivisionError)


@pytest.mark.parametrize("empty", [None, 0, ""])
def test_an_empty_value_is_given_and_an_empty_default_is_a_default(empty: object) -> None:
    show = reader(context("key", default="default"), "show")

    assert Workflow("w", show).run(1, context={"key": empty}).output == (1, empty)
    assert Workflow("w", reader(context("key", default=empty))).run(1).output == (1, empty)


@pytest.mark.parametrize("start", [Workflow.run, Workflow.react, Workflow.plan, Workflow.plan_eagerly])
def test_a_missing_key_is_an_error_before_anything_runs(start: Callable[..., object]) -> None:
    """F68: it names the key, the component, and what to do."""
    ran: list[int] = []
    workflow = Workflow("w", step(ran.append, name="first"), reader(context("token"), "call"))

    with pytest.raises(MissingContext, match=r"'token' \(for call\); pass context=") as caught:
        start(workflow, 1)

    assert ran == []
    assert caught.value.missing == (("call", "token"),)


def test_all_missing_keys_are_named_at_once() -> None:
    workflow = Workflow("w", reader(context("token"), "a"), reader(context("user"), "b"))

    with pytest.raises(MissingContext, match=r"'token' \(for a\), 'user' \(for b\)"):
        workflow.run(1)


def test_a_key_for_the_component_is_enough() -> None:
    assert Workflow("w", reader(context("token"), "call")).run(1, context={"call.token": "t"}).output == (1, "t")


def test_the_condition_of_a_rule_reads_the_context_of_the_rule() -> None:
    limit = context("limit")
    over = rule(when=lambda x, n=limit: x > n, then=lambda x: x, name="over")

    assert Workflow("w", over).run(9, context={"limit": 99, "over.limit": 5}).values("over") == [9]


def test_context_is_never_logged() -> None:
    workflow = Workflow("w", step(lambda x, key: x + len(key), name="use").bind(key=context("secret")))

    run = workflow.run(1, context={"secret": "hunter2"})

    assert run.output == 8
    assert "hunter2" not in repr(run.log())


def test_context_is_given_again_when_a_run_is_rebuilt() -> None:
    run = capped().plan(9, context={"limit": 5})

    rebuilt = Run.from_log(run.log(), context={"limit": 7})

    assert rebuilt.react_until_satisfied().output == 7
    with pytest.raises(MissingContext):
        Run.from_log(run.log()).react_until_satisfied()
