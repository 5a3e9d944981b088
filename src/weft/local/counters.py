"""
The states of limits, in this process: shared by all its runs and threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from weft.policy.limits import LimitState
from weft.ports.counters import CounterKey

R = TypeVar("R")


class LocalCounters:
    """Named states under a lock.  The reference of :class:`weft.ports.counters.Counters`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[CounterKey, Any] = {}
        self._wakers: dict[CounterKey, dict[int, Callable[[], None]]] = {}
        self._number = 0

    def update(self, key: CounterKey, change: Callable[[Any], tuple[Any, R]], limit: Any = None) -> R:  # noqa: ARG002
        """Apply *change* to the state at *key* under the lock; wake the callers that wait for it."""
        with self._lock:
            before = self._states.get(key)
            state, result = change(before)
            self._states[key] = state
            wakers = list(self._wakers.get(key, {}).values()) if state != before else []
        for wake in wakers:
            wake()
        return result

    def on_change(self, key: CounterKey, wake: Callable[[], None]) -> Callable[[], None]:
        """Call *wake* whenever the state at *key* has changed, until the returned function is called."""
        with self._lock:
            self._number += 1
            number = self._number
            self._wakers.setdefault(key, {})[number] = wake

        def stop() -> None:
            with self._lock:
                self._wakers.get(key, {}).pop(number, None)

        return stop

    def states(self) -> Mapping[CounterKey, Any]:
        """Return a copy of all states."""
        with self._lock:
            return dict(self._states)

    def reset(self) -> None:
        """Delete all states, for tests."""
        with self._lock:
            self._states.clear()


COUNTERS = LocalCounters()
"""The counters that all runs of this process share."""


def limits() -> dict[str, dict[str, Any]]:
    """Return the states of the circuit breakers, rates and concurrency limits of this process, by kind and name."""
    shown: dict[str, dict[str, Any]] = {}
    for (kind, name), state in sorted(COUNTERS.states().items()):
        if isinstance(state, LimitState):  # the other kinds only wake waiters
            shown.setdefault(kind, {})[name] = state
    return shown
