"""
The commands of schedules for scripts and threads: the methods of :class:`ScheduleCommands`, but blocking.
"""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime
from typing import Any, TypeVar

from weft.runner.option_checks import Time
from weft.runner.schedules.commands import ScheduleCommands
from weft.runner.schedules.rows import ScheduleStatus

T = TypeVar("T")


class BlockingScheduleCommands:
    """The methods of a blocking runner or client that are about schedules."""

    @property
    def _schedule_commands(self) -> ScheduleCommands:
        raise NotImplementedError

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    def schedules(self) -> list[ScheduleStatus]:
        """Return all schedules, in the order of their names."""
        return self._do(self._schedule_commands.schedules())

    def pause(self, name: str, *, by: str | None = None) -> None:
        """Let the schedule *name* fire nothing until :meth:`unpause`."""
        self._do(self._schedule_commands.pause(name, by=by))

    def unpause(self, name: str, *, by: str | None = None) -> None:
        """Let the schedule *name* fire again, from now on."""
        self._do(self._schedule_commands.unpause(name, by=by))

    def unschedule(self, name: str, *, by: str | None = None) -> None:
        """Remove the schedule *name*; its runs stay."""
        self._do(self._schedule_commands.unschedule(name, by=by))

    def backfill(self, name: str, since: Time, until: Time, *, by: str | None = None) -> int:
        """Fire the schedule *name* for a span; see :meth:`ScheduleCommands.backfill`."""
        return self._do(self._schedule_commands.backfill(name, since, until, by=by))

    def next_firings(self, name: str, count: int = 10) -> list[datetime]:
        """Return the next nominal times of the schedule *name*, in UTC."""
        return self._do(self._schedule_commands.next_firings(name, count))
