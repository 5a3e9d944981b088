"""The three roles of a database: one migrates, workers and clients change runs, a reader only looks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import fault_flows
import fleet_flows as flows
import limit_flows
import pytest
import spread_flows
from processes import workers
from servers import asked
from test_spread import until

from weft import Client
from weft.errors import ReadOnlyStore

pytestmark = pytest.mark.skipif("WEFT_TEST_DSN" in __import__("os").environ, reason="logs in without a password")
HERE = Path(__file__).parent


class Roles(NamedTuple):
    """The addresses of those who may do something in one database."""

    migrator: str
    worker: str
    reader: str


@pytest.fixture
def roles(dsn: str) -> Iterator[Roles]:
    """A database that a role without any other rights has migrated, and roles that it has granted theirs."""
    names = [f"{kind}_{uuid.uuid4().hex[:8]}" for kind in ("migrator", "worker", "reader")]
    for name in names:
        asked(dsn, lambda db, name=name: db.execute(f"create role {name} login"))
    database = asked(dsn, lambda db: db.fetchval("select current_database()"))
    asked(dsn, lambda db: db.execute(f"grant create on database {database} to {names[0]}"))
    made = Roles(*(dsn.replace("postgres:@", f"{name}:@") for name in names))
    with Client(made.migrator, schema="weft") as client:
        client.migrate(worker=names[1], reader=names[2])
    yield made
    asked(dsn, lambda db: db.execute("drop schema weft cascade; drop table if exists booked"))
    for name in names:
        asked(dsn, lambda db, name=name: db.execute(f"drop owned by {name}; drop role {name}"))


def test_a_worker_and_a_client_do_all_that_they_do_with_the_rights_of_a_worker(
    dsn: str, roles: Roles, tmp_path: Path
) -> None:
    asked(dsn, lambda db: db.execute(f"{fault_flows.TABLE}; grant all on booked to public"))
    imports = [option for each in ("fault", "limit", "spread") for option in ("--import", HERE / f"{each}_flows.py")]
    options = [*map(str, imports), "--queues", "default", "--queues", "wide", "--schema", "weft"]
    with Client(roles.worker, schema="weft") as client, workers(roles.worker, tmp_path) as fleet:
        one = fleet.start(*options, pause=0.0)
        two = fleet.start(*options, pause=0.0)

        chains = client.start_many(flows.chain, range(20))
        unique = client.start(flows.chain, 5, unique="only one")
        booked = client.start_many(fault_flows.booked, range(3))
        wide = client.start(spread_flows.squares, 6)
        limited = client.start_many(limit_flows.few, range(6))
        streamed = client.start(flows.streamed, 3)
        cancelled = client.start_many(flows.approval, range(3))
        approved = client.start(flows.approval, 1)
        client.signal(approved.id, "go", "yes")
        client.schedule("once", "chain", at=1.0, input=1)
        assert chains.gather(timeout=60) == [(x + 1) * 2 - 3 for x in range(20)]
        assert unique.result(60) == 9
        assert booked.gather(timeout=60) == [(x + 1) * 2 - 3 for x in range(3)]
        assert wide.result(60) == 55
        assert limited.gather(timeout=60) == list(range(6))
        assert streamed.result(60) == 3
        assert approved.result(60) == "yes"
        job = client.bulk("cancel", workflow="approval")
        assert client.wait_job(job.id, timeout=60).state == "completed"
        for handle in cancelled:
            assert handle.wait(60).status == "cancelled"
        assert client.limits()
        until(lambda: len(client.workers()) == 2)
        assert client.fork(approved.id, "forked").wait(60).status == "completed"
        client.delete(unique.id)
        assert client.purge(before=time.time() + 3600.0) > 20
        for process in (one, two):
            process.terminate()
            assert process.wait(60) == 0
    errors = (tmp_path / "errors").read_text(encoding="utf-8")
    assert "permission denied" not in errors
    assert "ReadOnlyStore" not in errors


def test_a_client_with_the_rights_of_a_reader_sees_all_and_changes_nothing(roles: Roles, tmp_path: Path) -> None:
    with (
        Client(roles.worker, schema="weft") as client,
        Client(roles.reader, schema="weft") as reader,
        workers(roles.worker, tmp_path) as fleet,
    ):
        fleet.start("--schema", "weft", pause=0.0)
        done = client.start(flows.chain, 1)
        waiting = client.start(flows.approval, 1)
        queued = client.start(flows.chain, 1, queue="nobody")

        assert reader.result(done.id, timeout=60) == 1
        assert reader.log(done.id) == client.log(done.id)
        assert reader.get(done.id).status == "completed"
        assert {each.id for each in reader.runs()} == {done.id, waiting.id, queued.id}
        assert reader.count() == 3
        assert len(reader.workers()) == 1
        assert reader.queue_depth("nobody") == 1
        assert reader.limits() == []
        for change in (
            lambda: reader.start(flows.chain, 1),
            lambda: reader.signal(waiting.id, "go", "yes"),
            lambda: reader.cancel(waiting.id),
            lambda: reader.schedule("s", "chain", every=60, input=1),
            lambda: reader.bulk("cancel", workflow="approval"),
            lambda: reader.drain(reader.workers()[0].id),
        ):
            with pytest.raises(ReadOnlyStore):
                change()
        client.signal(waiting.id, "go", "yes")
        assert reader.result(waiting.id, timeout=60) == "yes"


def test_a_worker_with_the_rights_of_a_reader_says_what_it_lacks(roles: Roles, tmp_path: Path) -> None:
    with workers(roles.reader, tmp_path) as fleet:
        process = fleet.start("--schema", "weft")

        assert process.wait(90) != 0
    assert "permission denied" in (tmp_path / "errors").read_text(encoding="utf-8")
