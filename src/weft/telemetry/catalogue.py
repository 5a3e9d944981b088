"""
The catalogue of telemetry events: name, when it is emitted, measurements and metadata.

The list is closed: only these events can be emitted and have handlers.  Measurements are numbers, durations in
seconds; metadata says what they belong to.  ``docs/reference/telemetry.md`` shows this table.
"""

from __future__ import annotations

from typing import Final

import msgspec

WORKFLOW_START: Final = "weft.runner.workflow.start"
WORKFLOW_STOP: Final = "weft.runner.workflow.stop"
WORKFLOW_EXCEPTION: Final = "weft.runner.workflow.exception"
INPUT_RECEIVE: Final = "weft.runner.input.receive"
RUNNABLE_START: Final = "weft.runner.runnable.start"
RUNNABLE_STOP: Final = "weft.runner.runnable.stop"
RUNNABLE_EXCEPTION: Final = "weft.runner.runnable.exception"
RUNNABLE_RETRY: Final = "weft.runner.runnable.retry"
RUNNABLE_TIMEOUT: Final = "weft.runner.runnable.timeout"
RUNNABLE_FALLBACK: Final = "weft.runner.runnable.fallback"
RUNNABLE_SKIP: Final = "weft.runner.runnable.skip"
RUNNABLE_DEAD_LETTER: Final = "weft.runner.runnable.dead_letter"
RUNNABLE_ABANDON: Final = "weft.runner.runnable.abandon"
STORE_START: Final = "weft.runner.store.start"
STORE_STOP: Final = "weft.runner.store.stop"
STORE_EXCEPTION: Final = "weft.runner.store.exception"
BATCH_START: Final = "weft.runner.batch.start"
BATCH_STOP: Final = "weft.runner.batch.stop"
WORKER_RESTART: Final = "weft.runner.worker.restart"
WORKER_PARKED: Final = "weft.runner.worker.parked"
WORKER_EVICTED: Final = "weft.runner.worker.evicted"
DEADLINE_DANGER: Final = "weft.runner.deadline.danger"
VALUES_EVICTED: Final = "weft.runner.values.evicted"

PREFIX: Final = "weft.runner."


class Entry(msgspec.Struct, frozen=True):
    """One line of the catalogue."""

    name: str
    when: str
    measurements: tuple[str, ...]
    metadata: tuple[str, ...]

    @property
    def slot(self) -> str:
        """The attribute of the bus that holds the handlers of this event."""
        return self.name.removeprefix(PREFIX).replace(".", "_")


_RUN = ("workflow_id", "workflow")
_CARRIED = (*_RUN, "carrier")
_ATTEMPT = (*_RUN, "component", "attempt")
_HANDLED = (*_ATTEMPT, "executor", "handle")
_BATCH = (*_RUN, "component", "executor")
_STORE = ("store", "operation", "workflow_ids")

CATALOGUE: Final[tuple[Entry, ...]] = (
    Entry(WORKFLOW_START, "a run is stored as started, or resumed", ("time",), (*_CARRIED, "is_resumed")),
    Entry(
        WORKFLOW_STOP, "a run has done all that it was given to do, or is closed", ("duration",), (*_CARRIED, "status")
    ),
    Entry(WORKFLOW_EXCEPTION, "a run has failed", ("duration",), (*_CARRIED, "error")),
    Entry(INPUT_RECEIVE, "an input is about to be recorded", ("time",), (*_CARRIED, "ordinal", "is_new")),
    Entry(RUNNABLE_START, "an attempt begins", ("time",), _HANDLED),
    Entry(RUNNABLE_STOP, "an attempt has returned a value that can be stored", ("duration",), _HANDLED),
    Entry(
        RUNNABLE_EXCEPTION,
        "an attempt has failed, and it is decided what follows",
        ("duration",),
        (*_HANDLED, "error", "is_final", "outcome"),
    ),
    Entry(RUNNABLE_RETRY, "another attempt will be made, after a delay", ("delay",), (*_ATTEMPT, "error")),
    Entry(RUNNABLE_TIMEOUT, "an attempt was stopped at its timeout", ("duration", "timeout"), _HANDLED),
    Entry(RUNNABLE_FALLBACK, "the fallback is called after the last attempt", (), (*_ATTEMPT, "error")),
    Entry(RUNNABLE_SKIP, "a component is skipped", (), (*_ATTEMPT, "error")),
    Entry(RUNNABLE_DEAD_LETTER, "a component has failed for good, and can be retried", (), (*_ATTEMPT, "error")),
    Entry(
        RUNNABLE_ABANDON,
        "an attempt whose start was reported is given up: its run is cancelled or stopped",
        ("duration",),
        _HANDLED,
    ),
    Entry(STORE_START, "an operation of the store begins", ("time", "events"), _STORE),
    Entry(STORE_STOP, "the operation has succeeded", ("duration", "events"), _STORE),
    Entry(STORE_EXCEPTION, "the operation has failed", ("duration", "events"), (*_STORE, "error")),
    Entry(BATCH_START, "runnables are handed to an executor together", ("time", "runnables"), _BATCH),
    Entry(BATCH_STOP, "they have ended, or what is left of them was given up", ("duration", "runnables"), _BATCH),
    Entry(WORKER_RESTART, "a worker that crashed is rebuilt from the store", ("restarts",), (*_RUN, "error")),
    Entry(WORKER_PARKED, "a run is set aside until a person looks at it", (), (*_RUN, "reason")),
    Entry(
        WORKER_EVICTED, "a run that only waits leaves memory; it comes back when it is due or sent something", (), _RUN
    ),
    Entry(
        DEADLINE_DANGER,
        "a deadline is likely to be missed, and is not past yet; once for each",
        ("remaining", "deadline"),
        (*_RUN, "component", "reason"),
    ),
    Entry(
        VALUES_EVICTED,
        "cold values of a live run leave memory; they are read from the store when they are asked for",
        ("facts", "bytes"),
        _RUN,
    ),
)

EVENTS: Final[tuple[str, ...]] = tuple([entry.name for entry in CATALOGUE])
"""The names of all events."""

MEANINGS: Final[dict[str, str]] = {
    "attempt": "which attempt it is, from 1",
    "bytes": "how many bytes of values have left memory, by estimate",
    "carrier": (
        "text about the caller, by name: a handler of `input.receive` can add to it, and what is in it is stored "
        "with the input; the other events have that of the last input"
    ),
    "component": "the name of the component; of a deadline of a run, the one that is to be done next, or None",
    "deadline": "the deadline, in seconds since the epoch",
    "delay": "seconds until the next attempt",
    "duration": "seconds since the matching start, of a run since it was given something to do, on a monotonic clock",
    "error": "the exception",
    "events": "how many events are written or were read",
    "executor": "`inline`, `async`, `thread`, `process`, or the name of another one",
    "facts": "how many facts have left memory",
    "handle": "the attempt: the same object in all its events, see above",
    "is_final": "whether the component has failed for good: no retry, fallback or skip follows",
    "is_new": "whether the run is started with this input",
    "is_resumed": "whether the run existed before",
    "operation": "the method of the store",
    "ordinal": "the number of the input in its run, from 1",
    "outcome": "what follows a failed attempt: `retried`, `fell_back` or `skipped`; `failed` if nothing does",
    "reason": "why, in words",
    "remaining": "seconds until the deadline",
    "restarts": "how many restarts there have been within the time that the limit counts",
    "runnables": "how many runnables a batch has, or how many of them have ended",
    "status": "the state of the run: `idle`, `completed`, `failed`, `cancelled` or `parked`",
    "store": "the class of the store",
    "time": "seconds since the epoch",
    "timeout": "the timeout in seconds",
    "workflow": "the name of the workflow",
    "workflow_id": "the id of the run",
    "workflow_ids": "the ids of the runs that share the operation",
}
"""The meaning of each measurement and each key of the metadata."""
