"""
kill -9 at every append of a retry, a fork and an upgrade, of real processes on a real file.

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
