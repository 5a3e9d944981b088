"""
Simulates until it is told to stop, and prints what it takes to repeat a failure.

    make simulate                                  for a minute
    make simulate ARGS="--seconds 600"             for longer
    make simulate ARGS="--seed 4711 --cases 1"     that one again, with its story
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from random import SystemRandom

import conftest  # noqa: F401 - finds the modules of the properties
from world import draw

from weft.testing import Report, simulate


def main() -> int:
    """Return 1 if a case has failed."""
    parser = argparse.ArgumentParser(prog="make simulate", description="Simulate runners that crash.")
    parser.add_argument("--seconds", type=float, default=60.0, help="stop after so many")
    parser.add_argument("--seed", type=int, help="the first case; by itself a random one")
    parser.add_argument("--cases", type=int, help="stop after so many")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # a runner complains of crashes, and here they are wanted
    first = SystemRandom().randrange(10**9) if given.seed is None else given.seed
    began, cases, last = time.monotonic(), 0, 0.0
    totals = {"lives": 0, "executions": 0, "events": 0, "turns": 0}
    while (given.cases is None or cases < given.cases) and (spent := time.monotonic() - began) < given.seconds:
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
    if given.cases == 1:
        sys.stdout.write(f"{report}\n")
    return 0


def tell(report: Report) -> None:
    """Print what happened, and how to see it again."""
    sys.stdout.write(f"\n{report}\n\nrepeat it: make simulate ARGS='--seed {report.seed} --cases 1'\n")


if __name__ == "__main__":
    sys.exit(main())
