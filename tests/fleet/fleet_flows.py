"""Workflows for the tests of fleets; workers import this file."""

from __future__ import annotations

import os
import time
from pathlib import Path

from weft import Workflow, current, registry, sleep, step, wait_for


def note(word: str) -> None:
    """Write that a step begins to a file, for the test."""
    where = os.environ.get("FLEET_NOTES")
    if where:
        with Path(where).open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {current().run_id} {word}\n")


@step
def begin(x: int) -> int:
    note("begin")
    return x + 1


@step
def middle(x: int) -> int:
    note("middle")
    time.sleep(float(os.environ.get("FLEET_PAUSE", "0")))
    return x * 2


@step
def end(x: int) -> int:
    note("end")
    return x - 3


@step
def fail_at_first(x: int) -> int:
    if not Path(os.environ["FLEET_FIXED"]).exists():
        raise ValueError("not fixed yet")
    return x


@step
def forward(x: object) -> object:
    return x


chain = Workflow("chain", begin >> middle >> end)
nap = Workflow("nap", begin >> sleep(seconds=1.5) >> end)
approval = Workflow("approval", begin >> wait_for("go") >> forward)
fragile = Workflow("fragile", fail_at_first)
registry.add(chain, nap, approval, fragile)
