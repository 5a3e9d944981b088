"""
Puts the helpers of the runner's tests where they can be imported, and opens a runner on each store.

WEFT_TEST_DSN adds PostgreSQL, in a schema for each test.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft import Runner
from weft.ports.store import LogStore
from weft.stores import MemoryStore, PostgresStore, SQLiteStore

sys.path.append(str(Path(__file__).parent))

DSN = os.environ.get("WEFT_TEST_DSN", "")


@pytest.fixture(params=["memory", "sqlite", *(["postgres"] if DSN else [])])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStore]:
    if request.param != "postgres":
        yield MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
        return
    schema = f"weft_{uuid.uuid4().hex}"
    yield PostgresStore(DSN, schema=schema)
    asyncio.run(_drop(schema))


async def _drop(schema: str) -> None:
    import asyncpg

    db = await asyncpg.connect(DSN)
    await db.execute(f"drop schema if exists {schema} cascade")
    await db.close()


@pytest.fixture
def runner(store: LogStore) -> Iterator[Runner]:
    with Runner(store) as opened:
        yield opened
