"""``@workflow``: inputs and outputs, nesting, and one trace at a time."""

# ruff: noqa: PLW0108 - a function that is traced is written out

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from crawling import crawl, fetch, pair, title, words

from weft import (
    INPUT,
    Run,
    Workflow,
    each,
    reduce,
    step,
    workflow,
)
from weft.core.compose.symbol import tracing
from weft.errors import (
    CannotSpread,
    NoRun,
    StepFailed,
    TracingError,
    WrongArity,
)

# -- inputs and outputs ----------------------------------------------------------------------------


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


# -- one trace at a time ---------------------------------------------------------------------------


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


# -- nesting ---------------------------------------------------------------------------------------


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


# -- flows -----------------------------------------------------------------------------------------


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
