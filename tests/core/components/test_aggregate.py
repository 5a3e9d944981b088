"""Aggregates: commands that are checked against a state, events that make it what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import Aggregate, Policy, Run, Workflow, all_values, context, each, fact_count, latest, reduce, state_of, step
from weft.core.components.state_change import Call, Ignored, StateChange
from weft.errors import InvalidComponent, InvalidJoin, InvalidStateChange, WrongArity


def counter(init: Any = 0) -> Aggregate:
    """Counts up, and down as long as there is something."""
    made = Aggregate("counter", init=init)
    made.command("inc")(lambda s, c: ("raised", 1))
    made.command("dec", when=lambda s, c: s > 0)(lambda s, c: ("lowered", 1))
    made.command("many")(lambda s, c: [("raised", n) for n in range(1, c[1] + 1)])
    made.event("raised")(lambda s, n: s + n)
    made.event("lowered")(lambda s, n: s - n)
    return made


def fed(component: Aggregate, *commands: Any, **options: Any) -> Run:
    run = Workflow("w", component).plan(**options)
    for command in commands:
        run.run(command)
    return run


def test_a_command_emits_an_event_that_changes_the_state() -> None:
    """E54."""
    run = fed(counter(init=5), "dec")

    assert run.state_of("counter") == 4
    assert run.values("counter") == [("lowered", 1)]


@pytest.mark.parametrize("command", ["dec", "other", 7, None, {"command": ["inc"]}, ("other", 1)])
def test_a_command_that_is_refused_or_unknown_changes_nothing(command: object) -> None:
    """E54."""
    run = fed(counter(), command)

    assert run.state_of("counter") == 0
    assert run.values() == []
    assert not run.failed


def test_commands_follow_each_other() -> None:
    """E54."""
    assert fed(counter(), "inc", "inc", "inc").state_of("counter") == 3
    assert fed(counter(), "inc", "dec", "dec").state_of("counter") == 0


@pytest.mark.parametrize("event", [("raised", 5), "raised", {"event": "raised"}, {"command": "raised"}])
def test_its_own_events_given_as_input_are_ignored(event: object) -> None:
    run = fed(counter(), "inc", event)

    assert run.state_of("counter") == 1


def test_feeding_its_events_back_changes_nothing() -> None:
    run = fed(counter(), "inc")

    run.feed_back().react_until_satisfied()

    assert run.state_of("counter") == 1
    assert len(run.values("counter")) == 1


def test_several_events_of_one_command_fold_in_order_and_are_one_turn() -> None:
    run = fed(counter(), ("many", 3))

    assert run.state_of("counter") == 6
    assert run.values("counter") == [("raised", 1), ("raised", 2), ("raised", 3)]
    assert [type(event).__name__ for event in run.log()[1:]] == ["InputReceived", "StateChanged"]


def test_a_command_may_yield_its_events_or_emit_none() -> None:
    made = counter()

    @made.command("some")
    def some(state: int, command: Any) -> Iterator[Any]:
        yield ("raised", 2)
        yield ("raised", 3)

    made.command("none")(lambda s, c: None)
    made.command("empty")(lambda s, c: [])

    run = fed(made, "some", "none", "empty")

    assert run.state_of("counter") == 5
    assert [type(event).__name__ for event in run.log()].count("StateChanged") == 1


@dataclass(frozen=True)
class Deposit:
    amount: int


@dataclass(frozen=True)
class Deposited:
    amount: int


class LargeDeposit(Deposit):
    """Deposited like any other."""


def test_commands_and_events_can_be_named_by_type() -> None:
    account = Aggregate("account", init=0)

    @account.command(Deposit)
    def deposit(balance: int, command: Deposit) -> Deposited:
        return Deposited(command.amount)

    @account.event(Deposited)
    def deposited(balance: int, event: Deposited) -> int:
        return balance + event.amount

    run = fed(account, Deposit(5), LargeDeposit(100), Deposited(1_000))

    assert run.state_of("account") == 105
    assert run.values("account") == [Deposited(5), Deposited(100)]
    assert deposit(0, Deposit(3)) == Deposited(3)


def test_the_class_that_says_most_decides_between_a_command_and_an_event() -> None:
    class Message:
        """The base of both."""

    class Happened(Message):
        """An event."""

    made = Aggregate("m", init=0)
    made.command(Message)(lambda s, c: Happened())
    made.event(Happened)(lambda s, e: s + 1)

    assert fed(made, Message(), Happened()).state_of("m") == 1


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["guard", "command", "event"])
def test_whatever_fails_leaves_the_state_as_it_was_and_emits_nothing(part: str) -> None:
    made = Aggregate("m", init=1)

    def check(where: str, value: Any) -> Any:
        if where == part and value == "bad":
            raise ValueError(where)
        return value

    made.command("do", when=lambda s, c: check("guard", c[1]))(lambda s, c: ("done", check("command", c[1])))
    made.event("done")(lambda s, x: s + 1 if check("event", x) else s)

    run = fed(made, ("do", "bad"), ("do", "good"))

    assert run.state_of("m") == 2
    assert run.values("m") == [("done", "good")]
    assert str(run.failures["m"].__cause__) == part


def test_an_event_that_is_not_declared_is_a_clear_failure() -> None:
    made = counter()
    made.command("odd")(lambda s, c: ("strange", 1))

    run = fed(made, "odd")

    assert isinstance(run.failures["counter"].__cause__, InvalidStateChange)
    assert "declare it with @counter.event(...): it has raised, lowered" in str(run.failures["counter"])


def test_a_command_is_retried_as_a_whole() -> None:
    calls: list[Any] = []
    made = Aggregate("m", init=0)

    @made.command("do")
    def do(state: int, command: Any) -> Any:
        calls.append(state)
        if len(calls) < 3:
            raise OSError
        return ("done", 1)

    made.event("done")(lambda s, n: s + n)

    run = Workflow("w", made).with_policies([("m", Policy(max_retries=2))]).run("do")

    assert (calls, run.state_of("m")) == ([0, 0, 0], 1)


# -- among others --------------------------------------------------------------------------------


def test_what_follows_gets_every_event() -> None:
    run = Workflow("w", counter() >> step(lambda e: e[1] * 10, name="ten")).run(("many", 3))

    run.run("dec")

    assert run.values("ten") == [10, 20, 30, 10]


def test_several_events_are_zipped_with_other_parents(finish: Callable[[Run], Run]) -> None:
    echo = step(lambda x: x, name="echo")
    both = step(lambda a, b: (a, b[1]), name="both")
    one = Workflow("w", [echo, counter()] >> both)

    run = finish(one.plan(("many", 2)).plan("inc").plan("dec"))

    assert sorted(run.values("both"), key=str) == [("dec", 1), ("inc", 1), (("many", 2), 1)]


def test_two_aggregates_are_zipped_event_by_event(finish: Callable[[Run], Run]) -> None:
    second = counter().named("second")
    both = step(lambda a, b: (a[1], b[1]), name="both")

    run = finish(Workflow("w", [counter(), second] >> both).plan(("many", 3)))

    assert sorted(run.values("both")) == [(1, 1), (2, 2), (3, 3)]


def test_its_state_and_its_events_are_read_apart() -> None:
    read: Any = step(
        lambda c, s=state_of("counter"), v=latest("counter"), n=fact_count("counter"), a=all_values("counter"): (
            s,
            v,
            n,
            len(a),
        ),
        name="read",
    )
    run = Workflow("w", read, counter()).run("dec")

    run.run(("many", 2))

    assert run.values("read") == [(0, None, 0, 0), (3, ("raised", 2), 2, 2)]


def test_its_functions_read_context_and_other_components() -> None:
    limit: Any = context("limit")
    made = Aggregate("m", init=0)
    made.command("add", when=lambda s, c, most=limit: s < most)(lambda s, c, by=latest("size"): ("added", by))
    made.event("added")(lambda s, n, factor=context("factor", default=1): s + n * factor)
    workflow = Workflow("w", made, step(len, name="size"))

    run = workflow.run("add", context={"limit": 5, "m.factor": 10})
    run.run("add")

    assert run.state_of("m") == 30
    assert run.values("m") == [("added", 3)]


def test_async_commands_guards_and_events_are_awaited() -> None:
    made = Aggregate("m", init=0)

    async def may(state: int, command: Any) -> bool:
        return state < 1

    @made.command("add", when=may)
    async def add(state: int, command: Any) -> Any:
        return ("added", 1)

    @made.event("added")
    async def added(state: int, n: int) -> int:
        return state + n

    assert fed(made, "add", "add").state_of("m") == 1


def test_commands_in_flight_take_their_turns(finish: Callable[[Run], Run]) -> None:
    run = Workflow("w", step(lambda x: x, name="root") >> counter()).plan()
    for _ in range(5):
        run.plan("inc")

    finish(run)

    assert run.state_of("counter") == 5
    assert Run.from_log(run.log()) == run


def test_it_stands_inside_an_each_and_inside_a_workflow(finish: Callable[[Run], Run]) -> None:
    total = reduce(lambda acc, event: acc + event[1], init=0, name="total")
    outer = Workflow("outer", each(Workflow("inner", counter())) >> total)

    run = finish(outer.plan(["inc", ("many", 2), "other"]))

    assert run.state_of("inner.counter") == 4
    assert run.value("total") == 4


def test_a_leaf_gives_its_last_event_as_result() -> None:
    run = fed(counter(), ("many", 2))

    assert run.results() == {"counter": ("raised", 2)}
    assert run.output == ("raised", 2)


def test_the_cause_of_an_event_is_the_command_and_the_state_before() -> None:
    run = fed(counter(), "inc", ("many", 2))

    fact = run.facts("counter")[-1]

    assert [parent.value for parent in fact.parents] == [("many", 2)]
    assert [read.value for read in fact.reads] == [1]
    assert str(run.explain(fact)).splitlines() == [
        "counter[1] = ('raised', 2)",
        "├─ reads counter = 1",
        "└─ input 2 = ('many', 2)",
    ]
    assert fact.depth == 1


def test_equal_events_of_one_command_are_different_facts() -> None:
    made = Aggregate("m", init=0)
    made.command("two")(lambda s, c: [("e", 1), ("e", 1)])
    made.event("e")(lambda s, n: s + n)

    first, second = fed(made, "two").facts("m")

    assert first.hash != second.hash


def test_it_can_be_added_to_a_live_run_fed_and_read() -> None:
    run = Workflow("w", step(lambda x: x, name="a")).plan("inc")

    run.add(counter(), to="a")
    run.add(step(lambda e: e[0], name="shout"), to="counter")
    run.react_until_satisfied()
    run.add(step(lambda x, n=all_values("counter"), s=state_of("counter"): (len(n), s), name="count"))
    run.run("inc")

    assert run.values("shout") == ["raised", "raised"]
    assert run.values("count") == [(2, 2)]
    assert Run.from_log(run.log()) == run


def test_two_advances_of_one_run_are_merged() -> None:
    run = fed(counter(), "inc")
    twin = Run.from_log(run.log())
    twin.run("inc")
    run.run(("many", 2))

    run.merge(twin)
    run.react_until_satisfied()

    assert run.state_of("counter") == 5


def test_an_initial_state_that_is_made_is_made_for_each_run() -> None:
    made = Aggregate("m", init=list)
    made.command("add")(lambda s, c: ("added", 1))
    made.event("added")(lambda s, n: [*s, n])
    workflow = Workflow("w", made)

    assert workflow.run("add").state_of("m") == [1]
    assert workflow.run("add").state_of("m") == [1]


def test_its_identity_covers_every_function_and_the_initial_state() -> None:
    def make(init: int = 0, command: Any = len, event: Any = len, when: Any = None, name: str = "do") -> bytes:
        made = Aggregate("m", init=init)
        made.command(name, when=when)(command)
        made.event("done")(event)
        return made.identity

    others = [
        make(),
        make(init=1),
        make(command=max),
        make(event=max),
        make(when=max),
        make(name="doing"),
    ]

    assert make() == make()
    assert len(set(others)) == len(others)


# -- the decision, by hand -----------------------------------------------------------------------


def test_a_decision_asks_the_guard_the_command_and_then_every_event() -> None:
    talk = counter().decide(3, "dec")

    asked = [talk.send(answer) for answer in (None, True, [("lowered", 1), ("lowered", 2)], 2)]
    with pytest.raises(StopIteration) as end:
        talk.send(0)

    assert asked == [
        Call("dec.when", (3, "dec")),
        Call("dec", (3, "dec")),
        Call("lowered", (3, 1)),
        Call("lowered", (2, 2)),
    ]
    assert end.value.value == StateChange(0, (("lowered", 1), ("lowered", 2)))


def test_a_decision_that_the_guard_refuses_ends_there() -> None:
    talk = counter().decide(0, "dec")

    talk.send(None)
    with pytest.raises(StopIteration) as end:
        talk.send(0)

    assert end.value.value == Ignored()


@given(st.lists(st.sampled_from(["inc", "dec", "other", ("many", 2), ("raised", 9)]), max_size=15))
def test_the_state_is_the_fold_of_the_events(commands: list[Any]) -> None:
    run = fed(counter(), *commands)

    folded = 0
    for name, n in run.values("counter"):
        folded += n if name == "raised" else -n

    assert run.state_of("counter") == folded >= 0


# -- what is refused -----------------------------------------------------------------------------


def test_it_cannot_change_once_a_workflow_has_it() -> None:
    made = counter()
    Workflow("w", made)

    with pytest.raises(InvalidComponent, match="'counter' is part of a workflow and cannot change any more"):
        made.command("late")(len)
    with pytest.raises(InvalidComponent, match=r"declare 'late' before .* counter\.named"):
        made.event("late")(len)


def test_a_twin_under_another_name_can_still_be_written() -> None:
    made = counter()
    Workflow("w", made)
    twin = made.named("twin")

    twin.command("double")(lambda s, c: ("raised", s))

    assert fed(twin, "inc", "double").state_of("twin") == 2
    assert "double" not in made.commands


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda made: made.command("inc"), "a command of 'counter' is declared twice: 'inc'"),
        (lambda made: made.event("raised"), "an event of 'counter' is declared twice"),
        (lambda made: made.command(5), "a command of 'counter' is called 5; use a string, a member"),
        (lambda made: made.command(""), "a command of 'counter' is called ''"),
    ],
)
def test_a_name_that_cannot_be_is_refused(write: Callable[[Aggregate], Any], message: str) -> None:
    """E53."""
    with pytest.raises(InvalidComponent, match=message):
        write(counter())(len)


def test_a_name_cannot_be_a_command_and_an_event() -> None:
    made = counter()
    made.event("inc")(lambda s, n: s)

    with pytest.raises(InvalidComponent, match="'inc' is a command and an event of 'counter'; name the event after"):
        Workflow("w", made)


def test_two_parts_of_one_name_are_refused() -> None:
    made = counter()
    made.command("dec.when")(lambda s, c: None)

    with pytest.raises(InvalidComponent, match=r"two parts of 'counter' would be called 'dec\.when'"):
        Workflow("w", made)


def test_functions_take_the_state_first() -> None:
    made = counter()
    made.command("bad")(lambda s: s)

    with pytest.raises(WrongArity, match=r"'counter\.bad' must take \(state, value\)"):
        Workflow("w", made)


def test_it_takes_no_join() -> None:
    a, b = step(lambda x: x, name="a"), step(lambda x: x, name="b")

    with pytest.raises(InvalidJoin, match="takes no join"):
        Workflow("w", [a, b] >> counter())
