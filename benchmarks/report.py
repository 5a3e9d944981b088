"""
What was measured, as a table for people and as JSON for programs.

A figure of an alternative is followed by its ratio to Weft's; above 1, Weft is
faster.
"""

from __future__ import annotations

import os
import platform
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.harness import Failure, Measured
from benchmarks.library import NOT_INSTALLED, Library
from benchmarks.subjects import Row

NOT_COMPARED = Failure("-")


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement: this library, doing *work* of this size, for this subject."""

    subject: str
    library: str
    work: str
    size: int


@dataclass(frozen=True, slots=True)
class Line:
    """One row with its figures, by library; Weft's is the first."""

    row: Row
    figures: Mapping[str, float | Failure]
    spreads: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """By library: its smallest and its largest figure, where it is a time."""

    @property
    def weft(self) -> float | Failure:
        return next(iter(self.figures.values()))

    @property
    def is_met(self) -> bool | None:
        """Whether the target is reached; None if there is none, or no figure."""
        if self.row.target is None or isinstance(self.weft, Failure):
            return None
        return self.weft <= self.row.target

    def ratio(self, library: str) -> float | None:
        """How many times Weft's figure that of *library* is."""
        figure, weft = self.figures[library], self.weft
        return None if isinstance(figure, Failure) or isinstance(weft, Failure) else figure / weft


def table(lines: Sequence[Line], libraries: Sequence[Library]) -> str:
    """Draw the lines in columns."""
    weft, *others = (library.name for library in libraries)
    rows = [["work", "unit", weft, "spread", "target", "met?", *others]]
    for line in lines:
        target = "" if line.row.target is None else _number(line.row.target)
        met = {True: "yes", False: "NO", None: ""}[line.is_met]
        compared = (_compared(line, name) for name in others)
        seen = " to ".join(_number(end) for end in line.spreads.get(weft, ()))
        rows.append([line.row.label, line.row.unit, _figure(line.weft), seen, target, met, *compared])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(_aligned(row, widths)).rstrip() for row in rows)


def notes(measured: Mapping[Case, Measured]) -> Iterator[str]:
    """Say what failed, and why."""
    for case, figure in measured.items():
        if isinstance(figure, Failure) and figure.reason != NOT_INSTALLED:
            yield f"{case.library}, {case.work} of {case.size:,}: {figure.reason}"


def machine(libraries: Iterable[Library]) -> dict[str, Any]:
    """Describe where the figures come from."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "compiler": platform.python_compiler(),
        "build": build(),
        "cpus": os.cpu_count(),
        "packages": {
            library.name: library.version if library.module else library.missing.reason for library in libraries
        },
    }


def build() -> dict[str, Any]:
    """Say how the interpreter was made: that alone can make it faster or slower by a third."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    flags = f"{sysconfig.get_config_var('PY_CFLAGS') or ''} {sysconfig.get_config_var('PY_CORE_LDFLAGS') or ''}"
    return {
        "pgo": "--enable-optimizations" in arguments or "-fprofile-use" in flags,
        "lto": "--with-lto" in arguments or "-flto" in flags,
        "optimization": next((flag for flag in reversed(flags.split()) if flag.startswith("-O")), ""),
        "debug": bool(sysconfig.get_config_var("Py_DEBUG")),
        "arguments": arguments,
    }


def interpreter(machine: Mapping[str, Any]) -> str:
    """Return one line about the interpreter of *machine*, for a table: its version, compiler and build."""
    made = machine["build"]
    kinds = [name.upper() if made[name] else f"no {name.upper()}" for name in ("pgo", "lto")]
    debug = ["debug"] if made["debug"] else []
    told = ", ".join((machine["compiler"], *kinds, made["optimization"] or "-O unknown", *debug))
    return f"{machine['implementation']} {machine['python']} ({told})"


def document(lines: Iterable[Line], measured: Mapping[Case, Measured], libraries: Sequence[Library]) -> dict[str, Any]:
    """Return everything as data: figures, and the measurements they were made of, in seconds per call."""
    return {
        "machine": machine(libraries),
        "rows": [
            {
                "work": line.row.label,
                "unit": line.row.unit,
                "target": line.row.target,
                "met": line.is_met,
                "figures": {name: _plain(figure) for name, figure in line.figures.items()},
                "spreads": {name: list(ends) for name, ends in line.spreads.items()},
                "ratios": {name: ratio for name in line.figures if (ratio := line.ratio(name)) is not None},
            }
            for line in lines
        ],
        "measurements": [asdict(case) | asdict(figure) for case, figure in measured.items()],
    }


def _plain(figure: float | Failure) -> float | str:
    return figure.reason if isinstance(figure, Failure) else figure


def _compared(line: Line, library: str) -> str:
    ratio = line.ratio(library)
    figure = _figure(line.figures[library])
    return figure if ratio is None else f"{figure} ({_number(ratio)}x)"


def _figure(figure: float | Failure) -> str:
    if not isinstance(figure, Failure):
        return _number(figure)
    return figure.reason if figure.reason in {NOT_INSTALLED, NOT_COMPARED.reason} else "failed"


def _number(value: float) -> str:
    """Three digits, or all of those before the point."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def _aligned(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Words to the left, numbers to the right."""
    for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.ljust(width) if index < 2 else cell.rjust(width)
