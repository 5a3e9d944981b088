"""
The dashboard as an ASGI application, to be served by itself or mounted into another one.

    from fastapi import FastAPI
    from weft.web import app

    service = FastAPI()
    service.mount("/weft", app("runs.db", auth=who_is_it))
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from weft.errors import HistoryTruncated, InvalidOption, RunNotFound, StoreError
from weft.ports.store import Store
from weft.runner.runner import AsyncRunner
from weft.views.text import plain
from weft.web.actions import act, act_on_many
from weft.web.again_page import again_page
from weft.web.auth import COOKIE, RANK, Auth, Role, Tokens
from weft.web.compare_page import compare_page
from weft.web.fork_page import fork_page
from weft.web.guard import Guard, SafeHeaders, fields_of, form_of, note_refusal, remember
from weft.web.limits_page import limits_page, live_limits
from weft.web.live import Watches, live_run, live_runs
from weft.web.policy_page import policy_page
from weft.web.problems_page import problems_page
from weft.web.rendering import link, page, said
from weft.web.run_page import run_page
from weft.web.runs_page import runs_page
from weft.web.schedules_page import (
    backfill_schedule,
    live_schedules,
    pause_schedule,
    remove_schedule,
    schedules_page,
    unpause_schedule,
)
from weft.web.sight import HiddenSource, may_see
from weft.web.source import Source
from weft.web.value_page import value_page
from weft.web.versions_page import live_versions, versions_page
from weft.web.worker_actions import drain_worker, resume_worker
from weft.web.workers_page import live_workers, workers_page
from weft.web.workflows_page import workflow_page, workflows_page

LARGEST_SIGN_IN: Final = 10_000
"""How many bytes the form with a token has at most: it is read before the sender is known."""


class Page(NamedTuple):
    """An address, the function that answers it, and the role that it needs."""

    path: str
    answer: Callable[[Request], Awaitable[Response]]
    role: Role = "read"
    method: str = "GET"


async def _home(request: Request) -> Response:
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(link(request, "/runs") + query, 307)


PAGES: Final = (
    Page("/", _home),
    Page("/runs", runs_page),
    Page("/runs", act_on_many, "operate", "POST"),
    Page("/runs/live", live_runs),
    Page("/runs/{id:path}/live", live_run),
    Page("/runs/{id:path}/fork", fork_page, "operate"),
    Page("/runs/{id:path}/policy", policy_page, "operate"),
    Page("/runs/{id:path}/again", again_page, "operate"),
    Page("/runs/{id:path}/compare", compare_page),
    Page("/runs/{id:path}/value", value_page),
    Page("/runs/{id:path}/{action}", act, "operate", "POST"),
    Page("/runs/{id:path}", run_page),
    Page("/problems", problems_page),
    Page("/schedules", schedules_page),
    Page("/schedules/live", live_schedules),
    Page("/schedules/{name:path}/pause", pause_schedule, "operate", "POST"),
    Page("/schedules/{name:path}/unpause", unpause_schedule, "operate", "POST"),
    Page("/schedules/{name:path}/backfill", backfill_schedule, "operate", "POST"),
    Page("/schedules/{name:path}/remove", remove_schedule, "admin", "POST"),
    Page("/workers", workers_page),
    Page("/workers/live", live_workers),
    Page("/workers/{worker}/drain", drain_worker, "admin", "POST"),
    Page("/workers/{worker}/resume", resume_worker, "admin", "POST"),
    Page("/limits", limits_page),
    Page("/limits/live", live_limits),
    Page("/versions", versions_page),
    Page("/versions/live", live_versions),
    Page("/workflows", workflows_page),
    Page("/workflows/{name:path}", workflow_page),
)
"""Every page but the one that asks for a token; each goes through the guard."""


def app(
    store: AsyncRunner | Store | str | Path,
    *,
    auth: Auth | Tokens | None = None,
    name: str | None = None,
    values: Role = "read",
) -> Starlette:
    """
    Return the dashboard of a store.

    Args:
        store: a store or where it is (``"runs.db"``), or an open :class:`weft.AsyncRunner` of the same event loop.
        auth: finds out who makes a request: :class:`weft.web.Tokens`, or a function of the request that returns an
            :class:`weft.web.Identity` or None.  Without it only requests to the loopback address are answered.
        name: what the pages call the store.
        values: the role that is needed to see inputs, results and the values between them.
    """
    if values not in RANK:
        raise InvalidOption(f"values={values!r}: use one of {', '.join(map(repr, RANK))}")
    source, guard = Source(store), Guard(auth)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        await source.close()

    routes: list[Route | Mount] = [
        Route(each.path, guard.page(_with_badge(each), each.role), methods=[each.method]) for each in PAGES
    ]
    routes += [
        Route("/login", _login(guard), methods=["GET", "POST"]),
        Route("/logout", _logout(guard), methods=["POST"]),
        Mount("/static", StaticFiles(packages=[("weft.web", "static")]), name="static"),
    ]
    found = Starlette(
        routes=routes,
        middleware=[Middleware(SafeHeaders)],
        lifespan=lifespan,
        exception_handlers={RunNotFound: _not_found, HistoryTruncated: _gone, StoreError: _unavailable, 404: _no_page},
    )
    found.state.source, found.state.hidden = source, HiddenSource(source)
    found.state.values, found.state.watches = values, Watches()
    found.state.can_sign_out = isinstance(auth, Tokens)
    found.state.store = plain(name or (str(store) if isinstance(store, str | Path) else type(store).__name__))
    return found


def _with_badge(page: Page) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that answers *page* after counting the runs that need a person, for the head of the page."""
    if page.method != "GET" or page.path.endswith("/live") or page.path == "/":
        return page.answer

    async def answer(request: Request) -> Response:
        if request.query_params.get("format") != "json":
            request.state.problems = await request.app.state.source.problems()
        return await page.answer(request)

    return answer


def _login(guard: Guard) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        if not isinstance(guard.auth, Tokens):
            return RedirectResponse(link(request, "/runs"), 303)
        if request.method == "GET":
            return page(request, "login.html", is_wrong=False)
        if await fields_of(request, largest=LARGEST_SIGN_IN) is None:
            return said(request, "this is not the form of this page", 413)
        identity = guard.auth.identity((await form_of(request)).get("token", ""))
        if identity is None:
            note_refusal(request)
            return page(request, "login.html", status=401, is_wrong=True)
        response = RedirectResponse(link(request, "/runs"), 303)
        remember(request, response, guard.sessions.open(identity))
        return response

    return answer


def _logout(guard: Guard) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        guard.sessions.close(request.cookies.get(COOKIE))
        response = RedirectResponse(link(request, "/login"), 303)
        response.delete_cookie(COOKIE, path=request.scope.get("root_path") or "/")
        return response

    return answer


async def _not_found(request: Request, error: Exception) -> Response:
    return page(request, "missing.html", status=404, what=str(error), data={"error": str(error)})


async def _gone(request: Request, error: Exception) -> Response:
    why = str(error) if may_see(request) else f"{error}; what is left of it cannot be shown without its values"
    return page(request, "missing.html", status=410, what=why, data={"error": why})


async def _no_page(request: Request, _: Exception) -> Response:
    return said(request, "there is no such page", 404)


async def _unavailable(request: Request, error: Exception) -> Response:
    return page(request, "missing.html", status=503, what=str(error), data={"error": str(error)})
