"""Workflows with limits, for the tests of fleets; workers import this file."""

from __future__ import annotations

import os
import time
from pathlib import Path

from weft import Policy, Workflow, current, registry, step
from weft.policy import ConcurrencyLimit, RateLimit

LIMIT = 3


def note(word: str) -> None:
    """Write what a step does to a file, for the test."""
    with Path(os.environ["FLEET_NOTES"]).open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {current().run_id} {word} {time.time()}\n")


@step
def narrow(x: int) -> int:
    note("enter")
    time.sleep(float(os.environ.get("FLEET_PAUSE", "0.05")))
    note("leave")
    return x


@step
def paced(x: int) -> int:
    note("turn")
    return x


few = Workflow("few", narrow).with_policies([("narrow", Policy(concurrency_limit=ConcurrencyLimit("door", LIMIT)))])
slow = Workflow("slow", paced).with_policies([("paced", Policy(rate_limit=RateLimit("pace", 20, per=1, burst=2)))])
registry.add(few, slow)
