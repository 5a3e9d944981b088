"""
The workers and queues of a fleet; of a store that has none, the processes that hold its runs.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from weft.ports.queue import QueueStatus
from weft.ports.store import RunStatus
from weft.ports.workers import WorkerRecord
from weft.web.live import live_page, short
from weft.web.rendering import page
from weft.web.sight import source_of
from weft.web.source import Reader, Source

MOST: Final = 1_000
"""How many open runs are looked at for the processes that hold them."""
OPEN: Final[tuple[RunStatus, ...]] = ("running", "waiting", "idle")
LONG: Final = 60.0
"""Seconds after which a due run without a worker is mentioned."""


class Process(msgspec.Struct, frozen=True):
    """A process that holds runs of a store without a fleet."""

    name: str
    runs: int


class Fleet(msgspec.Struct, frozen=True):
    """The workers and queues, and what is wrong with them."""

    workers: list[WorkerRecord]
    queues: list[QueueStatus]
    problems: list[str]


async def workers_page(request: Request) -> Response:
    """Show the workers and queues of the fleet, or the processes that hold runs."""
    source = source_of(request)
    fleet = await fleet_of(source)
    if fleet is None:
        processes, is_cut = await processes_of(await source.reader())
        return page(
            request,
            "processes.html",
            seen=short(processes),
            processes=processes,
            is_cut=is_cut,
            data={"fleet": False, "processes": processes},
        )
    told = msgspec.to_builtins(fleet)
    return page(request, "workers.html", seen=_state(fleet), fleet=fleet, data={"fleet": True, **told})


async def live_workers(request: Request) -> Response:
    """Tell when a worker or a queue has changed."""
    source = source_of(request)

    async def look() -> str:
        fleet = await fleet_of(source)
        return short((await processes_of(await source.reader()))[0]) if fleet is None else _state(fleet)

    return live_page(request, look)


async def fleet_of(source: Source) -> Fleet | None:
    """Return the workers and queues; None if the store has no fleet."""
    client = await source.fleet()
    if client is None:
        return None
    workers, queues, lost = await client.workers(), await client.queues(), await client.stranded()
    problems = [
        f"{each.runs:,} due in the queue {each.queue!r} and no worker that is alive can drive {each.workflow}"
        f"@{each.version[:8]}"
        for each in lost
        if workers
    ]
    return Fleet(workers, queues, problems + _remarks(workers, queues, has_stranded=bool(lost)))


def _remarks(workers: list[WorkerRecord], queues: list[QueueStatus], *, has_stranded: bool) -> list[str]:
    """Return what is wrong about a fleet as a whole."""
    waiting = sum(each.waiting for each in queues)
    if not workers:
        return [f"no worker is alive, and {waiting:,} runs wait"] if waiting else []
    if all(each.is_drained for each in workers) and waiting:
        return [f"every worker is drained, and {waiting:,} runs wait"]
    late = [each for each in queues if each.waiting and each.oldest > LONG]
    if late and not has_stranded:
        full = all(each.is_full or each.is_drained for each in workers)
        why = "every worker has as many active runs as it may: start more" if full else "workers have room"
        return [f"runs have waited for more than a minute in {', '.join(each.queue for each in late)}; {why}"]
    return []


def _state(fleet: Fleet) -> str:
    """Return what a page shows of a fleet, without the seconds that pass."""
    workers = [(each.id, each.state, each.is_drained, each.active, each.held) for each in fleet.workers]
    queues = [(each.queue, each.waiting, each.later, each.held) for each in fleet.queues]
    return short((workers, queues, len(fleet.problems)))


async def processes_of(runner: Reader) -> tuple[list[Process], bool]:
    """Return the processes that hold open runs, most first, and whether there are more runs than were looked at."""
    records = await runner.runs(status=OPEN, limit=MOST)
    held = Counter(record.owner for record in records if record.owner is not None)
    return [Process(name, number) for name, number in held.most_common()], len(records) == MOST
