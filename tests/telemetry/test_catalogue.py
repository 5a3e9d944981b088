"""The catalogue is closed, explained, and what the documentation shows."""

from __future__ import annotations

from pathlib import Path

from weft.telemetry.catalogue import CATALOGUE, EVENTS, MEANINGS, PREFIX

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "telemetry.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below *heading*, without the header."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def words(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def test_the_page_shows_every_event_with_all_it_carries() -> None:
    expected = [
        [f"`{entry.name}`", entry.when, words(entry.measurements), words(entry.metadata)] for entry in CATALOGUE
    ]

    assert rows("Events") == expected


def test_the_page_explains_every_word() -> None:
    assert rows("What the words mean") == [[f"`{name}`", meaning] for name, meaning in MEANINGS.items()]


def test_every_word_that_an_event_carries_is_explained_and_no_other() -> None:
    carried = {name for entry in CATALOGUE for name in (*entry.measurements, *entry.metadata)}

    assert carried == MEANINGS.keys()


def test_names_and_slots_are_unique() -> None:
    slots = {entry.slot for entry in CATALOGUE}

    assert len(slots) == len(set(EVENTS)) == len(CATALOGUE)
    assert all(name.startswith(PREFIX) for name in EVENTS)
