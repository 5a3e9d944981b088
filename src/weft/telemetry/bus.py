"""
The bus that passes telemetry events to their handlers.

The bus has one attribute per event of the catalogue: the tuple of its handlers, empty by default.  Code that emits an
event looks there first, and builds the payload only if there are handlers:

    >>> from weft.telemetry.catalogue import RUNNABLE_STOP
    >>> bus = Bus()
    >>> bus.attach("log", RUNNABLE_STOP, lambda event, measurements, metadata: print(event, measurements))
    >>> if bus.runnable_stop:
    ...     bus.emit(RUNNABLE_STOP, {"duration": 0.25}, {"component": "charge"})
    weft.runner.runnable.stop {'duration': 0.25}

A failing handler never affects the code that emits.  Its first failure is logged, all are counted, and it stays
attached: a handler that fails on one odd event should still measure the others, and a handler that was dropped at the
first network error would be noticed only when its numbers are missing.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weft.errors import DuplicateHandler, TelemetryError, UnknownTelemetryEvent
from weft.telemetry.catalogue import CATALOGUE

_log = logging.getLogger(__name__)

HandlerFunction = Callable[[str, dict[str, Any], dict[str, Any]], object]
"""Takes the name of the event, the measurements and the metadata; it may keep or change both dicts."""

_SLOTS = {entry.name: entry.slot for entry in CATALOGUE}


class Handler:
    """An attached handler function, and its failures."""

    __slots__ = ("call", "events", "failures", "id")

    def __init__(self, handler_id: str, events: tuple[str, ...], call: HandlerFunction) -> None:
        self.id, self.events, self.call = handler_id, events, call
        self.failures = 0
        """How often it has raised."""

    def __repr__(self) -> str:
        return f"Handler({self.id!r}, {len(self.events)} events, {self.failures} failures)"


Handlers = tuple[Handler, ...]


class Bus:
    """The handlers of every event.  ``attach`` and ``detach`` may be called from any thread, even by a handler."""

    __slots__ = ("_attached", "_lock", *_SLOTS.values())

    workflow_start: Handlers
    workflow_stop: Handlers
    workflow_exception: Handlers
    input_receive: Handlers
    runnable_start: Handlers
    runnable_stop: Handlers
    runnable_exception: Handlers
    runnable_retry: Handlers
    runnable_timeout: Handlers
    runnable_fallback: Handlers
    runnable_skip: Handlers
    runnable_dead_letter: Handlers
    runnable_abandon: Handlers
    store_start: Handlers
    store_stop: Handlers
    store_exception: Handlers
    batch_start: Handlers
    batch_stop: Handlers
    worker_restart: Handlers
    worker_evicted: Handlers
    worker_parked: Handlers
    deadline_danger: Handlers
    values_evicted: Handlers

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attached: dict[str, Handler] = {}
        for slot in _SLOTS.values():
            setattr(self, slot, ())

    def attach(self, handler_id: str, names: str | Iterable[str], handler: HandlerFunction) -> None:
        """
        Call *handler* for every event in *names*, a name or several.

        It is called where the event happens, mostly in the event loop of the runner: it should be quick, and hand
        slow work over to another thread.

        Raises:
            DuplicateHandler: a handler is attached under this id.
            UnknownTelemetryEvent: the catalogue has no event of such a name.
            TelemetryError: the handler cannot be called, or is a coroutine function.
        """
        events = tuple(dict.fromkeys([names] if isinstance(names, str) else names))
        for name in events:
            if name not in _SLOTS:
                raise UnknownTelemetryEvent(name, _SLOTS)
        is_async = any(map(inspect.iscoroutinefunction, (handler, getattr(handler, "__call__", None))))  # noqa: B004
        if is_async or not callable(handler):
            raise TelemetryError(f"handler {handler_id!r} must be a plain function, since nothing awaits {handler!r}")
        with self._lock:
            if handler_id in self._attached:
                raise DuplicateHandler(handler_id)
            added = self._attached[handler_id] = Handler(handler_id, events, handler)
            for name in events:
                slot = _SLOTS[name]
                setattr(self, slot, (*getattr(self, slot), added))

    def detach(self, handler_id: str) -> bool:
        """Stop calling the handler; return whether there was one."""
        with self._lock:
            removed = self._attached.pop(handler_id, None)
            for name in () if removed is None else removed.events:
                slot = _SLOTS[name]
                setattr(self, slot, tuple([handler for handler in getattr(self, slot) if handler is not removed]))
        return removed is not None

    def handlers(self) -> list[Handler]:
        """Return all handlers, with their failures."""
        with self._lock:
            return list(self._attached.values())

    def emit(self, name: str, measurements: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """
        Call every handler of *name*.

        Raises:
            UnknownTelemetryEvent: the catalogue has no such event.
        """
        slot = _SLOTS.get(name)
        if slot is None:
            raise UnknownTelemetryEvent(name, _SLOTS)
        handlers: Handlers = getattr(self, slot)
        for handler in handlers:
            try:
                handler.call(name, dict(measurements), dict(metadata))
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001 - an exception of a handler must not affect the workflow
                handler.failures += 1
                if handler.failures == 1:
                    _log.exception("telemetry handler %r failed on %s; it stays attached", handler.id, name)


bus = Bus()
"""The bus of this process."""
