"""Every action of a page is in the log of the run, with the name of the caller."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from weft import AsyncRunner, Runner, Workflow, step, wait_for
from weft import events as ev
from weft.web import Identity, app
from weft.web.actions import ACTIONS


def refuse(x: int) -> int:
    if x == 1:
        raise ValueError("no")
    return x


asks = Workflow("asks", step(abs) >> wait_for("approved"))
refuses = Workflow("refuses", step(refuse))

DONE: dict[str, tuple[dict[str, str], type[ev.Event]]] = {
    "again": ({"value": "3"}, ev.InputReceived),
    "cancel": ({"reason": "wrong file"}, ev.RunCancelled),
    "finish": ({}, ev.RunFinished),
    "fork": ({"at": "abs", "value": "7"}, ev.RunForked),
    "policy": ({"component": "abs", "max_retries": "3"}, ev.PolicyChanged),
    "retry": ({}, ev.RunRetried),
    "send": ({"value": "5"}, ev.InputReceived),
    "signal": ({"name": "approved", "value": "1"}, ev.SignalReceived),
}
"""By action: the fields of its form, and the event that it is in the log."""


def test_there_is_a_case_for_every_action() -> None:
    assert DONE.keys() == ACTIONS.keys()


@pytest.mark.parametrize("action", sorted(DONE))
def test_an_action_is_in_the_log_with_the_caller(tmp_path: Path, action: str) -> None:
    fields, kind = DONE[action]

    @asynccontextmanager
    async def lifespan(service: FastAPI) -> AsyncIterator[None]:
        async with AsyncRunner(tmp_path / "runs.db", executor="inline") as runner:
            runner.register(asks, refuses)
            if action == "retry":
                await runner.wait(await runner.start(refuses, 1, id="run", by="api"))
            else:
                await runner.start(asks, 1, id="run", open=True, by="api")
                await runner.wait_until("run", lambda run: bool(run.waiting_for))
            service.mount("/weft", app(runner, auth=lambda _: Identity("ada", "operate")))
            yield

    with TestClient(FastAPI(lifespan=lifespan), base_url="http://service.test") as client:
        page = client.get("/weft/runs/run/again").text
        (token,) = {*re.findall(r'name="weft_form" value="([0-9a-f]+)"', page)}
        form = {"weft_form": token, **fields}
        answer = client.post(f"/weft/runs/run/{action}", data=form, follow_redirects=False)

    assert answer.status_code == 303
    with Runner(tmp_path / "runs.db") as runner:
        ids = [record.id for record in runner.runs()]
        logs: list[Any] = [event for id in ids for event in (*runner.log(id), *runner.unread(id))]
    assert "ada" in [event.by for event in logs if isinstance(event, kind)]
