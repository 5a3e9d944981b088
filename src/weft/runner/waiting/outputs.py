"""
Returns the output of a run, or raises the exception that says why there is none, such as its failures.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from weft.core import events as ev
from weft.core.failure import described
from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.errors import (
    NothingProduced,
    RunClosed,
    RunFailed,
    RunnerClosed,
    RunParked,
    StepFailed,
    StoreUnavailable,
)
from weft.log.outcome import RunOutcome, outcome_of
from weft.ports.store import FINISHED
from weft.runner.execution.worker import Worker
from weft.runner.handle import RunRef

T = TypeVar("T")

_HAS_OUTCOME: Final = FINISHED - {"cancelled"}
"""A run in another state has no result: it goes on, was cancelled, or the store has refused its end."""


class WentOn(Exception):
    """The input goes on in the run that continues this one: that run has its output."""


def settled_run(worker: Worker) -> Run:
    """Return the run of *worker*, which has nothing left to do."""
    if isinstance(worker.lost, StoreUnavailable):  # the time to close was up before the store was back
        raise RunnerClosed from worker.lost
    if worker.state == "parked":
        raise RunParked(worker.id, worker.reason)
    return worker.run


def output_of(run: Run, number: int | None) -> Any:
    """Return the output of the input *number* of *run*, by default of its last one, or raise why there is none."""
    memory = run.memory
    if memory.cancelled is not None:
        raise RunClosed(run.id, memory.cancelled)
    if not memory.failures and memory.received == 1:  # the usual case
        return run.output
    return checked_output(run.id, outcome_of(run, memory.received if number is None else number), run)


def output_at(worker: Worker, ref: RunRef, run: Run | None = None) -> Any:
    """
    Return the output of the input that *ref* refers to; *worker* is done, and *run* is its run if that was loaded.

    Raises:
        RunFailed, NothingProduced, RunClosed, RunParked: there is none.
    """
    memory = (run or worker.run).memory
    if memory.successor is not None and isinstance(last := memory.log[-1], ev.ContinuedAsNew) and last.inputs:
        ordinal = memory.received if ref.input is None else ref.input
        if any(old == ordinal for old, _ in last.inputs):
            raise WentOn
    known = worker.outcome
    if known is not None and ref.input in (None, known.ordinal) and worker.state in _HAS_OUTCOME:
        return checked_output(ref.id, known, run or worker.run)
    settled = settled_run(worker)
    return output_of(run or settled, ref.input)


def checked_output(run_id: str, outcome: RunOutcome, run: Run | None = None) -> Any:
    """
    Return the output of *outcome*; *run* has the exceptions of its failures.

    Raises:
        RunFailed: something failed, and nothing has handled it.
        NothingProduced: nothing was produced.
    """
    if outcome.failures:
        failures = {each.component: _failure(each, run) for each in outcome.failures}
        error = RunFailed(run_id, failures, outcome.results)
        raise error from next(iter(failures.values()))
    if outcome.output is MISSING:
        name, reason = outcome.nothing or ("", "it has had no input")
        if run is not None and outcome.nothing is not None:
            raise run.nothing_produced(name, outcome.ordinal)
        raise NothingProduced(name, reason)
    return outcome.output


def _failure(event: ev.RunnableFailed, run: Run | None) -> StepFailed:
    if run is not None:
        return run.failure_of(event)
    failure = StepFailed(event.component, event.attempts, event.error.type, event.error.message)
    failure.__cause__ = described(event.error)
    return failure
