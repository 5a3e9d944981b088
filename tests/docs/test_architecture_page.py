"""The page names modules and functions that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "explanation" / "architecture.md"


def test_every_station_of_the_walk_is_in_the_source() -> None:
    stations = re.findall(r"^\| \d+ \| `(\S+\.py)`: `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert len(stations) >= 10
    missing = [
        (path, name)
        for path, name in stations
        if not re.search(
            rf"^ *(?:async )?def {name}\(", (REPOSITORY / "src/weft" / path).read_text("utf-8"), re.MULTILINE
        )
    ]
    assert missing == []


@pytest.mark.parametrize("package", ["core", "runner"])
def test_every_module_and_folder_of_the_two_large_packages_is_on_the_page(package: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    entries = [
        f"{path.name}/" if path.is_dir() else path.name
        for path in sorted((REPOSITORY / "src/weft" / package).iterdir())
        if not path.name.startswith("__")
    ]

    assert len(entries) >= 10
    assert [name for name in entries if not re.search(rf"(?<!\w){re.escape(name)}", page)] == []
