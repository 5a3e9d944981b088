"""
Tells a page that something has changed, by server-sent events.

An event says only that it is time to read again.  The record of a run is looked at, not its log: one indexed read for
each open page, twice a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from weft.errors import RunNotFound
from weft.ports.store import FINISHED

PAUSE: Final = 0.5
"""Seconds between two looks."""
QUIET: Final = 30
"""After this many looks without a change a comment is sent, so that a closed page is noticed."""


async def live_run(request: Request) -> Response:
    """Tell when the run in the address has changed, until it has finished."""
    source, id = request.app.state.source, request.path_params["id"]
    runner = await source.runner()

    async def changes() -> AsyncIterator[str]:
        seen: tuple[object, ...] | None = None
        quiet = 0
        while not await request.is_disconnected():
            try:
                record = await runner.find(id)
            except RunNotFound:
                yield "event: gone\ndata: 1\n\n"
                return
            present = (record.head, record.status)
            if seen is not None and present != seen:
                yield f"event: changed\ndata: {record.head}\n\n"
            if record.status in FINISHED:
                yield "event: finished\ndata: 1\n\n"
                return
            quiet = 0 if present != seen else quiet + 1
            seen = present
            if quiet and quiet % QUIET == 0:
                yield ": still here\n\n"
            await asyncio.sleep(PAUSE)

    return StreamingResponse(changes(), media_type="text/event-stream")


async def live_runs(request: Request) -> Response:
    """Tell when the newest runs have changed."""
    runner = await request.app.state.source.runner()

    async def changes() -> AsyncIterator[str]:
        seen: object = None
        quiet = 0
        while not await request.is_disconnected():
            records = await runner.runs(limit=20)
            present = [(record.id, record.head, record.status) for record in records]
            if seen is not None and present != seen:
                yield "event: changed\ndata: 1\n\n"
            quiet = 0 if present != seen else quiet + 1
            seen = present
            if quiet and quiet % QUIET == 0:
                yield ": still here\n\n"
            await asyncio.sleep(2 * PAUSE)

    return StreamingResponse(changes(), media_type="text/event-stream")
