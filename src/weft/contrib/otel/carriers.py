"""
Contexts as text: stored with an input, and sent to worker processes.

The text has the format of the W3C, whatever the application uses between services: a run may be resumed years later,
by a program with other settings, and has to find its trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context, attach
from opentelemetry.trace import NonRecordingSpan, Span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_TRACE, _BAGGAGE = TraceContextTextMapPropagator(), W3CBaggagePropagator()


def inject(carrier: dict[str, str], context: Context, *, baggage: bool = True) -> None:
    """Write the span of *context*, and its *baggage*, into *carrier*."""
    _TRACE.inject(carrier, context)
    if baggage:
        _BAGGAGE.inject(carrier, context)


def extract(carrier: Mapping[str, str]) -> Context:
    """Return the context in *carrier*; an empty one if there is none, or none that can be read."""
    return _BAGGAGE.extract(carrier, _TRACE.extract(carrier, Context()))


class Enter:
    """Makes the span of an attempt current where the attempt runs; in another process, what is known of it there."""

    __slots__ = ("_context", "_span")

    def __init__(self, span: Span, context: Context) -> None:
        self._span, self._context = span, context

    def __call__(self) -> None:
        span = self._span
        if not span.is_recording():  # it has ended, and its fallback is called: that can still have child spans
            span = NonRecordingSpan(span.get_span_context())
        attach(set_span_in_context(span, self._context))

    def __reduce__(self) -> tuple[Any, ...]:
        carrier: dict[str, str] = {}
        inject(carrier, set_span_in_context(self._span, self._context))
        return (EnterElsewhere, (carrier,))


class EnterElsewhere:
    """Makes the span of an attempt current in a worker process: spans that start there are its children."""

    __slots__ = ("_carrier",)

    def __init__(self, carrier: dict[str, str]) -> None:
        self._carrier = carrier

    def __call__(self) -> None:
        attach(extract(self._carrier))
