"""Given events, expect runnables: what follows from what has happened."""

from __future__ import annotations

import pytest

from weft import Run, Workflow, accumulator, condition, each, join, latest, reduce, rule, step
from weft.core import events as ev
from weft.typing import Address

a, b, c, d = (step(lambda x: x, name=name) for name in "abcd")
pair = step(lambda x, y: (x, y), name="pair")
gate = condition(lambda x: x, name="gate")
total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")
collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
MADE = latest("a")
reader = step(lambda x, m=MADE: (x, m), name="reader")

FAILED = ev.ErrorDetail("ValueError", ("Exception",), "no")


class Told:
    """A run that receives its events one by one, and never executes anything."""

    def __init__(self, *fragments: object) -> None:
        self.run = Run(Workflow("w", *fragments), id="r")

    def _next(self) -> int:
        return len(self.run.log()) + 1

    def given(self, value: object) -> Told:
        ordinal = 1 + sum(isinstance(event, ev.InputReceived) for event in self.run.log())
        self.run.record([ev.InputReceived(self._next(), value, ordinal)])
        return self

    def made(self, component: str, *inputs: Address, value: object = None) -> Told:
        self.run.record([ev.ReactionOccurred(self._next(), component, inputs, value)])
        return self

    def fanned(self, component: str, *inputs: Address, value: object) -> Told:
        self.run.record([ev.FannedOut(self._next(), component, inputs, value)])
        return self

    def said(self, component: str, *inputs: Address, holds: bool) -> Told:
        self.run.record([ev.ConditionEvaluated(self._next(), component, inputs, holds)])
        return self

    def failed(self, component: str, *inputs: Address) -> Told:
        self.run.record([ev.RunnableFailed(self._next(), component, inputs, FAILED)])
        return self

    def skipped(self, component: str, *inputs: Address) -> Told:
        self.run.record([ev.RunnableSkipped(self._next(), component, inputs)])
        return self

    @property
    def ready(self) -> list[tuple[object, ...]]:
        return [(runnable.component, *runnable.inputs) for runnable in self.run.prepare()]


# -- inputs and reactions ------------------------------------------------------------------------


def test_before_the_first_input_nothing_is_ready() -> None:
    assert Told(a >> b).ready == []


def test_an_input_makes_the_roots_ready() -> None:
    assert Told(a >> b, c).given(1).ready == [("a", 2), ("c", 2)]


def test_a_reaction_makes_the_children_ready_and_the_component_done() -> None:
    assert Told(a >> [b, c]).given(1).made("a", 2).ready == [("b", 3), ("c", 3)]


def test_what_became_ready_first_is_offered_first() -> None:
    told = Told(a >> b, c).given(1).given(2).made("a", 3)

    assert told.ready == [("a", 2), ("c", 2), ("c", 3), ("b", 4)]


@pytest.mark.parametrize("end", [Told.failed, Told.skipped])
def test_what_failed_or_was_skipped_makes_nothing_ready(end: object) -> None:
    told = Told(a >> b, c).given(1)

    end(told, "a", 2)

    assert told.ready == [("c", 2)]


def test_a_dispatched_runnable_stays_ready_until_it_has_ended() -> None:
    told = Told(a >> b).given(1)

    told.run.record([ev.RunnableDispatched(3, "a", (2,))])

    assert told.ready == [("a", 2)]
    assert told.made("a", 2).ready == [("b", 4)]


# -- conditions ----------------------------------------------------------------------------------


def test_a_condition_that_holds_passes_on_what_it_was_asked_about() -> None:
    told = Told(gate >> a).given(1)

    assert told.ready == [("gate", 2)]
    assert told.said("gate", 2, holds=True).ready == [("a", 2)]


@pytest.mark.parametrize("end", [Told.failed, Told.skipped])
@pytest.mark.parametrize("asked_first", [True, False])
def test_why_a_condition_said_nothing_does_not_depend_on_which_asked_first(end: object, asked_first: bool) -> None:
    other = condition(lambda x: x, name="other")
    both = rule(when=other & gate, then=lambda x: x, name="both")
    told = Told(gate >> a, join(both, b, wait="all_done") >> pair).given(1).made("b", 2)

    if asked_first:
        told.said("other", 2, holds=True)
    end(told, "gate", 2)
    if not asked_first:
        told.said("other", 2, holds=True)

    (runnable,) = told.run.prepare()
    assert runnable.args[0].reason == {Told.failed: "failed", Told.skipped: "skipped"}[end]


def test_a_condition_that_does_not_hold_makes_nothing_ready() -> None:
    assert Told(gate >> a).given(1).said("gate", 2, holds=False).ready == []


def test_an_expression_asks_one_condition_after_the_other() -> None:
    other = condition(lambda x: x, name="other")
    told = Told(rule(when=gate & ~other, then=lambda x: x, name="r")).given(1)

    assert told.ready == [("gate", 2)]
    assert told.said("gate", 2, holds=True).ready == [("other", 2)]
    assert told.said("other", 2, holds=False).ready == [("r", 2)]


# -- joins ---------------------------------------------------------------------------------------


def test_a_join_is_ready_when_both_have_come() -> None:
    told = Told([a, b] >> pair).given(1).made("b", 2)

    assert told.ready == [("a", 2)]
    assert told.made("a", 2).ready == [("pair", 4, 3)]


def test_a_join_takes_facts_of_one_input() -> None:
    told = Told([a, b] >> pair).given(1).given(2).made("a", 2).made("b", 3)

    assert told.ready == [("b", 2), ("a", 3)]
    assert told.made("a", 3).ready == [("b", 2), ("pair", 6, 5)]


def test_a_race_is_won_by_the_first_in_the_log() -> None:
    told = Told(join(a, b, wait="any") >> c).given(1).made("b", 2)

    assert told.ready == [("a", 2), ("c", 3)]
    assert told.made("a", 2).ready == [("c", 3)]


def test_a_join_of_all_done_fires_when_the_last_one_has_ended() -> None:
    told = Told(join(a, b, wait="all_done") >> pair).given(1).failed("a", 2)

    assert told.ready == [("b", 2)]
    assert [component for component, *_ in told.made("b", 2).ready] == ["pair"]


# -- maps and reduces ----------------------------------------------------------------------------


def test_a_collection_makes_its_elements_ready_in_order() -> None:
    told = Told(each(a, name="m")).given([7, 8]).fanned("m", 2, value=[7, 8])

    assert told.ready == [("a", (3, 0)), ("a", (3, 1))]
    assert [runnable.args for runnable in told.run.prepare()] == [(7,), (8,)]


def test_a_reduce_is_ready_after_the_last_element() -> None:
    told = Told(each(a, name="m") >> collect).given([7, 8]).fanned("m", 2, value=[7, 8])

    told.made("a", (3, 1), value="second")

    assert told.ready == [("a", (3, 0))]
    assert told.made("a", (3, 0), value="first").ready == [("collect", 3)]
    assert told.run.prepare()[0].args == ("first", "second")


def test_a_reduce_of_nothing_is_ready_at_once() -> None:
    assert Told(each(a, name="m") >> collect).given([]).fanned("m", 2, value=[]).ready == [("collect", 3)]


def test_a_reduce_of_a_broken_batch_is_never_ready() -> None:
    told = Told(each(a, name="m") >> collect).given([7, 8]).fanned("m", 2, value=[7, 8])

    told.failed("a", (3, 0)).made("a", (3, 1))

    assert told.ready == []
    assert set(told.run.failures) == {"a", "collect"}


# -- states and readers --------------------------------------------------------------------------


def test_folds_are_ready_one_at_a_time_in_the_order_of_arrival() -> None:
    told = Told(total).given(1).given(10)

    assert told.ready == [("total", 2)]
    assert told.made("total", 2, value=1).ready == [("total", 3)]
    assert told.run.prepare()[0].args == (1, 10)


@pytest.mark.parametrize("end", [Told.failed, Told.skipped])
def test_a_fold_that_ends_without_a_state_lets_the_next_one_go(end: object) -> None:
    told = Told(total).given(1).given(10)

    end(told, "total", 2)

    assert told.ready == [("total", 3)]
    assert told.run.prepare()[0].args == (0, 10)


def test_a_reader_is_ready_when_what_it_reads_has_settled() -> None:
    told = Told(reader, gate >> a).given(1)

    assert told.ready == [("gate", 2)]
    assert told.said("gate", 2, holds=True).ready == [("a", 2)]
    assert told.made("a", 2, value="made").ready == [("reader", 2)]
    assert told.run.prepare()[0].kwargs == {"m": "made"}


@pytest.mark.parametrize("end", [Told.failed, Told.skipped])
def test_a_reader_is_ready_when_what_it_reads_has_ended_without_a_value(end: object) -> None:
    told = Told(reader, a).given(1)

    end(told, "a", 2)

    assert told.ready == [("reader", 2)]
    assert told.run.prepare()[0].kwargs == {"m": None}


def test_a_reader_waits_for_its_own_input_alone() -> None:
    told = Told(reader, a).given(1).given(2).made("a", 3, value="second")

    assert told.ready == [("a", 2), ("reader", 3)]


# -- many ----------------------------------------------------------------------------------------


def test_the_order_stays_after_thousands_have_come_and_gone() -> None:
    told = Told(each(a >> b, name="m")).given(range(2000)).fanned("m", 2, value=range(2000))
    run = told.run

    while run.is_runnable:
        ready = run.prepare()
        assert ready == sorted(ready, key=lambda r: (r.component, r.args))
        for runnable in ready:
            run.apply(runnable.execute())

    assert run.values("b") == list(range(2000))
