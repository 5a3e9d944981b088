"""
Every Python block in the README and in the documentation runs.

The blocks of one page are one program, run from top to bottom in an empty folder.  A block that opens
with ``python no-run`` only has to parse.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[2]

BLOCK = re.compile(
    r"^(?P<indent> *)```(?:python|py)(?P<options>| [^\n]*)\n(?P<code>.*?)^(?P=indent)``` *$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """One fenced block and the line of the page on which its code begins."""

    line: int
    code: str
    runs: bool


def blocks(text: str) -> list[Block]:
    """The Python blocks of a page."""
    return [
        Block(
            line=text.count("\n", 0, match.start("code")) + 1,
            code=dedent(match["code"]),
            runs="no-run" not in match["options"].split(),
        )
        for match in BLOCK.finditer(text)
    ]


def program(text: str) -> str:
    """The blocks of a page that run, each on its own lines, so that a traceback points into the page."""
    lines: list[str] = []
    for block in blocks(text):
        if block.runs:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.code.splitlines()
    return "\n".join(lines) + "\n"


PAGES = {
    page.relative_to(REPOSITORY).as_posix(): text
    for page in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    if page.exists() and blocks(text := page.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("page", PAGES)
def test_every_block_parses(page: str) -> None:
    for block in blocks(PAGES[page]):
        ast.parse("\n" * (block.line - 1) + block.code, filename=page)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_runs(page: str, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(program(PAGES[page]), encoding="utf-8")
    folder = tmp_path / "empty"
    folder.mkdir()

    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, f"{page}\n{done.stdout}{done.stderr}"


def test_blocks_keep_their_lines_and_share_their_names() -> None:
    page = dedent("""\
        # Title
        ```python
        x = 1
        ```
        ```python no-run
        forever()
        ```
        ```text
        not python
        ```
        - in a list
          ```py title="b.py"
          if x:
              y = 2
          ```
        """)

    assert [(block.line, block.runs) for block in blocks(page)] == [(3, True), (6, False), (13, True)]
    assert program(page) == "\n\nx = 1\n" + "\n" * 9 + "if x:\n    y = 2\n"
