"""Templates, and the words that they use for times, values and states."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from weft.core.draw.progress import duration
from weft.views.text import as_json, count, plain, shown

STATES: Final = {
    "completed": "done",
    "idle": "done",
    "ready": "running",
    "skipped": "gated",
}
"""The class of a state in the style sheet, where it has another name."""


def state_class(state: str) -> str:
    """Return the class that colours *state*."""
    return STATES.get(state, state)


def ago(at: float | None, now: float | None = None) -> Markup:
    """Return how long ago the time *at* was, with the time itself in the markup."""
    if at is None:
        return Markup("")
    seconds = max(0.0, (time.time() if now is None else now) - at)
    text = "now" if seconds < 1 else f"{_rough(seconds)} ago"
    then = dt.datetime.fromtimestamp(at, dt.UTC)
    iso, exact = then.isoformat(timespec="milliseconds"), moment(then)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso, exact, text)


def exact(at: float) -> str:
    """Return a time, in seconds since the epoch, for people who look closely."""
    return moment(dt.datetime.fromtimestamp(at, dt.UTC))


def _rough(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def until(at: dt.datetime, now: float | None = None) -> Markup:
    """Return how long it is until *at*, with the time itself in the markup."""
    seconds = at.timestamp() - (time.time() if now is None else now)
    iso, exact = at.isoformat(timespec="seconds"), moment(at)
    text = "now" if seconds < 1 else f"in {_rough(seconds)}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso, exact, text)


def moment(at: dt.datetime) -> str:
    """Return a time in UTC, for people."""
    return at.astimezone(dt.UTC).strftime("%d %b %Y, %H:%M:%S UTC")


def iso(at: float) -> str:
    """Return a time, in seconds since the epoch, for a program."""
    return dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="seconds")


def hour(at: float, now: float | None = None) -> str:
    """
    Return a time of day in UTC, with the day if it is not of the last 20 hours.

    >>> hour(3_600.0, now=7_200.0), hour(3_600.0, now=1e6)
    ('01:00', '01 Jan 01:00')
    """
    then = dt.datetime.fromtimestamp(at, dt.UTC)
    return then.strftime("%H:%M" if (time.time() if now is None else now) - at < 72_000 else "%d %b %H:%M")


def relative(seconds: float) -> str:
    """Return a time in a run, counted from its start."""
    return "0" if seconds < 0.0005 else f"+{duration(seconds)}"


def number_of(text: str | None) -> int | None:
    """
    Return a number of the address; None if it is not one that anything could have.

    >>> number_of("41"), number_of("-1"), number_of("9" * 5_000), number_of("²")
    (41, None, None, None)
    """
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 16 else None


def in_path(text: object) -> str:
    """
    Return *text* as one part of the path of an address.

    >>> in_path("eu/west 1")
    'eu%2Fwest%201'
    """
    return quote(str(text), safe="")


_environment = Environment(
    loader=PackageLoader("weft.web", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "ago": ago,
    "count": count,
    "duration": duration,
    "exact": exact,
    "hour": hour,
    "iso": iso,
    "moment": moment,
    "plain": plain,
    "quote": in_path,
    "relative": relative,
    "shown": shown,
    "state": state_class,
    "until": until,
}
_environment.filters.update(_FILTERS)


def link(request: Request, path: str, **query: object) -> str:
    """Return the address of a page of this application."""
    told = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{request.scope.get('root_path', '')}{path}{'?' + urlencode(told, doseq=True) if told else ''}"


ASKED: Final = frozenset(
    [
        "after",
        "at",
        "component",
        "element",
        "format",
        "from",
        "list",
        "of",
        "path",
        "q",
        "search",
        "select",
        "since",
        "sort",
        "span",
        "start",
        "state",
        "status",
        "tab",
        "to",
        "until",
        "value",
        "view",
        "with",
        "workflow",
    ]
)
"""The parts of an address that a link of the page repeats."""
LONGEST_ASKED: Final = 2_000
"""A longer part of an address is not repeated: a page has a hundred links."""


def same_page(request: Request, **changes: object) -> str:
    """Return the address of the present page with *changes* of its query; None takes a part out."""
    query = {
        name: values
        for name in request.query_params
        if name in ASKED and name not in changes
        if sum(map(len, values := request.query_params.getlist(name))) <= LONGEST_ASKED
    }
    query |= {name: [str(value)] for name, value in changes.items() if value is not None}
    return f"?{urlencode(query, doseq=True)}"


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """Return the page of *template*, or with ``?format=json`` the data that it shows."""
    if request.query_params.get("format") == "json":
        return data(values.get("data", {}), status=status)
    identity = getattr(request.state, "identity", None)
    text = _environment.get_template(template).render(
        {
            "base": request.scope.get("root_path", ""),
            "path": request.url.path.removeprefix(request.scope.get("root_path", "")),
            "identity": identity,
            "form": getattr(request.state, "form", ""),
            "problems_count": getattr(request.state, "problems", 0),
            "store": request.app.state.store,
            "can_sign_out": request.app.state.can_sign_out and "authorization" not in request.headers,
            "same": partial(same_page, request),
            "asked": request.query_params.getlist,
            "link": partial(link, request),
            **values,
        }
    )
    return HTMLResponse(text, status)


def said(request: Request, text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    """Return an error of a request that leads to no page: a line of text, or JSON if that is asked for."""
    accepts = request.headers.get("accept", "")
    if request.query_params.get("format") == "json" or ("application/json" in accepts and "text/html" not in accepts):
        return Response(msgspec.json.encode({"error": text}), status, headers, "application/json")
    return PlainTextResponse(f"{text}\n", status, headers)


def data(value: Any, *, status: int = 200) -> Response:
    """Return *value* as JSON; values that JSON cannot hold are described in words."""
    body = msgspec.json.encode(as_json(msgspec.to_builtins(value, enc_hook=shown, builtin_types=(bytes,))))
    return Response(body, status, media_type="application/json")
