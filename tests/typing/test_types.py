"""Type checkers know the types of workflows: both agree with ``typed.py``, and find its mistakes and no others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
TYPED = Path(__file__).parent / "typed.py"
MISTAKES = {number for number, line in enumerate(TYPED.read_text().splitlines(), 1) if "# wrong:" in line}


def mypy(folder: Path) -> dict[int, str]:
    """Return what mypy says, by line."""
    said = checked("mypy", "--strict", f"--cache-dir={folder}", "--no-error-summary", str(TYPED))
    return {int(found[1]): found[2] for found in re.finditer(r"typed\.py:(\d+): error: (.*)", said)}


def pyright(folder: Path) -> dict[int, str]:
    """Return what pyright says, by line."""
    config = folder / "pyrightconfig.json"
    shutil.copy(TYPED, folder)
    settings = {
        "include": [TYPED.name],
        "extraPaths": [str(REPOSITORY / "src")],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
    }
    config.write_text(json.dumps(settings))
    said = json.loads(checked("pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(config)))
    assert said["summary"]["filesAnalyzed"] == 1
    return {item["range"]["start"]["line"] + 1: item["message"] for item in said["generalDiagnostics"]}


def checked(tool: str, *arguments: str) -> str:
    """Return what *tool* prints."""
    found = Path(sys.executable).parent / tool
    if not found.exists():
        pytest.skip(f"{tool} is not installed here")
    environment = {**os.environ, "MYPYPATH": str(REPOSITORY / "src")}
    done = subprocess.run(
        [found, *arguments], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_type_checker_knows_the_types_and_finds_the_mistakes(
    checker: Callable[[Path], dict[int, str]], tmp_path: Path
) -> None:
    found = checker(tmp_path)

    assert {line: what for line, what in found.items() if line not in MISTAKES} == {}
    assert found.keys() == MISTAKES
