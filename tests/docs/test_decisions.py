"""Every decision is in the index, in order, and answers the four questions of a record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).parents[2] / "docs" / "adr").glob("[0-9]*.md"))
QUESTIONS = ("Context", "Decision", "Consequences", "What would change our mind")


def test_the_index_lists_every_record_once_in_the_order_of_their_numbers() -> None:
    index = (RECORDS[0].parent / "README.md").read_text(encoding="utf-8")

    listed = re.findall(r"^\| \[(\d+)\]\((\S+)\) \| .+ \| .+ \|$", index, re.MULTILINE)

    assert listed == [(record.name[:4], record.name) for record in RECORDS]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name[:4])
def test_a_record_answers_the_four_questions_in_this_order(record: Path) -> None:
    text = record.read_text(encoding="utf-8")

    asked = re.findall(r"^## (.+)$", text, re.MULTILINE)

    assert [question for question in asked if question in QUESTIONS] == list(QUESTIONS)
    assert re.match(rf"# {int(record.name[:4])}\. ", text)


def test_every_page_and_record_that_the_source_names_exists() -> None:
    repository = RECORDS[0].parents[2]
    numbers = {int(record.name[:4]) for record in RECORDS}

    missing = [
        f"{path.relative_to(repository)} names {found}"
        for path in sorted((repository / "src").rglob("*.py"))
        for found in re.findall(r"docs/[\w/-]+\.md|docs/adr/\d{4}\b|\bADR \d+", path.read_text(encoding="utf-8"))
        if (
            int(found[-4:].strip("DR /")) not in numbers
            if re.search(r"\d$", found)
            else not (repository / found).is_file()
        )
    ]

    assert missing == []
