"""Values, times and names as text that is safe to print."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from weft.log import Record
from weft.views.text import ago, as_json, count, plain, shown, stamp, took, word


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("as it is: ä ☕ 語", "as it is: ä ☕ 語"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("one\ntwo\r\tthree", "one\\ntwo\\r\\tthree"),
        ("\x9b31m", "\\x9b31m"),
        ("left \u202e right", "left \\u202e right"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, safe: str) -> None:
    assert plain(text) == safe
    assert plain(text).isprintable()


@pytest.mark.parametrize(
    "text", ["plain", "two words", "it's", "\x1b[31m\n", "it's \\ \x07", "\x9bm \u202e", "\U000e0001"]
)
def test_a_shell_reads_a_word_as_what_was_written(text: str) -> None:
    assert word(text).isprintable()
    said = subprocess.run(
        ["bash", "-c", f"printf %s {word(text)}"],  # noqa: S607 - the shell that this is for
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=True,
    )
    assert said.stdout.decode() == text


def test_a_value_is_shown_on_one_short_line() -> None:
    assert shown({"a": [1, 2]}) == "{'a': [1, 2]}"
    assert shown("x" * 100, longest=10) == "'xxxxxx..."
    assert len(shown("x" * 100, longest=10)) == 10


def test_an_instance_of_an_unknown_class_is_shown_by_its_fields() -> None:
    order = Record("shop.Order", {"total": 5, "of": "Ada"})

    assert shown(order) == "shop.Order(total=5, of='Ada')"
    assert shown([order]) == "[shop.Order(total=5, of='Ada')]"


class Sly:
    def __repr__(self) -> str:
        return "\x1b[2J"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


def test_what_a_class_says_of_itself_is_escaped_too() -> None:
    assert shown(Sly()) == "\\x1b[2J"


def test_a_class_that_cannot_say_what_it_is_breaks_nothing() -> None:
    assert shown(Broken()) == "<Broken whose repr fails with RuntimeError>"


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": (1, 2.5, None, True)}, {"a": [1, 2.5, None, True]}),
        (float("nan"), "nan"),
        (10**30, 10**30),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (b"\x00", "b'\\x00'"),
        ({1}, [1]),
    ],
)
def test_a_value_becomes_json_where_it_can_and_words_elsewhere(value: Any, data: Any) -> None:
    assert json.loads(json.dumps(as_json(value), allow_nan=False)) == data


def test_what_nests_too_deeply_is_told_in_words() -> None:
    value: Any = 0
    for _ in range(200):
        value = [value]

    assert json.dumps(as_json(value)).count("[") == 200


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "now"),
        (0.4, "now"),
        (1, "1 s ago"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (7200, "2 h ago"),
        (1e6, "11 d ago"),
    ],
)
def test_how_long_ago_is_told_in_one_unit(seconds: float, text: str) -> None:
    assert ago(seconds) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"), [(5, "5 ns"), (1500, "1.5 µs"), (2_500_000, "2.5 ms"), (3e9, "3 s"), (1234e9, "1234 s")]
)
def test_a_duration_is_told_in_a_unit_that_fits(nanoseconds: float, text: str) -> None:
    assert took(nanoseconds) == text


def test_a_moment_that_no_calendar_has_is_told_as_it_is() -> None:
    assert stamp(1e300) == "1e+300 s"


def test_nouns_are_counted() -> None:
    assert (count(1, "run"), count(2, "run"), count(1000, "event")) == ("1 run", "2 runs", "1,000 events")
