"""Runs whose owners died: what they were doing starts again, and one that keeps killing its owners is parked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from callers import started
from virtual_time import GatedStore, LoopClock, Refuses, runner_on, stored_log, until_nothing_moves, virtually

from weft import AsyncRunner, Policy, Run, Saga, Workflow, step, wait_for
from weft.core.events import RunTakenOver
from weft.errors import RunParked
from weft.executors import TaskExecutor
from weft.local.counters import LocalCounters
from weft.policy import DEFAULT
from weft.runner import every_n
from weft.stores import MemoryStore
from weft.testing import run_virtually
from weft.testing.simulation.executor import ImmediateSimulatedExecutor

FOREVER = 1e6
"""Seconds: no owner lives so long."""
STRATEGIES = ["every_cycle", "pipelined", every_n(3), "on_complete", "manual"]

executed: Counter[Any] = Counter()
"""How often each step was executed, by name and argument."""


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    executed.clear()


def does(name: str) -> Any:
    """Return a step that counts."""

    def call(x: Any) -> Any:
        executed[name] += 1
        executed[name, x] += 1
        return x

    return step(call, name=name)


fatal = Workflow("fatal", does("before") >> does("fatal") >> does("after"))


def lasts(runnable: Any) -> float:
    """Let the step ``fatal`` last longer than its owner, and all others a moment."""
    return FOREVER if runnable.component == "fatal" else 0.1


def life(store: MemoryStore, act: Callable[[AsyncRunner], Awaitable[Any]], **options: Any) -> Any:
    """Let a process do something with a runner, go on for a while, and die; return what it did."""

    async def process() -> Any:
        runner = runner_on(store, **{"lasts": lasts, **options})
        runner.register(fatal)
        await runner.open()
        done = await act(runner)
        await asyncio.sleep(10)
        return done

    try:
        return run_virtually(process())
    finally:
        store.crash()


async def everything(runner: AsyncRunner) -> list[str]:
    """Resume everything; return which runs go on."""
    return [handle.id for handle in await runner.resume_all()]


def starts(workflow: Workflow, *runs: str, **options: Any) -> Callable[[AsyncRunner], Awaitable[None]]:
    """Return a process that starts *runs*."""

    async def act(runner: AsyncRunner) -> None:
        for run in runs:
            await runner.start(workflow, run, id=run, **options)

    return act


def look(store: MemoryStore, look_at: Callable[[MemoryStore], Awaitable[Any]]) -> Any:
    """Return what is in *store*."""

    async def main() -> Any:
        async with store:
            return await look_at(store)

    return asyncio.run(main())


def taken_over(store: MemoryStore, run: str, workflow: Workflow = fatal) -> list[tuple[int, str]]:
    """Return what the log of *run* says about its owners."""
    log = look(store, lambda store: stored_log(store, run, workflow))
    return [(event.deaths, event.component) for event in log if isinstance(event, RunTakenOver)]


# -- the third death ---------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("executor", ["thread", "inline"])
def test_a_run_in_which_three_owners_have_died_is_parked(strategy: Any, executor: str) -> None:
    store = MemoryStore()
    life(store, starts(fatal, "a", executor=executor, checkpoint=strategy))

    goes_on = [life(store, everything) for _ in range(4)]

    assert goes_on == [["a"], ["a"], [], []]
    assert executed["fatal"] == 3
    assert taken_over(store, "a")[-1][0] == 2
    record = look(store, lambda store: store.find("a"))
    assert record.status == "parked"
    assert "its process has died 3 times without progress" in record.reason
    assert "executor='process'" in record.reason


def test_the_reason_names_what_was_in_flight() -> None:
    store = MemoryStore()
    life(store, starts(fatal, "a"))
    for _ in range(3):
        life(store, everything)

    async def told(runner: AsyncRunner) -> str:
        with pytest.raises(RunParked) as caught:
            await runner.result("a")
        return str(caught.value)

    message = life(store, told)

    assert "'fatal' was in flight" in message
    assert "resume('a') tries again" in message
    assert taken_over(store, "a") == [(1, "fatal"), (2, "fatal")]


def test_the_reason_names_a_few_of_many() -> None:
    names = [f"s{number}" for number in range(5)]
    wide = Workflow("wide", *(does(name) for name in names))
    store = MemoryStore()
    life(store, starts(wide, "a"), lasts=FOREVER)
    for _ in range(3):
        life(store, lambda runner: runner.resume("a", workflow=wide), lasts=FOREVER)

    assert "while 's0' or 's1' or 's2' or 2 more was in flight" in look(store, lambda store: store.find("a")).reason


def test_a_person_who_resumes_a_parked_run_gets_three_more_starts() -> None:
    store = MemoryStore()
    life(store, starts(fatal, "a"))
    for _ in range(3):
        life(store, everything)
    assert executed["fatal"] == 3

    life(store, lambda runner: runner.resume("a"))
    for _ in range(3):
        life(store, everything)

    assert executed["fatal"] == 6
    assert look(store, lambda store: store.find("a")).status == "parked"
    assert [deaths for deaths, _ in taken_over(store, "a")] == [1, 2, 0, 1, 2]


def test_resuming_all_parked_runs_counts_as_a_person_too() -> None:
    store = MemoryStore()
    life(store, starts(fatal, "a"))
    for _ in range(3):
        life(store, everything)

    [handle] = life(store, lambda runner: runner.resume_all(parked=True))

    assert handle.id == "a"
    assert executed["fatal"] == 4


def test_a_run_that_is_resumed_where_it_was_parked_starts_again() -> None:
    store = MemoryStore()
    life(store, starts(fatal, "a"))
    for _ in range(2):
        life(store, everything)

    async def again(runner: AsyncRunner) -> tuple[str, str]:
        assert await everything(runner) == []
        parked = await runner.status("a")
        await runner.resume("a")
        return parked, await runner.status("a")

    assert life(store, again) == ("parked", "running")
    assert executed["fatal"] == 4
    assert taken_over(store, "a")[-1] == (0, "fatal")


def test_starting_a_parked_run_again_leaves_it_parked() -> None:
    store = MemoryStore()
    life(store, starts(fatal, "a"))
    for _ in range(3):
        life(store, everything)

    async def again(runner: AsyncRunner) -> None:
        handle = await runner.start(fatal, "a", id="a")
        with pytest.raises(RunParked, match="has died 3 times"):
            await handle.wait()
        assert "a" not in runner

    for _ in range(2):
        life(store, again)

    assert executed["fatal"] == 3


def test_starting_a_run_again_in_each_process_parks_it_in_the_end() -> None:
    store = MemoryStore()
    for _ in range(4):
        life(store, starts(fatal, "a"))

    assert executed["fatal"] == 3
    assert look(store, lambda store: store.find("a")).status == "parked"


def test_a_mended_run_goes_on_where_it_was_when_it_is_resumed() -> None:
    store = MemoryStore()
    life(store, starts(fatal, "a"))
    for _ in range(3):
        life(store, everything)

    async def mended(runner: AsyncRunner) -> Any:
        return await (await runner.resume("a", workflow=fatal)).result()

    assert life(store, mended, lasts=0.0) == "a"
    assert (executed["before"], executed["after"]) == (1, 1)


def test_inputs_that_come_before_every_death_do_not_save_a_run() -> None:
    store = MemoryStore()

    async def begin(runner: AsyncRunner) -> None:
        await runner.start(fatal, id="a")
        await runner.send("a", 0)

    async def go_on(runner: AsyncRunner) -> None:
        await runner.resume("a")
        await runner.send("a", executed["fatal"])

    life(store, begin, max_concurrency=1)
    for _ in range(2):
        life(store, go_on, max_concurrency=1)

    assert life(store, everything) == []
    assert look(store, lambda store: store.find("a")).status == "parked"


@pytest.mark.parametrize("was_loaded", [False, True], ids=["put to sleep at once", "loaded first"])
def test_a_death_before_a_run_fell_asleep_is_noted_when_it_wakes_and_starts_something(was_loaded: bool) -> None:
    store, waits = MemoryStore(), Workflow("waits", wait_for("go") >> does("fatal"))

    async def back(runner: AsyncRunner) -> None:
        runner.register(waits)
        await (runner.resume("a") if was_loaded else runner.resume_all())
        await asyncio.sleep(5)
        assert list(runner._registry) == []
        await runner.signal("a", "go", 1)

    life(store, starts(waits, "a"))
    life(store, back, resident=0)

    assert taken_over(store, "a", waits) == [(1, "fatal")]


def test_a_durable_step_is_found_too_and_its_attempts_are_counted() -> None:
    store = MemoryStore()
    durable = fatal.with_policies([(DEFAULT, Policy(execution_mode="durable", max_retries=10))])
    life(store, starts(durable, "a"))

    goes_on = [life(store, everything) for _ in range(3)]

    assert goes_on == [["a"], ["a"], []]
    assert executed["fatal"] == 3


@pytest.mark.parametrize("ends", ["dies", "is closed"])
def test_an_owner_that_starts_nothing_and_goes_hides_no_death_before_it(ends: str) -> None:
    store = MemoryStore()

    async def is_busy(runner: AsyncRunner) -> None:
        await runner.start(fatal, "busy", id=f"busy-{executed['fatal', 'busy']}")
        await asyncio.sleep(1)
        await runner.resume("a")
        await runner.checkpoint("a")
        if ends == "is closed":
            await runner.close(grace=0)

    life(store, starts(fatal, "a"))
    life(store, lambda runner: runner.resume("a"))
    for _ in range(3):
        life(store, is_busy, workers=1)
    life(store, lambda runner: runner.resume("a"))

    assert life(store, lambda runner: _status_of_resumed(runner, "a")) == "parked"
    assert executed["fatal", "a"] == 3
    assert taken_over(store, "a") == [(1, "fatal"), (2, ""), (2, "fatal")]


async def _status_of_resumed(runner: AsyncRunner, run: str) -> str:
    return await (await runner.resume(run)).status()


def test_a_person_who_resumes_a_run_that_is_let_go_of_before_it_starts_has_seen_it() -> None:
    store = MemoryStore()
    life(store, starts(fatal, "a"))
    for _ in range(3):
        life(store, everything)

    async def resumed_and_stopped(runner: AsyncRunner) -> None:
        await runner.start(fatal, "busy", id="busy")
        await asyncio.sleep(1)
        await runner.resume("a")
        await runner.stop("a")

    life(store, resumed_and_stopped, workers=1)
    assert look(store, lambda store: store.find("a")).status == "running"
    for _ in range(4):
        life(store, everything)

    assert executed["fatal", "a"] == 6


# -- runs that are well ------------------------------------------------------------------------------


def test_runs_that_make_progress_in_every_life_are_never_parked() -> None:
    store = MemoryStore()
    steps = [does(f"s{number}") for number in range(8)]
    flow: Any = steps[0]
    for each in steps[1:]:
        flow = flow >> each
    long = Workflow("long", flow)
    runs = [f"long-{number:02}" for number in range(20)]
    options = {"lasts": 7.0, "workers": 100}

    life(store, starts(long, *runs), **options)

    async def all_of_them(runner: AsyncRunner) -> list[str]:
        runner.register(long)
        return await everything(runner)

    lives = 1
    while life(store, all_of_them, **options):
        lives += 1

    assert lives == 8
    records = look(store, lambda store: store.list())
    assert {record.status for record in records} == {"completed"}
    assert {executed[f"s{number}"] for number in range(1, 8)} == {40}


def test_runs_that_wait_for_a_worker_while_another_one_kills_their_process_are_not_suspected() -> None:
    store = MemoryStore()
    waiting = [f"w{number:02}" for number in range(30)]
    one = Workflow("one", does("quick"))

    async def begin(runner: AsyncRunner) -> None:
        await runner.start(fatal, "killer", id="killer")
        await asyncio.sleep(1)
        await starts(one, *waiting)(runner)

    async def again(runner: AsyncRunner) -> list[str]:
        runner.register(one)
        return await everything(runner)

    life(store, begin, workers=1)
    goes_on = [life(store, again, workers=1) for _ in range(2)]
    last = life(store, again, workers=1)

    assert goes_on == [["killer", *waiting]] * 2
    assert last == waiting
    assert {taken_over(store, run, one)[0] for run in waiting} == {(1, "quick")}
    statuses = {record.id: record.status for record in look(store, lambda store: store.list())}
    assert statuses == {"killer": "parked"} | dict.fromkeys(waiting, "completed")
    assert executed["quick"] == 30


def test_a_run_that_waits_for_time_is_not_suspected() -> None:
    store = MemoryStore()
    patient = Workflow("patient", does("later")).with_policies([("later", Policy(delay=100.0))])
    life(store, starts(patient, "a"))

    for _ in range(5):
        life(store, lambda runner: runner.resume("a", workflow=patient))

    assert executed["later"] == 0
    assert taken_over(store, "a", patient) == []
    assert look(store, lambda store: store.find("a")).status == "running"


def test_a_run_that_dies_of_inputs_that_were_never_written_is_parked_too() -> None:
    store = MemoryStore()

    async def begin(runner: AsyncRunner) -> None:
        await runner.start(fatal, id="a", checkpoint="manual")
        await runner.send("a", 1, key="one")

    async def again(runner: AsyncRunner) -> None:
        await runner.resume("a")
        await runner.send("a", 1, key="one")

    life(store, begin)
    for _ in range(2):
        life(store, again)

    assert life(store, everything) == []
    assert executed["fatal"] == 3


def test_an_idle_run_is_not_suspected() -> None:
    store = MemoryStore()

    async def begin(runner: AsyncRunner) -> None:
        await runner.start(fatal, id="a")

    life(store, begin)
    for _ in range(4):
        life(store, lambda runner: runner.resume("a"))

    assert look(store, lambda store: store.find("a")).status == "idle"


def test_runs_that_were_released_are_not_suspected() -> None:
    store = MemoryStore()
    life(store, starts(fatal, "a"))

    async def closed(runner: AsyncRunner) -> list[str]:
        goes_on = await everything(runner)
        await asyncio.sleep(1)
        await runner.close(grace=0)
        return goes_on

    goes_on = [life(store, closed) for _ in range(5)]

    assert goes_on == [["a"]] * 5
    assert {deaths for deaths, _ in taken_over(store, "a")} == {1}


@virtually
async def test_a_worker_that_is_rebuilt_is_not_a_death() -> None:
    async with runner_on(MemoryStore(), refuses=Refuses(3)) as runner:
        handle = await runner.start(fatal, 1, id="a")

        run: Run = await handle.wait()

    assert not any(isinstance(event, RunTakenOver) for event in run.log())


# -- the note comes first ----------------------------------------------------------------------------


def left_by_death(**options: Any) -> MemoryStore:
    """Return a store with the run ``a``, whose owner died before it had done anything."""
    store = MemoryStore()
    life(store, starts(fatal, "a", **options), lasts=FOREVER)
    executed.clear()
    return store


def runner_at_once(store: Any) -> AsyncRunner:
    """Return a runner whose executors run a step while the caller waits."""
    executors = {name: ImmediateSimulatedExecutor(lambda _: 0.0, max_workers=8) for name in ("inline", "thread")}
    return AsyncRunner(store, executors=executors, clock=LoopClock(), counters=LocalCounters())


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("runner_of", [runner_on, runner_at_once])
def test_nothing_starts_before_the_log_says_that_the_run_was_taken_over(
    runner_of: Callable[[Any], AsyncRunner], strategy: Any
) -> None:
    inner = left_by_death(checkpoint=strategy)

    async def main() -> None:
        store = GatedStore(inner)
        async with runner_of(store) as runner:
            gate = store.hold("append")
            await runner.resume("a", workflow=fatal)
            await gate.reached.wait()
            await until_nothing_moves()
            assert executed.total() == 0
            gate.open()
            await runner.wait("a")

    run_virtually(main())

    assert (executed["before"], executed["fatal"], executed["after"]) == (1, 1, 1)
    assert taken_over(inner, "a") == [(1, "before")]


@pytest.mark.parametrize("ends", ["stop", "cancel", "close"])
def test_a_run_that_is_let_go_of_before_its_log_says_so_starts_nothing(ends: str) -> None:
    inner = left_by_death()

    async def main() -> None:
        store = GatedStore(inner)
        async with runner_on(store) as runner:
            gate = store.hold("append")
            await runner.resume("a", workflow=fatal)
            await gate.reached.wait()
            ending = started(runner.close() if ends == "close" else getattr(runner, ends)("a"))
            await until_nothing_moves()
            gate.open()
            await ending

    run_virtually(main())

    assert executed.total() == 0
    status = look(inner, lambda store: store.find("a")).status
    assert status == ("cancelled" if ends == "cancel" else "running")


@pytest.mark.parametrize("capacity", [None, 2])
def test_many_runs_that_are_taken_over_use_no_more_places_than_there_are(capacity: int | None) -> None:
    store, runs = MemoryStore(), [f"many-{number:02}" for number in range(40)]
    at_once: list[int] = [0, 0]

    async def call(x: Any) -> Any:
        at_once[0] += 1
        at_once[1] = max(at_once)
        await asyncio.sleep(1)
        at_once[0] -= 1
        return x

    waits = Workflow("waits", step(call))
    life(store, starts(waits, *runs), lasts=FOREVER, workers=1)
    at_once[:] = 0, 0

    async def main() -> list[Any]:
        executors: dict[str, Any] = {} if capacity is None else {"async": TaskExecutor(capacity=capacity)}
        async with AsyncRunner(store, executors=executors, clock=LoopClock(), counters=LocalCounters()) as runner:
            runner.register(waits)
            assert await everything(runner) == runs
            return await runner.gather(runs)

    assert run_virtually(main()) == runs
    assert at_once[1] == (capacity or 40)


# -- on_complete -------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_run_whose_callback_kills_its_process_is_parked(strategy: Any) -> None:
    store = MemoryStore()
    called: list[str] = []

    async def kills(run: str, _: Run) -> None:
        called.append(run)
        await asyncio.sleep(FOREVER)

    async def again(runner: AsyncRunner) -> list[str]:
        return [handle.id for handle in await runner.resume_all(on_complete=kills)]

    async def begin(runner: AsyncRunner) -> None:
        await runner.start(fatal, 1, id="a", on_complete=kills, checkpoint=strategy)
        await asyncio.sleep(5)
        await runner.checkpoint("a")

    life(store, begin, lasts=0.0)
    goes_on = [life(store, again, lasts=0.0) for _ in range(3)]

    assert goes_on == [["a"], ["a"], []]
    assert called == ["a"] * 3
    record = look(store, lambda store: store.find("a"))
    assert (record.status, "while on_complete was in flight" in record.reason) == ("parked", True)
    assert taken_over(store, "a") == [(1, ""), (2, "")]


# -- cancelled -----------------------------------------------------------------------------------------


def deadly_order() -> Workflow:
    """Return a workflow with a saga whose second transaction is called ``order.fatal``."""

    def call(name: str) -> Callable[[Any, Any], Any]:
        def do(request: Any, results: Any) -> str:
            executed[name] += 1
            return name

        return do

    order = Saga("order")
    order.transaction(call("take"), name="take", compensate=call("give back"))
    order.transaction(call("fatal"), name="fatal", compensate=None)
    return Workflow("fatal", order)


@pytest.mark.parametrize("by", ["the process that has parked it", "another one"])
def test_a_run_that_is_parked_is_undone_when_it_is_cancelled(by: str) -> None:
    order, store = deadly_order(), MemoryStore()

    def lasts(runnable: Any) -> float:
        return FOREVER if runnable.component == "order.fatal" else 0.1

    def lives(act: Callable[[AsyncRunner], Awaitable[Any]]) -> Any:
        async def known(runner: AsyncRunner) -> Any:
            runner.register(order)
            return await act(runner)

        return life(store, known, lasts=lasts)

    async def cancelled(runner: AsyncRunner) -> None:
        if by == "another one":
            await runner.cancel("a", "it is deadly")
            await runner.resume("a")
        else:
            await everything(runner)
            assert (await runner.find("a")).status == "parked"
            await runner.cancel("a", "it is deadly")

    lives(lambda runner: runner.start(order, 1, id="a"))
    for _ in range(2 if by != "another one" else 3):
        lives(everything)
    lives(cancelled)

    record = look(store, lambda store: store.find("a"))
    assert (record.status, record.reason) == ("cancelled", "it is deadly")
    assert executed["give back"] == 1
    assert executed["fatal"] == (3 if by != "another one" else 4), "a resumed run starts, and then reads its inbox"
