"""The pictures in the documentation are what its program would draw today."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
PICTURES = REPOSITORY / "docs" / "how-to" / "pictures"


@pytest.fixture(scope="module")
def drawn() -> Any:
    return runpy.run_path(str(REPOSITORY / "docs" / "pictures.py"))["pictures"]()


def test_every_picture_is_current(drawn: dict[str, str]) -> None:
    stored = {path.name: path.read_text(encoding="utf-8") for path in PICTURES.iterdir()}

    assert {name for name in drawn if stored.get(name) != drawn[name]} == set(), "draw them again: make pictures"
    assert stored.keys() == drawn.keys()


def test_every_picture_is_shown_somewhere(drawn: dict[str, str]) -> None:
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)

    assert [name for name in drawn if f"pictures/{name}" not in text] == []
