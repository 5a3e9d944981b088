"""Turns: what a component that decides over its state puts into the log, and what the fold makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft import FSM, Aggregate, ProcessManager, Run, Workflow, step
from weft.core import events as ev
from weft.core.components.state_change import Call, Decision, Ignored, StateChange, adapted, as_function
from weft.core.functions.function import Function
from weft.errors import InvalidEvent


def light() -> FSM:
    states = {"red": {"timer": "green"}, "green": {"timer": "red"}}
    return FSM("light", initial="red", states=states, on_entry={"green": lambda: "go"})


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (lambda: ev.ReactionOccurred(3, "light", (2,), "green"), "'light' has nothing ready"),
        (lambda: ev.ConditionEvaluated(3, "light", (2,), holds=True), "'light' has nothing ready"),
        (lambda: ev.StateChanged(3, "light", (2,), "green", fired=("blue.entry",)), "'light' has no part 'blue.entry'"),
        (lambda: ev.StateChanged(3, "light", (1,), "green"), "'light' has nothing ready"),
        (lambda: ev.StateChanged(3, "other", (2,), 1), "'other' has nothing ready"),
    ],
)
def test_a_turn_that_cannot_have_happened_is_refused(event: Callable[[], ev.AnyEvent], why: str) -> None:
    run = Workflow("w", light(), step(lambda x: x, name="other")).plan("timer")

    with pytest.raises(InvalidEvent, match=why):
        run.record([event()])


def test_a_fold_calls_no_user_function() -> None:
    calls: list[str] = []

    def heard(name: str, value: Any) -> Any:
        calls.append(name)
        return value

    made = Aggregate("m", init=lambda: heard("init", 0))
    made.command("go", when=lambda s, c: heard("guard", True))(lambda s, c: heard("command", ("went", 1)))
    made.event("went")(lambda s, n: heard("event", s + n))
    log = Workflow("w", made).run("go").log()
    calls.clear()

    restored = Run.from_log(log)

    assert restored.state_of("m") == 1
    assert calls == []


def test_a_part_of_a_turn_is_given_what_it_asked_for_and_nothing_of_the_others() -> None:
    def decide(state: int, value: int) -> Decision:
        first = yield Call("one", (state,))
        second = yield Call("two", (value,))
        return StateChange((first, second))

    one = Function.of(lambda x, y=5: x * y).bind({"y": 7})
    two = Function.of(lambda: "triggered")

    assert as_function(decide, {"one": one, "two": two}).call(2, 3) == StateChange((14, "triggered"))


def test_a_function_that_raises_stop_iteration_does_not_end_the_decision() -> None:
    def decide(state: int, value: int) -> Decision:
        yield Call("one", ())
        return Ignored()

    def one() -> None:
        raise StopIteration

    with pytest.raises(StopIteration):
        as_function(decide, {"one": Function.of(one)}).call(1, 2)


def test_an_adapted_function_keeps_what_was_bound_to_it() -> None:
    bound = Function.of(lambda a, b, c: (a, b, c)).bind({"a": 1})

    assert adapted(bound, lambda *values: values[1:]).call(0, 2, 3) == (1, 2, 3)


def test_states_by_key_can_be_decided_on_threads() -> None:
    made = ProcessManager("pm", init=0, key=lambda e: e[1])
    made.on("add")(lambda s, e: (s + 1, [e[1]]))
    run = Workflow("w", step(lambda x: x, name="root") >> made >> step(lambda n: -n, name="after")).plan()
    for number in range(40):
        run.plan(("add", number % 4))

    run.react_until_satisfied(parallel=4)

    assert run.state_of("pm") == dict.fromkeys(range(4), 10)
    assert len(run.values("after")) == 40


def test_components_that_are_written_can_be_replaced_merged_hooked_and_tagged() -> None:
    def made(by: int) -> Aggregate:
        aggregate = Aggregate("m", init=0)
        aggregate.command("go")(lambda s, c: ("went", by))
        aggregate.event("went")(lambda s, n: s + n)
        return aggregate

    seen: list[Any] = []
    one = made(1)
    hooked = one.tagged("db").after(lambda call, events: seen.append(events))
    merged = Workflow("w", one).merge(Workflow("v", made(1), step(lambda x: x, name="a")))
    replaced = Workflow("w", one).replace("m", made(5))

    assert merged.run("go").state_of("m") == 1
    assert replaced.run("go").state_of("m") == 5
    assert Workflow("w", hooked).run("go").state_of("m") == 1
    assert seen == [[("went", 1)]]
    assert one.identity == made(1).identity != made(5).identity
