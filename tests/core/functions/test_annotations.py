"""Annotations say which types fit, what is taken apart, and what cannot be known."""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, Protocol, TypedDict, TypeVar

import pytest

from weft.core.functions.annotations import element_of, fits, hints_of, made_by, parts_of, shown

T = TypeVar("T")
UserId = NewType("UserId", int)


class Animal: ...


class Dog(Animal): ...


class Speaks(Protocol):
    def call_with(self) -> str: ...


class Movie(TypedDict):
    name: str


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (Any, Any),
        (Any, int),
        (int, Any),
        (object, int),
        (int, object),
        (int, int),
        (Dog, Animal),
        (bool, int),
        (int, float),
        (T, int),
        (int, T),
        ("Unknown", int),
        (list[int], list[int]),
        (list[int], list),
        (list, list[int]),
        (list[Dog], list[Animal]),
        (list[int], Sequence[int]),
        (list[int], Iterable[Any]),
        (Iterable[int], list[int]),
        (dict[str, int], Mapping[str, int]),
        (dict[str, int], Iterable[str]),
        (tuple[int, str], tuple[int, str]),
        (tuple[int, ...], Sequence[int]),
        (tuple[int, str], tuple[Any, ...]),
        (int | str, str),
        (str, int | str),
        (int | str, str | bytes),
        (int | None, int),
        (int, Optional[int]),  # noqa: UP045 - the older spelling
        (None, None),
        (Literal["a"], str),
        (str, Literal["a"]),
        (Literal["a", "b"], Literal["b"]),
        (Annotated[int, "metres"], int),
        (UserId, int),
        (int, UserId),
        (Dog, Speaks),
        (Movie, dict[str, Any]),
        (dict[str, Any], Movie),
        (type[int], type),
    ],
)
def test_these_fit(given: Any, taken: Any) -> None:
    assert fits(given, taken)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (int, str),
        (float, int),
        (Animal, Dog),
        (list[int], list[str]),
        (list[list[int]], list[list[str]]),
        (list[int], dict[str, int]),
        (dict[str, int], dict[str, str]),
        (dict[str, int], Iterable[int]),
        (tuple[int, str], tuple[str, int]),
        (tuple[int, str], tuple[int, str, int]),
        (tuple[int, ...], list[int]),
        (tuple[int, ...], Sequence[str]),
        (int | str, bytes),
        (int | None, str | None),
        (None, int),
        (Literal["a"], int),
        (Literal["a"], Literal["b"]),
        (int, Literal["a"]),
        (Annotated[int, "metres"], str),
        (Movie, list[Any]),
    ],
)
def test_these_do_not_fit(given: Any, taken: Any) -> None:
    assert not fits(given, taken)


@pytest.mark.parametrize(
    ("kind", "element"),
    [
        (list[int], int),
        (set[str], str),
        (tuple[int, ...], int),
        (tuple[int, str], int | str),
        (list[int] | None, int),
        (list, Any),
        (Any, Any),
        (str, None),
        (bytes, None),
        (dict[str, int], None),
        (int, None),
        (range, Any),
        (list[T], Any),
    ],
)
def test_what_can_be_taken_apart_has_elements(kind: Any, element: Any) -> None:
    assert element_of(kind) == element


@pytest.mark.parametrize(
    ("kind", "parts"),
    [(tuple[int, str], (int, str)), (Point, (int, int)), (tuple[int, ...], None), (list[int], None), (Any, None)],
)
def test_only_some_types_say_how_many_they_hold(kind: Any, parts: Any) -> None:
    assert parts_of(kind) == parts


def test_a_name_that_cannot_be_resolved_hides_no_other() -> None:
    def work(a: int, b: Missing) -> str: ...  # noqa: F821 - that is the point

    assert hints_of(work) == {"a": int, "return": str}


def test_the_annotations_of_partials_callables_and_classes_are_found() -> None:
    class Work:
        def __call__(self, x: int) -> str: ...

    def work(x: int, y: int) -> str: ...

    assert hints_of(functools.partial(work, y=1))["x"] is int
    assert hints_of(Work())["return"] is str
    assert hints_of(Animal) == {"return": Animal}
    assert hints_of(len) == {}


def test_what_gives_one_value_after_another_makes_a_list() -> None:
    def one() -> Iterator[int]:
        yield 1

    def other() -> Generator[str, None, None]:
        yield ""

    def third() -> Iterable[int]:
        yield 1

    assert [made_by(call, hints_of(call)) for call in (one, other, third)] == [list[int], list[str], list[int]]


@pytest.mark.parametrize(
    ("kind", "text"), [(int, "int"), (list[int], "list[int]"), (int | None, "int | None"), (Any, "Any")]
)
def test_a_type_is_shown_as_one_would_write_it(kind: Any, text: str) -> None:
    assert shown(kind) == text
