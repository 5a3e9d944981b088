"""Every test that the table of guarantees names is there, and every row names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
CONTRACTS = TESTS.parent / "src" / "weft" / "testing" / "contracts"
PAGE = TESTS.parent / "docs" / "explanation" / "guarantees.md"


def rows() -> list[str]:
    """Return the rows of the tables, without their heads."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [line for line in lines if "shown by |" not in line and not line.startswith("| ---")]


def defined() -> set[str]:
    """Return the names of all tests, those of the contracts included."""
    paths = [*TESTS.rglob("test_*.py"), *CONTRACTS.rglob("*.py")]
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in paths)
    functions = (node for tree in trees for node in ast.walk(tree))
    return {
        node.name
        for node in functions
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_guarantee_names_a_test_that_exists() -> None:
    named = {row: re.findall(r"`(test_\w+)`", row) for row in rows()}

    assert [row for row, tests in named.items() if not tests] == []
    assert {test for tests in named.values() for test in tests} - defined() == set()
    assert len(named) > 20
