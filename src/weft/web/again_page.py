"""
The page that starts a run like another one: the same workflow, with the same input or an edited one.

Only a runner that drives runs can start one.  If the runner of the pages drives nothing, they show the command.
"""

from __future__ import annotations

import shlex
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from weft.core import events as ev
from weft.core.run.run import Run
from weft.errors import InvalidOption
from weft.runner.runner import AsyncRunner
from weft.views.text import from_json
from weft.web.fork_page import as_typed
from weft.web.rendering import data, in_path, page
from weft.web.sight import may_see as may_see_values
from weft.web.sight import source_of


async def again_page(request: Request) -> Response:
    """Show the input of the run in the address, to be started again with it."""
    source = source_of(request)
    record, run = await source.run(request.path_params["id"])
    may_see = may_see_values(request)
    event = first_input(run)
    text = as_typed(event.value) if event is not None and may_see else ""
    module = next(iter(source.modules(record)), "MODULE")
    words = ["weft", "run", f"{module}:{record.workflow}", "--input", " ".join(text.split()) or "…"]
    if request.query_params.get("format") == "json":
        shown = event.value if event is not None and may_see else None
        return data({"workflow": record.workflow, "input": shown, "has_input": event is not None})
    return page(
        request,
        "again.html",
        record=record,
        text=text,
        has_input=event is not None,
        may_see=may_see,
        drives=source.drives,
        command=shlex.join(words) + source.commands.option,
    )


def first_input(run: Run) -> ev.InputReceived | None:
    """Return the first input of a run; None if it had none, or it is no longer in its log."""
    return next((event for event in run.memory.log if isinstance(event, ev.InputReceived)), None)


async def start_again(runner: AsyncRunner, id: str, form: dict[str, str], by: str) -> str:
    """Start a run like the run *id*, with the input that was typed or else with its own; return where it is shown."""
    run = await runner.get(id)
    event, text = first_input(run), form.get("value", "").strip()
    if event is None and not text:
        raise InvalidOption(f"run {id!r} has no input that could be used again: give one")
    value: Any = from_json(text) if text else event.value if event is not None else None
    made = await runner.start(run.workflow, value, id=form.get("id", "").strip() or None, by=by)
    return f"/runs/{in_path(made.id)}"
