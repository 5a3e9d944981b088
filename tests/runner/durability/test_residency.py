"""Values of live runs that leave memory: under a budget, after a time, or when asked; and runs that do not notice."""

from __future__ import annotations

import asyncio
import functools
import logging
import operator
import threading
from pathlib import Path
from typing import Any

import pytest

from weft import AsyncRunner, Runner, Workflow, accumulator, each, latest, reduce, step, wait_for
from weft.errors import InvalidOption, RunFailed, RunNotFound
from weft.log import classify
from weft.ports.store import LoadedRun, RunRecord, Segment
from weft.runner import Evicted
from weft.runner.durability.residency import as_bytes
from weft.stores import MemoryStore, SQLiteStore
from weft.telemetry import attach, detach, levels
from weft.testing import TestRunner

LARGE = 10_000
"""How many bytes each of the large values has."""


def grow(x: int) -> bytes:
    """Return a large value."""
    return bytes([x % 256]) * (LARGE + x)


def plus_size(x: int, made: bytes = latest("grow", default=b"")) -> int:
    """Return the sum of *x* and of the size of what ``grow`` has made."""
    return x + len(made)


total = accumulator(operator.add, init=0, name="total")
WORKFLOW = Workflow("sizes", step(grow) >> step(len, name="size") >> total, step(plus_size))


def expected(inputs: int) -> int:
    """Return the total after *inputs*."""
    return sum(LARGE + x for x in range(inputs))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a store that can load a part of a log."""
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db", synchronous="normal")


def counted(runner: Runner) -> int:
    """Return how many bytes of values the runner counts, as soon as it has evicted what is too much."""

    async def at_rest() -> int:
        residency = runner._inner._runtime.dispatcher.residency
        while residency._sweep is not None:  # noqa: ASYNC110 - it goes on in this loop
            await asyncio.sleep(0)
        return residency.bytes

    return runner._do(at_rest())


def fed(runner: Runner, inputs: int, id: str = "w") -> list[Any]:
    """Return the handles of so many inputs of the run *id*."""
    handles = [runner.send(id, x) for x in range(inputs)]
    runner.wait(id)
    return handles


# -- the budget --------------------------------------------------------------------------------


def test_a_run_stays_within_its_budget_and_is_the_same_run(store: Any) -> None:
    budget = 20 * LARGE
    with Runner(store, executor="inline", memory_budget=budget) as runner, Runner(executor="inline") as other:
        runner.start(WORKFLOW, id="w")
        other.start(WORKFLOW, id="w")
        most = 0
        for x in range(90):
            runner.send("w", x)
            runner.wait("w")
            most = max(most, counted(runner))
        fed(other, 90)

        assert most <= budget + 2 * (2 * LARGE + 4_000), "what came with the last commit is evicted right after it"
        run, whole = runner.get("w"), other.get("w")
        assert run.resident_facts < 100 < 300 < whole.resident_facts
        assert run.state_of("total") == whole.state_of("total") == expected(90)
        assert run.results() == whole.results()
        assert run.values() == whole.values()
        assert [fact.hash for fact in run.facts()] == [fact.hash for fact in whole.facts()]
        assert str(run.explain("total")) == str(whole.explain("total"))
        assert str(run.explain("total", depth=3)) == str(whole.explain("total", depth=3))
        runner.finish("w")
        assert runner.result("w") == other.get("w").results()


def test_results_of_old_inputs_are_read_from_the_store(store: Any) -> None:
    with Runner(store, executor="inline", memory_budget=10 * LARGE) as runner:
        runner.start(WORKFLOW, id="w")
        handles = fed(runner, 120)

        for x in (119, 118, 60, 0):
            assert handles[x].result()["plus_size"] == x + LARGE + x
        assert [event.seq for event in handles[0].log()] == list(range(1, len(handles[0].log()) + 1))
        assert [event.seq for event in _followed(runner)] == list(range(1, len(handles[0].log()) + 1))


def _followed(runner: Runner) -> list[Any]:
    """Return the events of the run as a follower sees them, from the first one."""
    seen, head = [], len(runner.get("w").memory.log)
    for event in runner.events("w"):
        seen.append(event)
        if len(seen) == head:
            break
    return seen


def test_many_runs_share_one_budget_and_those_that_are_quiet_are_evicted_first(store: Any) -> None:
    with Runner(store, executor="inline", memory_budget=40 * LARGE) as runner:
        for number in range(10):
            runner.start(WORKFLOW, id=f"w{number}")
            fed(runner, 8, f"w{number}")

        assert counted(runner) <= 40 * LARGE
        resident = [runner.get(f"w{number}").resident_facts for number in range(10)]
        assert resident[0] < 8 <= resident[9]
        for number in range(10):
            assert runner.get(f"w{number}").state_of("total") == expected(8)
            runner.finish(f"w{number}")
            runner.wait(f"w{number}")
        runner.evict()
        runner._inner._registry.recent.clear()
        assert counted(runner) == 0


def test_nothing_is_counted_without_a_budget(store: Any) -> None:
    with Runner(store, executor="inline") as runner:
        runner.start(WORKFLOW, id="w")
        fed(runner, 5)

        assert counted(runner) == 0
        assert all(worker.values is None for worker in runner._inner._registry)


def test_a_run_that_is_only_written_to_and_left_is_not_counted_afterwards(store: Any) -> None:
    with Runner(store, memory_budget=10**9) as runner:
        runner.start(WORKFLOW, id="w")
        fed(runner, 3)[-1].result(60)
        runner.stop("w")
        children = runner._inner._runtime.children

        runner._do(runner._inner._runtime.loader.visit("w", functools.partial(children._cancelled, "not needed")))

        assert (runner.find("w").status, counted(runner)) == ("cancelled", 0)


def test_a_run_with_work_in_flight_does_not_notice(store: Any) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def held(made: bytes) -> int:
        begun.set()
        go_on.wait()
        return len(made)

    flow = Workflow("w", step(grow) >> step(held), step(grow) >> step(len, name="size") >> total)
    with Runner(store, memory_budget=4 * LARGE, threads=8) as runner:
        try:
            runner.start(flow, id="w", max_concurrency=8)  # four are held, and the others must not wait for them
            handles = [runner.send("w", 0)]
            begun.wait()
            handles += [runner.send("w", x) for x in range(1, 4)]
            runner.wait_until("w", lambda run: len(run.values("total")) == 4)
            runner.evict("w")
        finally:
            go_on.set()

        assert [handle.result()["held"] for handle in handles] == [LARGE + x for x in range(4)]
        assert sorted(runner.wait("w").values("held")) == [LARGE + x for x in range(4)]


def test_what_is_collected_for_a_reduce_stays_and_a_warning_says_so(
    store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    count = reduce(lambda sizes, made: sizes + len(made), init=0, name="count")
    flow = Workflow("w", each(step(grow)) >> count)
    with caplog.at_level(logging.WARNING, "weft.runner"), Runner(store, memory_budget=5 * LARGE) as runner:
        handle = runner.start(flow, list(range(60)), id="w", max_concurrency=1)

        assert handle.result() == expected(60)
        told = [record for record in caplog.records if "memory_budget" in record.getMessage()]
        assert {record.run_id for record in told if hasattr(record, "run_id")} == {"w"}
        assert len(told) <= 2


def test_events_that_are_not_durable_stay(store: Any) -> None:
    with Runner(store, executor="inline", memory_budget=2 * LARGE, checkpoint="manual") as runner:
        runner.start(WORKFLOW, id="w")
        for x in range(6):
            runner.send("w", x)
        whole = runner.wait("w").resident_facts
        assert runner.evict("w") == Evicted()
        assert runner.get("w").resident_facts == whole

        runner.checkpoint("w")

        run = runner.get("w")
        assert run.resident_facts < whole
        assert run.state_of("total") == expected(6)


def test_a_run_that_failed_is_retried_after_its_values_have_left(store: Any) -> None:
    is_broken = True

    def picky(made: bytes) -> int:
        if is_broken and len(made) == LARGE + 3:
            raise ValueError("three")
        return len(made)

    flow = Workflow("w", step(grow) >> step(picky) >> total)
    with Runner(store, executor="inline", memory_budget=3 * LARGE) as runner:
        handle = runner.start(flow, id="w")
        handles = fed(runner, 8)
        with pytest.raises(RunFailed, match="three"):
            handles[3].result()
        is_broken = False
        runner.retry("w")
        run = runner.wait("w")
        assert run.state_of("total") == expected(8)
        assert run.failures == {}
        before = counted(runner)
        fed(runner, 8)
        assert counted(runner) <= max(before, 4 * LARGE)
        assert runner.get("w").state_of("total") == 2 * expected(8)
        assert handle.status() == "idle"


def test_components_can_be_added_after_values_have_left(store: Any) -> None:
    with Runner(store, executor="inline", memory_budget=3 * LARGE) as runner:
        runner.start(WORKFLOW, id="w")
        fed(runner, 10)
        runner.add("w", step(lambda n: -n, name="minus"), to="size")
        fed(runner, 10)

        run = runner.get("w")
        assert run.values("minus") == [-(LARGE + x) for x in range(10)]
        assert run.state_of("total") == 2 * expected(10)
        assert counted(runner) <= 6 * LARGE


def test_a_run_that_was_evicted_is_resumed_from_its_log(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    for every in (None, 7):
        id = f"w{every}"
        with Runner(path, executor="inline", memory_budget=3 * LARGE, snapshot_every=every) as runner:
            runner.start(WORKFLOW, id=id)
            fed(runner, 30, id)
        for way in ("full", "lazy", "hybrid"):
            with Runner(path, executor="inline", memory_budget=3 * LARGE) as runner:
                runner.resume(id, rehydration=way)  # type: ignore[arg-type]
                before = runner.get(id).state_of("total")
                handle = runner.send(id, 1)
                assert handle.result()["total"] == before + LARGE + 1
                assert counted(runner) <= 6 * LARGE


# -- asking for it -----------------------------------------------------------------------------


def test_evict_returns_what_it_freed_and_leaves_what_is_hot(store: Any) -> None:
    with Runner(store, executor="inline") as runner:
        for id in ("a", "b"):
            runner.start(WORKFLOW, id=id)
            fed(runner, 10, id)
        whole = runner.get("a")
        cold = len(classify(whole).cold)

        freed = runner.evict("a")

        assert (freed.runs, freed.facts) == (1, cold)
        assert freed.bytes >= 9 * LARGE
        assert runner.evict("a") == Evicted(), "there is nothing left to evict"
        assert runner.get("a").resident_facts == len(classify(whole).hot)
        assert runner.get("b").resident_facts == whole.resident_facts
        assert whole.values() == runner.get("a").values()
        assert runner.evict().runs == 1
        with pytest.raises(RunNotFound):
            runner.evict("c")


def test_evict_of_a_run_that_waits(store: Any) -> None:
    flow = Workflow("w", step(grow) >> wait_for("go") >> step(lambda said: said, name="said"))
    with Runner(store, executor="inline") as runner:
        handle = runner.start(flow, 1, id="w")
        runner.wait_until("w", lambda run: bool(run.waiting_for))
        assert runner.evict("w").runs <= 1
        runner.signal("w", "go", "yes")

        assert handle.result() == "yes"


def test_a_store_that_cannot_load_parts_of_a_log_refuses_a_budget() -> None:
    class Plain:
        """The least that a store can be."""

        def __init__(self) -> None:
            self.is_open, self.logs = False, dict[str, tuple[RunRecord, bytes]]()

        async def open(self) -> None:
            self.is_open = True

        async def close(self) -> None:
            self.is_open = False

        async def save(self, record: RunRecord, body: bytes) -> None:
            self.logs[record.id] = (record, body)

        async def load(self, run: str) -> LoadedRun:
            if run not in self.logs:
                raise RunNotFound(run)
            record, body = self.logs[run]
            return LoadedRun(record, [Segment(1, record.head, body)])

    with pytest.raises(InvalidOption, match="memory_budget"):
        Runner(Plain(), memory_budget=1_000)
    with Runner(Plain(), executor="inline") as runner:
        runner.start(WORKFLOW, id="w")
        fed(runner, 3)
        assert runner.evict() == Evicted()


def test_an_asynchronous_runner_evicts_too() -> None:
    async def main() -> None:
        async with AsyncRunner(executor="inline", memory_budget="50 KB") as runner:
            handle = await runner.start(WORKFLOW, id="w")
            for x in range(20):
                await runner.send("w", x)
            await handle.wait()
            assert (await runner.evict("w")).runs <= 1
            run = await runner.get("w")
            assert run.state_of("total") == expected(20)
            assert run.value("plus_size") == 19 + LARGE + 19
            await run.load()
            assert len(run.values("grow")) == 20

    asyncio.run(main())


# -- after a time ------------------------------------------------------------------------------


def test_values_are_kept_for_a_time() -> None:
    with TestRunner(keep_values_for=60) as runner:
        runner.start(WORKFLOW, id="w")
        runner.send("w", 1)
        runner.advance(seconds=30)
        runner.send("w", 2)
        whole = runner.get("w")
        runner.advance(seconds=29)
        assert runner.get("w").resident_facts == whole.resident_facts

        runner.advance(seconds=9)  # a mark is set every eighth of the time
        assert runner.get("w").resident_facts < whole.resident_facts

        runner.advance(seconds=120)
        run = runner.get("w")
        assert run.resident_facts == len(classify(whole).hot)
        assert run.values() == whole.values()
        assert run.state_of("total") == 2 * LARGE + 3


def test_a_run_can_keep_its_values_for_another_time_and_that_is_stored_with_it() -> None:
    store = MemoryStore()
    with TestRunner(store, keep_values_for=600) as runner:
        runner.start(WORKFLOW, id="long")
        runner.start(WORKFLOW, id="short", keep_values_for=5)
        for id in ("long", "short"):
            for x in range(4):
                runner.send(id, x)
        runner.advance(seconds=20)
        facts = {id: runner.get(id).resident_facts for id in ("long", "short")}
        assert facts["short"] < facts["long"]
    with TestRunner(store) as runner:
        runner.resume("short")
        for x in range(4):
            runner.send("short", x)
        runner.advance(seconds=20)
        assert runner.get("short").resident_facts == facts["short"]
        assert runner.get("short").state_of("total") == 2 * expected(4)


def test_values_that_do_not_become_older_keep_no_timer() -> None:
    with TestRunner(keep_values_for=5) as runner:
        handle = runner.start(WORKFLOW, 1)
        assert handle.result()["plus_size"] == LARGE + 2
        runner.advance(seconds=100)
        assert len(runner._inner._runtime.dispatcher.timers) == 0


# -- what can be seen of it ----------------------------------------------------------------------


def test_levels_and_telemetry_tell_of_it() -> None:
    told: list[dict[str, Any]] = []
    attach("test", ["weft.runner.values.evicted"], lambda _, measured, about: told.append({**measured, **about}))
    try:
        with Runner(executor="inline", memory_budget=100 * LARGE) as runner:
            runner.start(WORKFLOW, id="w")
            fed(runner, 5)
            before = levels().resident_bytes
            freed = runner.evict("w")

            assert before >= 5 * LARGE
            assert levels().resident_bytes == before - freed.bytes
            assert told == [{"workflow_id": "w", "workflow": "sizes", "facts": freed.facts, "bytes": freed.bytes}]
    finally:
        detach("test")


def test_a_question_that_reads_a_long_history_is_a_warning_once(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    flow = Workflow("w", step(operator.pos, name="same") >> total)
    with caplog.at_level(logging.WARNING, "weft.runner"), Runner(store, executor="inline") as runner:
        runner.start(flow, id="w")
        for x in range(1_500):
            runner.send("w", x)
        runner.wait("w")
        runner.evict("w")
        run = runner.get("w")
        assert run.value("total") == run.state_of("total")
        assert str(run.explain("total", depth=2)).startswith("total = ")
        assert not caplog.records, "these need a few blocks"

        assert len(run.values("same")) == 1_500
        assert len(run.values("same")) == 1_500

        [record] = caplog.records
        assert record.run_id == "w"  # type: ignore[attr-defined]
        assert "depth=" in record.getMessage()


@pytest.mark.parametrize("wrong", [0, -1, True, "many", "5 parsecs", "", 1e30, [5]])
def test_a_budget_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidOption, match="memory_budget"):
        Runner(memory_budget=wrong)


@pytest.mark.parametrize(
    ("said", "meant"), [(5, 5), ("5", 5), ("512 MB", 512_000_000), ("1.5GiB", 1_610_612_736), (" 2 kb ", 2_000)]
)
def test_a_budget_is_a_number_or_a_text(said: Any, meant: int) -> None:
    assert as_bytes("memory_budget", said) == meant


@pytest.mark.parametrize("wrong", [0, -1, True, "60", float("nan")])
def test_a_time_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidOption, match="keep_values_for"):
        Runner(keep_values_for=wrong)
    with Runner(executor="inline") as runner, pytest.raises(InvalidOption, match="keep_values_for"):
        runner.start(WORKFLOW, 1, keep_values_for=wrong)
