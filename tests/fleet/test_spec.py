"""The program of the specification about fleets, run unchanged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

SPEC = Path(__file__).parents[3] / "shared" / "spec" / "s15_fleet.py"
MISSED = "some work did move on"
"""
The line that fails if the first worker had done everything by the time the program killed it: the program looks at the
queue until ten runs have ended, and on a busy machine all two hundred may end between two of its looks.
"""
TRIES = 5


@pytest.mark.skipif(not SPEC.is_file(), reason="the specification is not beside this checkout")
def test_the_program_of_the_specification_runs(
    new_database: Callable[[], AbstractContextManager[str]], tmp_path: Path
) -> None:
    for _ in range(TRIES):
        with new_database() as dsn:
            code, said = run_program(dsn, tmp_path)
        if MISSED not in said:
            break

    assert code == 0, said
    assert said.splitlines()[-1:] == ["ok"]


def run_program(dsn: str, folder: Path) -> tuple[int, str]:
    """Return how the program ended and what it said; the workers that it leaves behind if it fails are ended too."""
    output = folder / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, SPEC],
            cwd=folder,
            env={**os.environ, "WEFT_DSN": dsn},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=240)
        finally:
            with suppress(ProcessLookupError):  # none is left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return code, output.read_text(encoding="utf-8")
