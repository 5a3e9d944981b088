"""The checkpoint of a run in memory is called after every cycle, and may change the run."""

from __future__ import annotations

import threading

import pytest
from overlapping import PATIENCE, order, slow_and_fast

from weft import Run, Workflow, condition, step


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
    """An input that they let through is run as well."""
    positive = condition(lambda x: x > 0, name="positive")

    def once(run: Run) -> None:
        if len(run.values()) == 1:
            run.plan_eagerly(10)

    run = Workflow("w", positive >> step(lambda x: -x, name="negate")).run(1, parallel=2, checkpoint=once)

    assert sorted(run.values()) == [-10, -1]
    assert run.status == "idle"


def test_what_a_checkpoint_looks_at_is_still_dispatched_at_once() -> None:
    """While something slow runs: here the slow one waits for it."""
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


def test_a_component_that_is_removed_while_it_is_in_flight_finishes() -> None:
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
