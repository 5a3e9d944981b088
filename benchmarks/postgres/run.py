"""
The subjects that need a PostgreSQL server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.alternatives.durable import ON_POSTGRES, all_apart, speed_line
from benchmarks.durable.line import Line, Note
from benchmarks.durable.sampling import Samples, in_turns
from benchmarks.durable.workload import STEPS
from benchmarks.postgres import backlog, runners, workers
from benchmarks.postgres.server import Server
from benchmarks.postgres.worker import WorkerProcess

Measure = Callable[[Server, Path], Iterator[Line | Note]]


def subjects(*, quick: bool) -> dict[str, Measure]:
    """Return them by name, in order."""
    return {
        "postgres_throughput": partial(throughput, quick=quick),
        "postgres_two": partial(workers.measure_two, quick=quick),
        "postgres_chain": partial(runners.measure_chain, quick=quick),
        "postgres_idle": partial(workers.measure_idle, quick=quick),
        "postgres_backlog": partial(backlog.measure, quick=quick),
    }


def throughput(server: Server, _: Path, *, quick: bool) -> Iterator[Line | Note]:
    """Measure many workflows at once: a runner, a worker and the alternatives, in turns on the same server."""
    count, few, rounds = (100, 10, 2) if quick else (1_000, 100, 7)
    with (
        server.database() as own,
        server.database() as queued,
        server.database() as first,
        server.database() as second,
        WorkerProcess(queued, [workers.ALONE], count) as worker,
        all_apart(ON_POSTGRES, (first, second)) as others,
    ):
        worker.wait_until_it_works()
        turns, costs = runners.works(own, count)
        turns |= workers.works(queued, worker, count)
        in_turns(workers.works(queued, worker, count // 10), 1)  # what is compiled and prepared at first use
        turns |= {one: partial(apart.run_many, few, STEPS) for one, apart in others.items()}
        samples: dict[Any, Samples] = in_turns(turns, rounds)
    yield from runners.lines(samples, costs, count)
    yield from workers.lines(samples, runners.TARGETS, count)
    thread = samples["thread", runners.one_by_one].per_second(count * STEPS).figure
    for one in ON_POSTGRES:
        found = samples[one]
        times = 0 if found.failure else thread / found.per_second(few * STEPS).figure
        beside = f"Weft, a runner, thread: {times:,.0f} times as many"
        yield speed_line("postgres_throughput", one, found, few, STEPS, beside)
