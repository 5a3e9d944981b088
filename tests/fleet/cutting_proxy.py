"""A proxy in front of PostgreSQL that cuts connections in the middle of statements, or before their answers."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from pooler import message


class CuttingProxy:
    """
    Passes connections on to the server of *dsn*.

    Args:
        cut: whether pieces of data from clients are the last of their connections: half of each is passed on.
        mute: whether answers are lost with their connections: what they answer was done.
        deaf: whether notifications are lost, while everything else arrives.

    The pieces whose numbers are squares are lost, so the gaps grow, and a client that tries again succeeds.
    """

    def __init__(self, dsn: str, *, cut: bool = False, mute: bool = False, deaf: bool = False) -> None:
        self._parts, self._cut, self._mute, self._deaf = urlsplit(dsn), cut, mute, deaf
        self._pieces: Counter[bool] = Counter()
        self.cuts = self.lost = 0
        self.is_calm = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Yield the address that leads through it."""
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        user = (self._parts.username or "postgres") + (f":{self._parts.password}" if self._parts.password else "")
        try:
            yield f"postgresql://{user}@127.0.0.1:{port}{self._parts.path}?sslmode=disable"
        finally:
            server.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = parse_qs(self._parts.query).get("host", [self._parts.hostname or "127.0.0.1"])[0]
        port = self._parts.port or 5432
        if host.startswith("/"):
            there = await asyncio.open_unix_connection(str(Path(host) / f".s.PGSQL.{port}"))
        else:
            there = await asyncio.open_connection(host, port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(reader, there[1], self._cut, half=True))
                if self._deaf:
                    both.create_task(self._copy_answers(there[0], writer))
                else:
                    both.create_task(self._copy(there[0], writer, self._mute, half=False))
        except* (_Over, OSError):
            pass
        finally:
            for each in (writer, there[1]):
                with suppress(Exception):
                    each.transport.abort()

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, cuts: bool, *, half: bool
    ) -> None:
        while data := await source.read(65536):
            self._pieces[half] += not self.is_calm
            if not self.is_calm and cuts and math.isqrt(self._pieces[half]) ** 2 == self._pieces[half]:
                self.cuts += 1
                if half:
                    target.write(data[: len(data) // 2])
                    with suppress(OSError):
                        await target.drain()
                raise _Over
            target.write(data)
            await target.drain()
        raise _Over

    async def _copy_answers(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Copy all messages of the server but notifications."""
        try:
            while True:
                letter, text = await message(source)
                if letter == b"A":
                    self.lost += 1
                    continue
                target.write(text)
                await target.drain()
        except asyncio.IncompleteReadError:
            raise _Over from None


class _Over(Exception):
    """A connection has ended."""
