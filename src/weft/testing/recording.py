"""
A store that remembers what was written to it.

    >>> import asyncio
    >>> from weft.ports.store import Append
    >>> from weft.stores import MemoryStore
    >>> async def main():
    ...     async with RecordingStore(MemoryStore()) as store:
    ...         await store.append([Append(run="r", workflow="w", create=True, expected=0, count=1,
    ...                                    body=b"first", chain=b"1", at=0.0)])
    ...         return [(write.append.run, write.append.body) for write in store.writes]
    >>> asyncio.run(main())
    [('r', b'first')]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.errors import StoreError
from weft.ports.store import Append
from weft.testing.wrapping import FullStore, WrappedStore

Decode = Callable[[Append], Sequence[Any]]


class Write:
    """One append that was written, in the transaction number *batch*."""

    __slots__ = ("_decode", "append", "batch")

    def __init__(self, append: Append, batch: int, decode: Decode) -> None:
        self.append, self.batch, self._decode = append, batch, decode

    def __repr__(self) -> str:
        return f"Write(batch={self.batch}, append={self.append!r})"

    @property
    def events(self) -> Sequence[Any]:
        """The events that it holds, as the recording store decodes them."""
        return self._decode(self.append)


class RecordingStore(WrappedStore):
    """
    Keeps every append that *inner* has taken, in order, in :attr:`writes`; what was refused or failed is not there.

    *decode* makes the events of an append from its body, for :attr:`Write.events`.
    """

    def __init__(self, inner: FullStore, *, decode: Decode | None = None) -> None:
        super().__init__(inner)
        self.writes: list[Write] = []
        self._decode = decode or _raw
        self._batches = 0

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Write the batch, and remember what was taken of it."""
        results = await super().append(batch)
        self._batches += 1
        taken = [each for each, refused in zip(batch, results, strict=True) if refused is None]
        self.writes.extend(Write(each, self._batches, self._decode) for each in taken)
        return results


def _raw(append: Append) -> Sequence[bytes]:
    """Without a decoder the body is all there is."""
    return [append.body] if append.count else []
