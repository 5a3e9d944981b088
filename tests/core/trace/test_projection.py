"""Values that are taken apart inside ``@workflow``."""

# ruff: noqa: PLW0108 - a function that is traced is written out

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from crawling import pair, title

from weft import (
    step,
    workflow,
)
from weft.errors import (
    TracingError,
)


@dataclass
class Page:
    title: str
    size: int


class Both(NamedTuple):
    left: int
    right: int


@step
def split(x: int) -> tuple[int, int]:
    return x // 10, x % 10


def test_items_and_attributes_are_taken_by_small_steps() -> None:
    load = step(lambda x: {"page": Page(x, len(x))}, name="load")

    @workflow
    def flow(x: str) -> Any:
        page = load(x)["page"]
        return page.title, page.size, page.title

    assert flow.run("abc").output == ("abc", 3, "abc")
    assert set(flow.components) == {"load", "load_page", "load_page_title", "load_page_size"}


def test_our_own_steps_give_way_to_names_that_are_taken() -> None:
    load = step(lambda url: {"title": url}, name="load")
    load_title = step(lambda page: "mine", name="load_title")
    heading = title

    @workflow
    def one(url: str) -> Any:
        page = load(url)
        return load_title(page), page["title"]

    @workflow
    def other(title: str, page: str) -> Any:
        return heading(title), page

    assert one.run("u").output == ("mine", "u")
    assert set(one.components) == {"load", "load_title", "load_title_2"}
    assert other.run(["a", "b"]).output == ("A", "b")
    assert set(other.components) == {"title", "title_2", "page"}


def test_unpacking_goes_by_the_annotation() -> None:
    @workflow
    def flow(x: int) -> Any:
        tens, ones = split(x)
        return pair(ones, tens)

    assert flow.run(42).output == [2, 4]


def test_an_input_and_a_named_tuple_can_be_unpacked() -> None:
    make = step(lambda a, b: Both(a, b), name="make")

    @step
    def both(a: int, b: int) -> Both:
        return Both(a, b)

    @workflow
    def flow(given: tuple[int, int]) -> Any:
        left, right = both(*given)
        return pair(right, left)

    assert flow.run((1, 2)).output == [2, 1]
    with pytest.raises(TracingError, match=r"-> tuple\[A, B\]"):
        workflow(lambda x: pair(*make(x, x)), name="flow")
