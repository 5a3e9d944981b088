"""The workflows that have runs, and for each the grid of its components and latest runs."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from weft.views import page_graph, strip
from weft.views.order import in_order
from weft.web.history import usual_of
from weft.web.inspector import policy_text
from weft.web.rendering import page
from weft.web.runs_page import PAGE, STATUSES
from weft.web.sight import source_of
from weft.web.source import UNREADABLE, Budget, Source

GRID: Final = 50
DEFAULTS: Final = "so the defaults hold"
"""The end of what is said of the policy of a component that no rule is about."""
VERSIONS: Final = 8
"""How many versions of a workflow its page names; its data has all of them."""


async def workflows_page(request: Request) -> Response:
    """Show a page of the workflows that have runs, by name."""
    source = source_of(request)
    runner = await source.reader()
    counts: dict[str, dict[str, int]] = {}
    for (name, status), number in (await source.tally()).items():
        counts.setdefault(name, {})[status] = number
    names = sorted(counts)
    begin = bisect_right(names, request.query_params.get("after") or "")
    shown = names[begin : begin + PAGE]
    last = begin + len(shown)
    rows: list[dict[str, Any]] = []
    for name in shown:
        latest = await runner.runs(workflow=name, limit=1)
        if latest:
            ordered = {status: counts[name][status] for status in STATUSES if status in counts[name]}
            rows.append({"workflow": name, "version": latest[0].version, "latest": latest[0], "counts": ordered})
    told = [{"workflow": row["workflow"], "version": row["version"], "counts": row["counts"]} for row in rows]
    following = shown[-1] if last < len(names) else None
    return page(
        request,
        "workflows.html",
        rows=rows,
        place=(begin, last, len(names)),
        following=following,
        data={"workflows": told, "after": following, "total": len(names)},
    )


async def workflow_page(request: Request) -> Response:
    """Show one workflow: its picture, its findings, and its components by run."""
    source, name = source_of(request), request.path_params["name"]
    runner = await source.reader()
    records = await runner.runs(workflow=name, limit=GRID)
    if not records:
        return page(request, "missing.html", status=404, what=f"the workflow {name}", data={"error": "not found"})
    _, newest = await source.run(records[0].id)
    columns: list[dict[str, Any]] = []
    budget = Budget()
    for record in records:
        cells: dict[str, str] = {}
        if budget.allows(record):
            try:
                _, run = await source.run(record.id)
                cells = {cell.component: cell.state for cell in strip(run)}
            except UNREADABLE:
                cells = {}
        columns.insert(0, {"record": record, "cells": cells})
    usual, tally = await usual_of(source, name), await source.tally()
    versions = await _versions(source, name, records[0].version)
    findings = [str(each) for each in newest.workflow.check()]
    policies = {each: policy_text(newest, each) for each in newest.memory.workflow.components}
    return page(
        request,
        "workflow.html",
        name=name,
        usual=usual,
        findings=findings,
        policies={each: text for each, text in policies.items() if text and not text.endswith(DEFAULTS)},
        failures={each: sum(column["cells"].get(each) == "failed" for column in columns) for each in policies},
        counts={status: number for status in STATUSES if (number := tally.get((name, status)))},
        graph=Markup(page_graph(newest.workflow)),  # noqa: S704 - names and titles are escaped by the drawing
        components=in_order(newest.memory.workflow),
        columns=columns,
        versions=versions,
        most_versions=VERSIONS,
        data={
            "workflow": name,
            "components": in_order(newest.memory.workflow),
            "usual": usual,
            "findings": findings,
            "versions": versions,
            "runs": [{"id": column["record"].id, "cells": column["cells"]} for column in columns],
        },
    )


async def _versions(source: Source, workflow: str, newest: str) -> dict[str, int]:
    """Return how many runs each version of *workflow* has: *newest* first, then the one with the most."""
    counted = await source.count_versions(workflow)
    return dict(sorted(counted.items(), key=lambda each: (each[0] != newest, -each[1], each[0])))
