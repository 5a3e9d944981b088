"""
One attempt, as the handlers of its events see it.

The events of an attempt, from its start to its end, have the same object as their ``handle``: it tells one attempt from
all others, says what it follows from, and takes functions that are called where the attempt runs.  A tracer uses it to
make its span current there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Protocol

_log = logging.getLogger(__name__)


class AttemptHandle(Protocol):
    """One attempt; hashed and compared by identity."""

    @property
    def run(self) -> Hashable:
        """The run, in a form that distinguishes it from runs with the same id in other runners of this process."""
        ...

    @property
    def key(self) -> Hashable:
        """The runnable, the same at every attempt; unique in its run."""
        ...

    @property
    def idempotency_key(self) -> str:
        """The key that the function reads as ``weft.current().idempotency_key``."""
        ...

    @property
    def ordinal(self) -> int:
        """The number of the input that it follows from."""
        ...

    @property
    def carrier(self) -> Mapping[str, str]:
        """The text that was stored with that input; empty if there is none."""
        ...

    def causes(self) -> Iterator[Hashable]:
        """Yield the keys of the runnables that made the facts it runs on, each once."""
        ...

    def enter_with(self, enter: Callable[[], object]) -> None:
        """
        Call *enter* where the attempt runs, right before its function, in the same context; only while it starts.

        The context ends with the attempt, so nothing has to be undone.  It must be possible to pickle *enter* if the
        attempt may run in another process; what cannot be pickled is not called there.
        """
        ...


class Entry:
    """Calls *enter*; the first failure is logged, and none affects the attempt."""

    __slots__ = ("enter",)

    def __init__(self, enter: Callable[[], object]) -> None:
        self.enter = enter

    def __call__(self) -> None:
        try:
            self.enter()
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - an exception of a handler must not affect the workflow
            kind = type(self.enter)
            if kind not in _FAILED:
                _FAILED.add(kind)
                _log.exception("%r failed before an attempt; the attempt is not touched by that", self.enter)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Entry, (self.enter,))


_FAILED: set[type] = set()
"""The classes of functions that have failed and were logged."""
