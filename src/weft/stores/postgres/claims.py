"""
The claims of one owner, each with a number, and those of which it is not known what they have taken.

    new ──sent──► answered
           │
           └── the answer is lost, or no caller waits for it ──► in doubt ──settled──► known: these runs, or none

The runs of a claim in doubt have an owner that is alive and does not know of them, so no other owner would take them.
Settling waits for claims that still run in the server, and one that begins later takes nothing.
See docs/adr/0050-claims-in-doubt.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from weft.ports.store import RunRecord


class Claims:
    """The claims of one open store."""

    def __init__(self) -> None:
        self._last = 0
        self._in_doubt: dict[int, None] = {}

    async def answered(self, claim: Callable[[int], Awaitable[list[RunRecord]]]) -> list[RunRecord]:
        """Return the answer of *claim*, which is called with the next number; if there is none, note that."""
        self._last = number = self._last + 1
        try:
            return await claim(number)
        except BaseException:  # also if the caller goes away: the statement ends all the same
            self._in_doubt[number] = None
            raise

    async def settled(self, settle: Callable[[Sequence[int]], Awaitable[list[RunRecord]]]) -> list[RunRecord]:
        """Return what the claims in doubt have taken, which *settle* finds out; nothing, if there are none."""
        numbers = list(self._in_doubt)
        if not numbers:
            return []
        self._in_doubt.clear()  # a second caller does not get the same runs
        try:
            return await settle(numbers)
        except BaseException:
            self._in_doubt.update(dict.fromkeys(numbers))
            raise
