"""
Calls a function soon in the event loop of a runner, once however often it is asked to, from any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.runner.execution.dispatcher import Dispatcher

_log = logging.getLogger("weft.runner")


class SoonCall:
    """A call that is due at most once."""

    __slots__ = ("_call", "_dispatcher", "_is_due")

    def __init__(self, dispatcher: Dispatcher, call: Callable[[], object]) -> None:
        self._dispatcher, self._call, self._is_due = dispatcher, call, False

    def ask(self) -> None:
        """Call it soon, since a limit may have changed; called from any thread."""
        if self._is_due:
            return
        self._is_due = True
        try:
            self._dispatcher.loop.call_soon_threadsafe(self._due)
        except RuntimeError:  # the loop is closed: there is nothing left to tell
            _log.debug("a limit changed after its runner had closed")

    def _due(self) -> None:
        self._is_due = False
        self._call()
