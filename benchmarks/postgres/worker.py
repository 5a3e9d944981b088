"""
A worker in a process of its own, and the parent's side of it.

    python -m benchmarks.postgres.worker DSN QUEUES CONCURRENCY

It says ``working`` when it claims, answers each line with the CPU seconds that it has used, and stops at the end of its
input, so it never outlives the process that has started it.
"""

from __future__ import annotations

import asyncio
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import IO, Self

PATIENCE = 60.0
"""After how many seconds a worker that says nothing is an error."""


class WorkerProcess:
    """A worker on *dsn*, as ``with WorkerProcess(…) as worker``."""

    def __init__(self, dsn: str, queues: Sequence[str], concurrency: int) -> None:
        command = [sys.executable, "-m", "benchmarks.postgres.worker", dsn, ",".join(queues), str(concurrency)]
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def wait_until_it_works(self) -> None:
        """Return when it claims."""
        if self._heard() != "working":
            raise RuntimeError("a worker did not start")

    def cpu(self) -> float:
        """Return how many seconds of CPU it has used."""
        _pipe(self._process.stdin).write(b"cpu\n")
        _pipe(self._process.stdin).flush()
        return float(self._heard())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._process.kill()
        _pipe(self._process.stdin).close()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _pipe(self._process.stdout).close()

    def _heard(self) -> str:
        output = _pipe(self._process.stdout)
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            if not selector.select(PATIENCE):
                raise RuntimeError(f"a worker said nothing for {PATIENCE:g} s")
        return output.readline().decode().strip()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


# -- the process ---------------------------------------------------------------------------------


async def work(dsn: str, queues: Sequence[str], concurrency: int) -> None:
    """Work until the input ends."""
    from benchmarks.postgres.flows import SERVED
    from weft.fleet import FleetWorker

    worker, loop = FleetWorker(dsn, SERVED, queues=queues, concurrency=concurrency), asyncio.get_running_loop()

    def listen() -> None:
        for _ in sys.stdin.buffer:
            print(process_time(), flush=True)
        loop.call_soon_threadsafe(worker.stop)

    working = asyncio.create_task(worker.run())
    while worker.state != "working" and not working.done():  # noqa: ASYNC110 - a moment
        await asyncio.sleep(0.01)
    print(worker.state, flush=True)
    threading.Thread(target=listen, daemon=True).start()
    await working


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its input
    asyncio.run(work(sys.argv[1], sys.argv[2].split(","), int(sys.argv[3])))
