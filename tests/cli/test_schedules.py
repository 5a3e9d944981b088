"""``weft schedules``: the schedules in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft import Runner, Workflow, step
from weft.stores import SQLiteStore

double = Workflow("double", step(lambda x: x * 2, name="double"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    with Runner(SQLiteStore(path)) as runner:
        runner.schedule("nightly", double, cron="0 3 * * *", timezone="Europe/Berlin", input=1)
        runner.schedule("yearly", double, cron="0 0 1 1 *", input=1, overlap="queue")
    return path


def test_every_schedule_is_a_row(weft: Callable[..., Any], file: Path) -> None:
    out = weft("schedules", "--store", str(file)).out

    assert "NAME" in out
    assert "cron 0 3 * * * Europe/Berlin" in out
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["nightly", "yearly"]


def test_schedules_as_json(weft: Callable[..., Any], file: Path) -> None:
    (first, second) = json.loads(weft("schedules", "--store", str(file), "--json").out)

    assert first["name"] == "nightly"
    assert first["last_at"] is None
    assert second["next_at"].endswith("-01-01T00:00:00Z")


def test_the_next_times_are_printed(weft: Callable[..., Any], file: Path) -> None:
    found = json.loads(weft("schedules", "next", "yearly", "--count", "2", "--store", str(file), "--json").out)

    assert [each[4:] for each in found] == ["-01-01T00:00:00Z"] * 2


def test_a_schedule_is_paused_unpaused_backfilled_and_removed(weft: Callable[..., Any], file: Path) -> None:
    assert "paused" in weft("schedules", "pause", "nightly", "--store", str(file)).out
    (first, _) = json.loads(weft("schedules", "--store", str(file), "--json").out)
    assert first["is_paused"]
    weft("schedules", "unpause", "nightly", "--store", str(file))
    assert "7 times" in weft("schedules", "backfill", "nightly", "2026-11-01", "2026-11-08", "--store", str(file)).out
    (first, _) = json.loads(weft("schedules", "--store", str(file), "--json").out)
    assert (first["is_paused"], first["backfills"]) == (False, 1)
    weft("schedules", "remove", "nightly", "--store", str(file))

    assert [each["name"] for each in json.loads(weft("schedules", "--store", str(file), "--json").out)] == ["yearly"]


def test_mistakes_are_told_in_one_line(weft: Callable[..., Any], file: Path) -> None:
    missing = weft("schedules", "pause", "nothing", "--store", str(file))
    odd = weft("schedules", "backfill", "nightly", "yesterday", "2026-11-08", "--store", str(file))

    assert missing.code == odd.code == 1
    assert "no schedule 'nothing'" in missing.err
    assert "is not a time" in odd.err
