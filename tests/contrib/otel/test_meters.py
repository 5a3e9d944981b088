"""The metrics, read by the reader of the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eventful import everything
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from weft import Runner, Workflow, step
from weft.contrib import otel
from weft.contrib.metrics import METRICS, SECONDS

size = Workflow("sizes", step(abs, name="size"))


class Read:
    """A meter provider and its reader."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)

    def all(self) -> dict[str, Any]:
        """All metrics that have values, by name."""
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        assert {scope.scope.name for scope in scopes} <= {"weft"}
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """The values of a metric, of a histogram the counts, by the values of its attributes."""
        found = self.all().get(name)
        points = [] if found is None else found.data.data_points
        return {
            tuple(point.attributes.values()): point.count if hasattr(point, "count") else point.value
            for point in points
        }


@pytest.fixture
def read() -> Iterator[Read]:
    read = Read()
    yield read
    read.provider.shutdown()


@pytest.fixture
def observed(read: Read) -> Iterator[Read]:
    with otel.instrument(meter_provider=read.provider, traces=False):
        yield read


def test_the_reader_shows_everything_that_has_happened(observed: Read, tmp_path: Path) -> None:
    everything(tmp_path / "runs.db")

    values = observed.values
    assert values("weft.runs.started")["fragile",] == 2
    assert values("weft.runs.resumed")["open",] == 1
    assert values("weft.runs.stopped") == {
        ("left", "cancelled"): 1,
        ("fragile", "completed"): 1,
        ("orders", "failed"): 1,
        ("slow", "failed"): 1,
        ("open", "idle"): 1,
        ("fragile", "parked"): 1,
    }
    attempts = values("weft.attempt.duration")
    assert {labels: count for labels, count in attempts.items() if labels[0] == "orders"} == {
        ("orders", "works", "completed"): 1,
        ("orders", "flaky", "retried"): 2,
        ("orders", "flaky", "completed"): 1,
        ("orders", "replaced", "fell_back"): 1,
        ("orders", "skipped", "skipped"): 1,
        ("orders", "kept", "failed"): 1,
    }
    assert attempts["left", "hangs", "abandoned"] == 1
    assert values("weft.retries") == {("orders", "flaky"): 2}
    assert values("weft.timeouts") == {("slow", "hangs"): 1}
    assert values("weft.fallbacks") == {("orders", "replaced"): 1}
    assert values("weft.skips") == {("orders", "skipped"): 1}
    assert values("weft.dead_letters") == {("orders", "kept"): 1}
    assert values("weft.workers.restarted") == {("fragile",): 5}
    assert values("weft.workers.parked") == {("fragile",): 1}
    assert values("weft.store.errors") == {("SQLiteStore", "find", "RunNotFound"): 1}
    commits = values("weft.store.duration")["SQLiteStore", "append"]
    assert values("weft.journal.batch.events") == values("weft.journal.batch.runs") == {("SQLiteStore",): commits}


def test_every_metric_of_the_table_has_its_unit_and_its_attributes(observed: Read, tmp_path: Path) -> None:
    everything(tmp_path / "runs.db")
    with Runner() as runner:
        runner.start(size)
        found = observed.all()

    missing = {metric.name for metric in METRICS} - found.keys()
    assert missing == {"weft.runnables.in_flight", "weft.runnables.queued", "weft.runnables.waiting"}
    for metric in METRICS:
        if metric.name not in missing:
            shown = found[metric.name]
            assert (shown.unit, shown.description) == (metric.unit, f"{metric.about}.")
            names = {tuple(point.attributes) for point in shown.data.data_points}
            assert names == {tuple(f"weft.{label}" for label in metric.labels)}


def test_durations_are_in_buckets_for_seconds(observed: Read) -> None:
    with Runner() as runner:
        runner.start(size, 1).result(20)

    [point] = observed.all()["weft.attempt.duration"].data.data_points
    assert point.explicit_bounds == SECONDS


def test_the_levels_are_those_at_the_time_of_reading(observed: Read) -> None:
    with Runner() as runner:
        runner.start(size)
        runner.start(size)
        during = observed.values("weft.runs.held")
    after = observed.values("weft.runs.held")

    assert (during, after) == ({("sizes", "idle"): 2}, {})


def test_nothing_is_counted_or_read_after_the_end(observed: Read) -> None:
    otel.uninstrument()
    with Runner() as runner:
        runner.start(size, 1).result(20)
        runner.start(size)

        assert observed.all() == {}


def test_counting_and_reading_can_begin_anew_with_the_same_provider(
    observed: Read, caplog: pytest.LogCaptureFixture
) -> None:
    otel.uninstrument()
    with otel.instrument(meter_provider=observed.provider, traces=False), Runner() as runner:
        runner.start(size, 1).result(20)
        runner.start(size)

        assert observed.values("weft.runs.started") == {("sizes",): 2}
        assert observed.values("weft.runs.held") == {("sizes", "idle"): 1}
    assert caplog.records == []


def test_a_provider_that_was_left_reads_no_levels_when_another_one_is_used(observed: Read) -> None:
    otel.uninstrument()
    other = Read()
    with otel.instrument(meter_provider=other.provider, traces=False), Runner() as runner:
        runner.start(size)

        assert other.values("weft.runs.held") == {("sizes", "idle"): 1}
        assert observed.values("weft.runs.held") == {}
    other.provider.shutdown()
