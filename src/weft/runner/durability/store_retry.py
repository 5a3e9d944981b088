"""
Repeats calls of a store while the store is unavailable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from weft.errors import StoreUnavailable

_log = logging.getLogger("weft.runner")
T = TypeVar("T")

FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0
"""How many seconds to wait for a store that is unavailable, at first and at most."""


def waits() -> Iterator[float]:
    """
    Yield how long to wait before each further try.

    >>> from itertools import islice
    >>> list(islice(waits(), 8))
    [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    """
    wait = FIRST_WAIT
    while True:
        yield wait
        wait = min(wait * 2, LONGEST_WAIT)


async def retry_while_unavailable(call: Callable[[], Awaitable[T]], *, while_: Callable[[], bool]) -> T:
    """
    Make *call*, which must be safe to repeat, again and again for as long as the store is unavailable.

    Args:
        while_: whether it is still worth waiting.

    Raises:
        StoreUnavailable: the store is unavailable, and it is not worth waiting.
    """
    for wait in waits():
        try:
            return await call()
        except StoreUnavailable as error:
            if not while_():
                raise
            _log.warning("the store is unavailable: %s; trying again in %s s", error, wait)
            await asyncio.sleep(wait)
    raise AssertionError("waits() has no end")
