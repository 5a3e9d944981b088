"""Questions to the file are answered by an index."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from opening import inside, nothing

from weft.stores import SQLiteStore
from weft.stores.sqlite import reading
from weft.stores.sqlite.statements import query
from weft.testing.contracts.cases import first, write
from weft.typing import RunId


@pytest.mark.parametrize("workflow", [None, "orders"])
@pytest.mark.parametrize("failed", [None, False, True])
@pytest.mark.parametrize("since", [None, 1.0])
def test_pages_and_counts_are_found_by_an_index_and_in_order(
    path: Path, workflow: str | None, failed: bool | None, since: float | None
) -> None:
    async def act(store: SQLiteStore) -> list[str]:
        assert store._opened is not None
        await write(store, *(first(run, status="idle", failures=int(failed or False)) for run in ("r", "s")))
        statements: list[str] = []
        await store._opened.reader.call(lambda db: db.set_trace_callback(statements.append))
        like_this: dict[str, Any] = {"statuses": ["idle"], "workflow": workflow, "failed": failed, "since": since}
        (record,) = await store.list(**like_this, limit=1)
        assert len(await store.list(**like_this, after=record)) == 1
        assert await store.count(**like_this) == 2
        return [each for each in statements if "r.status =" in each]

    every = inside(SQLiteStore(path), act)

    workflows = [each for each in every if "with recursive" in each]
    asked = [each for each in every if each not in workflows and "exists" not in each]
    assert bool(workflows) == (workflow is None)  # then they are found first
    assert len(asked) >= 3  # two pages and a count
    with closing(sqlite3.connect(path)) as db:
        for sql in asked:
            plan = [row[3] for row in db.execute(f"explain query plan {sql}")]
            assert any("runs_by_state (status=? AND <expr>=?" in each for each in plan), plan
            assert since is None or any("created_at>?" in each for each in plan), plan
            assert not any(each.startswith("SCAN") or "TEMP B-TREE" in each for each in plan), plan
        for sql in workflows:
            plan = [row[3] for row in db.execute(f"explain query plan {sql}")]
            assert any("runs_by_state (status=? AND <expr>=? AND workflow>?)" in each for each in plan), plan
            assert not any(each.startswith("SCAN r") or "TEMP B-TREE" in each for each in plan), plan


@pytest.mark.parametrize("name", ["tally", "count_workflow", "statuses"])
def test_what_is_counted_is_read_in_the_order_of_the_index(path: Path, name: str) -> None:
    inside(SQLiteStore(path), nothing)

    with closing(sqlite3.connect(path)) as db:
        plan = [row[3] for row in db.execute(f"explain query plan {query(name)}", {"workflow": "orders"})]

    assert all("runs_by_state" in each for each in plan if " runs" in each or each.startswith(("SCAN r", "SEARCH r")))
    assert any("runs_by_state" in each for each in plan)
    assert not any("TEMP B-TREE" in each for each in plan), plan


@pytest.mark.parametrize("workflows", [1, 3, 40])
def test_a_list_of_all_workflows_is_in_the_order_of_time_however_many_there_are(path: Path, workflows: int) -> None:
    """With forty of them, which are more parts than are read whole, one has most of the runs of a page."""

    async def act(store: SQLiteStore) -> tuple[list[RunId], list[RunId], list[int]]:
        new = [
            first(
                f"r{number:03}",
                workflow=f"w{number % workflows if number < 120 else 0}",
                at=float(number // 5),
                status=("running", "completed", "idle")[number % 3],
                failures=int(number % 7 == 0),
            )
            for number in range(200)
        ]
        await write(store, *new)
        pages = [await store.list(limit=30)]
        while pages[-1]:
            pages.append(await store.list(limit=30, after=pages[-1][-1]))
        await store.release([each.run for each in new])
        free = [await store.list_free(limit=30)]
        while free[-1]:
            free.append(await store.list_free(limit=30, after=free[-1][-1]))
        counts = [await store.count(workflow="w0"), await store.count(since=20.0), sum((await store.tally()).values())]
        return [each.id for page in pages for each in page], [each.id for page in free for each in page], counts

    listed, free, counts = inside(SQLiteStore(path), act)

    names = [f"r{number:03}" for number in range(200)]
    assert listed == names[::-1]
    assert free == names[::3]  # those that are running
    assert counts == [80 + 120 // workflows, 100, 200]


@pytest.mark.parametrize("most", [0, 300_000])
def test_pages_of_waiting_runs_are_the_same_however_many_there_are(
    path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(reading, "SORTED", most)

    async def act(store: SQLiteStore) -> list[list[str]]:
        for number in range(8):
            wake_at = None if number in (2, 5) else 100.0 - number // 2
            await write(store, first(f"r{number}", status="waiting", wake_at=wake_at, at=float(number)))
        pages: list[list[str]] = []
        last = None
        while page := await store.list_waiting(since=1.0, until=7.0, after=last, limit=2):
            pages.append([each.id for each in page])
            last = page[-1]
        return pages

    assert inside(SQLiteStore(path), act) == [["r6", "r4"], ["r3", "r1"], ["r2", "r5"]]


def test_a_page_of_all_waiting_runs_is_read_in_the_order_of_their_times(path: Path) -> None:
    async def act(store: SQLiteStore) -> list[str]:
        assert store._opened is not None
        await write(store, *(first(f"r{number}", status="waiting", wake_at=float(number)) for number in range(9)))
        statements: list[str] = []
        await store._opened.reader.call(lambda db: db.set_trace_callback(statements.append))
        assert len(await store.list_waiting(limit=3)) == 3
        return [each for each in statements if "wakes" in each]

    (asked,) = inside(SQLiteStore(path), act)

    with closing(sqlite3.connect(path)) as db:
        plan = [row[3] for row in db.execute("explain query plan " + asked.replace("Inf", "9e999"))]
    assert "SEARCH w USING COVERING INDEX wakes_by_time (at>?)" in plan
    assert not any(each.startswith(("SCAN r", "SCAN w")) for each in plan), plan
