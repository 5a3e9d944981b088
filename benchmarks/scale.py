"""
How far a fleet goes: workers and databases on virtual time, with the measured cost of each statement.

    python benchmarks/scale.py                       the table of docs/explanation/scale.md, in about a minute
    python benchmarks/scale.py --measure DSN         measures the statements on a server, and prints their costs

The decisions are those of the library (``weft.fleet.decisions`` and ``weft.fleet.placement``): how many runs a worker
claims, how often it looks, when a lease is renewed, which database a run is in.  A database is so many cores, each of
which executes one statement at a time, in the order in which they came.  A worker has one connection for appends, so
what ends while one is written goes with the next.  Nothing is real but the decisions and the costs: no network, no
locks, no vacuum, no disk that is slower under load.  So the figures say where a limit is at the latest.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from weft.fleet import decisions
from weft.fleet.placement import Generations
from weft.ports.calls import Call
from weft.ports.workers import Load


class Cost(NamedTuple):
    """The seconds of a statement: for itself, and for each run that it is about."""

    fixed: float
    each: float

    def of(self, runs: int) -> float:
        """Return what it costs for so many *runs*."""
        return self.fixed + self.each * runs


class Costs(NamedTuple):
    """The statements of a fleet."""

    append: Cost
    claim: Cost
    look: Cost
    """A claim that finds nothing."""
    start: Cost
    renew: Cost


MEASURED = Costs(
    append=Cost(0.39e-3, 30e-6),
    claim=Cost(5.5e-3, 79e-6),
    look=Cost(0.5e-3, 0.0),
    start=Cost(1.1e-3, 116e-6),
    renew=Cost(0.3e-3, 0.0),
)
"""By ``--measure``, the fastest of many on two busy cores: upper bounds, with the time of the client in them."""

STEPS = 5
"""Steps of a run."""
WORKER_STEP = 40e-6
"""Seconds of the CPU of a worker for a step that does nothing: 25,000 of them a second in one process."""
BATCH_OF_STARTS = 512
LEASE = 10.0


@dataclass
class Case:
    """A fleet: its size, and its work."""

    name: str
    workers: int
    shards: int
    seconds: float
    """How long a step takes; it waits for something else than the CPU."""
    concurrency: int = 256
    cores: int = 8
    """Of each database."""
    starts: float | None = None
    """Runs that are started in a second, one by one; None: there are always enough."""
    span: float = 5.0
    """Seconds that are simulated."""


@dataclass
class Tally:
    """What was counted in one case."""

    steps: int = 0
    appends: int = 0
    claims: int = 0
    empty_claims: int = 0
    statements: int = 0
    busy: float = 0.0
    """Seconds of cores of databases."""
    waits: list[float] = field(default_factory=list)
    """How long appends took, from being sent."""
    slowest_renewal: float = 0.0
    taken_over: float = 0.0
    """When the last run of the workers that died was claimed: seconds after their death."""


class Database:
    """One database: statements are executed by its cores in the order in which they came."""

    def __init__(self, cores: int, tally: Tally) -> None:
        self._free_at = [0.0] * cores
        self._tally = tally

    def execute(self, now: float, cost: float) -> float:
        """Return when a statement that is sent *now* has ended."""
        begins = max(now, heapq.heappop(self._free_at))
        heapq.heappush(self._free_at, begins + cost)
        self._tally.busy += cost
        self._tally.statements += 1
        return begins + cost


@dataclass
class Worker:
    """One process."""

    number: int
    active: int = 0
    computing: int = 0
    """Active runs whose step is running."""
    pending: int = 0
    """Steps that have ended and are not sent."""
    is_appending: bool = False
    is_claiming: bool = False
    is_rung: bool = False
    is_backup: bool = False
    """Whether it will look a moment after calls for others."""
    counted_at: float = 0.0
    """Until when the steps that have ended were counted."""
    cpu_free_at: float = 0.0
    expires_at: float = LEASE
    is_dead: bool = False
    ceiling: int | None = None


class Shard:
    """A database and its workers."""

    def __init__(self, case: Case, workers: int, rate: float, draw: random.Random, tally: Tally, costs: Costs) -> None:
        self.case, self.draw, self.tally, self.costs, self.rate = case, draw, tally, costs, rate
        self.database = Database(case.cores, tally)
        self.workers = [Worker(number) for number in range(workers)]
        self.backlog = 0 if case.starts is not None else 1 << 60
        self.orphans: list[tuple[float, int]] = []
        """When the leases of dead workers expire, and how many runs they had."""
        self.finished = 0
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = 0

    def at(self, when: float, do: Callable[[float], None]) -> None:
        """Let *do* happen at a time."""
        self._count += 1
        heapq.heappush(self._events, (when, self._count, do))

    def run(self, deaths: int) -> None:
        """Simulate the span of the case; so many workers die in the middle of it."""
        for worker in self.workers:
            self.at(self.draw.uniform(0, decisions.poll(LEASE)), lambda now, w=worker: self.look(now, w))
            self.at(self.draw.uniform(0, LEASE / 3), lambda now, w=worker: self.renew(now, w))
        if self.case.starts is not None and self.rate:
            self.at(self.draw.expovariate(self.rate), self.start)
        for worker in self.workers[:deaths]:
            self.at(self.case.span / 4, lambda now, w=worker: self.die(now, w))
        while self._events and self._events[0][0] <= self.case.span:
            now, _, do = heapq.heappop(self._events)
            do(now)

    # -- starts ----------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """A client starts one run: one worker of the database is called, and a backup a moment later."""
        done = self.database.execute(now, self.costs.start.of(1))
        self.at(done, self.started)
        self.at(now + self.draw.expovariate(self.rate), self.start)

    def started(self, now: float) -> None:
        self.backlog += 1
        call, size = Call(1, self.draw.random()), len(self.workers)
        for rank in (int(call.draw * size), (int(call.draw * size) + 1) % size):
            worker, wait = self.workers[rank], call.answered_after(rank, size)
            if wait == 0.0:
                self.called(now, worker)
            elif wait is not None and not worker.is_backup:
                worker.is_backup = True
                self.at(now + wait, lambda then, w=worker: self.called(then, w))

    def called(self, now: float, worker: Worker) -> None:
        """A worker is chosen by a call, or is the backup of one that is."""
        worker.is_rung, worker.is_backup = True, False
        self.claim(now, worker, is_asked=True)

    # -- claims ----------------------------------------------------------------------------------

    def look(self, now: float, worker: Worker) -> None:
        """Look at the queue, as every worker does now and then."""
        if not worker.is_dead:
            self.claim(now, worker, is_asked=True)
            self.at(now + decisions.poll(LEASE), lambda then: self.look(then, worker))

    def claim(self, now: float, worker: Worker, *, is_asked: bool) -> None:
        if worker.is_dead or worker.is_claiming:
            return
        most = self.case.concurrency if worker.ceiling is None else min(worker.ceiling, self.case.concurrency)
        limit = decisions.room(worker.active, most, is_asked=is_asked)
        if not limit:
            return
        worker.is_claiming, worker.is_rung = True, False
        found = 0
        while found < limit and self.orphans and self.orphans[0][0] <= now:
            expired, left = heapq.heappop(self.orphans)
            taken = min(left, limit - found)
            found += taken
            if left > taken:
                heapq.heappush(self.orphans, (expired, left - taken))
            self.tally.taken_over = max(self.tally.taken_over, now - self.case.span / 4)
        new = min(limit - found, self.backlog)
        found, self.backlog = found + new, self.backlog - new
        self.tally.claims += 1
        self.tally.empty_claims += not found
        done = self.database.execute(now, self.costs.claim.of(found) if found else self.costs.look.fixed)
        self.at(done, lambda then: self.claimed(then, worker, found, found == limit))

    def claimed(self, now: float, worker: Worker, found: int, may_have_more: bool) -> None:
        worker.is_claiming = False
        if worker.is_dead:
            return
        self.count_ends(now, worker)
        worker.active += found
        worker.computing += found
        self.append(now, worker)
        if may_have_more or worker.is_rung:
            self.claim(now, worker, is_asked=True)

    # -- steps and appends -----------------------------------------------------------------------

    def count_ends(self, now: float, worker: Worker) -> None:
        """Draw how many steps have ended since they were last counted, as far as the CPU of the worker allows."""
        passed, worker.counted_at = now - worker.counted_at, now
        if not worker.computing or passed <= 0:
            return
        ended = drawn(self.draw, worker.computing, -math.expm1(-passed / self.case.seconds))
        worker.computing -= ended
        worker.pending += ended
        worker.cpu_free_at = max(worker.cpu_free_at, now - passed) + ended * WORKER_STEP

    def append(self, now: float, worker: Worker) -> None:
        """Send what has ended, unless something is being written."""
        if worker.is_dead or worker.is_appending:
            return
        if worker.pending and worker.cpu_free_at <= now:
            runs, worker.pending, worker.is_appending = min(worker.pending, 512), max(0, worker.pending - 512), True
            self.tally.appends += 1
            done = self.database.execute(now, self.costs.append.of(runs))
            self.tally.waits.append(done - now)
            self.at(done, lambda then: self.appended(then, worker, runs))
        elif worker.pending:
            self.at(worker.cpu_free_at, lambda then: self.wake(then, worker))
        elif worker.computing:
            first = self.draw.expovariate(worker.computing / self.case.seconds)
            self.at(now + max(first, 1e-4), lambda then: self.wake(then, worker))

    def wake(self, now: float, worker: Worker) -> None:
        if not worker.is_dead and not worker.is_appending:
            self.count_ends(now, worker)
            self.append(now, worker)

    def appended(self, now: float, worker: Worker, runs: int) -> None:
        worker.is_appending = False
        if worker.is_dead:
            return
        self.tally.steps += runs
        self.count_ends(now, worker)
        over = drawn(self.draw, runs, 1 / STEPS)
        worker.active -= over
        worker.computing += runs - over
        self.finished += over
        if self.case.starts is None and self.finished >= BATCH_OF_STARTS:  # others are started in their place
            self.finished -= BATCH_OF_STARTS
            self.database.execute(now, self.costs.start.of(BATCH_OF_STARTS))
        self.append(now, worker)
        if over:
            self.claim(now, worker, is_asked=False)

    # -- leases ----------------------------------------------------------------------------------

    def renew(self, now: float, worker: Worker) -> None:
        if worker.is_dead:
            return
        done = self.database.execute(now, self.costs.renew.of(0))
        self.tally.slowest_renewal = max(self.tally.slowest_renewal, done - now)
        worker.expires_at = done + LEASE
        mine = Load(worker.active, self.case.concurrency)
        others = [Load(each.active, self.case.concurrency) for each in self.workers if each is not worker]
        count = decisions.surplus(mine, others)
        worker.ceiling = decisions.ceiling(mine, others) if count else None
        freed = min(count, worker.computing)
        worker.active -= freed
        worker.computing -= freed
        self.backlog += freed
        self.at(now + LEASE / 3, lambda then: self.renew(then, worker))

    def die(self, now: float, worker: Worker) -> None:  # noqa: ARG002
        """The process is killed: its runs are free when its lease has expired."""
        worker.is_dead = True
        heapq.heappush(self.orphans, (worker.expires_at, worker.active))
        worker.active = 0


def drawn(draw: random.Random, count: int, chance: float) -> int:
    """Return how many of *count* happen, each with this *chance*; many are drawn as one."""
    if count <= 16:
        return sum(draw.random() < chance for _ in range(count))
    mean = count * chance
    found = round(draw.gauss(mean, math.sqrt(mean * (1 - chance))))
    return min(max(found, 0), count)


def simulate(case: Case, seed: int, costs: Costs = MEASURED, deaths: int = 0) -> Tally:
    """Return what happens in *case*; the same for the same *seed*."""
    tally = Tally()
    shards = [f"shard {number}" for number in range(case.shards)]
    known = Generations().grown(shards)
    runs = max(1000, case.shards * 200)
    placed = Counter(known.homes(f"run {number}")[0] for number in range(runs))
    for number, shard in enumerate(shards):
        workers = case.workers * (number + 1) // case.shards - case.workers * number // case.shards
        rate = 0.0 if case.starts is None else case.starts * placed[shard] / runs
        Shard(case, workers, rate, random.Random(f"{seed} {number}"), tally, costs).run(deaths)  # noqa: S311
    return tally


CASES = [
    Case("one database, steps of a second", 10, 1, 1.0),
    Case("", 100, 1, 1.0),
    Case("", 300, 1, 1.0),
    Case("a hundred databases", 10_000, 100, 1.0, span=4.0),
    Case("the same, ten databases", 10_000, 10, 1.0, span=4.0),
    Case("a hundred databases, steps of ten seconds", 10_000, 100, 10.0, span=10.0),
    Case("one database, few starts, one by one", 10, 1, 0.05, starts=100),
    Case("", 100, 1, 0.05, starts=100),
    Case("", 1000, 1, 0.05, starts=100),
    Case("a hundred databases", 10_000, 100, 0.05, starts=10_000, span=2.0),
]


def row(case: Case, tally: Tally) -> list[str]:
    """Return a line of the table."""
    waits = sorted(tally.waits) or [0.0]
    return [
        case.name or "the same",
        f"{case.workers:,}",
        f"{case.shards:,}",
        f"{case.seconds:g} s",
        "always enough" if case.starts is None else f"{case.starts:,.0f} a second",
        f"{_rounded(tally.steps / case.span):,}",
        f"{tally.busy / case.span / case.shards / case.cores:.0%}",
        f"{tally.steps / max(1, tally.appends):.1f}",
        f"{tally.statements / max(1, tally.steps):.2f}",
        f"{waits[len(waits) * 99 // 100] * 1000:.1f} ms",
        f"{tally.slowest_renewal * 1000:.0f} ms",
    ]


HEAD = ["fleet", "workers", "databases", "a step takes", "runs to start", "steps/s", "databases busy"]
HEAD += ["steps in an append", "statements per step", "append, 99 of 100", "slowest renewal"]


def table(cases: list[Case], seed: int) -> list[str]:
    """Return the lines of the table, in Markdown."""
    lines = [HEAD, ["---"] * len(HEAD)]
    for case in cases:
        lines.append(row(case, simulate(case, seed)))
        print(f"{case.workers:,} workers: done", file=sys.stderr)
    return [f"| {' | '.join(line)} |" for line in lines]


def takeover(seed: int, workers: int = 30, deaths: int = 3) -> float:
    """Return after how many seconds all runs of *deaths* workers of one database are claimed by the others."""
    return simulate(Case("", workers, 1, 1.0, span=16.0), seed, deaths=deaths).taken_over


def _rounded(number: float) -> int:
    """Return *number* with three digits."""
    return 0 if number < 1 else int(round(number, 2 - int(math.log10(number))))


async def measure(dsn: str) -> Costs:
    """Measure the statements on a server, in a schema that is dropped afterwards."""
    import time
    import uuid

    import asyncpg

    from weft.ports.queue import QUEUE, Placement
    from weft.stores import PostgresStore
    from weft.testing.contracts.cases import first, more

    schema = f"scale_{uuid.uuid4().hex}"

    async def best(times: int, prepare: Callable[[int], Any], call: Callable[[Any], Any]) -> float:
        found = math.inf
        for number in range(times):
            given = prepare(number)
            begun = time.perf_counter()
            await call(given)
            found = min(found, time.perf_counter() - begun)
        return found

    def line(one: float, many: float, runs: int) -> Cost:
        each = max(0.0, (many - one) / (runs - 1))
        return Cost(max(0.0, one - each), each)

    async with PostgresStore(dsn, schema=schema) as store:

        def starts(count: int) -> Callable[[int], Any]:
            return lambda number: [
                first(f"{count} {number} {i}", workflow="w", version="v", release=True) for i in range(count)
            ]

        async def start(batch: Any) -> None:
            await store.enqueue(batch, Placement())

        async def claim(count: int) -> None:
            await store.claim(count, queues=[QUEUE], workflows=[("w", "v")])

        looked = await best(150, lambda _: 256, claim)
        one, many = await best(150, starts(1), start), await best(20, starts(256), start)
        started = line(one, many, 256)
        one, many = await best(100, lambda _: 1, claim), await best(15, lambda _: 256, claim)
        claimed = line(one, many, 256)
        await store.append([first(f"own {i}") for i in range(256)])

        async def append(batch: Any) -> None:
            await store.append(batch)

        one = await best(150, lambda number: [more("own 0", 1 + number)], append)
        many = await best(20, lambda number: [more(f"own {i}", 1 + number) for i in range(1, 256)], append)
        appended = line(one, many, 255)
        db = await asyncpg.connect(dsn)
        try:
            sql = f"update \"{schema}\".weft_workers set expires_at = clock_timestamp() + interval '10 s'"  # noqa: S608
            renewed = await best(100, lambda _: sql, db.execute)
            await db.execute(f'drop schema "{schema}" cascade')
        finally:
            await db.close()
    return Costs(appended, claimed, Cost(looked, 0.0), started, Cost(renewed, 0.0))


def main() -> None:
    """Print the table, or measure the statements."""
    parser = argparse.ArgumentParser(description="How far a fleet goes, on virtual time.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measure", metavar="DSN", help="measure the statements on this server")
    options = parser.parse_args()
    if options.measure:
        import asyncio

        for name, cost in asyncio.run(measure(options.measure))._asdict().items():
            print(f"{name}: {cost.fixed * 1000:.3f} ms and {cost.each * 1e6:.1f} µs a run")
        return
    print("\n".join(table(CASES, options.seed)))
    print(f"\nthree of thirty workers die: all of their runs are claimed after {takeover(options.seed):.1f} s")


if __name__ == "__main__":
    main()
