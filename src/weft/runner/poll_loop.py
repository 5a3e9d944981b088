"""
A loop that polls for rows that are due: jobs, or schedules.

    poll ──► wait until the next is due, a minute or so at most, or until wake() is called ──► poll
      └── the store cannot be read ──► wait, longer each time ──► poll

Any number of processes poll the same rows, so each adds a small random time to its pauses.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from weft.errors import RunnerClosed, StoreClosed, StoreUnavailable

_SOONEST: Final = 0.5
"""Seconds between two polls, however often it is woken."""
_SPREAD: Final = 0.05
"""Seconds over which the processes of a fleet spread their polls, so that few of them try in vain."""


class PollLoop:
    """Polls for what is due, until it is stopped or cancelled, or the store is closed."""

    def __init__(
        self,
        poll: Callable[[], Awaitable[float]],
        *,
        what: str,
        log: logging.Logger,
        longest: float,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """
        Create the loop.

        Args:
            poll: does what is due; returns after how many seconds to poll again.
            what: names it in a line of *log*.
            longest: seconds between two polls at most.
            draw: returns a number from 0 to 1, by which polls are spread.
        """
        self._poll, self._what, self._log, self._longest, self._draw = poll, what, log, longest, draw
        self._woken = asyncio.Event()
        self.is_stopping = False

    def wake(self) -> None:
        """Something may be due: poll soon."""
        self._woken.set()

    def stop(self) -> None:
        """End after the present poll."""
        self.is_stopping = True
        self._woken.set()

    async def run(self) -> None:
        """Poll, and wait, again and again; an error is logged, and what cannot be read is tried again."""
        failures = 0
        while not self.is_stopping:
            self._woken.clear()
            try:
                wait = await self._poll()
                failures = 0
            except (RunnerClosed, StoreClosed):
                return
            except Exception as error:  # noqa: BLE001 - the others go on, whatever happens
                failures += 1
                known = isinstance(error, StoreUnavailable)
                if not known or failures == 1:
                    self._log.warning("%s cannot be read now, trying again: %s", self._what, error, exc_info=not known)
                wait = min(self._longest, 0.5 * 2 ** min(failures, 10))
            await self._pause(wait)

    async def _pause(self, wait: float) -> None:
        if self.is_stopping:
            return
        soonest = min(wait, _SOONEST)
        await asyncio.sleep(soonest + _SPREAD * self._draw())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait - soonest):
                await self._woken.wait()
