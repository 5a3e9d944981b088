"""
The present problems, grouped by cause.

They are deadlines in danger, runs that failed or are parked, open ones with failures, open ones that no process drives
or in which a component takes longer than 99 of 100 before it, runs whose version no worker has, and limits and breakers
that hold attempts up.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from weft.core.draw.progress import duration
from weft.errors import RunNotFound
from weft.log.outcome import decode_outcome
from weft.ports.store import FINISHED, RunRecord, RunStatus
from weft.views import attention, waterfall
from weft.views.hidden import HIDDEN
from weft.views.text import count, short_type
from weft.views.usual import FEWEST, SHORTEST, overdue
from weft.web.actions import MOST as AT_ONCE
from weft.web.history import usual_of
from weft.web.limits_page import BAD, limits_of
from weft.web.live import state_of_runs
from weft.web.rendering import page
from weft.web.sight import may_see as may_see_values
from weft.web.sight import source_of
from weft.web.source import UNREADABLE, Budget, Source

MOST: Final = 500
"""How many runs are looked at."""
MOST_ENDANGERED: Final = 50
"""How many runs with a deadline in danger are shown."""
MOST_WORKFLOWS: Final = 20
"""The number of workflows with open runs for which the page shows what takes longer than usual."""
LATE: Final = 100
"""How many runs of a workflow are looked at for that."""
OPEN: Final[tuple[RunStatus, ...]] = ("waiting", "running")


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
    leads_to: str = ""
    """The page that shows more, where a retry does not help."""
    action: str = ""
    """The label of the button that leads there."""
    command: str = ""
    """The command that a person types where the code is, if nothing here helps."""
    number: int = 0
    """How many runs there are, where they are not named."""


async def problems_page(request: Request) -> Response:
    """Show the problems, those of most runs first."""
    runner = await source_of(request).reader()
    seen = await state_of_runs(runner)
    records = [
        *await runner.runs(status=["failed", "parked"], limit=MOST),
        *await runner.runs(status=["running", "waiting", "idle"], failed=True, limit=MOST),
    ]
    source = source_of(request)
    endangered, now = await runner.endangered(limit=MOST_ENDANGERED), time.time()
    can_retry = {record.id for record in records if source.can_retry(record) and record.status != "parked"}
    grouped = group(records, await _failures_of(source, records))
    by_id = {record.id: record for record in records}
    if not may_see_values(request):
        for problem in grouped:
            problem.example = HIDDEN if problem.example else ""
    for problem in grouped:
        if problem.runs[0] not in can_retry:
            write = source.commands.resume if problem.state == "parked" else source.commands.retry
            problem.command = write(problem.runs, await source.code_of(by_id[problem.runs[0]]))
    problems = [*await _held_up(source), *grouped, *await _interrupted(source), *await _overdue(source, now)]
    return page(
        request,
        "problems.html",
        seen=seen,
        problems=problems,
        endangered=endangered,
        now=now,
        is_cut=len(records) >= MOST,
        may=request.state.identity.may("operate"),
        can_retry=can_retry,
        at_once=AT_ONCE,
        most=MOST,
        data={"problems": problems, "endangered": endangered},
    )


async def _interrupted(source: Source) -> list[Problem]:
    """Return runs that have work left and that no process drives, by workflow."""
    found: dict[tuple[str, str], Problem] = {}
    for record in await source.list_undriven(MOST):
        key = (record.workflow, record.status)
        if key not in found:
            await source.code_of(record)
            try:
                left = await source.undriven(await (await source.reader()).find(record.id))
            except RunNotFound:
                continue
            if left is None:  # a process has taken it meanwhile
                continue
            text = "a process has died" if left.has_died else "the process has ended"
            error = "no process drives it" if record.status == "running" else "waits, and no process drives it"
            at = record.updated_at
            found[key] = Problem("interrupted", record.workflow, "", error, text, [], at, at)
        problem = found[key]
        problem.runs.append(record.id)
        problem.first, problem.last = min(problem.first, record.updated_at), max(problem.last, record.updated_at)
        problem.command = source.commands.resume(problem.runs, source.modules(record))
    return sorted(found.values(), key=lambda each: (each.error, -len(each.runs)))


async def _held_up(source: Source) -> list[Problem]:
    """Return versions that no worker has, and limits that hold attempts up."""
    now, found = time.time(), list[Problem]()
    client = await source.fleet()
    for each in [] if client is None else await client.stranded():
        text = f"{count(each.runs, 'run')} due in the queue {each.queue!r}, and no worker that is alive has the code"
        name = f"{each.workflow}@{each.version[:8]}"
        since = now - each.oldest
        problem = Problem("failed", each.workflow, name, "stranded", text, [], since, since, "/versions", "Versions")
        problem.number = each.runs
        found.append(problem)
    for limit in await limits_of(source):
        if limit.state in BAD:
            since = now - (limit.since or 0.0)
            word = "breaker" if limit.kind == "circuit_breaker" else "limit"
            text = f"{count(limit.waiting, 'attempt')} wait" if limit.waiting else "attempts are refused or wait"
            state = "failed" if limit.state == "open" else "waiting"
            error = f"{word} is {limit.state}"
            found.append(Problem(state, "", limit.name, error, text, [], since, now, "/limits", "Limits"))
    return found


async def _overdue(source: Source, now: float) -> list[Problem]:
    """Return components of open runs that take longer than 99 of 100 before them, by workflow and component."""
    runner, found = await source.reader(), dict[tuple[str, str], Problem]()
    running = {name for (name, status), number in (await source.tally()).items() if status in OPEN and number}
    budget = Budget()
    for workflow in sorted(running)[:MOST_WORKFLOWS]:
        usual = {name: each for name, each in (await usual_of(source, workflow)).items() if each.runs >= FEWEST}
        if not usual:
            continue
        late = now - min(max(each.p99, SHORTEST) for each in usual.values())
        before = RunRecord(id="", workflow="", created_at=late, updated_at=late)
        for record in await runner.runs(status=OPEN, workflow=workflow, failed=False, after=before, limit=LATE):
            if not budget.allows(record):
                continue
            try:
                _, run = await source.run(record.id)
            except UNREADABLE:
                continue
            for each in overdue(waterfall(run, now=now), usual):
                key = (workflow, each.component)
                text = f"for {duration(each.seconds)}, usually at most {duration(each.usual.p99)}"
                if key not in found:
                    leads_to = link_to_open(workflow)
                    found[key] = Problem(
                        "waiting", workflow, each.component, "takes longer than usual", text, [], each.since, each.since
                    )
                    found[key].leads_to, found[key].action = leads_to, "Show them"
                problem = found[key]
                problem.runs.append(record.id)
                problem.first, problem.last = min(problem.first, each.since), max(problem.last, each.since)
    return sorted(found.values(), key=lambda each: -len(each.runs))


def link_to_open(workflow: str) -> str:
    """Return the page of the open runs of a workflow."""
    return "/runs?" + urlencode({"workflow": workflow, "status": OPEN, "span": "all"}, doseq=True)


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
        except UNREADABLE:
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
    if record.status == "parked":
        return Cause("", "parked", record.reason)
    stored: Any = decode_outcome(record.outcome)
    if stored is not None and stored.failures:
        last = stored.failures[0]
        return Cause(last.component, short_type(last.error.type), last.error.message)
    unknown = "a step has failed, and the run is open" if record.status not in FINISHED else record.status
    return Cause("", record.reason.split(":")[0][:80] or unknown, record.reason)
