"""Schemas: the types of signals, as data."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, TypeVar
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest

from weft import Run, Workflow, wait_for
from weft.core.components.schema import Schema, schema_of
from weft.errors import InvalidComponent, InvalidSignal
from weft.log import decode, encode


class Opaque:
    """A class that is not data; one of Weft's own would be offered to logs by this test."""


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Approval:
    by: str
    at: dt.datetime | None = None


class Amount(msgspec.Struct):
    cents: int


class Address(pydantic.BaseModel):
    city: str


class Point(NamedTuple):
    x: int
    y: int


class Note(TypedDict):
    text: str


@attrs.define
class Parcel:
    weight: float


FITTING: list[tuple[Any, Any, Any]] = [
    (int, 5, 5),
    (float, 5, 5.0),
    (Any, object, object),
    (None, None, None),
    (dt.datetime, "2030-01-01T00:00:00Z", dt.datetime(2030, 1, 1, tzinfo=dt.UTC)),
    (Decimal, "1.50", Decimal("1.50")),
    (UUID, "00000000-0000-0000-0000-000000000001", UUID(int=1)),
    (list[int], [1, 2], [1, 2]),
    (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    (set[int], [1, 1], {1}),
    (int | None, None, None),
    (Optional[int], 5, 5),  # noqa: UP045 - as some write it
    (Literal["yes", "no"], "no", "no"),
    (Annotated[int, msgspec.Meta(ge=1, le=5)], 3, 3),
    (Annotated[str, "a remark"], "x", "x"),
    (Colour, "red", Colour.RED),
    (Approval, {"by": "Ada"}, Approval("Ada")),
    (Approval, Approval("Ada"), Approval("Ada")),
    (list[Approval] | None, [{"by": "Ada"}], [Approval("Ada")]),
    (Amount, {"cents": 5}, Amount(5)),
    (Address, {"city": "Bergen"}, Address(city="Bergen")),
    (Address, Address(city="Bergen"), Address(city="Bergen")),
    (dict[str, Address], {"home": {"city": "Bergen"}}, {"home": Address(city="Bergen")}),
    (Point, [1, 2], Point(1, 2)),
    (Note, {"text": "hi"}, {"text": "hi"}),
    (Parcel, {"weight": 1.5}, Parcel(1.5)),
]

REFUSED: list[tuple[Any, Any, str]] = [
    (int, "5", "Expected `int`, got `str`"),
    (int, True, "Expected `int`, got `bool`"),
    (Approval, {"by": 5}, r"Expected `str`, got `int` - at `\$.by`"),
    (Approval, {}, "missing required field `by`"),
    (list[Approval], [{"by": "Ada"}, {"by": None}], r"at `\$\[1\].by`"),
    (Address, {"city": 5}, "city"),
    (dict[str, Address], {"home": {"city": 5}}, r"at `\$\[...\]`"),
    (Annotated[int, msgspec.Meta(ge=1, le=5)], 6, "<= 5"),
    (Literal["yes", "no"], "maybe", "Invalid enum value"),
    (Note, {"text": 5}, r"at `\$.text`"),
    (Opaque, 5, "Expected `Opaque`, got `int`"),
]


def signalled(kind: Any, value: Any) -> Run:
    return Workflow("w", wait_for("approved", schema=kind)).run(1).signal("approved", value)


@pytest.mark.parametrize(("kind", "value", "converted"), FITTING)
def test_what_fits_is_converted(kind: Any, value: Any, converted: Any) -> None:
    assert signalled(kind, value).value("approved") == converted


@pytest.mark.parametrize(("kind", "value", "why"), REFUSED)
def test_what_does_not_fit_is_refused_with_the_reason_and_the_place(kind: Any, value: Any, why: str) -> None:
    run = Workflow("w", wait_for("approved", schema=kind)).run(1)
    log = run.log()

    with pytest.raises(InvalidSignal, match=why) as caught:
        run.signal("approved", value)

    assert caught.value.signal == "approved"
    assert run.log() == log
    assert run.waiting_for == ["approved"]


@pytest.mark.parametrize(("kind", "value", "converted"), [case for case in FITTING if case[1] is not object])
def test_a_value_comes_back_from_a_log_as_its_class(kind: Any, value: Any, converted: Any) -> None:
    run = signalled(kind, value)

    again = Run.from_log(decode(encode(run.log())))

    assert again.value("approved") == converted
    assert type(again.value("approved")) is type(converted)
    assert again == run


@pytest.mark.parametrize("kind", [case[0] for case in FITTING + REFUSED])
def test_a_schema_is_stored_with_the_definition(kind: Any) -> None:
    workflow = Workflow("w", wait_for("approved", schema=kind))

    again = Workflow.from_dict(workflow.to_dict())

    assert again == workflow
    assert again.unresolved == ()
    assert str(again.components["approved"].schema) == str(schema_of(kind))


def test_different_types_are_different_schemas() -> None:
    kinds: list[Any] = [int, str, list[int], list[str], int | None, Approval, Amount, Literal[1], Literal["1"]]

    assert len({schema_of(kind).identity for kind in kinds}) == len(kinds)


@pytest.mark.parametrize("kind", [5, "Approval", TypeVar("T"), Approval | Amount, list["Approval"], lambda x: x])
def test_what_cannot_be_checked_is_refused_at_definition(kind: Any) -> None:
    with pytest.raises(InvalidComponent, match="schema="):
        wait_for("approved", schema=kind)


def test_its_type_is_what_it_was_made_of() -> None:
    assert schema_of(dict[str, tuple[int, ...]] | None).type == dict[str, tuple[int, ...]] | None
    approvals = schema_of(list[Approval])
    assert (approvals.origin, approvals.arguments) == ("list", (Schema(Approval),))
