"""
Starts several worker processes, and starts each of them again when it ends.

    stopped ──► running ──ended by itself──► waiting (longer each time) ──► running
                   │
                   └── told to stop: SIGTERM, and again for a second stop ──► ended for good

A worker whose supervisor is gone stops by itself.  A process that ends again and again is started later each time.  If
all of them end because they cannot work at all (a newer schema, an invalid option), the supervisor ends too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import tempfile
import time
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.errors import WorkersEnded
from weft.fleet import decisions, health

_log = logging.getLogger("weft.fleet")

SUPERVISOR: Final = "WEFT_SUPERVISOR"
"""The variable that tells a worker the process id of its supervisor."""
_GIVES_UP: Final = 5
"""How often in a row a process may end at once with an error that it has reported, before it is not started again."""
_HEALTH: Final = 2.0
"""Seconds between two health files."""
_SILENT: Final = 10.0
"""Seconds after which a worker that says nothing is not ready: it looks at its queue every few seconds."""


def is_orphan() -> bool:
    """Return whether this process was started by a supervisor that is gone."""
    supervisor = os.environ.get(SUPERVISOR)
    return supervisor is not None and supervisor != str(os.getppid())


class Supervisor:
    """Runs *command* in several *processes*, until :meth:`stop` is called."""

    def __init__(self, command: Sequence[str], processes: int, *, health_file: Path | None = None) -> None:
        self._command, self._count, self._health = list(command), processes, health_file
        self._folder = tempfile.TemporaryDirectory(prefix="weft-workers-")
        """Where each worker says what it does."""
        self._running: dict[int, Process] = {}
        """By place: its process."""
        self._restarts = self._given_up = 0
        self._is_stopping = asyncio.Event()

    def drain(self) -> None:
        """Tell all processes to drain."""
        self._signal(signal.SIGUSR1)

    def resume(self) -> None:
        """Tell all processes to claim again, after :meth:`drain`."""
        self._signal(signal.SIGUSR2)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    def stop(self) -> None:
        """Tell all processes to stop; a second call hurries them."""
        self._is_stopping.set()
        self._signal(signal.SIGTERM)

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
            self._folder.cleanup()
        if not any(went_well):
            raise WorkersEnded(self._count)

    async def _keep(self, place: int) -> bool:
        """Keep one process running; return False if it could not be."""
        failures = 0
        while not self._is_stopping.is_set():
            begun = time.monotonic()
            try:
                code: int | None = await self._run_one(place)
            except (OSError, MemoryError) as error:  # the machine has no process or no memory for it now
                code, how = None, f"could not be started ({str(error) or type(error).__name__})"
            else:
                how = f"ended with code {code}"
            if self._is_stopping.is_set():
                break
            failures = decisions.failures_after(failures, time.monotonic() - begun)
            if code is not None and code > 0 and failures >= _GIVES_UP:
                self._given_up += 1
                _log.error("worker %d ended %d times in a row with code %d, and is given up", place, failures, code)
                return False
            wait = decisions.backoff(failures, random.random())  # noqa: S311 - not a secret
            _log.error("worker %d %s, and starts again in %.1f s", place, how, wait)
            self._restarts += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._is_stopping.wait()
        return True

    async def _run_one(self, place: int) -> int:
        """Start a process, and return its code when it has ended."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            "--health",
            str(self._file(place)),
            env={**os.environ, SUPERVISOR: str(os.getpid())},
            start_new_session=True,
        )
        self._running[place] = process
        if self._is_stopping.is_set():  # told while it was started
            process.send_signal(signal.SIGTERM)
        code = await process.wait()
        del self._running[place]
        return code

    def _file(self, place: int) -> Path:
        return Path(self._folder.name) / f"worker-{place}"

    def _said(self, place: int, process: Process) -> dict[str, object]:
        """Return the last report of a process; an old one is marked as not ready, one of another process is ignored."""
        said = health.read(self._file(place))
        if said.get("pid") != process.pid:
            return {"pid": process.pid, "state": "new", "ready": False}
        if not time.time() - float(said.get("at") or 0.0) <= _SILENT:
            return {**said, "ready": False, "problem": "it has said nothing for a while"}
        return said

    def status(self) -> dict[str, object]:
        """Return what it does, and the report of each of its workers, as plain data."""
        workers = [self._said(place, process) for place, process in self._running.items()]
        is_ready = not self._is_stopping.is_set() and any(each.get("ready") for each in workers)
        return {
            "state": "closing" if self._is_stopping.is_set() else "working",
            "ready": is_ready,
            "at": time.time(),
            "pid": os.getpid(),
            "restarts": self._restarts,
            "given_up": self._given_up,
            "problem": _problem(self._given_up, self._count),
            "workers": workers,
        }

    async def _tell_health(self) -> None:
        while self._health is not None:
            health.write(self._health, self.status())
            await asyncio.sleep(_HEALTH)


def _problem(given_up: int, count: int) -> str:
    """
    Return what is wrong with the workers; empty if nothing is.

    >>> _problem(1, 4), _problem(2, 4), _problem(0, 4)
    ('1 of 4 workers cannot be started, and is given up', '2 of 4 workers cannot be started, and are given up', '')
    """
    verb = "is" if given_up == 1 else "are"
    return f"{given_up} of {count} workers cannot be started, and {verb} given up" if given_up else ""
