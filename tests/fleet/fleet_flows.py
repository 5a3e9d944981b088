"""Workflows for the tests of fleets; workers import this file."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

from weft import Workflow, current, registry, repeat, sleep, step, wait_for

TURNS = 600


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
def die(x: int) -> int:
    note("fatal")
    os._exit(x)


@step
def forward(x: object) -> object:
    return x


@step
def count(x: int) -> int:
    return x + 1


@step
def write_numbers(x: int) -> int:
    for i in range(x):
        current().stream("numbers").write(i)
    return x


def has_many_turns(x: int) -> bool:
    return x >= TURNS


gate, entered = threading.Event(), threading.Event()
"""For steps in the process of the test: they wait until it lets them go on."""
entries: list[int] = []


@step
def wait_at_gate(x: int) -> int:
    entries.append(x)
    entered.set()
    gate.wait(60)
    return x + 1


@step
async def spin(x: int) -> int:
    await asyncio.sleep(0.02)
    return x


def is_over(_: int) -> bool:
    return False


chain = Workflow("chain", begin >> middle >> end)
nap = Workflow("nap", begin >> sleep(seconds=1.5) >> end)
long_nap = Workflow("long nap", begin >> sleep(seconds=3600.0) >> end)
approval = Workflow("approval", begin >> wait_for("go") >> forward)
long = Workflow("long", repeat(count, until=has_many_turns, at_most=TURNS) >> wait_for("go") >> forward)
streamed = Workflow("streamed", write_numbers)
gated = Workflow("gated", wait_at_gate >> count)
busy = Workflow("busy", repeat(spin, until=is_over, at_most=100_000))
fragile = Workflow("fragile", fail_at_first)
fatal = Workflow("fatal", die)
registry.add(chain, nap, long_nap, approval, long, streamed, gated, busy, fragile, fatal)
