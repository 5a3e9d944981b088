"""
The metrics of :mod:`weft.contrib.metrics` as OpenTelemetry instruments.

An instrument cannot be removed from its provider, and a provider keeps the first of two instruments with one name, even
if that comes from an earlier :func:`instrument`.  The provider reads a level by a callback, which checks first that
its provider is still in use.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from weft.contrib.metrics import METRICS, Labels, Metric, read, record
from weft.telemetry import levels

_reading: list[weakref.ref[MeterProvider]] = []
"""The provider that the levels are read by, or nothing."""


class Meters:
    """Counts what happens in all runners of this process."""

    def __init__(self, provider: MeterProvider | None, version: str) -> None:
        chosen = metrics.get_meter_provider() if provider is None else provider
        meter = chosen.get_meter("weft", version)
        self._instruments: dict[Metric, Any] = {metric: _instrument(meter, metric, chosen) for metric in METRICS}
        _reading[:] = [weakref.ref(chosen)]

    def handle(self, event: str, measurements: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Count what follows from *event*."""
        record(self, event, measurements, metadata)

    def close(self) -> None:
        """Stop reporting levels."""
        _reading.clear()

    def count(self, metric: Metric, labels: Labels) -> None:
        """Add 1 to a counter."""
        self._instruments[metric].add(1, _attributes(metric, labels))

    def observe(self, metric: Metric, labels: Labels, value: float) -> None:
        """Add *value* to a histogram."""
        self._instruments[metric].record(value, _attributes(metric, labels))


def _instrument(meter: Meter, metric: Metric, provider: MeterProvider) -> Any:
    name, unit, about = metric.name, metric.unit, f"{metric.about}."
    if metric.kind == "counter":
        return meter.create_counter(name, unit, about)
    if metric.kind == "histogram":
        return meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=metric.buckets)
    return meter.create_observable_up_down_counter(name, [_reader(metric, weakref.ref(provider))], unit, about)


def _reader(metric: Metric, provider: weakref.ref[MeterProvider]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        if not any(reading() is provider() for reading in list(_reading)):
            return []
        return [Observation(count, _attributes(metric, labels)) for labels, count in read(metric, levels())]

    return observe


def _attributes(metric: Metric, labels: Labels) -> dict[str, str]:
    return {f"weft.{name}": value for name, value in zip(metric.labels, labels, strict=True)}
