"""
Measure Weft and its alternatives, print the table, write the results.

    python benchmarks/run.py
    python benchmarks/run.py --quick --only 'chain|map'
    python benchmarks/run.py --folder /mnt \\
        --only 'throughput|latency|chains|encoding|memory|neighbours|resuming|live|killing'
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

# A file that is run knows its own folder only; the package is beside that.
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import report
from benchmarks.durable import run as durable
from benchmarks.harness import FULL, QUICK, Effort, Failure, Measured, measure
from benchmarks.library import Library, load_all
from benchmarks.report import Case, Line
from benchmarks.subjects import SUBJECTS, Row, Subject


def main() -> int:
    """Run what was asked for; fail if Weft has no figure for some of it."""
    options = arguments()
    libraries = load_all()
    lines: list[Line] = []
    measured: dict[Case, Measured] = {}
    for subject in SUBJECTS:
        if re.search(options.only, subject.name):
            print(f"measuring {subject.name} ...", file=sys.stderr, flush=True)
            measured |= measurements(subject, libraries, QUICK if options.quick else FULL)
            lines += (line(subject, row, libraries, measured) for row in subject.rows)

    described = report.machine(libraries)
    print(f"{report.interpreter(described)}, {described['cpus']} CPUs;", end=" ")
    print(", ".join(f"{name} {version}" for name, version in described["packages"].items()))
    print("CPU time, minimum of repeats; in parentheses, times Weft's.\n")
    print(report.table(lines, libraries))
    for note in report.notes(measured):
        print(f"failed: {note}")

    stored = durable.run(options.folder, options.only, quick=options.quick, full=options.full)
    results = {"quick": options.quick} | report.document(lines, measured, libraries) | {"durable": stored}
    options.json.write_text(json.dumps(results, indent=2) + "\n")
    is_wrong = stored is not None and not stored["right"]
    return int(is_wrong or any(isinstance(each.weft, Failure) for each in lines))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure Weft beside its alternatives.")
    parser.add_argument("--json", type=Path, metavar="PATH", default=Path(__file__).with_name("results.json"))
    parser.add_argument("--only", metavar="PATTERN", default="", help="a regular expression for the subjects to run")
    here = Path(__file__).parent
    parser.add_argument("--folder", type=Path, default=here, help="where to write; the disk under it is measured")
    parser.add_argument("--full", action="store_true", help="a million steps where memory is measured")
    parser.add_argument("--quick", action="store_true", help="few repeats: see that it works, not how fast it is")
    return parser.parse_args()


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
    for library in libraries:
        absent = report.NOT_COMPARED if library.module else library.missing
        parts = [measured.get(Case(subject.name, library.name, row.work, size), absent) for size in row.sizes]
        failure = next((part for part in parts if isinstance(part, Failure)), None)
        figures[library.name] = failure or row.figure(*parts)
    return Line(row, figures)


if __name__ == "__main__":
    sys.exit(main())
