"""The table of the README, from figures that were made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import headline
from benchmarks.figures import Figure

WORK = "1,000 workflows x 5 steps at once"
FOUND = [
    Figure("Weft", "throughput", WORK, "memory, inline, every_cycle", 80_000.0, "steps/s"),
    Figure("Weft", "throughput", WORK, "memory, inline, every_cycle, start_many", 99_000.0, "steps/s"),
    Figure("Weft", "throughput", WORK, "sqlite, thread, every_cycle, FULL", 30_000.0, "steps/s"),
    Figure("DBOS", "throughput", f"DBOS, {WORK}", "SQLite (journal DELETE), threads", 300.0, "steps/s"),
    Figure("DBOS", "postgres_throughput", f"DBOS, {WORK}", "postgres, threads", 500.0, "steps/s"),
]


def test_the_alternatives_stand_beside_what_they_are_compared_with() -> None:
    lines = headline.table(FOUND).splitlines()

    assert [[cell.strip() for cell in line.split("|")[2:5]] for line in lines[2:]] == [
        ["80,000", "", ""],
        ["", "", ""],
        ["30,000", "300", ""],
        ["", "500", ""],
    ]


def test_only_the_table_of_the_readme_is_written_again(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{headline.BEGIN}\nold\n{headline.END}\nafter\n", encoding="utf-8")

    headline.write(FOUND, readme)

    text = readme.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{headline.BEGIN}\n| steps per second")
    assert text.endswith(f"|\n{headline.END}\nafter\n")
    assert "old" not in text


def test_a_readme_without_a_place_for_it_is_left_alone(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("text", encoding="utf-8")

    with pytest.raises(ValueError, match="has no place for the table"):
        headline.write(FOUND, readme)
    assert readme.read_text(encoding="utf-8") == "text"


def test_the_readme_has_a_place_for_it() -> None:
    text = headline.README.read_text(encoding="utf-8")

    assert text.index(headline.BEGIN) < text.index(headline.END)
