"""
A value of a run in parts: the inspector fetches them when a large value is opened, and they are copied as JSON.

The address says which: ``?component=`` and ``&element=`` whose value, ``&path=`` the part of it, ``&start=`` the first
of its parts.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from weft.core.functions.references import MISSING
from weft.core.lineage.fact import Fact
from weft.core.run.run import Run
from weft.views import value_tree
from weft.views.elements import place_of
from weft.views.value_tree import part_of
from weft.web.rendering import data, in_path, link, number_of, page, said
from weft.web.sight import may_see as may_see_values
from weft.web.sight import source_of

LONGEST: Final = 100_000
"""How many characters of a text a page shows."""


async def value_page(request: Request) -> Response:
    """Show a part of a value."""
    if not may_see_values(request):
        return said(request, "values are hidden from your role", 403)
    source = source_of(request)
    query = request.query_params
    component, element = query.get("component", ""), number_of(query.get("element"))
    record, run = await source.run(request.path_params["id"], number_of(query.get("at")))
    path, start = query.get("path", ""), number_of(query.get("start")) or 0
    fact = fact_of(run, component, element)
    value = MISSING if fact is None else _part(fact, path)
    if value is MISSING:
        what = f"{component} has no value{f' with the part {path}' if path else ''} in this run"
        return page(request, "missing.html", status=404, what=what, data={"error": what})
    if query.get("format") == "json" or "application/json" in request.headers.get("accept", ""):
        return data(value)
    return page(
        request,
        "value.html",
        record=record,
        component=component,
        element=element,
        node=value_tree(value, start=start, path=path, longest=LONGEST),
        text=value[:LONGEST] if isinstance(value, str) and path else None,
        at=link(request, f"/runs/{in_path(record.id)}/value", component=component, element=element, at=query.get("at")),
    )


def _part(fact: Fact, path: str) -> Any:
    try:
        return part_of(fact.value, path)
    except LookupError:
        return MISSING


def fact_of(run: Run, component: str, element: int | None = None) -> Fact | None:
    """Return the fact that *component* made last, or made of this element; None if there is none."""
    addresses: Any = run.memory.lineage.index().get(component)
    if not addresses:
        return None
    if element is None:
        return run.memory.lineage.fact(addresses[-1])
    event = place_of(run, component, element)
    return None if event is None or event.seq not in addresses else run.memory.lineage.fact(event.seq)
