"""The dashboard of a fleet: workers, queues, limits and versions, and what can be done about them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fleet_flows as flows
import pytest
from processes import workers
from starlette.testclient import TestClient

from weft import Client, Workflow, step
from weft.stores import PostgresStore
from weft.web import app

unknown = Workflow("chain", flows.begin >> flows.middle >> flows.end >> step(str, name="more"))


@pytest.fixture
def dashboard(dsn: str) -> Iterator[TestClient]:
    with Client(dsn) as client:
        client.migrate()
    with TestClient(app(dsn), base_url="http://localhost") as client:
        yield client


def data(dashboard: TestClient, path: str) -> Any:
    return dashboard.get(path, params={"format": "json"}).json()


def until(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (answer := found()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return answer


def post(dashboard: TestClient, path: str, **fields: str) -> int:
    token = re.search(r'name="weft_form" value="([0-9a-f]+)"', dashboard.get("/workers").text)
    assert token is not None
    return dashboard.post(path, data={"weft_form": token[1], **fields}, follow_redirects=False).status_code


def test_a_fleet_without_workers_says_so_and_how_to_start_one(dashboard: TestClient, dsn: str) -> None:
    with Client(dsn) as client:
        client.start(flows.chain, 1)

    assert data(dashboard, "/workers")["problems"] == ["no worker is alive, and 1 runs wait"]
    assert "weft worker --dsn" in dashboard.get("/workers").text
    assert [each["waiting"] for each in data(dashboard, "/workers")["queues"]] == [1]


def test_a_worker_is_shown_drained_and_resumed_with_who_did_it(dashboard: TestClient, dsn: str, tmp_path: Path) -> None:
    with workers(dsn, tmp_path) as fleet:
        fleet.start()
        (worker,) = until(lambda: data(dashboard, "/workers")["workers"])
        assert ["chain", flows.chain.version] in worker["serves"]["workflows"]
        assert worker["serves"]["queues"] == ["default"]
        assert 0 < worker["lease_left"] <= 1.5

        assert post(dashboard, f"/workers/{worker['id']}/drain") == 303
        (drained,) = until(
            lambda: [each for each in data(dashboard, "/workers")["workers"] if each["state"] == "drained"]
        )
        assert (drained["is_drained"], drained["drained_by"]) == (True, "local")

        assert post(dashboard, f"/workers/{worker['id']}/resume") == 303
        until(lambda: [each for each in data(dashboard, "/workers")["workers"] if each["state"] == "working"])
        assert post(dashboard, "/workers/nope/drain") == 409


def test_a_version_that_no_worker_knows_is_stranded(dashboard: TestClient, dsn: str, tmp_path: Path) -> None:
    with workers(dsn, tmp_path) as fleet, Client(dsn) as client:
        fleet.start()
        until(client.workers)
        client.start(unknown, 1, id="lost")
        client.start(flows.approval, 1, id="known")
        client.start(flows.chain, 1, id="elsewhere", queue="nobody's")
        client.wait_until("known", lambda run: run.waiting_for != [])

        assert {(each.version, each.queue, each.runs) for each in client.stranded()} == {
            (unknown.version, "default", 1),
            (flows.chain.version, "nobody's", 1),
        }
        found = {(each["workflow"], each["version"]): each for each in data(dashboard, "/versions")["versions"]}
        assert (found["chain", unknown.version]["stranded"], found["chain", unknown.version]["workers"]) == (1, 0)
        assert found["approval", flows.approval.version]["workers"] == 1
        assert "is stranded" in dashboard.get("/versions").text
        assert len(data(dashboard, "/workers")["problems"]) == 2
        lines = {run["id"]: run["why"]["text"] for run in data(dashboard, "/runs")["runs"]}
        assert lines["lost"] == f"stranded: no worker that is alive can drive chain@{unknown.version[:6]}"
        assert lines["elsewhere"] == "in the queue: no worker has taken it yet"
        assert data(dashboard, "/runs/lost")["attention"][0]["text"] == lines["lost"]
        assert {each["number"] for each in data(dashboard, "/problems")["problems"]} == {1}


def test_a_run_that_has_failed_is_retried_by_a_worker(
    dashboard: TestClient, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_FIXED", str(tmp_path / "fixed"))
    with workers(dsn, tmp_path) as fleet, Client(dsn) as client:
        fleet.start()
        for id in ("one", "two"):
            client.start(flows.fragile, 7, id=id)
            assert client.wait(id, 60).failed
        (tmp_path / "fixed").touch()
        assert "Retry all 2" in dashboard.get("/problems").text

        token = re.search(r'name="weft_form" value="([0-9a-f]+)"', dashboard.get("/problems").text)
        assert token is not None
        fields = {"weft_form": token[1], "action": "retry", "run": ["one", "two"], "back": "/problems"}
        answer = dashboard.post("/runs", data=fields, follow_redirects=False)

        assert (answer.status_code, answer.headers["location"]) == (303, "/problems")
        for id in ("one", "two"):
            until(lambda id=id: client.find(id).status == "completed")  # type: ignore[misc]
            assert client.result(id) == 7


def test_a_store_can_be_given_in_place_of_its_address(dsn: str) -> None:
    with TestClient(app(PostgresStore(dsn)), base_url="http://localhost") as dashboard:
        assert data(dashboard, "/workers")["fleet"] is True
        assert data(dashboard, "/limits") == {"fleet": True, "limits": []}
