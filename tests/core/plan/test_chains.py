"""Tests of chains: components that run one after the other, on one value each."""

from __future__ import annotations

from typing import Any

import pytest

from weft import Workflow, condition, context, each, join, latest, reduce, sleep, step
from weft.core.plan.chains import chains_of


def made(name: str) -> Any:
    return step(lambda x: x, name=name)


a, b, c, d = (made(name) for name in "abcd")


@step
async def later(x: int) -> int:
    return x


@step
def told(x: int, secret: str = context("secret")) -> int:
    return x


@step
def reads(x: int, before: Any = latest("a")) -> int:
    return x


@step(spread=True)
def spread(x: int, y: int) -> int:
    return x


def chains(*flows: Any) -> list[str]:
    """Return the chains of two or more components of a workflow, in words."""
    found = {place.chain for place in chains_of(Workflow("w", *flows).compiled).values()}
    return sorted(" ".join(chain.names) for chain in found if len(chain.names) > 1)


def test_a_linear_chain_is_one() -> None:
    assert chains(a >> b >> c) == ["a b c"]


def test_every_component_knows_its_place() -> None:
    places = chains_of(Workflow("w", a >> b >> c).compiled)

    assert [places[name].position for name in "abc"] == [0, 1, 2]
    assert {id(places[name].chain) for name in "abc"} == {id(places["a"].chain)}


def test_a_plan_is_looked_at_once() -> None:
    plan = Workflow("w", a >> b).compiled

    assert chains_of(plan) is chains_of(plan)


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        pytest.param(a >> [b, c], [], id="several children"),
        pytest.param([a, b] >> step(lambda x, y: x, name="both") >> c, ["both c"], id="a join"),
        pytest.param(join(a, b, wait="any") >> c >> d, ["c d"], id="a join of any"),
        pytest.param(a >> condition(bool, name="is_true") >> b >> c, ["b c"], id="a condition"),
        pytest.param(a >> later >> b >> c, ["b c"], id="a coroutine function"),
        pytest.param(a >> told >> b, ["told b"], id="context"),
        pytest.param(a >> b >> reads >> c, ["a b", "reads c"], id="a reader"),
        pytest.param(a >> spread >> b, ["spread b"], id="a spread"),
        pytest.param(a >> sleep(5) >> b >> c, ["b c"], id="a sleep"),
        pytest.param(a >> step(lambda: 5, name="none") >> b, ["none b"], id="no parameters"),
        pytest.param(a >> step(lambda x, y: x, name="bound").bind(y=5) >> b, ["a bound b"], id="constants"),
        pytest.param(
            a >> each(b >> c) >> reduce(lambda x, _: x, init=0, name="total") >> d, ["b c", "total d"], id="a map"
        ),
    ],
)
def test_what_needs_more_than_the_value_before_begins_another(flow: Any, expected: list[str]) -> None:
    assert chains(flow) == expected


def test_a_component_with_two_ways_to_it_begins_another() -> None:
    assert chains(a >> c >> d, b >> c) == ["c d"]
