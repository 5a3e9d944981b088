"""Tests of the interpreters that `make versions` finds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from interpreters import Interpreter, find, supported

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
HERE = (sys.version_info[0], sys.version_info[1])


def program(path: Path, says: str) -> Path:
    """Make a program that answers every question with *says*."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_the_versions_are_those_of_the_classifiers_and_this_is_one_of_them(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    lines = ("Typing :: Typed", *(f"Programming Language :: Python :: {name}" for name in ("3", "3.12", "3.9")))
    project.write_text(f"[project]\nclassifiers = {list(lines)!r}\n", encoding="utf-8")

    assert supported(project) == [(3, 9), (3, 12)]
    assert HERE in supported(PROJECT)


def test_an_interpreter_on_the_path_is_found_by_what_it_says_it_is(tmp_path: Path) -> None:
    (tmp_path / "python{}.{}".format(*HERE)).symlink_to(sys.executable)

    found = find([HERE], {"PATH": f"{tmp_path}{os.pathsep}/nowhere"})

    assert found == {HERE: Interpreter(sys.version_info[:3], tmp_path / "python{}.{}".format(*HERE))}


def test_the_newest_of_several_counts(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "python3.12", "echo 3 12 1")
    newer = program(tmp_path / "pyenv" / "versions" / "3.12.10" / "bin" / "python3.12", "echo 3 12 10")

    found = find([(3, 12)], {"PATH": str(tmp_path / "bin"), "PYENV_ROOT": str(tmp_path / "pyenv")})

    assert found == {(3, 12): Interpreter((3, 12, 10), newer)}


def test_what_is_switched_off_does_not_answer_or_is_something_else_is_not_there(tmp_path: Path) -> None:
    program(tmp_path / "off" / "python3.12", "echo not switched on >&2; exit 127")
    program(tmp_path / "mute" / "python3.12", "true")
    program(tmp_path / "other" / "python3.12", "echo 3 11 7")
    path = os.pathsep.join(str(tmp_path / name) for name in ("off", "mute", "other"))

    assert find([(3, 12)], {"PATH": path}) == {(3, 12): None}


def test_pyenv_is_looked_for_at_home(tmp_path: Path) -> None:
    there = program(tmp_path / ".pyenv" / "versions" / "3.13.0" / "bin" / "python3.13", "echo 3 13 0")

    assert find([(3, 13)], {"HOME": str(tmp_path)}) == {(3, 13): Interpreter((3, 13, 0), there)}
