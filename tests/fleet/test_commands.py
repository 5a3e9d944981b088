"""The commands of a fleet: migrate, workers, drain."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path

import fleet_flows  # noqa: F401 - adds its workflows to the registry
from processes import workers
from servers import asked
from shard_databases import Databases
from typer.testing import CliRunner

from weft.cli.app import app
from weft.fleet import Client


def weft(*arguments: str) -> tuple[int, str]:
    answer = CliRunner().invoke(app, list(arguments))
    return answer.exit_code, answer.output


def test_migrate_creates_the_tables_and_can_be_repeated(dsn: str) -> None:
    for _ in range(2):
        code, said = weft("migrate", "--dsn", dsn, "--schema", "some where")
        assert (code, said.strip()) == (0, "the tables are those of this version")

    assert asked(dsn, lambda db: db.fetchval('select count(*) from "some where".weft_runs')) == 0


def test_an_address_names_the_schema_for_every_command(dsn: str) -> None:
    address = f"{dsn}&schema=some%20where"
    assert weft("migrate", "--dsn", address)[0] == 0
    with Client(dsn, schema="some where") as client, Client(address) as same:
        client.start("chain", 1, id="there", queue="nobody")
        assert same.find("there").workflow == "chain"

    for command in ("ls", "show there", "log there", "versions"):
        code, said = weft(*command.split(), "--store", address)
        assert (code, "there" in said or "chain" in said) == (0, True), said
    for command in ("limits", "workers"):
        assert weft(command, "--store", address)[0] == 0
    assert "1 runs are due" in weft("doctor", "--quick", "--store", address)[1]
    code, said = weft("workers", "--dsn", address, "--schema", "elsewhere")
    assert code != 0
    assert "name it once" in said
    assert asked(dsn, lambda db: db.fetchval("select to_regclass('public.weft_runs') is null"))


def test_workers_of_several_databases_are_listed_and_drained(shards: Databases, tmp_path: Path) -> None:
    named = [option for each in shards.dsns[:2] for option in ("--dsn", each)]
    with Client(shards.dsns[:2], schema=shards.schema) as client, workers(shards.dsns[0], tmp_path) as fleet:
        fleet.start("--dsn", shards.dsns[1], "--schema", shards.schema)
        _until(lambda: len(client.workers()) == 2)

        code, said = weft("workers", *named, "--schema", shards.schema, "--json")
        assert code == 0
        ids = {each["id"] for each in json.loads(said)}
        assert len(ids) == 2
        for worker in ids:
            assert weft("drain", worker, *named, "--schema", shards.schema)[0] == 0
        _until(lambda: all(each.state == "drained" for each in client.workers()))


def test_migrate_says_what_is_wrong(dsn: str) -> None:
    weft("migrate", "--dsn", dsn)
    asked(dsn, lambda db: db.execute("insert into weft_schema (version) values (999)"))

    code, said = weft("migrate", "--dsn", dsn)

    assert code != 0
    assert "version 999" in said


def test_a_worker_process_is_drained_and_resumed_by_commands(dsn: str, tmp_path: Path) -> None:
    weft("migrate", "--dsn", dsn)
    with workers(dsn, tmp_path) as fleet, Client(dsn) as client:
        fleet.start("--health-port", "0")

        def state() -> str:
            _, said = weft("workers", "--dsn", dsn, "--json")
            return "".join(each["state"] for each in json.loads(said))

        _until(lambda: state() == "working")
        (worker,) = client.workers()
        assert weft("drain", worker.id, "--dsn", dsn)[0] == 0
        _until(lambda: state() == "drained")

        assert weft("drain", worker.id, "--resume", "--dsn", dsn)[0] == 0
        assert client.start("chain", 1).result(60) == 1
        code, said = weft("drain", "nope", "--dsn", dsn)
        assert code != 0
        assert "weft workers" in said
        (line,) = [each for each in (tmp_path / "errors").read_text().splitlines() if "health is reported" in each]
        with urllib.request.urlopen(f"http://127.0.0.1:{line.split()[-1]}/ready", timeout=30) as answer:
            assert json.load(answer)["id"] == worker.id


def _until(found: object) -> None:
    end = time.monotonic() + 60
    while not found():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)
