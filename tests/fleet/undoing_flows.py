"""A saga for the tests of fleets, of which a test holds a transaction and a compensation; workers import this file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from weft import Saga, Workflow, current, registry


def note(word: str) -> None:
    """Write that something was done to a file, for the test."""
    with (Path(os.environ["UNDOING_NOTES"]) / word).open("a", encoding="utf-8") as file:
        file.write(f"{current().idempotency_key}\n")


def hold(name: str) -> None:
    """Say that *name* is reached, and wait until the test lets it go on."""
    note(name)
    while not (Path(os.environ["UNDOING_NOTES"]) / f"{name}.go").exists():
        time.sleep(0.01)


trip = Saga("trip")


@trip.transaction
def book(request: Any, results: Any) -> str:
    """Book a seat."""
    return "seat"


@book.compensate
def give_back(request: Any, results: Any) -> str:
    """Give the seat back, once the test allows it."""
    hold("giving back")
    note("given back")
    return "no seat"


@trip.transaction(compensate=None)
def pay(request: Any, results: Any) -> None:
    """Never end."""
    hold("paying")


travel = Workflow("travel", trip)
registry.add(travel)
