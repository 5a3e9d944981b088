"""Runs that are exported to a file, imported again, and compared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Run, Runner, Workflow, accumulator, each, events, reduce, step
from weft.errors import CorruptLog, InvalidArgument, RedactedRun, RunExists, RunFailed, RunNotFound
from weft.log.archive import decode_archive, encode_archive
from weft.log.redaction import Redacted
from weft.stores import MemoryStore

double = step(lambda x: x * 2, name="double")
flow = Workflow("flow", double >> step(lambda x: x + 1, name="add_one"))
large = Workflow("large", step(lambda n: "x" * n, name="text") >> step(len, name="length"))


def inverse(x: int) -> float:
    return 1 / x


failing = Workflow("failing", step(inverse))


@pytest.fixture
def other(tmp_path: Path) -> Any:
    with Runner(tmp_path / "other.db") as opened:
        yield opened


def test_an_exported_run_is_read_drawn_explained_and_forked_elsewhere(
    runner: Runner, other: Runner, tmp_path: Path
) -> None:
    runner.start(flow, 5, id="a").wait(20)
    runner.export("a", tmp_path / "a.weft")

    handle = other.import_run(tmp_path / "a.weft", by="ann")

    assert handle.result(20) == 11
    assert other.find("a").status == "completed"
    run = other.get("a")
    assert run.values("double") == [10]
    assert run.log()[:-1] == runner.log("a") or run.log()[1:-1] == runner.log("a")[1:]
    assert [event.by for event in run.log() if isinstance(event, events.RunImported)] == ["ann"]
    assert "double = 10" in str(run.explain("add_one"))
    assert "add_one" in run.to_mermaid()
    assert Run.from_log(run.log()) == run
    other.register(flow)
    assert other.fork("a", at="double", value=1).result(20) == 2


def test_the_file_holds_the_hash_chain_of_the_store(runner: Runner, tmp_path: Path) -> None:
    runner.start(large, 50_000, id="a").wait(20)
    runner.export("a", tmp_path / "a.weft")

    archive = decode_archive((tmp_path / "a.weft").read_bytes())

    record = runner.find("a")
    assert (archive.chain, archive.head, archive.redacted) == (record.chain, record.head, [])
    assert archive.log(large) == runner.log("a")


@pytest.mark.parametrize("field", ["bodies", "facts", "chain", "head"])
def test_a_file_that_was_altered_is_refused(runner: Runner, other: Runner, tmp_path: Path, field: str) -> None:
    runner.start(large, 50_000, id="a").wait(20)
    path = tmp_path / "a.weft"
    runner.export("a", path)
    data = path.read_bytes()

    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CorruptLog, match="the checksum is wrong"):
        other.import_run(path)
    path.write_bytes(b"something else")
    with pytest.raises(CorruptLog, match="not a run that was exported"):
        other.import_run(path)
    archive = decode_archive(data)
    wrong: dict[str, Any] = {
        "bodies": archive.bodies[:-1],
        "facts": dict.fromkeys(archive.facts, b"\x01"),
        "chain": bytes(32),
        "head": archive.head + 1,
    }
    from msgspec.structs import replace

    path.write_bytes(encode_archive(replace(archive, **{field: wrong[field]})))
    with pytest.raises(CorruptLog):
        other.import_run(path)
    assert other.count() == 0


def test_a_run_is_imported_under_another_id_and_not_over_one_that_exists(runner: Runner, tmp_path: Path) -> None:
    runner.start(flow, 5, id="a").wait(20)
    runner.export("a", tmp_path / "a.weft")

    with pytest.raises(RunExists, match=r"^run 'a' exists already; choose another id$"):
        runner.import_run(tmp_path / "a.weft")
    assert runner.import_run(tmp_path / "a.weft", "b").id == "b"

    assert runner.get("b").id == "b"
    assert runner.result("b") == 11


def test_a_run_that_had_not_finished_is_parked_until_it_is_resumed(
    runner: Runner, other: Runner, tmp_path: Path
) -> None:
    runner.start(flow, id="a")
    runner.send("a", 1).wait(20)
    runner.export("a", tmp_path / "a.weft")

    other.import_run(tmp_path / "a.weft")
    assert other.find("a").status == "parked"
    assert other.resume_all() == []
    other.resume("a", workflow=flow)
    assert other.send("a", 2).result(20) == 5
    assert runner.send("a", 3).result(20) == 7


def test_a_failed_run_is_imported_with_its_failures(runner: Runner, other: Runner, tmp_path: Path) -> None:
    runner.start(failing, 0, id="a").wait(20)
    runner.export("a", tmp_path / "a.weft")

    handle = other.import_run(tmp_path / "a.weft")

    with pytest.raises(RunFailed, match="ZeroDivisionError"):
        handle.result(20)
    assert other.find("a").failures == 1


def test_redacted_values_are_replaced_by_their_class_and_a_hash(runner: Runner, other: Runner, tmp_path: Path) -> None:
    total = accumulator(lambda a, x: a + x, init=0, name="total")
    kinds = Workflow(
        "kinds", each(double) >> reduce(lambda a, b: a + b, init=0, name="sum"), step(sum, name="s") >> total
    )
    runner.start(kinds, [1, 1, 2], id="a").wait(20)
    runner.export("a", tmp_path / "a.weft", redact=["INPUT", "double", "map_1"])

    other.import_run(tmp_path / "a.weft")

    run = other.get("a")
    one, again, two = run.values("double")
    assert (one.type, one) == ("int", again)
    assert one.hash != two.hash
    assert run.value("sum") == 8
    assert isinstance(run.facts()[0].value, Redacted)
    assert runner.get("a").values("double") == [2, 2, 4]
    archive = decode_archive((tmp_path / "a.weft").read_bytes())
    assert archive.redacted == ["INPUT", "double", "map_1"]
    runner.export("a", tmp_path / "b.weft", redact=["double"])
    other.import_run(tmp_path / "b.weft", "b")
    assert other.get("b").values("double")[0].hash != one.hash, "the key of a file is its own"


def test_everything_or_what_a_function_says_is_redacted(runner: Runner, other: Runner, tmp_path: Path) -> None:
    runner.start(flow, 5, id="a").wait(20)
    runner.start(failing, 0, id="f").wait(20)
    runner.export("a", tmp_path / "a.weft", redact=True)
    runner.export("a", tmp_path / "b.weft", redact=lambda name, value: "secret" if name == "double" else value)
    runner.export("f", tmp_path / "f.weft", redact=["inverse"])

    for name in ("a", "b", "f"):
        other.import_run(tmp_path / f"{name}.weft", name)

    assert {type(fact.value) for fact in other.get("a").facts()} == {Redacted}
    assert other.get("b").values() == ["secret", 11]
    [failure] = other.get("f").failures.values()
    assert "(redacted)" in str(failure)
    assert b"division" not in (tmp_path / "f.weft").read_bytes()
    with pytest.raises(InvalidArgument, match="redact='double'"):
        runner.export("a", tmp_path / "c.weft", redact="double")
    assert not (tmp_path / "c.weft").exists()


def test_a_redacted_run_is_not_resumed_and_can_be_forked(runner: Runner, other: Runner, tmp_path: Path) -> None:
    runner.start(flow, id="a")
    runner.send("a", 1).wait(20)
    runner.export("a", tmp_path / "a.weft", redact=["double"])
    other.import_run(tmp_path / "a.weft")

    with pytest.raises(RedactedRun, match=r"without some of its values \(double\)"):
        other.resume("a", workflow=flow)
    assert other.find("a").owner is None
    other.register(flow)
    fork = other.fork("a", "b", at="double", value=7)
    assert fork.wait(20).value("add_one") == 8


def test_a_run_that_is_not_there_is_not_exported(runner: Runner, tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        runner.export("nothing", tmp_path / "a.weft")
    assert list(tmp_path.glob("*.weft*")) == []


def test_two_stored_runs_are_compared(runner: Runner) -> None:
    runner.start(flow, 5, id="a").wait(20)
    runner.fork("a", "b", at="double", value=1).wait(20)

    found = runner.diff("a", "b")

    assert found.first is not None
    assert (found.first.component, found.first.one, found.first.other) == ("double", 10, 1)


READER = """
import sys
from weft import Runner
with Runner() as runner:
    runner.import_run(sys.argv[1])
    run = runner.get("a")
    print(run.value("add_one"), run.status, len(str(run.explain("add_one"))) > 0)
    runner.export("a", sys.argv[2])
"""


def test_a_process_without_the_code_reads_the_run_and_passes_it_on(runner: Runner, tmp_path: Path) -> None:
    runner.start(flow, 5, id="a").wait(20)
    runner.export("a", tmp_path / "a.weft")

    said = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path / "a.weft"), str(tmp_path / "b.weft")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout.split() == ["11", "completed", "True"]
    with Runner(MemoryStore()) as third:
        third.register(flow)
        third.import_run(tmp_path / "b.weft")
        assert third.fork("a", at="double", value=1).result(20) == 2


def test_an_async_runner_has_the_same_methods() -> None:
    for name in ("diff", "export", "import_run", "fork", "upgrade", "retry"):
        assert callable(getattr(AsyncRunner, name))
        assert callable(getattr(Runner, name))
