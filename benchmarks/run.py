"""
Measure Weft and its alternatives, print the tables, write the results.

    python benchmarks/run.py                        everything; writes benchmarks/RESULTS.md and its picture
    python benchmarks/run.py --quick --only 'chain|map'
    python benchmarks/run.py --folder /mnt/data --only 'throughput|latency|postgres'

The whole of it takes about twenty minutes on a quiet machine with two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

# A file that is run knows its own folder only; the package is beside that.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import report, results
from benchmarks.alternatives import durable as alternatives
from benchmarks.durable import run as durable
from benchmarks.harness import FULL, QUICK, Effort, Failure, Measured, Timing, measure
from benchmarks.library import Library, load_all
from benchmarks.progress import Progress
from benchmarks.report import Case, Line
from benchmarks.subjects import SUBJECTS, Row, Subject

HERE = Path(__file__).parent


def main() -> int:
    """Run what was asked for; fail if Weft has no figure for some of it."""
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and folders are cleared away
    began, load = time.time(), os.getloadavg()
    libraries = load_all()
    core = [subject for subject in SUBJECTS if re.search(options.only, subject.name)]
    parts = durable.parts(options.only, quick=options.quick, full=options.full)
    if not core and not parts:
        print(f"no subject matches {options.only!r}", file=sys.stderr)
        return 2
    progress = Progress(len(core) + len(parts))
    lines, measured = measured_core(core, libraries, progress, QUICK if options.quick else FULL)
    stored = durable.run(parts, options.folder, progress)
    document: dict[str, Any] = {
        "quick": options.quick,
        "full": options.full,
        "only": options.only,
        "began": began,
        "seconds": time.time() - began,
        "load": {"begin": load, "end": os.getloadavg()},
        "alternatives": alternatives.versions(),
        **report.document(lines, measured, libraries),
        "durable": stored,
    }
    options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    target = results_file(options)
    if target is not None:
        for path in results.write(document, target):
            print(f"wrote {path}")
    return int(not stored["right"] or any(isinstance(each.weft, Failure) for each in lines))


def measured_core(
    subjects: list[Subject], libraries: tuple[Library, ...], progress: Progress, effort: Effort
) -> tuple[list[Line], dict[Case, Measured]]:
    """Measure what needs no store, and print the table."""
    lines: list[Line] = []
    measured: dict[Case, Measured] = {}
    for subject in subjects:
        progress.begin(subject.name)
        measured |= measurements(subject, libraries, effort)
        lines += (line(subject, row, libraries, measured) for row in subject.rows)
    if subjects:
        described = report.machine(libraries)
        print(f"{report.interpreter(described)}, {described['cpus']} CPUs;", end=" ")
        print(", ".join(f"{name} {version}" for name, version in described["packages"].items()))
        print("CPU time, median of repeats in turns, smallest and largest; in parentheses, times Weft's.\n")
        print(report.table(lines, libraries))
        for note in report.notes(measured):
            print(f"failed: {note}")
    return lines, measured


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure Weft beside its alternatives.")
    parser.add_argument("--json", type=Path, metavar="PATH", default=HERE / "results.json")
    parser.add_argument("--only", metavar="PATTERN", default="", help="a regular expression for the subjects to run")
    parser.add_argument("--folder", type=Path, default=HERE, help="where to write; the disk under it is measured")
    parser.add_argument("--full", action="store_true", help="a million steps where memory is measured")
    parser.add_argument("--quick", action="store_true", help="few repeats: see that it works, not how fast it is")
    parser.add_argument(
        "--results",
        type=Path,
        metavar="PATH",
        help="the page to write, with a picture; without this, only a whole run writes one, benchmarks/RESULTS.md",
    )
    return parser.parse_args()


def results_file(options: argparse.Namespace) -> Path | None:
    """Return the page that this run writes; a part of the benchmarks or a quick run leaves the usual one alone."""
    if options.results is not None:
        return Path(options.results)
    return None if options.only or options.quick else results.PAGE


def measurements(subject: Subject, libraries: tuple[Library, ...], effort: Effort) -> dict[Case, Measured]:
    """Take every measurement that the rows of *subject* need, each once."""
    weft, *_ = libraries
    builds = {
        Case(subject.name, library.name, row.work, size): build
        for row in subject.rows
        for library in (libraries if row.compared else (weft,))
        for size in row.sizes
        if (build := library.build(row.work, size))
    }
    return measure(builds, effort)


def line(subject: Subject, row: Row, libraries: tuple[Library, ...], measured: dict[Case, Measured]) -> Line:
    """Make the figures of *row*, or say why there are none."""
    figures: dict[str, float | Failure] = {}
    spreads: dict[str, tuple[float, float]] = {}
    for library in libraries:
        absent = report.NOT_COMPARED if library.module else library.missing
        parts = [measured.get(Case(subject.name, library.name, row.work, size), absent) for size in row.sizes]
        failure = next((part for part in parts if isinstance(part, Failure)), None)
        figure = figures[library.name] = failure or row.figure(*parts)
        if isinstance(parts[0], Timing) and len(parts) == 1 and not isinstance(figure, Failure):
            scale = figure / parts[0].median
            spreads[library.name] = parts[0].minimum * scale, parts[0].maximum * scale
    return Line(row, figures, spreads)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
