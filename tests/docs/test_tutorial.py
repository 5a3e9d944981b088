"""
The tutorial works as it is written: its files are written and its commands are typed, in one shell.

A block ``sh`` is typed into the shell, and the block ``text`` after it must be in what that printed, line by line, with
``…`` for anything.  A block with ``after="…"`` is repeated until it prints that, as a reader would.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "an-order-that-survives.md"
BLOCK = re.compile(r"^```(?P<info>\w+[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r'(\w+)="([^"]*)"')


class Shell:
    """One bash, as a reader has it in a terminal."""

    def __init__(self, folder: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("WEFT_", "PYTEST"))}
        self.process = subprocess.Popen(
            ["bash"],  # noqa: S607 - that of the reader
            cwd=folder,
            env=environment | {"PATH": path, "COLUMNS": "120"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def type(self, commands: str, *, may_fail: bool = False) -> str:
        """Type *commands* and return what was printed until they had ended, the last one well unless it may fail."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{commands}\necho ~~~~~$?\n")
        self.process.stdin.flush()
        printed: list[str] = []
        for line in self.process.stdout:
            if line.startswith("~~~~~"):
                assert may_fail or line == "~~~~~0\n", f"{commands}\n{''.join(printed)}"
                return "".join(printed)
            printed.append(line)
        raise AssertionError("".join(printed) + f"\nthe shell has ended after:\n{commands}")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    os.killpg(shell.process.pid, 9)
    with shell.process:
        pass  # closes its pipes


def shown(expected: str, printed: str) -> bool:
    """Whether every line that is expected was printed; steps that run at the same time print in any order."""
    left = printed.splitlines()
    for line in filter(str.strip, expected.splitlines()):
        pattern = r"\s+".join(re.escape(word).replace("…", ".*") for word in line.split())
        found = next((each for each in left if re.search(pattern, each)), None)
        if found is None:
            return False
        left.remove(found)
    return True


@pytest.mark.slow
def test_the_tutorial_works_as_it_is_written(shell: Any, tmp_path: Path) -> None:
    printed = ""
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        kind, _, rest = block["info"].partition(" ")
        options = dict(OPTION.findall(rest))
        if "title" in options:
            with (tmp_path / options["title"]).open("a" if "append" in rest else "w", encoding="utf-8") as file:
                file.write(block["body"])
        elif kind == "sh" and "skip" not in rest:
            printed = shell.type(block["body"], may_fail="after" in options)
            until = time.monotonic() + 60
            while not all(shown(options[name], printed) for name in ("after", "and") if name in options):
                assert time.monotonic() < until, printed
                printed = shell.type(block["body"], may_fail=True)
        elif kind == "text":
            assert shown(block["body"], printed), f"{block['body']}\nis not in\n{printed}"
