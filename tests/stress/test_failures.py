"""A stress run reads from the reports of pytest which tests have failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from failures import failed_tests

TESTS = """
import pytest

@pytest.fixture
def broken():
    raise RuntimeError("no set-up")

def test_that_passes(): pass
def test_that_fails(): assert False
def test_that_cannot_be_set_up(broken): pass
@pytest.mark.skip
def test_that_is_skipped(): pass
"""


def test_what_failed_or_could_not_be_set_up_is_found_in_a_real_report(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "none.ini",
        "--junitxml=report.xml",
    ]
    (tmp_path / "none.ini").write_text("[pytest]\n")

    subprocess.run(command, cwd=tmp_path, check=False, capture_output=True)

    found = failed_tests((tmp_path / "report.xml").read_bytes())
    assert found == ["test_some::test_that_fails", "test_some::test_that_cannot_be_set_up"]
