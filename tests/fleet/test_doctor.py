"""``weft doctor`` on a PostgreSQL store: what it finds, how sure it is, and what it repairs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import fleet_flows as flows
import pytest
from servers import asked
from typer.testing import CliRunner

from weft.cli.app import app
from weft.fleet import Client


def doctor(dsn: str, *options: str) -> tuple[int, dict[str, Any]]:
    answer = CliRunner().invoke(app, ["doctor", "--store", dsn, "--json", *options])
    return answer.exit_code, json.loads(answer.stdout)


def found(told: dict[str, Any], where: str) -> list[dict[str, Any]]:
    return [each for each in told["findings"] if each["where"] == where]


@pytest.fixture
def filled(dsn: str) -> str:
    """A database with three runs that no worker has had."""
    with Client(dsn) as client:
        client.migrate()
        for number in range(3):
            client.start(flows.chain, number, id=f"run-{number}")
    return dsn


def change(dsn: str, statement: str) -> None:
    asked(dsn, lambda db: db.execute(statement))


def test_a_database_without_tables_is_migrated_by_a_repair(dsn: str) -> None:
    code, told = doctor(dsn)
    assert (code, told["verdict"]) == (1, "damaged")
    assert "no tables yet" in found(told, "the schema")[0]["what"]

    code, told = doctor(dsn, "--repair")

    assert (code, told["verdict"]) == (0, "fine")
    assert told["repaired"] == [{"repair": "migrate the schema", "rows": 1}]


def test_a_schema_of_a_newer_weft_is_not_looked_at(filled: str) -> None:
    change(filled, "insert into weft_schema (version) values (999)")

    answer = CliRunner().invoke(app, ["doctor", "--store", filled])

    assert answer.exit_code == 2
    assert "version 999" in answer.output


def test_runs_without_a_worker_are_found(filled: str) -> None:
    code, told = doctor(filled)

    assert (code, told["runs"], told["workers"]) == (1, 3, 0)
    (finding,) = found(told, "the fleet")
    assert finding["certainty"] == "certain"
    assert "3 runs are due" in finding["what"]


def test_a_run_without_a_row_in_the_queue_is_put_back_and_is_driven(filled: str) -> None:
    change(filled, "delete from weft_queue where run = (select key from weft_runs where id = 'run-1')")

    _, told = doctor(filled)
    (finding,) = found(told, "the queue")
    assert "run-1" in finding["what"]
    assert finding["repair"]
    _, told = doctor(filled, "--repair")

    assert told["repaired"] == [{"repair": finding["repair"], "rows": 1}]
    assert found(told, "the queue") == []
    with Client(filled) as client:
        assert client.queue_depth() == 3


def test_messages_that_the_queue_does_not_count_are_counted_again(filled: str) -> None:
    with Client(filled) as client:
        client.signal("run-0", "go")
    change(filled, "update weft_queue set wake = 0")

    _, told = doctor(filled, "--repair")

    assert [each["rows"] for each in told["repaired"]] == [1]
    assert asked(filled, lambda db: db.fetchval("select sum(wake) from weft_queue")) == 1


def test_rows_that_belong_to_no_run_are_a_remark_and_are_deleted(filled: str) -> None:
    change(filled, "insert into weft_queue (run, scheduled_at, wake) values (424242, 0, 0)")

    _, told = doctor(filled, "--quick")
    assert found(told, "weft_queue") == []
    _, told = doctor(filled)
    assert found(told, "weft_queue")[0]["is_damage"] is False
    doctor(filled, "--repair")

    assert asked(filled, lambda db: db.fetchval("select count(*) from weft_queue")) == 3


def test_a_log_that_lost_its_end_is_damage_that_no_repair_mends(filled: str) -> None:
    change(filled, "delete from weft_events where run = (select key from weft_runs where id = 'run-2')")

    for options in ((), ("--repair",)):
        code, told = doctor(filled, *options)
        (finding,) = found(told, "run 'run-2'")
        assert (code, finding["run"], finding["repair"]) == (1, "run-2", "")


def test_a_lease_that_ended_with_runs_is_found(filled: str) -> None:
    change(
        filled,
        "insert into weft_workers (key, expires_at, pid, born, machine, name, channel, worker) values "
        "(77, now() - interval '90 seconds', 1, 1, 'm', 'process 1 on m', 'c', 'dead00000001')",
    )
    change(filled, "update weft_queue set owner = 77")

    _, told = doctor(filled)

    (finding,) = found(told, "worker dead00000001")
    assert "3 runs" in finding["what"]


def test_a_version_that_no_worker_knows_is_stranded_and_certain_after_a_minute(filled: str) -> None:
    serves = '{"queues":["default"],"workflows":[["other","v"]]}'
    added = (
        "insert into weft_workers (expires_at, pid, born, machine, name, channel, worker, serves) values "
        "(now() + interval '1 day', 1, 1, 'm', 'process 1 on m', 'c', 'live00000001', $1)"
    )
    asked(filled, lambda db: db.execute(added, serves))
    where = f"chain@{flows.chain.version[:8]}"

    assert found(doctor(filled)[1], where)[0]["certainty"] == "likely"
    change(filled, "update weft_queue set scheduled_at = scheduled_at - 120")
    assert found(doctor(filled)[1], where)[0]["certainty"] == "certain"


def test_a_role_that_may_only_read_is_a_remark(filled: str) -> None:
    change(filled, "do $$ begin create role weft_looks login; exception when duplicate_object then null; end $$")
    with Client(filled) as client:
        client.migrate(reader="weft_looks")
    as_reader = filled.replace("postgres:@", "weft_looks:@")

    _, told = doctor(as_reader)

    (finding,) = found(told, "the role")
    assert finding["is_damage"] is False
    assert "may not insert, update, delete" in finding["what"]


def test_a_missing_table_is_named(filled: str) -> None:
    change(filled, "drop table weft_limits")

    assert "weft_limits" in found(doctor(filled)[1], "the schema")[0]["what"]


def test_clocks_that_differ_are_said(filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.stores.postgres import checkup

    now: Callable[[], float] = checkup.time.time
    monkeypatch.setattr(checkup.time, "time", lambda: now() + 60)

    (finding,) = found(doctor(filled)[1], "the clocks")

    assert "behind" in finding["what"]


def test_a_database_that_is_not_there_is_said_in_one_line() -> None:
    answer = CliRunner().invoke(app, ["doctor", "--store", "postgresql://nobody@127.0.0.1:1/nothing"])

    assert answer.exit_code == 2
    assert len(answer.output.strip().splitlines()) == 1


def test_it_is_told_in_lines_with_what_to_do(filled: str) -> None:
    answer = CliRunner().invoke(app, ["doctor", "--store", filled])

    assert answer.exit_code == 1
    assert "damaged (certain): the fleet: no worker is alive" in answer.output
    assert "weft worker --store URL" in answer.output
