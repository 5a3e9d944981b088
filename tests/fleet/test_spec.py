"""The program of the specification about fleets, run unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = Path(__file__).parents[3] / "shared" / "spec" / "s15_fleet.py"


@pytest.mark.skipif(not SPEC.is_file(), reason="the specification is not beside this checkout")
def test_the_program_of_the_specification_runs(dsn: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SPEC],
        cwd=tmp_path,
        env={**os.environ, "WEFT_DSN": dsn},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1:] == ["ok"]
