"""
The reports of a step while it runs, besides its result: progress, and the items of streams (ADR 38).

These are the protocols, as a step sees them; a runner implements them, and so does a worker process.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class Progress(msgspec.Struct, frozen=True):
    """How far one runnable has come, as it last reported."""

    component: str
    done: float
    total: float | None = None
    note: str = ""
    attempt: int = 1

    @property
    def share(self) -> float | None:
        """The share that is done, from 0 to 1; None if it is not known how much there is."""
        return None if not self.total else min(1.0, max(0.0, self.done / self.total))


class StreamWriter(Protocol):
    """Writes to one stream of a run."""

    def write(self, item: Any) -> None:
        """
        Add *item*; it is stored soon, together with others.

        On a thread, and in a worker process, this waits while too many items are not stored yet.  In the event loop it
        cannot: use ``await stream.drain()`` now and then.

        Raises:
            UnencodableValue: the item cannot be stored.
            StreamFull: too many items are not stored yet, and this is the thread of the event loop.
        """
        ...

    async def drain(self) -> None:
        """Wait until there is room for more items."""
        ...


class Reporter(Protocol):
    """Takes what steps report."""

    @property
    def keeps_streams(self) -> bool:
        """Whether there are streams; else :meth:`stream` raises NoStreams."""
        ...

    def report(self, runnable: Any, done: float, total: float | None, note: str) -> None:
        """Keep how far *runnable* has come."""
        ...

    def answer(self, run: str, question: bytes) -> None:
        """Tell another process, which has asked, how far *run* has come."""
        ...

    def stream(self, runnable: Any, name: str) -> StreamWriter:
        """Return the writer of *runnable* for the stream *name*."""
        ...


class NoStream:
    """A stream of a run in memory, which no other process can read: what is written is dropped."""

    def write(self, item: Any) -> None:
        """Drop *item*."""

    async def drain(self) -> None:
        """Return at once."""


NO_STREAM = NoStream()
