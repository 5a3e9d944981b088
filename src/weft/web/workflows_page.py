"""The workflows that have runs, and for each the grid of its components and latest runs."""

from __future__ import annotations

from typing import Any, Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from weft.errors import CorruptLog, RunNotFound
from weft.views import page_graph, strip
from weft.views.order import in_order
from weft.web.rendering import page
from weft.web.runs_page import READ_WHOLE, STATUSES

LOOKED_AT: Final = 1_000
"""How many of the latest runs are looked at for the names of workflows."""
GRID: Final = 50


async def workflows_page(request: Request) -> Response:
    """Show the workflows of the latest runs."""
    runner = await request.app.state.source.runner()
    latest: dict[str, Any] = {}
    for record in await runner.runs(limit=LOOKED_AT):
        latest.setdefault(record.workflow, record)
    rows = [
        {
            "workflow": name,
            "version": record.version,
            "latest": record,
            "counts": {status: await runner.count(workflow=name, status=status) for status in STATUSES},
        }
        for name, record in sorted(latest.items())
    ]
    told = [{"workflow": row["workflow"], "version": row["version"], "counts": row["counts"]} for row in rows]
    return page(request, "workflows.html", rows=rows, looked_at=LOOKED_AT, data={"workflows": told})


async def workflow_page(request: Request) -> Response:
    """Show one workflow: its picture, its findings, and its components by run."""
    source, name = request.app.state.source, request.path_params["name"]
    runner = await source.runner()
    records = await runner.runs(workflow=name, limit=GRID)
    if not records:
        return page(request, "missing.html", status=404, what=f"the workflow {name}", data={"error": "not found"})
    _, newest = await source.run(records[0].id)
    columns: list[dict[str, Any]] = []
    for record in reversed(records):
        cells: dict[str, str] = {}
        if record.head <= READ_WHOLE:
            try:
                _, run = await source.run(record.id)
                cells = {cell.component: cell.state for cell in strip(run)}
            except (CorruptLog, RunNotFound):
                cells = {}
        columns.append({"record": record, "cells": cells})
    return page(
        request,
        "workflow.html",
        name=name,
        records=records,
        graph=Markup(page_graph(newest.workflow)),  # noqa: S704 - names and titles are escaped by the drawing
        components=in_order(newest.memory.workflow),
        columns=columns,
        versions=_versions(records),
        data={"workflow": name, "components": in_order(newest.memory.workflow), "runs": columns},
    )


def _versions(records: list[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for record in records:
        found[record.version] = found.get(record.version, 0) + 1
    return found
