"""
Spans from telemetry events (docs/adr/0030-spans-of-attempts.md).

    start orders ─┬─► reserve ─ ─ ┐
     (an input)   ├─► price  ─ ─ ─┴► charge (attempt 1) ─ ─► charge (attempt 2)
                  └─► stop orders
                                        ──► parent      ─ ─► link

The context of an input is stored with it: the spans of everything that follows from it are children of one short span,
in the trace of its caller, in whatever process they run.

Invariants:

1. A span is open only while an attempt is in flight; those of runs and inputs end at once.
2. Every span of an attempt ends: with its outcome, when the attempt is given up, or when observing ends.
3. What is remembered in order to link spans is bounded, however many runs and steps there are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from typing import Any, Final, Literal

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TracerProvider

from weft.contrib.otel.carriers import Enter, extract, inject
from weft.core.failure import describe
from weft.telemetry import AttemptHandle, catalogue

Caller = Literal["parent", "link"]
"""How the span of the caller and that of its input are related."""

Fields = dict[str, Any]

REMEMBERED: Final = 10_000
"""How many spans of attempts are remembered, so that later ones can link to them."""
MOST_LINKS: Final = 128
"""How many causes a span links to at most; that is also the usual limit of the SDK."""


class Spans:
    """Makes the spans of all runners in this process."""

    def __init__(self, provider: TracerProvider | None, version: str, *, caller: Caller, baggage: bool) -> None:
        self._tracer = trace.get_tracer("weft", version, provider)
        self._caller, self._baggage = caller, baggage
        self._open: dict[AttemptHandle, Span] = {}
        """The spans of attempts in flight."""
        self._known = _Known(REMEMBERED)
        self._failed = threading.local()
        """By thread: the run that was last reported as failed, and why; its stop follows."""

    def handle(self, event: str, measurements: Fields, metadata: Fields) -> None:
        """Make or end the spans that follow from *event*."""
        HANDLED[event](self, measurements, metadata)

    def close(self) -> None:
        """End the spans of attempts that are in flight, of which nothing more will be known."""
        while self._open:
            _, span = self._open.popitem()
            _end(span, "unobserved")

    # -- inputs and runs -------------------------------------------------------------------------

    def received(self, _measurements: Fields, metadata: Fields) -> None:
        """A caller has an input for a run: the context of its span is stored with the input."""
        context = self._called(f"{'start' if metadata['is_new'] else 'send'} {metadata['workflow']}", metadata)
        inject(metadata["carrier"], context, baggage=self._baggage)

    def started(self, _measurements: Fields, metadata: Fields) -> None:
        """A run was started, or resumed; if it was started with an input, there is a span already."""
        carrier = metadata["carrier"]
        if not metadata["is_resumed"]:
            if not carrier:
                self._called(f"start {metadata['workflow']}", metadata)
            return
        before = extract(carrier)
        if _span_context(before).is_valid:  # else the first attempt gets a span to follow
            caller = _span_context(get_current())
            links = [Link(caller)] if caller.is_valid else []
            name = f"resume {metadata['workflow']}"
            self._tracer.start_span(name, before, SpanKind.INTERNAL, _about(metadata), links).end()

    def _called(self, name: str, metadata: Fields) -> Context:
        """Make a short span for a call in the present context; return the context of what follows from the call."""
        context, links = get_current(), list[Link]()
        if self._caller == "link":
            caller = _span_context(context)
            links = [Link(caller)] if caller.is_valid else []
            context = trace.set_span_in_context(trace.INVALID_SPAN, context)
        about = _about(metadata)
        if "ordinal" in metadata:
            about["weft.input"] = metadata["ordinal"]
        span = self._tracer.start_span(name, context, SpanKind.PRODUCER, about, links)
        span.end()
        return trace.set_span_in_context(span, context)

    def run_failed(self, _measurements: Fields, metadata: Fields) -> None:
        """A run has failed, and its stop follows."""
        self._failed.last = metadata["workflow_id"], metadata["error"]

    def stopped(self, measurements: Fields, metadata: Fields) -> None:
        """A run has nothing left to do."""
        run, error = getattr(self._failed, "last", ("", None))
        self._failed.last = "", None
        about = {**_about(metadata), "weft.status": metadata["status"], "weft.duration": measurements["duration"]}
        span = self._tracer.start_span(f"stop {metadata['workflow']}", extract(metadata["carrier"]), attributes=about)
        if metadata["status"] in ("failed", "parked"):
            text = metadata["status"]
            if run == metadata["workflow_id"] and error is not None:
                text = _record(span, error)
            span.set_status(Status(StatusCode.ERROR, text))
        span.end()

    # -- attempts --------------------------------------------------------------------------------

    def begun(self, _measurements: Fields, metadata: Fields) -> None:
        """An attempt begins: its span is current where it runs."""
        handle: AttemptHandle = metadata["handle"]
        context = self._context(handle, metadata)
        span = self._open[handle] = self._attempt(handle, context, metadata)
        handle.enter_with(Enter(span, context))

    def _context(self, handle: AttemptHandle, metadata: Fields) -> Context:
        """
        Return the context that the input of an attempt came with.

        If there is none, since the caller was not observed, the attempts of the run share a new span.
        """
        context = extract(handle.carrier)
        if _span_context(context).is_valid:
            return context
        known = self._known.get((handle.run, None))
        if known is None:
            span = self._tracer.start_span(f"resume {metadata['workflow']}", Context(), attributes=_about(metadata))
            span.end()
            known = span.get_span_context()
            self._known.add((handle.run, None), known)
        return trace.set_span_in_context(trace.NonRecordingSpan(known), context)

    def _attempt(self, handle: AttemptHandle, context: Context, metadata: Fields) -> Span:
        links = [Link(made, {"weft.link": "cause"}) for made in islice(self._causes(handle), MOST_LINKS)]
        before = self._known.get((handle.run, handle.key))
        if before is not None:
            links.append(Link(before, {"weft.link": "previous attempt"}))
        about = {**_about(metadata), "weft.component": metadata["component"], "weft.attempt": metadata["attempt"]}
        about |= {"weft.executor": metadata["executor"], "weft.input": handle.ordinal}
        span = self._tracer.start_span(metadata["component"], context, SpanKind.CONSUMER, about, links)
        if span.is_recording():  # a key that nothing shows is not computed
            span.set_attribute("weft.idempotency_key", handle.idempotency_key)
            of_policy: dict[str, Any] = metadata.get("metadata") or {}
            for name, value in of_policy.items():
                if isinstance(value, str | bool | int | float):
                    span.set_attribute(f"weft.metadata.{name}", value)
        self._known.add((handle.run, handle.key), span.get_span_context())
        return span

    def _causes(self, handle: AttemptHandle) -> Iterator[SpanContext]:
        for cause in handle.causes():
            known = self._known.get((handle.run, cause))
            if known is not None:
                yield known

    def completed(self, _measurements: Fields, metadata: Fields) -> None:
        """An attempt has returned a value."""
        span = self._open.pop(metadata["handle"], None)
        if span is not None:  # else it began before it was observed
            _end(span, "completed")

    def attempt_failed(self, _measurements: Fields, metadata: Fields) -> None:
        """An attempt has failed; it is an error only if nothing follows that makes up for it."""
        handle, outcome = metadata["handle"], metadata["outcome"]
        span = self._open.pop(handle, None)
        if span is None:  # it was refused before it could start, or its fallback has failed
            span = self._attempt(handle, self._context(handle, metadata), metadata)
        text = _record(span, metadata["error"])
        if outcome == "failed":
            span.set_status(Status(StatusCode.ERROR, text))
        _end(span, outcome)

    def timed_out(self, measurements: Fields, metadata: Fields) -> None:
        """An attempt was stopped at its timeout; its failure follows."""
        span = self._open.get(metadata["handle"])
        if span is not None:
            span.set_attribute("weft.timeout", measurements["timeout"])

    def abandoned(self, _measurements: Fields, metadata: Fields) -> None:
        """An attempt was given up with its run."""
        span = self._open.pop(metadata["handle"], None)
        if span is not None:
            _end(span, "abandoned")


HANDLED: Final[dict[str, Callable[[Spans, Fields, Fields], None]]] = {
    catalogue.INPUT_RECEIVE: Spans.received,
    catalogue.WORKFLOW_START: Spans.started,
    catalogue.WORKFLOW_EXCEPTION: Spans.run_failed,
    catalogue.WORKFLOW_STOP: Spans.stopped,
    catalogue.RUNNABLE_START: Spans.begun,
    catalogue.RUNNABLE_STOP: Spans.completed,
    catalogue.RUNNABLE_EXCEPTION: Spans.attempt_failed,
    catalogue.RUNNABLE_TIMEOUT: Spans.timed_out,
    catalogue.RUNNABLE_ABANDON: Spans.abandoned,
}
"""By telemetry event: the method that makes or ends its spans."""


class _Known:
    """The last *size* spans of attempts, by run and key; those of all runners, so it is used from several threads."""

    __slots__ = ("_lock", "_size", "_spans")

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, threading.Lock()
        self._spans: OrderedDict[tuple[Hashable, Hashable], SpanContext] = OrderedDict()

    def get(self, key: tuple[Hashable, Hashable]) -> SpanContext | None:
        return self._spans.get(key)

    def add(self, key: tuple[Hashable, Hashable], context: SpanContext) -> None:
        with self._lock:
            self._spans[key] = context
            self._spans.move_to_end(key)
            if len(self._spans) > self._size:
                self._spans.popitem(last=False)


def _span_context(context: Context) -> SpanContext:
    return trace.get_current_span(context).get_span_context()


def _about(metadata: Fields) -> dict[str, Any]:
    return {"weft.run_id": metadata["workflow_id"], "weft.workflow": metadata["workflow"]}


def _record(span: Span, error: BaseException) -> str:
    """Add *error* to *span*, and return it as text; it is described by Weft, since its own code may raise anything."""
    detail = describe(error)
    span.set_attribute("error.type", detail.type)
    span.add_event(
        "exception",
        {
            "exception.type": detail.type,
            "exception.message": detail.message,
            "exception.stacktrace": detail.traceback,
        },
    )
    return f"{detail.type}: {detail.message}"


def _end(span: Span, outcome: str) -> None:
    span.set_attribute("weft.outcome", outcome)
    span.end()
