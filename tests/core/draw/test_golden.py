"""
Every format of a handful of pictures, compared with what was looked at and found right.

To renew the files after a change that is meant: ``python tests/core/draw/test_golden.py``; then look at them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sketches import DEFINITIONS, RUNS

from weft import Run, Workflow

GOLDEN = Path(__file__).parent / "golden"


def drawings(subject: Workflow | Run) -> dict[str, str]:
    """Every format, by the ending of its file."""
    drawn = {
        "mmd": subject.to_mermaid(),
        "dot": subject.to_dot(),
        "json": json.dumps(subject.to_cytoscape(), indent=1) + "\n",
        "txt": "".join(f"{source} {target}\n" for source, target in subject.to_edgelist()),
        "svg": subject.to_svg(),
    }
    return drawn | ({"seq.mmd": subject.to_mermaid(kind="sequence")} if isinstance(subject, Run) else {})


def all_drawings() -> Iterator[tuple[Path, str]]:
    """Every file, and what should be in it."""
    for name, make in {**DEFINITIONS, **RUNS}.items():
        for ending, text in drawings(make()).items():
            yield GOLDEN / f"{name}.{ending}", text


@pytest.mark.parametrize("name", [*DEFINITIONS, *RUNS])
def test_every_format_is_what_it_was_when_it_was_reviewed(name: str) -> None:
    drawn = drawings({**DEFINITIONS, **RUNS}[name]())

    assert drawn == {ending: (GOLDEN / f"{name}.{ending}").read_text(encoding="utf-8") for ending in drawn}


def test_every_file_belongs_to_a_picture() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {path.name for path, _ in all_drawings()}


if __name__ == "__main__":
    for path, text in all_drawings():
        path.write_text(text, encoding="utf-8")
