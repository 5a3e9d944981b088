"""The page that shows two runs side by side, with what differs."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from weft.core.diff import diff
from weft.core.run.run import Run
from weft.errors import HistoryTruncated
from weft.views import page_graph
from weft.web.live import state_of_run
from weft.web.rendering import data, page
from weft.web.source import Source

MOST: Final = 200
"""How many differences a page lists."""


async def compare_page(request: Request) -> Response:
    """Compare the run in the address with the run ``?with=``."""
    source: Source = request.app.state.source
    query = request.query_params
    one, other = request.path_params["id"], query.get("with", "")
    if not other:
        return page(request, "compare.html", one=one, other="", sides=(), found=None, shown=(), may_see=False)
    (first, mine), (second, theirs) = await source.run(one), await source.run(other)
    for record in (first, second):
        if record.first > 1:  # outcomes that were removed would look as if they had never been
            raise HistoryTruncated(record.id, record.first)
    found = diff(mine, theirs)
    may_see = request.state.identity.may(request.app.state.values)
    if query.get("format") == "json":
        differences = [
            {"component": each.component, "input": each.input, "kind": each.kind}
            | ({"one": each.one, "other": each.other} if may_see else {})
            for each in found.differences
        ]
        return data({"same": found.same, "differences": differences, "workflows": found.workflows})
    return page(
        request,
        "compare.html",
        one=one,
        other=other,
        sides=((first, _graph(mine, may_see=may_see)), (second, _graph(theirs, may_see=may_see))),
        found=found,
        shown=found.differences[:MOST],
        may_see=may_see,
        seen=state_of_run(second),
    )


def _graph(run: Run, *, may_see: bool) -> Markup:
    return Markup(page_graph(run, may_see=may_see))  # noqa: S704 - names and titles are escaped by the drawing
