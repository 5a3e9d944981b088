"""
The figures that the design asks for, what others are known to need, and why a target is missed where it is.

Each entry says which of the measured figures belong to it.  A figure in *quoted* is from the table of the design and
was not measured in the same run: what it is about cannot be installed from the package index, or needs a server of its
own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.figures import WEFT, Figure

UNKNOWN = "not explained yet"
BY_CPU = "met by CPU time: other processes kept it from running"


@dataclass(frozen=True, slots=True)
class Asked:
    """One entry: *subject* and *pattern* choose its figures."""

    title: str
    subject: str
    pattern: str
    quoted: str = ""
    why: str = UNKNOWN
    """Shown beside a figure that misses its target."""

    def of(self, found: Iterable[Figure]) -> tuple[list[Figure], list[Figure]]:
        """Return the figures of Weft, and those of the alternatives."""
        mine = [figure for figure in found if figure.is_of(self.subject, self.pattern)]
        return [each for each in mine if each.library == WEFT], [each for each in mine if each.library != WEFT]


_RUNS = "starting and finishing a run costs more than the target leaves for it (docs/explanation/how-fast.md counts it)"
_SERVER = (
    "the process is busy for most of the time, and waits for statements during the rest (its CPU time is below); of "
    "what a step from the queue costs it, nearly half is to claim, load and finish its run"
)

ASKED = (
    Asked("in memory, a chain of steps that do nothing", "core", r"^chain of [\d,]+ steps;", "Runic 15 and 52 µs"),
    Asked(
        "in memory, a map and its reduce", "core", r"^map over (1|10),000 elements", "Runic 1.2 s for 1,000, quadratic"
    ),
    Asked(
        "runner on the memory store, 1,000 workflows × 5 steps at once",
        "throughput",
        r"; memory, \w+, every_cycle",
        "Runic 20,000 steps/s",
        _RUNS,
    ),
    Asked("embedded SQLite, the same", "throughput", r"; (sqlite, \w+, every_cycle, FULL|SQLite)", why=_RUNS),
    Asked(
        "PostgreSQL, one process, the same",
        "postgres_throughput",
        r" workflows x ",
        "Absurd 500 to 700 steps/s, Waymark 1,000 to 1,700",
        _SERVER,
    ),
    Asked("PostgreSQL, what a step costs the server", "postgres_throughput", r"^(statements|WAL), "),
    Asked(
        "PostgreSQL, start to result of a one-step workflow",
        "postgres_idle",
        r"start to result",
        "Waymark 45 to 500 ms",
        "three commits follow one another, the start, the claim and the result, with a load, two notifications and a "
        "read between them; each hands over to another process, and on two cores those do not always run at once",
    ),
    Asked("one chain of 1,000 durable steps, SQLite", "latency", r"one chain of"),
    Asked(
        "one chain of 1,000 durable steps, PostgreSQL",
        "postgres_chain",
        r"one chain of",
        why="between two commits the process needs 40 µs more than between bare ones, to execute, fold and encode "
        "a step; its statement, which changes one row and inserts another, takes the server 10 µs more than an insert",
    ),
    Asked("start to result of a one-step workflow, SQLite", "latency", r"start to result", why=_RUNS),
    Asked("resume a run, snapshot and tail", "long_lived", r"^resume a run of", "Runic 490 ms for 1,000 steps"),
    Asked("fold of a log without a snapshot", "core", r"^fold of the log", "Runic 4.2 µs per event"),
    Asked("waiting workflows that one process holds", "long_history", r"waiting runs; sqlite, all in memory"),
    Asked(
        "idle worker",
        "postgres_idle",
        r"^(an idle worker|connections of a worker)",
        "Hatchet 3.5 queries/s per idle engine",
    ),
    Asked(
        "two workers beside one, in processes",
        "postgres_two",
        r"^two workers",
        why="probably: with two workers and the server three processes are busy, and two cores run two of them at once",
    ),
    Asked(
        "starting runs for a fleet",
        "postgres_backlog",
        r"^start_many",
        why="the client makes runs while the server writes others, each on a core; without a second core for them one "
        "has to wait for the other (the CPU times of both are below)",
    ),
    Asked("claiming from a long queue", "postgres_backlog", r"^claim of"),
)
"""In the order of the page."""


def reason(asked: Asked, figure: Figure) -> str:
    """Return why *figure* misses its target; nothing if it does not."""
    if figure.is_met is not False:
        return ""
    return BY_CPU if figure.is_met_by_cpu else asked.why


def partner(other: Figure, mine: Iterable[Figure]) -> Figure | None:
    """
    Return the figure of Weft that *other* is compared with, in the same unit.

    That is one of the same work, else one on threads if the other has threads, else the first.
    """
    same = [each for each in mine if each.unit == other.unit]
    of_the_same_work = [each for each in same if each.work == other.work]
    on_threads = [each for each in same if "threads" in other.how and ", thread" in each.how]
    return next(iter([*of_the_same_work, *on_threads, *same]), None)
