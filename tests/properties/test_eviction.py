"""
The law of eviction, on generated workflows whose cold values are evicted after every event, at any durable position.

A run that is evicted again and again while it goes on is the run that is not: its snapshots have the same bytes, it
offers the same work with the same keys, its future needs no history, and it answers every question in the same way.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import test_compounds
import test_failures
import test_revised_waits
import test_revisions
import test_waits
from building import build
from cases import TURNS, Case, budget, cases
from driving import Driver, drive, look
from hypothesis import given
from hypothesis import strategies as st
from strategies import Schedule, schedules
from test_laws import Change, changes
from test_loops import Loop, advance, loops
from test_snapshots import Cut, has_changed, seen, untimed, waits_of

from weft import Run, Workflow, each, join, latest, reduce, step
from weft.core.fold.fold import fold
from weft.core.fold.memory import Memory
from weft.core.lineage.history import PagedLog
from weft.errors import DefinitionError
from weft.log.eviction import Mark, evict, mark
from weft.log.snapshot import SnapshotWriter

BEHIND = st.integers(0, 3)
"""How many events are not durable yet when a run is evicted."""
EVERY = st.integers(1, 4)
"""Number of events after which it is evicted again."""


class Evicting:
    """A memory that folds the log of a run, and is evicted all the time."""

    def __init__(self, cut: Cut, behind: int, every: int) -> None:
        self.cut, self.memory, self.snapshots = cut, Memory(), SnapshotWriter()
        self._behind, self._every = behind, every
        self._marks: deque[Mark] = deque()
        self.evicted = 0

    def fold(self, event: Any) -> None:
        """Fold *event*, and evict what is cold and durable."""
        fold(self.memory, [event])
        self._marks.append(mark(self.memory))
        if len(self._marks) > self._behind:
            at = self._marks.popleft()
            if at.position % self._every == 0:
                self.evicted += len(evict(self.memory, at, self.snapshots, self.cut.load).events)


def assert_law(run: Run, look: Callable[[Run], object], behind: int, every: int) -> None:
    """Check the law for the log of *run*."""
    cut = Cut(run)
    keys = [(runnable.idempotency_key, repr(runnable.args)) for runnable in run.prepare()]
    evicting = Evicting(cut, behind, every)
    last = 0
    for event in cut.log:
        evicting.fold(event)
        if has_changed([event]):
            last, cut.loads = event.seq, 0
    memory = evicting.memory

    assert cut.loads == 0 or last > 1, "the future needs no history"
    written = cut.write(cut.at(len(cut.log)))
    assert evicting.snapshots.write(memory, b"link") == written, "the snapshots go on"
    cut.loads = 0
    assert cut.write(memory) == written, "also those of a writer that begins now"
    twin = cut.resumed(memory)
    assert [(runnable.idempotency_key, repr(runnable.args)) for runnable in twin.prepare()] == keys
    assert cut.loads == 0 or last > 1
    frozen = twin.frozen_copy()
    for each_one in (twin, frozen):
        assert look(each_one) == look(run)
        assert each_one == run
        facts = run.facts()
        assert {fact.address: fact.hash for fact in each_one.facts()} == {fact.address: fact.hash for fact in facts}
        for mine, its in zip(facts, each_one.facts(), strict=True):
            assert [fact.address for fact in its.ancestry()] == [fact.address for fact in mine.ancestry()]
            assert [fact.address for fact in its.reads] == [fact.address for fact in mine.reads]


@budget(0.4)
@given(cases(count=2), schedules(), TURNS, BEHIND, EVERY, st.booleans())
def test_a_run_that_is_evicted_all_the_time_is_the_run(
    case: Case, schedule: Schedule, turns: int, behind: int, every: int, ends: bool
) -> None:
    driver = Driver(case.plan(), schedule)
    for value in case.values[1:]:
        driver.drive(turns).plan(value)
    driver.drive(None if ends else turns)

    assert_law(driver.run, partial(look, graph=case.graph), behind, every)


@budget(0.2)
@given(cases(), changes(), schedules(), TURNS, BEHIND, EVERY)
def test_a_run_that_is_changed_and_evicted_is_the_run(
    case: Case, change: Change, schedule: Schedule, turns: int, behind: int, every: int
) -> None:
    driver = Driver(case.plan(), schedule)
    with suppress(DefinitionError):
        change.apply(driver.drive(turns), case.graph)
    driver.drive(turns)

    assert_law(driver.run, partial(look, graph=case.graph), behind, every)


@budget(0.3)
@given(loops, st.lists(st.integers(0, 6), max_size=3), st.randoms(use_true_random=False), TURNS, BEHIND, EVERY)
def test_a_run_of_loops_that_is_evicted_is_the_run(
    loop: Loop, values: list[int], order: random.Random, turns: int, behind: int, every: int
) -> None:
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
    reads = step(lambda x, seen=latest("loop", default="none"): seen, name="reads")
    other = step(lambda x: x, name="other")
    whole = step(lambda *told: repr(told), name="whole")
    flow = Workflow("w", each(join(loop.component(), other, wait="all_done") >> whole >> collect, name="map"), reads)

    assert_law(advance(flow.plan(values), order, turns), seen, behind, every)


@budget(0.15)
@given(st.lists(test_compounds.messages, min_size=1, max_size=2), schedules(), TURNS, BEHIND, EVERY)
def test_a_run_of_compound_components_that_is_evicted_is_the_run(
    values: list[Any], schedule: Schedule, turns: int, behind: int, every: int
) -> None:
    run = test_compounds.given_all(values[1:], schedule)
    drive(run.plan(values[0]), schedule, turns=turns)

    assert_law(run, test_compounds.look, behind, every)


@budget(0.3)
@given(test_failures.graphs, test_failures.bodies, st.integers(0, 7), st.randoms(use_true_random=False), BEHIND, EVERY)
def test_a_run_with_failures_that_is_evicted_is_the_run(
    parts: Any, body: Any, value: int, order: random.Random, behind: int, every: int
) -> None:
    workflow, rules = test_failures.build(parts, body)
    run = test_failures.bring_to_an_end(workflow.plan(value), rules, order.randrange)

    assert_law(run, seen, behind, every)


@budget(0.3)
@given(cases(), schedules(), st.data(), BEHIND, EVERY)
def test_a_run_that_is_retried_forked_upgraded_and_evicted_is_the_run(
    case: Case, schedule: Schedule, data: st.DataObject, behind: int, every: int
) -> None:
    run, trouble = test_revisions.troubled(case, data)
    driver = Driver(run, schedule)
    for _ in range(2):
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

    assert_law(run, partial(look, graph=case.graph), behind, every)


@budget(0.3)
@given(test_waits.workflows(), test_waits.inputs, test_waits.actions, BEHIND, EVERY)
def test_a_run_that_waits_and_is_evicted_is_the_run(
    workflow: Workflow, values: list[list[int]], actions: list[tuple[str, int]], behind: int, every: int
) -> None:
    assert_law(test_waits.driven(workflow, values, actions).run, waits_of, behind, every)


@budget(0.2)
@given(st.lists(test_waits.workflows(), min_size=2, max_size=2), test_waits.inputs, test_revised_waits.actions, BEHIND)
def test_a_run_that_waits_and_is_revised_and_evicted_is_the_run(
    flows: list[Workflow], values: list[list[int]], actions: list[tuple[str, int]], behind: int
) -> None:
    run = test_revised_waits.driven(flows, values, actions[:12]).run

    assert_law(run, waits_of, behind, 1)


@budget(0.3)
@given(cases(count=2), schedules(), schedules(), TURNS, BEHIND)
def test_a_run_that_was_evicted_finishes_like_the_one_that_was_not(
    case: Case, before: Schedule, after: Schedule, turns: int, behind: int
) -> None:
    run = drive(case.plan(), before, turns=turns)
    cut = Cut(run)
    evicting = Evicting(cut, behind, 1)
    for event in cut.log:
        evicting.fold(event)
    twin = cut.resumed(evicting.memory)

    for value in case.values[1:]:
        run.plan(value, at=1.0)
        twin.plan(value, at=1.0)
    drive(run, after)
    drive(twin, after)

    assert cut.loads == 0
    assert untimed(twin) == untimed(run)


def test_what_was_handed_out_before_keeps_what_it_has() -> None:
    run = Workflow("w", step(lambda x: [x], name="boxed")).run(1).run(2)
    cut, frozen = Cut(run), run.frozen_copy()

    left = evict(run.memory, mark(run.memory), SnapshotWriter(), cut.load)

    assert isinstance(run.memory.log, PagedLog)
    assert [event.seq for event in left.events] == [2, 3, 4]
    assert frozen.values("boxed") == [[1], [2]]
    assert cut.loads == 0
    assert run.values("boxed") == [[1], [2]]
    assert cut.loads > 0
