"""Calls inside ``@workflow``: which component each one draws, and what feeds it."""

# ruff: noqa: PLW0108 - a function that is traced is written out

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from crawling import crawl, fetch, pair, report, title, words

from weft import (
    FSM,
    Aggregate,
    Component,
    ProcessManager,
    Saga,
    Workflow,
    accumulator,
    condition,
    context,
    each,
    join,
    reduce,
    repeat,
    rule,
    state_machine,
    state_of,
    step,
    workflow,
)
from weft.core.components.saga_outcome import SagaOutcome
from weft.errors import (
    DuplicateName,
    InvalidComponent,
    NoRun,
    NothingProduced,
    TracingError,
)

# -- calls become edges ----------------------------------------------------------------------------


def test_calling_steps_draws_the_graph() -> None:
    assert crawl.edges() == {("fetch", "title"), ("fetch", "words"), ("title", "report"), ("words", "report")}
    assert crawl.name == "crawl"


def test_the_function_runs_once_and_no_step_runs_while_it_is_drawn() -> None:
    drawn: list[str] = []
    ran: list[int] = []
    work = step(lambda x: ran.append(x) or x, name="work")

    @workflow
    def flow(x: int) -> int:
        drawn.append("drawn")
        return work(x)

    assert (drawn, ran) == (["drawn"], [])

    flow.run(1)
    flow.run(2)

    assert (drawn, ran) == (["drawn"], [1, 2])


def test_the_output_is_what_was_returned_and_the_results_are_those_of_the_leaves() -> None:
    run = crawl.run("weft.dev")

    assert run.output == {"title": "Page Of Weft.Dev", "words": ["page", "weft.dev"]}
    assert run.results() == {"report": run.output}


def test_a_traced_workflow_is_the_workflow_that_is_written_with_arrows() -> None:
    written = Workflow("crawl", fetch >> [title, words.bind(minimum=4)] >> report)

    assert crawl.hash == written.hash
    assert crawl.version == written.version
    assert crawl == written


def test_a_name_can_be_given() -> None:
    @workflow(name="other")
    def flow(x: int) -> str:
        return title(x)

    assert flow.name == "other"


def test_parents_are_joined_in_the_order_of_the_parameters_also_by_keyword() -> None:
    @workflow
    def flow(x: str) -> list[Any]:
        return pair(b=title(x), a=fetch(x))

    assert flow.run("x").output == ["page of x", "X"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda f, x: f(x, 10), 8),
        (lambda f, x: f(10, x), -8),
        (lambda f, x: f(b=10, a=x), 8),
        (lambda f, x: f(a=10, b=x), -8),
        (lambda f, x: f.bind(a=10)(x), -8),
        (lambda f, x: f.bind(b=1)(x, b=10), 8),
    ],
)
def test_a_constant_is_bound_wherever_it_stands(call: Callable[..., Any], expected: int) -> None:
    minus = step(lambda a, b: b - a, name="minus")

    flow = workflow(lambda x: call(minus, x), name="flow")

    assert flow.run(2).output == expected


def test_a_value_can_take_the_place_of_a_default() -> None:
    five = step(lambda text: 5, name="five")

    @workflow
    def flow(text: str) -> list[str]:
        return words(text, minimum=five(text))

    assert flow.run("a short sentence").output == ["short", "sentence"]
    assert flow.run("a short sentence", parallel=2).output == ["short", "sentence"]
    assert flow.component("words").identity != words.identity


def test_a_keyword_only_parameter_takes_a_value_too() -> None:
    @step
    def power(base: int, *, exponent: int) -> int:
        return base**exponent

    double = step(lambda x: x * 2, name="double")
    flow = workflow(lambda x: power(x, exponent=double(x)), name="flow")

    assert flow.run(3).output == 3**6


def test_a_context_can_be_handed_over_as_a_constant() -> None:
    flow = workflow(lambda text: words(text, minimum=context("least")), name="flow")

    assert flow.run("a few words", context={"least": 4}).output == ["words"]


def test_any_number_of_values_is_a_join() -> None:
    total = step(lambda *values: sum(values), name="total")
    double = step(lambda x: x * 2, name="double")
    flow = workflow(lambda x: total(x, double(x), double(x)), name="flow")

    assert flow.run(1).output == 5


def test_a_step_that_is_called_again_is_another_component() -> None:
    @workflow
    def flow(x: str) -> list[Any]:
        return pair(title(x), title(fetch(x)))

    assert set(flow.components) == {"title", "title_2", "fetch", "pair"}
    assert flow.run("x").output == ["X", "Page Of X"]


def test_a_step_can_be_given_another_name_by_hand() -> None:
    flow = workflow(lambda x: title.named("heading")(x), name="flow")

    assert set(flow.components) == {"heading"}


def test_a_lambda_without_a_name_can_be_called_twice() -> None:
    bump = step(lambda x: x + 1)
    flow = workflow(lambda x: bump(bump(x)), name="flow")

    assert flow.run(1).output == 3
    assert set(flow.components) == {"step_1", "step_2"}


def test_one_name_for_two_different_steps_is_refused() -> None:
    one, other = step(lambda x: 1, name="same"), step(lambda x: 2, name="same")

    with pytest.raises(DuplicateName, match="same"):
        workflow(lambda x: pair(one(x), other(x)), name="flow")


def test_a_step_without_values_is_triggered_by_the_input() -> None:
    now = step(lambda: "now", name="now")
    flow = workflow(lambda x: pair(now(), fetch("weft.dev")), name="flow")

    assert flow.run(None).output == ["now", "page of weft.dev"]


def test_spread_takes_one_value_apart() -> None:
    add = step(lambda a, b: a + b, name="add", spread=True)
    flow = workflow(lambda both: add(both), name="flow")

    assert flow.run([1, 2]).output == 3


# -- other components ------------------------------------------------------------------------------


def test_a_condition_gates_what_it_is_handed_to() -> None:
    is_large = condition(lambda x: x > 10, name="is_large")
    half = step(lambda x: x // 2, name="half")
    flow = workflow(lambda x: half(is_large(x)), name="flow")

    assert flow == Workflow("flow", is_large >> half)
    assert flow.run(12).output == 6
    with pytest.raises(NothingProduced):
        _ = flow.run(3).output


def test_a_composed_condition_and_a_rule_can_be_called() -> None:
    is_int = condition(lambda x: isinstance(x, int), name="is_int")
    is_even = condition(lambda x: x % 2 == 0, name="is_even")
    odd = rule(when=is_int & ~is_even, then=lambda x: ("odd", x), name="odd")
    even = step(lambda x: ("even", x), name="even")
    flow = workflow(lambda x: {"odd": odd(x), "even": even((is_int & is_even)(x))}, name="flow")

    assert flow.run(3).output == {"odd": ("odd", 3)}
    assert flow.run(4).output == {"even": ("even", 4)}


def test_each_and_reduce_are_called_on_collections() -> None:
    total = reduce(lambda acc, x: acc + x, init=0, name="total")
    square = step(lambda x: x * x, name="square")
    flow = workflow(lambda xs: total(each(square)(xs)), name="flow")

    assert flow == Workflow("flow", each(square) >> total)
    assert flow.run([1, 2, 3]).output == 14


def test_a_value_inside_an_each_is_returned_as_a_list() -> None:
    square = step(lambda x: x * x, name="square")
    flow = workflow(lambda xs: each(square)(xs), name="flow")

    assert flow.run([1, 2, 3]).output == [1, 4, 9]


def test_a_body_of_several_ends_gives_one_value_for_each() -> None:
    square, cube = step(lambda x: x**2, name="square"), step(lambda x: x**3, name="cube")
    total = reduce(lambda acc, x: acc + x, init=0, name="total")

    @workflow
    def flow(xs: list[int]) -> Any:
        squares, cubes = each([square, cube])(xs)
        return {"squares": total(squares), "cubes": total(cubes)}

    assert flow.run([1, 2]).output == {"squares": 5, "cubes": 9}


def test_an_accumulator_is_called_with_what_it_folds() -> None:
    spent = accumulator(lambda state, amount: state + amount, init=0, name="spent")
    over = step(lambda amount, total=state_of("spent"): total > 10, name="over")

    @workflow
    def flow(amount: int) -> tuple[int, bool]:
        return spent(amount), over(amount)

    run = flow.run(8)

    assert run.output == (8, False)
    assert run.run(5).output == (13, True)


def test_a_join_waits_for_what_it_says() -> None:
    fails, works = step(lambda x: 1 // 0, name="fails"), step(lambda x: x, name="works")
    first = step(lambda x: x, name="first")
    flow = workflow(lambda x: first(join(fails(x), works(x), wait="any")), name="flow")

    assert flow == Workflow("flow", join(fails, works, wait="any") >> first)
    assert flow.run(5).output == 5


@pytest.mark.parametrize("kind", ["reduce", "accumulator", "rule"])
def test_a_component_without_constants_says_so(kind: str) -> None:
    things = {
        "reduce": reduce(lambda acc, x: acc, init=0, name="reduce"),
        "accumulator": accumulator(lambda acc, x: acc, init=0, name="accumulator"),
        "rule": rule(then=lambda x, y: x, name="rule"),
    }

    with pytest.raises(TracingError, match=r"takes no constants.*default"):
        workflow(lambda x: things[kind](x, 5), name="flow")


def test_each_outside_of_a_trace_says_what_to_write() -> None:
    with pytest.raises(NoRun, match="source >> each"):
        each(title)(["a"])


# -- every component -------------------------------------------------------------------------------


def machine() -> Component:
    return state_machine("level", init=0, reducer=lambda a, b: a + b, reactors={"log": lambda level: level})


def fsm() -> Component:
    return FSM("door", initial="shut", states={"shut": {"open": "ajar"}, "ajar": {}})


def account() -> Component:
    made = Aggregate("account", init=0)
    made.command("add")(lambda state, command: ("added", 1))
    made.event("added")(lambda state, amount: state + amount)
    return made


def manager() -> Component:
    made = ProcessManager("manager", init=0)
    made.on("paid")(lambda state, event: (state + 1, ["pack"]))
    return made


def trip() -> Component:
    made = Saga("trip")
    made.transaction(lambda request, results: request, name="book", compensate=None)
    return made


def halve() -> Component:
    return repeat(lambda x: x // 2, until=lambda x: x < 10, at_most=8, name="halve")


@pytest.mark.parametrize(
    ("make", "given", "made"),
    [
        (machine, 5, 5),
        (fsm, "open", "ajar"),
        (account, "add", ("added", 1)),
        (manager, "paid", "pack"),
        (trip, 3, SagaOutcome("completed", results={"book": 3})),
        (halve, 100, 6),
    ],
    ids=["state_machine", "fsm", "aggregate", "process_manager", "saga", "repeat"],
)
def test_calling_a_compound_component_draws_it(make: Callable[[], Any], given: Any, made: Any) -> None:
    component, before, after = make(), step(lambda x: x, name="before"), step(lambda x: x, name="after")

    traced = workflow(lambda x: after(component(before(x))), name="w")

    assert traced == Workflow("w", before >> make() >> after)
    assert traced.run(given).output == made
    assert list(workflow(lambda x: (component(x), component(before(x))), name="twice").components)[-1].endswith("_2")


@pytest.mark.parametrize("make", [machine, fsm, account, manager, trip])
def test_what_has_no_value_by_itself_says_so_when_it_is_called_elsewhere(make: Callable[[], Any]) -> None:
    with pytest.raises(NoRun, match=r"inside @workflow only; elsewhere make a workflow of it: Workflow\(name, "):
        make()(3)


def test_a_builder_that_was_drawn_is_sealed() -> None:
    saga = Saga("trip")
    saga.transaction(lambda request, results: request, name="book", compensate=None)
    workflow(lambda x: saga(x), name="w")

    with pytest.raises(InvalidComponent, match="cannot change any more"):
        saga.transaction(lambda request, results: request, name="pay", compensate=None)
