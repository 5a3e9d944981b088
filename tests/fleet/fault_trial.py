"""
One fault, the runs that go through it, and what is left afterwards: looked up in the tables, and told in figures.

``make faults`` sets WEFT_FAULT_RUNS; without it there are few runs, and nothing is told while they proceed.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import asyncpg
from servers import asked

from weft import Client, events

IS_LONG = "WEFT_FAULT_RUNS" in os.environ
RUNS = int(os.environ.get("WEFT_FAULT_RUNS", "18"))
PATIENCE = 900.0 if IS_LONG else 60.0
"""Seconds after which a wait is an error."""
SEED = int(os.environ.get("WEFT_FAULT_SEED") or random.SystemRandom().randrange(1 << 32))
_TOLD_EVERY = 5.0
CHAIN = ("begin", "middle", "end")

_LEFT = """
    with named as (select key, id from weft_runs where id = any($1))
    select (select count(*) from weft_queue where run not in (select key from named))
         + (select count(*) from weft_inbox where run not in (select key from named))
         + (select count(*) from weft_tasks where run not in (select id from named))
"""


class Expected(NamedTuple):
    """The result of a run, and the steps that its log has."""

    value: object
    steps: Sequence[str] = CHAIN


def chained(ids: Sequence[str], steps: Sequence[str] = CHAIN) -> dict[str, Expected]:
    """Return what is expected of runs of ``chain``, which were given 0, 1, 2, …"""
    return {run: Expected((number + 1) * 2 - 3, steps) for number, run in enumerate(ids)}


def squared(ids: Sequence[str], elements: int) -> dict[str, Expected]:
    """Return what is expected of runs of ``squares``, which were given a number of elements."""
    steps = ["numbers", *["square"] * elements, "total"]
    return dict.fromkeys(ids, Expected(sum(x * x for x in range(elements)), steps))


class Trial:
    """The runs of one database, and what was done to them."""

    def __init__(self, what: str, dsn: str, notes: Path) -> None:
        self._what, self._dsn, self._notes = what, dsn, notes
        self._begun = time.monotonic()
        self.faults: Counter[str] = Counter()
        """How often what was done to them, under the words that the figures use."""
        self.random = random.Random(SEED)  # noqa: S311 - not a secret

    def until(self, found: Callable[[], object]) -> None:
        """Ask again and again, until the answer is true."""
        end = time.monotonic() + PATIENCE
        while not found():
            assert time.monotonic() < end, f"{self._what}: {self._progress()}"
            time.sleep(0.02)

    def shares(self, count: int, low: float = 0.02, high: float = 0.85) -> list[int]:
        """Draw *count* moments: how many of the runs have ended then."""
        return sorted(int(RUNS * self.random.uniform(low, high)) for _ in range(count))

    def ended(self) -> int:
        """Return how many runs have completed."""
        query = "select count(*) from weft_runs where status = 'completed'"
        return int(asked(self._dsn, lambda db: db.fetchval(query)))

    def left(self, besides: Sequence[str] = ()) -> int:
        """Return how many rows the queue, the inbox and the tasks have, those that are not due included."""
        return int(asked(self._dsn, lambda db: db.fetchval(_LEFT, list(besides))))

    def check(self, expected: Mapping[str, Expected], *, besides: Sequence[str] = (), cancelled: int = 0) -> None:
        """
        See that all is done and nothing is left; print the figures.

        Every run has ended once, with its result; every step has completed once in its log; the tables that say what
        is to be done are empty, but for the runs *besides*; and so many other runs were cancelled.
        """
        self.until(lambda: self.left(besides) == 0)
        spent = time.monotonic() - self._begun
        total = Counter[str]()
        with Client(self._dsn) as client:
            assert client.count() == len(expected) + len(besides) + cancelled
            assert client.count(status="completed") == len(expected)
            for run, (value, steps) in expected.items():
                assert client.result(run, timeout=PATIENCE) == value
                log = client.log(run)
                done = Counter(each.component for each in log if isinstance(each, events.ReactionOccurred))
                assert done == Counter(steps), run
                total += done
        assert self.left(besides) == 0
        executed = Counter((run, word) for run, word in self._executed() if run in expected)
        by_component = Counter(word.partition("-")[0] for _, word in executed)
        assert all(by_component[name] == total[name] for name in by_component)
        unnoted = sum(count for name, count in total.items() if name not in by_component)
        self.tell(len(expected), total.total(), executed.total() + unnoted, executed.total() - len(executed), spent)

    async def acheck(
        self, expected: Mapping[str, Expected], *, besides: Sequence[str] = (), cancelled: int = 0
    ) -> None:
        """Do the same where workers run in this process."""
        await asyncio.to_thread(self.check, expected, besides=besides, cancelled=cancelled)

    def tell(self, runs: int, steps: int, executions: int, repeated: int, spent: float | None = None) -> None:
        """Print the figures."""
        faults = ", ".join(f"{count:,} {word}" for word, count in self.faults.items())
        spent = time.monotonic() - self._begun if spent is None else spent
        self._say(
            f"{self._what}: {runs:,} runs, {steps:,} steps, {executions:,} executions, {repeated:,} repeated; "
            f"{faults}; {spent:.1f} s; 0 left in the queue"
        )

    def _executed(self) -> Iterator[tuple[str, str]]:
        lines = self._notes.read_text(encoding="utf-8").splitlines() if self._notes.exists() else []
        for line in lines:
            _, run, word = line.split()
            if not word.startswith("~"):
                yield run, word

    def _progress(self) -> str:
        try:
            ended = f"{self.ended():,} of the runs have ended"
        except (OSError, asyncpg.PostgresError):
            ended = "the server does not answer"
        done = ", ".join(f"{count:,} {word}" for word, count in self.faults.items()) or "nothing has happened yet"
        return f"{ended}, {done}, {time.monotonic() - self._begun:.0f} s"

    def _say(self, line: str) -> None:
        sys.stdout.write(f"\n{line}")
        sys.stdout.flush()

    def follow(self, is_over: threading.Event) -> None:
        """Say every few seconds how far it is."""
        while not is_over.wait(_TOLD_EVERY):
            self._say(f"  ... {self._what}: {self._progress()}")


@contextmanager
def trial(what: str, dsn: str, folder: Path) -> Iterator[Trial]:
    """Yield a trial, and tell how it proceeds; its steps are noted in the file *folder* / notes."""
    made, is_over = Trial(what, dsn, folder / "notes"), threading.Event()
    telling = threading.Thread(target=made.follow, args=(is_over,), daemon=True)
    if IS_LONG:
        telling.start()
    try:
        yield made
    except BaseException:
        made._say(f"{what}: failed with WEFT_FAULT_SEED={SEED}")
        raise
    finally:
        is_over.set()
        if IS_LONG:
            telling.join()
