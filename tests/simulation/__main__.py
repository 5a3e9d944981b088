"""
Simulates until it is told to stop, and prints what it takes to repeat a failure.

    make simulate                                        for a minute
    make simulate ARGS="--seconds 600"                   for longer
    make simulate ARGS="--seed 4711 --cases 1"           that one again, with its story
    make simulate ARGS="--schedules"                     schedules alone
    make simulate ARGS="--long"                          long-lived runs alone
    make simulate ARGS="--orderly"                       real threads and tasks alone, on real files
    make simulate ARGS="--orderly --seed 11 --cases 1"   one of those again

A tenth of the time is for schedules, another one for long-lived runs, and a third for real threads and tasks
(``tests/orderly``).  Their seed draws the same calls again; in which order they meet is up to the machine, so a failure
may need several tries.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

import conftest  # noqa: F401 - finds the modules of the properties
from by_tasks import problems_of_tasks
from by_threads import problems_of_threads
from world import draw

from weft.testing import Report, simulate
from weft.testing.simulation.long_runs import simulate_long_run
from weft.testing.simulation.schedules import simulate_schedule

ORDERLY = 1 / 3
"""Share of the time for real threads and tasks."""
SCHEDULES = 1 / 10
"""Share of the time for schedules."""
LONG = 1 / 10
"""Share of the time for long-lived runs."""


def main() -> int:
    """Return 1 if a case has failed."""
    parser = argparse.ArgumentParser(prog="make simulate", description="Simulate runners that crash.")
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after so many")
    parser.add_argument("--seed", type=int, help="the first case; by itself a random one")
    parser.add_argument("--cases", type=int, help="stop after so many")
    parser.add_argument("--orderly", action="store_true", help="only real threads and tasks")
    parser.add_argument("--schedules", action="store_true", help="only schedules")
    parser.add_argument("--long", action="store_true", help="only long-lived runs")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # a runner complains of crashes, and here they are wanted
    first = SystemRandom().randrange(10**9) if given.seed is None else given.seed
    if given.orderly:
        return use_orderly(first, given.seconds, given.cases)
    if given.schedules:
        return use_schedules(first, given.seconds, given.cases)
    if given.long:
        return use_long_runs(first, given.seconds, given.cases)
    if given.cases is not None:
        return simulated(first, given.seconds, given.cases)
    return (
        simulated(first, (1 - ORDERLY - SCHEDULES - LONG) * given.seconds)
        or use_schedules(first, SCHEDULES * given.seconds)
        or use_long_runs(first, LONG * given.seconds)
        or use_orderly(first, ORDERLY * given.seconds)
    )


def simulated(first: int, seconds: float, most: int | None = None) -> int:
    """Simulate for *seconds*; return 1 if a case has failed."""
    began, cases, last = time.monotonic(), 0, 0.0
    totals = {"lives": 0, "executions": 0, "events": 0, "turns": 0}
    while (most is None or cases < most) and (spent := time.monotonic() - began) < seconds:
        report = simulate(first + cases, draw)
        cases += 1
        for name in totals:
            totals[name] += getattr(report, name)
        if report.problems:
            tell(report)
            return 1
        if spent - last > 1:
            last = spent
            sys.stderr.write(f"\r{cases:,} cases, {60 * cases / spent:,.0f} a minute")
    spent = time.monotonic() - began
    counts = ", ".join(f"{count:,} {name}" for name, count in totals.items())
    sys.stdout.write(
        f"\r{cases:,} cases from seed {first}, {60 * cases / spent:,.0f} a minute: {counts}; all is well\n"
    )
    if most == 1:
        sys.stdout.write(f"{report}\n")
    return 0


def use_schedules(first: int, seconds: float, most: int | None = None) -> int:
    """Simulate schedules for *seconds*; return 1 if a case has failed."""
    began, cases, fired = time.monotonic(), 0, 0
    while (most is None or cases < most) and time.monotonic() - began < seconds:
        report = simulate_schedule(first + cases)
        cases, fired = cases + 1, fired + len(report.fired)
        if report.problems:
            again = f"make simulate ARGS='--schedules --seed {report.seed} --cases 1'"
            sys.stdout.write(f"\n{report}\n\nrepeat it: {again}\n")
            return 1
    sys.stdout.write(f"{cases:,} schedules from seed {first}: {fired:,} runs; all is well\n")
    return 0


def use_long_runs(first: int, seconds: float, most: int | None = None) -> int:
    """Simulate long-lived runs for *seconds*; return 1 if a case has failed."""
    began, cases, done = time.monotonic(), 0, 0
    while (most is None or cases < most) and time.monotonic() - began < seconds:
        report = simulate_long_run(first + cases)
        cases, done = cases + 1, done + report.done.total()
        if report.problems:
            again = f"make simulate ARGS='--long --seed {report.seed} --cases 1'"
            sys.stdout.write(f"\n{report}\n\nrepeat it: {again}\n")
            return 1
    sys.stdout.write(f"{cases:,} long runs from seed {first}: {done:,} things were done with them; all is well\n")
    return 0


def use_orderly(first: int, seconds: float, most: int | None = None) -> int:
    """Let threads and tasks use real runners for *seconds*; return 1 if a case has failed."""
    began, cases, inputs, executions = time.monotonic(), 0, 0, 0
    while (most is None or cases < most) and time.monotonic() - began < seconds:
        seed = first + cases
        with tempfile.TemporaryDirectory(prefix="weft-", ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "runs.db"
            use = problems_of_threads if seed % 3 == 0 else problems_of_tasks
            problems, ledger = use(seed, path, calls=40)
        cases += 1
        inputs += sum(map(len, ledger.taken.values()))
        executions += sum(ledger.executions.values())
        if problems:
            lines = "\n".join(f"PROBLEM: {each}" for each in dict.fromkeys(problems))
            again = f"make simulate ARGS='--orderly --seed {seed} --cases 1'"
            sys.stdout.write(f"\norderly case {seed}, {use.__name__}\n{lines}\n\ntry it again: {again}\n")
            return 1
    sys.stdout.write(
        f"{cases:,} orderly cases from seed {first}: {inputs:,} inputs acknowledged, {executions:,} steps executed; "
        "all is well\n"
    )
    return 0


def tell(report: Report) -> None:
    """Print what happened, and how to see it again."""
    sys.stdout.write(f"\n{report}\n\nrepeat it: make simulate ARGS='--seed {report.seed} --cases 1'\n")


if __name__ == "__main__":
    sys.exit(main())
