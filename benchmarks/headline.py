"""
The table of the README, from the figures of a run of all benchmarks.

It stands between two comments in the README, so that a whole run of ``make bench`` can write it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.durable.line import number
from benchmarks.figures import WEFT, Figure

README: Final = Path(__file__).resolve().parents[1] / "README.md"
BEGIN: Final = "<!-- figures: `make bench` writes this table -->"
END: Final = "<!-- end of the figures -->"

_HEAD: Final = ["steps per second, 1,000 runs × 5 steps at once", "Weft", "DBOS", "LangGraph"]
_ROWS: Final = [
    ("in memory, in the event loop", "throughput", "memory, inline, every_cycle", None),
    (
        "on SQLite, in the event loop, each step on the disk before the next",
        "throughput",
        "sqlite, inline, every_cycle, FULL",
        None,
    ),
    ("the same, steps on threads", "throughput", "sqlite, thread, every_cycle, FULL", "SQLite"),
    (
        "on PostgreSQL, steps on threads",
        "postgres_throughput",
        "postgres, a runner, thread, start, every_cycle",
        "postgres",
    ),
]


def table(found: Sequence[Figure]) -> str:
    """Return the table; a figure that was not measured is an empty cell."""
    rows = [_HEAD, ["---", "---:", "---:", "---:"], *_cells(found)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def write(found: Sequence[Figure], readme: Path = README) -> None:
    """Put the table into *readme*, in place of the one that is there."""
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{readme.name} has no place for the table: put {BEGIN} and {END} around it")
    readme.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{after}", encoding="utf-8")


def _cells(found: Sequence[Figure]) -> Iterator[list[str]]:
    for label, subject, how, others in _ROWS:
        of_subject = [each for each in found if each.subject == subject and "workflows x 5 steps at once" in each.work]
        weft = [each for each in of_subject if each.library == WEFT and each.how == how]
        beside = [each for each in of_subject if others is not None and each.how.startswith(others)]
        yield [
            label,
            _told(weft),
            *(_told([each for each in beside if each.library == name]) for name in ("DBOS", "LangGraph")),
        ]


def _told(figures: Sequence[Figure]) -> str:
    return number(figures[0].value) if figures else ""
