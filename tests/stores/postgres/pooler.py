"""
A transaction pooler, for tests: its clients share a few sessions, and each transaction gets the next one.

It speaks as much of the protocol as it must: a message is a letter, a length and a body.  When the server has answered
all that a client has sent, outside of a transaction, the session goes back.  Nothing of a session lasts longer than a
transaction, and notifications are lost, as with real poolers.  A client that goes in the middle of a transaction ends
its session, which rolls back, and another one takes its place.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

SESSIONS = 3
SOCKET = ".s.PGSQL.5432"


class Session(NamedTuple):
    """A session of the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the letter of the next message, and all of its bytes."""
    head = await reader.readexactly(5)
    (length,) = struct.unpack(">i", head[1:])
    return head[:1], head + await reader.readexactly(length - 4)


class Pooler:
    """The sessions, and how often they were handed out."""

    def __init__(self, server: Path, sessions: int = SESSIONS) -> None:
        self._server, self._sessions = server / SOCKET, sessions
        self.free: asyncio.Queue[Session] = asyncio.Queue()
        self.greeting = self._startup = b""
        self.opened = self.transactions = 0
        self._begun = asyncio.Lock()
        self.tasks: set[asyncio.Task[None]] = set()
        self.writers: list[asyncio.StreamWriter] = []

    async def begin(self, startup: bytes) -> None:
        """Open the sessions, as the first client wants them."""
        async with self._begun:
            while self.opened < self._sessions:
                self._startup = startup
                self.opened += 1
                await self._open()

    async def _open(self) -> None:
        """Open a session."""
        reader, writer = await asyncio.open_unix_connection(str(self._server))
        self.writers.append(writer)
        writer.write(self._startup)
        letter, greeting = b"", b""
        while letter != b"Z":
            letter, text = await message(reader)
            greeting += text
        self.greeting = greeting
        self.free.put_nowait(Session(reader, writer))

    async def replace(self, session: Session) -> None:
        """End a session that a client has left in a transaction, and open another one."""
        session.writer.close()
        await self._open()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it goes."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.writers.append(writer)
        client = _Client(self, writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            head = await reader.readexactly(4)
            await self.begin(head + await reader.readexactly(struct.unpack(">i", head)[0] - 4))
            writer.write(self.greeting)
            while True:
                letter, text = await message(reader)
                if letter == b"X":
                    break
                await client.send(letter, text)
        await client.leave()
        writer.close()


class _Client:
    """One client, with its session while it is in a transaction."""

    def __init__(self, pooler: Pooler, writer: asyncio.StreamWriter) -> None:
        self._pooler, self._writer = pooler, writer
        self._session: Session | None = None
        self._asked = 0  # how many ReadyForQuery are to come
        self._has_more = False  # whether something was sent after the last Sync

    async def send(self, letter: bytes, text: bytes) -> None:
        """Hand a message of the client on."""
        if self._session is None:
            self._session = await self._pooler.free.get()
            self._pooler.transactions += 1
            task = asyncio.ensure_future(self._answer(self._session))
            self._pooler.tasks.add(task)
        is_end = letter in {b"S", b"Q"}
        self._asked, self._has_more = self._asked + is_end, not is_end
        self._session.writer.write(text)

    async def leave(self) -> None:
        """Give up the session of a transaction that was not ended."""
        session, self._session = self._session, None
        if session is not None:
            await self._pooler.replace(session)

    async def _answer(self, session: Session) -> None:
        """Hand the answers of the server on, until the transaction has ended."""
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                letter, text = await message(session.reader)
                if letter != b"A":
                    self._writer.write(text)
                if letter == b"Z":
                    self._asked -= 1
                    if not self._asked and not self._has_more and text[-1:] == b"I":
                        self._session = None
                        self._pooler.free.put_nowait(session)
                        return


@asynccontextmanager
async def pooled(
    server: Path, folder: Path, *, sessions: int = SESSIONS, database: str = "postgres"
) -> AsyncIterator[tuple[Pooler, str]]:
    """Run a pooler in front of the server whose socket is in the folder *server*; yield it and its address."""
    pooler = Pooler(server, sessions)
    listening = await asyncio.start_unix_server(pooler.serve, str(folder / SOCKET))
    try:
        yield pooler, f"postgresql://postgres:@/{database}?host={folder}"
    finally:
        listening.close()
        for task in pooler.tasks:
            task.cancel()
        await asyncio.gather(*pooler.tasks, return_exceptions=True)
        for writer in pooler.writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
