"""
Health and readiness of a worker, or of a supervisor and its workers: over HTTP, or as a file.

    GET /health   200 while the process answers, with what it does as JSON
    GET /ready    200 while it claims and drives runs, otherwise 503
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from weft.errors import InvalidOption

_log = logging.getLogger("weft.fleet")

_LONGEST: Final = 8192
"""Bytes of a request."""
_PATIENCE: Final = 5.0
"""Seconds for a request to come."""

Status = Callable[[], Mapping[str, Any]]
"""Returns what a process does; ``ready`` says whether it drives runs."""


def write(path: Path, status: Mapping[str, Any]) -> None:
    """Replace the file at *path* by *status*; if it cannot be written, that is logged."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        new.write_text(json.dumps(status) + "\n", encoding="utf-8")
        new.replace(path)
    except OSError as error:
        _log.warning("the health file cannot be written: %s", error)


def read(path: Path) -> dict[str, Any]:
    """Return the status in the file at *path*; empty if there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return {}


class HealthServer:
    """Answers questions about *status* at *address*, ``host:port`` or a port of this machine alone."""

    def __init__(self, address: str, status: Status) -> None:
        self._address, self._status = address, status
        self._server: asyncio.Server | None = None

    async def open(self) -> int:
        """
        Listen; return the port.

        Raises:
            InvalidOption: the address is not one, or is in use.
        """
        host, _, port = self._address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        try:
            self._server = await asyncio.start_server(self._serve, host, int(port), limit=_LONGEST)
        except (ValueError, OverflowError):
            raise InvalidOption(f"health cannot be reported on {self._address!r}: use PORT, or HOST:PORT") from None
        except OSError as error:
            raise InvalidOption(
                f"health cannot be reported on {self._address!r}: {error.strerror or error}; use another --health-port"
            ) from error
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(Exception):  # of a client that does not speak HTTP, or goes away
            async with asyncio.timeout(_PATIENCE):
                request = await reader.readuntil(b"\r\n\r\n")
                method, path, *_ = request.split(b"\r\n", 1)[0].split(b" ")
                code, answer = self._answer(method, path.partition(b"?")[0])
                body = json.dumps(answer).encode() if method != b"HEAD" else b""
                head = f"HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
                await writer.drain()
        writer.close()

    def _answer(self, method: bytes, path: bytes) -> tuple[str, Mapping[str, Any]]:
        if method not in (b"GET", b"HEAD"):
            return "405 Method Not Allowed", {"error": "use GET"}
        status = self._status()
        if path == b"/health":
            return "200 OK", status
        if path == b"/ready":
            return "200 OK" if status.get("ready") else "503 Service Unavailable", status
        return "404 Not Found", {"error": "there is /health and /ready"}
