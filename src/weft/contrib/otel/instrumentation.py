"""
Turns spans and metrics on and off, for all runners of the process.
"""

from __future__ import annotations

from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from threading import Lock
from types import TracebackType
from typing import Final, Self, get_args

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from weft.contrib.metrics import RULES
from weft.contrib.otel.meters import Meters
from weft.contrib.otel.spans import HANDLED, Caller, Spans
from weft.errors import AlreadyInstrumented, InvalidOption
from weft.telemetry import attach, detach

SPANS: Final = "weft.contrib.otel.spans"
METERS: Final = "weft.contrib.otel.meters"
"""The ids of the telemetry handlers."""


class Instrumentation:
    """The spans and metrics of all runners in this process, made by :func:`instrument`; leaving its context ends it."""

    def __init__(self, spans: Spans | None, meters: Meters | None) -> None:
        """Begin to observe."""
        with ExitStack() as undo:
            if spans is not None:
                attach(SPANS, HANDLED, spans.handle)
                undo.callback(spans.close)
                undo.callback(detach, SPANS)
            if meters is not None:
                undo.callback(meters.close)
                attach(METERS, RULES, meters.handle)
                undo.callback(detach, METERS)
            self._undo = undo.pop_all()

    def close(self) -> None:
        """Observe nothing more; the spans of attempts in flight end here."""
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self in _present:  # else it has ended before
            uninstrument()


_lock = Lock()
_present: list[Instrumentation] = []
"""The instrumentation in use, or nothing."""


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    traces: bool = True,
    metrics: bool = True,
    caller: Caller = "parent",
    baggage: bool = True,
) -> Instrumentation:
    """
    Make spans and metrics of what happens in all runners of this process.

    Args:
        tracer_provider: where spans go; the global provider if not given.
        meter_provider: where metrics go; the global provider if not given.
        traces: whether there are spans.
        metrics: whether there are metrics.
        caller: ``"parent"``: what follows from an input is in the trace of its caller.  ``"link"``: it is in a new
            trace, which is linked to that of the caller: for runs that take longer than a trace may last.
        baggage: whether the baggage of the caller is stored with the input and known to the steps.

    Raises:
        AlreadyInstrumented: there are spans or metrics already.
        InvalidOption: an option makes no sense.
    """
    if caller not in get_args(Caller):
        raise InvalidOption(f"caller={caller!r}: use {' or '.join(map(repr, get_args(Caller)))}")
    with _lock:
        if _present:
            raise AlreadyInstrumented("weft.contrib.otel")
        version = _version()
        spans = Spans(tracer_provider, version, caller=caller, baggage=baggage) if traces else None
        meters = Meters(meter_provider, version) if metrics else None
        _present.append(Instrumentation(spans, meters))
        return _present[0]


def uninstrument() -> bool:
    """Stop making spans and metrics; return whether there was something to end."""
    with _lock:
        if not _present:
            return False
        _present.pop().close()
        return True


def _version() -> str:
    try:
        return version_of("weft")
    except PackageNotFoundError:  # it is imported from a folder
        return ""
