"""The walk of one input names functions that exist."""

from __future__ import annotations

import re
from pathlib import Path

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
