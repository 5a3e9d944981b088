"""
Workers that crash are rebuilt from the store; those that keep crashing are parked.

A step that fails is no crash: that is part of its run.  A worker crashes if its own machinery raises, because of a
bug or of data that cannot be.  It is rebuilt after a pause that grows, and past *most* restarts within *window*
seconds its run is set aside with the reason, until somebody resumes it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from weft.errors import OwnershipLost
from weft.ports.store import RunRecord
from weft.runner.worker import Worker

_log = logging.getLogger("weft.runner")

MOST, WINDOW = 3, 60.0
"""How many restarts a run gets, and within how many seconds they count."""
PAUSE = 0.05
"""How many seconds to wait before the first restart; twice as many before each further one."""


class Supervisor:
    """Decides what becomes of workers that crash."""

    def __init__(self, rebuild: Callable[[Worker], Awaitable[None]], park: Callable[[Worker, str], None]) -> None:
        self._rebuild, self._park = rebuild, park
        self._restarts: dict[str, list[float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def crashed(self, worker: Worker, error: BaseException) -> None:
        """*worker* has raised *error*."""
        if self._is_closed or worker.is_dead:
            return
        worker.die()
        now = asyncio.get_running_loop().time()
        recent = [at for at in self._restarts.get(worker.id, ()) if now - at < WINDOW]
        recent.append(now)
        self._restarts[worker.id] = recent
        worker.report.restarted(error, len(recent))
        if len(recent) > MOST:
            self._park(worker, f"its worker crashed {len(recent)} times: {type(error).__name__}: {error}")
            return
        task = asyncio.get_running_loop().create_task(self._restart(worker, PAUSE * 2 ** (len(recent) - 1)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _restart(self, worker: Worker, pause: float) -> None:
        await asyncio.sleep(pause)
        try:
            await self._rebuild(worker)
        except OwnershipLost:
            _log.exception("run %r belongs to somebody else now", worker.id)
        except Exception as error:  # noqa: BLE001 - a run that cannot be rebuilt has crashed once more
            worker.revive()
            self.crashed(worker, error)

    def unresumable(self, record: RunRecord, error: BaseException) -> None:
        """A stored run could not be brought back."""
        _log.error("run %r could not be resumed: %s", record.id, error, exc_info=error)

    def close(self) -> None:
        """Restart nothing more."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
