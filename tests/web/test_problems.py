"""Problems beyond failures: what takes longer than usual, and breakers that are open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from weft import AsyncRunner, Policy, Runner, Workflow, step, wait_for
from weft.policy import CircuitBreaker
from weft.web import app

ask = Workflow("ask", step(abs) >> wait_for("approved"))


class Clock:
    """The time of day *seconds* ago."""

    ago = 0.0

    def time(self) -> float:
        return time.time() - self.ago

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def problems(client: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/problems", params={"format": "json"}).json()["problems"]
    return found


def test_a_run_that_waits_longer_than_99_of_100_before_it_is_a_problem(tmp_path: Path) -> None:
    clock = Clock()
    clock.ago = 3_600.0
    with Runner(tmp_path / "runs.db", clock=clock) as runner:
        for number in range(12):
            runner.start(ask, number, id=f"done-{number}")
            runner.signal(f"done-{number}", "approved", 1)
            runner.wait(f"done-{number}")
        runner.start(ask, 1, id="late")
        runner.wait_until("late", lambda run: "approved" in run.waiting_for, timeout=20)
        clock.ago = 0.0
        runner.start(ask, 1, id="new")
        runner.wait_until("new", lambda run: "approved" in run.waiting_for, timeout=20)
    with TestClient(app(tmp_path / "runs.db"), base_url="http://localhost") as client:
        left, problem = problems(client)

        assert (left["state"], sorted(left["runs"])) == ("interrupted", ["late", "new"])
        assert problem["error"] == "takes longer than usual"
        assert "late" in problem["runs"]
        assert "usually at most" in problem["example"]
        page = client.get("/problems").text
        assert client.get(problem["leads_to"]).status_code == 200
        assert "Show them" in page


def test_an_open_breaker_is_a_problem_that_leads_to_the_limits(tmp_path: Path) -> None:
    def refuse(_: int) -> int:
        raise ConnectionError("closed")

    flow = Workflow("pay", step(refuse))
    flow = flow.with_policies([("refuse", Policy(circuit_breaker=CircuitBreaker("bank", 1, 3_600.0)))])

    @asynccontextmanager
    async def lifespan(service: Starlette) -> AsyncIterator[None]:
        async with AsyncRunner(tmp_path / "runs.db") as runner:
            await runner.wait(await runner.start(flow, 1, id="refused"))
            service.router.routes.append(Mount("/", app(runner)))
            yield

    with TestClient(Starlette(lifespan=lifespan), base_url="http://localhost") as client:
        found = {problem["component"]: problem for problem in problems(client)}

    assert (found["bank"]["error"], found["bank"]["leads_to"]) == ("breaker is open", "/limits")
    assert found["refuse"]["error"] == "ConnectionError"
