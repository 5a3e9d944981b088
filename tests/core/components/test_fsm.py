"""Finite state machines: declared states, events that lead from one to the next, actions on real transitions."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import (
    FSM,
    Absent,
    Policy,
    Run,
    Transition,
    Workflow,
    context,
    each,
    join,
    latest,
    reduce,
    state_of,
    step,
)
from weft.core import events as ev
from weft.core.components.state_change import Call, Ignored, StateChange
from weft.errors import DefinitionError, InvalidComponent, InvalidFallback, InvalidJoin, InvalidStateChange, WrongArity
from weft.policy import Value


def light(**options: Any) -> FSM:
    states = {
        "red": {"timer": "green"},
        "green": {"timer": "yellow"},
        "yellow": {"timer": "red", "emergency": "red"},
    }
    return FSM("light", initial="red", states=states, **options)


def fed(machine: FSM, *events: Any, **options: Any) -> Run:
    run = Workflow("w", machine).plan(**options)
    for event in events:
        run.run(event)
    return run


def kinds(run: Run) -> list[str]:
    return [type(event).__name__ for event in run.log()[1:]]


# -- transitions ---------------------------------------------------------------------------------


def test_events_lead_from_state_to_state() -> None:
    """E50."""
    run = fed(light(), *["timer"] * 4)

    assert run.values("light") == ["green", "yellow", "red", "green"]
    assert run.state_of("light") == "green"


@pytest.mark.parametrize("event", ["unknown", "emergency", 7, None, (), {"event": ["timer"]}, {"other": "timer"}])
def test_an_event_that_the_state_does_not_know_changes_nothing(event: object) -> None:
    """E50: also one that is valid in another state."""
    run = fed(light(), event)

    assert run.state_of("light") == "red"
    assert run.values("light") == []
    assert not run.failed


def test_a_self_loop_is_a_transition() -> None:
    """E50: it counts, and leaves and enters its state."""
    machine = FSM(
        "m", initial="on", states={"on": {"ping": "on"}}, on_entry={"on": lambda: "in"}, on_exit={"on": lambda: "out"}
    )

    run = fed(machine, "ping", "ping")

    assert run.values("m") == ["on", "on"]
    assert run.values("m.on.exit") == ["out", "out"]
    assert run.values("m.on.entry") == ["in", "in"]


def test_a_turn_is_one_event_and_so_is_an_event_that_is_ignored() -> None:
    run = fed(light(on_entry={"green": lambda: "go"}), "timer", "emergency")

    assert kinds(run) == ["InputReceived", "StateChanged", "ReactionOccurred", "InputReceived", "ConditionEvaluated"]
    assert run.log()[2] == ev.StateChanged(
        3, "light", (2,), "green", ("green",), ("green.entry",), duration_ns=run.log()[2].duration_ns
    )


class Tick(NamedTuple):
    at: int


class Lamp(Enum):
    OFF = 1
    ON = 2


def test_events_come_by_name_by_type_in_tuples_and_in_mappings() -> None:
    machine = FSM("m", initial="a", states={"a": {"go": "b"}, "b": {Tick: "c"}, "c": {Lamp.ON: "a"}})

    run = fed(machine, ("go", 1), Tick(3), Lamp.ON, {"event": "go", "who": "me"})

    assert run.values("m") == ["b", "c", "a", "b"]


def test_states_can_be_members_of_an_enum() -> None:
    machine = FSM(
        "lamp",
        initial=Lamp.OFF,
        states={Lamp.OFF: {"press": Lamp.ON}, Lamp.ON: {"press": Lamp.OFF}},
        on_entry={Lamp.ON: lambda: "bright"},
    )

    run = fed(machine, "press")

    assert run.state_of("lamp") is Lamp.ON
    assert run.value("lamp.ON.entry") == "bright"


# -- actions -------------------------------------------------------------------------------------


def test_an_entry_action_runs_exactly_once_and_not_for_the_initial_state() -> None:
    """E51: not for an unmatched event in that state either."""
    machine = FSM(
        "m",
        initial="idle",
        states={"idle": {"start": "running"}, "running": {}},
        on_entry={"idle": lambda: "idle", "running": lambda: "running"},
    )

    run = fed(machine, "start", "other", "start")

    assert run.values("m.running.entry") == ["running"]
    assert run.values("m.idle.entry") == []


def test_actions_become_ready_in_the_order_exit_do_entry_and_get_the_event() -> None:
    machine = FSM(
        "m",
        initial="a",
        states={"a": {"go": Transition("b", do=lambda event: ("do", event))}, "b": {}},
        on_exit={"a": lambda event: ("exit", event)},
        on_entry={"b": lambda event: ("entry", event)},
    )

    run = fed(machine, ("go", 5))

    assert run.values() == ["b", ("exit", ("go", 5)), ("do", ("go", 5)), ("entry", ("go", 5))]
    assert [fact.producer for fact in run.productions()] == ["m", "m.a.exit", "m.a.go.do", "m.b.entry"]


def test_an_internal_transition_neither_leaves_nor_enters() -> None:
    machine = FSM(
        "m",
        initial="a",
        states={"a": {"tick": Transition(do=lambda: "tock")}},
        on_entry={"a": lambda: "in"},
        on_exit={"a": lambda: "out"},
    )

    run = fed(Workflow("w", machine >> step(lambda s: s, name="after")).component("m"), "tick")

    assert run.values() == ["tock"]
    assert run.state_of("m") == "a"


def test_an_action_that_fails_leaves_the_transition_and_the_others() -> None:
    machine = light(on_exit={"red": lambda: 1 / 0}, on_entry={"green": lambda: "go"})

    run = fed(machine, "timer", "timer")

    assert run.state_of("light") == "yellow"
    assert run.values("light.green.entry") == ["go"]
    assert set(run.failures) == {"light.red.exit"}


def test_an_action_has_a_policy_of_its_own() -> None:
    calls: list[int] = []

    def flaky() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise OSError
        return "go"

    workflow = Workflow("w", light(on_entry={"green": flaky})).with_policies(
        [("light.green.entry", Policy(max_retries=2))]
    )

    assert workflow.run("timer").value("light.green.entry") == "go"


def test_the_cause_of_an_action_is_the_transition() -> None:
    run = fed(light(on_entry={"green": lambda: "go"}), "timer")

    assert str(run.explain("light.green.entry")).splitlines() == [
        "light.green.entry = 'go'",
        "├─ light = 'green'",
        "│  └─ input 1 = 'timer'",
        "└─ input 1 = 'timer'",
    ]


# -- guards --------------------------------------------------------------------------------------


def safe(**options: Any) -> FSM:
    code: Any = context("code", default="1234")
    opens = Transition("open", when=lambda event, code=code: event[1] == code)
    return FSM(
        "safe",
        initial="shut",
        states={"shut": {"unlock": [opens, Transition("alarm", when=lambda: True)]}, "open": {}, "alarm": {}},
        **options,
    )


def test_the_first_transition_whose_guard_holds_is_taken() -> None:
    assert fed(safe(), ("unlock", "1234")).state_of("safe") == "open"
    assert fed(safe(), ("unlock", "0000")).state_of("safe") == "alarm"


def test_a_guard_reads_the_context() -> None:
    assert fed(safe(), ("unlock", "9"), context={"safe.code": "9"}).state_of("safe") == "open"


def test_a_guard_reads_other_components() -> None:
    size = step(len, name="size")
    machine = FSM(
        "m",
        initial="a",
        states={"a": {"go": Transition("b", when=lambda event, n=latest("size"): n > 2)}, "b": {}},
    )
    run = Workflow("w", machine, size).run(("go", 1))

    run.run(("go", 1, 1))

    assert run.values("m") == ["b"]
    assert len(run.fact("m").reads) == 1


def test_a_guard_that_says_no_changes_nothing() -> None:
    machine = FSM("m", initial="a", states={"a": {"go": Transition("b", when=lambda event: [])}, "b": {}})

    run = fed(machine, "go")

    assert run.state_of("m") == "a"
    assert not run.failed


def test_a_guard_that_fails_is_a_recorded_failure_and_the_next_event_goes_on() -> None:
    machine = FSM("m", initial="a", states={"a": {"go": Transition("b", when=lambda e: e[1] > 0)}, "b": {}})

    run = fed(machine, ("go", "x"), ("go", 1))

    assert isinstance(run.failures["m"].__cause__, TypeError)
    assert run.state_of("m") == "b"


def test_a_transition_that_goes_nowhere_and_does_nothing_holds_an_event_back() -> None:
    states = {"a": {"go": [Transition(when=lambda e: e[1] < 0), "b"]}, "b": {}}

    run = fed(FSM("m", initial="a", states=states), ("go", -1))
    before = run.state_of("m")
    run.run(("go", 1))

    assert (before, run.state_of("m")) == ("a", "b")


def test_an_async_guard_and_an_async_action_are_awaited() -> None:
    async def holds(event: str) -> bool:
        return True

    async def entered() -> str:
        return "in"

    states = {"a": {"go": Transition("b", when=holds)}, "b": {}}

    run = fed(FSM("m", initial="a", states=states, on_entry={"b": entered}), "go")

    assert run.values() == ["b", "in"]


# -- ends ----------------------------------------------------------------------------------------


def test_a_final_state_completes_it() -> None:
    machine = FSM("m", initial="a", states={"a": {"end": "z"}, "z": {}}, final="z")
    run = fed(machine)
    before = run.is_complete("m")

    run.run("end")
    run.run("end")

    assert not before
    assert run.is_complete("m")
    assert run.values("m") == ["z"]


def test_one_that_is_in_no_final_state_is_not_complete() -> None:
    assert not fed(light(), "timer").is_complete("light")


# -- among others --------------------------------------------------------------------------------


def test_what_follows_gets_the_new_state_on_real_transitions() -> None:
    run = Workflow("w", light() >> step(str.upper, name="shout")).run("timer")

    run.run("emergency")
    run.run("timer")

    assert run.values("shout") == ["GREEN", "YELLOW"]
    assert run.results() == {"shout": "YELLOW"}


def test_events_in_flight_take_their_turns(finish: Callable[[Run], Run]) -> None:
    run = Workflow("w", step(lambda x: x, name="root") >> light(on_entry={"green": lambda: "go"})).plan()
    for _ in range(7):
        run.plan("timer")

    finish(run)

    assert run.values("light") == ["green", "yellow", "red"] * 2 + ["green"]
    assert run.values("light.green.entry") == ["go"] * 3


def test_others_read_its_state_and_its_latest_value() -> None:
    read: Any = step(lambda e, s=state_of("light"), v=latest("light", default="-"): (s, v), name="read")
    run = Workflow("w", light(), read).run("nothing")

    run.run("timer")

    assert run.values("read") == [("red", "-"), ("green", "green")]


def test_it_stands_inside_an_each_and_inside_a_workflow(finish: Callable[[Run], Run]) -> None:
    counted = light(on_entry={"green": lambda n=latest("count"): n})
    inner = Workflow("inner", counted, step(len, name="count"))
    collect = reduce(lambda acc, *s: [*acc, *s], init=list, name="collect")
    outer = Workflow("outer", each(Workflow("inner", light())) >> collect)

    run = finish(outer.plan(["timer", "nothing", "timer"]))
    nested = finish(Workflow("w", each(inner)).plan(["timer"]))

    assert sorted(run.value("collect")) == ["green", "yellow"]
    assert run.state_of("inner.light") == "yellow"
    assert nested.values("inner.light.green.entry") == [5]


def test_it_can_be_added_to_a_live_run_fed_and_removed_again() -> None:
    run = Workflow("w", step(lambda x: x, name="a")).run("timer")

    run.add(light(on_entry={"green": lambda: "go"}), to="a")
    run.add(step(str.upper, name="shout"), to="light")
    run.run("timer")
    run.remove("light")
    run.run("timer")

    assert run.values("light.green.entry") == ["go"]
    assert run.values("shout") == ["GREEN", "TIMER"]
    assert Run.from_log(run.log()) == run


def test_a_state_is_found_again_when_it_comes_back_to_a_live_run() -> None:
    run = Workflow("w", light(), step(lambda x: x, name="a")).run("timer")

    run.remove("light")
    run.run("timer")
    run.add(light())
    run.run("timer")

    assert run.state_of("light") == "yellow"


def test_two_advances_of_one_run_are_merged() -> None:
    run = fed(light(), "timer")
    twin = Run.from_log(run.log())
    twin.run("timer")

    run.merge(twin)

    assert run.state_of("light") == "yellow"


def test_a_join_waits_for_it_and_says_when_it_was_gated_off() -> None:
    echo = step(lambda x: x, name="echo")
    both = step(lambda a, b: (a, b), name="both")
    run = Workflow("w", [echo, light()] >> both).run("timer")

    run.run("nothing")

    assert run.values("both") == [("timer", "green")]


def test_a_reduce_leaves_out_what_is_ignored_and_fails_with_what_fails(finish: Callable[[Run], Run]) -> None:
    states = {"a": {"go": Transition("a", when=lambda e: 1 / e[1])}}
    count = reduce(lambda acc, s: acc + 1, init=0, name="count")
    workflow = Workflow("w", each(FSM("m", initial="a", states=states)) >> count)

    run = finish(workflow.plan([("go", 1), "other", ("go", 2)]))
    failed = finish(workflow.plan([("go", 1), ("go", 0)]))

    assert run.value("count") == 2
    assert set(failed.failures) == {"m", "count"}
    assert failed.values("count") == []


def test_a_join_for_all_done_is_told_why_there_is_no_state(finish: Callable[[Run], Run]) -> None:
    states = {"a": {"go": Transition("a", when=lambda e: 1 / e[1])}}
    echo = step(lambda x: x, name="echo")
    both = step(lambda e, s: s.reason if isinstance(s, Absent) else s, name="both")
    workflow = Workflow("w", join(echo, FSM("m", initial="a", states=states), wait="all_done") >> both)

    assert [finish(workflow.plan(e)).value("both") for e in (("go", 1), ("go", 0), "other")] == ["a", "failed", "gated"]


def test_an_action_reads_what_others_made_of_the_same_event(finish: Callable[[Run], Run]) -> None:
    machine = light(on_entry={"green": lambda n=latest("size"): n})
    slow = step(lambda e: e, name="first") >> step(len, name="size")

    run = finish(Workflow("w", machine, slow).plan("timer"))

    assert run.value("light.green.entry") == 5


def test_failures_of_guards_and_actions_take_an_error_route() -> None:
    machine = FSM(
        "m",
        initial="a",
        states={"a": {"go": Transition("b", when=lambda e: 1 / e[1])}, "b": {}},
        on_entry={"b": lambda: int("x")},
    )
    handled = step(lambda failure: (failure.component, failure.type), name="handled")
    run = Workflow("w", machine.on_error(then=handled)).run(("go", 0))

    run.run(("go", 1))

    assert run.values("handled") == [("m", "ZeroDivisionError"), ("m.b.entry", "ValueError")]
    assert not run.failed


def test_a_fallback_cannot_set_its_state() -> None:
    machine = FSM("m", initial="a", states={"a": {"go": Transition("b", when=lambda: 1 / 0)}, "b": {}})
    policy = Policy(on_failure="fallback", fallback=lambda runnable, error: Value("b"))

    run = Workflow("w", machine).with_policies([("m", policy)]).run("go")

    assert run.state_of("m") == "a"
    assert isinstance(run.failures["m"].__cause__, InvalidFallback)


def test_its_identity_covers_the_table_and_every_function() -> None:
    def make(**changed: Any) -> bytes:
        a = {"go": Transition(changed.get("to", "b"), when=changed.get("when"), do=changed.get("do"))}
        options: dict[str, Any] = {"initial": changed.get("initial", "a"), "final": changed.get("final", ())}
        entry: dict[str, Any] = changed.get("entry", {})
        return FSM("m", states={"a": a, "b": {}, "c": {}}, on_entry=entry, **options).identity

    changes: list[dict[str, Any]] = [
        {},
        {"to": "c"},
        {"to": None},
        {"when": lambda: 1},
        {"when": lambda: 2},
        {"do": lambda: 1},
        {"initial": "b"},
        {"final": ["c"]},
        {"entry": {"b": lambda: 1}},
        {"entry": {"c": lambda: 1}},
    ]

    assert make() == make()
    assert len({make(**change) for change in changes}) == len(changes)


def test_a_state_that_a_later_definition_does_not_have_is_a_clear_failure() -> None:
    run = fed(light(), "timer")
    run.remove("light")

    run.add(FSM("light", initial="red", states={"red": {"timer": "red"}}))
    run.run("timer")

    assert isinstance(run.failures["light"].__cause__, InvalidStateChange)


# -- the decision, by hand -----------------------------------------------------------------------


def test_a_decision_asks_only_the_guards_that_matter() -> None:
    talk = safe().decide("shut", ("unlock", "x"))

    first = talk.send(None)
    second = talk.send(0)
    with pytest.raises(StopIteration) as end:
        talk.send(1)

    assert (first, second) == (
        Call("shut.unlock.when", (("unlock", "x"),)),
        Call("shut.unlock_2.when", (("unlock", "x"),)),
    )
    assert end.value.value == StateChange("alarm", ("alarm",))


NAMES = st.sampled_from("abcd")


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, NAMES), min_size=4), st.lists(NAMES, max_size=12))
def test_a_machine_is_what_its_table_says(table: dict[str, dict[str, str]], events: list[str]) -> None:
    """The model is a lookup in the table, at every step."""
    machine = FSM("m", initial="a", states=table, on_entry={s: lambda: 1 for s in "abcd"})
    state, states = "a", []

    run = fed(machine, *events)
    for event in events:
        if event in table[state]:
            state = table[state][event]
            states.append(state)

    assert run.values("m") == states
    assert sum(len(run.values(f"m.{s}.entry")) for s in "abcd") == len(states)


@given(NAMES, NAMES)
def test_a_decision_without_guards_asks_nothing(state: str, event: str) -> None:
    machine = FSM("m", initial="a", states={s: {"a": "b"} for s in "abcd"})

    with pytest.raises(StopIteration) as end:
        machine.decide(state, event).send(None)

    assert end.value.value == (StateChange("b", ("b",)) if event == "a" else Ignored())


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial": "b"}, "the initial state is 'b', which is not declared; add it to states"),
        ({"states": {"a": {"go": "blue"}}}, "the target of a.go is 'blue', which is not declared"),
        ({"states": {"a": {"go": [Transition("a"), "blue"]}}}, "the target of a.go_2 is 'blue'"),
        ({"on_entry": {"b": len}}, "on_entry is 'b', which is not declared"),
        ({"on_exit": {"b": len}}, "on_exit is 'b', which is not declared"),
        ({"final": ["b"]}, "a final state is 'b', which is not declared"),
        ({"final": ["a"], "states": {"a": {"go": "a"}}}, "'a' is final and has events"),
        ({"states": {"a": {}, 1: {}}}, "a state of 'm' is called 1; use a string or a member"),
        ({"states": {"a": {1: "a"}}}, r"an event of m\.a is called 1; use a string, a member of an enum or a class"),
        ({"states": {"a": {}, "ON": {}, Lamp.ON: {}}}, "a state of 'm' is declared twice: 'ON' and <Lamp.ON"),
        ({"states": {}}, "the initial state is 'a', which is not declared.*it has none"),
    ],
)
def test_a_table_that_cannot_work_is_refused(options: dict[str, Any], message: str) -> None:
    """E53."""
    with pytest.raises(InvalidComponent, match=message):
        FSM("m", **{"initial": "a", "states": {"a": {}}, **options})


def test_functions_take_the_event_or_nothing() -> None:
    with pytest.raises(WrongArity, match=r"'light\.green\.entry' takes 2"):
        Workflow("w", light(on_entry={"green": lambda a, b: a}))


def test_it_takes_no_join() -> None:
    a, b = step(lambda x: x, name="a"), step(lambda x: x, name="b")

    with pytest.raises(InvalidJoin, match="'light' is an fsm and takes no join"):
        Workflow("w", [a, b] >> light())


def test_only_what_can_complete_is_asked_whether_it_has() -> None:
    run = Workflow("w", light(), step(lambda x: x, name="a")).run("timer")

    with pytest.raises(DefinitionError, match="'a' keeps no state"):
        run.is_complete("a")
    with pytest.raises(DefinitionError, match="'light' keeps one state; leave key=3 out"):
        run.is_complete("light", key=3)


@pytest.mark.parametrize("states", [["red", "green"], {"red": ["timer"]}])
def test_states_that_are_not_a_table_are_refused(states: Any) -> None:
    with pytest.raises(InvalidComponent, match="is not a table"):
        FSM("light", initial="red", states=states)


def test_a_machine_that_begins_in_a_final_state_is_complete() -> None:
    lamp = FSM("lamp", initial="off", states={"off": {}}, final=["off"])

    assert Workflow("w", lamp).plan().is_complete("lamp")
