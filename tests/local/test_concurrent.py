"""
The concurrent loop: what may overlap does, what may not does not.

Nothing here sleeps.  Steps meet at barriers and wait for events; a wait that would last for ever ends in a
failure after ``PATIENCE`` seconds.
"""

from __future__ import annotations

import asyncio
import threading

import pytest
from overlapping import PATIENCE, Gauge, collect, meeting, order, slow_and_fast, total

from weft import Run, Workflow, accumulator, each, step

# -- overlapping -----------------------------------------------------------------------------------


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


# -- limits ----------------------------------------------------------------------------------------


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


# -- as each one ends ------------------------------------------------------------------------------


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
