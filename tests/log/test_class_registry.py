"""Tests of the classes that come back, their names, and classes that change."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, TypeVar

import attrs
import kept
import msgspec
import pydantic
import pytest
from msgspec.structs import force_setattr

from weft import Workflow, step
from weft.errors import CorruptLog, DuplicateName, InvalidComponent
from weft.log import Record, class_registry, register
from weft.log.class_registry import Unfit, name_of
from weft.log.known_types import classes_of, known_types
from weft.log.value_decoder import Values
from weft.log.value_encoder import encode_value


def back(value: Any, **types: type) -> Any:
    """Write and read *value*."""
    return Values({name_of(kind): kind for kind in types.values()}).decode(encode_value(value))


def test_a_class_is_registered_by_a_decorator_with_and_without_a_name() -> None:
    @register
    @dataclass
    class Plain:
        a: int

    @register(name="shop.Named")
    @dataclass
    class Named:
        a: int

    assert back([Plain(1), Named(2)]) == [Plain(1), Named(2)]
    assert name_of(Named) == "shop.Named"
    assert b"shop.Named" in encode_value(Named(1))


def test_a_name_outlives_a_move_to_another_module() -> None:
    old = register(make_dataclass("Order", ["a"], namespace={"__module__": "before"}), name="Order")
    data = encode_value(old(1))
    class_registry._registered.pop("Order")
    new = register(make_dataclass("Order", ["a"], namespace={"__module__": "after"}), name="Order")

    assert Values().decode(data) == new(1)


def test_a_name_stands_for_one_class() -> None:
    register(make_dataclass("First", ["a"]), "taken")

    with pytest.raises(DuplicateName, match="taken"):
        register(make_dataclass("Second", ["a"]), "taken")


def test_a_log_that_was_written_before_a_class_had_its_name_is_read() -> None:
    late = make_dataclass("Late", ["a"], namespace={"__module__": "shop"})
    data = encode_value(late(1))

    register(late, "orders.late")

    assert Values().decode(data) == late(1)
    assert encode_value(late(1)) != data


def test_a_class_that_is_defined_again_takes_the_place_of_the_one_before() -> None:
    def define() -> Any:
        @register
        @dataclass
        class Cell:
            a: int

        return Cell

    first, second = define(), define()

    assert type(back(first(1))) is second


@pytest.mark.parametrize("thing", [int, object, 5, dict, ValueError, type("Plain", (), {})])
def test_only_classes_with_fields_are_registered(thing: Any) -> None:
    with pytest.raises(InvalidComponent, match="dataclass"):
        register(thing)


# -- classes that change -------------------------------------------------------------------------


def versions(*fields: Any, **more: Any) -> Any:
    """A class of the same name with other fields."""
    return make_dataclass("Versioned", fields, namespace={"__module__": "shop"}, **more)


def moved(old: Any, new: Any) -> Any:
    """Return an instance that was written with *old*, as a process reads it that knows *new*."""
    return Values({name_of(new): new}).decode(encode_value(old))


def test_a_field_that_is_new_takes_its_default() -> None:
    new = versions("a", ("b", int, 5), ("c", list, field(default_factory=list)))

    assert moved(versions("a")(1), new) == new(1, 5, [])


def test_a_field_that_is_new_and_has_no_default_is_an_error() -> None:
    with pytest.raises(CorruptLog, match="without 'b'"):
        moved(versions("a")(1), versions("a", "b"))


def test_a_field_that_is_gone_is_an_error() -> None:
    with pytest.raises(CorruptLog, match="with 'b'"):
        moved(versions("a", "b")(1, 2), versions("a"))


def test_models_attrs_classes_and_named_tuples_follow_the_same_rules() -> None:
    @attrs.define
    class Attrs:
        a: int
        b: list[int] = attrs.field(factory=list)
        c: int = attrs.field(default=attrs.Factory(lambda self: self.a + 1, takes_self=True))

    class Model(pydantic.BaseModel):
        a: int
        b: list[int] = pydantic.Field(default_factory=list)

    class Pair(NamedTuple):
        a: int
        b: int = 7

    for kind, expected in ((Attrs, Attrs(1)), (Model, Model(a=1)), (Pair, Pair(1))):
        form = class_registry.form_of(kind)
        assert form is not None
        fields = {"a": 1} | ({"__pydantic_fields_set__": ["a"]} if kind is Model else {})
        assert form.together(kind, dict(fields)) == expected
        with pytest.raises(Unfit, match="no longer"):
            form.together(kind, fields | {"z": 1})
        with pytest.raises((Unfit, KeyError)):
            form.together(kind, {key: value for key, value in fields.items() if key != "a"})


# -- annotations ---------------------------------------------------------------------------------

T = TypeVar("T", bound=kept.Struct)
Name = NewType("Name", kept.Colour)


class Node(msgspec.Struct):
    """Refers to itself, and to others."""

    next: Optional[Node]  # noqa: UP045
    levels: dict[str, list[tuple[kept.Level, ...]]]


def everything(
    a: list[kept.Plain] | None, b: Annotated[kept.Point, "note"], *more: Name, mode: Literal[kept.Mode.FAST]
) -> Node:
    """Mentions all it can."""
    raise NotImplementedError


def generic(a: T, b: NotThere) -> kept.Cached:  # type: ignore[name-defined]  # noqa: F821
    """Mentions what is not there."""
    raise NotImplementedError


def test_annotations_are_followed_through_everything() -> None:
    found = classes_of(everything)

    assert set(found) == {kept.Plain, kept.Point, kept.Colour, kept.Mode, Node, kept.Level}


def test_an_annotation_that_leads_nowhere_is_left_out() -> None:
    assert {kept.Cached, kept.Struct, kept.Point} == set(classes_of(generic))


def test_a_class_that_is_called_is_what_it_returns() -> None:
    assert kept.Frozen in classes_of(kept.Frozen)
    assert kept.Plain in classes_of(kept.Frozen)


def test_the_classes_of_a_workflow_are_those_of_all_its_functions() -> None:
    workflow = Workflow("w", step(everything, name="e", spread=True).bind(mode=kept.Mode.FAST))

    assert known_types([workflow])["kept.Plain"] is kept.Plain


class Shade(enum.Enum):
    """Not mentioned anywhere."""

    DARK = 1


def test_what_no_annotation_mentions_stays_a_record() -> None:
    workflow = Workflow("w", step(everything, name="e", spread=True).bind(mode=kept.Mode.FAST))

    read = Values(known_types([workflow])).decode(encode_value([Shade.DARK, kept.Point(1)]))

    assert read == [Record(name_of(Shade), {"name": "DARK"}), kept.Point(1)]


class Counted(msgspec.Struct, frozen=True):
    """Changes what it is made of."""

    turns: int

    def __post_init__(self) -> None:
        force_setattr(self, "turns", self.turns + 1)


def test_a_struct_that_changes_its_fields_when_it_is_made_comes_back_as_it_was() -> None:
    value = Counted(1)

    again = Values({name_of(Counted): Counted}).decode(encode_value(value))

    assert value.turns == 2
    assert again == value


@pytest.mark.parametrize("fields", [{}, {"turns": 1, "gone": 2}])
def test_a_struct_that_does_not_fit_says_so(fields: dict[str, int]) -> None:
    data = encode_value(Record(name_of(Counted), fields))

    with pytest.raises(CorruptLog, match="register a class that fits"):
        Values({name_of(Counted): Counted}).decode(data)
