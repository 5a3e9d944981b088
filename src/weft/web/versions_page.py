"""
The versions of workflows that open runs need, and those that no worker has.
"""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from weft.ports.store import RunRecord, RunStatus
from weft.web.live import live_page, short
from weft.web.rendering import page
from weft.web.sight import source_of
from weft.web.source import Reader, Source

OPEN: Final[tuple[RunStatus, ...]] = ("parked", "waiting", "running", "idle")
MOST: Final = 5_000
"""How many open runs are looked at, newest first."""
_PAGE: Final = 1_000


class Version(msgspec.Struct):
    """A version of a workflow: the open runs that need its code, and the workers that have it."""

    workflow: str
    version: str
    is_newest: bool
    """Whether the newest run of the workflow has it."""
    open: dict[str, int]
    oldest: float | None = None
    """When the oldest of its open runs was created."""
    workers: int | None = None
    """How many workers know it; None if there is no fleet."""
    stranded: int = 0
    """How many of its runs are due and cannot be driven by any worker."""


async def versions_page(request: Request) -> Response:
    """Show the versions that open runs need, stranded ones first."""
    source = source_of(request)
    versions, is_cut = await versions_of(source)
    return page(
        request,
        "versions.html",
        seen=short(versions),
        versions=versions,
        is_cut=is_cut,
        most=MOST,
        has_fleet=source.has_fleet,
        data={"fleet": source.has_fleet, "versions": versions, "is_cut": is_cut},
    )


async def live_versions(request: Request) -> Response:
    """Tell when the versions of open runs have changed."""
    source = source_of(request)

    async def look() -> str:
        return short((await versions_of(source))[0])

    return live_page(request, look)


async def versions_of(source: Source) -> tuple[list[Version], bool]:
    """Return the versions, stranded ones first, and whether there are more open runs than were looked at."""
    runner = await source.reader()
    records = await _open_runs(runner)
    found: dict[tuple[str, str], Version] = {}
    for name in sorted({name for name, _ in await source.tally()}):
        for newest in await runner.runs(workflow=name, limit=1):
            found[name, newest.version] = Version(name, newest.version, is_newest=True, open={})
    for record in records:
        key = (record.workflow, record.version)
        line = found.setdefault(key, Version(*key, is_newest=False, open={}))
        line.open[record.status] = line.open.get(record.status, 0) + 1
        line.oldest = record.created_at if line.oldest is None else min(line.oldest, record.created_at)
    await _compare(source, found)
    order = sorted(found.values(), key=lambda each: (not each.stranded, each.workflow, not each.is_newest))
    return order, len(records) >= MOST


async def _open_runs(runner: Reader) -> list[RunRecord]:
    found: list[RunRecord] = []
    while len(found) < MOST and (
        records := await runner.runs(status=OPEN, after=found[-1] if found else None, limit=_PAGE)
    ):
        found += records
    return found


async def _compare(source: Source, versions: dict[tuple[str, str], Version]) -> None:
    """Note which versions the workers of the fleet know, and which are stranded."""
    client = await source.fleet()
    if client is None:
        return
    workers = await client.workers()
    for key, line in versions.items():
        line.workers = sum(key in worker.serves.workflows for worker in workers)
    for each in await client.stranded():
        key = (each.workflow, each.version)
        line = versions.setdefault(key, Version(*key, is_newest=False, open={}, workers=0))
        line.stranded += each.runs
