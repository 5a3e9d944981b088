"""Coroutines that a listener starts, and that come as far as they can before the listener returns."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any


class Eager:
    """Starts a coroutine before it returns, as a loop with eager tasks does, and goes on with it later."""

    def __init__(self) -> None:
        self.task: asyncio.Future[asyncio.Task[None]] = asyncio.get_running_loop().create_future()

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run *coroutine* as far as it comes."""
        awaited = coroutine.send(None)  # none of these calls ends at once
        self.task.set_result(asyncio.get_running_loop().create_task(self._rest(coroutine, awaited)))

    async def _rest(self, coroutine: Coroutine[Any, Any, Any], awaited: Any) -> None:
        while True:
            await _handed_on(awaited)
            try:
                awaited = coroutine.send(None)
            except StopIteration:
                return


@types.coroutine
def _handed_on(awaited: Any) -> Generator[Any, Any, None]:
    yield awaited
