"""
Keeps answers that took long, for a time in proportion to that: numbers of a million runs are counted now and then.

    >>> answers = SlowAnswers()
    >>> async def main():
    ...     async def count():
    ...         return 7
    ...     return await answers.get("runs", count)
    >>> import asyncio
    >>> asyncio.run(main())
    7
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

T = TypeVar("T")

SLOW: Final = 0.1
"""An answer that took fewer seconds is not kept."""
FACTOR: Final = 20
"""For how many times as long as it took an answer is kept."""
LONGEST: Final = 60.0
MOST: Final = 256


class SlowAnswers:
    """
    The answers that took long, by question.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[Hashable, tuple[float, Any]] = {}
        self._asking: dict[Hashable, asyncio.Future[Any]] = {}

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer to *question*: the one that is kept, or that of *ask*, which several callers share."""
        kept = self._kept.get(question)
        if kept is not None and kept[0] > self._clock():
            return kept[1]  # type: ignore[no-any-return]
        asking = self._asking.get(question)
        if asking is None:
            asking = self._asking[question] = asyncio.ensure_future(self._ask(question, ask))
        return await asyncio.shield(asking)

    async def _ask(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        began = self._clock()
        try:
            answer = await ask()
        finally:
            del self._asking[question]
        now = self._clock()
        self._kept.pop(question, None)
        if now - began >= SLOW:
            while len(self._kept) >= MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[question] = (now + min(LONGEST, FACTOR * (now - began)), answer)
        return answer
