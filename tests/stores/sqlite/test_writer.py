"""The writer makes a checkpoint when it is asked to or idle, and writes the rest when it is closed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from opening import inside

from weft.stores import SQLiteStore
from weft.testing.contracts.cases import first, write


def test_closing_writes_what_was_handed_over(path: Path) -> None:
    async def main() -> list[Any]:
        store = SQLiteStore(path)
        await store.open()
        pending = [asyncio.ensure_future(store.append([first(f"r{i}")])) for i in range(20)]
        await asyncio.sleep(0)
        await store.close()
        return await asyncio.gather(*pending)

    assert asyncio.run(main()) == [[None]] * 20
    assert len(inside(SQLiteStore(path), lambda store: store.list())) == 20


def test_a_checkpoint_empties_the_write_ahead_log(path: Path) -> None:
    async def act(store: SQLiteStore) -> tuple[int, int]:
        await write(store, *(first(f"r{i}") for i in range(100)))
        log = path.with_name("runs.db-wal")
        before = log.stat().st_size
        await store.checkpoint()
        return before, log.stat().st_size

    before, after = inside(SQLiteStore(path), act)

    assert before > 0
    assert after == 0


def test_an_idle_writer_makes_a_checkpoint_by_itself(path: Path) -> None:
    seen = threading.Event()

    def trace(statement: str) -> None:
        if "wal_checkpoint" in statement:
            seen.set()

    async def act(store: SQLiteStore) -> bool:
        assert store._opened is not None
        await store._opened.writer.call(lambda db: db.set_trace_callback(trace))
        await write(store, *(first(f"r{i}") for i in range(1000)))
        return await asyncio.to_thread(seen.wait, 60)

    assert inside(SQLiteStore(path), act)
