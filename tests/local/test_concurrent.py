"""
The concurrent loop: what may overlap does, what may not does not.

Nothing here sleeps.  Steps meet at barriers and wait for events; a wait that would last for ever ends in a
failure after `PATIENCE` seconds.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable

import pytest

from weft import Run, Workflow, accumulator, condition, current, each, reduce, step
from weft.core.components.step import Step
from weft.errors import AlreadyRunning

PATIENCE = 20

collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")


class Gauge:
    """How many are inside at once, at most."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


# -- overlapping ---------------------------------------------------------------------------------


def test_plain_steps_overlap() -> None:
    barrier = threading.Barrier(3, timeout=PATIENCE)
    steps = [step(lambda x: (barrier.wait(), x)[1], name=f"s{n}") for n in range(3)]

    run = Workflow("w", *steps).run(1, parallel=3)

    assert run.failures == {}
    assert run.values() == [1, 1, 1]


def test_plain_steps_of_several_inputs_overlap() -> None:
    barrier = threading.Barrier(3, timeout=PATIENCE)
    run = Workflow("w", step(lambda x: (barrier.wait(), x)[1], name="s")).plan(1).plan(2).plan(3)

    run.react_until_satisfied(parallel=3)

    assert sorted(run.values()) == [1, 2, 3]


def test_elements_overlap() -> None:
    barrier = threading.Barrier(4, timeout=PATIENCE)
    meet = step(lambda x: (barrier.wait(), x)[1], name="meet")

    run = Workflow("w", each(meet) >> collect).run(range(4), parallel=4)

    assert run.output == [0, 1, 2, 3]


def meeting(count: int) -> list[Step]:
    """Coroutines that wait until all of them have begun."""
    begun: list[asyncio.Event] = []
    together = asyncio.Event()

    async def meet(x: int) -> int:
        begun.append(together)
        if len(begun) == count:
            together.set()
        async with asyncio.timeout(PATIENCE):
            await together.wait()
        return x

    return [step(meet, name=f"s{n}") for n in range(count)]


@pytest.mark.parametrize("parallel", [None, 3])
def test_coroutines_overlap(parallel: int | None) -> None:
    run = Workflow("w", *meeting(3)).run(1, parallel=parallel)

    assert run.failures == {}
    assert run.values() == [1, 1, 1]


def test_coroutines_overlap_in_the_loop_of_the_caller() -> None:
    run = asyncio.run(Workflow("w", *meeting(3)).arun(1))

    assert run.values() == [1, 1, 1]


def test_a_plain_step_and_a_coroutine_overlap() -> None:
    begun = threading.Event()

    async def open_up(x: int) -> int:
        begun.set()
        return x

    wait = step(lambda x: begun.wait(PATIENCE), name="wait")

    run = Workflow("w", wait, step(open_up)).run(1, parallel=2)

    assert run.value("wait") is True


def test_plain_steps_on_threads_do_not_hold_up_the_loop_of_the_caller() -> None:
    released = threading.Event()

    async def main() -> Run:
        loop = asyncio.get_running_loop()
        wait = step(lambda _: (loop.call_soon_threadsafe(released.set), released.wait(PATIENCE))[1], name="wait")
        return await Workflow("w", wait).arun(1, parallel=2)

    assert asyncio.run(main()).output is True


def test_runs_overlap_in_one_loop() -> None:
    steps = meeting(3)

    async def main() -> list[Run]:
        return await asyncio.gather(*(Workflow("w", one).arun(number) for number, one in enumerate(steps)))

    assert [run.output for run in asyncio.run(main())] == [0, 1, 2]


# -- limits --------------------------------------------------------------------------------------


def test_no_more_plain_steps_run_at_once_than_allowed() -> None:
    gauge, barrier = Gauge(), threading.Barrier(2, timeout=PATIENCE)

    def work(x: int) -> int:
        with gauge:
            barrier.wait()
            return x

    run = Workflow("w", each(step(work)) >> collect).run(range(8), parallel=2)

    assert run.output == list(range(8))
    assert gauge.most == 2


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_no_more_coroutines_run_at_once_than_allowed(limit: int) -> None:
    gauge, barrier = Gauge(), asyncio.Barrier(limit)

    async def work(x: int) -> int:
        with gauge:
            async with asyncio.timeout(PATIENCE):
                await barrier.wait()
            return x

    run = Workflow("w", each(step(work)) >> collect).run(range(10), parallel=limit)

    assert run.output == list(range(10))
    assert gauge.most == limit


def test_folds_of_one_state_never_overlap() -> None:
    gauge = Gauge()

    def add(so_far: int, x: int) -> int:
        with gauge:
            return so_far + x

    run = Workflow("w", each(step(lambda x: x, name="keep")), step(lambda x: x, name="root")).plan()
    run.add(accumulator(add, init=0), to="keep").plan(range(50))

    run.react_until_satisfied(parallel=4)

    assert run.state_of("add") == sum(range(50))
    assert gauge.most == 1


def test_inputs_at_once_all_count() -> None:
    """E46."""
    run = Workflow("w", step(lambda x: x, name="root") >> total).plan()
    for value in range(1, 6):
        run.plan(value)

    run.react_until_satisfied(parallel=5)

    assert run.state_of("total") == 15
    assert len(run.values("total")) == 5


@pytest.mark.parametrize("parallel", [0, -1])
def test_a_limit_below_one_is_refused(parallel: int) -> None:
    run = Workflow("w", total).plan(1)

    with pytest.raises(ValueError, match=f"parallel={parallel}: use a number of at least 1"):
        run.react_until_satisfied(parallel=parallel)

    assert run.is_runnable


# -- as each one ends ----------------------------------------------------------------------------


def slow_and_fast() -> Workflow:
    """A slow branch that ends only after the fast one has been applied and gone on."""
    released = threading.Event()
    root = step(lambda x: x, name="root")
    slow = step(lambda x: (x + 1, released.wait(PATIENCE)), name="slow")
    fast = step(lambda x: x + 2, name="fast")
    release = step(lambda x: (x, released.set())[0], name="release")
    gather = step(lambda a, b: (a, b), name="gather")
    return Workflow("w", root >> [slow, fast], fast >> release, [slow, release] >> gather)


def order(run: Run) -> list[str | None]:
    """The components in the order in which they were applied."""
    return [fact.producer for fact in run.productions()]


def test_a_fast_branch_goes_on_before_a_slow_one_ends() -> None:
    """B17."""
    run = slow_and_fast().run(5, parallel=2)

    assert run.values("gather") == [((6, True), 7)]
    assert order(run).index("fast") < order(run).index("slow")


def test_a_fast_coroutine_goes_on_before_a_slow_one_ends() -> None:
    """B17."""
    released = asyncio.Event()

    async def slow(x: int) -> int:
        async with asyncio.timeout(PATIENCE):
            await released.wait()
        return x

    async def fast(x: int) -> int:
        return x

    async def release(x: int) -> int:
        released.set()
        return x

    run = Workflow("w", step(slow), step(fast) >> step(release)).run(1)

    assert run.failures == {}
    assert order(run).index("fast") < order(run).index("slow")


@pytest.mark.parametrize("parallel", [1, 2, 8])
def test_a_join_gives_the_same_with_any_limit(parallel: int) -> None:
    """B17, A6."""
    branches = [step(lambda x, k=k: x + k, name=f"plus_{k}") for k in (1, 2, 3)]
    root = step(lambda x: x, name="root")

    run = Workflow("w", root >> branches >> step(lambda *xs: sum(xs), name="sum")).run(5, parallel=parallel)

    assert run.values("sum") == [21]


@pytest.mark.parametrize("parallel", [2, 8])
def test_a_join_behind_a_join_fires_once(parallel: int) -> None:
    """B20."""
    e, r, h = (step(lambda x, n=n: f"{x}{n}", name=n) for n in "erh")
    classify = step(lambda *xs: "+".join(xs), name="classify")
    process = step(lambda g, x: f"{g}|{x}", name="process")

    run = Workflow("w", e >> [r, h], [e, r, h] >> classify, [classify, e] >> process).run("-", parallel=parallel)

    assert run.values("process") == ["-e+-er+-eh|-e"]


def test_a_reduce_keeps_the_order_of_elements_that_end_backwards() -> None:
    """C24: each element ends only after the one behind it was applied."""
    applied = [threading.Event() for _ in range(5)]
    applied[4].set()

    def backwards(x: int) -> int:
        assert applied[x + 1].wait(PATIENCE)
        return x

    def note(run: Run) -> None:
        for x in run.values("backwards"):
            applied[x].set()

    run = Workflow("w", each(step(backwards)) >> collect).run(range(4), parallel=4, checkpoint=note)

    assert run.values("backwards") == [3, 2, 1, 0]
    assert run.output == [0, 1, 2, 3]


def test_a_failing_step_stops_no_other() -> None:
    barrier = threading.Barrier(2, timeout=PATIENCE)

    def fail(x: int) -> None:
        barrier.wait()
        raise ValueError(x)

    meet = step(lambda x: (barrier.wait(), x)[1], name="meet")
    after = step(lambda x: x, name="after")

    run = Workflow("w", step(fail), meet >> after).run(1, parallel=2)

    assert list(run.failures) == ["fail"]
    assert run.value("after") == 1


def test_a_run_that_overlapped_can_be_rebuilt() -> None:
    run = slow_and_fast().run(5, parallel=2)

    assert Run.from_log(run.log()) == run


# -- checkpoints ---------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [None, 2])
def test_the_checkpoint_is_called_after_every_cycle(parallel: int | None) -> None:
    async def fetch(x: int) -> int:
        return x + 1

    lengths: list[int] = []
    workflow = Workflow("w", step(fetch) >> step(lambda x: x, name="b") >> step(lambda x: x, name="c"))

    run = workflow.run(1, parallel=parallel, checkpoint=lambda run: lengths.append(len(run.log())))

    assert lengths == [3, 4, 5]
    assert run.output == 2


def test_the_checkpoint_sees_a_fast_branch_before_a_slow_one_ends() -> None:
    seen: list[set[str | None]] = []

    slow_and_fast().run(5, parallel=2, checkpoint=lambda run: seen.append(set(order(run))))

    assert {"root", "fast"} in seen
    assert seen[-1] == {"root", "fast", "release", "slow", "gather"}


def test_a_checkpoint_may_give_more_input() -> None:
    def once(run: Run) -> None:
        if len(run.values()) == 1:
            run.plan(10)

    run = Workflow("w", step(lambda x: -x, name="negate")).run(1, parallel=2, checkpoint=once)

    assert sorted(run.values()) == [-10, -1]
    assert run.status == "idle"


def test_a_checkpoint_may_ask_conditions_of_more_input() -> None:
    """What they let through is run as well."""
    positive = condition(lambda x: x > 0, name="positive")

    def once(run: Run) -> None:
        if len(run.values()) == 1:
            run.plan_eagerly(10)

    run = Workflow("w", positive >> step(lambda x: -x, name="negate")).run(1, parallel=2, checkpoint=once)

    assert sorted(run.values()) == [-10, -1]
    assert run.status == "idle"


def test_what_a_checkpoint_looks_at_is_still_dispatched_at_once() -> None:
    """While something slow is under way: here the slow one waits for it."""
    released = threading.Event()

    def work(x: str) -> bool:
        if x == "release":
            released.set()
        return x != "slow" or released.wait(PATIENCE)

    def once(run: Run) -> None:
        if len(run.values()) == 1:
            run.plan("release").prepare()

    run = Workflow("w", step(work)).plan("slow").plan("fast")

    run.react_until_satisfied(parallel=2, checkpoint=once)

    assert run.values() == [True, True, True]


def test_a_checkpoint_may_change_the_workflow() -> None:
    later = step(lambda x: ("later", x), name="later")

    def once(run: Run) -> None:
        if "later" not in run.workflow:
            run.add(later, to="b")

    chain = step(lambda x: x, name="a") >> step(lambda x: x, name="b")

    run = Workflow("w", chain).run(1, parallel=2, checkpoint=once)

    assert run.value("later") == ("later", 1)


def test_a_component_that_is_removed_while_it_is_under_way_finishes() -> None:
    removed = threading.Event()
    slow = step(lambda x: removed.wait(PATIENCE), name="slow")

    def remove(run: Run) -> None:
        run.remove("slow")
        removed.set()

    run = Workflow("w", slow, step(lambda x: x, name="fast")).run(1, parallel=2, checkpoint=remove)

    assert run.values() == [1, True]
    assert run.status == "idle"


def test_a_checkpoint_that_raises_stops_the_loop_and_harms_nothing() -> None:
    run = Workflow("w", step(lambda x: x, name="a") >> step(lambda x: -x, name="b")).plan(1)

    def full(_: Run) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run.react_until_satisfied(parallel=2, checkpoint=full)

    assert run.react_until_satisfied(parallel=2).output == -1


# -- inside a running loop -----------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [None, 2])
def test_an_async_step_runs_inside_a_running_loop(parallel: int | None) -> None:
    async def fetch(x: int) -> int:
        return x + 1

    workflow = Workflow("w", step(fetch))

    async def main() -> Run:
        return workflow.run(1, parallel=parallel)

    assert asyncio.run(main()).output == 2


@pytest.mark.parametrize("parallel", [None, 2])
def test_an_interrupt_comes_through_inside_a_running_loop(parallel: int | None) -> None:
    async def fetch(x: int) -> int:
        raise SystemExit(x)

    run = Workflow("w", step(fetch)).plan(3)

    async def main() -> None:
        with pytest.raises(SystemExit):
            run.react_until_satisfied(parallel=parallel)

    asyncio.run(main())

    assert run.is_runnable


def test_an_async_runnable_can_be_executed_in_a_running_loop_both_ways() -> None:
    async def fetch(x: int) -> int:
        return x + 1

    [runnable] = Workflow("w", step(fetch)).plan(1).prepare()

    async def main() -> tuple[object, object]:
        return runnable.execute().result, (await runnable.aexecute()).result

    assert asyncio.run(main()) == (2, 2)


def test_plain_and_async_steps_mix_in_an_asynchronous_run() -> None:
    async def fetch(x: int) -> int:
        return x + 1

    is_even = condition(lambda x: x % 2 == 0, name="is_even")
    workflow = Workflow("w", step(fetch) >> is_even >> step(lambda x: x * 10, name="tenfold") >> total)

    run = asyncio.run(workflow.arun(1))

    assert run.output == 20


def test_a_further_input_can_be_run_asynchronously() -> None:
    workflow = Workflow("w", total)

    async def main() -> Run:
        run = await workflow.arun(1)
        return await run.arun(2)

    assert asyncio.run(main()).values() == [1, 3]


# -- what a step sees ----------------------------------------------------------------------------

request: contextvars.ContextVar[str] = contextvars.ContextVar("request")


async def aseen(_: int) -> str:
    return request.get()


@pytest.mark.parametrize("function", [lambda _: request.get(), aseen], ids=["plain", "async"])
@pytest.mark.parametrize("parallel", [None, 2])
def test_a_step_sees_the_context_variables_of_the_caller(
    function: Callable[[int], object], parallel: int | None
) -> None:
    def call() -> object:
        request.set("r-1")
        return Workflow("w", step(function, name="seen")).run(1, parallel=parallel).output

    assert contextvars.copy_context().run(call) == "r-1"


def test_each_of_several_steps_at_once_knows_its_own_name() -> None:
    barrier = threading.Barrier(3, timeout=PATIENCE)
    steps = [step(lambda _: (barrier.wait(), current().component)[1], name=f"s{n}") for n in range(3)]

    run = Workflow("w", *steps).run(1, parallel=3)

    assert run.results() == {"s0": "s0", "s1": "s1", "s2": "s2"}


def test_each_of_several_coroutines_at_once_knows_its_own_name() -> None:
    barrier = asyncio.Barrier(3)

    async def who(_: int) -> str:
        async with asyncio.timeout(PATIENCE):
            await barrier.wait()
        return current().component

    run = Workflow("w", *(step(who, name=f"s{n}") for n in range(3))).run(1)

    assert run.results() == {"s0": "s0", "s1": "s1", "s2": "s2"}


# -- what is no failure --------------------------------------------------------------------------


async def araise(signal: BaseException) -> None:
    raise signal


def throw(signal: BaseException) -> None:
    raise signal


@pytest.mark.parametrize("signal", [KeyboardInterrupt(), SystemExit(3)], ids=["interrupt", "exit"])
@pytest.mark.parametrize("function", [throw, araise], ids=["plain", "async"])
def test_an_interrupt_propagates_and_the_work_stays_ready(
    function: Callable[[BaseException], object], signal: BaseException
) -> None:
    run = Workflow("w", step(function, name="work")).plan(signal)

    with pytest.raises(type(signal)):
        run.react_until_satisfied(parallel=2)

    assert [runnable.component for runnable in run.prepare()] == ["work"]
    assert not run.failed


def test_a_cancelled_run_stops_its_coroutines_and_can_go_on() -> None:
    ended: list[str] = []
    patient = [True]

    async def work(x: int) -> int:
        try:
            if patient:
                started.set()
                await asyncio.Event().wait()
        finally:
            ended.append("work")
        return x

    run = Workflow("w", step(work)).plan()

    async def main() -> None:
        task = asyncio.ensure_future(run.arun(1))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = asyncio.Event()
    asyncio.run(main())
    after = (list(ended), run.is_runnable, run.failed)
    patient.clear()

    assert after == (["work"], True, False)
    assert run.react_until_satisfied().output == 1


def test_a_coroutine_that_something_else_cancelled_has_failed() -> None:
    """Nobody cancelled the run, so it goes on."""

    async def wait(_: int) -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    run = Workflow("w", step(wait), step(lambda x: x, name="other")).run(1)

    assert isinstance(run.failures["wait"].__cause__, asyncio.CancelledError)
    assert run.value("other") == 1
    assert run.status == "idle"


@pytest.mark.parametrize("parallel", [None, 2])
def test_a_run_is_driven_by_one_at_a_time(parallel: int | None) -> None:
    run = Workflow("w", *meeting(2)).plan()

    async def main() -> list[object]:
        return await asyncio.gather(
            run.arun(1, parallel=parallel), run.arun(1, parallel=parallel), return_exceptions=True
        )

    first, second = asyncio.run(main())

    assert first is run
    assert isinstance(second, AlreadyRunning)
    assert run.values() == [1, 1]


def test_no_thread_outlives_the_run() -> None:
    before = set(threading.enumerate())

    Workflow("w", each(step(lambda x: x, name="keep"))).run(range(10), parallel=4)

    assert set(threading.enumerate()) == before


@pytest.mark.parametrize("parallel", [None, 4])
def test_a_loop_that_was_held_up_before_it_started_anything_starts_it_once(
    parallel: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine under load takes the processor away for longer than a turn of the loop."""
    calls: list[int] = []
    held_up = iter([0.0, 60.0])

    @step
    async def charge(x: int) -> int:
        calls.append(x)
        return x

    monkeypatch.setattr("weft.local.concurrent.monotonic", lambda: next(held_up, 0.0))
    run = Workflow("w", charge).run(1, parallel=parallel)

    assert calls == [1]
    assert run.values("charge") == [1]
