"""
Runs the tests several times on a machine that has too much to do, and prints every test that failed once.

    make stress                                   the whole suite, three times, beside four busy processes
    make stress ARGS="--times 10 -- tests/runner" what follows the two dashes is for pytest

A test that passes on an idle machine and fails here depends on which thread or process is scheduled first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from failures import failed_tests

ROOT = Path(__file__).parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-n", "4", "-p", "no:cacheprovider")
BURN = "while True: pass"


def main() -> int:
    """Return 1 if a test has failed, or if the tests could not be run."""
    parser = argparse.ArgumentParser(prog="make stress", description="Run the tests on a busy machine.")
    parser.add_argument("--times", type=int, default=3, help="how often")
    parser.add_argument("--burners", type=int, default=4, help="how many processes keep the CPU busy meanwhile")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    given = parser.parse_args()
    failures: Counter[str] = Counter()
    with burning(given.burners), tempfile.TemporaryDirectory() as folder:
        for number in range(1, given.times + 1):
            print(f"-- {number} of {given.times}", flush=True)  # noqa: T201 - it is a program
            report = Path(folder) / f"{number}.xml"
            code = subprocess.run([*PYTEST, f"--junitxml={report}", *given.pytest], cwd=ROOT, check=False).returncode
            if code not in (0, 1):
                print(f"pytest ended with {code}")  # noqa: T201 - as above
                return 1
            failures.update(failed_tests(report.read_bytes()))
    for test, times in failures.most_common():
        print(f"failed {times} of {given.times}: {test}")  # noqa: T201 - as above
    if not failures:
        print(f"no test failed in {given.times} runs beside {given.burners} busy processes")  # noqa: T201 - as above
    return 1 if failures else 0


@contextmanager
def burning(count: int) -> Iterator[None]:
    """Let *count* processes keep the CPU busy."""
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


if __name__ == "__main__":
    sys.exit(main())
