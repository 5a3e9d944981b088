"""The page that shows two runs side by side, with what differs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from weft.core.diff import Difference, diff
from weft.core.run.run import Run
from weft.errors import HistoryTruncated
from weft.views import page_graph
from weft.web.live import state_of_run
from weft.web.rendering import data, page
from weft.web.sight import may_see as may_see_values
from weft.web.sight import source_of

ALIKE: Final = 4
"""Of more differences of one component than this the first are listed, and how many more there are."""
MOST: Final = 200
"""How many differences a page lists."""


async def compare_page(request: Request) -> Response:
    """Compare the run in the address with the run ``?with=``."""
    source = source_of(request)
    query = request.query_params
    one, other = request.path_params["id"], query.get("with", "")
    if not other:
        return page(request, "compare.html", one=one, other="", sides=(), found=None, shown=(), may_see=False)
    (first, mine), (second, theirs) = await source.run(one), await source.run(other)
    for record in (first, second):
        if record.first > 1:  # outcomes that were removed would look as if they had never been
            raise HistoryTruncated(record.id, record.first)
    found = diff(mine, theirs)
    may_see = may_see_values(request)
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
        shown=list(itertools.islice(_lines(found.differences), MOST)),
        may_see=may_see,
        seen=state_of_run(second),
    )


def _lines(differences: Sequence[Difference]) -> Iterator[tuple[Difference, int]]:
    """Yield what is listed: of many differences of one component the first, and how many more there are of its kind."""
    total = Counter((each.component, each.kind) for each in differences)
    seen: Counter[tuple[str, str]] = Counter()
    for each in differences:
        key = (each.component, each.kind)
        seen[key] += 1
        if total[key] <= ALIKE or seen[key] < ALIKE:
            yield each, 0
        elif seen[key] == ALIKE:
            yield each, total[key] - ALIKE


def _graph(run: Run, *, may_see: bool) -> Markup:
    return Markup(page_graph(run, may_see=may_see))  # noqa: S704 - names and titles are escaped by the drawing
