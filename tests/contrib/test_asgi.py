"""A runner that lives as long as an ASGI application."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from weft import AsyncRunner, Runner, Workflow, step, wait_for
from weft.contrib.asgi import lifespan
from weft.errors import RunnerClosed
from weft.stores import MemoryStore


@step
def double(x: int) -> int:
    return 2 * x


orders = Workflow("orders", double >> wait_for("approved"))


async def start(request: Request) -> Response:
    runner: AsyncRunner = request.state.runner
    await runner.start(orders, 4, id=request.path_params["id"])
    return Response()


async def approve(request: Request) -> Response:
    runner: AsyncRunner = request.state.runner
    await runner.signal(request.path_params["id"], "approved", "yes")
    return JSONResponse(await runner.result(request.path_params["id"]))


def service(made: Any, **options: Any) -> Starlette:
    routes = [Route("/{id}/start", start), Route("/{id}/approve", approve)]
    return Starlette(routes=routes, lifespan=lifespan(made, orders, **options))


def test_a_run_outlives_the_process_that_served_the_request(tmp_path: Path) -> None:
    with TestClient(service(tmp_path / "runs.db")) as client:
        client.get("/r/start")
    with TestClient(service(tmp_path / "runs.db")) as client:
        answer = client.get("/r/approve")

    assert answer.json() == "yes"


def test_nothing_is_taken_over_where_that_is_not_wanted(tmp_path: Path) -> None:
    with TestClient(service(tmp_path / "runs.db")) as client:
        client.get("/r/start")
    with TestClient(service(tmp_path / "runs.db", resume=False)), Runner(tmp_path / "runs.db") as runner:
        runner.register(orders)

        assert runner.resume("r").status() == "waiting"


@pytest.mark.parametrize("made", [lambda: AsyncRunner(MemoryStore()), MemoryStore], ids=["runner", "store"])
def test_a_runner_or_a_store_may_be_given(made: Callable[[], Any]) -> None:
    with TestClient(service(made())) as client:
        client.get("/r/start")

        assert client.get("/r/approve").json() == "yes"


def test_a_function_makes_a_runner_for_each_start(tmp_path: Path) -> None:
    application = service(lambda: AsyncRunner(tmp_path / "runs.db"))
    for name in ("a", "b"):
        with TestClient(application) as client:
            client.get(f"/{name}/start")
            client.get(f"/{name}/approve")

    with Runner(tmp_path / "runs.db") as runner:
        assert runner.count(status="completed") == 2


def test_a_runner_that_was_closed_says_so_at_the_start() -> None:
    application = service(AsyncRunner(MemoryStore()))
    with TestClient(application):
        pass

    with pytest.raises(RunnerClosed), TestClient(application):
        pass
