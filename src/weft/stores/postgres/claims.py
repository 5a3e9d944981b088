"""
The claims of one owner, each with a number, and those whose result is not known.

    new ──sent──► answered
           │
           └── the answer is lost, or no caller waits for it ──► in doubt ──settled──► known: these runs, or none

The runs of a claim in doubt have an owner that is alive and does not know of them, so no other owner would take them.
Settling waits for claims that still run in the server; such a claim that begins later takes nothing.
See docs/adr/0050-claims-in-doubt.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from weft.ports.store import RunRecord

FEW: Final = 8
"""A claim that has found fewer runs than so many, and than it could take, has left none: the next one finds few."""


class Claims:
    """The claims of one open store."""

    def __init__(self) -> None:
        self._last = 0
        self._in_doubt: dict[int, None] = {}
        self._finds_few = False

    async def answered(self, limit: int, claim: Callable[[int, bool], Awaitable[list[RunRecord]]]) -> list[RunRecord]:
        """
        Return the answer of *claim*; if there is none, note that.

        It is called with the next number, and with whether it will probably find few runs.
        """
        self._last = number = self._last + 1
        few, self._finds_few = self._finds_few, False
        try:
            found = await claim(number, few)
        except BaseException:  # also if the caller goes away: the statement ends all the same
            self._in_doubt[number] = None
            raise
        self._finds_few = len(found) < min(limit, FEW)
        return found

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
