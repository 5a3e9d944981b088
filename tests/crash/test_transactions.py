"""
kill -9 of real processes between any two points of a transactional step: its rows and its event are both there or not.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
import transacting

from weft.core.events import ReactionOccurred
from weft.runner.durability.recovery import recover
from weft.stores import SQLiteStore

KILLS = [(point, time) for point in transacting.POINTS for time in (1, 2, 4)]
QUICK = {("written", 1), ("folded", 2), ("appended", 1), ("committed", 2)}
"""Cases that are not slow by themselves: around the commit, in a plain function or a coroutine function."""


def completions(path: Path) -> Counter[str]:
    """Return how often each transactional step has completed, as the stored log says."""

    async def main() -> Counter[str]:
        async with SQLiteStore(path) as store:
            found = await recover(store, await store.load("r"), workflow=transacting.shop, goes_on=False)
            done = (event.component for event in found.run.log() if isinstance(event, ReactionOccurred))
            return Counter(name for name in done if name in transacting.TRANSACTIONAL)

    return asyncio.run(main())


def rows(path: Path) -> Counter[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as db:
        return Counter(db.execute("select component, key from shop_rows").fetchall())


def run(path: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, transacting.__file__, str(path), *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("point", "time"), [pytest.param(*kill, marks=() if kill in QUICK else pytest.mark.slow) for kill in KILLS]
)
def test_a_process_that_is_killed_at_any_point_leaves_rows_and_events_that_agree(
    tmp_path: Path, point: str, time: int
) -> None:
    path = tmp_path / "runs.db"

    async def create() -> None:
        async with SQLiteStore(path):
            pass

    asyncio.run(create())
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table shop_rows (component, key)")

    killed = run(path, point, time)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert Counter(component for component, _ in rows(path).elements()) == completions(path)

    resumed = run(path)
    assert (resumed.returncode, resumed.stdout) == (0, "3\n"), resumed.stderr
    written = rows(path)
    assert set(written.values()) == {1}
    assert written.total() == transacting.EXPECTED
    assert Counter(component for component, _ in written) == completions(path)
