"""
The page that makes a fork: a value is edited, what would run again is shown, and then the fork is made.

Only a runner that drives runs can make one.  If the runner of the pages drives nothing, they show the command.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from weft.core import events as ev
from weft.core.fold.event_equality import same_values
from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.errors import WeftError
from weft.views.text import from_json
from weft.web.rendering import data, number_of, page
from weft.web.sight import may_see as may_see_values
from weft.web.sight import source_of

INPUT = "INPUT"


async def fork_page(request: Request) -> Response:
    """Show the fork of the run in the address at ``?at=``, with the value ``&value=``."""
    source = source_of(request)
    query = request.query_params
    may_see = may_see_values(request)
    record, run = await source.run(request.path_params["id"])
    run.memory.lineage.check_whole()
    places = [INPUT, *(name for name in run.memory.workflow.components if run.memory.lineage.index().get(name))]
    at = query.get("at") or places[-1]
    place: Any = at if number_of(at) is None else number_of(at)
    text = query.get("value")
    preview, wrong = None, None
    try:
        preview = run.fork(at=place, value=edit_of(text), preview=True)
    except msgspec.DecodeError as error:
        wrong = f"the value is not JSON: {error}"
    except WeftError as error:
        wrong = str(error)
    if query.get("format") == "json":
        return data({"at": place, "preview": preview, "error": wrong}, status=200 if wrong is None else 409)
    return page(
        request,
        "fork.html",
        record=record,
        places=places if at in places else [at, *places],
        at=at,
        text=(as_typed(latest(run, at)) if may_see else "") if text is None else text,
        preview=preview,
        wrong=wrong,
        drives=source.drives,
        command=source.commands.fork(record.id, at, text, source.modules(record)),
    )


def edit_of(text: str | None) -> Any:
    """Return the value that was typed; MISSING if nothing was, which means that the component runs again."""
    return MISSING if text is None or not text.strip() else from_json(text)


def latest(run: Run, at: str) -> Any:
    """Return the value that stands at *at* now: an input, what a component made last, or the outcome of an event."""
    if at == INPUT:
        return next((event.value for event in reversed(run.memory.log) if isinstance(event, ev.InputReceived)), None)
    place = number_of(at)
    if place is not None:
        event = run.memory.log[place - 1] if 0 < place <= len(run.memory.log) else None
        return getattr(event, "value", None)
    addresses = run.memory.lineage.index().get(at)
    return run.memory.lineage.fact(addresses[-1]).value if addresses else None


def as_typed(value: Any) -> str:
    """Return *value* as the JSON that would be typed for it; nothing if JSON cannot hold it."""
    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (TypeError, ValueError):
        return ""
    return text if same_values(msgspec.json.decode(text), value) else ""
