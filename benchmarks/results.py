"""
The page that a run of all benchmarks leaves: what was measured, on what, beside which targets; with its picture, and
the table of the README.

    python -m benchmarks.results benchmarks/results.json benchmarks/RESULTS.md

writes them again from the figures of the last run, without measuring anything.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import headline, picture
from benchmarks.durable.line import number
from benchmarks.figures import Figure, figures
from benchmarks.report import interpreter
from benchmarks.targets import ASKED, Asked, partner, reason

PAGE = Path(__file__).resolve().with_name("RESULTS.md")
PICTURE = PAGE.parents[1] / "docs" / "explanation" / "pictures" / "speed.svg"
BUSY = 0.75
"""How much load for each core, before the run, makes the machine a busy one."""

HOW_TO_READ = """\
A figure is the median of rounds that were taken in turns with the alternatives, with the smallest and the largest round
in parentheses, or the middle half where it says so below. After an alternative: how many times as fast Weft is, on
threads where the alternative has threads."""
NOT_RUN = """\
Quoted figures are from the table of the project's design and were not measured in this run. Runic, Waymark, Temporal,
Hatchet, Absurd and Prefect were not run here."""


def write(document: Mapping[str, Any], page: Path) -> tuple[Path, Path]:
    """
    Write the page and its picture, and return where they are; the usual picture is one of the documentation.

    With the usual page, the table of the README is written too.
    """
    is_usual = page.resolve() == PAGE
    drawn = PICTURE if is_usual else page.with_suffix(".svg").resolve()
    if is_usual:
        headline.write(figures(document))
    drawn.write_text(picture.draw(figures(document), _remark(document)), encoding="utf-8")
    link = Path(os.path.relpath(drawn, page.resolve().parent)).as_posix()
    page.write_text(markdown(document, link), encoding="utf-8")
    return page, drawn


def markdown(document: Mapping[str, Any], link: str) -> str:
    """Return the page; *link* leads from it to the picture."""
    found = figures(document)
    parts = [
        "# Results of `make bench`",
        "This page is written by `make bench`; change nothing here by hand.",
        *_warnings(document),
        _conditions(document),
        f"![Steps per second of Weft and its alternatives, on a logarithmic scale]({link})",
        "## Targets",
        HOW_TO_READ,
        _targets(found),
        *_missed(document, found),
        NOT_RUN,
        *_absent(document),
        "## Everything that was measured",
        "In memory, CPU time:",
        _table(
            ["work", "library", "median (spread)", "target", ""],
            ([one.work, one.library, one.told, one.wanted, one.verdict] for one in found if one.subject == "core"),
        ),
        "Stored, wall time:",
        _table(
            ["work", "how", "median (spread)", "target", "", "beside"],
            (
                [one.work, one.how, one.told, one.wanted, one.verdict, one.beside]
                for one in found
                if one.subject != "core"
            ),
        ),
        *_killed(document),
    ]
    return "\n\n".join(parts) + "\n"


def _warnings(document: Mapping[str, Any]) -> Iterator[str]:
    if remark := _remark(document):
        yield f"**This was {remark}: it shows that everything works, not how fast it is.**"
    if document["only"]:
        yield f"**A part of the benchmarks: those that match `{document['only']}`.**"


def _conditions(document: Mapping[str, Any]) -> str:
    machine, load, stored = document["machine"], document["load"], document["durable"]
    packages = {**machine["packages"], **document["alternatives"]}
    options = " --quick" if document["quick"] else ""
    options += " --full" if document["full"] else ""
    options += f" --only '{document['only']}'" if document["only"] else ""
    minutes = document["seconds"] / 60
    lines = [
        ["when", f"{datetime.fromtimestamp(document['began'], UTC):%Y-%m-%d %H:%M} UTC, {minutes:.0f} minutes"],
        ["machine", f"{machine['system']}, {machine['architecture']}, {machine['cpus']} CPUs"],
        ["load", f"{load['begin'][0]:.1f} at the beginning, {load['end'][0]:.1f} at the end (its own work included)"],
        ["interpreter", interpreter(machine)],
        ["SQLite", f"{stored['sqlite']}, WAL, synchronous FULL where nothing else is said"],
        ["server", stored["server"] or "none"],
        ["versions", ", ".join(f"{name} {version}" for name, version in packages.items())],
        ["to repeat", f'`make bench ARGS="{options.strip()}"`' if options else "`make bench`"],
    ]
    return _table(["", ""], lines)


def _targets(found: Sequence[Figure]) -> str:
    return _table(
        ["work", "Weft", "target", "", "alternatives, in the same run", "quoted"],
        (row for asked in ASKED for row in _rows(asked, found)),
    )


def _rows(asked: Asked, found: Sequence[Figure]) -> Iterator[list[str]]:
    """Return a row for each figure of Weft; the alternatives stand beside the one that they are compared with."""
    mine, others = asked.of(found)
    if not mine:
        yield [f"**{asked.title}**", "not measured", "", "", "", asked.quoted]
        return
    beside: dict[Figure, list[str]] = {each: [] for each in mine}
    for other in others:
        weft = partner(other, mine)
        times = f", {number(other.times(weft))} ×" if weft is not None else ""
        beside[weft or mine[0]].append(f"{other.library} {number(other.value)} {other.unit}{times}")
    for place, figure in enumerate(mine):
        yield [
            (f"**{asked.title}**: " if place == 0 else "") + f"{figure.work}; {figure.how}",
            figure.told,
            figure.wanted,
            figure.verdict,
            "; ".join(beside[figure]),
            asked.quoted if place == 0 else "",
        ]


def _missed(document: Mapping[str, Any], found: Sequence[Figure]) -> Iterator[str]:
    """Say why targets are missed; of a quick run and of a busy machine, that is all that can be said."""
    lines: dict[str, None] = {}
    for asked in ASKED:
        for figure in asked.of(found)[0]:
            why = reason(asked, figure)
            if why:
                lines[f"- {asked.title}, {figure.how}: {why}."] = None
    if not lines:
        return
    yield "### Missed, and why"
    if remark := _remark(document):
        yield f"This was {remark}, so {len(lines)} missed targets say little about Weft."
    else:
        yield "\n".join(lines)


def _remark(document: Mapping[str, Any]) -> str:
    """Return why figures of this run are not those of Weft; nothing if they are."""
    load, cores = document["load"]["begin"][0], document["machine"]["cpus"]
    found = ["a quick run with small sizes"] if document["quick"] else []
    if load > BUSY * cores:
        found.append(f"a run on a busy machine, with a load of {load:.1f} on {cores} cores before it began")
    return " and ".join(found)


def _absent(document: Mapping[str, Any]) -> Iterator[str]:
    notes = [f"- {note['subject']}: {note['text']}" for note in document["durable"]["notes"]]
    if notes:
        yield "No figure:\n\n" + "\n".join(notes)


def _killed(document: Mapping[str, Any]) -> Iterator[str]:
    killed = document["durable"]["killed"]
    if killed:
        yield "## A process that is killed with -9 at work"
    for executor, lines in killed.items():
        yield f"SQLite, {executor}:\n\n" + "\n".join(f"- {line}" for line in lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    for written in write(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])):
        print(f"wrote {written}")
