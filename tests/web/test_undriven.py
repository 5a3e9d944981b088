"""Runs that have work left and no process: every page that shows them says so, with the command that goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from weft import Runner, Workflow, step, wait_for
from weft.web import app

ask = Workflow("ask", step(abs) >> step(lambda x: x, name="prepare") >> wait_for("approved"))

KILLED = """
import os, sys
from weft import Runner, Workflow, step

def stop(x):
    os.kill(os.getpid(), 9)

with Runner(sys.argv[1]) as runner:
    runner.start(Workflow("report", step(stop)), 1, id="report")
    runner.wait("report")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with a run that waits, and whose process has ended."""
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(ask, 1, id="asks")
        runner.wait_until("asks", lambda run: run.waiting_for == ["approved"])
    return tmp_path / "runs.db"


def data(client: TestClient, path: str) -> Any:
    return client.get(path, params={"format": "json"}).json()


def test_a_run_whose_process_has_ended_is_a_problem_with_the_command_that_goes_on(file: Path) -> None:
    command = f"weft resume asks --import {__name__} --store {file}"
    with TestClient(app(file), base_url="http://localhost") as client:
        (line,), (problem,) = data(client, "/runs")["runs"], data(client, "/problems")["problems"]
        page = client.get("/runs/asks")

        assert line["undriven"]["command"] == problem["command"] == data(client, "/runs/asks")["command"] == command
        assert (problem["error"], problem["runs"]) == ("waits, and no process drives it", ["asks"])
        assert f'data-clip="{command}"' in page.text
        assert "waiting, no process" in page.text
        assert "no process drives it" in client.get("/runs").text


def test_a_run_that_a_process_has_is_none(file: Path) -> None:
    with Runner(file) as runner, TestClient(app(file), base_url="http://localhost") as client:
        runner.register(ask)
        runner.resume("asks")

        assert data(client, "/problems")["problems"] == []
        assert data(client, "/runs")["runs"][0]["undriven"] is None
        assert "no process" not in client.get("/runs/asks").text


def test_a_killed_process_is_said_to_have_died_and_counted_in_the_head(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(file)], env=dict(os.environ), check=False)
    assert killed.returncode == -signal.SIGKILL
    with TestClient(app(file), base_url="http://localhost") as client:
        (problem,) = data(client, "/problems")["problems"]
        page = client.get("/runs").text

        assert (problem["error"], problem["example"]) == ("no process drives it", "a process has died")
        assert problem["command"] == f"weft resume report --import MODULE --store {file}"
        assert "its process has died" in page
        assert 'Problems <b class="badge">1' in page


def test_a_reader_sees_the_problem_but_no_command(file: Path) -> None:
    from weft.web import Identity, Tokens

    tokens = Tokens({"a-long-enough-token": Identity("ann", "read")})
    with TestClient(app(file, auth=tokens), base_url="http://dashboard.test") as client:
        page = client.get("/runs/asks", headers={"authorization": "Bearer a-long-enough-token"}).text

    assert "no process drives it" in page
    assert "weft resume" not in page
