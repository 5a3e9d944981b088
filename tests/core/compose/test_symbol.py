"""Symbols inside ``@workflow``: what needs a value that is not there."""

# ruff: noqa: PLW0108 - a function that is traced is written out

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from crawling import fetch, pair, title

from weft import (
    condition,
    step,
    workflow,
)
from weft.errors import (
    InvalidComponent,
    TracingError,
    WrongArity,
)


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
    assert "test_symbol.py:" in str(caught.value)


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
    with pytest.raises(WrongArity, match=r"'pair'.*test_symbol.py:\d+"):
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
