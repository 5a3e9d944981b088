"""The present problems: runs that failed or are parked, and open ones with failures, grouped by cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from weft.errors import CorruptLog, RunNotFound
from weft.log.outcome import decode_outcome
from weft.ports.store import FINISHED, RunRecord
from weft.views import attention
from weft.web.actions import MOST as AT_ONCE
from weft.web.live import state_of_runs
from weft.web.rendering import page
from weft.web.source import Budget, Source

MOST: Final = 500
"""How many runs are looked at."""


class Problem(msgspec.Struct):
    """Runs of one workflow that have one cause."""

    state: str
    workflow: str
    component: str
    error: str
    example: str
    """The error of the latest run in full."""
    runs: list[str]
    first: float
    last: float


async def problems_page(request: Request) -> Response:
    """Show the problems, those of most runs first."""
    runner = await request.app.state.source.runner()
    seen = await state_of_runs(runner)
    records = [
        *await runner.runs(status=["failed", "parked"], limit=MOST),
        *await runner.runs(status=["running", "waiting", "idle"], failed=True, limit=MOST),
    ]
    source: Source = request.app.state.source
    problems = group(records, await _failures_of(source, records))
    return page(
        request,
        "problems.html",
        seen=seen,
        problems=problems,
        is_cut=len(records) >= MOST,
        may=request.state.identity.may("operate"),
        can_retry={record.id for record in records if source.can_retry(record)},
        at_once=AT_ONCE,
        data={"problems": problems},
    )


class Cause(NamedTuple):
    """The component that failed, the type of its error, and its message."""

    component: str
    error: str
    text: str


async def _failures_of(source: Source, records: list[RunRecord]) -> dict[str, Cause]:
    """Return what has failed in open runs: their records do not say it, so the logs of the latest are read."""
    budget, found = Budget(), dict[str, Cause]()
    for record in records:
        if record.status in FINISHED or record.status == "parked" or not budget.allows(record):
            continue
        try:
            _, run = await source.run(record.id)
        except (CorruptLog, RunNotFound):
            continue
        for line in attention(run, record, now=record.updated_at):
            if line.state == "failed" and line.error:
                error, _, text = line.error.partition(": ")
                found[record.id] = Cause(line.component or "", error, text)
                break
    return found


def group(records: list[RunRecord], causes: Mapping[str, Cause]) -> list[Problem]:
    """Return *records*, which all have a problem, by workflow, component and type of error."""
    found: dict[tuple[str, ...], Problem] = {}
    for record in records:
        component, error, text = causes.get(record.id) or _cause(record)
        state = "parked" if record.status == "parked" else "failed"
        key = (state, record.workflow, component, error)
        at = record.finished_at or record.updated_at
        problem = found.get(key)
        if problem is None:
            found[key] = Problem(state, record.workflow, component, error, text, [record.id], at, at)
        else:
            problem.runs.append(record.id)
            problem.first, problem.last = min(problem.first, at), max(problem.last, at)
    return sorted(found.values(), key=lambda each: (-len(each.runs), -each.last))


def _cause(record: RunRecord) -> Cause:
    stored: Any = decode_outcome(record.outcome)
    if stored is not None and stored.failures:
        last = stored.failures[0]
        return Cause(last.component, last.error.type, last.error.message)
    unknown = "a step has failed, and the run is open" if record.status not in FINISHED | {"parked"} else record.status
    return Cause("", record.reason.split(":")[0][:80] or unknown, record.reason)
