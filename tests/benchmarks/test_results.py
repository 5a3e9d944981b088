"""The page of results and its picture, from figures that were made up."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import picture, results
from benchmarks.durable.line import Line, Note
from benchmarks.figures import Figure, figures
from benchmarks.targets import ASKED, BY_CPU, Asked, partner, reason

SVG = "{http://www.w3.org/2000/svg}"


def stored(line: Line) -> dict[str, Any]:
    return {"met": line.is_met, "verdict": line.verdict} | asdict(line)


def sqlite(how: str, figure: float, target: float, **more: Any) -> Line:
    return Line("throughput", "1,000 workflows x 5 steps at once", how, figure, "steps/s", target, True, **more)


@pytest.fixture
def document() -> dict[str, Any]:
    """A whole run on a quiet machine."""
    lines = [
        sqlite("memory, inline, every_cycle", 80_000, 70_000, low=75_000, high=81_000),
        sqlite("sqlite, inline, every_cycle, FULL", 40_000, 44_000, low=39_000, high=41_000),
        sqlite("sqlite, thread, every_cycle, FULL", 30_000, 35_000, by_cpu=36_000),
        Line("throughput", "DBOS, 100 x 5", "SQLite, threads", 300, "steps/s", library="DBOS"),
        Line("postgres_idle", "an idle worker", "postgres", 0.5, "statements/s", 1.0),
    ]
    core = {
        "work": "chain of 1,000 steps",
        "unit": "µs per step",
        "target": 5,
        "met": True,
        "figures": {"Weft": 2.0, "Hamilton": 10.0, "Burr": "not installed"},
        "spreads": {"Weft": [1.6, 2.5]},
        "ratios": {},
    }
    built = {"pgo": False, "lto": True, "optimization": "-O3", "debug": False, "arguments": ""}
    return {
        "quick": False,
        "full": False,
        "only": "",
        "began": 0.0,
        "seconds": 1200.0,
        "load": {"begin": [0.2, 0.1, 0.1], "end": [1.5, 1.2, 1.0]},
        "alternatives": {"DBOS": "3.3"},
        "machine": {
            "python": "3.12.1",
            "implementation": "CPython",
            "system": "Linux",
            "architecture": "x86_64",
            "compiler": "GCC 13",
            "build": built,
            "cpus": 2,
            "packages": {"Weft": "1.0"},
        },
        "rows": [core],
        "durable": {
            "sqlite": "3.45",
            "server": "PostgreSQL 18, fsync on",
            "rows": [stored(line) for line in lines],
            "notes": [asdict(Note("latency", "LangGraph: not installed"))],
            "killed": {"inline": ["nothing was lost"]},
            "right": True,
        },
    }


def row(page: str, of: str) -> list[str]:
    return next(line.strip("| ").split(" | ") for line in page.splitlines() if of in line and line.startswith("|"))


def test_the_cpu_time_of_a_client_is_no_excuse_for_what_a_server_takes() -> None:
    postgres = results.PAGE.parent / "postgres"

    assert [each.name for each in postgres.glob("*.py") if "by_cpu" in each.read_text(encoding="utf-8")] == []


def test_a_row_has_the_median_the_spread_the_target_and_the_verdict(document: dict[str, Any]) -> None:
    page = results.markdown(document, "speed.svg")

    met = row(page, "memory, inline")
    assert met[1:4] == ["80,000 steps/s (75,000 to 81,000)", "≥ 70,000", "met"]
    assert row(page, "sqlite, inline")[3] == "missed"


def test_an_alternative_stands_beside_the_figure_of_the_same_kind_with_the_ratio(document: dict[str, Any]) -> None:
    page = results.markdown(document, "speed.svg")

    assert "DBOS 300 steps/s, 100 ×" in row(page, "sqlite, thread")
    assert "Hamilton 10 µs per step, 5 ×" in row(page, "chain of 1,000 steps")


def test_a_missed_target_is_explained(document: dict[str, Any]) -> None:
    page = results.markdown(document, "speed.svg")

    missed = page.split("### Missed, and why")[1]
    assert "sqlite, inline, every_cycle, FULL: starting and finishing a run" in missed
    assert f"sqlite, thread, every_cycle, FULL: {BY_CPU}" in missed
    assert "memory, inline" not in missed.split("##")[0]


@pytest.mark.parametrize(
    ("change", "told"), [({"quick": True}, "a quick run"), ({"load": {"begin": [9.0], "end": [1.0]}}, "a busy machine")]
)
def test_a_run_that_says_little_says_so_and_explains_no_target(
    document: dict[str, Any], change: dict[str, Any], told: str
) -> None:
    page = results.markdown(document | change, "speed.svg")

    assert told in page.split("## Targets")[0]
    assert told in page.split("### Missed, and why")[1].split("\n\n")[1]
    assert "starting and finishing" not in page


def test_what_was_not_measured_is_named(document: dict[str, Any]) -> None:
    page = results.markdown(document, "speed.svg")

    assert row(page, "resume a run, snapshot and tail")[1] == "not measured"
    assert "- latency: LangGraph: not installed" in page


def test_the_page_says_what_it_was_measured_on_and_how_to_repeat_it(document: dict[str, Any]) -> None:
    page = results.markdown(document | {"only": "a|b"}, "speed.svg")

    assert "PostgreSQL 18, fsync on" in page
    assert "CPython 3.12.1 (GCC 13, no PGO, LTO, -O3)" in page
    assert "0.2 at the beginning, 1.5 at the end" in page
    assert "`make bench ARGS=\"--only 'a\\|b'\"`" in page
    assert "- nothing was lost" in page


def test_every_row_of_a_table_has_as_many_cells_as_its_head(document: dict[str, Any]) -> None:
    tables = [part for part in results.markdown(document, "x.svg").split("\n\n") if part.startswith("|")]

    for table in tables:
        assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1
    assert len(tables) == 4


def test_a_page_is_written_with_its_picture_beside_it(document: dict[str, Any], tmp_path: Path) -> None:
    page, drawn = results.write(document, tmp_path / "page.md")

    assert drawn == tmp_path / "page.svg"
    assert "(page.svg)" in page.read_text(encoding="utf-8")
    ET.fromstring(drawn.read_text(encoding="utf-8"))  # noqa: S314 - our own


def test_a_bar_is_as_long_as_the_logarithm_of_its_figure(document: dict[str, Any]) -> None:
    drawn = ET.fromstring(picture.draw(figures(document)))  # noqa: S314 - our own

    grid = [float(line.get("x1", "")) for line in drawn.iter(f"{SVG}line") if line.get("class") == "grid"]
    labels = [text.text for text in drawn.iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    quoted = next(bar for bar in drawn.iter(f"{SVG}rect") if bar.get("class") == "quoted")  # Runic, 20,000
    at = dict(zip(labels, grid, strict=True))
    end = float(quoted.get("x", "")) + float(quoted.get("width", ""))
    assert (end - at["10,000"]) / (at["100,000"] - at["10,000"]) == pytest.approx(0.30103, abs=0.01)


def test_times_per_step_are_drawn_as_steps_per_second(document: dict[str, Any]) -> None:
    first, *_ = picture.groups(figures(document))

    weft, hamilton = first.bars
    assert (weft.name, weft.value, weft.low, weft.high) == ("Weft", 500_000, 400_000, 625_000)
    assert (hamilton.kind, hamilton.value) == ("other", 100_000)


def test_a_group_without_a_figure_of_weft_is_not_drawn(document: dict[str, Any]) -> None:
    assert [group.title for group in picture.groups(figures(document))] == [
        "in memory, a chain of 1,000 steps",
        "a runner in memory",
        "on SQLite",
    ]
    assert picture.draw([]).startswith("<svg")


def test_the_picture_says_that_a_run_was_a_quick_one(document: dict[str, Any]) -> None:
    assert "(a quick run)" in picture.draw(figures(document), "a quick run, with more to say")


def test_less_is_better_except_where_something_is_counted_in_a_second() -> None:
    fast, slow = (Figure("Weft", "s", "w", "h", value, "steps/s") for value in (100.0, 50.0))
    short, long = (Figure("Weft", "s", "w", "h", value, "ms") for value in (1.0, 4.0))

    assert slow.times(fast) == 2
    assert long.times(short) == 4


def test_no_figure_is_compared_across_units() -> None:
    times = Figure("Weft", "s", "w", "h", 1.2, "x bare commit")

    assert partner(Figure("DBOS", "s", "w", "h", 5_000.0, "µs"), [times]) is None


def test_a_target_that_is_met_needs_no_reason() -> None:
    assert reason(Asked("a", "s", ".", why="because"), Figure("Weft", "s", "w", "h", 1.0, "ms", 2.0)) == ""


def test_the_entries_of_the_page_have_titles_of_their_own() -> None:
    assert len({asked.title for asked in ASKED}) == len(ASKED)
