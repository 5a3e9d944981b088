"""Process managers: events of many sources, their own state, commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import Policy, ProcessManager, Run, Workflow, context, each, latest, reduce, state_of, step
from weft.core.components.state_change import Call, Ignored, StateChange, States
from weft.core.events import StateChanged
from weft.errors import InvalidComponent, InvalidStateChange, UnknownReference, WrongArity

Seen = dict[str, bool]


def both(**options: Any) -> ProcessManager:
    """Complete when it has seen both events; the first is answered."""
    made = ProcessManager("pm", init={"a": False, "b": False}, complete=lambda s: s["a"] and s["b"], **options)
    made.on("ea")(lambda s, e: ({**s, "a": True}, ["got_a"]))
    made.on("eb")(lambda s, e: ({**s, "b": True}, []))
    return made


def orders(**options: Any) -> ProcessManager:
    """One process per order: shipped when paid."""
    made = ProcessManager("order", init=list, key=lambda e: e["id"], complete=lambda s: "sent" in s, **options)
    made.on("paid")(lambda s, e: ([*s, "paid"], [("ship", e["id"])]))
    made.on("sent")(lambda s, e: ([*s, "sent"], []))
    return made


def fed(component: ProcessManager, *events: Any, **options: Any) -> Run:
    run = Workflow("w", component).plan(**options)
    for event in events:
        run.run(event)
    return run


def event(name: str, number: Any) -> dict[str, Any]:
    return {"event": name, "id": number}


def test_it_reacts_and_completes_once() -> None:
    """E60."""
    run = fed(both(on_complete=lambda s: ("done", s)), "ea")
    before = run.is_complete("pm")

    run.run("eb")
    run.run("zz")
    run.run("ea")

    assert run.values("pm") == ["got_a"]
    assert not before
    assert run.is_complete("pm")
    assert run.values("pm.on_complete") == [("done", {"a": True, "b": True})]


@pytest.mark.parametrize("first", ["zz", 3, None, {"event": None}, ("zz", 1)])
def test_an_event_that_nothing_declares_leaves_the_initial_state(first: object) -> None:
    """E60."""
    run = fed(both(), first)

    assert run.state_of("pm") == {"a": False, "b": False}
    assert not run.is_complete("pm")
    assert not run.failed


def test_a_command_is_made_of_the_event_and_the_state() -> None:
    """E61."""
    made = ProcessManager("pm", init=0)
    made.on("order")(lambda s, e: (s + 1, [("charge", e[1], s)]))

    assert fed(made, ("order", 7), ("order", 8)).values("pm") == [("charge", 7, 0), ("charge", 8, 1)]


@dataclass(frozen=True)
class Paid:
    order: int


def test_events_can_be_named_by_type() -> None:
    made = ProcessManager("pm", init=0)

    @made.on(Paid)
    def paid(state: int, happened: Paid) -> tuple[int, list[Any]]:
        return state + 1, [("ship", happened.order)]

    run = fed(made, Paid(7))

    assert run.values("pm") == [("ship", 7)]
    assert paid(0, Paid(1)) == (1, [("ship", 1)])


def test_commands_flow_on_one_by_one() -> None:
    made = ProcessManager("pm", init=None)
    made.on("go")(lambda s, e: (s, (n for n in range(3))))

    run = Workflow("w", made >> step(lambda n: n * 10, name="ten")).run("go")

    assert run.values("ten") == [0, 10, 20]
    assert [type(e).__name__ for e in run.log()[1:3]] == ["InputReceived", "StateChanged"]


def test_no_commands_may_be_said_by_none() -> None:
    made = ProcessManager("pm", init=0)
    made.on("go")(lambda s, e: (s + 1, None))

    run = fed(made, "go")

    assert (run.state_of("pm"), run.values("pm")) == (1, [])


# -- one state per key ---------------------------------------------------------------------------


def test_with_a_key_it_keeps_one_state_per_key() -> None:
    run = fed(orders(), event("paid", 7), event("paid", 8), event("sent", 7))

    assert run.state_of("order") == {7: ["paid", "sent"], 8: ["paid"]}
    assert run.is_complete("order", key=7)
    assert not run.is_complete("order", key=8)
    assert not run.is_complete("order", key=9)
    assert not run.is_complete("order")


def test_each_key_completes_once() -> None:
    run = fed(orders(on_complete=lambda s: s), *(event(name, n) for n in (1, 2) for name in ("sent", "sent", "paid")))

    assert run.values("order.on_complete") == [["sent"], ["sent"]]
    assert run.is_complete("order")


def test_states_by_key_survive_a_restore(finish: Callable[[Run], Run]) -> None:
    run = Workflow("w", step(lambda x: x, name="root") >> orders()).plan()
    for n in range(3):
        run.plan(event("paid", n)).plan(event("sent", n))

    finish(run)
    restored = Run.from_log(run.log())

    assert restored == run
    assert restored.state_of("order") == run.state_of("order")
    assert set(run.state_of("order")) == {0, 1, 2}


def test_the_log_holds_one_state_per_event_and_not_the_table() -> None:
    run = fed(orders(), event("paid", 7), event("paid", 8))

    turns = [e for e in run.log() if isinstance(e, StateChanged)]

    assert [(turn.key, turn.state) for turn in turns] == [(7, ["paid"]), (8, ["paid"])]


def test_the_cause_of_a_command_is_the_state_of_its_own_key() -> None:
    run = fed(orders(), event("paid", 7), event("paid", 8), event("paid", 7))

    assert [read.value for read in run.fact("order").reads] == [["paid"]]
    assert run.facts("order")[1].reads == ()


def test_a_key_that_cannot_be_one_is_a_clear_failure() -> None:
    run = fed(orders(), event("paid", []))

    assert isinstance(run.failures["order"].__cause__, InvalidStateChange)
    assert "order.key returned []" in str(run.failures["order"])


def test_states_by_key_are_found_again_when_it_comes_back_to_a_live_run() -> None:
    run = fed(orders(), event("paid", 7))

    run.remove("order")
    run.add(orders())
    run.run(event("sent", 7))

    assert run.state_of("order") == {7: ["paid", "sent"]}


def test_no_parameter_can_read_states_by_key() -> None:
    read: Any = step(lambda x, s=state_of("order"): s, name="read")

    with pytest.raises(UnknownReference, match=r"which keeps a state per key; read latest\('order'\)"):
        Workflow("w", orders(), read)


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["handler", "complete", "key"])
def test_whatever_fails_leaves_the_state_as_it_was(part: str) -> None:
    def check(where: str, value: Any) -> Any:
        if where == part and value == "bad":
            raise ValueError(where)
        return 0

    made = ProcessManager("pm", init="", key=lambda e: check("key", e[1]), complete=lambda s: check("complete", s[-3:]))
    made.on("go")(lambda s, e: (s + e[1] + "x" * check("handler", e[1]), [e[1]]))

    run = fed(made, ("go", "bad"), ("go", "good"))

    assert run.state_of("pm") == {0: "good"}
    assert run.values("pm") == ["good"]
    assert str(run.failures["pm"].__cause__) == part


@pytest.mark.parametrize(
    "returned", [None, 1, (1,), (1, 2, 3), (1, ("ship", 7)), (1, "ship"), (1, {"ship": 7}), [1, []]]
)
def test_a_handler_that_does_not_return_state_and_commands_is_a_clear_failure(returned: object) -> None:
    made = ProcessManager("pm", init=0)
    made.on("go")(lambda s, e: returned)

    run = fed(made, "go")

    assert isinstance(run.failures["pm"].__cause__, InvalidStateChange)
    assert "pm.on.go returned" in str(run.failures["pm"])
    assert run.state_of("pm") == 0


def test_it_is_retried_as_a_whole_and_what_it_fires_by_itself() -> None:
    calls: list[str] = []

    def flaky(state: Any) -> str:
        calls.append("complete")
        if len(calls) < 3:
            raise OSError
        return "done"

    workflow = Workflow("w", both(on_complete=flaky)).with_policies([("pm.on_complete", Policy(max_retries=2))])
    run = workflow.run("ea")

    run.run("eb")

    assert run.value("pm.on_complete") == "done"


# -- among others --------------------------------------------------------------------------------


def test_its_functions_read_context_and_other_components() -> None:
    most: Any = context("most")
    made = ProcessManager("pm", init=0, complete=lambda s, m=most: s >= m)
    made.on("go")(lambda s, e, n=latest("size"): (s + n, []))
    run = Workflow("w", made, step(len, name="size")).run("go", context={"pm.most": 4})
    before = run.is_complete("pm")

    run.run("go")

    assert (before, run.is_complete("pm"), run.state_of("pm")) == (False, True, 4)


def test_others_read_its_state() -> None:
    read: Any = step(lambda x, s=state_of("pm"): s["a"], name="read")
    run = Workflow("w", both(), read).run("zz")

    run.run("ea")

    assert run.values("read") == [False, True]


def test_async_handlers_keys_and_ends_are_awaited() -> None:
    async def key(happened: str) -> str:
        return happened

    async def complete(state: int) -> bool:
        return state == 1

    made = ProcessManager("pm", init=0, key=key, complete=complete)

    @made.on("go")
    async def go(state: int, happened: str) -> Any:
        return state + 1, [happened]

    run = fed(made, "go", "go")

    assert run.state_of("pm") == {"go": 1}
    assert run.values("pm") == ["go"]


def test_it_stands_inside_an_each_and_inside_a_workflow(finish: Callable[[Run], Run]) -> None:
    count = reduce(lambda acc, command: acc + 1, init=0, name="count")
    outer = Workflow("outer", each(Workflow("inner", orders())) >> count)

    run = finish(outer.plan([event("paid", 1), event("paid", 2), event("sent", 1), "zz"]))

    assert run.value("count") == 2
    assert run.is_complete("inner.order", key=1)


def test_its_identity_covers_every_function() -> None:
    def make(init: int = 0, handler: Any = len, **options: Any) -> bytes:
        made = ProcessManager("m", init=init, **options)
        made.on("e")(handler)
        return made.identity

    others = [make(), make(1), make(handler=max), make(key=len), make(complete=len), make(on_complete=len)]

    assert make() == make()
    assert len(set(others)) == len(others)


# -- the decision, by hand -----------------------------------------------------------------------


def test_a_decision_asks_the_key_the_handler_and_the_end() -> None:
    talk = orders(on_complete=len).decide(States({}), event("paid", 7))

    asked = [talk.send(answer) for answer in (None, 7, (["sent"], [1, 2]))]
    with pytest.raises(StopIteration) as end:
        talk.send("yes")

    assert asked == [
        Call("key", (event("paid", 7),)),
        Call("on.paid", ([], event("paid", 7))),
        Call("complete", (["sent"],)),
    ]
    assert end.value.value == StateChange(["sent"], (1, 2), ("on_complete",), done=True, key=7)


def test_a_decision_about_what_is_complete_asks_no_handler() -> None:
    turn = StateChanged(3, "order", (2,), ["sent"], done=True, key=7)
    talk = orders().decide(States({7: turn}), event("paid", 7))

    talk.send(None)
    with pytest.raises(StopIteration) as end:
        talk.send(7)

    assert end.value.value == Ignored()


@given(st.lists(st.tuples(st.sampled_from(["paid", "sent", "zz"]), st.integers(0, 2)), max_size=15))
def test_every_key_is_a_process_of_its_own(events: list[tuple[str, int]]) -> None:
    """The model: each key sees its own events, up to the first that completes it."""
    run = fed(orders(), *(event(name, number) for name, number in events))

    expected: dict[int, list[str]] = {}
    for name, number in events:
        if name != "zz" and "sent" not in expected.get(number, []):
            expected.setdefault(number, []).append(name)

    assert run.state_of("order") == expected


# -- what is refused -----------------------------------------------------------------------------


def test_it_cannot_change_once_a_workflow_has_it() -> None:
    made = both()
    Workflow("w", made >> step(lambda x: x, name="a"))

    with pytest.raises(InvalidComponent, match="'pm' is part of a workflow and cannot change any more"):
        made.on("late")(len)


def test_an_event_is_declared_once() -> None:
    with pytest.raises(InvalidComponent, match="an event of 'pm' is declared twice: 'ea'"):
        both().on("ea")(len)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": lambda a, b: a}, r"'pm\.key' takes 2"),
        ({"on_complete": lambda a, b: a}, r"'pm\.on_complete' takes 2"),
    ],
)
def test_functions_take_what_they_are_about(options: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongArity, match=message):
        Workflow("w", both(**options))


def test_a_handler_takes_the_state_first() -> None:
    made = both()
    made.on("bad")(lambda s: s)

    with pytest.raises(WrongArity, match=r"'pm\.on\.bad' must take \(state, value\)"):
        Workflow("w", made)
