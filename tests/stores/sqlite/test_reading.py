"""Questions to the file are answered by an index."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from opening import inside

from weft.stores import SQLiteStore
from weft.testing.contracts.cases import first, write


@pytest.mark.parametrize(
    ("workflow", "index"), [(None, "runs_by_status (status=?"), ("orders", "runs_by_workflow (workflow=? AND status=?")]
)
@pytest.mark.parametrize("failed", [None, False, True])
@pytest.mark.parametrize("since", [None, 1.0])
def test_pages_and_counts_are_found_by_an_index_and_in_order(
    path: Path, workflow: str | None, index: str, failed: bool | None, since: float | None
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

    asked = inside(SQLiteStore(path), act)

    assert len(asked) == (6 if failed is None else 3)
    with closing(sqlite3.connect(path)) as db:
        for sql in asked:
            plan = [row[3] for row in db.execute(f"explain query plan {sql}")]
            assert any(index in each and "<expr>=?" in each for each in plan), plan
            assert since is None or any("created_at>?" in each for each in plan), plan
            assert not any(each.startswith("SCAN") or "TEMP B-TREE" in each for each in plan), plan
