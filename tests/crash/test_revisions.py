"""
kill -9 at every append of a retry, a fork, an upgrade and a continuation, of real processes on a real file.

The next process does the same again, and comes to what one without a death comes to; what had completed is not executed
again, and the revision is in the log once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import reviser


class Done(NamedTuple):
    """The steps that a process has executed, and its result."""

    executed: list[tuple[str, Any]]
    result: str = ""
    kinds: Mapping[str, int] = MappingProxyType({})
    appends: int = 0
    original: str = ""


EXPECTED = {"retry": "4 yes", "fork": "14 again", "upgrade": "billed 4 yes"}
CARRIED = ("came to", 13, [1, 2, 3], "completed")
"""The result of a continued run: its state has had every input once, and each of its waits a signal."""
REVISION = {"retry": "RunRetried", "fork": "RunForked", "upgrade": "RunUpgraded"}
STANDS = {"retry": {"first"}, "fork": {"first"}, "upgrade": {"first", "picky"}}
"""The steps that have completed before the revision, and do not depend on it."""
APPENDS = 5
"""As many as any of them makes, or more: a process that was not killed has done everything."""


def run(path: Path, *arguments: object) -> Done | None:
    """Run the program; return what it has done, or None if it was killed."""
    command = [sys.executable, reviser.__file__, str(path), *map(str, arguments)]
    process = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    lines = [json.loads(line) for line in process.stdout.splitlines()]
    if process.returncode == -9:
        return None
    assert process.returncode == 0, process.stderr
    if not lines or lines[-1][0] != "done":
        return Done([tuple(line) for line in lines])
    _, result, kinds, appends, original = lines[-1]
    return Done([tuple(line) for line in lines[:-1]], result, kinds, appends, original)


def deaths() -> list[Any]:
    found: list[Any] = []
    for what in EXPECTED:
        for number in range(1, APPENDS + 1):
            for moment in ("before", "after"):
                is_in_share = (number, moment) in {(1, "before"), (1, "after"), (3, "after")}
                if is_in_share or "WEFT_THOROUGH" in os.environ:
                    found.append(pytest.param(what, number, moment, id=f"{what}-{number}-{moment}"))
    return found


@pytest.mark.parametrize(("what", "number", "moment"), deaths())
def test_a_revision_whose_process_is_killed_at_an_append_comes_to_the_same(
    tmp_path: Path, what: str, number: int, moment: str
) -> None:
    path = tmp_path / "runs.db"
    assert run(path, f"begin-{what}") is not None

    done = run(path, what, number, moment) or run(path, what)

    assert done is not None
    assert (done.result, done.kinds[REVISION[what]]) == (EXPECTED[what], 1)
    assert not STANDS[what] & {name for name, _ in done.executed}
    assert done.kinds["SignalReceived"] == (2 if what == "fork" else 1)


@pytest.mark.parametrize("what", EXPECTED)
def test_a_revision_that_is_not_disturbed(tmp_path: Path, what: str) -> None:
    path = tmp_path / "runs.db"
    run(path, f"begin-{what}")
    before = run(path, what)
    assert before is not None
    again = run(path, what)

    assert again is not None
    assert (before.result, again.result, again.executed) == (EXPECTED[what], EXPECTED[what], [])
    assert 0 < before.appends <= APPENDS, "every append of it is among the deaths"
    if what == "fork":
        assert before.original == again.original


CONTINUING = 12
"""As many appends as sending, continuing, three signals and the end make, or more."""


def deaths_while_continuing() -> list[Any]:
    every = [(number, moment) for number in range(1, CONTINUING + 1) for moment in ("before", "after")]
    share = [(2, "before"), (2, "after"), (3, "before"), (3, "after"), (5, "after")]
    return every if "WEFT_THOROUGH" in os.environ else share


@pytest.mark.parametrize(("number", "moment"), [(0, "never"), *deaths_while_continuing()])
def test_a_run_whose_process_is_killed_while_it_is_continued_has_each_input_and_signal_once(
    tmp_path: Path, number: int, moment: str
) -> None:
    path = tmp_path / "runs.db"
    assert run(path, "begin-continue") is not None

    done = run(path, "continue", number, moment) or run(path, "continue")

    assert done is not None
    assert number or done.appends <= CONTINUING
    assert next(line for line in done.executed if line[0] == "came to") == CARRIED
    assert done.kinds["ContinuedFrom"] == 1
    assert done.kinds["SignalReceived"] == 3
