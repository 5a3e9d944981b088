"""
The actions that a page offers: answer a signal, send an input, retry, cancel, finish, change a policy, fork, and start
another run like this one.

Each is a form that is posted, changes one run, and leads back to it; retry, cancel and signal are also for many runs at
once.
The name of the identity goes into the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from shlex import quote
from typing import Any, Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from weft.errors import WeftError
from weft.fleet.client import AsyncClient
from weft.ports.store import RunRecord
from weft.runner.handle import RunHandle
from weft.runner.runner import AsyncRunner
from weft.views import importing
from weft.views.form import filled, is_filled
from weft.views.text import from_json
from weft.web.again_page import start_again
from weft.web.fork_page import edit_of
from weft.web.guard import fields_of, form_of
from weft.web.policy_page import policy_rule
from weft.web.rendering import in_path, link, number_of, page, said
from weft.web.sight import seen_text, source_of
from weft.web.source import Source

MOST: Final = 200
"""How many runs one form may name."""

Act = Callable[[AsyncRunner, str, dict[str, str], str], Awaitable[str | None]]
"""Does it, and returns the page that it leads to; that of the run if it returns None."""


async def _signal(runner: AsyncRunner, id: str, form: dict[str, str], by: str) -> None:
    await runner.signal(id, form.get("name", ""), value_of(form), by=by)


async def _send(runner: AsyncRunner, id: str, form: dict[str, str], by: str) -> None:
    await runner.send(id, value_of(form), by=by)


async def _retry(runner: AsyncRunner | AsyncClient, id: str, form: dict[str, str], by: str) -> None:
    await runner.retry(id, form.get("component") or None, by=by)


async def _cancel(runner: AsyncRunner, id: str, form: dict[str, str], by: str) -> None:
    await runner.cancel(id, form.get("reason", ""), undo=form.get("undo", "yes") != "no", by=by)


async def _finish(runner: AsyncRunner, id: str, _: dict[str, str], by: str) -> None:
    await runner.finish(id, by=by)


async def _policy(runner: AsyncRunner, id: str, form: dict[str, str], by: str) -> None:
    await runner.set_policies(id, [policy_rule(form.get("component", ""), form)], mode="merge", by=by)


async def _fork(runner: AsyncRunner, id: str, form: dict[str, str], by: str) -> str:
    at, new_id, value = form.get("at", ""), form.get("id") or None, edit_of(form.get("value"))
    place: Any = at if number_of(at) is None else number_of(at)
    made = cast("RunHandle[Any]", await runner.fork(id, new_id, at=place, value=value, by=by))
    return f"/runs/{in_path(id)}/compare?with={in_path(made.id)}"


ACTIONS: dict[str, Act] = {
    "again": start_again,
    "policy": _policy,
    "fork": _fork,
    "signal": _signal,
    "send": _send,
    "retry": _retry,
    "cancel": _cancel,
    "finish": _finish,
}


def value_of(form: dict[str, str]) -> Any:
    """
    Return the value that a form carries: JSON, or fields that were made from a type.

    >>> value_of({"value": '{"ok": true}'}), value_of({"value": ""}), value_of({"field:flag:ok": "true"})
    ({'ok': True}, None, {'ok': True})
    """
    if is_filled(form):
        return filled(form)
    text = form.get("value", "").strip()
    return from_json(text) if text else None


async def act(request: Request) -> Response:
    """Do what the address names to the run that it names."""
    id, what = request.path_params["id"], request.path_params["action"]
    action = ACTIONS.get(what)
    if action is None:
        return said(request, f"there is no action {what!r}: use {', '.join(ACTIONS)}", 404)
    source = source_of(request)
    runner, here = await source.runner(), f"/runs/{in_path(id)}"
    wants_json = "application/json" in request.headers.get("accept", "")
    needed = await _without_code(source, await runner.find(id), what)
    if needed is not None:
        return _refused(request, here, needed, wants_json=wants_json)
    form, by = await form_of(request), request.state.identity.name
    if what == "retry":
        return await done(request, partial(retry, source, id, form, by), here)
    return await done(request, lambda: action(runner, id, form, by), here)


async def _without_code(source: Source, record: RunRecord, what: str) -> str | None:
    """Return why the action *what* needs the code of a run, and the command for that; None if it works without."""
    if what == "retry" and not source.can_retry(record):
        command = source.commands.retry([record.id], await source.code_of(record))
        return f"run {record.id!r} has finished, and is retried where its code is: {command}"
    if source.drives:
        return None
    if what == "fork":
        return (
            f"a fork is driven where its code is: weft fork {quote(record.id)}{importing(await source.code_of(record))}"
        )
    if what == "again":
        return "a run is started where its code is: weft run MODULE:WORKFLOW --input …"
    return None


async def retry(source: Source, id: str, form: dict[str, str], by: str) -> None:
    """Retry a run; in a fleet, where a worker drives it, also if it has failed."""
    fleet = None if source.drives else await source.fleet()
    await _retry(fleet or await source.runner(), id, form, by)


async def act_on_many(request: Request) -> Response:
    """Retry, cancel or signal the runs that a form names, and report those that refuse it."""
    source = source_of(request)
    fields, by = await fields_of(request) or {}, request.state.identity.name
    form = {name: fields.get(name, [""])[-1] for name in ("reason", "undo", "name", "value")}
    what, runs = fields.get("action", [""])[-1], list(dict.fromkeys(fields.get("run", [])))
    if what not in ("retry", "cancel", "signal") or not runs or len(runs) > MOST:
        why = f"choose 1 to {MOST} runs, and retry, cancel or signal"
        return _refused(request, "/runs", why, wants_json=False)
    try:
        value_of(form)
    except msgspec.DecodeError as error:
        return _refused(request, "/runs", f"the value is not JSON: {error}", wants_json=False)
    runner, refused = await source.runner(), list[str]()
    for id in runs:
        try:
            if what == "cancel":
                await _cancel(runner, id, form, by)
            elif what == "signal":
                await _signal(runner, id, form, by)
            elif needed := await _without_code(source, await runner.find(id), what):
                refused.append(needed)
            else:
                await retry(source, id, {}, by)
        except WeftError as error:
            refused.append(f"{id}: {seen_text(request, error)}")
    back = "/problems" if fields.get("back", [""])[-1] == "/problems" else "/runs"
    if not refused:
        return RedirectResponse(link(request, back), 303)
    title = "Nothing was changed" if len(refused) == len(runs) else f"{len(runs) - len(refused)} of {len(runs)} done"
    return page(request, "refused.html", status=409, back=back, title=title, why="\n".join(refused))


async def done(request: Request, do: Callable[[], Awaitable[object]], leads_to: str) -> Response:
    """Call *do*, and redirect to the address that it returns, or else to *leads_to*; if it fails, answer why."""
    wants_json = "application/json" in request.headers.get("accept", "")
    try:
        other = await do()
    except msgspec.DecodeError as error:
        return _refused(request, leads_to, f"the value is not JSON: {error}", wants_json=wants_json)
    except WeftError as error:
        return _refused(request, leads_to, seen_text(request, error), wants_json=wants_json)
    if wants_json:
        return Response(b'{"done": true}', media_type="application/json")
    return RedirectResponse(link(request, other if isinstance(other, str) else leads_to), 303)


def _refused(request: Request, back: str, why: str, *, wants_json: bool) -> Response:
    if wants_json:
        return Response(msgspec.json.encode({"error": why}), 409, media_type="application/json")
    return page(request, "refused.html", status=409, back=back, why=why)
