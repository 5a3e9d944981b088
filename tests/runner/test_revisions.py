"""Retries of halted failures, forks, upgrades and changed code, on every store."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from weft import INPUT, AsyncRunner, Policy, Run, Runner, Saga, Workflow, current, each, events, reduce, step
from weft.errors import (
    AnotherGraph,
    ChangedCode,
    InvalidArgument,
    InvalidPolicy,
    RunClosed,
    RunExists,
    RunFailed,
    RunNotFound,
    RunOwned,
    RunParked,
    UnencodableValue,
)
from weft.ports.store import LogStore
from weft.runner.durability import unsaved
from weft.stores import MemoryStore
from weft.testing.faults import Fault, FaultyStore


class Gate:
    """A function that fails until it is open, and counts its calls."""

    def __init__(self) -> None:
        self.is_open, self.calls = False, list[Any]()

    def __call__(self, x: Any) -> Any:
        self.calls.append(x)
        if not self.is_open:
            raise ValueError("closed")
        return x


def gated(gate: Gate) -> Workflow:
    return Workflow("gated", step(gate, name="gate") >> double, add_one)


double = step(lambda x: x * 2, name="double")
add_one = step(lambda x: x + 1, name="add_one")
pair = step(lambda a, b: (a, b), name="pair")
both = Workflow("both", double, add_one, [double, add_one] >> pair)


def same(run: Run) -> Run:
    """Return *run*, which is the fold of its log."""
    assert Run.from_log(run.log()) == run
    return run


# -- retry ---------------------------------------------------------------------------------------


def test_a_failed_run_is_retried_under_its_id_and_completes(runner: Runner) -> None:
    gate = Gate()
    handle = runner.start(gated(gate), 5, id="a")
    with pytest.raises(RunFailed):
        handle.result(20)
    assert (runner.find("a").status, runner.held) == ("failed", [])

    gate.is_open = True
    again = runner.retry("a", by="ann")

    assert again.wait(20).results() == {"double": 10, "add_one": 6}
    record = runner.find("a")
    assert (record.status, record.failures, record.owner) == ("completed", 0, None)
    run = same(runner.get("a"))
    assert [event.by for event in run.log() if isinstance(event, events.RunRetried)] == ["ann"]
    assert gate.calls == [5, 5]


def test_a_run_that_fails_again_can_be_retried_again(runner: Runner) -> None:
    gate = Gate()
    runner.start(gated(gate), 5, id="a").wait(20)

    runner.retry("a").wait(20)
    assert runner.find("a").status == "failed"
    gate.is_open = True
    runner.retry("a").wait(20)

    assert runner.find("a").status == "completed"
    assert same(runner.get("a")).results() == {"double": 10, "add_one": 6}


def test_an_open_run_is_retried_while_other_inputs_are_in_flight(runner: Runner) -> None:
    gate, entered, leave = Gate(), threading.Event(), threading.Event()
    slow_calls = list[int]()

    def slow(x: int) -> int:
        slow_calls.append(x)
        if x == 2:
            entered.set()
            leave.wait(20)
        return x

    flow = Workflow("w", step(gate, name="gate"), step(slow, name="slow"))
    runner.start(flow, id="a")
    first = runner.send("a", 1)
    runner.wait("a", 20)
    gate.is_open = True
    second = runner.send("a", 2)
    assert entered.wait(20)

    runner.retry("a")
    leave.set()

    assert first.result(20) == {"gate": 1, "slow": 1}
    assert second.result(20) == {"gate": 2, "slow": 2}
    assert slow_calls == [1, 2], "what was in flight is not disturbed"
    assert same(runner.get("a")).failures == {}


def test_a_retry_survives_the_process(tmp_path: Path) -> None:
    gate = Gate()
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(gated(gate), 5, id="a").wait(20)
    gate.is_open = True
    with Runner(tmp_path / "runs.db") as runner:
        runner.register(gated(gate))
        assert runner.retry("a").wait(20).status == "completed"
    with Runner(tmp_path / "runs.db") as runner:
        runner.register(gated(gate))
        assert same(runner.get("a")).results() == {"double": 10, "add_one": 6}
        assert runner.results("a") == {"double": 10, "add_one": 6}


# -- fork ----------------------------------------------------------------------------------------


def test_a_fork_runs_what_depends_on_the_edit_and_leaves_the_original(runner: Runner) -> None:
    runner.start(both, 3, id="a").wait(20)
    before = runner.log("a")

    fork = runner.fork("a", "b", at="double", value=100, by="ann")

    assert fork.result(20) == (100, 4)
    assert runner.find("b").status == "completed"
    assert runner.log("a") == before
    log = runner.log("b")
    assert [(event.origin, event.by) for event in log if isinstance(event, events.RunForked)] == [("a", "ann")]
    assert [event.component for event in log if event.seq > len(before) and isinstance(event, events.Activated)] == [
        "pair"
    ]
    same(runner.get("b"))


def test_a_fork_of_a_run_that_is_stored_alone(tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(both, 3, id="a").wait(20)
    with Runner(tmp_path / "runs.db") as runner:
        runner.register(both)
        assert runner.fork("a", at=INPUT, value=10).result(20) == (20, 11)
        assert runner.count() == 2


def test_a_run_that_another_process_drives_is_forked_without_taking_it(tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db") as owner, Runner(tmp_path / "runs.db") as other:
        owner.start(both, id="a")
        owner.send("a", 3).result(20)
        other.register(both)

        assert other.fork("a", "b", at="add_one", value=0).wait(20).value("pair") == (6, 0)

        assert owner.held == ["a"]
        assert owner.send("a", 4).result(20) == (8, 5)
        assert other.status("b") == "idle"
        assert other.send("b", 5).result(20) == (10, 6)


def test_a_run_in_flight_is_forked_as_far_as_it_is_stored(runner: Runner) -> None:
    entered, leave = threading.Event(), threading.Event()
    calls = list[str]()

    def slow(x: int) -> int:
        calls.append(str(current().run_id))
        entered.set()
        leave.wait(20)
        return x

    handle = runner.start(Workflow("w", double >> step(slow, name="slow")), 2, id="a", max_concurrency=1)
    assert entered.wait(20)

    fork = runner.fork("a", "b", at="double", value=7)
    leave.set()

    assert (handle.result(20), fork.result(20)) == (4, 7)
    assert sorted(calls) == ["a", "b"]


def test_a_parked_run_is_forked(runner: Runner) -> None:
    trip = Saga("trip")

    def fail(request: Any, results: Any) -> Any:
        raise ValueError("no")

    book = trip.transaction(lambda request, results: "booked", name="book")
    book.compensate(fail)
    trip.transaction(fail, name="pay", compensate=None)
    runner.start(Workflow("w", trip), 1, id="p")
    with pytest.raises(RunParked):
        runner.wait("p", 20)

    fork = runner.fork("p", "q", at="trip.pay", value="paid")

    assert fork.wait(20).state_of("trip").status == "completed"
    assert runner.status("p") == "parked"


def test_the_idempotency_keys_of_a_fork_are_its_own(runner: Runner) -> None:
    keys = list[str]()
    flow = Workflow("w", step(lambda x: keys.append(current().idempotency_key), name="work"))
    runner.start(flow, 1, id="a").wait(20)

    runner.fork("a", at="work").wait(20)

    assert len(set(keys)) == 2


def test_a_fork_under_another_policy(runner: Runner) -> None:
    gate = Gate()
    runner.start(gated(gate), 5, id="a").wait(20)

    fork = runner.fork("a", at="gate", policies=[("gate", Policy(max_retries=2))])
    fork.wait(20)

    assert len(gate.calls) == 1 + 3
    with pytest.raises(InvalidPolicy):
        runner.fork("a", "c", at="gate", policies=[("gate", Policy(executor="nowhere"))])
    with pytest.raises(RunNotFound):
        runner.find("c")


def test_a_fork_is_refused_before_anything_is_written(runner: Runner) -> None:
    runner.start(both, 3, id="a").wait(20)

    with pytest.raises(RunExists):
        runner.fork("a", "a")
    with pytest.raises(RunNotFound):
        runner.fork("nothing")
    with pytest.raises(InvalidArgument):
        runner.fork("a", at=99)
    with pytest.raises(UnencodableValue):
        runner.fork("a", at="double", value=object())
    assert runner.count() == 1
    assert runner.held == []


def test_the_preview_of_a_fork_changes_nothing(runner: Runner) -> None:
    runner.start(both, 3, id="a").wait(20)

    assert str(runner.fork("a", at="double", value=1, preview=True)) == "runs: pair\nstands: double, add_one"
    assert runner.count() == 1


def test_a_long_run_is_forked_in_one_transaction(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsaved, "MOST", 8)
    total = reduce(lambda a, b: a + b, init=0, name="total")
    flow = Workflow("w", each(step(lambda x: x, name="work")) >> total)
    runner.start(flow, list(range(50)), id="a").wait(20)
    large = runner.start(Workflow("v", step(lambda x: "x" * x, name="large") >> step(len, name="len")), 50_000, id="l")
    large.wait(20)

    [third] = [fact for fact in runner.get("a").facts("work") if fact.value == 3]  # threads end in any order
    assert runner.fork("a", at=third, value=1000).result(20) == sum(range(50)) - 3 + 1000
    assert runner.fork("l", "m", at="large", value="y" * 60_000).result(20) == 60_000
    runner.fork("l", "n").wait(20)
    assert runner.get("n").value("large") == "x" * 50_000


@pytest.mark.parametrize("fault", [Fault.fail, Fault.fail_after])
def test_a_fork_whose_store_was_unavailable_is_made_once(fault: Any) -> None:
    script: dict[tuple[str, int], Fault] = {}

    async def main() -> tuple[Any, int]:
        store = FaultyStore(MemoryStore(), lambda call, number: script.get((call, number)))
        async with AsyncRunner(store) as runner:
            await (await runner.start(both, 3, id="a")).wait()
            script["append", store.calls["append"] + 1] = fault()
            fork = await runner.fork("a", "b", at="double", value=0)
            return await fork.result(), await runner.count()

    assert asyncio.run(main()) == ((0, 4), 2)


# -- upgrade -------------------------------------------------------------------------------------


def held_up(entered: threading.Event, leave: threading.Event) -> Any:
    def slow(x: int) -> int:
        entered.set()
        leave.wait(20)
        return x

    return step(slow, name="slow")


def test_a_run_is_upgraded_while_it_runs(runner: Runner) -> None:
    entered, leave = threading.Event(), threading.Event()
    slow = held_up(entered, leave)
    handle = runner.start(Workflow("w", double >> slow), 5, id="a")
    assert entered.wait(20)
    new = Workflow("w", double >> slow >> step(lambda x: -x, name="negative"))

    preview = runner.upgrade("a", new, preview=True)
    runner.upgrade("a", new, by="ann")
    leave.set()

    assert (dict(preview.stands), preview.new) == ({"double": 1}, ("negative",))
    assert handle.wait(20).results() == {"negative": -10}
    assert runner.find("a").version == new.version
    assert [event.by for event in runner.log("a") if isinstance(event, events.RunUpgraded)] == ["ann"]
    same(runner.get("a"))


def test_work_that_is_queued_goes_on_when_an_upgrade_abandons_other_work(runner: Runner) -> None:
    entered, leave = threading.Event(), threading.Event()
    slow = held_up(entered, leave)
    runner.start(Workflow("w", slow, double, add_one), 5, id="a", max_concurrency=1)
    assert entered.wait(20)  # the others wait for its slot

    upgraded = runner.upgrade("a", Workflow("w", double, add_one))

    assert upgraded.wait(20).results() == {"double": 10, "add_one": 6}
    leave.set()


def test_values_that_leave_memory_while_a_run_is_forked_are_read_from_the_store() -> None:
    class Evicting(MemoryStore):
        async def find(self, run: str) -> Any:
            await runner.evict()
            return await super().find(run)

    runner = AsyncRunner(Evicting(), executor="inline")

    async def main() -> None:
        async with runner:
            await runner.start(Workflow("w", double >> add_one), id="a")
            for number in range(3):
                await (await runner.send("a", number)).wait()
            fork = await runner.fork("a", at="double", value=10)
            assert (await fork.wait()).values("add_one") == [1, 3, 11]

    asyncio.run(main())


@pytest.mark.parametrize("ends", ["completed", "cancelled"])
def test_an_upgrade_of_what_takes_nothing_more_is_refused_in_the_preview_too(runner: Runner, ends: str) -> None:
    runner.start(Workflow("w", double), id="a")
    runner.finish("a") if ends == "completed" else runner.cancel("a", "enough")
    new = Workflow("w", double >> add_one)

    for preview in (True, False):
        with pytest.raises(RunClosed, match=ends):
            runner.upgrade("a", new, preview=preview)


def test_work_in_flight_that_the_new_graph_does_not_have_is_abandoned(runner: Runner) -> None:
    entered, leave = threading.Event(), threading.Event()
    runner.start(Workflow("w", double >> held_up(entered, leave)), 5, id="a")
    assert entered.wait(20)

    upgraded = runner.upgrade("a", Workflow("w", double >> step(lambda x: -x, name="negative")))

    assert upgraded.wait(20).results() == {"negative": -10}
    leave.set()
    assert runner.find("a").status == "completed"


def test_a_run_that_no_process_holds_is_loaded_for_its_upgrade(tmp_path: Path) -> None:
    gone = step(lambda x: x, name="gone")
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(Workflow("w", double >> gone), id="a")
        runner.send("a", 1).wait(20)
    new = Workflow("w", double >> add_one)
    with Runner(tmp_path / "runs.db") as runner:
        with pytest.raises(AnotherGraph):
            runner.resume("a", workflow=new)
        runner.upgrade("a", new)
        assert runner.held == ["a"]
        assert runner.send("a", 2).result(20) == 5
    with Runner(tmp_path / "runs.db") as runner:
        runner.resume("a", workflow=new)
        assert runner.send("a", 3).result(20) == 7
        assert same(runner.get("a")).values("double") == [2, 4, 6]


def test_a_run_that_another_process_holds_is_not_upgraded(tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db") as owner, Runner(tmp_path / "runs.db") as other:
        owner.start(both, id="a")
        with pytest.raises(RunOwned):
            other.upgrade("a", Workflow("both", double))


def test_a_failed_run_is_upgraded_and_then_retried(runner: Runner) -> None:
    gate = Gate()
    runner.start(gated(gate), 5, id="a").wait(20)
    mended = Workflow("gated", step(lambda x: x, name="gate") >> double >> step(lambda x: -x, name="more"), add_one)

    runner.upgrade("a", mended).wait(20)
    assert runner.find("a").status == "failed"
    runner.retry("a").wait(20)

    assert (runner.find("a").status, runner.results("a")) == ("completed", {"more": -10, "add_one": 6})


def test_a_completed_run_is_not_upgraded(runner: Runner) -> None:
    runner.start(both, 3, id="a").wait(20)
    with pytest.raises(RunClosed):
        runner.upgrade("a", Workflow("both", double))
    runner.start(both, id="b")
    with pytest.raises(InvalidArgument, match="another version of 'both'"):
        runner.upgrade("b", Workflow("other", double))


# -- changed code --------------------------------------------------------------------------------


def version_of(text: str) -> Workflow:
    """Return a workflow with one function in which *text* is the code, as an edited module would have it."""
    scope: dict[str, Any] = {"__name__": __name__}
    exec(text, scope)  # noqa: S102 - it stands for another version of a module
    return Workflow("w", double >> step(scope["work"], name="work"))


def test_changed_code_is_noted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "weft.runner")
    old, new = version_of("def work(x): return x"), version_of("def work(x): return -x")
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(old, id="a")
        assert runner.send("a", 1).result(20) == 2
    for _ in range(2):
        with Runner(tmp_path / "runs.db") as runner:
            runner.resume("a", workflow=new)
            assert runner.send("a", 1).result(20) == -2

    with Runner(tmp_path / "runs.db") as runner:
        changes = [event for event in runner.log("a") if isinstance(event, events.CodeChanged)]
    assert [event.components for event in changes] == [("work",)]
    assert caplog.text.count("run 'a' continues with changed code of 'work'") == 1


def test_changed_code_is_refused_if_that_is_asked_for(tmp_path: Path) -> None:
    with Runner(tmp_path / "runs.db") as runner:
        runner.start(version_of("def work(x): return x"), id="a")
    with Runner(tmp_path / "runs.db") as runner:
        with pytest.raises(ChangedCode):
            runner.resume("a", workflow=version_of("def work(x): return -x"), strict=True)
        assert not any(isinstance(event, events.CodeChanged) for event in runner.log("a"))


def test_two_callers_that_retry_a_halted_run_at_once_run_it_once(store: LogStore) -> None:
    gate = Gate()

    async def main() -> None:
        async with AsyncRunner(store) as runner:
            await (await runner.start(gated(gate), 5, id="a")).wait()
            gate.is_open = True
            await asyncio.gather(runner.retry("a"), runner.retry("a"), return_exceptions=True)
            await runner.wait("a")

    asyncio.run(main())
    assert gate.calls == [5, 5]
