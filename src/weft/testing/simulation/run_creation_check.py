"""
Which runs come to be in a simulated store: each once, and a child only when a log that is stored has named it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from weft.errors import StoreError
from weft.ports.store import Append


class RunCreationCheck:
    """Sees every run come to be, and says at once what should not have."""

    def __init__(self, wanted: Collection[str], unwanted: Collection[str]) -> None:
        """Expect the runs that clients have *wanted*, none that is *unwanted*, and all that a log has named before."""
        self._wanted, self._unwanted = wanted, unwanted
        self._born: dict[str, bytes] = {}
        """By run: the chain that it began with, by which saying the same thing twice is known."""
        self._bodies: list[bytes] = []
        """What is stored of all logs, in which the name of a child stands as it is."""
        self.problems: list[str] = []

    def committed(self, batch: Sequence[Append], results: Sequence[StoreError | None]) -> None:
        """A store has taken *batch*, but for what it refused."""
        stored = [append for append, refused in zip(batch, results, strict=True) if refused is None]
        for append in stored:
            if append.create:
                self.problems += self._wrong(append.run, append.chain)
                self._born[append.run] = append.chain
        self._bodies += [append.body for append in stored]

    def _wrong(self, name: str, chain: bytes) -> Iterator[str]:
        if self._born.get(name, chain) != chain:
            yield f"{name} was created twice"
        if name in self._born:
            return
        if name in self._unwanted:
            yield f"{name} was created after it was cancelled with its parent"
        if name not in self._wanted and not any(name.encode() in body for body in self._bodies):
            yield f"{name} was created, and no log that is stored names it"
