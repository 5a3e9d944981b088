"""The walk of one input through the runner, as the documentation shows it."""

from __future__ import annotations

import asyncio
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "explanation" / "architecture.md"


COLUMNS = {"straight lane": True, "usual path": False}
"""By column of the table on the page that is counted: whether the step takes the straight lane."""


def counted(*, is_straight: bool) -> Any:
    return asyncio.run(runpy.run_path(str(REPOSITORY / "docs" / "walk.py"))["walk"](is_straight=is_straight))


@pytest.fixture(scope="module")
def walked() -> dict[str, Any]:
    return {name: counted(is_straight=is_straight) for name, is_straight in COLUMNS.items()}


def shown() -> dict[str, list[tuple[list[str], int, int]]]:
    """Return the table of the page, by column: of each part its calls, and how many calls and returns it says."""
    text = PAGE.read_text(encoding="utf-8").partition("| | straight lane |")
    lines = f"{text[1]}{text[2]}".partition("\n\n")[0].splitlines()
    header, *rows = [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in lines if "---" not in line]
    table: dict[str, list[tuple[list[str], int, int]]] = {}
    for name, cells in zip(header, zip(*rows, strict=True), strict=True):
        calls, parts = list[str](), list[tuple[list[str], int, int]]()
        for cell in filter(None, cells):
            total = re.fullmatch(r"\*\*(\d+) calls?\*\*, (\d+) returns?", cell)
            if total is None:
                calls.append(cell)
            else:
                parts.append((calls, int(total[1]), int(total[2])))
                calls = []
        assert not calls, name
        table[name] = parts
    return table


def test_starting_a_step_on_a_thread_takes_five_switches_between_objects_at_most(walked: dict[str, Any]) -> None:
    assert [1 <= len(each.parts["start"]) <= 5 for each in walked.values()] == [True, True]


def test_taking_its_result_takes_four_switches_at_most(walked: dict[str, Any]) -> None:
    assert [1 <= len(each.parts["end"]) <= 4 for each in walked.values()] == [True, True]


@pytest.mark.parametrize("column", COLUMNS)
def test_the_page_shows_every_switch_in_order_and_counts_the_returns(walked: dict[str, Any], column: str) -> None:
    found = walked[column]

    assert shown()[column] == [
        ([f"{each.caller} → `{each.called}`" for each in switches], len(switches), found.returns[part])
        for part, switches in found.parts.items()
    ]


def test_the_page_counts_what_it_lists_also_of_the_past() -> None:
    *_, before = shown().values()

    assert [len(calls) for calls, *_ in before] == [number for _, number, _ in before] == [8, 3]


def test_the_page_adds_up() -> None:
    *_, usual, before = [[calls + returns for _, calls, returns in parts] for parts in shown().values()]
    text = PAGE.read_text(encoding="utf-8")

    assert f"changed place {before[0]} times on its way to the executor and {before[1]} times on its way back" in text
    assert f"now {usual[0]} and {usual[1]} times" in text
