"""
The law of runs that are continued as new ones: what follows is the same as if the old run had gone on.

A run is driven until nothing is ready; then it goes on as it is and, beside it, as the run that continues it.  Both get
the same signals, inputs and time.
"""

from __future__ import annotations

import operator
from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from weft import INPUT, Run, Workflow, accumulator, each, join, latest, reduce, repeat, sleep, state_of, step, wait_for
from weft.core.run.continuation import CannotCarry, begun_from
from weft.core.run.input_results import results_of
from weft.core.run.waits import begin_waits, fire_timer, receive_signal, timers
from weft.errors import InvalidSignal, UnknownSignal

from .test_waits import SIGNALS, actions, driven, inputs, workflows


def settle(run: Run, now: float) -> None:
    """Run everything that can run, one after the other, and begin what waits."""
    while True:
        begin_waits(run, now)
        runnables = run.prepare()
        if not runnables and not run.memory.newly_waiting:
            return
        for runnable in runnables:
            run.apply(runnable.execute())


class Pair:
    """A run, and the one that continues it."""

    def __init__(self, run: Run, now: float) -> None:
        self.old, self.now = Run.from_log(run.log()), now
        settle(self.old, now)
        begun = begun_from(self.old, "new", None)
        self.new, self.moved = Run.from_log(begun.run.log()), dict(begun.inputs)
        assert self.new == begun.run
        settle(self.new, now)
        assert len(self.new.log()) == len(begun.run.log()), "nothing happens because of it"

    def act(self, choice: int) -> None:
        """Let the same thing happen to both."""
        kind, value = choice % 4, choice // 4
        for run in (self.old, self.new):
            if kind == 0:
                self.later(run, self.now + value)
            elif kind == 1:
                run.plan([value % 3] * (value % 4) if "map_1" in run.workflow.components else value)
            else:
                key = f"key {value % 5}" if value % 3 == 0 else None
                with suppress(UnknownSignal, InvalidSignal):
                    receive_signal(run, SIGNALS[value % 2], value, at=self.now, key=key)
            settle(run, self.now)
        if kind == 0:
            self.now += value
        if kind == 1:
            self.moved[self.old.memory.received] = self.new.memory.received

    def later(self, run: Run, now: float) -> None:
        for key, due, _ in timers(run.memory):
            if due <= now:
                fire_timer(run, key, now)
                settle(run, now)

    def check(self) -> None:
        assert self.new.waiting_for == self.old.waiting_for
        assert [(key[0], due) for key, due, _ in timers(self.new.memory)] == [
            (key[0], due) for key, due, _ in timers(self.old.memory)
        ]
        for old, new in self.moved.items():
            assert results_of(self.new, new) == results_of(self.old, old)


@given(workflows(), inputs, actions, st.lists(st.integers(0, 200), max_size=20))
def test_a_run_that_waits_goes_on_as_if_it_had_not_been_continued(
    workflow: Workflow, values: list[list[int]], steps: list[tuple[str, int]], more: list[int]
) -> None:
    assume("loop" not in workflow.components)  # whose end depends on how often it was asked
    model = driven(workflow, values, steps)
    pair = Pair(model.run, model.now)
    pair.check()
    for choice in more:
        pair.act(choice)
        pair.check()


total = accumulator(operator.add, init=0, name="total")
go = wait_for("go", name="go")
STATES = Workflow(
    "states",
    step(lambda x: x if isinstance(x, int) else 0, name="in") >> total,
    [INPUT, go]
    >> step(
        lambda x, went, t=state_of("total"), before=latest("after", default=None): (x, went, t, before), name="after"
    ),
    INPUT >> go,
    step(lambda x: range(x % 3), name="many")
    >> each(wait_for("paid", name="paid"))
    >> reduce(lambda n, _: n + 1, init=0),
)


@given(st.lists(st.integers(0, 60), max_size=12), st.lists(st.integers(0, 200), max_size=20), st.integers(1, 3))
def test_states_and_readers_find_the_versions_that_they_would_have_found(
    first: list[int], more: list[int], times: int
) -> None:
    run = STATES.plan()
    settle(run, 0.0)
    for choice in first:
        if choice % 2:
            run.plan(choice)
        else:
            receive_signal(run, SIGNALS[choice // 2 % 2], choice, at=0.0)
        settle(run, 0.0)
    pair = Pair(run, 0.0)
    for choice in more:
        pair.act(choice)
        pair.check()
        if choice % 7 == 0 and times:  # it is continued again
            times -= 1
            begun = begun_from(pair.new, f"new {times}", None)
            again = dict(begun.inputs)
            pair.new = Run.from_log(begun.run.log())
            settle(pair.new, pair.now)
            pair.moved = {old: again[new] for old, new in pair.moved.items() if new in again}
            pair.check()
        assert pair.new.state_of("total") == pair.old.state_of("total")


def is_large(x: int) -> bool:
    return x > 30


def test_a_loop_that_waits_is_carried_in_its_turn() -> None:
    turns = repeat(
        wait_for("go", name="go") >> step(lambda x: x + 1, name="more"), until=is_large, at_most=9, name="loop"
    )
    run = Workflow("w", turns).plan(1)
    settle(run, 0.0)
    receive_signal(run, "go", 10, at=0.0)
    settle(run, 0.0)

    pair = Pair(run, 0.0)
    for value in (20, 30):
        for each_run in (pair.old, pair.new):
            receive_signal(each_run, "go", value, at=0.0)
            settle(each_run, 0.0)
        pair.check()

    assert pair.new.value("loop") == 31
    assert pair.new.waiting_for == []


def test_what_a_join_gets_in_place_of_a_branch_is_carried() -> None:
    fails = step(lambda x: 1 / 0, name="fails")
    flow = join(fails, step(lambda x: x, name="works") >> sleep(5, name="later"), wait="all_done")
    run = Workflow("w", flow >> step(lambda *met: len(met), name="met") >> wait_for("go", name="go")).plan(3)
    settle(run, 0.0)
    pair = Pair(run, 0.0)
    for choice in (4 * 9, 2 + 4 * 6, 2 + 4 * 6):
        pair.act(choice)
        pair.check()
    assert pair.new.value("go") == 6


def test_a_workflow_that_was_changed_meanwhile_refuses_to_carry_what_it_does_not_have() -> None:
    run = Workflow("w", step(lambda x: x, name="a") >> go).plan(3)
    settle(run, 0.0)
    run.remove("a")

    with pytest.raises(CannotCarry, match="does not fit"):
        begun_from(run, "new", None)
