"""
The streams of a store in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import structs

from weft.ports.streams import Chunk


class StreamsOfRun:
    """The streams of one run, and its last progress."""

    __slots__ = ("_chunks", "progress")

    def __init__(self) -> None:
        self._chunks: dict[str, list[Chunk]] = {}
        self.progress: bytes | None = None

    def add(self, chunk: Chunk) -> int:
        """Keep *chunk*; return its offset."""
        kept = self._chunks.setdefault(chunk.stream, [])
        if chunk.again:
            for each in reversed(kept):
                if (each.execution, each.place) == (chunk.execution, chunk.place):
                    return each.offset
        offset = kept[-1].offset + len(kept[-1].items) if kept else 0
        kept.append(structs.replace(chunk, offset=offset))
        return offset

    def read(self, stream: str, start: int, limit: int) -> Sequence[Chunk]:
        """Return *limit* chunks at most, from the one that holds the item at *start*."""
        kept = self._chunks.get(stream, [])
        first = max(0, bisect_right(kept, start, key=lambda chunk: chunk.offset) - 1)
        if kept and start >= kept[first].offset + len(kept[first].items):
            first += 1
        return kept[first : first + limit]
