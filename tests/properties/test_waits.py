"""
The laws of what waits, on generated workflows and in generated orders of signals, timers and steps.

A driver is free to begin waits late, to fire timers late, and to crash after any event; signals come whenever they
want.  A model beside it, a list of what waits and a list of signals, says what has to happen.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from weft import Run, Workflow, each, join, reduce, repeat, sleep, step, wait_for
from weft.core import events as ev
from weft.core.fold.scope import Waiting
from weft.core.run.waits import begin_waits, fire_timer, receive_signal, timers
from weft.errors import InvalidSignal, UnknownSignal

SIGNALS = ("go", "paid")


def is_even(value: Any) -> bool:
    return isinstance(value, int) and value % 2 == 0


def is_after(value: Any, waiting: Any) -> bool:
    return isinstance(value, int) and (not isinstance(waiting, int) or value > waiting)


MATCHES = (None, is_even, is_after)

# -- workflows -----------------------------------------------------------------------------------


@st.composite
def parts(draw: st.DrawFn, name: str) -> Any:
    """Draw a component called *name*, that runs or waits."""
    kind = draw(st.sampled_from(["step", "sleep", "wait"]))
    if kind == "step":
        return step(lambda x: x + 1 if isinstance(x, int) else 1, name=name)
    if kind == "sleep":
        until = draw(st.sampled_from([None, 30.0]))
        return sleep(until=until, name=name) if until else sleep(draw(st.integers(0, 20)), name=name)
    return wait_for(
        draw(st.sampled_from(SIGNALS)),
        timeout=draw(st.sampled_from([None, 5.0, 40.0])),
        match=draw(st.sampled_from(MATCHES)),
        schema=draw(st.sampled_from([None, int])),
        name=name,
    )


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    """Draw a workflow of a few branches, which meet, are taken per element, or run in a loop."""
    branches: list[Any] = []
    for place in range(draw(st.integers(1, 3))):
        chain = [draw(parts(f"{'abc'[place]}{number}")) for number in range(draw(st.integers(1, 3)))]
        flow = chain[0]
        for following in chain[1:]:
            flow = flow >> following
        branches.append(flow)
    shape = draw(st.sampled_from(["beside", "joined", "done", "each", "loop"]))
    if shape == "each":
        return Workflow("w", each(branches[0]) >> reduce(lambda acc, x: acc + 1, init=0, name="count"), *branches[1:])
    if shape == "loop":
        turns = iter(range(100))
        body = branches[0] >> step(lambda x: x, name="end")
        return Workflow("w", repeat(body, until=lambda x: next(turns) % 2 == 1, at_most=3, name="loop"), *branches[1:])
    if shape == "beside" or len(branches) == 1:
        return Workflow("w", *branches)
    wait: Any = "all" if shape == "joined" else "all_done"
    return Workflow("w", join(*branches, wait=wait) >> step(lambda *values: len(values), name="met"))


# -- driving -------------------------------------------------------------------------------------


class Model:
    """Drives a run, and says of each step what it must have added to the log."""

    def __init__(self, run: Run) -> None:
        self.run, self.now = run, 0.0

    def runs(self, choice: int) -> None:
        """Run one of the runnables."""
        runnables = self.run.prepare()
        if runnables:
            self.run.apply(runnables[choice % len(runnables)].execute())

    def begins(self, _: int) -> None:
        """Begin what waits, and check what each of them took."""
        memory, log = self.run.memory, len(self.run.log())
        kept = {name: list((memory.signals or {}).get(name, ())) for name in SIGNALS}
        expected: list[tuple[str, int]] = []
        for activation in memory.newly_waiting or ():
            wait = (memory.waiting or {}).get(activation.key)
            if wait is not None and (signal := first_for(wait, kept)) is not None:
                expected.append((activation.key[0], signal.seq))

        keys = begin_waits(self.run, self.now)

        assert taken(self.run, log) == expected
        assert set(keys) <= {key for key, _, _ in timers(memory)}
        assert all(each.key not in keys for each in memory.newly_waiting or ())

    def signals(self, choice: int) -> None:
        """Send a signal, and check which wait took it."""
        memory, log = self.run.memory, len(self.run.log())
        name, value = SIGNALS[choice % 2], "text" if choice % 11 == 0 else choice
        key = f"key {choice % 5}" if choice % 3 == 0 else None
        is_seen = key is not None and (name, key) in (memory.signal_keys or {})
        not_begun = {activation.key for activation in memory.newly_waiting or ()}
        begun = [wait for key_, wait in (memory.waiting or {}).items() if key_ not in not_begun]
        taker = next((wait for wait in begun if is_taken(wait, name, value)), None)
        expected = [] if is_seen or taker is None else [(taker.activation.key[0], log + 1)]
        try:
            is_recorded = receive_signal(self.run, name, value, at=self.now, key=key)
        except (UnknownSignal, InvalidSignal):
            assert len(self.run.log()) == log
            return
        assert is_recorded is not is_seen
        assert taken(self.run, log) == expected

    def passes(self, choice: int) -> None:
        """Let time pass, and fire some of the timers that are due."""
        self.now += choice % 13
        memory = self.run.memory
        for place, (key, due, _) in enumerate(timers(memory)):
            log = len(self.run.log())
            if choice % 2 or place % 2:
                assert fire_timer(self.run, key, self.now) is (due <= self.now)
                assert (len(self.run.log()) > log) is (due <= self.now)

    def restarts(self, choice: int) -> None:
        """Crash, after the last event or the one before, and restore the run."""
        log = self.run.log()
        self.run = Run.from_log(log[: max(2, len(log) - choice % 2)])


def is_taken(waiting: Waiting, name: str, value: Any) -> bool:
    wait = waiting.activation.node.wait
    assert wait is not None
    if wait.signal != name or (wait.schema is int and not isinstance(value, int)):
        return False
    if wait.match is None:
        return True
    given = (value, waiting.activation.facts[0].value)[: len(wait.match.required)]
    return bool(wait.match.call(*given))


def first_for(waiting: Waiting, kept: dict[str, list[ev.SignalReceived]]) -> ev.SignalReceived | None:
    """Remove and return the oldest of the *kept* signals that *waiting* takes."""
    for name, signals in kept.items():
        for signal in signals:
            if is_taken(waiting, name, signal.value):
                signals.remove(signal)
                return signal
    return None


def taken(run: Run, since: int) -> list[tuple[str, int]]:
    return [(event.component, event.signal) for event in run.log()[since:] if isinstance(event, ev.SignalTaken)]


ACTIONS = ["runs", "runs", "begins", "begins", "signals", "signals", "passes", "restarts"]
actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 60)), min_size=5, max_size=40)
inputs = st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=2)


def driven(workflow: Workflow, values: list[list[int]], steps: list[tuple[str, int]]) -> Model:
    model = Model(workflow.plan())
    takes_lists = "map_1" in workflow.components
    for value in values:
        model.run.plan(value if takes_lists else len(value))
    for action, choice in steps:
        getattr(model, action)(choice)
    return model


# -- laws ----------------------------------------------------------------------------------------


@given(workflows(), inputs, actions)
def test_a_run_that_waits_is_the_fold_of_its_log_at_every_moment(
    workflow: Workflow, values: list[list[int]], steps: list[tuple[str, int]]
) -> None:
    run = driven(workflow, values, steps).run
    log, live = run.log(), Run.from_log(run.log()[:1])

    for place, event in enumerate(log[1:], 2):
        live.record([event])
        again = Run.from_log(log[:place])
        assert again == live
        assert (again.status, again.waiting_for) == (live.status, live.waiting_for)
        assert timers(again.memory) == timers(live.memory)
        assert list(again.memory.waiting or ()) == list(live.memory.waiting or ())
    assert live == run


@given(workflows(), inputs, actions)
def test_every_wait_ends_at_most_once_and_no_signal_is_taken_twice(
    workflow: Workflow, values: list[list[int]], steps: list[tuple[str, int]]
) -> None:
    run = driven(workflow, values, steps).run
    waits = {name for name, node in run.memory.plan.nodes.items() if getattr(node, "wait", None)}
    log = run.log()

    ends = Counter((event.component, event.inputs) for event in log if isinstance(event, ev.ENDINGS))
    starts = Counter((event.component, event.inputs) for event in log if isinstance(event, ev.TimerStarted))
    signals = [event.signal for event in log if isinstance(event, ev.SignalTaken)]

    assert all(count == 1 for (name, _), count in ends.items() if name in waits)
    assert all(count == 1 for count in starts.values())
    assert len(set(signals)) == len(signals)
    assert not set(ends) & set(run.memory.waiting or ())
    for event in log:
        if isinstance(event, ev.SignalTaken):
            came = log[event.signal - 1]
            assert isinstance(came, ev.SignalReceived)
            assert (came.value, came.seq < event.seq) == (event.value, True)
    kept = [signal.seq for signals in (run.memory.signals or {}).values() for signal in signals]
    received = [event.seq for event in log if isinstance(event, ev.SignalReceived)]
    assert sorted([*kept, *signals]) == received


@given(workflows(), inputs, actions)
def test_what_waits_comes_to_an_end_when_everything_comes(
    workflow: Workflow, values: list[list[int]], steps: list[tuple[str, int]]
) -> None:
    model = driven(workflow, values, steps)

    for number in range(200):
        model.runs(number)
        model.begins(0)
        model.now += 100.0
        for key, _, _ in timers(model.run.memory):
            fire_timer(model.run, key, model.now)
        for name in SIGNALS:
            if name in model.run.memory.awaited_signals:
                receive_signal(model.run, name, 1000 + 2 * number, at=model.now)

    assert model.run.status == "idle"
    assert model.run.waiting_for == []
    assert Run.from_log(model.run.log()) == model.run
