"""Puts the helpers of the runner's tests where they can be imported, and opens a runner on each store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft import Runner
from weft.ports.store import LogStore
from weft.stores import MemoryStore, SQLiteStore

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LogStore:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")


@pytest.fixture
def runner(store: LogStore) -> Iterator[Runner]:
    with Runner(store) as opened:
        yield opened
