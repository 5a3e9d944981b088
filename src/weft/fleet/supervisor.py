"""
Starts several worker processes, and starts each of them again when it ends.

    stopped ──► running ──ended by itself──► waiting (longer each time) ──► running
                   │
                   └── told to stop: SIGTERM, and again for a second stop ──► ended for good

A worker whose supervisor is gone stops by itself.  A process that ends again and again is started ever later, and one
that cannot be used at all (a newer schema, an option) ends the supervisor when all have ended so.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import time
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.errors import WorkersEnded
from weft.fleet import decisions

_log = logging.getLogger("weft.fleet")

SUPERVISOR: Final = "WEFT_SUPERVISOR"
"""The variable that tells a worker the process id of its supervisor."""
_GIVES_UP: Final = 5
"""How often in a row a process may end at once with an error that it has reported, before it is not started again."""
_HEALTH: Final = 2.0
"""Seconds between two health files."""


def is_orphan() -> bool:
    """Return whether this process was started by a supervisor that is gone."""
    supervisor = os.environ.get(SUPERVISOR)
    return supervisor is not None and supervisor != str(os.getppid())


class Supervisor:
    """Runs *command* in so many *processes*, until :meth:`stop` is called."""

    def __init__(self, command: Sequence[str], processes: int, *, health: Path | None = None) -> None:
        self._command, self._count, self._health = list(command), processes, health
        self._running: dict[int, Process] = {}
        """By place: its process."""
        self._restarts = 0
        self._is_stopping = asyncio.Event()

    def stop(self) -> None:
        """Tell all processes to stop; a second call hurries them."""
        self._is_stopping.set()
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    async def run(self) -> None:
        """
        Keep the processes running until they are told to stop, and have ended.

        Raises:
            WorkersEnded: none of them can be started.
        """
        telling = asyncio.ensure_future(self._tell_health())
        try:
            went_well = await asyncio.gather(*(self._keep(place) for place in range(self._count)))
        finally:
            telling.cancel()
            for process in self._running.values():
                with suppress(ProcessLookupError):
                    process.terminate()
            if self._health is not None:
                self._health.unlink(missing_ok=True)
        if not any(went_well):
            raise WorkersEnded(self._count)

    async def _keep(self, place: int) -> bool:
        """Keep one process running; return False if it could not be."""
        failures = 0
        while not self._is_stopping.is_set():
            begun = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                *self._command, env={**os.environ, SUPERVISOR: str(os.getpid())}, start_new_session=True
            )
            self._running[place] = process
            if self._is_stopping.is_set():  # told while it was started
                process.send_signal(signal.SIGTERM)
            code = await process.wait()
            del self._running[place]
            if self._is_stopping.is_set():
                break
            failures = decisions.failures_after(failures, time.monotonic() - begun)
            if code > 0 and failures >= _GIVES_UP:
                _log.error("worker %d ended %d times in a row with code %d, and is given up", place, failures, code)
                return False
            wait = decisions.backoff(failures, random.random())  # noqa: S311 - not a secret
            _log.error("worker %d ended with code %d, and starts again in %.1f s", place, code, wait)
            self._restarts += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._is_stopping.wait()
        return True

    async def _tell_health(self) -> None:
        path = self._health
        while path is not None:
            state = "closing" if self._is_stopping.is_set() else "working"
            told: dict[str, object] = {
                "state": state,
                "at": time.time(),
                "pid": os.getpid(),
                "restarts": self._restarts,
            }
            told["workers"] = [process.pid for process in self._running.values()]
            new = path.with_name(f"{path.name}.{os.getpid()}.new")
            try:
                new.write_text(json.dumps(told) + "\n", encoding="utf-8")
                new.replace(path)
            except OSError as error:
                _log.warning("the health file cannot be written: %s", error)
            await asyncio.sleep(_HEALTH)
