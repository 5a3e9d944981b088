"""Joins: what a child waits for, what it is given, and that inputs never mix."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from arithmetic import add_one, double, pair, root

from weft import INPUT, Absent, Run, Workflow, condition, each, join, reduce, step
from weft.core.components.step import Step
from weft.core.run.runnable import Outcome
from weft.errors import InvalidJoin, WrongArity
from weft.typing import Wait

triple = step(lambda x: x * 3, name="triple")
never = condition(lambda _: False, name="never")
broken = step(lambda x: x / 0, name="broken")


def gather(name: str = "gather") -> Step:
    """A step that shows everything it is given."""
    return step(lambda *values: values, name=name)


# -- pairing -------------------------------------------------------------------------------------


def test_a_join_gives_its_values_in_the_order_written() -> None:
    """B14."""
    written = Workflow("w", [add_one, double] >> pair)
    reversed_ = Workflow("w", [double, add_one] >> pair)

    assert written.run(5).output == (6, 10)
    assert reversed_.run(5).output == (10, 6)


@pytest.mark.parametrize("first", [0, 1])
def test_the_order_of_arrival_does_not_matter(first: int) -> None:
    """B14."""
    run = Workflow("w", [add_one, double] >> pair).plan(5)
    runnables = run.prepare()

    run.apply(runnables[first].execute())
    run.apply(runnables[1 - first].execute())
    run.react_until_satisfied()

    assert run.values("pair") == [(6, 10)]


def test_a_join_can_feed_several_children() -> None:
    """B15."""
    consumers = [
        step(lambda x, y: x * y, name="product"),
        step(lambda x, y: x + y, name="sum"),
        step(lambda x, y: y - x, name="difference"),
    ]
    run = Workflow("w", join(double, triple) >> consumers).plan(2)

    run.react()

    assert len(run.prepare()) == 3
    assert run.react_until_satisfied().results() == {"product": 24, "sum": 10, "difference": 2}


def test_a_join_is_not_a_runnable_and_waits_for_the_other_parent() -> None:
    """B16: its arrival is part of the fold."""
    run = Workflow("w", [double, triple] >> step(lambda x, y: x + y, name="sum")).plan(5)
    first, second = run.prepare()

    run.apply(first.execute())

    assert [runnable.component for runnable in run.prepare()] == ["triple"]
    assert run.apply(second.execute()).react().output == 25


def test_a_wide_join_fires_once() -> None:
    """B17: in the serial loop; tests/local/test_concurrent.py has the others."""
    branches = [step(lambda x, k=k: x + k, name=f"plus_{k}") for k in (1, 2, 3)]

    run = Workflow("w", root >> branches >> step(lambda *xs: sum(xs), name="sum")).run(5)

    assert run.values("sum") == [21]


def test_a_join_fires_again_for_a_further_input() -> None:
    """B18."""
    run = Workflow("w", [double, triple] >> step(lambda x, y: x + y, name="sum")).run(10)

    run.run(1)

    assert run.values("sum") == [50, 5]


def joins_behind_joins() -> Workflow:
    e, r, h = (step(lambda x, n=n: f"{x}{n}", name=n) for n in "erh")
    classify = step(lambda *xs: "+".join(xs), name="classify")
    generate = step(lambda x: f"g({x})", name="generate")
    process = step(lambda g, x: f"{g}|{x}", name="process")
    return Workflow("w", e >> [r, h], [e, r, h] >> classify >> generate, [generate, e] >> process)


def test_a_join_behind_a_join_fires_once() -> None:
    """B20: run to the end, and cycle by cycle."""
    workflow = joins_behind_joins()
    cycled = workflow.plan("-")

    while cycled.is_runnable:
        cycled.react()

    assert cycled.values("process") == workflow.run("-").values("process") == ["g(-e+-er+-eh)|-e"]


def test_a_join_behind_a_join_fires_once_in_any_order(finish: Callable[[Run], Run]) -> None:
    """B20: by hand."""
    run = finish(joins_behind_joins().plan("-"))

    assert run.values("process") == ["g(-e+-er+-eh)|-e"]


def test_without_a_join_a_child_runs_once_for_each_parent() -> None:
    sink = step(lambda x: x, name="sink")

    run = Workflow("w", root >> add_one >> sink, root >> double >> sink).run(5)

    assert sorted(run.values("sink")) == [6, 10]


def test_a_child_may_have_a_join_and_a_parent_of_its_own() -> None:
    show = gather()

    run = Workflow("w", [add_one, double] >> show, triple >> show).run(5)

    assert sorted(run.values("gather"), key=len) == [(15,), (6, 10)]


def test_one_parent_may_stand_in_a_join_twice() -> None:
    run = Workflow("w", root >> [add_one, add_one] >> pair).run(5)

    assert run.values("pair") == [(6, 6)]


def test_the_input_can_be_a_parent() -> None:
    run = Workflow("w", [INPUT, double] >> pair).run(5)

    assert run.output == (5, 10)


def test_a_condition_in_a_join_gives_what_it_lets_through() -> None:
    is_odd = condition(lambda x: x % 2 == 1, name="is_odd")
    workflow = Workflow("w", [is_odd, double] >> pair)

    assert workflow.run(5).results() == {"pair": (5, 10)}
    assert workflow.run(4).values("pair") == []


def test_a_join_of_a_thousand_parents_fires_once() -> None:
    parents = [step(lambda x, k=k: x + k, name=f"p{k}") for k in range(1000)]

    run = Workflow("w", parents >> step(lambda *xs: sum(xs), name="sum")).run(0)

    assert run.values("sum") == [sum(range(1000))]


# -- several inputs in flight --------------------------------------------------------------------


def test_inputs_in_flight_never_mix(finish: Callable[[Run], Run]) -> None:
    run = Workflow("w", root >> [add_one, double] >> pair).plan()
    for value in (1, 10, 100, 10):
        run.plan(value)

    finish(run)

    assert sorted(run.values("pair")) == [(2, 2), (11, 20), (11, 20), (101, 200)]


def test_the_failure_of_one_input_leaves_the_others_alone() -> None:
    def invert(x: int) -> float:
        return 1 / x

    run = Workflow("w", [step(invert), double] >> pair).plan()
    for value in (1, 0, 2):
        run.plan(value)

    run.react_until_satisfied()

    assert run.values("pair") == [(1.0, 2), (0.5, 4)]
    assert list(run.failures) == ["invert"]
    assert run.status == "idle"


@pytest.mark.parametrize(
    ("wait", "given"),
    [
        ("all", {1: [(1.0, 2)], 0: []}),
        ("all_done", {1: [(1.0, 2)], 0: [(Absent("invert", "failed"), 0)]}),
        (1, {0: [(0,)]}),
    ],
)
def test_a_failing_parent_counts_for_its_own_input_alone(
    wait: Wait, given: dict[int, list[object]], finish: Callable[[Run], Run]
) -> None:
    invert = step(lambda x: 1 / x, name="invert")
    run = Workflow("w", join(invert, double, wait=wait) >> gather()).plan()
    for value in given:
        run.plan(value)

    finish(run)

    made = [fact.value for fact in run.productions("gather")]
    assert sorted(made, key=repr) == sorted(itertools.chain.from_iterable(given.values()), key=repr)
    assert run.status == "idle"


# -- what to wait for ----------------------------------------------------------------------------


def test_all_waits_for_a_value_of_every_parent() -> None:
    run = Workflow("w", join(add_one, double, triple) >> gather()).run(5)

    assert run.values("gather") == [(6, 10, 15)]


@pytest.mark.parametrize("parent", [broken, never >> step(lambda x: x, name="gated")], ids=["failed", "gated"])
def test_all_never_fires_if_a_parent_made_nothing(parent: object) -> None:
    run = Workflow("w", join(parent, double, wait="all") >> pair).run(5)

    assert run.values("pair") == []
    assert run.status == "idle"


@pytest.mark.parametrize("first", [0, 1])
def test_any_fires_once_with_the_first_value(first: int) -> None:
    run = Workflow("w", join(add_one, double, wait="any") >> gather()).plan(5)
    runnables = run.prepare()

    run.apply(runnables[first].execute())
    run.react_until_satisfied()

    assert run.values("gather") == [((6, 10)[first],)]


@pytest.mark.parametrize("parent", [broken, never >> step(lambda x: x, name="gated")], ids=["failed", "gated"])
def test_any_fires_with_the_parent_that_made_something(parent: object) -> None:
    run = Workflow("w", join(parent, double, wait="any") >> gather()).run(5)

    assert run.values("gather") == [(10,)]


def test_any_never_fires_if_no_parent_made_anything() -> None:
    run = Workflow("w", join(broken, broken.named("broken_too"), wait="any") >> gather()).run(5)

    assert run.values("gather") == []
    assert run.status == "idle"


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_n_fires_once_with_n_values_in_the_order_written(order: tuple[int, ...]) -> None:
    run = Workflow("w", join(add_one, double, triple, wait=2) >> gather()).plan(5)
    runnables = run.prepare()

    for index in order:
        run.apply(runnables[index].execute())
    run.react_until_satisfied()

    assert run.values("gather") == [tuple((6, 10, 15)[index] for index in sorted(order[:2]))]


@pytest.mark.parametrize("parent", [broken, never >> step(lambda x: x, name="gated")], ids=["failed", "gated"])
def test_n_needs_no_parent_beyond_n(parent: object) -> None:
    run = Workflow("w", join(add_one, parent, triple, wait=2) >> gather()).run(5)

    assert run.values("gather") == [(6, 15)]


def test_n_never_fires_if_fewer_made_something() -> None:
    run = Workflow("w", join(add_one, broken, broken.named("broken_too"), wait=2) >> gather()).run(5)

    assert run.values("gather") == []
    assert run.status == "idle"


def test_n_of_n_is_all() -> None:
    run = Workflow("w", join(add_one, double, wait=2) >> gather()).run(5)

    assert run.values("gather") == [(6, 10)]


def test_all_done_gives_every_value_if_all_succeed() -> None:
    run = Workflow("w", join(add_one, double, wait="all_done") >> pair).run(5)

    assert run.values("pair") == [(6, 10)]


@pytest.mark.parametrize(
    ("parent", "absent"),
    [
        (broken, Absent("broken", "failed")),
        (broken >> step(lambda x: x, name="after"), Absent("after", "failed")),
        (never >> step(lambda x: x, name="gated"), Absent("gated", "gated")),
        (
            never >> step(lambda x: x, name="gated") >> step(lambda x: x, name="after"),
            Absent("after", "gated"),
        ),
    ],
    ids=["failed", "behind a failed one", "gated", "behind a gated one"],
)
def test_all_done_says_why_a_value_is_absent(parent: object, absent: Absent) -> None:
    run = Workflow("w", join(parent, double, wait="all_done") >> pair).run(5)

    assert run.values("pair") == [(absent, 10)]
    assert run.status == "idle"


def test_all_done_says_that_a_parent_was_skipped() -> None:
    run = Workflow("w", join(add_one, double, wait="all_done") >> pair).plan(5)
    skipped, other = run.prepare()

    run.apply(Outcome(skipped.component, skipped.inputs, "skipped"))
    run.apply(other.execute())
    run.react_until_satisfied()

    assert run.output == (Absent("add_one", "skipped"), 10)
    assert run.skipped == ["add_one"]
    assert not run.failed


def test_all_done_fires_also_if_nothing_was_made() -> None:
    run = Workflow("w", join(broken, broken.named("broken_too"), wait="all_done") >> pair).run(5)

    assert run.values("pair") == [(Absent("broken", "failed"), Absent("broken_too", "failed"))]


def test_two_joins_of_which_nothing_was_made_are_still_two() -> None:
    a, b, c, d = (broken.named(name) for name in "abcd")
    names = step(lambda x, y: x.component + y.component, name="names")

    run = Workflow("w", join(a, b, wait="all_done") >> names, join(c, d, wait="all_done") >> names).run(5)

    assert sorted(run.values("names")) == ["ab", "cd"]


def test_all_done_waits_for_the_slowest() -> None:
    run = Workflow("w", join(broken, double, wait="all_done") >> pair).plan(5)
    failing, other = run.prepare()

    run.apply(failing.execute())

    assert [runnable.component for runnable in run.prepare()] == ["double"]
    assert run.apply(other.execute()).is_runnable


def test_what_was_absent_is_false_and_comes_from_the_input() -> None:
    run = Workflow("w", join(broken, double, wait="all_done") >> pair).run(5)
    absent, _ = run.fact("pair").parents

    assert not absent.value
    assert [fact.producer for fact in run.lineage(absent)] == [None, "broken"]


def test_a_join_takes_in_the_failure_of_an_element() -> None:
    """The batch is whole, since every element gave something."""
    invert = step(lambda x: 1 / x, name="invert")
    safe = step(lambda value, x: (bool(value), x), name="safe")
    as_function = reduce(lambda acc, x: [*acc, x], init=list, name="together")

    run = Workflow("w", each(join(invert, double, wait="all_done") >> safe) >> as_function).run([1, 0, 2])

    assert run.output == [(True, 2), (False, 0), (True, 4)]


def test_one_list_of_parents_may_feed_children_that_wait_differently() -> None:
    first, every = gather("first"), gather("every")

    run = Workflow("w", join(broken, double, wait="any") >> first, join(broken, double) >> every).run(5)

    assert run.values("first") == [(10,)]
    assert run.values("every") == []


# -- elements ------------------------------------------------------------------------------------


def test_a_join_inside_each_pairs_values_of_the_same_element(finish: Callable[[Run], Run]) -> None:
    as_function = reduce(lambda acc, x: [*acc, x], init=list, name="together")
    run = Workflow("w", each([add_one, double] >> pair) >> as_function).plan([1, 2, 3]).plan([2])

    finish(run)

    assert sorted(run.values("together")) == [[(2, 2), (3, 4), (4, 6)], [(3, 4)]]


# -- several facts of one parent -----------------------------------------------------------------


def zipped(wait: Wait = "all") -> Workflow:
    """Two parents that make two facts each of one input."""
    minus, tenfold = step(lambda x: -x, name="minus"), step(lambda x: x * 10, name="tenfold")
    return Workflow(
        "w",
        add_one >> [minus, tenfold],
        double >> minus,
        double >> tenfold,
        join(minus, tenfold, wait=wait) >> pair,
    )


@pytest.mark.parametrize("wait", ["all", "all_done"])
def test_several_facts_of_one_input_are_zipped(wait: Wait, finish: Callable[[Run], Run]) -> None:
    run = finish(zipped(wait).plan(5))

    assert sorted(run.values("pair")) == [(-10, 100), (-6, 60)]


def test_zipping_keeps_inputs_apart(finish: Callable[[Run], Run]) -> None:
    run = finish(zipped().plan(5).plan(7))

    assert sorted(run.values("pair")) == [(-14, 140), (-10, 100), (-8, 80), (-6, 60)]


def test_what_has_no_partner_is_left_over() -> None:
    tenfold = step(lambda x: x * 10, name="tenfold")

    run = Workflow("w", add_one >> tenfold, double >> tenfold, [tenfold, triple] >> pair).run(5)

    assert run.values("pair") == [(60, 15)]
    assert run.status == "idle"


def test_all_done_pairs_what_has_no_partner_with_an_absent_one() -> None:
    tenfold = step(lambda x: x * 10, name="tenfold")
    joined = join(tenfold, triple, wait="all_done")

    run = Workflow("w", add_one >> tenfold, double >> tenfold, joined >> pair).run(5)

    assert [(a, bool(b)) for a, b in run.values("pair")] == [(60, True), (100, False)]


def test_any_fires_once_also_if_a_parent_makes_several_facts() -> None:
    tenfold = step(lambda x: x * 10, name="tenfold")
    joined = join(tenfold, triple, wait="any")

    run = Workflow("w", add_one >> tenfold, double >> tenfold, joined >> gather()).run(5)

    assert len(run.values("gather")) == 1


# -- what is refused -----------------------------------------------------------------------------


def test_a_join_of_one_parent_is_refused() -> None:
    with pytest.raises(InvalidJoin, match=r"join\(add_one\) has 1 parent\(s\) and needs at least two"):
        join(add_one)


def test_a_join_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidJoin, match="needs at least two"):
        join()


@pytest.mark.parametrize("wait", [0, 3, -1, True, "some", 1.5, None])
def test_a_wait_that_makes_no_sense_is_refused(wait: object) -> None:
    with pytest.raises(InvalidJoin, match="wait="):
        join(add_one, double, wait=wait)


@pytest.mark.parametrize(("wait", "gets"), [("any", 1), (1, 1), (2, 2), ("all", 3), ("all_done", 3)])
def test_the_child_must_take_what_the_join_gives(wait: Wait, gets: int) -> None:
    four = step(lambda a, b, c, d: (a, b, c, d), name="four")

    with pytest.raises(WrongArity, match=f"'four' takes 4 .* and gets {gets} from"):
        Workflow("w", join(add_one, double, triple, wait=wait) >> four)


def test_a_component_that_takes_one_value_refuses_a_join() -> None:
    with pytest.raises(InvalidJoin, match="'total' is a reduce and takes no join of add_one, double"):
        Workflow("w", [add_one, double] >> reduce(lambda acc, x: acc + x, init=0, name="total"))


def test_a_join_inside_a_list_is_refused() -> None:
    with pytest.raises(InvalidJoin, match="a join inside a list would lose what it waits for"):
        [join(add_one, double, wait="any"), triple] >> pair


def test_nothing_goes_into_a_bare_join() -> None:
    with pytest.raises(InvalidJoin):
        Workflow("w", INPUT >> join(INPUT, INPUT))


@pytest.mark.parametrize("wait", ["any", "all_done", 1])
def test_a_join_behind_something_else_waits_for_what_it_says(wait: Wait) -> None:
    first, left, right = (step(lambda x: x, name=name) for name in ("first", "left", "right"))
    then = step(lambda *values: values, name="then")

    flow = Workflow("w", first >> join(left, right, wait=wait) >> then)

    assert flow == Workflow("w", first >> [left, right], join(left, right, wait=wait) >> then)
