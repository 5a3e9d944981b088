"""
The metrics of a runner: what they are called, and how they follow from telemetry events.

OpenTelemetry and Prometheus show the same ones; only the spelling of the names differs.  ``docs/how-to/monitor.md``
shows this table.

Labels are names that a program has written down: workflows, components, outcomes, classes.  The id of a run is never a
label, so the number of time series does not grow with the number of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, Protocol

import msgspec

from weft.telemetry import Levels, catalogue

Labels = tuple[str, ...]
"""The values of the labels of a metric, in their order."""

SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
)
"""The buckets of durations, from half a millisecond to half an hour."""
SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0)
"""The buckets of batches."""


class Metric(msgspec.Struct, frozen=True):
    """One metric."""

    name: str
    """Its name, with dots."""
    kind: Literal["counter", "histogram", "level"]
    """A level goes up and down, and is read when it is asked for."""
    unit: str
    """``s``, or what is counted, in braces."""
    labels: tuple[str, ...]
    about: str
    buckets: tuple[float, ...] = ()


_STEP = ("workflow", "component")

RUNS_STARTED: Final = Metric("weft.runs.started", "counter", "{run}", ("workflow",), "Runs that were started")
RUNS_RESUMED: Final = Metric("weft.runs.resumed", "counter", "{run}", ("workflow",), "Runs that were resumed")
RUNS_STOPPED: Final = Metric(
    "weft.runs.stopped",
    "counter",
    "{run}",
    ("workflow", "status"),
    "Runs that have done all that they were given to do, or were closed",
)
RUN_DURATION: Final = Metric(
    "weft.run.duration",
    "histogram",
    "s",
    ("workflow", "status"),
    "How long a run was busy until it stopped",
    SECONDS,
)
INPUTS: Final = Metric("weft.inputs.received", "counter", "{input}", ("workflow",), "Inputs that runs were given")
ATTEMPT_DURATION: Final = Metric(
    "weft.attempt.duration", "histogram", "s", (*_STEP, "outcome"), "How long an attempt of a component took", SECONDS
)
RETRIES: Final = Metric("weft.retries", "counter", "{retry}", _STEP, "Further attempts that were decided on")
TIMEOUTS: Final = Metric("weft.timeouts", "counter", "{timeout}", _STEP, "Attempts that were stopped at their timeout")
FALLBACKS: Final = Metric("weft.fallbacks", "counter", "{fallback}", _STEP, "Fallbacks that were called")
SKIPS: Final = Metric("weft.skips", "counter", "{skip}", _STEP, "Components that were skipped")
DEAD_LETTERS: Final = Metric("weft.dead_letters", "counter", "{letter}", _STEP, "Failures that were kept to be retried")
STORE_DURATION: Final = Metric(
    "weft.store.duration",
    "histogram",
    "s",
    ("store", "operation"),
    "How long an operation of the store took; append is a commit of the journal",
    SECONDS,
)
STORE_ERRORS: Final = Metric(
    "weft.store.errors", "counter", "{error}", ("store", "operation", "error"), "Operations of the store that failed"
)
BATCH_EVENTS: Final = Metric(
    "weft.journal.batch.events",
    "histogram",
    "{event}",
    ("store",),
    "Events that one commit wrote",
    SIZES,
)
BATCH_RUNS: Final = Metric(
    "weft.journal.batch.runs", "histogram", "{run}", ("store",), "Runs that shared one commit", SIZES
)
RESTARTS: Final = Metric(
    "weft.workers.restarted", "counter", "{restart}", ("workflow",), "Workers that crashed and were rebuilt"
)
PARKED: Final = Metric(
    "weft.workers.parked",
    "counter",
    "{run}",
    ("workflow",),
    "Runs that were set aside: their worker kept crashing",
)
RUNS_HELD: Final = Metric(
    "weft.runs.held", "level", "{run}", ("workflow", "status"), "Runs that the runners of this process hold"
)
IN_FLIGHT: Final = Metric(
    "weft.runnables.in_flight", "level", "{runnable}", ("workflow",), "Runnables that have a slot of their run"
)
QUEUED: Final = Metric(
    "weft.runnables.queued", "level", "{runnable}", ("workflow",), "Runnables that wait for a slot, or for the store"
)
WAITING: Final = Metric(
    "weft.runnables.waiting", "level", "{runnable}", ("workflow",), "Runnables that wait for time or a limit"
)

METRICS: Final = (
    *(RUNS_STARTED, RUNS_RESUMED, RUNS_STOPPED, RUN_DURATION, INPUTS),
    *(ATTEMPT_DURATION, RETRIES, TIMEOUTS, FALLBACKS, SKIPS, DEAD_LETTERS),
    *(STORE_DURATION, STORE_ERRORS, BATCH_EVENTS, BATCH_RUNS),
    *(RESTARTS, PARKED),
    *(RUNS_HELD, IN_FLIGHT, QUEUED, WAITING),
)
"""All metrics."""


class Meter(Protocol):
    """Where the numbers go."""

    def count(self, metric: Metric, labels: Labels) -> None:
        """Add 1 to a counter."""
        ...

    def observe(self, metric: Metric, labels: Labels, value: float) -> None:
        """Add *value* to a histogram."""
        ...


Fields = dict[str, Any]


class _Rule(msgspec.Struct, frozen=True):
    """How *metric* follows from an event."""

    metric: Metric
    value: Callable[[Fields, Fields], float] | None = None
    """Returns the number that a histogram observes, from measurements and metadata."""
    fixed: Mapping[str, str] = {}
    """Labels that the event does not have."""
    applies: Callable[[Fields], bool] | None = None
    """Whether the rule holds for an event with this metadata; it always does if not given."""

    def apply(self, meter: Meter, measurements: Fields, metadata: Fields) -> None:
        if self.applies is not None and not self.applies(metadata):
            return
        labels = tuple([self.fixed.get(name) or _text(metadata[name]) for name in self.metric.labels])
        if self.value is None:
            meter.count(self.metric, labels)
        else:
            meter.observe(self.metric, labels, self.value(measurements, metadata))


def _text(value: object) -> str:
    """Return *value* as a label; of an exception its class, since there are as many messages as failures."""
    return type(value).__qualname__ if isinstance(value, BaseException) else str(value)


def _duration(measurements: Fields, _metadata: Fields) -> float:
    return float(measurements["duration"])


def _is_append(metadata: Fields) -> bool:
    return bool(metadata["operation"] == "append")


RULES: Final[dict[str, tuple[_Rule, ...]]] = {
    catalogue.WORKFLOW_START: (
        _Rule(RUNS_STARTED, applies=lambda metadata: not metadata["is_resumed"]),
        _Rule(RUNS_RESUMED, applies=lambda metadata: bool(metadata["is_resumed"])),
    ),
    catalogue.WORKFLOW_STOP: (_Rule(RUNS_STOPPED), _Rule(RUN_DURATION, _duration)),
    catalogue.INPUT_RECEIVE: (_Rule(INPUTS),),
    catalogue.RUNNABLE_START: (),  # an attempt that is given up is reported only if its start was
    catalogue.RUNNABLE_STOP: (_Rule(ATTEMPT_DURATION, _duration, {"outcome": "completed"}),),
    catalogue.RUNNABLE_EXCEPTION: (_Rule(ATTEMPT_DURATION, _duration),),
    catalogue.RUNNABLE_ABANDON: (_Rule(ATTEMPT_DURATION, _duration, {"outcome": "abandoned"}),),
    catalogue.RUNNABLE_RETRY: (_Rule(RETRIES),),
    catalogue.RUNNABLE_TIMEOUT: (_Rule(TIMEOUTS),),
    catalogue.RUNNABLE_FALLBACK: (_Rule(FALLBACKS),),
    catalogue.RUNNABLE_SKIP: (_Rule(SKIPS),),
    catalogue.RUNNABLE_DEAD_LETTER: (_Rule(DEAD_LETTERS),),
    catalogue.STORE_STOP: (
        _Rule(STORE_DURATION, _duration),
        _Rule(BATCH_EVENTS, lambda measurements, _: float(measurements["events"]), applies=_is_append),
        _Rule(BATCH_RUNS, lambda _, metadata: float(len(metadata["workflow_ids"])), applies=_is_append),
    ),
    catalogue.STORE_EXCEPTION: (_Rule(STORE_DURATION, _duration), _Rule(STORE_ERRORS)),
    catalogue.WORKER_RESTART: (_Rule(RESTARTS),),
    catalogue.WORKER_PARKED: (_Rule(PARKED),),
}
"""By telemetry event: the metrics that follow from it."""


def record(meter: Meter, event: str, measurements: Fields, metadata: Fields) -> None:
    """Pass what follows from *event* to *meter*."""
    for rule in RULES[event]:
        rule.apply(meter, measurements, metadata)


def read(metric: Metric, found: Levels) -> Iterable[tuple[Labels, int]]:
    """Return the values of *metric*, a level, by labels."""
    if metric is RUNS_HELD:
        return found.runs.items()
    by_workflow = {IN_FLIGHT.name: found.in_flight, QUEUED.name: found.queued, WAITING.name: found.waiting}
    return [((workflow,), count) for workflow, count in by_workflow[metric.name].items()]
