"""
Reports the operations of a store to telemetry: one span for each try.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Any, TypeVar, cast

from weft.ports.store import LoadedRun
from weft.telemetry import bus
from weft.telemetry.catalogue import STORE_EXCEPTION, STORE_START, STORE_STOP

T = TypeVar("T")


class StoreSpan:
    """One operation of *store* on *runs*; *events* are written by it."""

    __slots__ = ("_began", "_events", "_metadata")

    def __init__(self, store: object, operation: str, runs: Sequence[str], time: float, events: int = 0) -> None:
        self._metadata = {"store": type(store).__name__, "operation": operation, "workflow_ids": list(runs)}
        self._events, self._began = events, monotonic()
        if bus.store_start:
            bus.emit(STORE_START, {"time": time, "events": events}, self._metadata)

    def stop(self, read: int = 0) -> None:
        """Note that the operation has succeeded, and how many events it *read*."""
        if bus.store_stop:
            bus.emit(STORE_STOP, {"duration": self._spent, "events": self._events + read}, self._metadata)

    def fail(self, error: BaseException) -> None:
        """Note that the operation has failed."""
        if bus.store_exception:
            bus.emit(
                STORE_EXCEPTION, {"duration": self._spent, "events": self._events}, {**self._metadata, "error": error}
            )

    @property
    def _spent(self) -> float:
        return monotonic() - self._began


async def spanned(
    store: object, operation: str, runs: Sequence[str], time: Callable[[], float], call: Callable[[], Awaitable[T]]
) -> T:
    """Await *call*, an *operation* of *store* on *runs*, and report it if there is a listener."""
    if not (bus.store_start or bus.store_stop or bus.store_exception):
        return await call()
    span = StoreSpan(store, operation, runs, time())
    try:
        found = await call()
    except Exception as error:
        span.fail(error)
        raise
    span.stop(_read(found))
    return found


def _read(found: object) -> int:
    """Return how many events were *found*."""
    if isinstance(found, LoadedRun):
        return found.record.head
    if isinstance(found, Mapping):
        return sum(map(_read, cast("Mapping[Any, object]", found).values()))
    return 0
