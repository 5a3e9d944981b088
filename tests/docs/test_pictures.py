"""The pictures in the documentation are what its program would draw today."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
LINK = re.compile(r"""[("]([^()"\s]*pictures/[^()"\s]+\.svg)[)"]""")


MEASURED = "explanation/pictures/speed.svg"
"""Written by ``make bench``, from what it measures."""


@pytest.fixture(scope="module")
def drawn() -> Any:
    return runpy.run_path(str(REPOSITORY / "docs" / "pictures.py"))["pictures"]()


def test_every_picture_is_current(drawn: dict[str, str]) -> None:
    stored = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.svg")}

    assert {name for name in drawn if stored.get(name) != drawn[name]} == set(), "draw them again: make pictures"
    assert stored.keys() == drawn.keys() | {MEASURED}


def test_every_picture_is_shown_and_every_picture_that_is_shown_is_there(drawn: dict[str, str]) -> None:
    pages = [REPOSITORY / "README.md", *DOCS.rglob("*.md")]

    shown = {
        (page.parent / link).resolve() for page in pages for link in LINK.findall(page.read_text(encoding="utf-8"))
    }

    assert shown == {(DOCS / name).resolve() for name in [*drawn, MEASURED]}
