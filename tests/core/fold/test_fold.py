"""The log: every run is the fold of it, at every cut point, and no user function is called."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace

from weft import (
    Outcome,
    Run,
    Stop,
    Workflow,
    accumulator,
    all_values,
    condition,
    context,
    each,
    join,
    latest,
    reduce,
    rule,
    sleep,
    state_of,
    step,
    wait_for,
)
from weft.core import events as ev
from weft.core.fold import fold
from weft.errors import InvalidEvent

calls: list[object] = []
"""Every call of a function of the workflows below."""


def noted(function: Callable[..., object]) -> Callable[..., object]:
    """Return *function*, noting its calls."""

    def call(*args: object, **given: object) -> object:
        calls.append(args)
        return function(*args, **given)

    return call


def work(name: str, function: Callable[..., object] = lambda x: x) -> object:
    """A step that notes its calls."""
    return step(noted(function), name=name)


async def fetch(x: int) -> int:
    calls.append(x)
    return x + 1


is_even = condition(noted(lambda x: x % 2 == 0), name="is_even")
is_large = condition(noted(lambda x: x > 3), name="is_large")
total = accumulator(noted(lambda so_far, x: so_far + x), init=0, name="total")
collect = reduce(noted(lambda acc, x: [*acc, x]), init=list, name="collect")
SPENT, MADE, ALL, LIMIT = state_of("total"), latest("double"), all_values("double"), context("limit", default=5)


def pair(name: str = "pair") -> object:
    return step(lambda a, b: (calls.append((a, b)), a, b)[1:], name=name)


KINDS: dict[str, tuple[Workflow, list[object]]] = {
    "step": (Workflow("w", work("a")), [1, 2]),
    "pipeline": (Workflow("w", work("a") >> work("b") >> work("c")), [1, 2]),
    "async step": (Workflow("w", step(fetch) >> work("b")), [1]),
    "branches": (Workflow("w", work("a") >> [work("b"), work("c")]), [1, 1]),
    "condition": (Workflow("w", is_even >> work("b")), [1, 2]),
    "expression": (Workflow("w", (is_even & ~is_large) >> work("b")), [1, 2, 4]),
    "rule": (Workflow("w", rule(when=noted(lambda x: x > 1), then=noted(lambda x: -x), name="r")), [1, 2]),
    "shared condition": (
        Workflow(
            "w",
            rule(when=is_even & is_large, then=noted(lambda x: -x), name="r1"),
            rule(when=is_even | is_large, then=noted(lambda x: x), name="r2"),
            is_even >> work("b"),
        ),
        [2, 4, 5],
    ),
    "join": (Workflow("w", work("a") >> [work("b"), work("c")] >> pair()), [1, 2]),
    "join of any": (Workflow("w", join(work("a"), work("b"), wait="any") >> work("c")), [1, 2]),
    "join of two of three": (Workflow("w", join(work("a"), work("b"), work("c"), wait=2) >> pair()), [1]),
    "join of all done": (
        Workflow("w", join(work("a", lambda x: 1 / x), is_even >> work("b"), wait="all_done") >> pair()),
        [0, 1, 2],
    ),
    "zip": (
        Workflow("w", work("a") >> work("c"), work("b") >> work("c"), [work("c"), work("a")] >> pair()),
        [1],
    ),
    "map": (Workflow("w", each(work("a") >> work("b"))), [[1, 2], []]),
    "map of a set": (Workflow("w", each(work("a"))), [{3, 1, 2}]),
    "map and reduce": (Workflow("w", each(work("a")) >> collect), [[1, 2], [], [3]]),
    "reduce that stops": (
        Workflow("w", each(work("a")) >> reduce(noted(lambda _, x: Stop(x)), init=None, name="first")),
        [[1, 2]],
    ),
    "plain reduce": (Workflow("w", collect), [[1, 2], 5]),
    "nested maps": (
        Workflow("w", each(each(work("a")) >> reduce(noted(lambda acc, x: acc + x), init=0, name="sum")) >> collect),
        [[[1, 2], [3]], [[], []]],
    ),
    "several maps": (Workflow("w", each(work("a")) >> collect, each(work("b")) >> collect), [[1, 2]]),
    "dropped elements": (Workflow("w", each(is_even >> work("a")) >> collect), [[1, 2, 4], [1]]),
    "failing element": (Workflow("w", each(work("a", lambda x: 1 / x)) >> collect), [[1, 0, 2], [4]]),
    "no collection": (Workflow("w", each(work("a")) >> collect), [5]),
    "accumulator": (Workflow("w", total >> work("b")), [1, 2, 3]),
    "accumulator of elements": (Workflow("w", each(total)), [[1, 2, 3], [4]]),
    "reading a state": (
        Workflow("w", total, step(lambda x, s=SPENT: (calls.append(x), x, s)[1:], name="reader")),
        [1, 2],
    ),
    "reading a value": (
        Workflow(
            "w",
            is_even >> work("double", lambda x: x * 2),
            step(lambda x, m=MADE, a=ALL: (calls.append(x), x, m, a)[1:], name="reader"),
        ),
        [2, 3, 4],
    ),
    "reading elements": (
        Workflow("w", each(work("double")), step(lambda x, a=ALL: (calls.append(x), a)[1:], name="reader")),
        [[1, 2], []],
    ),
    "context": (Workflow("w", step(lambda x, n=LIMIT: (calls.append(x), x, n)[1:], name="a")), [1]),
    "failure": (Workflow("w", work("a", lambda x: 1 / x) >> work("b"), work("c")), [0, 1]),
    "nested workflow": (Workflow("w", work("a") >> Workflow("inner", work("b") >> [work("c"), work("d")])), [1]),
}


def everything(run: Run) -> dict[str, object]:
    """All that one may ask a run, as plain data."""
    return {
        "log": run.log(),
        "ready": [(r.component, r.inputs, r.args, r.kwargs, r.id, r.idempotency_key) for r in run.prepare()],
        "facts": [(f.address, f.value, f.producer, [p.address for p in f.parents]) for f in run.facts()],
        "values": {name: run.values(name) for name in run.workflow.components},
        "results": run.results(),
        "states": {n: run.state_of(n) for n, c in run.workflow.components.items() if c.keeps_state},
        "failures": {name: str(failure) for name, failure in run.failures.items()},
        "status": run.status,
    }


def made(run: Run) -> dict[str, list[str]]:
    """Return what every component has made, in any order."""
    return {name: sorted(map(repr, run.values(name))) for name in run.workflow.components}


def given(workflow: Workflow, inputs: Iterable[object]) -> Run:
    """A run that has all *inputs* and has done nothing."""
    run = workflow.plan(id="r")
    for value in inputs:
        run.plan(value)
    return run


# -- every component, every cut ------------------------------------------------------------------


@pytest.mark.parametrize("pick", [0, -1], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_rebuilt_after_any_event_equals_the_live_one(kind: str, pick: int) -> None:
    """H79, H81: productions, what is pending, and states; and no user function is called."""
    run = given(*KINDS[kind])

    while True:
        before = len(calls)
        rebuilt = Run.from_log(run.log())
        assert len(calls) == before
        assert rebuilt == run
        assert everything(rebuilt) == everything(run)
        if not run.is_runnable:
            break
        run.apply(run.prepare()[pick].execute())


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_was_cut_off_anywhere_finishes_the_same(kind: str, finish: Callable[[Run], Run]) -> None:
    """H80, H81: as if it had never stopped."""
    whole = finish(given(*KINDS[kind]))

    for cut in range(len(KINDS[kind][1]) + 1, len(whole.log()) + 1):
        rebuilt = finish(Run.from_log(whole.log()[:cut]))
        assert set(rebuilt.failures) == set(whole.failures)
        assert rebuilt.status == "idle"
        if kind not in RACES:
            assert made(rebuilt) == made(whole)


RACES = {
    "join of any",
    "join of two of three",
    "accumulator",
    "accumulator of elements",
    "reading a state",
    "reading a value",
    "reading elements",
}
"""Kinds that depend on the order of the log, and so on the order in which the rest is finished."""


@pytest.mark.parametrize("kind", KINDS)
def test_finishing_in_the_order_of_the_log_gives_the_same_log(kind: str) -> None:
    """H80: as if it had never stopped, event by event."""
    whole = given(*KINDS[kind]).react_until_satisfied(parallel=1)

    for cut in range(len(KINDS[kind][1]) + 1, len(whole.log()) + 1):
        rebuilt = Run.from_log(whole.log()[:cut])
        for event in whole.log()[cut:]:
            runnable = rebuilt.runnable(next(r for r in rebuilt.prepare() if matches(r, event)).ref())
            rebuilt.apply(runnable.execute())
        assert everything(rebuilt)["values"] == everything(whole)["values"]


def matches(runnable: object, event: object) -> bool:
    return (runnable.component, runnable.inputs) == (event.component, event.inputs)


@pytest.mark.parametrize("kind", KINDS)
def test_events_can_be_folded_onto_an_existing_definition(kind: str) -> None:
    """H79."""
    run = given(*KINDS[kind]).react_until_satisfied()

    onto = Run(KINDS[kind][0], id="r").record(run.log()[1:])

    assert onto == run
    assert everything(onto) == everything(run)


# -- named cases ---------------------------------------------------------------------------------


def test_a_pipeline_that_stopped_after_its_first_step_goes_on_with_the_second() -> None:
    """H80."""
    run = Workflow("w", work("a") >> work("b")).plan(1).react()
    before = len(calls)

    rebuilt = Run.from_log(run.log())
    [pending] = rebuilt.prepare()

    assert len(calls) == before
    assert (pending.component, pending.inputs) == ("b", (run.fact("a").address,))
    assert rebuilt.react_until_satisfied().values() == [1, 1]


def test_a_join_that_has_one_half_waits_for_the_other() -> None:
    """H81."""
    run = Workflow("w", [work("a"), work("b")] >> pair()).plan(1)
    run.apply(run.prepare()[0].execute())

    rebuilt = Run.from_log(run.log())

    assert [r.component for r in rebuilt.prepare()] == ["b"]
    assert rebuilt.react_until_satisfied().value("pair") == (1, 1)


def test_name_and_removal_survive() -> None:
    """H82: so does what was added."""
    run = Workflow("named", work("a") >> work("b") >> work("c")).run(1)
    run.remove("b").add(work("d"), to="c")

    rebuilt = Run.from_log(run.log())
    rebuilt.run(2)

    assert rebuilt.workflow.name == "named"
    assert "b" not in rebuilt.workflow
    assert [fact.producer for fact in rebuilt.productions()] == ["a", "b", "c", "a", "c", "d"]


def test_a_run_that_was_changed_live_is_rebuilt_at_every_cut() -> None:
    """H82."""
    run = Workflow("w", [work("a"), work("b")] >> pair(), total).plan(1).plan(2)
    run.apply(run.prepare()[0].execute())
    run.add(pair("late"), to=["a", "b"]).remove("b").plan(3).add(step(lambda x, s=SPENT: s, name="reader"))
    run.plan(4).react_until_satisfied()

    for cut in range(1, len(run.log()) + 1):
        rebuilt = Run.from_log(run.log()[:cut])
        onto = Run.from_log(run.log()[:1]).record(run.log()[1:cut])
        assert everything(rebuilt) == everything(onto)
        rebuilt.react_until_satisfied()
        assert rebuilt.status == "idle"
    assert Run.from_log(run.log()) == run


def dispatch(run: Run, component: str, attempt: int = 1) -> None:
    """Note that *component* was handed out."""
    [runnable] = [r for r in run.prepare() if r.component == component]
    run.record([ev.RunnableDispatched(len(run.log()) + 1, component, runnable.inputs, attempt)])


def complete(run: Run, component: str, status: str = "completed") -> None:
    [runnable] = [r for r in run.prepare() if r.component == component]
    run.apply(Outcome(component, runnable.inputs, status, error=ValueError() if status == "failed" else None))


@pytest.mark.parametrize(
    ("story", "unresolved"),
    [
        ([("dispatch", "one"), ("dispatch", "two"), ("complete", "one")], ["two"]),
        ([("dispatch", "one"), ("complete", "one")], []),
        ([("dispatch", "one"), ("fail", "one")], []),
        ([("dispatch", "one"), ("skip", "one")], []),
        ([], []),
        ([("dispatch", "one"), ("dispatch again", "one"), ("complete", "one")], []),
        ([("dispatch", "one"), ("dispatch again", "one")], ["one"]),
    ],
)
@pytest.mark.parametrize("restored", [False, True])
def test_what_was_dispatched_and_never_came_back(
    story: list[tuple[str, str]], unresolved: list[str], restored: bool
) -> None:
    """H86: attempts count from 1."""
    run = Workflow("w", work("one"), work("two")).plan(1)
    acts: dict[str, Callable[[Run, str], None]] = {
        "dispatch": dispatch,
        "dispatch again": lambda run, name: dispatch(run, name, 2),
        "complete": complete,
        "fail": lambda run, name: complete(run, name, "failed"),
        "skip": lambda run, name: complete(run, name, "skipped"),
    }

    for what, name in story:
        acts[what](run, name)
    run = Run.from_log(run.log()) if restored else run

    assert [runnable.component for runnable in run.pending_runnables()] == unresolved


def test_a_dispatch_can_be_recorded_with_its_runnable() -> None:
    """H86."""
    run = Workflow("w", work("one")).plan(1)
    [runnable] = run.prepare()

    run.record_dispatch(runnable)

    assert run.log()[-1] == ev.RunnableDispatched(3, "one", (2,), 1)
    assert run.is_runnable
    assert run.apply(runnable.execute()).pending_runnables() == []


def test_a_dispatch_of_what_is_done_is_not_a_history() -> None:
    run = Workflow("w", work("one")).plan(1)
    [runnable] = run.prepare()
    run.apply(runnable.execute())

    with pytest.raises(InvalidEvent, match="'one' has nothing ready"):
        run.record_dispatch(runnable)


def test_skipping_and_failing_survive() -> None:
    run = Workflow("w", work("one"), work("two")).plan(1)
    complete(run, "one", "skipped")
    complete(run, "two", "failed")

    rebuilt = Run.from_log(run.log())

    assert rebuilt.skipped == ["one"]
    assert list(rebuilt.failures) == ["two"]
    assert rebuilt.failed


# -- what a log is -------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 10, 100])
def test_there_is_one_event_for_each_reaction(length: int) -> None:
    flow: object = work("s0")
    for number in range(1, length):
        flow = flow >> work(f"s{number}")

    run = Workflow("w", flow).run(0)

    assert len(run.log()) == 2 + length


@pytest.mark.parametrize(
    ("workflow", "value", "events"),
    [
        (Workflow("w", [work("a"), work("b")] >> pair()), 1, ["reaction"] * 3),
        (Workflow("w", each(work("a")) >> collect), [1, 2], ["fan", *["reaction"] * 3]),
        (Workflow("w", is_even >> work("a")), 2, ["condition", "reaction"]),
        (Workflow("w", is_even >> work("a")), 1, ["condition"]),
        (Workflow("w", (is_even | is_large) >> work("a")), 2, ["condition", "reaction"]),
        (Workflow("w", total), 1, ["reaction"]),
        (Workflow("w", work("a", lambda x: x / 0)), 1, ["failed"]),
    ],
    ids=["join", "map and reduce", "yes", "no", "expression", "accumulator", "failure"],
)
def test_what_follows_from_an_event_is_not_stored(workflow: Workflow, value: object, events: list[str]) -> None:
    kinds = {
        ev.ReactionOccurred: "reaction",
        ev.ConditionEvaluated: "condition",
        ev.FannedOut: "fan",
        ev.RunnableFailed: "failed",
    }

    run = workflow.run(value)

    assert [kinds[type(event)] for event in run.log()[2:]] == events


def test_events_are_numbered_from_one() -> None:
    run = Workflow("w", work("a") >> work("b")).run(1)

    assert [event.seq for event in run.log()] == [1, 2, 3, 4]


def test_an_input_is_logged_with_its_ordinal_time_and_key() -> None:
    run = Workflow("w", work("a")).plan().plan("x").plan("y", key="k")

    first, second = run.log()[1:]

    assert (first.value, first.ordinal, first.key) == ("x", 1, None)
    assert (second.value, second.ordinal, second.key) == ("y", 2, "k")
    assert first.at <= second.at


def test_a_failure_is_logged_as_data() -> None:
    run = Workflow("w", work("a", lambda x: x / 0)).run(1)

    error = run.log()[-1].error

    assert (error.type, error.message) == ("ZeroDivisionError", "division by zero")
    assert error.bases == ("ArithmeticError", "Exception", "BaseException")
    assert "Traceback" in error.traceback


# -- logs that cannot be ---------------------------------------------------------------------------


def test_every_event_can_be_folded() -> None:
    assert set(fold._FOLD) == set(typing.get_args(ev.AnyEvent))


def test_every_event_has_a_tag_of_its_own() -> None:
    tags = [event.__struct_config__.tag for event in typing.get_args(ev.AnyEvent)]

    assert len(set(tags)) == len(tags)
    assert all(isinstance(tag, str) and tag.islower() for tag in tags)


def history() -> list[ev.AnyEvent]:
    return Workflow("w", work("a") >> work("b")).run(1).log()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda log: [], "an empty log is not a run"),
        (lambda log: log[1:], "expected event 1|begins with WorkflowDefined"),
        (lambda log: [replace(log[1], seq=1)], "begins with WorkflowDefined"),
        (lambda log: [log[0], log[1], log[3]], "expected event 3"),
        (lambda log: [log[0], log[0]], "expected event 2"),
        (lambda log: [log[0], replace(log[0], seq=2)], "defined once"),
        (lambda log: [log[0], log[1], replace(log[3], seq=3)], "'b' has nothing ready"),
        (lambda log: [*log, replace(log[2], seq=5)], "'a' has nothing ready"),
        (lambda log: [log[0], log[1], replace(log[2], component="c")], "'c' has nothing ready"),
        (lambda log: [log[0], "event"], "is not an event"),
    ],
    ids=[
        *("empty", "headless", "another head", "gap", "repeated", "defined twice"),
        *("not ready", "done already", "unknown component", "no event"),
    ],
)
def test_a_log_that_is_not_a_history_is_refused(
    spoil: Callable[[list[ev.AnyEvent]], list[ev.AnyEvent]], why: str
) -> None:
    with pytest.raises(InvalidEvent, match=why):
        Run.from_log(spoil(history()))


def waited() -> list[ev.AnyEvent]:
    """A log in which 'approved' takes the first of two signals, and 'nap' sleeps; the last event is number 8."""
    run = Workflow("w", wait_for("approved", timeout=60), sleep(10, name="nap")).plan(1)
    run.fire_timers(100.0).signal("approved", "a").signal("approved", "b").fire_timers(110.0)
    return run.log()


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (ev.TimerStarted(9, "nap", (2,), 20.0, 10.0), "nothing ready"),
        (ev.TimerFired(9, "nap", (2,), 1, 20.0), "nothing ready"),
        (ev.TimerFired(9, "other", (2,), 1, 20.0), "nothing ready"),
        (ev.SignalTaken(9, "approved", (2,), "a", 5), "does not wait for a signal"),
        (ev.ReactionOccurred(9, "approved", (2,), "a"), "nothing ready"),
    ],
)
def test_what_has_waited_does_not_end_twice(event: ev.AnyEvent, why: str) -> None:
    assert [type(each).__name__ for each in waited()[2:]] == [
        *("TimerStarted", "TimerStarted", "SignalReceived", "SignalTaken", "SignalReceived", "TimerFired")
    ]

    with pytest.raises(InvalidEvent, match=why):
        Run.from_log([*waited(), event])


@pytest.mark.parametrize(
    ("cut", "event", "why"),
    [
        (2, ev.TimerFired(3, "nap", (2,), 1, 20.0), "nothing ready"),
        (2, ev.SignalTaken(3, "approved", (2,), "a", 2), "no signal at 2"),
        (4, ev.TimerStarted(5, "nap", (2,), 20.0, 10.0), "nothing ready"),
        (4, ev.TimerFired(5, "approved", (2,), 1, 200.0), "nothing ready"),
        (4, ev.ReactionOccurred(5, "approved", (2,), "a"), "nothing ready"),
        (4, ev.RunnableDispatched(5, "approved", (2,)), "nothing ready"),
        (5, ev.SignalTaken(6, "nap", (2,), "a", 5), "does not wait for a signal"),
        (5, ev.SignalTaken(6, "approved", (2,), "a", 4), "no signal at 4"),
    ],
    ids=[
        *("timer that was not started", "signal that did not come", "timer that started", "timeout as a value"),
        *("wait that ran", "wait that was handed out", "signal for a sleep", "another event as a signal"),
    ],
)
def test_what_waits_cannot_end_in_any_other_way(cut: int, event: ev.AnyEvent, why: str) -> None:
    with pytest.raises(InvalidEvent, match=why):
        Run.from_log([*waited()[:cut], event])


def test_a_cancelled_run_accepts_no_signal() -> None:
    log = [*waited(), ev.RunCancelled(9, "not wanted")]

    with pytest.raises(InvalidEvent, match="accepts no signal"):
        Run.from_log([*log, ev.SignalReceived(10, "approved", "c")])


def test_an_event_that_cannot_have_happened_tells_the_story_before_it() -> None:
    log = history()

    with pytest.raises(InvalidEvent, match="the events before it") as caught:
        Run.from_log([*log, replace(log[2], seq=5)])

    assert caught.value.story == tuple(log)


def test_an_event_that_cannot_have_happened_is_not_applied() -> None:
    log = history()
    run = Run.from_log(log[:3])

    with pytest.raises(InvalidEvent):
        run.record([log[3], replace(log[2], seq=5), replace(log[3], seq=6)])

    assert run.log() == log
    assert run == Run.from_log(log)


def test_a_log_may_come_from_anything_that_gives_events() -> None:
    log = history()

    assert Run.from_log(event for event in log) == Run.from_log(tuple(log))


def test_a_log_that_a_run_gives_is_a_copy() -> None:
    run = Workflow("w", work("a")).run(1)

    run.log().clear()

    assert len(run.log()) == 3
