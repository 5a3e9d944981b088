"""The static check: what can never run is found, what may run is left alone."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from weft import (
    FSM,
    Aggregate,
    Component,
    Policy,
    ProcessManager,
    Saga,
    Transition,
    Workflow,
    condition,
    current,
    each,
    fact_count,
    join,
    latest,
    reduce,
    repeat,
    rule,
    state_machine,
    step,
)

SPEC = Path(__file__).parents[3] / "shared" / "spec"

is_big = condition(lambda x: x > 10, name="is_big")
is_even = condition(lambda x: x % 2 == 0, name="is_even")
big, small = step(lambda x: x, name="big"), step(lambda x: x, name="small")
both = step(lambda a, b: (a, b), name="both")
more = step(lambda x: x, name="more")
total = reduce(lambda acc, x: acc + x, init=0, name="total")


def kinds(workflow: Workflow) -> list[tuple[str, str]]:
    return [(finding.kind, finding.component) for finding in workflow.check()]


# -- reach ---------------------------------------------------------------------------------------


def test_a_join_of_branches_that_exclude_each_other_never_fires() -> None:
    flow = Workflow("w", [is_big >> big, ~is_big >> small] >> both >> more)

    assert kinds(flow) == [("join_never_fires", "both"), ("unreachable", "more")]
    assert "big, small exclude each other" in str(flow.check()[0])
    assert "wait='any'" in str(flow.check()[0])


@pytest.mark.parametrize(
    "flow",
    [
        Workflow("w", join(is_big >> big, ~is_big >> small, wait="any") >> more),
        Workflow("w", join(is_big >> big, ~is_big >> small, wait="all_done") >> both),
        Workflow("w", [is_big >> big, is_even >> small] >> both),
        Workflow("w", [is_big >> big, small >> ~is_big.named("other") >> more] >> both),
        Workflow("w", is_big >> more, ~is_big >> more),
        Workflow("w", [is_big >> big, (is_big | is_even) >> small] >> both),
        Workflow("w", [(is_big | is_even) >> big, ~is_big >> small] >> both),
        Workflow("w", small >> is_big >> big, ~is_big >> more),
        Workflow("w", each(is_big >> big) >> total >> more),
        Workflow("w", rule(when=is_big & ~is_even, then=lambda x: x, name="r")),
        Workflow("w", big.on_error(then=more)),
        Workflow("w", is_big >> big.on_error(then=rule(when=~is_big, then=lambda x: x, name="r"))),
    ],
)
def test_what_may_happen_is_left_alone(flow: Workflow) -> None:
    assert flow.check() == []


def test_the_same_condition_of_different_facts_excludes_nothing() -> None:
    flow = Workflow("w", [is_big >> big, small >> rule(when=~is_big, then=lambda x: x, name="r")] >> both)

    assert flow.check() == []


def test_branches_of_several_facts_can_meet_although_those_of_one_cannot() -> None:
    source = step(lambda x: x, name="source")
    low, high = step(lambda x: 1, name="low"), step(lambda x: 20, name="high")
    flow = Workflow("w", low >> source, high >> source, [source >> is_big >> big, source >> ~is_big >> small] >> both)

    assert flow.check() == []
    assert flow.run(0).output == (20, 1)


def test_a_condition_that_contradicts_itself_or_what_precedes_it_lets_nothing_through() -> None:
    assert kinds(Workflow("w", (is_big & ~is_big) >> big)) == [
        ("unreachable", "is_big & ~is_big"),
        ("unreachable", "big"),
    ]
    assert kinds(Workflow("w", is_big >> rule(when=~is_big, then=lambda x: x, name="r"))) == [("unreachable", "r")]
    assert kinds(Workflow("w", (is_big & is_even) >> rule(when=~is_even, then=lambda x: x, name="r"))) == [
        ("unreachable", "r")
    ]


def test_one_way_that_can_never_come_does_not_kill_the_other() -> None:
    flow = Workflow("w", (is_big & ~is_big) >> more, small >> more)

    assert kinds(flow) == [("unreachable", "is_big & ~is_big")]


def test_a_condition_that_is_never_asked_is_found() -> None:
    assert kinds(Workflow("w", is_big, more)) == [("unreachable", "is_big")]


def test_a_reduce_fires_even_if_every_element_is_dropped() -> None:
    flow = Workflow("w", each(is_big >> (~is_big).named("not_big") >> more) >> total)

    assert ("unreachable", "more") in kinds(flow)
    assert "total" not in dict(map(reversed, kinds(flow)))
    assert flow.run([1, 20]).output == 0


# -- reads, fan-outs, effects --------------------------------------------------------------------


def test_a_read_of_what_can_never_run_is_found() -> None:
    reader = step(lambda x, seen=latest("big"), count=fact_count("small"): x, name="reader")
    flow = Workflow("w", (is_big & ~is_big) >> big, small, reader)

    [found] = [finding for finding in flow.check() if finding.kind == "blind_read"]

    assert found.component == "reader"
    assert "'seen' reads latest('big')" in found.message


def test_a_map_in_a_map_that_nothing_closes_is_found() -> None:
    lists = step(lambda x: [x, x], name="lists")

    assert kinds(Workflow("w", each(lists >> each(more, name="inner")))) == [("unbounded_fan_out", "inner")]
    assert kinds(Workflow("w", each(lists >> each(more) >> total))) == []
    assert kinds(Workflow("w", each(more))) == []


def _with_key(x: Any) -> Any:
    return _helper(x)


def _helper(x: Any) -> Any:
    return x, current().idempotency_key


def test_an_effect_that_is_retried_without_a_key_is_found() -> None:
    charge = step(lambda x: x, name="charge").tagged("effect")
    retried = Workflow("w", charge).add_policy("charge", Policy(max_retries=2))

    assert kinds(retried) == [("unprotected_effect", "charge")]
    assert "retried up to 2 times" in str(retried.check()[0])


@pytest.mark.parametrize(
    ("component", "policy"),
    [
        (step(lambda x: x, name="charge"), Policy(max_retries=2)),
        (step(lambda x: x, name="charge").tagged("effect"), Policy()),
        (step(lambda x: x, name="charge").tagged("effect"), Policy(max_retries=2, idempotency_key=str)),
        (step(lambda x: (x, current().idempotency_key), name="charge").tagged("effect"), Policy(max_retries=2)),
        (step(_with_key, name="charge").tagged("effect"), Policy(max_retries=2)),
    ],
)
def test_an_effect_that_is_safe_is_left_alone(component: Any, policy: Policy) -> None:
    assert Workflow("w", component).add_policy("charge", policy).check() == []


def test_a_loop_is_checked_like_the_rest() -> None:
    loop = repeat(lambda x: x + 1, until=lambda x: x > 3, at_most=5, name="loop")
    flow = Workflow("w", loop.tagged("effect") >> more).add_policy("loop", Policy(max_retries=1))

    assert ("unprotected_effect", "loop") in kinds(flow)
    assert kinds(Workflow("w", loop >> more)) == []


# -- no false alarms -----------------------------------------------------------------------------


@pytest.mark.skipif(not SPEC.is_dir(), reason="the specification is not beside this checkout")
@pytest.mark.parametrize("name", ["s01", "s02", "s03", "s04", "s05", "s06", "s07", "s13"])
def test_nothing_is_found_in_the_programs_of_the_specification(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Workflow] = []
    set_up = Workflow._set_up

    def remember(self: Workflow, *args: Any, **kwargs: Any) -> None:
        set_up(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(Workflow, "_set_up", remember)
    (source,) = SPEC.glob(f"{name}_*.py")

    runpy.run_path(str(source), run_name="__main__")

    assert made
    assert [finding for workflow in made for finding in workflow.check()] == []


# -- compound components -------------------------------------------------------------------------


def saga() -> Saga:
    made = Saga("trip", on_abort=lambda outcome: outcome)
    made.transaction(lambda request, results: 1, name="book", compensate=lambda request, results: 2)
    made.transaction(lambda request, results: current().idempotency_key, name="pay", compensate=None)
    return made


def aggregate() -> Aggregate:
    made = Aggregate("account", init=0)
    made.command("split")(lambda state, command: [("added", 20), ("added", 1)])
    made.event("added")(lambda state, amount: state + amount)
    return made


def test_every_part_is_checked_by_its_own_policy() -> None:
    retried = Policy(max_retries=1)
    flow = Workflow("w", saga().tagged("effect")).add_policy("trip.book", retried).add_policy("trip.pay", retried)

    [finding] = flow.check()

    assert (finding.kind, finding.component) == ("unprotected_effect", "trip")
    assert "its part 'trip.book' is tagged" in finding.message


def test_what_only_asks_is_not_an_effect() -> None:
    loop = repeat(_with_key, until=lambda x: True, at_most=2, name="loop").tagged("effect")

    assert Workflow("w", loop).add_policy("loop", Policy(max_retries=1)).check() == []


def test_an_aggregate_is_one_effect_however_many_functions_it_has() -> None:
    flow = Workflow("w", aggregate().tagged("effect")).add_policy("account", Policy(max_retries=1))

    assert kinds(flow) == [("unprotected_effect", "account")]


def test_two_facts_of_one_input_may_answer_a_condition_differently() -> None:
    large = condition(lambda event: event[1] > 10, name="large")
    account = aggregate()
    flow = Workflow("w", [account >> large >> big, account >> ~large >> small] >> both)

    assert flow.check() == []
    assert flow.run("split").value("both") == (("added", 20), ("added", 1))


@pytest.mark.parametrize(
    "component",
    [
        saga(),
        aggregate(),
        state_machine("m", init=0, reducer=lambda a, b: b, reactors={"r": (lambda s: s, lambda s: s)}),
        FSM("f", initial="a", states={"a": {"go": Transition("b", when=lambda: True)}, "b": {}}, final=["b"]),
        ProcessManager("p", init=0, key=lambda event: event, complete=lambda state: True, on_complete=lambda: 1),
    ],
    ids=lambda component: component.kind,
)
def test_a_compound_component_raises_no_alarm(component: Component) -> None:
    reads = step(lambda x, last=latest(str(component.name)): last, name="reads")

    assert Workflow("w", more >> component >> big, more >> reads).check() == []
