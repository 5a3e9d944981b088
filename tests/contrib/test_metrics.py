"""The table of metrics: every label exists in the event that it is read from, and none names a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.contrib.metrics import METRICS, RULES, Metric, read
from weft.telemetry import CATALOGUE, Levels

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "monitor.md"
ENTRIES = {entry.name: entry for entry in CATALOGUE}
FOLLOWING = [(event, rule) for event, rules in RULES.items() for rule in rules]


@pytest.mark.parametrize(("event", "rule"), FOLLOWING, ids=[f"{event}-{rule.metric.name}" for event, rule in FOLLOWING])
def test_the_labels_of_a_metric_are_told_with_its_event(event: str, rule: object) -> None:
    metric, fixed = rule.metric, rule.fixed  # type: ignore[attr-defined]

    assert set(metric.labels) - fixed.keys() <= set(ENTRIES[event].metadata)


def test_every_metric_follows_from_an_event_or_is_a_level() -> None:
    counted = {rule.metric for _, rule in FOLLOWING}

    assert {metric for metric in METRICS if metric.kind != "level"} == counted
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_no_metric_has_a_label_of_which_there_are_as_many_as_runs(metric: Metric) -> None:
    bounded = {"workflow", "component", "status", "outcome", "store", "operation", "error"}

    assert set(metric.labels) <= bounded


def test_every_level_can_be_read() -> None:
    found = Levels()
    found.add_runs({("orders", "idle"): 2})
    found.add_runnables("orders", in_flight=3, queued=4, waiting=5)

    shown = {metric.name: list(read(metric, found)) for metric in METRICS if metric.kind == "level"}

    assert shown == {
        "weft.runs.held": [(("orders", "idle"), 2)],
        "weft.runnables.in_flight": [(("orders",), 3)],
        "weft.runnables.queued": [(("orders",), 4)],
        "weft.runnables.waiting": [(("orders",), 5)],
    }


def test_the_page_shows_every_metric() -> None:
    text = PAGE.read_text(encoding="utf-8").split("## The metrics\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]

    assert rows == [
        f"| `{metric.name}` | {metric.kind} | `{metric.unit}` | {', '.join(f'`{name}`' for name in metric.labels)} | "
        f"{metric.about[0].lower()}{metric.about[1:]} |"
        for metric in METRICS
    ]
