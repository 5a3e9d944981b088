"""
Laws of the components that decide, in one workflow with all of them.

Inputs come one after another, so nothing that is compared may depend on the order in which runnables finish, nor on
where the process died in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from cases import budget
from driving import Driver, drive
from hypothesis import given
from hypothesis import strategies as st
from strategies import Schedule, schedules

from weft import (
    FSM,
    Aggregate,
    ProcessManager,
    Run,
    Saga,
    Transition,
    Workflow,
    condition,
    each,
    join,
    latest,
    reduce,
    state_machine,
    state_of,
    step,
)

Message = dict[str, Any]


def gate() -> FSM:
    return FSM(
        "gate",
        initial="shut",
        states={
            "shut": {"go": [Transition("open", when=lambda e: e["n"] > 0), Transition(do=lambda: "knock")]},
            "open": {"go": "open", "stop": Transition("shut", do=lambda e: 6 // e["n"])},
        },
        on_entry={"open": lambda e: ("in", e["n"])},
        on_exit={"open": lambda: "out"},
    )


def account() -> Aggregate:
    made = Aggregate("account", init=0)
    made.command("go", when=lambda s, c: s + c["n"] >= 0)(lambda s, c: [("moved", c["n"]), ("moved", 6 // c["n"])])
    made.event("moved")(lambda s, n: s + n)
    return made


def orders() -> ProcessManager:
    made = ProcessManager(
        "orders", init=0, key=lambda e: e["n"] % 2, complete=lambda s: s > 3, on_complete=lambda s: ("done", s)
    )
    made.on("go")(lambda s, e: (s + 1, [("first", s), ("second", s)]))
    made.on("stop")(lambda s, e: (s + 2, [6 // e["n"]]))
    return made


def trip() -> Saga:
    made = Saga("trip", on_complete=lambda o: o.status, on_abort=lambda o: o.failed_step)
    made.transaction(lambda q, r: q["n"], name="a", compensate=lambda q, r: ("undo", r["a"]))
    made.transaction(lambda q, r: 6 // q["n"], name="b", compensate=lambda q, r: 6 // (q["n"] + 1))
    made.transaction(lambda q, r: 6 // (q["n"] - 1), name="c", compensate=None)
    made.transaction(lambda q, r: 6 // (q["n"] + 1), name="d", compensate=None)
    return made


def level() -> Any:
    return state_machine(
        "level",
        init=0,
        reducer=lambda s, e: s + 6 // e["n"],
        reactors={"high": (lambda s: s > 5, lambda s: ("high", s)), "seen": lambda s: s},
    )


def workflow() -> Workflow:
    root = step(lambda e: e, name="root")
    state: Any = {"a": state_of("account"), "g": state_of("gate"), "t": state_of("trip"), "v": latest("orders")}
    read = step(lambda e, a=state["a"], g=state["g"], t=state["t"], v=state["v"]: (a, g, t.status, v), name="read")
    each_go = each(account().named("inner") >> step(lambda e: e[1], name="amount"))
    total = reduce(lambda acc, n: acc + n, init=0, name="total")
    listed = step(lambda e: [e] * max(e["n"], 0), name="listed")
    return Workflow(
        "w",
        root >> gate() >> step(str.upper, name="shout"),
        root >> account(),
        root >> orders() >> condition(lambda c: c != ("first", 1), name="is_other") >> step(repr, name="command"),
        root >> trip(),
        root >> level(),
        root >> read,
        root >> listed >> each_go >> total,
        join(account(), orders(), wait="all_done") >> step(lambda a, o: (a, o), name="both"),
        [root, trip()] >> step(lambda e, o: (e["n"], o.status), name="end"),
    )


WORKFLOW = workflow()
STATEFUL = ["gate", "account", "orders", "trip", "level", "inner"]
messages = st.builds(
    lambda name, n: {"event": name, "command": name, "n": n}, st.sampled_from(["go", "stop", "zz"]), st.integers(-2, 3)
)


def given_all(values: Sequence[Message], schedule: Schedule) -> Run:
    """Return a run that was given *values* one after another."""
    run = WORKFLOW.plan(id="same")
    for value in values:
        drive(run.plan(value), schedule)
    return run


def what_came(run: Run) -> tuple[Any, ...]:
    """Return everything that may not depend on the order of events."""
    made = Counter((fact.producer, repr(fact.value)) for fact in run.productions())
    return (
        made,
        {name: run.state_of(name) for name in STATEFUL},
        {name: str(failure) for name, failure in run.failures.items()},
        sorted(letter.component for letter in run.dead_letters),
        run.is_complete("orders", key=0),
    )


def look(run: Run) -> tuple[Any, ...]:
    """Return everything that can be seen of a run at one moment."""
    ready = [(runnable.ref(), repr(runnable.args), sorted(runnable.kwargs)) for runnable in run.prepare()]
    return (ready, set(run.memory.blocked or ()), what_came(run), run.results())


@budget(0.5)
@given(st.lists(messages, max_size=4), schedules(), schedules())
def test_what_comes_of_an_input_does_not_depend_on_which_step_finishes_first(
    values: list[Message], one: Schedule, other: Schedule
) -> None:
    assert what_came(given_all(values, one)) == what_came(given_all(values, other))


@budget(0.25)
@given(st.lists(messages, min_size=1, max_size=3), schedules())
def test_a_run_is_the_fold_of_its_log_after_every_event(values: list[Message], schedule: Schedule) -> None:
    run = WORKFLOW.plan(id="same")
    for value in values:
        run.plan(value)
        for _ in Driver(run, schedule).advance():
            restored = Run.from_log(run.log())

            assert restored == run
            assert look(restored) == look(run)


@budget(0.5)
@given(st.lists(messages, min_size=1, max_size=3), schedules(), schedules(), st.data())
def test_a_crash_anywhere_changes_nothing_of_what_comes(
    values: list[Message], one: Schedule, other: Schedule, data: st.DataObject
) -> None:
    """H81."""
    whole = given_all(values, one)
    last = next(e.seq for e in reversed(whole.log()) if type(e).__name__ == "InputReceived")
    cut = data.draw(st.integers(last, len(whole.log())), label="cut")

    resumed = drive(Run.from_log(whole.log()[:cut]), other)

    assert what_came(resumed) == what_came(whole)


@budget(0.5)
@given(st.lists(messages, min_size=1, max_size=4), schedules())
def test_inputs_in_flight_leave_every_state_where_the_log_says(values: list[Message], schedule: Schedule) -> None:
    """Across inputs the order of the log decides; whatever it is, the states follow from the events alone."""
    run = WORKFLOW.plan(id="same")
    for value in values:
        run.plan(value)

    drive(run, schedule)

    assert Run.from_log(run.log()) == run
    assert run.state_of("account") == sum(n for _, n in run.values("account"))
    assert run.state_of("gate") == (run.values("gate") or ["shut"])[-1]
    assert len(run.values("gate.open.entry")) == run.values("gate").count("open")
    assert run.status == ("parked" if run.dead_letters else "idle")


@budget(0.5)
@given(
    st.lists(messages, min_size=1, max_size=3), schedules(), st.integers(0, 12), st.sampled_from(STATEFUL), st.data()
)
def test_a_live_change_is_part_of_the_log(
    values: list[Message], schedule: Schedule, turns: int, name: str, data: st.DataObject
) -> None:
    run = WORKFLOW.plan(id="same")
    for value in values:
        run.plan(value)
    drive(run, schedule, turns=turns)

    if data.draw(st.booleans(), label="removes") and name != "inner":
        run.remove("read").remove("both").remove("end").remove(name)
    elif name != "inner":
        run.add(step(lambda x, s=state_of("account"): (s, x), name="late"), to=name)
    at = len(run.log())
    drive(run, schedule)

    assert run.status == ("parked" if run.dead_letters else "idle")
    for cut in (at, len(run.log())):
        resumed = Run.from_log(run.log()[:cut])
        assert Counter(repr(f.value) for f in drive(resumed, schedule).productions()) == Counter(
            repr(f.value) for f in run.productions()
        )
