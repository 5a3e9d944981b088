"""
Caches answers that took long to compute, slower ones for longer, so that a million runs are seldom counted.

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

from weft.shield import shielded

T = TypeVar("T")

SLOW: Final = 0.1
"""An answer that took fewer seconds is not kept."""
FACTOR: Final = 20
"""An answer is kept this many times as long as it took."""
LONGEST: Final = 60.0
SOONEST: Final = 1.0
"""Shortest time that an answer is kept if no page waits for it, in seconds."""
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
        return await shielded(asking)

    async def within(self, seconds: float | None, question: Hashable, ask: Callable[[], Awaitable[T]]) -> T | None:
        """
        Return the answer to *question* as :meth:`get` does, if it is there within *seconds*.

        Otherwise return the one before, which may be old, or None if there is none.  The computation goes on.
        """
        asking = asyncio.ensure_future(self.get(question, ask))
        asking.add_done_callback(looked_at)
        if (await asyncio.wait({asking}, timeout=seconds))[0]:
            return asking.result()
        kept = self._kept.get(question)
        return None if kept is None else kept[1]

    def soon(
        self, question: Hashable, ask: Callable[[], Awaitable[T]], at_least: float = SOONEST
    ) -> T | asyncio.Future[T]:
        """
        Return the latest answer to *question*, which may be old, or the future of the first one.

        An answer is kept for *at_least* seconds, and longer if it was slow.  After that it is computed again, for a
        later call.
        """
        kept = self._kept.get(question)
        if (kept is None or kept[0] <= self._clock()) and question not in self._asking:
            asking = self._asking[question] = asyncio.ensure_future(self._ask(question, ask, at_least))
            asking.add_done_callback(looked_at)
        return self._asking[question] if kept is None else kept[1]

    async def _ask(self, question: Hashable, ask: Callable[[], Awaitable[T]], at_least: float = 0.0) -> T:
        began = self._clock()
        try:
            answer = await ask()
        finally:
            del self._asking[question]
        now = self._clock()
        self._kept.pop(question, None)
        if now - began >= SLOW or at_least:
            while len(self._kept) >= MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[question] = (now + max(at_least, min(LONGEST, FACTOR * (now - began))), answer)
        return answer


def looked_at(asked: asyncio.Future[Any]) -> None:
    """Look at the error of *asked*, so that asyncio does not warn of it: the question will be asked again."""
    if not asked.cancelled():
        asked.exception()
