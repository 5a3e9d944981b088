"""
Spans and metrics for OpenTelemetry; needs the extra ``otel``.

    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    >>> from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    >>> from weft import Runner, Workflow, step
    >>> exporter, provider = InMemorySpanExporter(), TracerProvider()
    >>> provider.add_span_processor(SimpleSpanProcessor(exporter))
    >>> with instrument(tracer_provider=provider, metrics=False), Runner() as runner:
    ...     result = runner.start(Workflow("sizes", step(abs, name="size")), -3).result()
    >>> [span.name for span in exporter.get_finished_spans()]
    ['start sizes', 'size', 'stop sizes']

One call covers all runners of the process.  Without it, none of this is imported, and it costs nothing.
docs/adr/0030-spans-of-attempts.md says which spans there are, and why.
"""

from __future__ import annotations

try:
    from weft.contrib.otel.instrumentation import Instrumentation, instrument, uninstrument
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "opentelemetry":
        raise
    raise ModuleNotFoundError(
        "weft.contrib.otel needs opentelemetry-api: pip install 'weft[otel]'", name=error.name
    ) from error

__all__ = ["Instrumentation", "instrument", "uninstrument"]
