"""
Runs the tests on every version of Python that the library is for and this machine has, and says which it has not.

    make versions                              all of them, one after the other
    make versions ARGS="--only 3.12 3.13"      those two
    make versions ARGS="-- -k join"            what follows the two dashes is for pytest
    make versions ARGS="--share --others"      what CI runs: a bounded share, on the versions but this one

Each version has its own environment, ``.venv-3.12`` for instance, which is made again when pyproject.toml has changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from interpreters import Interpreter, find, supported

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "pyproject.toml"
PYTEST = ("-q", "-ra", "-n", "auto", "--maxprocesses", "4")
SHARE = (
    *("tests/core/fold", "tests/core/run", "tests/core/functions", "tests/policy", "tests/local/test_serial.py"),
    *("tests/log/test_codec.py", "tests/log/test_definition.py", "tests/log/test_corpus.py"),
    *("tests/log/test_snapshot.py", "tests/stores/sqlite/test_store.py", "tests/runner/test_runner.py"),
)
"""The tests that depend most on the version: instructions of functions, codecs, one store, one runner."""


def main() -> int:
    """Return 1 if the tests of a version have failed, or none could be run."""
    known = [f"{major}.{minor}" for major, minor in supported(PROJECT)]
    parser = argparse.ArgumentParser(prog="make versions", description="Run the tests on several versions of Python.")
    parser.add_argument("--only", nargs="+", choices=known, default=known, metavar="VERSION", help=", ".join(known))
    parser.add_argument("--share", action="store_true", help="only the tests that depend most on the version")
    parser.add_argument("--others", action="store_true", help="leave out the version that runs this")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    given = parser.parse_args()
    wanted = [version for version in supported(PROJECT) if "{}.{}".format(*version) in given.only]
    if given.others:
        wanted = [version for version in wanted if version != sys.version_info[:2]]
    arguments = [*(SHARE if given.share else ()), *given.pytest]
    verdicts: dict[str, str] = {}
    for version, interpreter in find(wanted, os.environ).items():
        name = "{}.{}".format(*version)
        if interpreter is None:
            verdicts[name] = f"skipped: no python{name} on the PATH or in pyenv"
            continue
        print(f"-- Python {interpreter.name}", flush=True)  # noqa: T201 - it is a program
        verdicts[name] = f"{_verdict(interpreter, ROOT / f'.venv-{name}', arguments)} on {interpreter.name}"
    print(*(f"{name:5} {verdict}" for name, verdict in verdicts.items()), sep="\n")  # noqa: T201 - as above
    passed = [verdict for verdict in verdicts.values() if verdict.startswith("passed")]
    is_enough = bool(passed) or given.others  # that one has run elsewhere
    return 0 if is_enough and not any(verdict.startswith("failed") for verdict in verdicts.values()) else 1


def _verdict(interpreter: Interpreter, environment: Path, arguments: list[str]) -> str:
    """Run the tests on *interpreter*, with what they need in an *environment*."""
    python = environment / "bin" / "python"
    if not _is_ready(environment, interpreter):
        shutil.rmtree(environment, ignore_errors=True)
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        for command in (
            [interpreter.path, "-m", "venv", environment],
            [*pip, "--upgrade", "pip>=25.1"],  # the first that knows dependency groups
            [*pip, "--editable", ROOT, "--group", f"{PROJECT}:dev"],
        ):
            if subprocess.run(command, cwd=ROOT, check=False).returncode:
                return "failed to install"
        (environment / "stamp").write_text(interpreter.name, encoding="utf-8")
    done = subprocess.run([python, "-m", "pytest", *PYTEST, *arguments], cwd=ROOT, check=False)
    return "failed" if done.returncode else "passed"


def _is_ready(environment: Path, interpreter: Interpreter) -> bool:
    stamp = environment / "stamp"
    return (
        stamp.exists()
        and stamp.stat().st_mtime >= PROJECT.stat().st_mtime
        and stamp.read_text(encoding="utf-8") == interpreter.name
    )


if __name__ == "__main__":
    sys.exit(main())
