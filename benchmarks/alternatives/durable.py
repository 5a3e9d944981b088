"""
The alternatives that store what they do, and how each of them does it.

    >>> [each.name for each in ON_SQLITE]
    ['DBOS', 'LangGraph']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from benchmarks.alternatives.apart import Apart
from benchmarks.durable.line import Line, Note
from benchmarks.durable.sampling import Samples


@dataclass(frozen=True, slots=True)
class Alternative:
    """A library that runs apart."""

    name: str
    package: str
    """The module that must be there."""
    module: str
    """The one that drives it."""
    how: str


_DBOS, _LANGGRAPH = "benchmarks.alternatives.dbos", "benchmarks.alternatives.langgraph_saved"
ON_SQLITE = (
    Alternative("DBOS", "dbos", _DBOS, "SQLite (journal DELETE), threads, a commit per step, FULL"),
    Alternative("LangGraph", "langgraph.checkpoint.sqlite", _LANGGRAPH, "SQLite (WAL), threads, durability=sync, FULL"),
)
ON_POSTGRES = (
    Alternative("DBOS", "dbos", _DBOS, "postgres, threads, a commit per step"),
    Alternative(
        "LangGraph", "langgraph.checkpoint.postgres", _LANGGRAPH, "postgres, threads, durability=sync, 10 connections"
    ),
)


@contextmanager
def all_apart(alternatives: Sequence[Alternative], wheres: Iterable[str | Path]) -> Iterator[dict[Alternative, Apart]]:
    """Yield a process for each, which starts at its first turn."""
    with ExitStack() as stack:
        yield {
            each: stack.enter_context(Apart(each.module, each.package, str(where)))
            for each, where in zip(alternatives, wheres, strict=True)
        }


def speed_line(subject: str, one: Alternative, samples: Samples, count: int, steps: int, beside: str) -> Line | Note:
    """Return how many steps it does in a second, or why that is not known."""
    if samples.failure:
        return Note(subject, f"{one.name}: {samples.failure}")
    seen = samples.per_second(count * steps)
    by_cpu = count * steps / samples.median_cpu
    return Line(
        subject,
        f"{one.name}, {count:,} workflows x {steps} steps at once",
        one.how,
        seen.figure,
        "steps/s",
        beside=f"by CPU {by_cpu:,.0f}/s; {beside}",
        low=seen.low,
        high=seen.high,
        library=one.name,
    )


def chain_line(subject: str, one: Alternative, samples: Samples, steps: int) -> Line | Note:
    """Return how long a step of one chain takes, or why that is not known."""
    if samples.failure:
        return Note(subject, f"{one.name}: {samples.failure}")
    seen, work = samples.each(steps, 1e6), f"{one.name}, one chain of {steps:,} steps, time per step"
    return Line(subject, work, one.how, seen.figure, "µs", low=seen.low, high=seen.high, library=one.name)


def versions() -> dict[str, str]:
    """Return what the alternatives are, and what they talk to a database with."""
    packages = {
        "DBOS": "dbos",
        "LangGraph": "langgraph",
        "langgraph-checkpoint-sqlite": "langgraph-checkpoint-sqlite",
        "langgraph-checkpoint-postgres": "langgraph-checkpoint-postgres",
        "asyncpg": "asyncpg",
        "psycopg": "psycopg",
    }
    return {name: _version(package) for name, package in packages.items()}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
