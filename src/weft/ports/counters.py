"""
Where the states of limits live, so that many runs, or many processes, can share them.

A state is changed by a function that is applied to it at once and alone; who waits for a change is woken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

R = TypeVar("R")

CounterKey = tuple[str, str]
"""The kind of a limit and its name."""


class Counters(Protocol):
    """Named states under atomic change."""

    def update(self, key: CounterKey, change: Callable[[Any], tuple[Any, R]]) -> R:
        """
        Replace the state at *key*, None if there is none, by the first thing *change* makes of it; return the second.

        *change* is pure and may be called more than once.
        """
        ...

    def on_change(self, key: CounterKey, wake: Callable[[], None]) -> Callable[[], None]:
        """Call *wake*, from any thread, whenever the state at *key* may have changed; return how to stop that."""
        ...

    def states(self) -> Mapping[CounterKey, Any]:
        """Return all states, for people to look at."""
        ...
