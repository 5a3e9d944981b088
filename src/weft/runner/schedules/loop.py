"""
The loop that fires schedules: one in every worker of a fleet, and in a runner that has declared some.

A poll reads the rows that are due; for each it decides, writes the decision, starts the runs, and notes that they are
started.  Any number of processes do that at once: a row is changed by compare-and-set, and a run is started by its id.
See docs/adr/0046-schedules.md for what happens when a process dies in between.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from weft.errors import RunClosed, RunnerClosed, RunNotFound, StoreClosed, StoreUnavailable
from weft.ports.schedules import ScheduleStore, StoredSchedule
from weft.runner.poll_loop import PollLoop
from weft.runner.schedules import rows
from weft.runner.schedules.decision import Schedule, ScheduleState, decide
from weft.runner.schedules.timing import shown

_log = logging.getLogger("weft.schedules")

POLL: Final = 10.0
"""Longest time between two looks; a schedule of another process may wait that long if its notification is lost."""
TRIED_AGAIN: Final = 30.0
"""Seconds before a schedule that could not fire is tried again."""


class ScheduleLoop:
    """
    Fires the schedules in *store*.

    Args:
        workflows: the names of the workflows that can be started here.
        start: starts the run of a schedule for a nominal time; a run that exists is left as it is.
        cancel: cancels a run.
        is_finished: whether a run has finished, or does not exist.
        time: the clock, if the store has none.
        draw: returns a number from 0 to 1, by which polls are spread.
    """

    def __init__(
        self,
        store: ScheduleStore,
        workflows: Callable[[], Collection[str]],
        start: Callable[[Schedule, float], Awaitable[object]],
        cancel: Callable[[str, str], Awaitable[object]],
        is_finished: Callable[[str], Awaitable[bool]],
        time: Callable[[], float],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._store, self._workflows, self._time = store, workflows, time
        self._start, self._cancel, self._is_finished = start, cancel, is_finished
        self._loop = PollLoop(self.poll, what="schedules", log=_log, longest=POLL, draw=draw)

    def wake(self) -> None:
        """Something may have changed: poll soon."""
        self._loop.wake()

    async def run(self) -> None:
        """Fire what is due, until it is cancelled or the runner is closed."""
        await self._loop.run()

    async def poll(self) -> float:
        """Fire what is due; return after how many seconds to poll again."""
        known = self._workflows()
        due = await self._store.due_schedules(known, self._time())
        for row in due.found:
            await self._fire(row, due.now)
        if due.found:
            return 0.0  # what was due may be due again, and has another time now
        return min(max(due.next_at - due.now, 0.0), POLL)

    async def _fire(self, row: StoredSchedule, now: float) -> None:
        try:
            found = rows.kept(row)
            schedule, state = found.schedule, found.state
            must_ask = schedule.overlap != "allow" and state.last_run
            is_free = await self._is_finished(state.last_run) if must_ask else True
            decision = decide(schedule, state, now, is_free=is_free)
        except (StoreUnavailable, RunnerClosed, StoreClosed):
            raise
        except Exception as error:  # noqa: BLE001 - the other schedules go on
            await self._could_not(row, now, error)
            return
        if decision.missed is not None:
            first, last = map(shown, decision.missed)
            _log.warning("schedule %r: firings from %s until %s were missed, and are dropped", row.name, first, last)
        written = state
        try:
            if decision.cancels:
                with suppress(RunClosed, RunNotFound):
                    await self._cancel(decision.cancels, f"the schedule {schedule.name!r} starts the next run")
            if not state.starting:
                if not await self._store.put_schedule(rows.stored(schedule, decision.state, now, row.revision)):
                    return  # another process has decided
                row, written = replace(row, revision=row.revision + 1), decision.state
            for at in decision.starts:
                await self._start(schedule, at)
        except (StoreUnavailable, RunnerClosed, StoreClosed):
            raise
        except Exception as error:  # noqa: BLE001 - the other schedules go on
            await self._could_not(row, now, error, schedule, written)
            return
        if decision.starts:
            done = replace(decision.state, starting=(), problem="")
            if not await self._store.put_schedule(rows.stored(schedule, done, now, row.revision)):
                await self._have_started(row.name, decision.starts, now)

    async def _have_started(self, name: str, starts: Sequence[float], now: float) -> None:
        """Note in a row that was changed meanwhile, by a caller or another process, that *starts* are done."""
        for row in await self._store.list_schedules(name):
            found = rows.kept(row)
            if found.state.starting == starts:  # else another process has done it; and if this fails, one will
                done = replace(found.state, starting=(), problem="")
                await self._store.put_schedule(rows.stored(found.schedule, done, now, row.revision))

    async def _could_not(
        self,
        row: StoredSchedule,
        now: float,
        error: Exception,
        schedule: Schedule | None = None,
        state: ScheduleState | None = None,
    ) -> None:
        """Note that a schedule could not fire, and look at it again later."""
        _log.error("schedule %r could not fire, and is tried again in %g s: %s", row.name, TRIED_AGAIN, error)
        if schedule is not None and state is not None:
            noted = replace(state, problem=f"{type(error).__name__}: {error}")
            row = rows.with_look_at(schedule, noted, now + TRIED_AGAIN, row.revision)
        else:
            row = replace(row, look_at=now + TRIED_AGAIN)
        await self._store.put_schedule(row)
