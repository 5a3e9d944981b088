"""The walk of one input through the runner, as the documentation shows it."""

from __future__ import annotations

import asyncio
import runpy
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "explanation" / "architecture.md"


@pytest.fixture(scope="module")
def walked() -> Any:
    return asyncio.run(runpy.run_path(str(REPOSITORY / "docs" / "walk.py"))["walk"]())


def test_starting_a_step_on_a_thread_takes_five_switches_between_objects_at_most(walked: Any) -> None:
    assert 1 <= len(walked.parts["start"]) <= 5


def test_taking_its_result_takes_four_switches_at_most(walked: Any) -> None:
    assert 1 <= len(walked.parts["end"]) <= 4


def test_the_page_shows_every_switch(walked: Any) -> None:
    page = PAGE.read_text(encoding="utf-8")

    missing = [switch for part in walked.parts.values() for switch in part if f"`{switch.called}`" not in page]

    assert missing == []
