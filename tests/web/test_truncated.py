"""The pages of a run whose log was truncated."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from weft import Runner, Workflow, accumulator, step, wait_for
from weft.stores import SQLiteStore
from weft.web import app

SUMS = Workflow("sums", step(lambda x: 2 * x, name="double") >> accumulator(operator.add, init=0, name="total"))
ASK = Workflow("ask", step(abs) >> wait_for("approved"))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """The pages of a store with 'cut' and 'asks', which were truncated, and 'whole', which was not."""
    file = tmp_path / "runs.db"
    with Runner(SQLiteStore(file, synchronous="normal"), executor="inline", snapshot_every=50) as runner:
        for run in ("cut", "whole"):
            runner.start(SUMS, id=run)
            for number in range(100):
                runner.send(run, number).result()
        runner.start(ASK, id="asks")
        for number in range(50):
            runner.send("asks", number)
        runner.wait_until("asks", lambda run: len(run.memory.waiting or ()) == 50)
        for run in ("cut", "asks"):
            runner.stop(run)
            assert runner.truncate(run)
        runner.register(SUMS)
        runner.resume("cut")
        for number in range(30):  # there is a later snapshot, and events that are left before it
            runner.send("cut", number).result()
    with TestClient(app(file), base_url="http://localhost") as client:
        yield client


@pytest.mark.parametrize("path", ["/runs", "/problems", "/workflows", "/workflows/sums", "/runs/cut", "/runs/asks"])
def test_every_page_is_shown_and_has_its_data(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 200
    assert isinstance(client.get(path, params={"format": "json"}).json(), dict)


def test_the_page_says_what_is_gone_and_offers_nothing_that_needs_it(client: TestClient) -> None:
    data = client.get("/runs/cut", params={"format": "json"}).json()
    cut, whole = client.get("/runs/cut").text, client.get("/runs/whole").text

    assert data["results"] == {"total": 9900 + 870}
    assert data["event"] == data["run"]["head"] > data["run"]["first"] > 1
    assert f"the events before {data['run']['first']} were removed" in cut
    for needs_the_past in ('name="at"', "/runs/cut/fork", "/runs/whole/fork"):
        assert needs_the_past not in cut
    assert 'name="at"' in whole
    assert "were removed" not in whole


def test_a_wait_that_began_before_the_cut_did_not_begin_in_1970(client: TestClient) -> None:
    data = client.get("/runs/asks", params={"format": "json"}).json()

    assert data["waterfall"]["start"] > 1_000_000_000
    assert all(bar["start"] > 1_000_000_000 for row in data["waterfall"]["rows"] for bar in row["bars"])


@pytest.mark.parametrize(
    "path", ["/runs/cut?at=3", "/runs/cut?at=310", "/runs/cut/compare?with=whole", "/runs/cut/fork"]
)
def test_a_page_of_the_past_says_since_when_it_is_gone(client: TestClient, path: str) -> None:
    first = client.get("/runs/cut", params={"format": "json"}).json()["run"]["first"]

    answer = client.get(path)

    assert answer.status_code == 410
    assert f"begins with event {first}" in answer.text
