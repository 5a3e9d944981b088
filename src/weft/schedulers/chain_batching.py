"""A scheduler that hands a linear chain over at once: on threads that saves most of what a short step costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.errors import InvalidOption

LONGEST: Final = 1_000
"""How many runnables go out together at most."""


class ChainBatching:
    """
    Hands over a linear chain, of up to *longest* components, at once.

    >>> ChainBatching().group(["fetch", "parse", "store"])
    3
    >>> ChainBatching(longest=2).group(["fetch", "parse", "store"])
    2
    """

    __slots__ = ("longest",)

    def __init__(self, longest: int = LONGEST) -> None:
        if type(longest) is not int or longest < 1:
            raise InvalidOption(f"longest={longest!r}: use a whole number of at least 1")
        self.longest = longest

    def group(self, components: Sequence[str]) -> int:
        """Return how many of *components* go out together: all, up to *longest*."""
        return min(len(components), self.longest)

    def __repr__(self) -> str:
        return f"ChainBatching(longest={self.longest})"
