"""
The outside world of the demonstration: a line that is down, a warehouse, and the calls of each process.

All of it is in files, so that the calls of a process are known after it was killed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

_PATIENCE = 60.0  # seconds, after which a process that was left alone gives up by itself


class Called(msgspec.Struct, frozen=True):
    """One call of a step: which process made it, and how it ended, if it did."""

    pid: int
    component: str
    subject: str
    attempt: int
    key: str
    ending: str = ""

    @property
    def title(self) -> str:
        """The name of the call, for display."""
        return f"{self.component} of {self.subject}" if self.subject else self.component


class World:
    """The files in *folder*."""

    def __init__(self, folder: Path) -> None:
        self.database = folder / "orders.db"
        self._calls, self._line, self._warehouse = folder / "calls", folder / "line-is-up", folder / "reservations"

    def call(self, component: str, subject: str, attempt: int, key: str) -> Call:
        """Return a context manager that records the call of a step, and how it ended."""
        return Call(self._calls, Called(os.getpid(), component, subject, attempt, key))

    def calls(self) -> list[Called]:
        """Return all calls, in the order in which they began, each as it ended."""
        found: dict[tuple[int, str, str, int], Called] = {}
        for line in self._lines(self._calls):
            called = msgspec.json.decode(line, type=Called)
            found[called.pid, called.component, called.subject, called.attempt] = called
        return list(found.values())

    def reserve(self, key: str, customer: str) -> int:
        """Reserve, unless this *key* already has a reservation; return the number of the reservation."""
        known = [line.split("\t")[0] for line in self._lines(self._warehouse)]
        if key not in known:
            known.append(key)
            append(self._warehouse, f"{key}\t{customer}")
        return known.index(key) + 1

    def reservations(self) -> int:
        """Return how many reservations there are."""
        return len(self._lines(self._warehouse))

    def restore_the_line(self) -> None:
        """Let supplier and warehouse answer from now on."""
        self._line.touch()

    def wait_for_the_line(self) -> None:
        """Wait until supplier and warehouse answer."""
        give_up = time.monotonic() + _PATIENCE
        while not self._line.exists():
            if time.monotonic() > give_up:
                raise TimeoutError("the line stays down")
            time.sleep(0.01)

    @staticmethod
    def _lines(path: Path) -> list[str]:
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


class Call:
    """A call in flight."""

    def __init__(self, path: Path, called: Called) -> None:
        self._path, self._called = path, called

    def __enter__(self) -> None:
        self._note("")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._note("returned" if kind is None else "raised")

    def _note(self, ending: str) -> None:
        append(self._path, msgspec.json.encode(msgspec.structs.replace(self._called, ending=ending)).decode())


def append(path: Path, line: str) -> None:
    """Append a whole line to a file, even while other processes append to it."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)
