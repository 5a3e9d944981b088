"""Programs that a user would write, run unchanged: each ends by printing ``ok``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SPEC = Path(__file__).parents[3] / "shared" / "spec"

PROGRAMS = ("s01", "s02", "s03", "s04", "s05", "s06", "s07", "s08", "s11", "s12", "s13", "s16", "s17", "s18")


@pytest.mark.skipif(not SPEC.is_dir(), reason="the specification is not beside this checkout")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_specification_runs(name: str, tmp_path: Path) -> None:
    (source,) = SPEC.glob(f"{name}_*.py")

    done = subprocess.run(
        [sys.executable, source], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1:] == ["ok"]
