"""Graphs drawn by calling steps: what a call becomes, what is refused, and what a traced workflow returns."""

# ruff: noqa: PLW0108 - a function that is traced is written out

from __future__ import annotations

import asyncio
import copy
import math
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from weft import (
    FSM,
    INPUT,
    Aggregate,
    Component,
    ProcessManager,
    Run,
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
from weft.core.compose.symbol import tracing
from weft.errors import (
    CannotSpread,
    DuplicateName,
    InvalidComponent,
    NoRun,
    NothingProduced,
    StepFailed,
    TracingError,
    WrongArity,
)


@step
def fetch(url: str) -> str:
    return f"page of {url}"


@step
def title(page: str) -> str:
    return page.title()


@step
def words(page: str, minimum: int = 3) -> list[str]:
    return [word for word in page.split() if len(word) >= minimum]


@step
def report(title: str, words: list[str]) -> dict[str, Any]:
    return {"title": title, "words": words}


@step
def pair(a: Any, b: Any) -> list[Any]:
    return [a, b]


@workflow
def crawl(url: str) -> dict[str, Any]:
    page = fetch(url)
    return report(title(page), words(page, minimum=4))


# -- calls become edges --------------------------------------------------------------------------


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


# -- other components ----------------------------------------------------------------------------


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


# -- inputs and outputs --------------------------------------------------------------------------


def test_a_parameter_with_a_default_is_a_constant() -> None:
    @workflow
    def flow(text: str, minimum: int = 5) -> list[str]:
        return words(text, minimum=minimum)

    assert flow.run("some longer words").output == ["longer", "words"]
    assert flow("some longer words") == ["longer", "words"]
    assert flow("some longer words", minimum=6) == ["longer"]


@pytest.mark.parametrize("given", [{"url": "x", "depth": 2}, ("x", 2), ["x", 2]])
def test_several_inputs_come_as_a_mapping_or_a_sequence(given: Any) -> None:
    @workflow
    def flow(url: str, depth: int) -> list[Any]:
        return pair(fetch(url), depth)

    assert flow.run(given).output == ["page of x", 2]
    assert flow("x", depth=2) == ["page of x", 2]


@pytest.mark.parametrize(("given", "said"), [({"url": "x"}, "no 'depth'.*it has url"), ("x", "takes 2 inputs")])
def test_an_input_that_does_not_fit_several_parameters_is_a_failure(given: Any, said: str) -> None:
    flow = workflow(lambda url, depth: pair(url, depth), name="flow")

    with pytest.raises(StepFailed, match=said) as caught:
        flow.run(given, raise_on_failure=True)

    assert isinstance(caught.value.__cause__, CannotSpread)


def test_a_workflow_without_parameters_is_only_triggered() -> None:
    flow = workflow(lambda: fetch("x"), name="flow")

    assert flow() == "page of x"


def test_several_outputs_come_back_in_their_structure() -> None:
    @workflow
    def flow(x: str) -> Any:
        page = fetch(x)
        return {"page": page, "both": (title(page), [words(page)])}

    assert flow.run("abc").output == {"page": "page of abc", "both": ("Page Of Abc", [["page", "abc"]])}
    assert flow.run("abc").results() == {"title": "Page Of Abc", "words": ["page", "abc"]}


def test_a_workflow_that_returns_nothing_has_the_output_of_its_leaves() -> None:
    @workflow
    def flow(x: str) -> None:
        title(x)
        fetch(x)

    assert flow.run("x").output == {"title": "X", "fetch": "page of x"}


def test_what_was_returned_survives_other_policies_and_a_new_name_and_additions() -> None:
    extra = step(lambda x: x, name="extra")

    for changed in (crawl.with_policies([]), crawl.renamed("other"), crawl.add(extra, to="fetch")):
        assert changed.run("weft.dev").output["title"] == "Page Of Weft.Dev"


def test_what_was_returned_follows_a_replacement_and_ends_with_a_removal() -> None:
    flow = workflow(lambda x: (title(x), fetch(x)), name="flow")
    loud = step(lambda x: x.upper(), name="loud")

    assert flow.replace("title", loud).run("x").output == ("X", "page of x")
    assert flow.remove("title").run("x").output == "page of x"
    assert flow.merge(Workflow("w", loud)).run("x").output == {"title": "X", "fetch": "page of x", "loud": "X"}


def test_a_restored_run_has_the_same_output() -> None:
    run = crawl.run("weft.dev")

    assert Run.from_log(run.log()).output == run.output


# -- taking values apart -------------------------------------------------------------------------


@dataclass
class Page:
    title: str
    size: int


class Both(NamedTuple):
    left: int
    right: int


@step
def split(x: int) -> tuple[int, int]:
    return x // 10, x % 10


def test_items_and_attributes_are_taken_by_small_steps() -> None:
    load = step(lambda x: {"page": Page(x, len(x))}, name="load")

    @workflow
    def flow(x: str) -> Any:
        page = load(x)["page"]
        return page.title, page.size, page.title

    assert flow.run("abc").output == ("abc", 3, "abc")
    assert set(flow.components) == {"load", "load_page", "load_page_title", "load_page_size"}


def test_our_own_steps_give_way_to_names_that_are_taken() -> None:
    load = step(lambda url: {"title": url}, name="load")
    load_title = step(lambda page: "mine", name="load_title")
    heading = title

    @workflow
    def one(url: str) -> Any:
        page = load(url)
        return load_title(page), page["title"]

    @workflow
    def other(title: str, page: str) -> Any:
        return heading(title), page

    assert one.run("u").output == ("mine", "u")
    assert set(one.components) == {"load", "load_title", "load_title_2"}
    assert other.run(["a", "b"]).output == ("A", "b")
    assert set(other.components) == {"title", "title_2", "page"}


def test_unpacking_goes_by_the_annotation() -> None:
    @workflow
    def flow(x: int) -> Any:
        tens, ones = split(x)
        return pair(ones, tens)

    assert flow.run(42).output == [2, 4]


def test_an_input_and_a_named_tuple_can_be_unpacked() -> None:
    make = step(lambda a, b: Both(a, b), name="make")

    @step
    def both(a: int, b: int) -> Both:
        return Both(a, b)

    @workflow
    def flow(given: tuple[int, int]) -> Any:
        left, right = both(*given)
        return pair(right, left)

    assert flow.run((1, 2)).output == [2, 1]
    with pytest.raises(TracingError, match=r"-> tuple\[A, B\]"):
        workflow(lambda x: pair(*make(x, x)), name="flow")


# -- what needs a value that is not there --------------------------------------------------------


def opened(value: Any) -> Any:
    with value as held:
        return held


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda v: 1 if v else 2, r"`if`.*condition.*rule"),
        (lambda v: v and 1, r"`if`"),
        (lambda v: [title(x) for x in v], r"a loop.*each\(body\)"),
        (lambda v: v == 1, "a comparison.*condition"),
        (lambda v: v < 1, "a comparison"),
        (lambda v: v + 1, "arithmetic.*inside a step"),
        (lambda v: 1 - v, "arithmetic"),
        (lambda v: -v, "arithmetic"),
        (lambda v: len(v), "len.*inside a step"),
        (lambda v: str(v), "str.*inside a step"),
        (lambda v: f"{v}", "an f-string"),
        (lambda v: int(v), "int"),
        (lambda v: 1 in v, "`in`"),
        (lambda v: v.strip(), "calling it.*method inside a step"),
        (lambda v: v.__setitem__(1, 2), "setting an item"),
        (lambda v: setattr(v, "x", 1), "setting an attribute"),
        (lambda v: v >> title, "`>>`.*call"),
        (lambda v: [1, 2][v], "index"),
        (lambda v: v[v], "an index that is itself traced"),
        (lambda v: v[1:2], "an index that is a slice.*inside a step"),
        (lambda v: title({**v}), "calling it"),
        (lambda v: pair([v], 1), "gets a list with the value of 'fetch' inside"),
        (lambda v: pair({"a": (v,)}, 1), "gets a dict"),
        (lambda v: step(lambda x: x + v, name="s")("y"), "without taking it.*parameter"),
        (opened, "`with`"),
        (lambda v: copy.copy(v), "a copy needs.*as it is"),
        (lambda v: copy.deepcopy([v]), "a copy"),
        (lambda v: pickle.dumps(v), "pickle"),
        (lambda v: math.floor(v), "rounding"),
        (lambda v: v.__await__(), "async def"),
    ],
)
def test_using_a_value_says_where_it_came_from_and_what_to_do(use: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(TracingError, match=said) as caught:
        workflow(lambda x: use(fetch(x)), name="flow")

    assert "'fetch" in str(caught.value)
    assert "test_trace.py:" in str(caught.value)


def test_a_value_can_be_shown_while_debugging() -> None:
    shown: list[str] = []
    workflow(lambda x: shown.append(repr(value := fetch(x))) or value, name="flow")

    assert shown == ["<the value of 'fetch' in workflow 'flow'>"]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda x: 42, "draws nothing"),
        (lambda x: (fetch(x), 42), "returns 42, which no component makes"),
        (lambda x: (fetch(x), x), "its own input"),
        (lambda x: condition(lambda v: True, name="c")(x), "the condition 'c', which makes no values"),
    ],
)
def test_what_cannot_be_returned_is_refused(returned: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(TracingError, match=said):
        workflow(returned, name="flow")


@pytest.mark.parametrize(
    "call", [lambda x: pair(x), lambda x: pair(x, x, x), lambda x: pair(x, c=x), lambda x: pair(x, a=x)]
)
def test_arguments_that_do_not_fit_are_refused_where_they_stand(call: Callable[[Any], Any]) -> None:
    with pytest.raises(WrongArity, match=r"'pair'.*test_trace.py:\d+"):
        workflow(call, name="flow")


async def suspends(x: Any) -> Any:
    return x


def yields(x: Any) -> Any:
    yield x


@pytest.mark.parametrize("function", [suspends, yields, lambda *xs: fetch(xs), lambda **xs: fetch(xs)])
def test_a_function_that_cannot_be_traced_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidComponent, match=r"plain function|name every input"):
        workflow(function)


def test_an_async_step_is_called_without_await() -> None:
    wait = step(suspends, name="wait")
    flow = workflow(lambda x: title(wait(x)), name="flow")

    assert flow.run("x").output == "X"


# -- one trace at a time -------------------------------------------------------------------------


def test_a_function_that_raises_leaves_no_trace() -> None:
    with pytest.raises(ZeroDivisionError):
        workflow(lambda x: fetch(1 // 0), name="flow")

    assert tracing() is None
    assert fetch("x") == "page of x"


def test_a_value_that_escapes_its_workflow_cannot_be_used() -> None:
    kept: list[Any] = []
    workflow(lambda x: kept.append(value := fetch(x)) or value, name="first")

    with pytest.raises(TracingError, match=r"'fetch' in workflow 'first'.*used in workflow 'second'"):
        workflow(lambda x: title(kept[0]), name="second")
    with pytest.raises(TracingError, match=r"used outside of it"):
        title(kept[0])
    with pytest.raises(TracingError, match=r"used outside of it"):
        _ = kept[0]["key"]


def test_a_run_inside_a_trace_is_refused() -> None:
    with pytest.raises(TracingError, match=r"only being drawn.*crawl\(value\)"):
        workflow(lambda x: crawl.run("x").output, name="flow")


def test_a_step_called_on_another_thread_meanwhile_is_the_plain_function() -> None:
    seen: list[Any] = []

    def flow(x: Any) -> Any:
        thread = threading.Thread(target=lambda: seen.append(fetch("elsewhere")))
        thread.start()
        thread.join()
        return fetch(x)

    workflow(flow)

    assert seen == ["page of elsewhere"]


def test_a_task_that_outlives_the_trace_calls_plain_functions() -> None:
    async def main() -> str:
        tasks: list[asyncio.Task[str]] = []

        async def later() -> str:
            return fetch("later")

        workflow(lambda x: tasks.append(asyncio.get_running_loop().create_task(later())) or fetch(x), name="flow")
        return await tasks[0]

    assert asyncio.run(main()) == "page of later"


def test_a_workflow_can_be_drawn_while_another_one_is() -> None:
    def outer(x: Any) -> Any:
        inner = workflow(lambda y: title(y), name="inner")
        return pair(fetch(x), inner(x))

    assert set(workflow(outer).components) == {"fetch", "inner.title", "pair"}


# -- nesting -------------------------------------------------------------------------------------


def test_a_traced_workflow_is_a_component_of_another() -> None:
    @workflow
    def crawl_two(url: str) -> list[Any]:
        return pair(crawl(url), title(url))

    assert crawl_two == Workflow("crawl_two", [crawl, title] >> pair)
    assert crawl_two.run("weft.dev").output[1] == "Weft.Dev"


def test_a_workflow_that_is_called_twice_is_there_twice() -> None:
    flow = workflow(lambda url: pair(crawl(url), crawl(fetch(url))), name="flow")

    assert {"crawl.report", "crawl_2.report"} < set(flow.components)
    assert flow.run("x").output[1]["title"] == "Page Of Page Of X"


def test_the_outputs_of_a_nested_workflow_keep_their_structure() -> None:
    inner = workflow(lambda x: {"page": fetch(x), "title": title(x)}, name="inner")
    swapped = workflow(lambda x: (fetch(x), title(x)), name="swapped")

    @workflow
    def outer(x: str) -> Any:
        first, second = swapped(x)
        return pair(inner(x)["title"], second), first

    assert outer.run("a").output == (["A", "A"], "page of a")


def test_a_workflow_written_with_arrows_can_be_called_too() -> None:
    one = Workflow("one", fetch >> title)
    two = Workflow("two", fetch, title)
    flow = workflow(lambda x: pair(one(x), two(x)["fetch"]), name="flow")

    assert flow.run("x").output == ["Page Of X", "page of x"]


def test_a_nested_workflow_of_several_inputs_takes_each_by_itself() -> None:
    fails = step(lambda x: 1 // 0, name="fails")
    inner = workflow(lambda a, b: {"a": title(a), "b": fetch(b)}, name="inner")
    flow = workflow(lambda x: inner(x, b=fails(x)), name="flow")

    run = flow.run("x")

    assert run.output == {"a": "X"}  # what needs only `a` does not wait for `b`
    assert workflow(lambda x: inner(b=x, a=x), name="flow").run("y").output == {"a": "Y", "b": "page of y"}


def test_several_parents_can_feed_a_workflow_of_several_inputs() -> None:
    inner = workflow(lambda a, b: pair(a, b), name="inner")

    flow = Workflow("flow", [fetch, title] >> inner)

    assert flow.run("x").output == ["page of x", "X"]


def test_constants_of_a_nested_call_are_constants_inside() -> None:
    @workflow
    def inner(text: str, minimum: int = 3) -> list[str]:
        return words(text, minimum=minimum)

    five = step(lambda x: 5, name="five")
    flow = workflow(
        lambda text: [inner(text), inner(text, minimum=5), inner("some constant"), inner(text, five(text))], name="flow"
    )

    assert flow.run("few words here").output == [
        ["few", "words", "here"],
        ["words"],
        ["some", "constant"],
        ["words"],
    ]


def test_a_nested_workflow_stands_inside_an_each() -> None:
    inner = workflow(lambda x: (fetch(x), title(x))[1], name="inner")
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
    flow = workflow(lambda xs: collect(each(inner)(xs)), name="flow")

    assert flow.run(["a", "b"]).output == ["A", "B"]


def test_calling_a_workflow_runs_it_and_raises_what_failed() -> None:
    assert crawl("weft.dev")["title"] == "Page Of Weft.Dev"
    assert Workflow("w", title)("x") == "X"
    with pytest.raises(StepFailed, match="title"):
        Workflow("w", title)(5)
    with pytest.raises(WrongArity, match="takes one input"):
        Workflow("w", title)("x", "y")
    with pytest.raises(WrongArity, match="crawl"):
        crawl("x", depth=3)


def test_the_input_can_be_joined_with_what_was_made_of_it() -> None:
    flow = workflow(lambda x: pair(x, title(x)), name="flow")

    assert flow == Workflow("flow", [INPUT, title] >> pair)
    assert flow.run("x").output == ["x", "X"]


# -- flows ---------------------------------------------------------------------------------------


def test_a_flow_can_be_called_with_its_error_routes() -> None:
    fails = step(lambda x: 1 // 0, name="fails")
    rescue = step(lambda failure: failure.type, name="rescue")

    @workflow
    def flow(x: str) -> Any:
        title((fetch >> fails.on_error(ZeroDivisionError, then=rescue))(x))

    assert flow == Workflow("flow", fetch >> fails.on_error(ZeroDivisionError, then=rescue) >> title)
    assert flow.run("x").results() == {"rescue": "ZeroDivisionError"}


def test_a_flow_of_what_is_already_drawn_is_refused() -> None:
    with pytest.raises(TracingError, match=r"'title' is already drawn.*named\('other'\)"):
        workflow(lambda x: pair(title(x), (fetch >> title)(x)), name="flow")


def test_a_flow_takes_values_alone_and_only_inside_of_a_trace() -> None:
    with pytest.raises(TracingError, match="by position and nothing else"):
        workflow(lambda x: (fetch >> title)("x"), name="flow")
    with pytest.raises(NoRun, match=r"Workflow\(name, flow\)"):
        (fetch >> title)("x")


# -- every component -----------------------------------------------------------------------------


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
