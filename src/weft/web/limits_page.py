"""
The limits of steps: those that the workers of a fleet share, or those of this process.
"""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response

from weft.fleet.limits import LimitStatus
from weft.local.counters import limits
from weft.policy.limits import BreakerState, LimitState, RateState
from weft.web.live import live_page, short
from weft.web.rendering import page
from weft.web.sight import source_of
from weft.web.source import Source

BAD = frozenset({"open", "full", "tried again"})
"""The states in which attempts are refused or wait."""


async def limits_page(request: Request) -> Response:
    """Show the limits, those that hold attempts up first."""
    source = source_of(request)
    found = await limits_of(source)
    return page(
        request,
        "limits.html",
        seen=_state(found),
        limits=found,
        has_fleet=source.has_fleet,
        drives=source.drives,
        data={"fleet": source.has_fleet, "limits": found},
    )


async def live_limits(request: Request) -> Response:
    """Tell when a limit has changed."""
    source = source_of(request)

    async def look() -> str:
        return _state(await limits_of(source))

    return live_page(request, look)


async def limits_of(source: Source) -> list[LimitStatus]:
    """Return the limits of the fleet, or of this process if it drives runs, those that hold attempts up first."""
    client = await source.fleet()
    if client is not None:
        found = await client.limits()
    elif source.drives:
        now = time.monotonic()
        found = [_local(kind, name, state, now) for kind, named in limits().items() for name, state in named.items()]
    else:
        return []
    return sorted(found, key=lambda each: (each.state not in BAD, -each.waiting, each.kind, each.name))


def _local(kind: str, name: str, state: LimitState, now: float) -> LimitStatus:
    """Return a limit of this process, which does not know how many wait."""
    match state:
        case BreakerState():
            word = "closed" if not state.is_open else "tried again" if state.probing else "open"
            since = None if state.opened_at is None else max(0.0, now - state.opened_at)
            return LimitStatus(kind, name, "", 0, 0, 1, word, since)
        case RateState():
            ahead = state.due - now
            return LimitStatus(kind, name, "", 0, 0, 1, f"turns are taken {ahead:.1f} s ahead" if ahead > 0 else "free")
        case _:
            return LimitStatus(kind, name, "", state.used, 0, 1, "in use" if state.used else "free")


def _state(found: list[LimitStatus]) -> str:
    """Return what a page shows, without the seconds that pass."""
    return short([(each.kind, each.name, each.used, each.waiting, each.workers, each.state[:6]) for each in found])
