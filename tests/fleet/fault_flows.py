"""Workflows for the faults of a fleet; workers import this file."""

from __future__ import annotations

import os
import time
from typing import Any

from fleet_flows import begin, end, note

from weft import Workflow, current, registry, sleep, step, transaction

TABLE = "create table booked (run text primary key, key text not null)"
"""Where ``booked`` writes: a second row of a run is refused, and waits for the end of an open transaction."""
NAP = 3.0
"""Long enough that a worker lets a run go that sleeps."""


@step
def book(x: int, tx: Any = transaction()) -> int:
    note("book")
    tx.execute("insert into booked values ($1, $2)", current().run_id, current().idempotency_key)
    time.sleep(float(os.environ.get("FLEET_PAUSE", "0")))
    return x * 2


@step(max_retries=3, base_delay=0.2, timeout=60.0)
def stumble(x: int) -> int:
    note(f"~{time.time():.0f}")  # the time of this process, which may be wrong
    if current().attempt < 2:
        raise ValueError("at first")
    return x * 2


booked = Workflow("booked", begin >> book >> end)
timed = Workflow("timed", begin >> sleep(seconds=NAP) >> stumble >> end)
registry.add(booked, timed)
