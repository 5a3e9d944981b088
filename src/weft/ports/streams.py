"""
The port of streams: what steps write while they run, beside the log of their run (ADR 38).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from weft.errors import StoreError
from weft.typing import RunId


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive items of one stream, which one attempt has written."""

    run: RunId
    stream: str
    component: str
    attempt: int
    execution: str
    """Different whenever the step began to run."""
    items: tuple[bytes, ...]
    """At least one, each as :mod:`weft.log` has encoded it."""
    place: int = 0
    """How many items this execution had written to the stream before."""
    again: bool = False
    """Whether it may be stored already: then it is not stored twice."""
    at: float
    """When it was handed to the store, in seconds since the epoch."""
    offset: int = 0
    """The offset of its first item; assigned by the store."""


@runtime_checkable
class StreamStore(Protocol):
    """
    Streams of runs.

    The items of a stream, which is known by its run and name, have the offsets 0, 1, 2, … in the order in which they
    were stored.  Streams are deleted with their run.
    """

    async def write_chunks(self, chunks: Sequence[Chunk]) -> Sequence[int | StoreError]:
        """
        Store *chunks* in their order, in one transaction; return the offset of each, or the error that refused it.

        One that comes ``again`` and is stored, known by its execution and place, is left as it is.

        The error is RunNotFound.
        """
        ...

    async def read_chunks(self, run: RunId, stream: str, *, start: int = 0, limit: int = 100) -> Sequence[Chunk]:
        """Return chunks, *limit* at most and in order, from the one that holds the item at the offset *start*."""
        ...

    async def save_progress(self, run: RunId, body: bytes) -> None:
        """Keep *body*, in place of what was kept before; nothing, if there is no such run."""
        ...

    async def load_progress(self, run: RunId) -> bytes | None:
        """Return what was kept last for the run; None if nothing was."""
        ...
