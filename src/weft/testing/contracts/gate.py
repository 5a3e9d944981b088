"""
A gate at which steps of any thread or process wait, and which counts their arrivals and departures.

A slow step arrives at the gate and waits until it is opened; if it is stopped meanwhile, its departure is counted.
No test has to sleep.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Self

Address = tuple[str, int]


def knock(address: Address) -> str:
    """Wait at the gate until it is opened."""
    with socket.create_connection(address) as connection:
        return connection.recv(16).decode()


async def aknock(address: Address) -> str:
    """Wait at the gate until it is opened, as a coroutine."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        return (await reader.read(16)).decode()
    finally:
        writer.close()


class Gate:
    """The gate, with the numbers of arrivals and departures."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []
        self._is_open = False
        self.came = self.went = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        self.address: Address = self._server.sockets[0].getsockname()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.open()
        self._server.close()
        if kind is None:
            await self.until(lambda: self.went == self.came)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.came += 1
        if self._is_open:
            self.open()
        self._changed.set()
        try:
            await reader.read()  # until the other side is gone
        except ConnectionError:
            pass
        finally:
            self.went += 1
            self._changed.set()
            writer.close()

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until *done* returns true, checked at every arrival and departure."""
        while not done():
            await self._changed.wait()
            self._changed.clear()

    def open(self) -> None:
        """Open the gate for all steps, from now on."""
        self._is_open = True
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.write(b"through")
