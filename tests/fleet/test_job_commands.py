"""``weft jobs``: the command that does something to many runs of a fleet."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import fleet_flows as flows
import pytest
from test_commands import weft
from test_worker import with_worker

from weft import AsyncClient, Client
from weft.fleet import FleetWorker

NOWHERE = "no worker serves this"


@pytest.fixture
def waiting(dsn: str) -> str:
    """The address of a database with three runs that nothing drives."""
    with Client(dsn) as client:
        client.start_many(flows.chain, range(3), ids=["a", "b", "c"], queue=NOWHERE)
    return dsn


def test_a_preview_says_what_would_be_done_and_does_nothing(waiting: str) -> None:
    code, said = weft("jobs", "cancel", "--workflow", "chain", "--preview", "--dsn", waiting)

    assert code == 0
    assert "cancel runs of 'chain': 3 runs match, 3 would be sent it" in said
    assert "3  chain  running" in said
    assert "such as c, b, a" in said
    _, data = weft("jobs", "retry", "--all", "--preview", "--json", "--dsn", waiting)
    assert json.loads(data) == {
        "operation": "retry",
        "matched": 3,
        "sent": 0,
        "skipped": {"nothing has failed": 3},
        "counts": [{"workflow": "chain", "status": "running", "runs": 3}],
        "examples": [],
    }
    assert weft("jobs", "--json", "--dsn", waiting)[1].strip() == "[]"


def test_a_preview_names_the_signal_and_the_component(waiting: str) -> None:
    _, said = weft("jobs", "signal", "go", '"yes"', "--workflow", "chain", "--preview", "--dsn", waiting)
    assert "signal 'go' to runs of 'chain': 3 runs match" in said

    _, said = weft("jobs", "retry", "middle", "--all", "--preview", "--dsn", waiting)
    assert "retry 'middle' of runs: 3 runs match" in said


def test_a_job_is_started_only_with_yes_where_no_person_can_be_asked(waiting: str) -> None:
    code, said = weft("jobs", "cancel", "--workflow", "chain", "--dsn", waiting)
    assert code == 1
    assert "3 runs would be meant: look with --preview, then use --yes" in said
    code, said = weft("jobs", "cancel", "--yes", "--dsn", waiting)
    assert code == 1
    assert "which runs? Use --workflow, --status, --failed or --since; --all is every run" in said
    code, said = weft("jobs", "cancel", "--since", "soon", "--yes", "--dsn", waiting)
    assert code == 1
    assert "--since 'soon' is not a time" in said
    code, said = weft("jobs", "cancel", "--all", "--yes", "--dsn", "runs.db")
    assert code == 1
    assert "runs.db has no fleet" in said
    with Client(waiting) as client:
        assert client.jobs() == []


def test_a_job_is_listed_paused_resumed_and_stopped(waiting: str) -> None:
    def did(*arguments: str) -> dict[str, Any]:
        code, said = weft("jobs", *arguments, "--json", "--dsn", waiting)
        assert code == 0
        found: dict[str, Any] = json.loads(said)
        return found

    started = did("cancel", "--since", "2h", "--yes", "--detach", "--id", "j", "--by", "ada", "--reason", "late")
    assert (started["id"], started["matched"], started["by"], started["state"]) == ("j", 3, "ada", "running")
    assert did("pause", "j", "--by", "bob")["changed"]["by"] == "bob"
    assert did("resume", "j")["state"] == "running"
    assert did("stop", "j")["state"] == "cancelled"
    code, said = weft("jobs", "--dsn", waiting)
    assert (code, said.split()[8:11]) == (0, ["j", "cancelled", "0/3"])
    code, said = weft("jobs", "watch", "j", "--dsn", waiting)
    assert code == 1
    assert "j: cancelled · 0 of 3 runs · sent to 0" in said
    code, said = weft("jobs", "pause", "nope", "--dsn", waiting)
    assert code == 1
    assert "no job 'nope'" in said


def test_a_job_is_shown_until_it_has_ended(dsn: str) -> None:
    async def act(client: AsyncClient, _: FleetWorker) -> None:
        await client.start_many(flows.approval, range(3), queue=NOWHERE)
        options = ("--workflow", "approval", "--yes", "--dsn", dsn)
        code, said = await asyncio.to_thread(weft, "jobs", "signal", "go", '{"n": 1}', *options)
        assert code == 0
        assert "completed · 3 of 3 runs · sent to 3" in said
        code, said = await asyncio.to_thread(weft, "jobs", "finish", *options, "--json")
        assert code == 0
        assert json.loads(said.splitlines()[-1])["state"] == "completed"

    with_worker(dsn, act)
