"""The names of events and commands."""

from __future__ import annotations

from collections import UserDict
from enum import Enum
from typing import Any, NamedTuple

import pytest

from weft.core.components.message_names import by_part, check_names, content, label, name_in
from weft.core.functions.function import Function
from weft.errors import InvalidComponent


class Colour(Enum):
    RED = "red"


class Base:
    """A message."""


class Derived(Base):
    """A message that says more."""


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("go", "go"),
        (("go",), "go"),
        (("go", 1), "go"),
        ({"event": "go"}, "go"),
        (UserDict({"event": "go"}), "go"),
        (Colour.RED, Colour.RED),
        ((Colour.RED, 1), Colour.RED),
        (Derived(), Base),
        (Point(1, 2), Point),
        ("stop", None),
        (("stop", "go"), None),
        ((), None),
        (["go"], None),
        ({"command": "go"}, None),
        ({"event": {}}, None),
        (None, None),
        (float("nan"), None),
    ],
)
def test_a_value_is_called_by_its_class_by_itself_or_by_what_it_says(value: Any, name: Any) -> None:
    assert name_in({"go": 1, Colour.RED: 2, Base: 3, Point: 4}, value, "event") is name


def test_the_nearest_class_is_found() -> None:
    assert name_in({Base: 1, Derived: 2}, Derived(), "event") is Derived


@pytest.mark.parametrize(
    ("value", "said"),
    [(("go", 1), 1), (("go", 1, 2), (1, 2)), (("go",), ("go",)), ("go", "go"), (Point(1, 2), Point(1, 2))],
)
def test_the_content_of_a_tuple_is_what_follows_the_name(value: Any, said: Any) -> None:
    assert content(value) == said


def test_a_label_is_a_name_as_text() -> None:
    assert [label(name) for name in ("go", Colour.RED, Base)] == ["go", "RED", "Base"]


@pytest.mark.parametrize("names", [[1], [""], [None], ["a\0b"], ["RED", Colour.RED], ["a", "a"]])
def test_names_that_cannot_be_are_refused(names: list[Any]) -> None:
    with pytest.raises(InvalidComponent):
        check_names(names, "an event")


def test_parts_of_one_name_are_refused_and_those_that_are_not_there_left_out() -> None:
    function = Function.of(len)

    assert by_part("m", [("a", function), ("b", None)]) == {"a": function}
    with pytest.raises(InvalidComponent, match="two parts of 'm' would be called 'a'"):
        by_part("m", [("a", function), ("a", function)])
