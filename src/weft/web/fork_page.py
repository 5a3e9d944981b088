"""
The page that makes a fork: a value is edited, what would run again is shown, and then the fork is made.

Only a runner that drives runs can make one.  Where that of the pages drives nothing, they show the command.
"""

from __future__ import annotations

import shlex
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from weft.core import events as ev
from weft.core.fold.event_equality import same_values
from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.errors import WeftError
from weft.web.rendering import data, page
from weft.web.source import Source

INPUT = "INPUT"


async def fork_page(request: Request) -> Response:
    """Show the fork of the run in the address at ``?at=``, with the value ``&value=``."""
    source: Source = request.app.state.source
    query = request.query_params
    record, run = await source.run(request.path_params["id"])
    run.memory.lineage.check_whole()
    places = [INPUT, *(name for name in run.memory.workflow.components if run.memory.lineage.index().get(name))]
    at = query.get("at") or places[-1]
    place: Any = int(at) if at.isdecimal() else at
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
        text=as_typed(latest(run, at)) if text is None else text,
        preview=preview,
        wrong=wrong,
        drives=source.drives,
        command=command(record.id, at, text),
    )


def edit_of(text: str | None) -> Any:
    """Return the value that was typed; MISSING if nothing was, which means that the component runs again."""
    return MISSING if text is None or not text.strip() else msgspec.json.decode(text)


def latest(run: Run, at: str) -> Any:
    """Return the value that stands at *at* now: an input, what a component made last, or the outcome of an event."""
    if at == INPUT:
        return next((event.value for event in reversed(run.memory.log) if isinstance(event, ev.InputReceived)), None)
    if at.isdecimal():
        event = run.memory.log[int(at) - 1] if 0 < int(at) <= len(run.memory.log) else None
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


def command(id: str, at: str, text: str | None) -> str:
    """Return the command that makes this fork."""
    words = ["weft", "fork", id, "--at", at]
    if text is not None and text.strip():
        words += ["--value", " ".join(text.split())]
    return f"{shlex.join(words)} --import MODULE"
