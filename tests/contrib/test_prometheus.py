"""Metrics for Prometheus, scraped over HTTP."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from eventful import everything
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from weft import Runner, Workflow, step, telemetry
from weft.contrib import prometheus
from weft.contrib.metrics import METRICS
from weft.errors import AlreadyInstrumented

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

size = Workflow("sizes", step(abs, name="size"))


@pytest.fixture
def registry() -> Iterator[CollectorRegistry]:
    """An observed registry."""
    registry = CollectorRegistry()
    with prometheus.instrument(registry):
        yield registry


def scrape(registry: CollectorRegistry) -> Samples:
    """The samples that an HTTP client gets, by name and labels; without buckets and times."""
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}/metrics"
        with urllib.request.urlopen(address, timeout=20) as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))
    }


def of(samples: Samples, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name, by the values of their labels in the order of their names."""
    return {tuple(value for _, value in labels): number for (found, labels), number in samples.items() if found == name}


def test_a_scrape_shows_everything_that_has_happened(registry: CollectorRegistry, tmp_path: Path) -> None:
    everything(tmp_path / "runs.db")

    seen = scrape(registry)

    assert of(seen, "weft_runs_started_total") == {
        **dict.fromkeys([("orders",), ("slow",), ("left",), ("open",)], 1.0),
        ("fragile",): 2.0,
    }
    assert of(seen, "weft_runs_resumed_total")[("open",)] == 1
    assert of(seen, "weft_runs_stopped_total") == {
        ("cancelled", "left"): 1,
        ("completed", "fragile"): 1,
        ("failed", "orders"): 1,
        ("failed", "slow"): 1,
        ("idle", "open"): 1,
        ("parked", "fragile"): 1,
    }
    assert of(seen, "weft_run_duration_seconds_count") == of(seen, "weft_runs_stopped_total")
    assert of(seen, "weft_inputs_received_total")[("open",)] == 1
    attempts = of(seen, "weft_attempt_duration_seconds_count")
    assert {labels: count for labels, count in attempts.items() if labels[0] != "fragile"} == {
        ("works", "completed", "orders"): 1,
        ("flaky", "retried", "orders"): 2,
        ("flaky", "completed", "orders"): 1,
        ("replaced", "fell_back", "orders"): 1,
        ("skipped", "skipped", "orders"): 1,
        ("kept", "failed", "orders"): 1,
        ("hangs", "failed", "slow"): 1,
        ("hangs", "abandoned", "left"): 1,
        ("size", "completed", "open"): 1,
    }
    assert of(seen, "weft_retries_total") == {("flaky", "orders"): 2}
    assert of(seen, "weft_timeouts_total") == {("hangs", "slow"): 1}
    assert of(seen, "weft_fallbacks_total") == {("replaced", "orders"): 1}
    assert of(seen, "weft_skips_total") == {("skipped", "orders"): 1}
    assert of(seen, "weft_dead_letters_total") == {("kept", "orders"): 1}
    assert of(seen, "weft_workers_restarted_total") == {("fragile",): 5}
    assert of(seen, "weft_workers_parked_total") == {("fragile",): 1}
    assert of(seen, "weft_store_errors_total") == {("RunNotFound", "find", "SQLiteStore"): 1}
    commits = of(seen, "weft_store_duration_seconds_count")["append", "SQLiteStore"]
    assert commits > 0
    assert of(seen, "weft_journal_batch_events_count") == {("SQLiteStore",): commits}
    assert of(seen, "weft_journal_batch_runs_count") == {("SQLiteStore",): commits}
    assert of(seen, "weft_journal_batch_events_sum")[("SQLiteStore",)] >= commits


def test_every_metric_of_the_table_is_seen_in_a_scrape(registry: CollectorRegistry, tmp_path: Path) -> None:
    everything(tmp_path / "runs.db")
    with Runner() as runner:
        runner.start(size)
        shown = {name for name, _ in scrape(registry)}

    levels = {"weft_runnables_in_flight", "weft_runnables_queued", "weft_runnables_waiting"}  # nothing is in flight
    for metric in METRICS:
        ends = {"counter": "_total", "histogram": "_count", "level": ""}[metric.kind]
        name = prometheus.name_of(metric) + ends
        assert (name in shown) is (name not in levels), name


def test_the_levels_are_those_at_the_time_of_the_scrape(registry: CollectorRegistry) -> None:
    with Runner() as runner:
        runner.start(size)
        runner.start(size)
        during = scrape(registry)
    after = scrape(registry)

    assert of(during, "weft_runs_held") == {("idle", "sizes"): 2}
    assert of(after, "weft_runs_held") == {}


def test_the_number_of_time_series_does_not_grow_with_the_number_of_runs(registry: CollectorRegistry) -> None:
    with Runner() as runner:
        runner.start(size, 1).result(20)
        few = len(scrape(registry))
        runner.gather(runner.start_many(size, range(50)), 20)
        many = len(scrape(registry))

    assert few == many


def test_a_second_call_is_refused_and_changes_nothing(registry: CollectorRegistry) -> None:
    other = CollectorRegistry()
    with pytest.raises(AlreadyInstrumented, match=r"uninstrument\(\) first"):
        prometheus.instrument(other)
    with Runner() as runner:
        runner.start(size, 1).result(20)

    assert list(other.collect()) == []
    assert of(scrape(registry), "weft_runs_started_total") == {("sizes",): 1}


def test_a_registry_that_has_these_metrics_is_left_as_it_was(registry: CollectorRegistry) -> None:
    assert prometheus.uninstrument()
    taken = CollectorRegistry()
    with prometheus.instrument(taken):
        prometheus._present.clear()  # as if another copy of the collector were in the registry
        telemetry.detach(prometheus.HANDLER)
        with pytest.raises(ValueError, match="Duplicated"):
            prometheus.instrument(taken)

    assert [handler.id for handler in telemetry.handlers()] == []


def test_nothing_is_counted_or_shown_after_the_end(registry: CollectorRegistry) -> None:
    ended = prometheus.uninstrument()
    again = prometheus.uninstrument()
    with Runner() as runner:
        runner.start(size, 1).result(20)

    assert (ended, again) == (True, False)
    assert scrape(registry) == {}
    assert telemetry.handlers() == []


def test_it_can_begin_anew_in_the_same_registry(registry: CollectorRegistry) -> None:
    prometheus.uninstrument()
    with prometheus.instrument(registry), Runner() as runner:
        runner.start(size, 1).result(20)
        seen = scrape(registry)

    assert of(seen, "weft_runs_started_total") == {("sizes",): 1}
