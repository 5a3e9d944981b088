"""The effects that the core needs from outside: the time of day, and ids for runs."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid


class SystemClock:
    """The clock of the system."""

    def time(self) -> float:
        """Return the time of day in seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Block for *seconds*."""
        time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """Suspend for *seconds*."""
        await asyncio.sleep(seconds)


def now() -> float:
    """Return the time of day in seconds since the epoch."""
    return time.time()


def new_secret() -> str:
    """Return text that cannot be guessed, for the token of an external step."""
    return secrets.token_urlsafe(24)


def new_run_id() -> str:
    """Return an id that no other run has."""
    return uuid.uuid4().hex
