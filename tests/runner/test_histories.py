"""Logs that are truncated: the run goes on, and what is gone is said to be gone."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from callers import T
from virtual_time import virtually

from weft import AsyncRunner, Policy, Runner, Workflow, accumulator, condition, each, join, reduce, step, wait_for
from weft.core.events import LogTruncated
from weft.core.run.run import Run
from weft.errors import (
    HistoryTruncated,
    InvalidEvent,
    NoSnapshot,
    OwnershipLost,
    RunExists,
    RunFailed,
    RunNotFound,
    RunOwned,
)
from weft.log.kept_causes import KeptCauses
from weft.log.outcome import decode_outcome
from weft.policy import DEFAULT
from weft.stores import MemoryStore, SQLiteStore, SQLiteView
from weft.stores.sqlite.checkup import Checkup
from weft.testing import FaultyStore
from weft.testing.faults import Fault
from weft.testing.wrapping import WrappedStore

total = accumulator(operator.add, init=0, name="total")
double = step(lambda x: 2 * x, name="double")
blob = step(lambda x: bytes([x % 256]) * 3_000, name="blob")
WORKFLOW = Workflow("sums", double >> total, blob)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return an empty store."""
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db", synchronous="normal")


def filled(runner: Runner, count: int = 40, run: str = "r") -> None:
    runner.start(WORKFLOW, id=run)
    for number in range(count):
        runner.send(run, number).result()


@pytest.fixture
def runner(store: Any) -> Iterator[Runner]:
    with Runner(store, executor="inline", snapshot_every=20) as made:
        made.register(WORKFLOW)
        yield made


class TestARunThatWasTruncated:
    @pytest.fixture(autouse=True)
    def _truncated(self, runner: Runner) -> None:
        filled(runner)
        before = runner.log("r")
        runner.stop("r")
        self.removed = runner.truncate("r")
        self.before = before
        assert 0 < self.removed < len(before)

    def test_its_log_begins_with_what_says_so(self, runner: Runner) -> None:
        log = runner.log("r")

        assert log == [LogTruncated(self.removed), *self.before[self.removed :]]
        assert runner.find("r").first == self.removed + 1
        assert next(iter(runner.events("r"))) == log[0]
        with pytest.raises(InvalidEvent, match="were removed"):
            Run.from_log(log)

    def test_its_state_and_its_results_are_what_they_were(self, runner: Runner) -> None:
        run = runner.get("r")

        assert run.state_of("total") == sum(2 * number for number in range(40))
        assert runner.results("r") == {"total": run.state_of("total"), "blob": bytes([39]) * 3_000}
        assert (run.status, runner.status("r")) == ("idle", "idle")

    @pytest.mark.parametrize("rehydration", ["full", "hybrid", "lazy"])
    def test_it_is_resumed_and_goes_on(self, runner: Runner, rehydration: Any) -> None:
        runner.resume("r", rehydration=rehydration)

        assert runner.send("r", 100).result()["total"] == 1_760
        assert runner.log("r")[0] == LogTruncated(self.removed)
        assert runner.log("r")[-1].seq == runner.find("r").head

    def test_what_needs_the_history_is_refused_and_names_the_first_event(self, runner: Runner, tmp_path: Path) -> None:
        with pytest.raises(HistoryTruncated, match=f"begins with event {self.removed + 1}"):
            runner.export("r", tmp_path / "r.weft")
        with pytest.raises(HistoryTruncated):
            runner.fork("r", "fork")
        for at in (3, self.removed, len(self.before), "double"):
            with pytest.raises(HistoryTruncated):
                runner.fork("r", "fork", at=at)
        with pytest.raises(HistoryTruncated):
            runner.get("r").values("double")
        with pytest.raises(HistoryTruncated):
            runner.upgrade("r", Workflow("sums", double >> total))
        runner.start(WORKFLOW, 1, id="other").wait()
        for pair in (("r", "r"), ("other", "r"), ("r", "other")):
            with pytest.raises(HistoryTruncated):
                runner.diff(*pair)
        runner.resume("r", rehydration="lazy")
        with pytest.raises(HistoryTruncated):
            runner.diff("other", "r")
        with pytest.raises(HistoryTruncated):
            runner.add("r", step(abs, name="more"))
        assert runner.send("r", 1).result()["total"] == 1_562, "nothing of that has changed it"

    def test_it_is_truncated_further_when_it_has_gone_on(self, runner: Runner) -> None:
        assert runner.truncate("r") == 0
        runner.resume("r")
        for number in range(40):
            runner.send("r", number).result()

        removed = runner.truncate("r")

        assert removed > 0
        assert runner.find("r").first == self.removed + removed + 1
        runner.stop("r")
        assert runner.get("r").state_of("total") == 2 * sum(2 * number for number in range(40))


def test_a_run_is_truncated_while_it_goes_on(runner: Runner) -> None:
    filled(runner)

    removed = runner.truncate("r")

    assert removed > 0
    assert runner.send("r", 3).result() == {"total": 1_566, "blob": b"\3" * 3_000}, "a value that was removed"
    assert runner.find("r").first == removed + 1
    runner.stop("r")
    assert runner.get("r").state_of("total") == 1_566
    assert runner.results("r")["blob"] == b"\3" * 3_000


@pytest.mark.parametrize("rehydration", [None, "full", "hybrid"])
def test_a_run_that_was_truncated_here_is_not_changed_or_revised(runner: Runner, store: Any, rehydration: Any) -> None:
    """Its owner may have the whole log in memory, but the next one could not read it again."""
    broken = [True]

    def attempt(x: int) -> int:
        if x == 1 and broken:
            raise ValueError("not yet")
        return x

    flow = Workflow("picky", step(attempt, name="picky") >> total)
    runner.start(flow, id="r")
    for number in range(30):
        runner.send("r", number).wait()
    if rehydration is not None:
        runner.stop("r")
        runner.resume("r", workflow=flow, rehydration=rehydration)
    assert runner.truncate("r") > 0
    broken.clear()

    new = Workflow("picky", step(attempt, name="picky") >> total, double)
    calls = (
        lambda: runner.upgrade("r", new),
        lambda: runner.add("r", double),
        lambda: runner.remove("r", "total"),
        lambda: runner.retry("r"),
    )
    for call in calls:
        with pytest.raises(HistoryTruncated):
            call()

    assert runner.send("r", 100).result() == sum(range(30)) - 1 + 100
    runner.stop("r")
    runner.resume("r", workflow=flow)
    assert runner.send("r", 1).result() == sum(range(30)) + 100
    assert runner.get("r").workflow.components.keys() == {"picky", "total"}


def test_values_that_only_the_removed_events_have_are_removed_too(runner: Runner, store: Any) -> None:
    filled(runner)
    before = count_facts(store)

    runner.truncate("r")

    assert before == 40
    assert 0 < count_facts(store) < 25


def count_facts(store: Any) -> int:
    if isinstance(store, MemoryStore):
        return len(store._runs["r"].facts or ())
    with SQLiteView(store.path) as view:
        return len(view.facts("r"))


def test_inputs_that_come_meanwhile_are_not_lost() -> None:
    asyncio.run(_send_meanwhile())


async def _send_meanwhile() -> None:
    async with AsyncRunner(MemoryStore(), executor="inline", snapshot_every=10) as runner:
        await runner.start(WORKFLOW, id="r")
        for number in range(20):
            await runner.send("r", number)

        async def send() -> None:
            for number in range(50):
                await runner.send("r", number)

        _, removed, more = await asyncio.gather(send(), runner.truncate("r"), runner.truncate("r"))

        assert removed + more > 0
        run = await runner.wait("r")
        assert run.state_of("total") == 2 * (sum(range(20)) + sum(range(50)))
        await runner.stop("r")
        assert (await runner.get("r")).state_of("total") == run.state_of("total")


def test_the_chain_of_what_is_left_verifies(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(path, executor="inline", snapshot_every=20) as runner:
        filled(runner)
        removed = runner.truncate("r")
        head = runner.find("r").head

    checkup = Checkup(path, is_quick=False, tell=lambda *_: None)

    assert list(checkup.findings()) == []
    assert checkup.events == head - removed


def test_a_run_without_a_snapshot_is_not_truncated(store: Any) -> None:
    with Runner(store, executor="inline") as runner:
        filled(runner, 5)

        with pytest.raises(NoSnapshot, match="snapshot_every="):
            runner.truncate("r")
        with pytest.raises(RunNotFound):
            runner.truncate("nope")

        assert runner.find("r").first == 1
        assert runner.send("r", 1).result()["total"] == 22


def test_a_run_of_another_process_is_not_truncated(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Runner(path, executor="inline", snapshot_every=5) as one, Runner(SQLiteStore(path)) as other:
        filled(one, 10)

        with pytest.raises(RunOwned):
            other.truncate("r")


def test_a_damaged_snapshot_is_not_relied_on(tmp_path: Path) -> None:
    store = MemoryStore()
    with Runner(store, executor="inline", snapshot_every=5) as runner:
        filled(runner, 10)
        runner.stop("r")
        stored = store._runs["r"].snapshot
        assert stored is not None
        store._runs["r"].snapshot = type(stored)(stored.position, stored.body[:-1])

        with pytest.raises(NoSnapshot, match="cannot be used"):
            runner.truncate("r")

        assert len(runner.get("r").values("double")) == 10


@pytest.mark.parametrize("fault", [Fault.fail(), Fault.fail_after()])
def test_an_answer_that_was_lost_is_asked_for_again(fault: Fault) -> None:
    async def act() -> None:
        faults = {("truncate_before", 1): fault}
        store = FaultyStore(MemoryStore(), lambda call, number: faults.get((call, number)))
        async with AsyncRunner(store, executor="inline", snapshot_every=10) as runner:
            await runner.start(WORKFLOW, id="r")
            for number in range(20):
                await runner.send("r", number)
            await runner.wait("r")

            assert await runner.truncate("r") > 0

            assert (await runner.find("r")).first > 1
            handle = await runner.send("r", 1)
            assert (await handle.result())["total"] == 382

    asyncio.run(act())


class Meanwhile(WrappedStore):
    """Does something else before the first truncation."""

    act: Callable[[], Awaitable[object]]

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        if call == "truncate_before" and (meanwhile := self.__dict__.pop("act", None)) is not None:
            await meanwhile()
        return await act()


async def fill(runner: AsyncRunner) -> None:
    await runner.start(WORKFLOW, id="r")
    for number in range(40):
        await (await runner.send("r", number)).result()


@pytest.mark.parametrize("leaves", [False, True])
@virtually
async def test_a_run_whose_worker_is_rebuilt_meanwhile_is_truncated_all_the_same(leaves: bool) -> None:
    """The next worker owns the run in a new epoch; here it may finish too, before the store has answered."""
    store = Meanwhile(MemoryStore())
    async with AsyncRunner(store, executor="inline", snapshot_every=20) as runner:
        registry = runner._runtime.registry

        async def crash() -> None:
            worker = registry.get("r")
            assert worker is not None
            registry.crashed(worker, ValueError("a bug"))
            await registry.supervisor.restarted("r")
            assert registry.get("r") not in (None, worker)
            if leaves:
                await runner.finish("r")
                await runner.wait("r")
                assert "r" not in registry

        await fill(runner)
        store.act = crash

        removed = await runner.truncate("r")

        assert removed > 0
        assert (await runner.find("r")).first == removed + 1
        if not leaves:
            assert (await (await runner.send("r", 3)).result()) == {"total": 1_566, "blob": b"\3" * 3_000}
            await runner.stop("r")
        assert (await runner.get("r")).state_of("total") == 1_560 + 6 * (not leaves)


@virtually
async def test_a_run_that_another_owner_has_taken_over_is_not_truncated() -> None:
    """The worker of that owner may rely on values that would be removed."""
    store = MemoryStore()
    async with AsyncRunner(store, executor="inline", snapshot_every=20) as runner:
        await fill(runner)
        await store.acquire("r")

        with pytest.raises(OwnershipLost):
            await runner.truncate("r")

        assert (await runner.find("r")).first == 1
        assert len((await runner.get("r")).values("double")) == 40


def test_a_run_that_waits_is_truncated_and_gets_its_signal(store: Any) -> None:
    waits = Workflow("waits", double >> total, step(lambda x: x, name="asks") >> wait_for("go", name="go"))
    with Runner(store, executor="inline", snapshot_every=10) as runner:
        runner.start(waits, id="r")
        for number in range(10):
            runner.send("r", number)
        runner.wait_until("r", lambda run: run.value("total", default=0) == 90)
        runner.stop("r")

        assert runner.truncate("r") > 0

        runner.resume("r", workflow=waits)
        for number in range(10):
            runner.signal("r", "go", number)
        assert runner.wait("r").results()["go"] == 9


def test_a_truncated_run_ends_with_its_result(store: Any) -> None:
    with Runner(store, executor="inline", snapshot_every=10) as runner:
        filled(runner, 20)
        runner.truncate("r")
        runner.stop("r")
        runner.resume("r", workflow=WORKFLOW)
        runner.finish("r")

        assert runner.wait("r").status == "completed"
        assert runner.results("r")["total"] == 380


def test_the_result_of_a_truncated_run_leaves_out_what_produced_nothing(store: Any) -> None:
    """The reason that a leaf has produced nothing may be in what was removed; the results of others are kept."""
    small = condition(lambda x: x < 10, name="small")
    flow = Workflow("flow", small >> step(lambda x: x, name="low"), step(lambda x: -x, name="minus"))
    with Runner(store, executor="inline", snapshot_every=10) as runner:
        runner.start(flow, id="r")
        for number in (*range(20), 100):
            runner.send("r", number).result()
        assert runner.truncate("r") > 0
        runner.stop("r")
        runner.resume("r", workflow=flow)
        runner.finish("r")

        assert runner.wait("r").status == "completed"
        assert runner.result("r") == {"minus": -100}
    with Runner(store, executor="inline") as runner:
        assert runner.result("r") == {"minus": -100}


def its_signal(name: str = "go") -> Any:
    """Return a wait for a pair of what arrived and the value to go on with, and a step that takes the value."""
    return wait_for("go", match=lambda sent, x: sent[0] == x, name=name) >> step(operator.itemgetter(1), name="sent")


def several_leaves() -> Workflow:
    sent = its_signal()
    return Workflow("flow", sent >> step(abs), sent >> step(lambda x: -x, name="minus") >> step(float) >> step(str))


def join_that_misses_one() -> Workflow:
    sent, never = its_signal(), condition(lambda _: False, name="never")
    missing = sent >> never >> step(abs)
    joined = join(missing, sent >> step(float), wait="all_done") >> step(lambda _, x: x, name="second")
    return Workflow("flow", joined, sent >> step(str))


def reduced() -> Workflow:
    parts = step(lambda x: [x, x + 1], name="parts")
    return Workflow("flow", its_signal() >> parts >> each(step(abs)) >> reduce(operator.add, init=0, name="sum"))


def join_that_misses_all() -> Workflow:
    sent, never = its_signal(), condition(lambda _: False, name="never")
    joined = join(sent >> never >> step(abs), never >> step(float), wait="all_done")
    return Workflow("flow", joined >> step(lambda *_: "none", name="none"), sent >> step(str))


def end_after_an_input_that_was_removed(runner: Runner, flow: Workflow, id: str, *, truncates: bool) -> None:
    """Run *flow* to its end: its first input waits while its event is removed, and is done after the second one."""
    runner.start(flow, id=id)
    runner.send(id, 1)
    runner.wait_until(id, lambda run: run.memory.waiting)
    runner.stop(id)
    assert not truncates or runner.truncate(id) > 1
    runner.resume(id, workflow=flow)
    runner.send(id, 2)
    for left, number in ((1, 2), (0, 1)):
        runner.signal(id, "go", (number, 10 * number))
        runner.wait_until(id, lambda run, left=left: len(run.memory.waiting or ()) == left)
    runner.stop(id)
    runner.resume(id, workflow=flow)
    runner.finish(id)
    runner.wait(id)


@pytest.mark.parametrize("made", [several_leaves, join_that_misses_one, reduced])
def test_facts_of_an_input_that_was_removed_are_not_in_the_way_of_a_later_result(
    made: Callable[[], Workflow],
) -> None:
    flow, store = made(), MemoryStore()
    with Runner(store, executor="inline", snapshot_every=2) as runner:
        for id in ("truncated", "whole"):
            end_after_an_input_that_was_removed(runner, flow, id, truncates=id == "truncated")
    with Runner(store, executor="inline") as runner:
        assert runner.result("truncated") == runner.result("whole")


def each_without_collection() -> Workflow:
    sent, never = its_signal(), condition(lambda _: False, name="never")
    lists = step(lambda x: [x, x], name="lists")
    return Workflow("flow", sent >> never >> lists >> each(step(abs)), sent >> step(str))


def lone_each_without_collection() -> Workflow:
    return Workflow("flow", its_signal() >> condition(lambda _: False, name="never") >> each(step(abs)))


def each_of_nothing() -> Workflow:
    sent, nothing = its_signal(), step(lambda _: [], name="nothing")
    return Workflow("flow", sent >> nothing >> each(step(abs)), sent >> step(str))


@pytest.mark.parametrize("changes", [0, 1])
@pytest.mark.parametrize("made", [each_without_collection, lone_each_without_collection, each_of_nothing])
def test_what_was_removed_before_the_only_input_is_not_missed(made: Callable[[], Workflow], changes: int) -> None:
    """Only the beginning of the run was removed, and the policies that it got before its input."""
    flow, store = made(), MemoryStore()
    with Runner(store, executor="inline", snapshot_every=2) as runner:
        for id in ("truncated", "whole"):
            runner.start(flow, id=id)
            for _ in range(changes):
                runner.set_policies(id, [(DEFAULT, Policy(max_retries=1))])
            runner.send(id, 1)
            runner.wait_until(id, lambda run: run.memory.waiting)
            runner.stop(id)
            assert id == "whole" or runner.truncate(id) == 1 + changes
            runner.resume(id, workflow=flow)
            runner.signal(id, "go", (1, 10))
            runner.wait_until(id, lambda run: not run.memory.waiting)
            runner.finish(id)
            runner.wait(id)
        outcomes = [decode_outcome(runner.find(id).outcome) for id in ("truncated", "whole")]
        assert runner.get("truncated").results() == runner.get("whole").results()

    assert outcomes[0] == outcomes[1]


def test_a_result_of_what_a_join_has_missed_is_known_after_a_truncation() -> None:
    """The input that a join which has got nothing belongs to stands in what was removed."""
    store = MemoryStore()
    with Runner(store, executor="inline", snapshot_every=2) as runner:
        for truncates in (True, False):
            end_after_an_input_that_was_removed(runner, join_that_misses_all(), str(truncates), truncates=truncates)
        truncated, whole = (decode_outcome(runner.find(id).outcome) for id in ("True", "False"))

    assert truncated == whole
    assert whole is not None
    assert whole.results == {"none": "none", "str": "20"}


def test_a_result_that_is_unknown_after_a_truncation_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot does not have which input a join which has got nothing belongs to."""
    monkeypatch.setattr(KeptCauses, "needed", lambda *_: {})
    store = MemoryStore()
    with Runner(store, executor="inline", snapshot_every=2) as runner:
        end_after_an_input_that_was_removed(runner, join_that_misses_all(), "r", truncates=True)
        outcome = decode_outcome(runner.find("r").outcome)

    assert outcome is not None
    assert outcome.results == {"str": "20"}
    assert outcome.nothing is not None
    assert "was truncated" in outcome.nothing[1]


def test_a_failure_is_known_where_a_result_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeptCauses, "needed", lambda *_: {})
    store, broken = MemoryStore(), step(lambda x: [][x], name="broken")
    flow = join_that_misses_all().add(broken)
    with Runner(store, executor="inline", snapshot_every=2) as runner:
        end_after_an_input_that_was_removed(runner, flow, "r", truncates=True)
    with Runner(store, executor="inline") as runner, pytest.raises(RunFailed) as failed:
        runner.result("r")

    assert list(failed.value.failures) == ["broken"]
    assert failed.value.results == {"str": "20"}


def test_a_retry_that_is_asked_for_from_outside_is_refused_since_the_history_is_gone(runner: Runner) -> None:
    def broken(number: int) -> int:
        if number == 40:
            raise ValueError("forty")
        return number

    runner.start(Workflow("breaks", step(broken)), id="r")
    for number in range(41):
        runner.send("r", number)
    runner.wait("r")
    runner.stop("r")
    removed = runner.truncate("r")

    with pytest.raises(HistoryTruncated, match=f"begins with event {removed + 1}"):
        runner.retry("r")


def test_a_run_that_is_only_read_has_what_is_left_of_its_history(store: Any) -> None:
    async def read() -> tuple[int, list[int]]:
        async with AsyncRunner(store, executor="inline", snapshot_every=20) as runner:
            await runner.start(WORKFLOW, id="r")
            for number in range(40):
                await (await runner.send("r", number)).result()
            await runner.stop("r")
            removed = await runner.truncate("r")
            await runner.resume("r", workflow=WORKFLOW)
            for number in range(20):  # there is a later snapshot
                await (await runner.send("r", number)).result()
            await runner.stop("r")
            run = await runner.get("r")
            return removed, [event.seq for event in run.log()]

    removed, numbers = asyncio.run(read())

    assert numbers == list(range(removed, numbers[-1] + 1))


SQUARES = Workflow("squares", each(step(lambda x: x * x, name="square")), wait_for("go") >> step(str, name="said"))


def test_what_an_input_that_is_under_way_has_made_stays(store: Any) -> None:
    """Its result is asked for later, and elements are in the log alone."""
    with Runner(store, executor="inline", snapshot_every=1) as runner:
        runner.start(SQUARES, id="r")
        for _ in range(3):
            runner.send("r", [1, 2])
            runner.signal("r", "go", "on")
        last = runner.send("r", [3, 4])
        runner.wait_until("r", lambda run: run.waiting_for == ["go"] and run.memory.received == 4)

        removed = runner.truncate("r")
        runner.stop("r")
        runner.resume("r", workflow=SQUARES)
        runner.signal("r", "go", "now")

        assert removed > 0
        assert runner.log("r")[1].ordinal == 4  # type: ignore[union-attr]
        assert last.result() == {"square": [9, 16], "said": "now"}
        runner.finish("r")
        runner.wait("r")
        assert runner.result("r") == {"square": [9, 16], "said": "now"}


both = step(lambda x: [x], name="both")


@pytest.mark.parametrize("inputs", [1, 3])
@pytest.mark.parametrize("is_done", [False, True])
def test_the_results_of_a_leaf_that_several_ways_lead_to_are_known_in_a_truncated_run(
    store: Any, inputs: int, is_done: bool
) -> None:
    """The last of its facts depends on where they come from, and only the snapshot says that."""
    one, two = step(lambda x: x, name="one") >> both, step(lambda x: 10 * x, name="two") >> both
    flow = Workflow("flow", one, two, step(double) >> wait_for("go") >> step(str, name="said"))
    with Runner(store, executor="inline", snapshot_every=1) as runner:
        runner.start(flow, id="r")
        for number in range(1, inputs + 1):
            last = runner.send("r", number)
            if is_done or number < inputs:
                runner.signal("r", "go", number)
                last.wait()
        waiting = [] if is_done else ["go"]
        runner.wait_until("r", lambda run: run.memory.received == inputs and run.waiting_for == waiting)

        assert runner.truncate("r") >= 5 * (inputs - 1)
        runner.stop("r")
        runner.resume("r", workflow=flow)
        runner.signal("r", "go", inputs)

        assert last.result() == {"both": [10 * inputs], "said": str(inputs)}
        assert runner.get("r").results() == last.result()
        runner.finish("r")
        runner.wait("r")
        assert runner.result("r") == {"both": [10 * inputs], "said": str(inputs)}


def test_a_start_that_is_repeated_finds_the_truncated_run(store: Any) -> None:
    waits = Workflow("waits", step(lambda x: x, name="ask") >> wait_for("go") >> step(str, name="said"))
    with Runner(store, executor="inline", snapshot_every=1) as runner:
        runner.start(waits, 1, id="r")
        runner.wait_until("r", lambda run: run.waiting_for == ["go"])
        assert runner.truncate("r") > 0
        runner.stop("r")

        again = runner.start(waits, 1, id="r")
        runner.signal("r", "go", "on")

        assert again.result() == "on"
        with pytest.raises(RunExists, match="of 'waits', not of 'sums'"):
            runner.start(WORKFLOW, 1, id="r")


def test_a_copy_from_before_reads_what_is_left(runner: Runner) -> None:
    filled(runner)
    runner.stop("r")
    runner.resume("r", rehydration="hybrid")
    copy = runner.get("r")

    removed = runner.truncate("r")

    assert removed > 0
    assert copy.log()[0] == LogTruncated(removed)
    assert copy.log()[-1].seq == runner.find("r").head
    assert copy.state_of("total") == runner.get("r").state_of("total")
    assert copy.dead_letters == []
    with pytest.raises(HistoryTruncated):
        _ = copy.memory.letters  # it would have to be folded from the whole log


@pytest.mark.parametrize("discards", [False, True])
def test_dead_letters_of_a_truncated_run_are_retried_or_discarded(store: Any, discards: bool) -> None:
    is_broken = True

    def fragile(x: int) -> int:
        if is_broken:
            raise ValueError(x)
        return x

    keeps = Workflow("keeps", step(fragile)).with_policies([(DEFAULT, Policy(on_failure="dead_letter"))])
    with Runner(store, executor="inline", snapshot_every=1) as runner:
        runner.start(keeps, id="r")
        for number in range(3):
            runner.send("r", number)
        runner.wait("r")
        assert runner.truncate("r") > 0
        runner.stop("r")
        runner.resume("r", workflow=keeps)
        is_broken = False

        if discards:
            runner.discard("r")
        else:
            runner.retry("r")
        run = runner.wait("r")

        assert (run.dead_letters, runner.find("r").dead_letters) == ([], 0)
        assert runner.find("r").failures == 0
        assert run.results() == ({} if discards else {"fragile": 2})
