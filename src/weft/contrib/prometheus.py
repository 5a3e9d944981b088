"""
Metrics for Prometheus; needs the extra ``prometheus``.

    >>> from prometheus_client import CollectorRegistry, generate_latest
    >>> from weft import Runner, Workflow, step
    >>> registry = CollectorRegistry()
    >>> with instrument(registry):
    ...     with Runner() as runner:
    ...         result = runner.start(Workflow("sizes", step(abs, name="size")), -3).result()
    ...     page = generate_latest(registry).decode()
    >>> 'weft_runs_stopped_total{status="completed",workflow="sizes"} 1.0' in page
    True

The application serves the registry; ``prometheus_client.start_http_server(9100)`` is enough for many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from types import TracebackType
from typing import Any, Final, Self

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector as CollectorBase
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "weft.contrib.prometheus needs prometheus-client: pip install 'weft[prometheus]'", name=error.name
    ) from error

from weft.contrib.metrics import METRICS, RULES, Labels, Metric, read, record
from weft.errors import AlreadyInstrumented
from weft.telemetry import attach, detach, levels

__all__ = ["Collector", "instrument", "uninstrument"]

HANDLER: Final = "weft.contrib.prometheus"
"""The id of the telemetry handler."""


class Collector(CollectorBase):
    """
    The metrics of all runners in this process, made by :func:`instrument`; leaving its context ends it.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Count, and show the numbers in *registry*."""
        self._registry = registry
        self._kept: dict[Metric, Any] = {metric: _kept(metric) for metric in METRICS if metric.kind != "level"}
        registry.register(self)
        try:
            attach(HANDLER, RULES, self._handle)
        except BaseException:
            registry.unregister(self)
            raise

    def close(self) -> None:
        """Stop counting, and take the metrics out of the registry."""
        detach(HANDLER)
        self._registry.unregister(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self in _present:  # else it has ended before
            uninstrument()

    # -- what happens ----------------------------------------------------------------------------

    def _handle(self, event: str, measurements: dict[str, Any], metadata: dict[str, Any]) -> None:
        record(self, event, measurements, metadata)

    def count(self, metric: Metric, labels: Labels) -> None:
        """Add 1 to a counter."""
        self._kept[metric].labels(*labels).inc()

    def observe(self, metric: Metric, labels: Labels, value: float) -> None:
        """Add *value* to a histogram."""
        self._kept[metric].labels(*labels).observe(value)

    # -- what a scrape shows ---------------------------------------------------------------------

    def collect(self) -> Iterator[Any]:
        """Yield all metrics with their present values; called by the registry, on any thread."""
        for kept in self._kept.values():
            yield from kept.collect()
        found = levels()
        for metric in METRICS:
            if metric.kind == "level":
                yield _shown(metric, read(metric, found))

    def describe(self) -> Iterator[Any]:
        """Yield all metrics without values."""
        for kept in self._kept.values():
            yield from kept.describe()
        for metric in METRICS:
            if metric.kind == "level":
                yield _shown(metric, ())


def name_of(metric: Metric) -> str:
    """Return the name of *metric* as Prometheus spells it; ``_total`` follows that of a counter."""
    return metric.name.replace(".", "_") + ("_seconds" if metric.unit == "s" else "")


def _kept(metric: Metric) -> Counter | Histogram:
    name, about = name_of(metric), f"{metric.about}."
    if metric.kind == "counter":
        return Counter(name, about, metric.labels, registry=None)
    return Histogram(name, about, metric.labels, registry=None, buckets=metric.buckets)


def _shown(metric: Metric, values: Iterable[tuple[Labels, int]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name_of(metric), f"{metric.about}.", labels=metric.labels)
    for labels, count in values:
        family.add_metric(labels, count)
    return family


_lock = Lock()
_present: list[Collector] = []
"""The collector in use, or nothing."""


def instrument(registry: CollectorRegistry = REGISTRY) -> Collector:
    """
    Count what happens in all runners of this process, and show it in *registry*.

    Raises:
        AlreadyInstrumented: it is counted already.
    """
    with _lock:
        if _present:
            raise AlreadyInstrumented(__name__)
        _present.append(Collector(registry))
        return _present[0]


def uninstrument() -> bool:
    """Count and show nothing more; return whether there was something to end."""
    with _lock:
        if not _present:
            return False
        _present.pop().close()
        return True
