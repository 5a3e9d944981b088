"""
Checks every request before its page: the host that was asked for, the identity and its role; and sets the headers.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.views.text import plain
from weft.web.auth import COOKIE, LOCAL, Auth, Identity, Role, Sessions, Tokens
from weft.web.rendering import said

_log = logging.getLogger("weft.web")
"""Logs every change that is asked for here, with the identity and the result, at the level INFO."""

POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""A page may load its own style sheet and script, and nothing else."""

HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with "no-referrer" a browser says "null" where its own form comes from
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
MOST_FIELDS: Final = 2_000
PROXIED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")
"""Headers with which a proxy names its client, which may be anywhere."""
LARGEST: Final = 10_000_000
"""How many bytes a form has at most: a value that a person types or pastes."""
FORM: Final = "weft_form"
"""The field of a form that carries its token."""


class Guard:
    """Knows who makes a request, and whether the request may be answered."""

    def __init__(self, auth: Auth | Tokens | None) -> None:
        self.auth = auth
        self.sessions = Sessions()

    async def identity(self, request: Request) -> Identity | None:
        """Return who makes *request*; None if that is not known."""
        if self.auth is None:
            return LOCAL
        if isinstance(self.auth, Tokens):
            bearer = _bearer(request)
            if bearer is not None:
                return self.auth.identity(bearer)
            return self.sessions.find(request.cookies.get(COOKIE))
        found = self.auth(request)
        return await found if inspect.isawaitable(found) else found

    def page(
        self, answer: Callable[[Request], Awaitable[Response]], role: Role
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return *answer* with a check before it that the identity of the request has *role*."""

        async def answered(request: Request) -> Response:
            if self.auth is None and not _is_local(request):
                return said(request, "without auth this dashboard answers requests from this machine only", 421)
            identity = await self.identity(request)
            if identity is None:
                if isinstance(self.auth, Tokens) and request.method == "GET" and _wants_html(request):
                    return RedirectResponse(f"{request.scope.get('root_path', '')}/login", 303)
                if _bearer(request) is not None:
                    note_refusal(request)
                return said(request, "say who you are: a token is needed", 401, {"www-authenticate": "Bearer"})
            if not identity.may(role):
                return said(request, f"{identity.name} has the role {identity.role}, and this needs {role}", 403)
            request.state.identity = identity
            number = request.cookies.get(COOKIE)
            is_new = _bearer(request) is None and self.sessions.find(number) is None
            if is_new:
                number = self.sessions.open(identity)
            request.state.form = "" if number is None else self.sessions.form_token(number)
            if request.method == "POST" and await fields_of(request) is None:
                return said(request, f"a form has at most {LARGEST:,} bytes and {MOST_FIELDS:,} fields", 413)
            if request.method == "POST" and not await self._is_own(request):
                return said(request, "this form is not of this session: reload the page and try again", 403)
            response = await answer(request)
            if request.method == "POST":
                what = plain(request.url.path)
                _log.info("%s (%s) posted %s: %s", plain(identity.name), identity.role, what, response.status_code)
            if is_new and number is not None:
                remember(request, response, number)
            return response

        return answered

    async def _is_own(self, request: Request) -> bool:
        """Return whether a request that changes something comes from a form of this session."""
        if _bearer(request) is not None:
            return True
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
            return False
        form = await form_of(request)
        return self.sessions.is_own_form(request.cookies.get(COOKIE), form.get(FORM))


def note_refusal(request: Request) -> None:
    """Write into the log that a token was refused, and from where it came; not the token."""
    _log.warning(
        "a token that is not known came from %s",
        "an unknown address" if request.client is None else plain(request.client.host),
    )


def remember(request: Request, response: Response, number: str) -> None:
    """Let the browser keep the *number* of its session."""
    path = request.scope.get("root_path") or "/"
    is_secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, number, path=path, httponly=True, samesite="strict", secure=is_secure)


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form; of several with one name, the last."""
    return {name: values[-1] for name, values in (await fields_of(request) or {}).items()}


async def fields_of(request: Request, *, largest: int | None = None) -> dict[str, list[str]] | None:
    """Return the fields of a form, each with all its values; None if it is too large, and then it is not read."""
    if not hasattr(request.state, "fields"):
        body = await _body(request, LARGEST if largest is None else largest)
        request.state.fields = None if body is None else _parsed(body)
    found: dict[str, list[str]] | None = request.state.fields
    return found


def _parsed(body: bytes) -> dict[str, list[str]] | None:
    """Return the fields of a form; None if it has too many."""
    try:
        return parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return None


async def _body(request: Request, largest: int) -> bytes | None:
    """Return the body of a request; None as soon as it is known to be too large."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:16]) > largest:
        return None
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > largest:
            return None
    return bytes(found)


def _is_local(request: Request) -> bool:
    """
    Return whether a request comes from this machine and asks for it.

    A client can claim any name of a host, so that its address counts too; a proxy hides the address, and says so.
    """
    is_near = request.client is None or _is_loopback(request.client.host)
    is_direct = not any(name in request.headers for name in PROXIED)
    return is_near and is_direct and _host(f"//{request.headers.get('host', '')}") in LOOPBACK


def _is_loopback(address: str) -> bool:
    try:
        found = ip_address(address)
    except ValueError:  # a name says nothing about where a client is; only that of starlette's test client is known
        return address == "testclient"
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback


def _host(address: str) -> str | None:
    """Return the name of the host in an address; None if it is none."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _bearer(request: Request) -> str | None:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.strip() else None


def _wants_html(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") and request.query_params.get("format") != "json"


class SafeHeaders:
    """Adds the headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, sent if scope["type"] == "http" else send)
