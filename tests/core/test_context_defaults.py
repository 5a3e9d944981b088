"""The context of a workflow: which keys it reads, whether they are there, and its defaults."""

from __future__ import annotations

from typing import Any

import pytest

from weft import Run, Runner, Saga, Workflow, context, step, workflow
from weft.errors import InvalidArgument, MissingContext, UnknownReference
from weft.log import decode, encode

pair = step(lambda x, a=context("a"), b=context("b"): (x, a, b), name="pair")
alone = step(lambda x, a=context("a", default=0): (x, a), name="alone")
shop = Workflow("shop", pair, alone)


def stay() -> Saga:
    """Return a saga, one transaction of which reads the context."""
    made = Saga("stay")

    @made.transaction(compensate=None)
    def reserve(request: str, results: dict[str, Any], key: str = context("key")) -> str:
        return key

    @made.transaction(compensate=None)
    def confirm(request: str, results: dict[str, Any]) -> str:
        return request

    return made


# -- validation ----------------------------------------------------------------------------------


def test_a_context_that_has_what_is_required_is_valid() -> None:
    shop.validate_context({"a": 1, "b": 2})
    shop.validate_context({"pair.a": 1, "pair.b": 2, "unrelated": 3})
    Workflow("w", stay()).validate_context({"stay.reserve.key": "k"})
    Workflow("empty").validate_context()


def test_everything_that_is_missing_is_named() -> None:
    with pytest.raises(MissingContext) as caught:
        shop.validate_context({"alone.a": 1})

    assert caught.value.missing == (("pair", "a"), ("pair", "b"))


@pytest.mark.parametrize(
    ("key", "told"),
    [("alone.b", "'alone' refers to context 'b'"), ("stay.confirm.key", "'stay.confirm' refers to context 'key'")],
)
def test_a_key_for_a_component_that_does_not_read_it_is_a_mistake(key: str, told: str) -> None:
    both = shop.merge(Workflow("w", stay()))

    with pytest.raises(UnknownReference, match=f"{told}, which it does not read; it has a, b, key"):
        both.validate_context({"a": 1, "b": 2, "key": "k", key: 3})


def test_a_context_is_a_mapping() -> None:
    wrong: Any = ["a"]
    for call in (shop.validate_context, shop.with_context):
        with pytest.raises(InvalidArgument, match="use a mapping"):
            call(wrong)


# -- defaults ------------------------------------------------------------------------------------


def test_a_run_takes_a_default_where_it_is_not_given_the_key() -> None:
    with_defaults = Workflow("shop", pair, context={"a": 1, "b": 2})

    assert with_defaults.run("x").output == ("x", 1, 2)
    assert with_defaults.run("x", context={"b": 5}).output == ("x", 1, 5)
    assert with_defaults.run("x", context={"pair.b": 6, "b": 5}).output == ("x", 1, 6)
    with_defaults.validate_context()


def test_what_is_given_for_all_wins_over_a_default_for_one() -> None:
    with_defaults = shop.with_context({"pair.a": 1, "b": 2})

    assert with_defaults.run("x").results() == {"pair": ("x", 1, 2), "alone": ("x", 0)}
    assert with_defaults.run("x", context={"a": 9}).results() == {"pair": ("x", 9, 2), "alone": ("x", 9)}


def test_defaults_are_added_to_those_that_are_there() -> None:
    assert shop.with_context({"a": 1, "b": 2}).with_context({"b": 3}).context == {"a": 1, "b": 3}
    assert shop.context == {}


def test_defaults_are_outside_of_the_identity_and_survive_changes() -> None:
    defaults = shop.with_context({"a": 1, "b": 2})

    assert (defaults.hash, defaults.version) == (shop.hash, shop.version)
    changed = defaults.add(step(str, name="text"), to="alone").remove("alone").renamed("other")
    assert changed.context == {"a": 1, "b": 2}
    assert Workflow("w", alone).with_context({"a": 5}).merge(defaults).context == {"b": 2, "a": 5}


def test_defaults_of_a_nested_workflow_are_for_its_own_components() -> None:
    inner = Workflow("inner", alone, context={"a": 1})
    outer = Workflow("outer", inner, alone)

    assert outer.run("x").results() == {"inner.alone": ("x", 1), "alone": ("x", 0)}
    assert outer.run("x", context={"a": 7}).results() == {"inner.alone": ("x", 7), "alone": ("x", 7)}
    assert Workflow("outer", inner, alone, context={"a": 3}).run("x").results()["inner.alone"] == ("x", 3)


def test_defaults_of_a_traced_workflow() -> None:
    @workflow
    def traced(x: int) -> Any:
        return pair(x)

    assert traced.with_context({"a": 1, "b": 2})(5) == (5, 1, 2)


def test_a_restored_run_has_the_defaults_of_the_workflow_it_is_given() -> None:
    defaults = Workflow("shop", pair, context={"a": 1, "b": 2})
    data = encode(defaults.plan("x").log())

    assert Run.from_log(decode(data, workflow=defaults)).react_until_satisfied().output == ("x", 1, 2)
    with pytest.raises(MissingContext):
        Run.from_log(decode(data)).react()


def test_defaults_are_not_stored() -> None:
    secret = "a-secret-value"  # noqa: S105

    assert secret.encode() not in encode(Workflow("w", alone, context={"a": secret}).run(1).log()[:2])


def test_a_runner_takes_them_behind_its_own_context() -> None:
    defaults = Workflow("shop", pair, context={"a": 1, "b": 2})

    with Runner(context={"b": 5}) as runner:
        assert runner.start(defaults, "x").result() == ("x", 1, 5)


def test_a_default_for_a_component_that_does_not_read_it_is_a_mistake() -> None:
    with pytest.raises(UnknownReference, match="'alone' refers to context 'b'"):
        Workflow("w", alone, context={"alone.b": 1})
