"""
Outcomes that the runner makes: of an attempt that it ended, or that took too long.
"""

from __future__ import annotations

from weft.core.run.runnable import Outcome, Runnable
from weft.errors import StepTimeout
from weft.policy.driver import Attempt


def failed(runnable: Runnable, error: BaseException, spent: float = 0.0) -> Outcome:
    """Return the outcome of an attempt that failed with *error* after it had *spent* this many seconds."""
    spent_ns = int(spent * 1e9)
    return Outcome(*runnable.key, "failed", None, error, runnable.attempt, spent_ns, run_id=runnable.run_id)


def in_time(attempt: Attempt, outcome: Outcome) -> Outcome:
    """Return *outcome*, or a timeout if it came too late: a step in the event loop cannot be interrupted."""
    if attempt.timeout is None:
        return outcome
    spent = outcome.duration_ns / 1e9
    if spent <= attempt.timeout:
        return outcome
    return failed(attempt.runnable, StepTimeout(outcome.component, attempt.timeout), spent)
