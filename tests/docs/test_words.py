"""The words that ``make check`` looks for are found, and can be allowed."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

CHECKER: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "words.py"))


def page(text: str) -> list[tuple[int, str]]:
    """Return the line and the word of every finding in a page."""
    return [(found.line, found.word) for found in sorted(CHECKER["in_page"](text))]


def code(text: str) -> list[tuple[int, str]]:
    """Return the line and the word of every finding in a module."""
    return [(found.line, found.word) for found in sorted(CHECKER["in_code"](text))]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Ask whoever is there.", "whoever"),
        ("A lambda is no component.", "is no"),
        ("Whoever waits.", "Whoever"),
        ("Work that is under\nway.", "under way"),
        ("The step gives a list.", "gives"),
        ("The store is away.", "is away"),
        ("A thread of its own.", "of its own"),
        ("The office hands it over.", "office"),
        ("A danger is told once.", "is told"),
        ("The worker hears of it.", "hears"),
        ("Mend the cause.", "Mend"),
        ("The token works no more.", "works no more"),
        ("It is None, as nearly always.", "as nearly always"),
        ("It ends after so many seconds.", "after so many"),
        ("Behind a pooler of transactions.", "pooler of transactions"),
        ("Runs that live long wait.", "live long"),
        ("A worker lets go of the run.", "lets go of"),
    ],
)
def test_a_word_is_found_wherever_prose_is(text: str, word: str) -> None:
    assert page(f"# Title\n\n{text}\n") == [(3, word)]
    assert code(f'"""\nTitle.\n\n{text}\n"""\n') == [(4, word)]
    assert code("x = 1\n" + "".join(f"# {line}\n" for line in text.splitlines())) == [(2, word)]
    assert code(f"raise ValueError({text!r})\n".replace("\\n", " ")) == [(1, word)]


@pytest.mark.parametrize(
    "text",
    [
        "There is no such step, and it is no longer needed.",
        "It gives up, and gives back the lock.",
        "The official pages, thrown away.",
        "A worker is told to stop, and the callers are told why.",
        "They can be told apart; recommend it. There are so many runs that they share a commit.",
        "The name `whoever` is code.",
        "```python\nnobody = 1\n```",
    ],
)
def test_a_page_of_plain_english_has_no_findings(text: str) -> None:
    assert page(text) == []


def test_code_in_a_docstring_is_not_prose() -> None:
    assert code('"""\nThe name ``whoever``.\n\n>>> nobody = 1\n"""\nwhoever = somebody\n') == []
    assert code('raise ValueError(f"{nobody} is here")\n') == []


def test_of_a_test_the_docstrings_and_comments_are_prose_and_other_strings_are_not() -> None:
    source = (
        '"""Nobody reads."""\nsaid = "nobody is here"  # nobody\n\ndef test():\n    """\n    Nobody reads.\n    """\n'
    )
    found = [(each.line, each.word) for each in sorted(CHECKER["in_code"](source, is_test=True))]

    assert found == [(1, "Nobody"), (2, "nobody"), (6, "Nobody")]


def test_a_word_can_be_allowed() -> None:
    assert page("Ask whoever is there. <!-- words: allow -->\n") == []
    assert code("x = 1  # whoever asks; words: allow\n") == [(1, "whoever")]
    assert code('x = "whoever"  # words: allow\n') == []
    assert code('"""\nAsk whoever is there.\n"""  # words: allow\n') == []


def test_a_docstring_begins_with_its_subject() -> None:
    assert code('def f():\n    """What it makes."""\n') == [(2, "What …")]
    assert code('made = 1\n"""\nWhat it made.\n"""\n') == [(2, "What …")]
    assert code('def f():\n    """What it makes."""  # words: allow\n') == []
    assert code('def f():\n    """What does it make?"""\n') == []
    assert code('def f():\n    """Return what it makes."""\n') == []


def test_findings_are_printed_and_fail_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("fine\nNobody reads this.\n", encoding="utf-8")

    assert CHECKER["main"](tmp_path) == 1
    assert capsys.readouterr().out == "README.md:2: Nobody: say no caller, no process, nothing\n"

    (tmp_path / "README.md").write_text("fine\n", encoding="utf-8")
    assert CHECKER["main"](tmp_path) == 0

    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text('said = "nobody is here"\n# Nobody.\n', encoding="utf-8")
    assert CHECKER["main"](tmp_path) == 1
    assert capsys.readouterr().out == "tests/test_it.py:2: Nobody: say no caller, no process, nothing\n"


def test_everything_that_is_finished_exists() -> None:
    missing = [name for name in CHECKER["FINISHED"] if not (CHECKER["REPOSITORY"] / name).exists()]

    assert missing == []
