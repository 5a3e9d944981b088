"""Ends a command in order: Ctrl-C and SIGTERM cancel what it does, and it closes its runner before it ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM
"""The exit codes that shells report for these signals."""


class Stopped(Exception):
    """The command was told to stop, and has; *code* is the exit code for that."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def run_until_stopped(main: Coroutine[Any, Any, T]) -> T:
    """
    Run *main* in a new event loop; the first Ctrl-C or SIGTERM cancels it, a second one abandons it.

    Raises:
        Stopped: it was told to stop.
    """
    is_terminated = False

    async def stoppable() -> T:
        nonlocal is_terminated
        loop, task = asyncio.get_running_loop(), cast("asyncio.Task[Any]", asyncio.current_task())

        def stop() -> None:
            nonlocal is_terminated
            is_terminated = True
            loop.remove_signal_handler(signal.SIGTERM)  # the next one ends the process at once
            task.cancel()

        loop.add_signal_handler(signal.SIGTERM, stop)
        try:
            return await main
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    try:
        return asyncio.run(stoppable())
    except KeyboardInterrupt:
        raise Stopped(INTERRUPTED) from None
    except asyncio.CancelledError:
        if not is_terminated:
            raise
        raise Stopped(TERMINATED) from None
