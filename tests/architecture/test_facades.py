"""
The four facades have the same signatures: AsyncRunner and Runner, AsyncClient and Client.

Each signature is written out where it is, so that editors, type checkers and the pages of the reference show it.  A
function that makes the blocking method from the other one would keep its parameters and lose its overloads, its
handles and its place in the source.  So there are two texts, and this compares them: names, kinds, defaults,
annotations, overloads, and whether a result is a handle.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, get_overloads

import pytest

from weft.fleet.blocking import Client
from weft.fleet.client import AsyncClient
from weft.runner.blocking import Runner
from weft.runner.runner import AsyncRunner

PAIRS = [(AsyncRunner, Runner), (AsyncClient, Client)]

BLOCKING = {
    r"\bAsyncHandle(s?)\b": r"Handle\1",
    r"\bRunHandle\b": "Handle",
    r"\bAsyncGenerator\[(.*), None\]": r"Iterator[\1]",
    r"\bev\.AnyEvent\b": "AnyEvent",
}
"""How an annotation reads in the blocking facade."""

ELSEWHERE = {
    "close": {"grace"},  # a client releases nothing
    "cancel": {"component"},
    "retry": {"context"},  # workers have theirs
    "fork": {"context"},
    "start": {
        *(
            "portable",
            "max_concurrency",
            "checkpoint",
            "snapshot_every",
            "continue_after",
            "keep_values_for",
            "executor",
            "context",
        ),
        *("on_complete", "on_complete_args", "hooks"),
    },
    "start_many": {
        *(
            "open",
            "portable",
            "max_concurrency",
            "checkpoint",
            "snapshot_every",
            "keep_values_for",
            "executor",
            "context",
        ),
        *("policies", "policies_mode", "deadline", "on_complete", "on_complete_args", "hooks"),
    },
}
"""By method: the parameters of a runner that a client does not have, because a worker decides them."""
PLACES = {"queue", "priority", "fair_key", "scheduled_at", "within"}
"""The parameters of a client that a runner does not have."""


def public(facade: type) -> dict[str, Callable[..., Any]]:
    """Return the methods that a user calls, by name."""
    found = {name: getattr(facade, name) for name in dir(facade) if not name.startswith("_")}
    return {name: method for name, method in found.items() if callable(method)}


def blocking(annotation: object) -> str:
    """Return an annotation as the blocking facade has it."""
    text = str(annotation)
    for pattern, replacement in BLOCKING.items():
        text = re.sub(pattern, replacement, text)
    return text


def described(method: Callable[..., Any]) -> list[tuple[str, ...]]:
    """Return the parameters of *method* and what it returns, as the blocking facade has them."""
    signature = inspect.signature(method)
    lines = [
        (each.name, each.kind.description, repr(each.default), blocking(each.annotation))
        for each in signature.parameters.values()
    ]
    return [*lines, ("return", blocking(signature.return_annotation))]


@pytest.mark.parametrize(("original", "facade"), PAIRS)
def test_a_blocking_facade_has_the_methods_of_the_other_one(original: type, facade: type) -> None:
    assert public(facade).keys() == public(original).keys()


@pytest.mark.parametrize(
    ("original", "facade", "name"),
    [(one, other, name) for one, other in PAIRS for name in ["__init__", *sorted(public(one))]],
)
def test_a_blocking_method_has_the_signature_of_the_other_one(original: Any, facade: Any, name: str) -> None:
    if not hasattr(facade, name):
        pytest.fail(f"{facade.__name__} has no {name}()")
    one, other = getattr(original, name), getattr(facade, name)

    assert described(other) == described(one)
    assert [described(each) for each in get_overloads(other)] == [described(each) for each in get_overloads(one)]


@pytest.mark.parametrize("name", sorted((public(AsyncRunner).keys() & public(AsyncClient).keys()) - {"open"}))
def test_a_client_has_the_parameters_of_a_runner_but_for_those_that_workers_decide(name: str) -> None:
    def parameters(facade: type) -> dict[str, tuple[object, ...]]:
        found = inspect.signature(getattr(facade, name)).parameters.values()
        return {each.name: (each.kind, repr(each.default)) for each in found}

    runner, client = parameters(AsyncRunner), parameters(AsyncClient)

    assert runner.keys() - client.keys() == ELSEWHERE.get(name, set())
    assert client.keys() - runner.keys() <= PLACES
    assert {each: client[each] for each in client.keys() & runner.keys()} == {
        each: runner[each] for each in client.keys() & runner.keys()
    }
