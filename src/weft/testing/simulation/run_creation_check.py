"""
Checks the creation of runs in a simulated store: each once, and a child only when a stored log has named it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from weft.errors import StoreError
from weft.ports.store import Append


class RunCreationCheck:
    """Sees the creation of every run, and reports at once those that should not have been created."""

    def __init__(self, wanted: Collection[str], unwanted: Collection[str]) -> None:
        """Expect the runs that clients have *wanted*, none of those *unwanted*, and all that a log has named before."""
        self._wanted, self._unwanted = wanted, unwanted
        self._born: dict[str, bytes] = {}
        """By run: the chain that it began with, by which a repeated append is recognised."""
        self._bodies: list[bytes] = []
        """The stored bytes of all logs, which contain the names of children as plain text."""
        self.problems: list[str] = []

    def committed(self, batch: Sequence[Append], results: Sequence[StoreError | None]) -> None:
        """Note that a store has written *batch*, except what it refused."""
        stored = [append for append, refused in zip(batch, results, strict=True) if refused is None]
        for append in stored:
            if append.create:
                self.problems += self._wrong(append.run, append.chain)
                self._born[append.run] = append.chain
        self._bodies += [append.body for append in stored]

    def deleted(self, run: str) -> None:
        """Note that a store has deleted a run, so that another one may have its name."""
        self._born.pop(run, None)

    def _wrong(self, name: str, chain: bytes) -> Iterator[str]:
        if self._born.get(name, chain) != chain:
            yield f"{name} was created twice"
        if name in self._born:
            return
        if name in self._unwanted:
            yield f"{name} was created after it was cancelled with its parent"
        if name not in self._wanted and not any(name.encode() in body for body in self._bodies):
            yield f"{name} was created, and no stored log names it"
