"""Drives runs on PostgreSQL until it is killed: ``python driving_process.py DSN SCHEMA LEASE COUNTER``."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

from weft import Runner, Workflow, step
from weft.core.functions.current import current
from weft.errors import RunParked
from weft.stores import PostgresStore

COUNT = 12
counter = Path()


def say(word: str) -> None:
    """Write a line for the test."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def note(component: str) -> None:
    """Say that a step begins."""
    with counter.open("a", encoding="utf-8") as file:
        file.write(f"{current().run_id} {component}\n")


@step
def begin(x: int) -> int:
    note("begin")
    return x + 1


@step
def middle(x: int) -> int:
    note("middle")
    time.sleep(0.05)
    return x * 2


@step
def end(x: int) -> int:
    note("end")
    return x - 3


flow = Workflow("driven", begin >> middle >> end)


def main(dsn: str, schema: str, lease: str) -> None:
    """Start runs, or resume those that are there, and say when all of them have finished."""
    with Runner(PostgresStore(dsn, schema=schema, lease=float(lease))) as runner:
        if runner.count():
            runner.resume_all()
        else:
            for i in range(COUNT):
                runner.start(flow, i, id=f"r{i}")
        say("started")
        for i in range(COUNT):
            with suppress(RunParked):  # another process has taken it over
                runner.wait(f"r{i}", timeout=60)
        say("finished")


if __name__ == "__main__":
    counter = Path(sys.argv[4])
    main(*sys.argv[1:4])
