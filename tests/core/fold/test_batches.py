"""Batches: in order whichever element ends first, and without sorting what can be kept by index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weft import Aggregate, Run, Workflow, condition, each, reduce, repeat, step
from weft.core.events import FannedOut
from weft.core.fold import batches
from weft.core.fold.batches import BatchState
from weft.core.fold.scope import Order, Scope
from weft.core.lineage.lineage import Cell, Element
from weft.core.plan.node import CollectNode, FunctionNode, Kind
from weft.core.run.runnable import RunnableRef

TOTAL = FunctionNode(name="total", owner="total", kind=Kind.WORK, region=None, call=sum)
COLLECT = CollectNode(
    name="total.collect",
    owner="total",
    kind=Kind.COLLECT,
    region=None,
    reduce=TOTAL,
    closes_region=True,
    arrival_orders=(None,),
)
FANS: list[Order] = [(), (0,), (1, 2)]
ORDERS: list[Order] = [(), (0,), (1,), (1, 0)]

Arrival = tuple[int, Order, int, Order]
"""The port, the order of the collection, the index of the element, and the order within the element."""

arrivals = st.tuples(st.integers(0, 2), st.sampled_from(FANS), st.integers(0, 9), st.sampled_from(ORDERS))


def scope_around(batch: BatchState) -> Scope:
    """Return the scope whose collect holds *batch*."""
    return Scope(1, 1, Workflow("w").compiled, {}, slots={COLLECT.name: batch})


def gathered(came: list[Arrival], most: int = batches.MOST_RESULTS) -> BatchState:
    """Return the batch of what *came*, by the numbers of its arrival, where each collection has *most* lists."""
    batch = BatchState([((0, fan), FannedOut(1, "each", (1,), ())) for fan in FANS])
    outer = scope_around(batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "MOST_RESULTS", most)
        for number, (port, fan, index, order) in enumerate(came):
            equal = fan if number % 2 else (*fan,)  # the same collection, whether it is the same tuple or not
            inner = Scope((1, index), index, outer.plan, {}, outer, "each", equal)
            batches.gather((COLLECT, port), Element(number, None, "", 1), inner, order)
    return batch


def numbers(batch: BatchState) -> list[object]:
    """Return the facts of *batch*, each by the number of its arrival."""
    return [fact.address for fact in batch.in_order()]


@given(st.lists(arrivals, max_size=40), st.sampled_from([0, 1, batches.MOST_RESULTS]))
@example([(0, (), 1, ()), (0, (), 0, (0,)), (0, (), 1, ()), (0, (), 0, ())], 32)
def test_facts_are_sorted_by_place_and_those_of_one_place_by_arrival(came: list[Arrival], most: int) -> None:
    assert numbers(gathered(came, most)) == sorted(range(len(came)), key=came.__getitem__)


@given(st.lists(arrivals, unique=True, max_size=40), st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_arrival(came: list[Arrival], random: Random) -> None:
    mixed = random.sample(came, len(came))

    assert [mixed[number] for number in map(int, numbers(gathered(mixed)))] == sorted(came)


@given(st.lists(arrivals, unique=True, max_size=40))
def test_what_has_a_place_of_its_own_is_not_sorted(came: list[Arrival]) -> None:
    batch = gathered(came)

    assert (batch.facts, batch.places) == ([], [])


def test_there_are_no_holes_once_every_element_has_ended() -> None:
    (results,) = gathered([(0, (), index, ()) for index in (2, 0, 3, 1)]).results.values()

    assert results.holes == 0
    assert results.present() is results.facts


def test_elements_that_end_in_their_order_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[Order] = []
    add = BatchState.add
    monkeypatch.setattr(BatchState, "add", lambda *given: looked_up.append(given[3]) or add(*given))

    drive(WORKFLOWS["one port"].plan([1, 2, 3]), First())

    assert looked_up == [()]


def test_facts_of_very_many_orders_take_no_lists_of_their_own() -> None:
    came: list[Arrival] = [(0, (), index, (index,)) for index in range(1000)]

    assert len(gathered(came[:90]).results) == 90
    batch = gathered(came)
    assert (len(batch.results), len(batch.facts)) == (0, 1000)
    assert numbers(batch) == list(range(1000))


def test_nothing_is_kept_of_what_a_barred_batch_gathers() -> None:
    outer = scope_around(batches.BARRED)
    inner = Scope((1, 0), 0, outer.plan, {}, outer, "each")

    batches.gather((COLLECT, 0), Element((1, 0), None, "each", 1, 0), inner, ())

    assert outer.held(COLLECT.name) is batches.BARRED


# -- whole runs ----------------------------------------------------------------------------------

double = step(lambda x: 2 * x, name="double")
negate = step(lambda x: -x, name="negate")
same = step(lambda x: x, name="same")
invert = step(lambda x: 6 // x, name="invert")
even = condition(lambda x: x % 2 == 0, name="even")
first = step(lambda xs: xs[:3], name="first")
rest = step(lambda xs: xs[3:], name="rest")
pairs = step(lambda x: [x, x + 1], name="pairs")
total = reduce(lambda so_far, x: [*so_far, x], init=list, name="total")
inner_total = reduce(lambda so_far, x: [*so_far, x], init=list, name="inner")
handled = step(lambda failure: failure.component, name="handled")
halves = repeat(lambda x: x // 2, until=lambda x: x < 1, at_most=4, name="half")
spread = each(same)


def talker() -> Aggregate:
    """Return a component that makes several facts of one."""
    made = Aggregate("talker", init=0)
    made.command("say", when=lambda s, c: True)(lambda s, c: [("said", c[1] + i) for i in range(c[1] % 4)])
    made.event("said")(lambda s, n: s + n)
    return made


def workflows() -> dict[str, Workflow]:
    command = step(lambda x: ("say", x), name="command")
    return {
        "one port": Workflow("w", each(double >> negate) >> total),
        "elements": Workflow("w", each(even) >> total),
        "two ports of one map": Workflow("w", each([double, negate]), double >> total, negate >> total),
        "two maps": Workflow("w", each(double) >> total, each(negate) >> total),
        "a collection from each of two": Workflow("w", first >> spread, rest >> spread, same >> total),
        "two orders in an element": Workflow(
            "w", each([double, even]), double >> negate, even >> negate, negate >> total
        ),
        "several facts of an element": Workflow("w", each(command >> talker()) >> total),
        "a map in a map": Workflow("w", each(pairs >> each(double) >> inner_total) >> total),
        "a map in a map, with holes": Workflow("w", each(even >> pairs >> each(double) >> inner_total) >> total),
        "failures that are handled": Workflow("w", each(invert) >> total, invert.on_error(then=handled >> total)),
        "a failure": Workflow("w", each(invert) >> total),
        "a loop": Workflow("w", each(halves) >> total),
        "no map": Workflow("w", first >> total, rest >> total),
    }


WORKFLOWS = workflows()
PAGE = 3


@contextmanager
def checked() -> Iterator[list[int]]:
    """Compare every batch with its facts sorted by place as they arrived; give how many facts each had."""
    arrived: dict[int, tuple[BatchState, list[tuple[Order, Cell]]]] = {}
    lengths: list[int] = []
    gather, in_order = batches.gather, BatchState.in_order

    def noted(route: tuple[CollectNode, int], fact: Cell, scope: Scope, order: Order) -> None:
        gather(route, fact, scope, order)
        collect, port = route
        outer: Any = scope.parent if collect.closes_region else scope
        place: Order = (port, scope.order, scope.index, order) if collect.closes_region else (port, order)
        batch = outer.held(collect.name)
        arrived.setdefault(id(batch), (batch, []))[1].append((place, fact))

    def compared(batch: BatchState) -> tuple[Cell, ...]:
        facts = in_order(batch)
        _, known = arrived.get(id(batch), (batch, []))
        assert facts == tuple(fact for _, fact in sorted(known, key=lambda each: each[0]))
        lengths.append(len(facts))
        return facts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "gather", noted)
        patch.setattr(BatchState, "in_order", compared)
        yield lengths


class First(Random):
    """Chooses what comes first."""

    def choice(self, seq: Sequence[Any]) -> Any:
        return seq[0]


def drive(run: Run, random: Random, events: int | None = None) -> Run:
    """Let what is ready end in any order, until there is nothing left or the log has as many *events*."""
    while run.memory.ready and len(run.memory.log) != events:
        activation = random.choice(run.memory.opened())
        run.apply(run.runnable(RunnableRef(*activation.key)).execute())
    return run


shapes = pytest.mark.parametrize("shape", WORKFLOWS)
values = st.lists(st.integers(0, 12), max_size=8)
randoms = st.randoms(use_true_random=False)


@shapes
@given(value=values, random=randoms, paged=st.booleans())
def test_a_run_comes_to_the_same_whichever_element_ends_first(
    shape: str, value: list[int], random: Random, *, paged: bool
) -> None:
    workflow = WORKFLOWS[shape]
    run = Run(workflow, id="r")
    run.memory.page = PAGE if paged else None

    with checked():
        drive(run.plan(value), random)

    assert run.values("total") == workflow.run(value).values("total")
    assert Run.from_log(run.log()) == run


@shapes
@given(value=values, random=randoms, events=st.integers(2, 20))
def test_a_run_that_is_resumed_and_one_that_is_forked_come_to_the_same(
    shape: str, value: list[int], random: Random, events: int
) -> None:
    workflow = WORKFLOWS[shape]
    with checked():
        run = drive(workflow.plan(value), random, events)
        frozen, log = run.frozen_copy(), run.log()
        resumed = drive(Run.from_log(log), random)
        forked = drive(Run.from_log(resumed.log()[:events]), random)
        drive(run, random)

    expected = workflow.run(value).values("total")
    assert [each.values("total") for each in (run, resumed, forked)] == [expected] * 3
    assert frozen == Run.from_log(log)


def test_every_batch_of_these_runs_is_compared() -> None:
    with checked() as lengths:
        drive(WORKFLOWS["a map in a map"].plan([1, 2, 3]), Random(0))  # noqa: S311

    assert lengths == [2, 2, 2, 3]


def test_a_reduce_of_many_elements_is_not_sorted_whichever_ends_first(monkeypatch: pytest.MonkeyPatch) -> None:
    complete: list[BatchState] = []
    in_order = BatchState.in_order
    monkeypatch.setattr(BatchState, "in_order", lambda batch: complete.append(batch) or in_order(batch))

    run = drive(WORKFLOWS["two ports of one map"].plan(list(range(100))), Random(1))  # noqa: S311

    assert run.values("total") == [[*range(0, 200, 2), *range(0, -100, -1)]]
    assert [(len(batch.results), batch.facts, batch.places) for batch in complete] == [(2, [], [])]
