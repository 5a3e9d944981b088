"""Commands that make no sense: one line, which names the help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["lss"], "no such command 'lss'. Did you mean 'ls'?; see weft --help"),
        (["ls", "--nonsense"], "no such option: --nonsense; see weft ls --help"),
        (["show"], "missing argument 'ID'; see weft show --help"),
        (
            ["ls", "--status", "odd"],
            "--status: 'odd' is none of running, waiting, idle, parked, completed, failed, cancelled; see weft ls --help",  # noqa: E501
        ),
        (["schedules", "next"], "missing argument 'NAME'; see weft schedules next --help"),
        (["send", "r", "{"], "VALUE: that is not JSON: Input data was truncated; see weft send --help"),
    ],
)
def test_a_command_that_makes_no_sense_is_one_line(weft: Callable[..., Any], arguments: list[str], line: str) -> None:
    said = weft(*arguments)

    assert (said.code, said.out, said.err) == (2, "", f"weft: {line}\n")


def test_no_command_at_all_is_answered_with_the_list_of_them(weft: Callable[..., Any]) -> None:
    said = weft()

    assert said.code == 2
    assert "Look at runs:" in said.out + said.err
