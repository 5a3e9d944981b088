"""
The commands of schedules: declaring, listing, pausing, backfilling and removing them, on any store that keeps them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from weft.errors import InvalidOption, ScheduleNotFound, StoreUnavailable
from weft.ports.queue import QUEUE
from weft.ports.schedules import ScheduleStore, StoredSchedule
from weft.runner.durability.store_retry import retry_while_unavailable
from weft.runner.option_checks import Time, as_time, check_choice, check_text
from weft.runner.runtime import Runtime
from weft.runner.schedules import rows
from weft.runner.schedules.decision import MOST_PENDING, Changed, Overlap, Schedule, ScheduleState, next_firings
from weft.runner.schedules.rows import ScheduleStatus
from weft.runner.schedules.timing import Cron, Every, Once, Timing, between, check

T = TypeVar("T")
_log = logging.getLogger("weft.runner")

_TRIES: Final = 50
"""How often a change is tried while other processes change the same schedule."""
LEAST_TOLERANCE: Final = 1
"""How many seconds a time must be late to be missed, at least: no process looks at the very moment."""
LONGEST_BACKFILL: Final = 100_000
"""How many firings a backfill has at most."""


class ScheduleCommands:
    """The methods of a runner or a client that are about schedules."""

    _runtime: Runtime

    async def schedules(self) -> list[ScheduleStatus]:
        """Return all schedules, in the order of their names."""
        return [rows.status_of(row) for row in await self._call(self._schedule_store().list_schedules)]

    async def pause(self, name: str, *, by: str | None = None) -> None:
        """
        Let the schedule *name* fire nothing until :meth:`unpause`; what would have been fired meanwhile is dropped.

        Args:
            by: the name of the caller; :meth:`schedules` shows it.

        Raises:
            ScheduleNotFound: there is no such schedule.
        """
        await self._change(name, lambda _, state, __: replace(state, is_paused=True), "paused", by)

    async def unpause(self, name: str, *, by: str | None = None) -> None:
        """
        Let the schedule *name* fire again, from now on.

        Args:
            by: the name of the caller; :meth:`schedules` shows it.

        Raises:
            ScheduleNotFound: there is no such schedule.
        """
        await self._change(name, _unpaused, "unpaused", by)

    async def unschedule(self, name: str, *, by: str | None = None) -> None:
        """
        Remove the schedule *name*; its runs stay.

        Args:
            by: the name of the caller, for the logger ``weft.runner``: nothing of the schedule stays.

        Raises:
            ScheduleNotFound: there is no such schedule.
        """
        if not await self._call(partial(self._schedule_store().delete_schedule, name)):
            raise ScheduleNotFound(name)
        _log.info("the schedule %r was removed%s", name, f" by {by}" if by else "")

    async def backfill(self, name: str, since: Time, until: Time, *, by: str | None = None) -> int:
        """
        Fire the schedule *name* for all its nominal times after *since* up to *until*; return how many there are.

        They are started one after the other, or many at once if the schedule allows overlaps; also while it is paused.
        A time that was fired before has its run, and is not fired again.

        Args:
            by: the name of the caller; :meth:`schedules` shows it.

        Raises:
            ScheduleNotFound: there is no such schedule.
            InvalidOption: the span is empty or has more than 100,000 firings.
        """
        start, end = as_time("since", since), as_time("until", until)
        if not start < end < float("inf"):
            raise InvalidOption(f"since={since!r}, until={until!r}: use a span that begins before it ends")
        count = 0

        def add(schedule: Schedule, state: ScheduleState, _: float) -> ScheduleState:
            nonlocal count
            count = len(between(schedule.timing, start, end, LONGEST_BACKFILL + 1))
            if count > LONGEST_BACKFILL:
                raise InvalidOption(f"the span has more than {LONGEST_BACKFILL:,} firings: use several shorter ones")
            return replace(state, backfills=(*state.backfills, (start, end))) if count else state

        await self._change(name, add, "backfilled", by)
        return count

    async def next_firings(self, name: str, count: int = 10) -> list[datetime]:
        """
        Return the next nominal times of the schedule *name*, in UTC, as if it were not paused.

        Raises:
            ScheduleNotFound: there is no such schedule.
        """
        if type(count) is not int or not 0 <= count <= LONGEST_BACKFILL:
            raise InvalidOption(f"count={count!r}: use a number of firings, up to {LONGEST_BACKFILL:,}")
        found = rows.kept(await self._row(name))
        return [datetime.fromtimestamp(at, UTC) for at in next_firings(found.schedule, found.state, count)]

    # --------------------------------------------------------------------------------------------

    async def _declare(self, schedule: Schedule) -> ScheduleStatus:
        """Store *schedule*; one that is stored is changed, and goes on where it was unless its times have changed."""
        store = self._schedule_store()

        async def declared() -> StoredSchedule | None:
            now = await self._time_of_store()
            found = await store.list_schedules(schedule.name)
            cursor = 0.0 if isinstance(schedule.timing, Once) else now
            state, revision = ScheduleState(cursor=cursor), 0
            if found:
                known, revision = rows.kept(found[0]), found[0].revision
                if known.schedule == schedule:
                    return found[0]
                is_same = (known.schedule.timing, known.schedule.jitter) == (schedule.timing, schedule.jitter)
                state = known.state if is_same else replace(known.state, cursor=cursor)
            row = rows.stored(schedule, state, now, revision)
            return row if await store.put_schedule(row) else None

        return rows.status_of(await self._until_written(schedule.name, declared))

    async def _change(
        self, name: str, change: Callable[[Schedule, ScheduleState, float], ScheduleState], what: str, by: str | None
    ) -> StoredSchedule:
        store = self._schedule_store()

        async def changed() -> StoredSchedule | None:
            now, row = await self._time_of_store(), await self._row(name)
            found = rows.kept(row)
            state = replace(change(found.schedule, found.state, now), changed=Changed(what, now, by or ""))
            new = rows.stored(found.schedule, state, now, row.revision)
            return new if await store.put_schedule(new) else None

        return await self._until_written(name, changed)

    async def _until_written(self, name: str, write: Callable[[], Awaitable[T | None]]) -> T:
        for _ in range(_TRIES):
            written = await self._call(write)
            if written is not None:
                self._schedules_changed()
                return written
        raise StoreUnavailable(f"the schedule {name!r}", "other processes change it all the time")

    def _schedules_changed(self) -> None:
        """A schedule was changed by this process."""

    async def _row(self, name: str) -> StoredSchedule:
        found = await self._call(partial(self._schedule_store().list_schedules, name))
        if not found:
            raise ScheduleNotFound(name)
        return found[0]

    async def _time_of_store(self) -> float:
        return (await self._schedule_store().due_schedules((), self._runtime.dispatcher.clock.time())).now

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        self._runtime.check_open()
        return await retry_while_unavailable(call, while_=self._runtime.is_open)

    def _schedule_store(self) -> ScheduleStore:
        self._runtime.check_open()
        store = self._runtime.store
        if not isinstance(store, ScheduleStore):
            raise InvalidOption(f"{store!r} keeps no schedules: use a SQLiteStore, a PostgresStore or a MemoryStore")
        return store


def declared_schedule(
    name: str,
    workflow: str,
    *,
    cron: str | None,
    timezone: str,
    every: float | timedelta | None,
    at: Time | None,
    input: Any,  # noqa: A002 - what one would say
    jitter: float,
    catch_up: int,
    tolerance: float,
    overlap: Overlap,
    queue: str = QUEUE,
    priority: int = 0,
) -> Schedule:
    """
    Return the schedule that a user has declared.

    Raises:
        InvalidOption: it cannot fire.
        UnencodableValue: its input cannot be stored.
    """
    check_text("name", name)
    check_text("queue", queue)
    check_choice("overlap", overlap, Overlap)
    timing = _timing(cron, timezone, every, at)
    check(timing)
    for option, seconds, least in (("jitter", jitter, 0), ("tolerance", tolerance, LEAST_TOLERANCE)):
        if type(seconds) not in (int, float) or not least <= seconds < float("inf"):
            raise InvalidOption(f"{option}={seconds!r}: use seconds, {least} or more")
    if type(catch_up) is not int or not 0 <= catch_up <= MOST_PENDING:
        raise InvalidOption(f"catch_up={catch_up!r}: use a number of firings, 0 to {MOST_PENDING:,}")
    return Schedule(
        name=name,
        workflow=workflow,
        timing=timing,
        jitter=float(jitter),
        catch_up=catch_up,
        tolerance=float(tolerance),
        overlap=overlap,
        input=rows.encoded_input(input),
        queue=queue,
        priority=priority,
    )


def _timing(cron: str | None, timezone: str, every: float | timedelta | None, at: Time | None) -> Timing:
    if sum(each is not None for each in (cron, every, at)) != 1:
        raise InvalidOption("a schedule has one of cron='0 3 * * *', every=seconds and at=time")
    if cron is not None:
        return Cron(cron, timezone)
    if every is not None:
        seconds = every.total_seconds() if isinstance(every, timedelta) else every
        if type(seconds) not in (int, float):
            raise InvalidOption(f"every={every!r}: use seconds, or a timedelta")
        return Every(float(seconds))
    return Once(as_time("at", at) or 0.0)


def _unpaused(_: Schedule, state: ScheduleState, now: float) -> ScheduleState:
    return replace(state, is_paused=False, cursor=max(state.cursor, now)) if state.is_paused else state
