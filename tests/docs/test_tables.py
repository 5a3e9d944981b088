"""The tables of the reference have a meaning and an example for every option, and a remedy for every error."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path
from typing import Any, get_args

import pytest

from weft import AsyncRunner, Policy, errors
from weft.core.draw.progress import State
from weft.fleet.worker import State as WorkerState
from weft.policy import CircuitBreaker, ConcurrencyLimit, RateLimit, Value
from weft.ports.store import RunStatus
from weft.runner.jobs.decision import JobState

DOCS = Path(__file__).parents[2] / "docs"
TABLES: dict[str, Any] = runpy.run_path(str(DOCS / "tables.py"))


@pytest.mark.parametrize(("name", "function"), [("Runner", AsyncRunner.__init__), ("start", AsyncRunner.start)])
def test_every_option_of_a_call_has_a_meaning_and_an_example(name: str, function: Any) -> None:
    rows = TABLES["of_call"](name, function, "the first")

    assert [row[0] for row in rows if not (row[2] and row[3])] == []
    assert TABLES["EXAMPLES"][name].keys() <= inspect.signature(function).parameters.keys()


def test_every_field_of_a_policy_has_a_meaning_and_an_example_that_works() -> None:
    from datetime import UTC, datetime

    known = {
        "CircuitBreaker": CircuitBreaker,
        "Policy": Policy,
        "ConcurrencyLimit": ConcurrencyLimit,
        "RateLimit": RateLimit,
        "UTC": UTC,
        "Value": Value,
        "datetime": datetime,
        "undo": print,
    }
    assert [row[0] for row in TABLES["of_policy"]() if not (row[2] and row[3])] == []
    for name, example in TABLES["EXAMPLES"]["Policy"].items():
        eval(f"Policy({name}={example})", known)  # noqa: S307 - our own examples, as the table shows them


def test_every_option_of_a_limit_has_a_meaning() -> None:
    assert [row for row in TABLES["of_limits"]() if not all(row)] == []


def test_every_status_is_explained() -> None:
    assert TABLES["STATES"].keys() == set(get_args(RunStatus))
    assert TABLES["COMPONENT_STATES"].keys() == set(get_args(State))
    assert TABLES["JOB"].keys() == set(get_args(JobState))
    assert TABLES["WORKER"].keys() == set(get_args(WorkerState))


@pytest.mark.parametrize(
    ("states", "moves", "back"),
    [
        ("STATES", "MOVES", "BACK"),
        ("COMPONENT_STATES", "COMPONENT_MOVES", "COMPONENT_BACK"),
        ("SAGA", "SAGA_MOVES", ""),
        ("JOB", "JOB_MOVES", "JOB_BACK"),
        ("WORKER", "WORKER_MOVES", "WORKER_BACK"),
        ("BREAKER", "BREAKER_MOVES", "BREAKER_BACK"),
    ],
)
def test_every_status_is_in_its_picture(states: str, moves: str, back: str) -> None:
    drawn = [*TABLES[moves], *TABLES.get(back, [])]

    assert {state for source, target, _ in drawn for state in (source, target)} == TABLES[states].keys()


def test_every_error_has_a_cause_and_a_remedy() -> None:
    text = TABLES["error_page"]()
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.WeftError)]

    assert [kind.__name__ for kind in kinds if f"| `{kind.__name__}` | " not in text] == []
    assert [line for line in text.splitlines() if "|  |" in line] == []
    assert re.findall(r"\| [A-Z]\w*\(.*|.*(?:[:;,]| of)\. \|$", text, re.MULTILINE) == [], (
        "it begins with a call, or is cut off"
    )
    assert TABLES["REMEDIES"].keys() <= {kind.__name__ for kind in kinds}


def test_every_page_that_is_written_from_docstrings_is_current() -> None:
    pages = TABLES["pages"]()

    old = {name for name, text in pages.items() if (DOCS / name).read_text(encoding="utf-8") != text}
    assert old == set(), "write them again: make pictures"
