"""
A store that records every append.

    >>> import operator
    >>> from weft import Runner, Workflow, step
    >>> from weft.stores import MemoryStore
    >>> store = RecordingStore(MemoryStore())
    >>> with Runner(store) as runner:
    ...     _ = runner.start(Workflow("w", step(operator.neg, name="negate")), 5).wait()
    >>> [[type(event).__name__ for event in write.events] for write in store.writes]
    [['WorkflowDefined', 'InputReceived'], ['ReactionOccurred']]
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from weft.errors import StoreError
from weft.log import Decoder
from weft.ports.store import Append, ContentHash
from weft.testing.wrapping import FullStore, WrappedStore
from weft.typing import RunId

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
        """
        The events of the append.

        Raises:
            CorruptLog: the body is not a log of Weft; pass *decode* to the store.
        """
        return self._decode(self.append)


class RecordingStore(WrappedStore):
    """
    Keeps every append that *inner* has written, in order, in :attr:`writes`, without those that were refused or failed.

    *decode* returns the events of an append, for :attr:`Write.events`.  Without it they are read as Weft writes them,
    with the definitions and large values that have passed through this store.
    """

    def __init__(self, inner: FullStore, *, decode: Decode | None = None) -> None:
        super().__init__(inner)
        self.writes: list[Write] = []
        self._decode = decode or self._read
        self._decoder = Decoder()
        self._definitions: dict[ContentHash, bytes] = {}
        self._facts: dict[ContentHash, bytes] = {}
        self._batches = 0

    async def append(self, batch: Sequence[Append]) -> Sequence[StoreError | None]:
        """Write the batch, and record the appends that were written."""
        results = await super().append(batch)
        self._batches += 1
        taken = [each for each, refused in zip(batch, results, strict=True) if refused is None]
        for each in taken:
            self._definitions |= each.definitions
            self._facts |= each.facts
        self.writes.extend(Write(each, self._batches, self._decode) for each in taken)
        return results

    # Stored definitions and facts are not written again, so they are recorded when they are loaded.

    async def load_definitions(self, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return definitions."""
        found = await super().load_definitions(hashes)
        self._definitions |= found
        return found

    async def save_facts(self, run: RunId, facts: Mapping[ContentHash, bytes]) -> None:
        """Store facts."""
        await super().save_facts(run, facts)
        self._facts |= facts

    async def load_facts(self, run: RunId, hashes: Collection[ContentHash]) -> Mapping[ContentHash, bytes]:
        """Return facts."""
        found = await super().load_facts(run, hashes)
        self._facts |= found
        return found

    def _read(self, append: Append) -> Sequence[Any]:
        if not append.count:
            return []
        return self._decoder.segments([append.body], definitions=self._definitions, facts=self._facts)
