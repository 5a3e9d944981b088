"""
The laws of revisions, on generated workflows that wait: forks, retries and upgrades at any moment between signals,
timers, steps and crashes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from test_waits import SIGNALS, Model, inputs, workflows

from weft import Run, Workflow
from weft.core import events as ev
from weft.core.fold.scope import Key
from weft.core.run.waits import fire_timer, receive_signal, timers


class Reviser(Model):
    """A driver that also revises its run."""

    def __init__(self, run: Run, others: list[Workflow]) -> None:
        super().__init__(run)
        self.others = others

    def retries(self, _: int) -> None:
        """Run again what failed."""
        before = waits_of(self.run)
        self.run.retry()
        check_kept(self.run, before)

    def forks(self, choice: int) -> None:
        """Go on with a fork: at an outcome, with another value or again, or as the run was then."""
        standing = self.run.memory.lineage.standing()
        values = (ev.InputReceived, *ev.PRODUCTIONS)
        ends: list[Any] = [event for event in standing if isinstance(event, (*values, ev.RunnableFailed))]
        event = ends[choice % len(ends)]
        if choice % 4 == 0:
            self.run = self.run.fork(at=event.seq)
            return
        given = {"value": [1] if isinstance(getattr(event, "value", 0), list) else choice}
        if choice % 4 == 1 and isinstance(event, ev.PRODUCTIONS):
            given = {}
        at: Any = self.run.memory.lineage.fact(event.seq) if isinstance(event, values) else event.seq
        self.run = self.run.fork(at=at, **given)

    def upgrades(self, choice: int) -> None:
        """Follow another workflow, or the same one again."""
        self.run.upgrade(self.others[choice % len(self.others)])


def waits_of(run: Run) -> dict[Key, tuple[Any, float | None]]:
    """Return what waits in *run*, for what, and until when."""
    waiting = run.memory.waiting or {}
    return {key: (each.activation.facts[0].address, each.due) for key, each in waiting.items()}


def check_kept(run: Run, before: dict[Key, tuple[Any, float | None]]) -> None:
    """Check that what waited before and still does has the time that it had, unless it is to begin again."""
    begins = {activation.key for activation in run.memory.newly_waiting or ()}
    for key, wait in waits_of(run).items():
        assert key in begins or before[key] == wait


ACTIONS = [
    *("runs", "runs", "begins", "begins", "signals", "signals", "passes"),
    *("restarts", "retries", "forks", "forks", "upgrades"),
]
actions = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 60)), min_size=5, max_size=40)


def driven(flows: list[Workflow], values: list[list[int]], steps: list[tuple[str, int]]) -> Reviser:
    model = Reviser(flows[0].plan(), flows)
    takes_lists = any("map_1" in flow.components for flow in flows)
    for value in values:
        model.run.plan(value if takes_lists else len(value))
    for action, choice in steps:
        getattr(model, action)(choice)
    return model


def void_in(run: Run) -> frozenset[int]:
    """Return the positions of the events of *run* that do not count, failures that were retried left out."""
    revisions = [event for event in run.log() if isinstance(event, ev.REVISIONS)]
    return frozenset(seq for each in revisions for first, last in each.void for seq in range(first, last + 1))


versions = st.lists(workflows(), min_size=1, max_size=3)


@given(versions, inputs, actions)
def test_a_revised_run_that_waits_is_the_fold_of_its_log_at_every_moment(
    flows: list[Workflow], values: list[list[int]], steps: list[tuple[str, int]]
) -> None:
    run = driven(flows, values, steps).run
    log, live = run.log(), Run.from_log(run.log()[:1])

    for place, event in enumerate(log[1:], 2):
        live.record([event])
        again = Run.from_log(log[:place])
        assert again == live
        assert (again.status, again.waiting_for) == (live.status, live.waiting_for)
        assert timers(again.memory) == timers(live.memory)
        assert waits_of(again) == waits_of(live)
        assert again.memory.signals == live.memory.signals
        assert again.memory.signal_keys == live.memory.signal_keys
    assert live == run


@given(versions, inputs, actions)
def test_of_what_stands_every_wait_ends_at_most_once_and_no_signal_is_taken_twice(
    flows: list[Workflow], values: list[list[int]], steps: list[tuple[str, int]]
) -> None:
    run = driven(flows, values, steps).run
    log, void = run.log(), void_in(run)
    standing = [event for event in log if event.seq not in void]

    started = {(event.component, event.inputs): event for event in standing if isinstance(event, ev.TimerStarted)}
    ends = Counter(
        (event.component, event.inputs) for event in standing if isinstance(event, (ev.SignalTaken, ev.TimerFired))
    )
    taken = [event.signal for event in log if isinstance(event, ev.SignalTaken)]
    kept = [signal.seq for signals in (run.memory.signals or {}).values() for signal in signals]

    assert all(count == 1 for count in ends.values())
    assert not set(ends) & set(run.memory.waiting or ())
    assert len(set(taken)) == len(taken), "a signal is never given back"
    for event in log:
        if isinstance(event, ev.SignalTaken):
            assert (event.signal in void) is (event.seq in void)
    received = {event.seq for event in standing if isinstance(event, ev.SignalReceived)}
    assert set(kept) | {event.signal for event in standing if isinstance(event, ev.SignalTaken)} == received
    for key, wait in (run.memory.waiting or {}).items():
        if wait.due is not None:
            assert started[key].due == wait.due


@given(versions, inputs, actions)
def test_what_waits_in_a_revised_run_comes_to_an_end_when_everything_comes(
    flows: list[Workflow], values: list[list[int]], steps: list[tuple[str, int]]
) -> None:
    model = driven(flows, values, steps)

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


@given(workflows(), inputs, actions.map(lambda steps: [each for each in steps if each[0] != "upgrades"]))
def test_an_upgrade_to_the_same_graph_disturbs_no_wait(
    workflow: Workflow, values: list[list[int]], steps: list[tuple[str, int]]
) -> None:
    run = driven([workflow], values, steps).run
    before = {key: (each.activation, each.due) for key, each in (run.memory.waiting or {}).items()}
    begins, signals = [each.key for each in run.memory.newly_waiting or ()], dict(run.memory.signals or {})
    void = void_in(run)

    run.upgrade(workflow)

    after = {key: (each.activation, each.due) for key, each in (run.memory.waiting or {}).items()}
    assert set(after) == set(before)
    assert all(after[key][0] is before[key][0] and after[key][1] == before[key][1] for key in before)
    assert [each.key for each in run.memory.newly_waiting or ()] == [key for key in begins if key in before]
    assert dict(run.memory.signals or {}) == signals
    assert void_in(run) == void


@given(workflows(), inputs, actions.map(lambda steps: [each for each in steps if each[0] != "upgrades"]))
def test_a_fork_with_another_input_waits_anew(
    workflow: Workflow, values: list[list[int]], steps: list[tuple[str, int]]
) -> None:
    run = driven([workflow], values, steps).run
    last = max(event.seq for event in run.log() if isinstance(event, ev.InputReceived))
    ordinal = run.memory.received
    log, waits, status = run.log(), waits_of(run), run.status

    fork = run.fork(at=last, value=[7] if isinstance(values[0], list) and "map_1" in workflow.components else 7)

    lineage = fork.memory.lineage
    left = [event for event in lineage.standing() if isinstance(event, ev.Activated)]
    assert not [event for event in left if lineage.ordinal(event.inputs[0]) == ordinal]
    assert all(
        each.due is None for key, each in (fork.memory.waiting or {}).items() if lineage.ordinal(key[1][0]) == ordinal
    )
    assert (run.log(), waits_of(run), run.status) == (log, waits, status), "the original is untouched"
