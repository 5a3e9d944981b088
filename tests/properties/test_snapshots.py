"""
The law of snapshots, on generated workflows that are cut at every event.

A run that is restored from its snapshot after any event, and folds the rest of its log, is the run: its next snapshot
has the same bytes, it offers the same work, and it answers every question in the same way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import test_compounds
import test_failures
import test_revised_waits
import test_revisions
import test_waits
from building import build
from cases import TURNS, Case, budget, cases, rebuilt
from driving import Driver, drive, look
from hypothesis import given
from hypothesis import strategies as st
from strategies import Schedule, schedules
from test_laws import Change, changes
from test_loops import Loop, advance, loops

from weft import Run, Workflow, each, join, latest, reduce, step
from weft.core import events as ev
from weft.core.fold.fold import fold, make_whole
from weft.core.fold.memory import Memory
from weft.core.lineage.history import PagedLog, last_takeover
from weft.core.run.waits import begin_waits, fire_timer, receive_signal, timers
from weft.errors import DefinitionError, HistoryNotLoaded, InvalidSignal, UnknownSignal
from weft.log import Decoder, definition_of
from weft.log.snapshot import Snapshot, SnapshotWriter, Written


class Given(Decoder):
    """Finds the definitions that the application has, by hash: drawn functions have no names."""

    def __init__(self, workflows: Mapping[bytes, Workflow]) -> None:
        super().__init__()
        self._workflows = workflows

    def _define(self, key: bytes, body: bytes) -> tuple[Workflow, dict[str, type]]:
        self._known[key] = self._workflows[key], {}
        return self._known[key]


class Cut:
    """A log that can be cut anywhere, and continued from a snapshot of the cut."""

    def __init__(self, run: Run) -> None:
        self.run, self.log = run, run.log()
        defined = [definition_of(event.workflow) for event in self.log if hasattr(event, "workflow")]
        self.definitions = {each.hash: each.body for each in defined}
        workflows = {
            definition_of(event.workflow).hash: event.workflow for event in self.log if hasattr(event, "workflow")
        }
        self.decoder = Given(workflows)
        self.loads = 0

    def at(self, position: int) -> Memory:
        """Return the fold of the first events."""
        memory = Memory()
        fold(memory, self.log[:position])
        return memory

    def write(self, memory: Memory) -> Written:
        """Return the snapshot of *memory*."""
        return SnapshotWriter().write(memory, b"link")

    def restore(self, written: Written, *, lazy: bool = False) -> Memory:
        """Return the memory that *written* restores."""
        snapshot = Snapshot.opened(written.body)
        return snapshot.restore(self.decoder, self.definitions, dict(written.facts), self.load, lazy=lazy)

    def load(self, first: int, last: int) -> Sequence[Any]:
        """Return a part of the log."""
        self.loads += 1
        return self.log[first - 1 : last]

    def resumed(self, memory: Memory) -> Run:
        """Return the run of *memory*."""
        return Run.from_memory(memory, context=self.run.context)


def assert_law(run: Run, look: Callable[[Run], object], watched: int) -> None:
    """Check the law for every cut of the log of *run*; of the cut *watched*, at every later event."""
    cut = Cut(run)
    positions = range(1, len(cut.log) + 1)
    written = {position: cut.write(cut.at(position)) for position in positions}
    keys = [(runnable.idempotency_key, repr(runnable.args)) for runnable in run.prepare()]
    for position in positions:
        memory = cut.restore(written[position])
        assert isinstance(memory.log, PagedLog)
        assert cut.write(memory) == written[position], "a snapshot of what was restored is the same"
        for seq in positions[position:]:
            fold(memory, [cut.log[seq - 1]])
            if position == watched % len(cut.log):
                assert cut.write(memory) == written[seq]
        assert cut.write(memory) == written[len(cut.log)]
        twin = cut.resumed(memory)
        assert [(runnable.idempotency_key, repr(runnable.args)) for runnable in twin.prepare()] == keys
        assert cut.loads == 0 or has_changed(cut.log[position:]), "the future needs no history"
        assert look(twin) == look(run)
        assert twin == run
        assert {fact.address: fact.hash for fact in twin.facts()} == {fact.address: fact.hash for fact in run.facts()}
        cut.loads = 0


def has_changed(events: Sequence[Any]) -> bool:
    """Whether the run was changed or revised by *events*: what is read since then is looked up in the history."""
    return any(hasattr(event, "workflow") or isinstance(event, ev.REVISIONS) for event in events)


@budget(0.4)
@given(cases(count=2), schedules(), TURNS, st.integers(0, 99))
def test_a_run_that_was_cut_anywhere_is_the_run(case: Case, schedule: Schedule, turns: int, watched: int) -> None:
    driver = Driver(case.plan(), schedule)
    for value in case.values[1:]:
        driver.drive(turns).plan(value)
    driver.drive(None if watched % 2 else turns)

    assert_law(driver.run, partial(look, graph=case.graph), watched)


@budget(0.2)
@given(cases(), changes(), schedules(), TURNS, st.integers(0, 99))
def test_a_run_that_was_changed_and_cut_anywhere_is_the_run(
    case: Case, change: Change, schedule: Schedule, turns: int, watched: int
) -> None:
    driver = Driver(case.plan(), schedule)
    with suppress(DefinitionError):
        change.apply(driver.drive(turns), case.graph)
    driver.drive(turns)

    assert_law(driver.run, partial(look, graph=case.graph), watched)


@budget(0.3)
@given(loops, st.lists(st.integers(0, 6), max_size=3), st.randoms(use_true_random=False), TURNS, st.integers(0, 99))
def test_a_run_of_loops_that_was_cut_anywhere_is_the_run(
    loop: Loop, values: list[int], order: random.Random, turns: int, watched: int
) -> None:
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
    reads = step(lambda x, seen=latest("loop", default="none"): seen, name="reads")
    other = step(lambda x: x, name="other")
    whole = step(lambda *told: repr(told), name="whole")
    flow = Workflow("w", each(join(loop.component(), other, wait="all_done") >> whole >> collect, name="map"), reads)

    assert_law(advance(flow.plan(values), order, turns), seen, watched)


def seen(run: Run) -> object:
    """Return what can be seen of a run of any workflow."""
    return test_failures.seen(run), repr(run.results()), run.memory.dead_letters


@budget(0.15)
@given(st.lists(test_compounds.messages, min_size=1, max_size=2), schedules(), TURNS, st.integers(0, 99))
def test_a_run_of_compound_components_that_was_cut_anywhere_is_the_run(
    values: list[Any], schedule: Schedule, turns: int, watched: int
) -> None:
    run = test_compounds.given_all(values[1:], schedule)
    drive(run.plan(values[0]), schedule, turns=turns)

    assert_law(run, test_compounds.look, watched)


@budget(0.3)
@given(
    test_failures.graphs, test_failures.bodies, st.integers(0, 7), st.randoms(use_true_random=False), st.integers(0, 99)
)
def test_a_run_with_failures_that_was_cut_anywhere_is_the_run(
    parts: Any, body: Any, value: int, order: random.Random, watched: int
) -> None:
    workflow, rules = test_failures.build(parts, body)
    run = test_failures.bring_to_an_end(workflow.plan(value), rules, order.randrange)

    assert_law(run, seen, watched)


@budget(0.3)
@given(cases(count=2), schedules(), schedules(), TURNS)
def test_a_run_that_was_restored_finishes_like_the_one_that_was_not(
    case: Case, before: Schedule, after: Schedule, turns: int
) -> None:
    run = drive(case.plan(), before, turns=turns)
    cut = Cut(run)
    twin = cut.resumed(cut.restore(cut.write(run.memory)))

    for value in case.values[1:]:
        run.plan(value, at=1.0)
        twin.plan(value, at=1.0)
    drive(run, after)
    drive(twin, after)

    assert cut.loads == 0
    assert untimed(twin) == untimed(run)
    assert rebuilt(run) == run


def untimed(run: Run) -> list[Any]:
    """Return the log of *run* without what depends on the clock."""
    return [
        {
            name: getattr(event, name)
            for name in event.__struct_fields__
            if name not in ("at", "duration_ns", "timing", "workflow", "error")
        }
        for event in run.log()
    ]


@budget(0.2)
@given(cases(count=2), schedules(), TURNS)
def test_what_is_restored_without_its_facts_loads_them_when_they_are_read(
    case: Case, schedule: Schedule, turns: int
) -> None:
    run = drive(case.plan(), schedule, turns=turns)
    cut = Cut(run)
    with suppress(HistoryNotLoaded):
        memory = cut.restore(cut.write(run.memory), lazy=True)

        twin = cut.resumed(memory)

        assert isinstance(memory.log, PagedLog)
        assert (cut.loads, memory.log.resident) == (0, 0)
        assert look(twin, case.graph) == look(run, case.graph)


@budget(0.3)
@given(cases(), schedules(), st.data(), st.integers(0, 99))
def test_a_run_that_was_retried_forked_and_upgraded_and_cut_anywhere_is_the_run(
    case: Case, schedule: Schedule, data: st.DataObject, watched: int
) -> None:
    run, trouble = test_revisions.troubled(case, data)
    driver = Driver(run, schedule)
    for _ in range(3):
        driver.drive(data.draw(TURNS, label="turns"))
        trouble.is_on = data.draw(st.booleans(), label="trouble")
        revision = data.draw(st.sampled_from(["retry", "fork", "edit", "upgrade", "nothing"]), label="revision")
        if revision == "retry":
            run.retry()
        elif revision == "upgrade":
            run.upgrade(build(case.graph, trouble))
        elif revision != "nothing":
            fact = data.draw(st.sampled_from(run.facts()), label="fact")
            run = run.fork(at=fact, value=fact.value) if revision == "edit" else run.fork(at=fact.address)
            driver = Driver(run, schedule)

    assert_law(run, partial(look, graph=case.graph), watched)


@budget(0.2)
@given(st.lists(test_waits.workflows(), min_size=2, max_size=2), test_waits.inputs, test_revised_waits.actions)
def test_a_run_that_waits_and_was_revised_and_cut_anywhere_is_the_run(
    flows: list[Workflow], values: list[list[int]], actions: list[tuple[str, int]]
) -> None:
    run = test_revised_waits.driven(flows, values, actions[:12]).run

    assert_law(run, waits_of, len(actions))


@budget(0.2)
@given(cases(), schedules(), schedules(), TURNS, st.data())
def test_a_run_that_was_restored_is_revised_like_the_one_that_was_not(
    case: Case, before: Schedule, after: Schedule, turns: int, data: st.DataObject
) -> None:
    run, trouble = test_revisions.troubled(case, data)
    drive(run, before, turns=turns)
    cut = Cut(run)
    twin = cut.resumed(cut.restore(cut.write(run.memory)))
    trouble.is_on = False

    for each_one in (run, twin):
        make_whole(each_one.memory)
        each_one.retry()
    fact = data.draw(st.sampled_from(run.facts()), label="fact")
    forks = [each_one.fork(at=fact.address, value=fact.value, id="fork") for each_one in (run, twin)]

    for one, other in ((run, twin), (forks[0], forks[1])):
        drive(one, after)
        drive(other, after)
        assert untimed(other) == untimed(one)
        assert look(other, case.graph) == look(one, case.graph)
        assert rebuilt(other) == other


@budget(0.3)
@given(test_waits.workflows(), test_waits.inputs, test_waits.actions, st.integers(0, 99))
def test_a_run_that_waits_and_was_cut_anywhere_is_the_run(
    workflow: Workflow, values: list[list[int]], actions: list[tuple[str, int]], watched: int
) -> None:
    assert_law(test_waits.driven(workflow, values, actions).run, waits_of, watched)


def waits_of(run: Run) -> object:
    """Return what can be seen of a run that waits: for what, until when, and which signals it keeps."""
    memory = run.memory
    kept = {name: [(each.seq, each.value) for each in signals] for name, signals in (memory.signals or {}).items()}
    waiting = [(key, each.due, each.is_relative) for key, each in (memory.waiting or {}).items()]
    return seen(run), run.waiting_for, timers(memory), waiting, kept, memory.signal_keys


repeatable = test_waits.workflows().filter(lambda workflow: "loop" not in workflow.components)
"""Without loops, which end there by a count that two runs would share."""


@budget(0.2)
@given(repeatable, test_waits.inputs, test_waits.actions, test_waits.actions)
def test_a_run_that_was_restored_takes_signals_and_timers_like_the_one_that_was_not(
    workflow: Workflow, values: list[list[int]], before: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    model = test_waits.driven(workflow, values, before)
    cut = Cut(model.run)
    twins = [
        test_waits.Model(Run.from_log(model.run.log())),
        test_waits.Model(cut.resumed(cut.restore(cut.write(model.run.memory)))),
    ]

    for twin in twins:
        twin.now = model.now
        for action, choice in after:
            if action != "restarts":
                getattr(twin, action)(choice)

    assert untimed(twins[1].run) == untimed(twins[0].run)
    assert waits_of(twins[1].run) == waits_of(twins[0].run)


@budget(0.2)
@given(test_waits.workflows(), test_waits.inputs, test_waits.actions, st.integers(0, 60))
def test_waits_of_a_run_that_was_restored_go_on_without_its_history(
    workflow: Workflow, values: list[list[int]], actions: list[tuple[str, int]], value: int
) -> None:
    model = test_waits.driven(workflow, values, actions)
    cut = Cut(model.run)
    run = cut.resumed(cut.restore(cut.write(model.run.memory)))

    for number in range(20):
        begin_waits(run, model.now)
        for name in test_waits.SIGNALS:
            with suppress(UnknownSignal, InvalidSignal):
                receive_signal(run, name, value + number, at=model.now)
        for key, due, _ in timers(run.memory):
            fire_timer(run, key, due + number)
        for runnable in run.prepare():
            run.apply(runnable.execute())

    assert cut.loads == 0
    assert rebuilt(run) == run


def test_owners_that_died_are_counted_on_from_a_snapshot() -> None:
    started = Workflow("w", step(lambda x: x + 1, name="plus")).plan(1).log()
    died: Sequence[Any] = [*started, ev.RunTakenOver(3, 2, 5, "plus"), ev.InputReceived(4, 2, 2)]
    progress = [*died, ev.ReactionOccurred(5, "plus", (2,), 2)]

    for log in (died, progress):
        cut = Cut(Run.from_log(log))
        for position in range(1, len(log) + 1):
            memory = cut.restore(cut.write(cut.at(position)))
            fold(memory, log[position:])
            assert last_takeover(memory.log) == last_takeover(log)
            assert cut.loads == 0
    assert last_takeover(died) == died[2]
    assert last_takeover(progress) is None
