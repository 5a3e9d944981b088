"""The dashboard inside applications of FastAPI and Starlette, under a prefix."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from weft import AsyncRunner, Runner, Workflow, step, wait_for
from weft import events as ev
from weft.web import Identity, app

ask = Workflow("ask", step(lambda x: x, name="prepare") >> wait_for("approved"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(ask, {"order": 1}, id="asks")
        runner.wait_until("asks", lambda run: run.waiting_for == ["approved"])
    return tmp_path / "runs.db"


def who(request: Any) -> Identity:
    return Identity("ada", "operate")


def of_fastapi(file: Path) -> Any:
    service = FastAPI()
    service.mount("/weft", app(file, auth=who))
    return service


def of_starlette(file: Path) -> Any:
    return Starlette(routes=[Mount("/weft", app(file, auth=who))])


@pytest.mark.parametrize("service", [of_fastapi, of_starlette])
def test_every_link_of_a_page_stays_under_the_prefix(file: Path, service: Any) -> None:
    with TestClient(service(file), base_url="http://service.test") as client:
        for path in ("/weft/runs", "/weft/runs/asks", "/weft/problems", "/weft/workflows/ask", "/weft/schedules"):
            page = client.get(path).text
            links = re.findall(r'(?:href|action|src|data-live)="([^"]*)"', page)

            assert [link for link in links if not link.startswith(("/weft/", "?", "#"))] == []


@pytest.mark.parametrize("service", [of_fastapi, of_starlette])
def test_a_form_works_under_the_prefix_and_its_cookie_is_of_the_prefix(file: Path, service: Any) -> None:
    with TestClient(service(file), base_url="http://service.test") as client:
        page = client.get("/weft/runs/asks")
        (token,) = {*re.findall(r'name="weft_form" value="([0-9a-f]+)"', page.text)}
        fields = {"weft_form": token, "name": "approved", "value": "1"}
        answer = client.post("/weft/runs/asks/signal", data=fields, follow_redirects=False)

    assert "Path=/weft" in page.headers["set-cookie"]
    assert (answer.status_code, answer.headers["location"]) == (303, "/weft/runs/asks")
    with Runner(file) as runner:
        runner.register(ask)
        runner.resume("asks").result()
        (signal,) = [event for event in runner.log("asks") if isinstance(event, ev.SignalReceived)]
        assert signal.by == "ada"


def test_behind_a_proxy_links_have_the_prefix_of_the_proxy_too(file: Path) -> None:
    service = FastAPI()
    service.mount("/weft", app(file, auth=who))
    with TestClient(service, base_url="http://service.test", root_path="/api") as client:
        page = client.get("/api/weft/runs").text

    assert 'href="/api/weft/static/weft.css"' in page


def test_a_service_that_drives_runs_starts_one_like_another(file: Path) -> None:
    @asynccontextmanager
    async def lifespan(service: FastAPI) -> AsyncIterator[None]:
        async with AsyncRunner(file) as runner:
            runner.register(ask)
            service.mount("/weft", app(runner, auth=who))
            yield

    with TestClient(FastAPI(lifespan=lifespan), base_url="http://service.test") as client:
        page = client.get("/weft/runs/asks/again").text
        (token,) = {*re.findall(r'name="weft_form" value="([0-9a-f]+)"', page)}
        started = client.post(
            "/weft/runs/asks/again",
            data={"weft_form": token, "value": '{"order": 2}', "id": "another"},
            follow_redirects=False,
        )
        same = client.post(
            "/weft/runs/asks/again", data={"weft_form": token, "value": "", "id": "same"}, follow_redirects=False
        )
        wrong = client.post("/weft/runs/asks/again", data={"weft_form": token, "value": "{"})

    assert "&#34;order&#34;: 1" in page
    assert [started.headers["location"], same.headers["location"]] == ["/weft/runs/another", "/weft/runs/same"]
    assert wrong.status_code == 409
    with Runner(file) as runner:
        inputs = {id: [e for e in runner.log(id) if isinstance(e, ev.InputReceived)] for id in ("another", "same")}
    assert {id: [(event.value, event.by) for event in events] for id, events in inputs.items()} == {
        "another": [({"order": 2}, "ada")],
        "same": [({"order": 1}, "ada")],
    }


def test_pages_without_code_show_the_command_and_start_nothing(file: Path) -> None:
    with TestClient(app(file), base_url="http://localhost") as client:
        page = client.get("/runs/asks/again").text
        (token,) = {*re.findall(r'name="weft_form" value="([0-9a-f]+)"', client.get("/runs/asks").text)}

        assert f"weft run {__name__}:ask --input" in page
        assert client.post("/runs/asks/again", data={"weft_form": token}).status_code == 409
