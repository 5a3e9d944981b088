"""The present problems: runs that failed or are parked, and open ones with failures, grouped by cause."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from weft.log.outcome import decode_outcome
from weft.ports.store import RunRecord
from weft.web.live import state_of_runs
from weft.web.rendering import page

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
    problems = group(records)
    is_cut = len(records) >= MOST
    return page(request, "problems.html", seen=seen, problems=problems, is_cut=is_cut, data={"problems": problems})


def group(records: list[RunRecord]) -> list[Problem]:
    """Return *records*, which all have a problem, by workflow, component and type of error."""
    found: dict[tuple[str, ...], Problem] = {}
    for record in records:
        component, error, text = _cause(record)
        key = (record.status, record.workflow, component, error)
        at = record.finished_at or record.updated_at
        problem = found.get(key)
        if problem is None:
            found[key] = Problem(record.status, record.workflow, component, error, text, [record.id], at, at)
        else:
            problem.runs.append(record.id)
            problem.first, problem.last = min(problem.first, at), max(problem.last, at)
    return sorted(found.values(), key=lambda each: (-len(each.runs), -each.last))


def _cause(record: RunRecord) -> tuple[str, str, str]:
    stored: Any = decode_outcome(record.outcome)
    if stored is not None and stored.failures:
        last = stored.failures[0]
        return last.component, last.error.type, last.error.message
    return "", record.reason.split(":")[0][:80] or record.status, record.reason
