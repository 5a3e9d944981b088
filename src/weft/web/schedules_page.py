"""
The schedules, with their next firings, and the actions on them: pause, unpause, backfill and remove.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from weft.errors import InvalidOption
from weft.runner.runner import AsyncRunner
from weft.runner.schedules.rows import ScheduleStatus
from weft.web.actions import done
from weft.web.guard import form_of
from weft.web.live import live_page, short
from weft.web.rendering import page
from weft.web.sight import source_of
from weft.web.source import Reader

NEXT: Final = 5
"""How many firings are shown."""

Act = Callable[[AsyncRunner, str, dict[str, str], str], Awaitable[object]]


async def schedules_page(request: Request) -> Response:
    """Show the schedules, those with a problem first."""
    source = source_of(request)
    runner, keeps = await source.reader(), await source.has_schedules()
    found = await _ordered(runner) if keeps else []
    firings = {each.name: await runner.next_firings(each.name, NEXT) for each in found}
    told = [{**_data(each), "firings": firings[each.name]} for each in found]
    return page(
        request,
        "schedules.html",
        seen=_state(found),
        schedules=found,
        firings=firings,
        keeps=keeps,
        data={"schedules": told},
    )


async def live_schedules(request: Request) -> Response:
    """Tell when a schedule has changed or fired."""
    source = source_of(request)

    async def look() -> str:
        return _state(await _ordered(await source.reader())) if await source.has_schedules() else ""

    return live_page(request, look)


async def _ordered(runner: Reader) -> list[ScheduleStatus]:
    return sorted(await runner.schedules(), key=lambda each: (not each.problem, each.is_paused, each.name))


def _state(found: list[ScheduleStatus]) -> str:
    return short(found)


def _data(each: ScheduleStatus) -> dict[str, Any]:
    return {name: getattr(each, name) for name in each.__struct_fields__}


# -- actions -------------------------------------------------------------------------------------


async def pause_schedule(request: Request) -> Response:
    """Let a schedule start nothing until it is unpaused."""
    return await _act(request, lambda runner, name, _, by: runner.pause(name, by=by))


async def unpause_schedule(request: Request) -> Response:
    """Let a schedule start runs again."""
    return await _act(request, lambda runner, name, _, by: runner.unpause(name, by=by))


async def backfill_schedule(request: Request) -> Response:
    """Start the runs of a schedule for a span."""

    def backfill(runner: AsyncRunner, name: str, form: dict[str, str], by: str) -> Awaitable[object]:
        return runner.backfill(name, time_of(form.get("since", "")), time_of(form.get("until", "")), by=by)

    return await _act(request, backfill)


async def remove_schedule(request: Request) -> Response:
    """Remove a schedule."""
    return await _act(request, lambda runner, name, _, by: runner.unschedule(name, by=by))


async def _act(request: Request, act: Act) -> Response:
    runner = await source_of(request).runner()
    name, by = request.path_params["name"], request.state.identity.name
    form = await form_of(request)
    return await done(request, lambda: act(runner, name, form, by), "/schedules")


def time_of(text: str) -> datetime:
    """
    Return the time that a form has, in UTC where it names no zone.

    >>> time_of("2026-11-01T03:00").isoformat()
    '2026-11-01T03:00:00+00:00'

    Raises:
        InvalidOption: it is not a time.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidOption(f"{text!r} is not a time; use 2026-11-01 or 2026-11-01T03:00+01:00") from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
