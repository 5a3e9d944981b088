"""
Notifies a page that something has changed, by server-sent events.

A page says which state it shows, and the stream says which one there is: at the beginning, so that nothing is missed
between the two, and whenever it changes.  A page that shows another state loads itself again.

The record of a run is polled, not its log: one indexed read twice a second, for all pages that show the same run.
The number of streams is limited; a page that gets none asks again later, and can be read meanwhile.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from weft.errors import RunNotFound
from weft.ports.store import FINISHED, RunRecord
from weft.shield import shielded
from weft.web.rendering import said
from weft.web.sight import source_of
from weft.web.source import Reader

PAUSE: Final = 0.5
"""Seconds between two looks."""
NEWEST: Final = 20
"""How many runs the state of a list is made of."""
QUIET: Final = 30
"""After this many looks without a change a comment is sent, so that a closed page is noticed."""

MOST_STREAMS: Final = 512
"""How many pages are notified of changes at once; a further page asks again later."""

Look = Callable[[], Awaitable[tuple[str, bool]]]
"""Returns the state there is, and whether it is the last one."""


class Watches:
    """The looks of all streams; streams that look at the same thing share them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[float, asyncio.Future[tuple[str, bool]]]] = {}
        self.streams = 0
        """Number of pages that are being notified."""

    async def look(self, what: str, look: Look, pause: float) -> tuple[str, bool]:
        """Return the result of *look*, or the last one if that is younger than *pause* seconds."""
        now = self._clock()
        known = self._seen.get(what)
        if known is None or (known[0] + pause <= now and known[1].done()):
            for old in [name for name, (at, seen) in self._seen.items() if seen.done() and at + 60 < now]:
                del self._seen[old]
            known = self._seen[what] = (now, asyncio.ensure_future(look()))
        return await shielded(known[1])


def state_of_run(record: RunRecord) -> str:
    """Return the state of a run that a page shows."""
    return f"{record.head}.{record.status}"


async def state_of_runs(runner: Reader) -> str:
    """Return the state of the newest runs, in a few characters."""
    records = await runner.runs(limit=NEWEST)
    return short([(record.id, record.head, record.status) for record in records])


async def live_run(request: Request) -> Response:
    """Tell the state of the run in the address whenever it changes, until it has finished."""
    id = request.path_params["id"]
    runner = await source_of(request).reader()

    async def look() -> tuple[str, bool]:
        try:
            record = await runner.find(id)
        except RunNotFound:
            return "gone", True
        return state_of_run(record), record.status in FINISHED

    return _stream(request, look, PAUSE)


async def live_runs(request: Request) -> Response:
    """Tell the state of the newest runs whenever it changes."""
    runner = await source_of(request).reader()

    async def look() -> tuple[str, bool]:
        return await state_of_runs(runner), False

    return _stream(request, look, 2 * PAUSE)


def short(shown: object) -> str:
    """Return a few characters that differ if what a page shows differs."""
    return f"{zlib.crc32(repr(shown).encode()):08x}"


def live_page(request: Request, look: Callable[[], Awaitable[str]]) -> Response:
    """Tell the state that *look* sees whenever it changes; the fleet is looked at every two seconds."""

    async def looked() -> tuple[str, bool]:
        return await look(), False

    return _stream(request, looked, 4 * PAUSE)


def _stream(request: Request, look: Look, pause: float) -> Response:
    """Return a stream of the states that *look* sees, which also says whether it was the last one."""
    watches: Watches = request.app.state.watches
    if watches.streams >= MOST_STREAMS:
        return said(request, "too many pages are open: this one is not live", 503, {"retry-after": "10"})
    what = request.url.path

    async def states() -> AsyncIterator[str]:
        seen: str | None = None
        quiet = 0
        watches.streams += 1
        try:
            while not await request.is_disconnected():
                state, is_last = await watches.look(what, look, 0.9 * pause)
                if state != seen:
                    yield f"event: state\ndata: {state}\n\n"
                if is_last:
                    yield "event: finished\ndata: 1\n\n"
                    return
                quiet = 0 if state != seen else quiet + 1
                seen = state
                if quiet and quiet % QUIET == 0:
                    yield ": still here\n\n"
                await asyncio.sleep(pause)
        finally:
            watches.streams -= 1

    return StreamingResponse(states(), media_type="text/event-stream")
