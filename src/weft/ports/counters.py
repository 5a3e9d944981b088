"""
Keeps the states of limits, so that many runs, or many processes, can share them.

A state is changed atomically, by a function that is applied to it; callers that wait for a change are woken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

R = TypeVar("R")

CounterKey = tuple[str, str]
"""The kind of a limit and its name."""


class Counters(Protocol):
    """Named states that change atomically."""

    def update(self, key: CounterKey, change: Callable[[Any], tuple[Any, R]], limit: Any = None) -> R:
        """
        Apply *change* to the state at *key* (None if there is none); store its first result, and return the second.

        *change* is pure and may be called more than once.  *limit* is the limit that it is about: counters that many
        processes share have to know it.
        """
        ...

    def on_change(self, key: CounterKey, wake: Callable[[], None]) -> Callable[[], None]:
        """Call *wake*, from any thread, when the state at *key* may have changed; return a function to stop that."""
        ...

    def states(self) -> Mapping[CounterKey, Any]:
        """Return all states, for display."""
        ...
