"""Forms from types: the fields that a person fills in, and the value that they make."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.components.schema import schema_of
from weft.errors import InvalidArgument
from weft.views.form import Field, filled, form_fields


@dataclass
class Approval:
    """Whether an order may be sent."""

    ok: bool
    amount: Annotated[int, msgspec.Meta(ge=1)]
    note: str = "fine"
    level: Literal["low", "high"] = "low"
    until: dt.date | None = None
    tags: list[str] = field(default_factory=list[str])


def fields_of(kind: object) -> dict[str, Field]:
    return {each.name: each for each in form_fields(schema_of(kind).json)}


def test_each_field_of_a_class_is_a_field_of_its_kind() -> None:
    assert {name: each.kind for name, each in fields_of(Approval).items()} == {
        "ok": "flag",
        "amount": "number",
        "note": "text",
        "level": "choice",
        "until": "date",
        "tags": "json",
    }


def test_a_field_without_a_default_has_to_be_filled_in() -> None:
    assert [name for name, each in fields_of(Approval).items() if each.is_required] == ["ok", "amount"]


def test_a_default_is_filled_in_and_limits_are_hints() -> None:
    fields = fields_of(Approval)

    assert (fields["note"].default, fields["level"].default, fields["tags"].default) == ("fine", '"low"', "")
    assert fields["amount"].hint == "a whole number, at least 1"
    assert set(fields["level"].choices) == {('"low"', "low"), ('"high"', "high")}


@pytest.mark.parametrize(
    ("kind", "expected"), [(bool, "flag"), (int | None, "number"), (list[int], "json"), (int | str, "json")]
)
def test_a_value_that_is_no_object_has_one_field(kind: object, expected: str) -> None:
    [only] = form_fields(schema_of(kind).json)

    assert (only.name, only.kind) == ("", expected)
    assert filled({only.key: "7"}) == 7


def test_what_cannot_be_read_is_said_with_its_field() -> None:
    with pytest.raises(InvalidArgument, match="amount: 'much' is not a number"):
        filled({"field:number:amount": "much"})


def test_a_field_that_was_left_empty_is_left_out() -> None:
    assert filled({"field:flag:ok": "true", "field:text:note": ""}) == {"ok": True}
    assert filled({"field:number:": ""}) is None


@given(
    st.builds(
        Approval,
        ok=st.booleans(),
        amount=st.integers(1, 10**9),
        note=st.text(min_size=1),
        level=st.sampled_from(["low", "high"]),
        until=st.none() | st.dates(),
        tags=st.lists(st.text()),
    )
)
def test_a_form_that_is_filled_in_makes_a_value_of_the_type(wanted: Approval) -> None:
    typed: dict[str, str] = {}
    for each in form_fields(schema_of(Approval).json):
        value = getattr(wanted, each.name)
        plain = msgspec.to_builtins(value)
        is_text = each.kind in ("text", "date", "datetime")
        typed[each.key] = "" if value is None else plain if is_text else msgspec.json.encode(plain).decode()

    assert msgspec.convert(filled(typed), Approval) == wanted
