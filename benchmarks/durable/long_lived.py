"""
Runs that live for long: bringing one back, snapshots, timers that are due at once, and a signal from another process.

Times are wall time, best and median of several rounds; 'by CPU' is what the best would be if nobody had kept the
process from running.  Stores do not wait for the disk here (synchronous NORMAL), except where a signal is stored.

    python -m benchmarks.durable.long_lived signals FILE COUNT     the other process, which signals
"""

from __future__ import annotations

import asyncio
import operator
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.durable.line import Line
from weft import AsyncRunner, Runner, Workflow, accumulator, sleep, step, wait_for
from weft.runner.handle import AsyncHandle
from weft.stores import SQLiteStore

AT_ONCE = 500
"""How many inputs are sent, and runs started, together."""
FEW = 5
EVERY = 1_000
"""After how many events a snapshot is written."""

sums = Workflow("sums", step(operator.pos, name="same") >> accumulator(operator.add, init=0, name="total"))


class Taken(NamedTuple):
    """The times that something took, in seconds."""

    walls: list[float]
    cpus: list[float]

    def line(self, work: str, how: str, most: float, beside: str = "", scale: float = 1e3, unit: str = "ms") -> Line:
        """Return the best of them beside the target."""
        median = f"median {statistics.median(self.walls) * scale:.3g} {unit}"
        told = f"{median}; by CPU {min(self.cpus) * scale:.3g} {unit}"
        return Line(
            "long_lived",
            work,
            how,
            min(self.walls) * scale,
            unit,
            most,
            beside=f"{told}; {beside}" if beside else told,
            by_cpu=min(self.cpus) * scale,
        )


def measure(folder: Path, *, quick: bool, full: bool) -> Iterator[Line]:
    """Measure all of it."""
    sizes = (2_000,) if quick else (10_000, 1_000_000) if full else (10_000, 100_000)
    for events in sizes:
        for at_once in (FEW, AT_ONCE):
            yield asyncio.run(resumed(folder, events, 3 if quick else 20, at_once))
    yield asyncio.run(snapshots(folder, sizes[-1]))
    timers = 500 if quick else 10_000
    yield asyncio.run(due_at_once(folder, timers, resident=True))
    yield asyncio.run(due_at_once(folder, timers, resident=False))
    yield asyncio.run(signalled(folder, 10 if quick else 100))


# -- resuming ------------------------------------------------------------------------------------


async def grown(path: Path, events: int, at_once: int) -> int:
    """
    Make a run with so many events, of which most of a thousand came after its snapshot; return how many it has.

    Args:
        at_once: how many inputs are open when the snapshot is written.
    """
    async with AsyncRunner(SQLiteStore(path, synchronous="normal"), executor="inline", snapshot_every=EVERY) as runner:
        await runner.start(sums, id="long")
        wanted = events + EVERY * 9 // 10
        while (head := (await runner.find("long")).head) < wanted:
            is_last = wanted - head < 4 * AT_ONCE
            count = min(at_once if is_last else AT_ONCE, max(1, (wanted - head) // 3))
            handles = await asyncio.gather(*(runner.send("long", 1) for _ in range(count)))
            await handles[-1].wait()
        return head


async def resumed(folder: Path, events: int, rounds: int, at_once: int) -> Line:
    """Bring a run back, from its snapshot and the tail, and see what it needs in memory."""
    path = folder / f"resumed-{events}-{at_once}.db"
    head = await grown(path, events, at_once)
    store = SQLiteStore(path, synchronous="normal")
    async with store:

        async def resume() -> None:
            async with AsyncRunner(store, executor="inline") as runner:
                begin = time.perf_counter(), time.process_time()
                run = await runner.resume("long", workflow=sums)
                taken.walls.append(time.perf_counter() - begin[0])
                taken.cpus.append(time.process_time() - begin[1])
                assert (await runner.get(run)).state_of("total") == (await runner.get(run)).memory.received

        taken = Taken([], [])
        for _ in range(rounds):
            await resume()
        tracemalloc.start()
        async with AsyncRunner(store, executor="inline") as runner:
            before, _ = tracemalloc.get_traced_memory()
            await runner.resume("long", workflow=sums)
            after, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    held = f"{(after - before) / 1e3:.0f} kB held, {(peak - before) / 1e3:.0f} kB at most"
    most = 30.0 if events <= 10_000 else 60.0
    how = f"sqlite, snapshot_every={EVERY:,}, {at_once} inputs open then"
    return taken.line(f"resume a run of {head:,} events", how, most, held)


async def snapshots(folder: Path, events: int) -> Line:
    """Compare what an input costs early and late in the life of a run that writes a snapshot after every event."""
    path = folder / "snapshots.db"
    async with AsyncRunner(SQLiteStore(path, synchronous="normal"), executor="inline", snapshot_every=1) as runner:
        await runner.start(sums, id="long")
        costs: list[float] = []
        rounds = max(10, min(events, 10_000) // 300)
        for _ in range(rounds):
            cpu = time.process_time()
            for _ in range(100):
                await (await runner.send("long", 1)).wait()
            costs.append((time.process_time() - cpu) / 100)
        head = (await runner.find("long")).head
    third = max(2, rounds // 3)
    early, late = min(costs[:third]), min(costs[-third:])
    beside = f"{early * 1e6:.0f} µs of CPU for each of the first inputs, {late * 1e6:.0f} µs for the last"
    how = "sqlite, snapshot_every=1"
    work = f"an input after {head:,} events, to one at first"
    return Line("long_lived", work, how, late / early, "x, CPU", 1.25, beside=beside)


# -- timers --------------------------------------------------------------------------------------


async def due_at_once(folder: Path, count: int, *, resident: bool) -> Line:
    """Let so many runs sleep until the same moment; measure from then on until all are done."""
    store = SQLiteStore(folder / f"timers-{resident}.db", synchronous="normal")
    async with AsyncRunner(store, executor="inline", resident=count if resident else 0) as runner:
        until = time.time() + 10 + count / 400  # all of them have to sleep by then
        naps = Workflow("naps", sleep(until=until, name="nap") >> step(operator.pos, name="woken"))
        handles: list[AsyncHandle[object]] = []
        for first in range(0, count, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, count))
            handles += await runner.start_many(naps, list(numbers))
        while await runner.count(status="waiting") < count:  # noqa: ASYNC110 - they fall asleep one after the other
            await asyncio.sleep(0.05)
        here = len(runner.held)
        early = until - time.time()
        if early < 0:
            raise RuntimeError(f"the machine is so slow that timers were due {-early:.1f} s before all runs slept")
        await asyncio.sleep(max(0.0, until - time.time()))
        cpu = time.process_time()
        for handle in handles:
            await handle.wait()
        taken = Taken([time.time() - until], [time.process_time() - cpu])
    work = f"{count:,} timers of {'resident' if resident else 'evicted'} runs due at once"
    return taken.line(work, f"sqlite, {here:,} held", 2.0 if resident else 6.0, scale=1.0, unit="s")


# -- signals -------------------------------------------------------------------------------------


async def signalled(folder: Path, count: int) -> Line:
    """Let another process signal runs that wait here, one after the other; measure until the step has the signal."""
    path, heard = folder / "signals.db", list[float]()
    flow = Workflow("waits", wait_for("go") >> step(lambda sent: heard.append(time.time() - sent), name="told"))
    async with AsyncRunner(SQLiteStore(path), executor="inline") as runner:
        await runner.start_many(flow, list(range(count)), ids=[f"run-{number}" for number in range(count)])
        while await runner.count(status="waiting") < count:  # noqa: ASYNC110 - they begin to wait
            await asyncio.sleep(0.05)
        command = [sys.executable, "-m", "benchmarks.durable.long_lived", "signals", str(path), str(count)]
        other = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parents[2])
        await other.wait()
        for number in range(count):
            await runner.wait(f"run-{number}")
    heard.sort()
    beside = f"best {heard[0] * 1e3:.1f} ms, nine of ten within {heard[len(heard) * 9 // 10] * 1e3:.1f} ms"
    how = "sqlite, FULL, median"
    return Line(
        "long_lived", "a signal of another process", how, statistics.median(heard) * 1e3, "ms", 60.0, beside=beside
    )


def send_signals(path: str, count: int) -> None:
    """Signal each run the time, with a pause in between."""
    with Runner(SQLiteStore(path)) as runner:
        for number in range(count):
            runner.signal(f"run-{number}", "go", time.time())
            time.sleep(0.05)


if __name__ == "__main__":
    _, what, where, number = sys.argv
    send_signals(where, int(number))
