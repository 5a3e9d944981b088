"""The records of a runner, as a command prints them."""

from __future__ import annotations

import logging
import sys

from weft.cli.logged import PlainFormatter

EVIL = "\x1b]0;owned\x07\x9b2J\u202e\nline"


def test_a_message_is_one_escaped_line_and_its_traceback_keeps_its_lines() -> None:
    try:
        int(EVIL)
    except ValueError as error:
        error.args = (EVIL,)
        record = logging.LogRecord("weft", logging.ERROR, __file__, 1, "%s has failed", (EVIL,), sys.exc_info())

    first, *trace = PlainFormatter("%(levelname)s %(message)s").format(record).split("\n")

    assert first == r"ERROR \x1b]0;owned\x07\x9b2J\u202e\nline has failed"
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-2:] == [r"ValueError: \x1b]0;owned\x07\x9b2J\u202e", "line"]
    assert all(line.isprintable() for line in trace)


def test_text_that_weft_keeps_of_an_error_is_escaped_too() -> None:
    record = logging.LogRecord("weft", logging.ERROR, __file__, 1, "failed", (), None)
    record.exc_text = f"Traceback\nValueError: {EVIL}"

    assert PlainFormatter().format(record).split("\n")[2] == r"ValueError: \x1b]0;owned\x07\x9b2J\u202e"
