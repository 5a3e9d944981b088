"""
What importing Weft takes more than a bare interpreter, each time in a process of its own, by CPU and wall time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.durable.line import Line

CODES = {
    "import weft": 100.0,
    "from weft import Workflow, step": None,
    "from weft import Runner": None,
}
"""What is executed, and how many milliseconds it may take."""


def measure(folder: Path, *, quick: bool) -> Iterator[Line]:
    """Start interpreters in turns; the minimum counts."""
    del folder
    walls: dict[str, list[float]] = {}
    cpus: dict[str, list[float]] = {}
    for _ in range(3 if quick else 11):  # the first one writes the bytecode
        for code in ("pass", *CODES):
            wall, cpu = _took(code)
            walls.setdefault(code, []).append(wall)
            cpus.setdefault(code, []).append(cpu)
    for code, target in CODES.items():
        figure = (min(walls[code]) - min(walls["pass"])) * 1e3
        by_cpu = (min(cpus[code]) - min(cpus["pass"])) * 1e3
        how = "more than a bare interpreter"
        yield Line("importing", code, how, figure, "ms", target, beside=f"{by_cpu:.0f} ms of CPU", by_cpu=by_cpu)


def _took(code: str) -> tuple[float, float]:
    """Return the wall time and the CPU time of an interpreter that executes *code*."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, started = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)  # noqa: S603
    wall, after = time.perf_counter() - started, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, used
