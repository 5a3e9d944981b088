"""State machines: a reducer, and reactors that fire when a state satisfies them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft import Policy, Run, StateMachine, Workflow, context, each, latest, reduce, state_machine, state_of, step
from weft.errors import DuplicateName, InvalidComponent, WrongArity

Lock = dict[str, str]


def turn(lock: Lock, event: tuple[str, str]) -> Lock:
    match event:
        case ("unlock", code) if code == lock["code"]:
            return {**lock, "state": "unlocked"}
        case ("lock", _):
            return {**lock, "state": "locked"}
        case _:
            return lock


def counter(**reactors: Any) -> StateMachine:
    return state_machine("counter", init=0, reducer=lambda state, x: state + x, reactors=reactors)


def test_a_lock_opens_with_its_code_alone() -> None:
    """E48."""
    lock = state_machine("lock", init={"code": "secret", "state": "locked"}, reducer=turn)
    run = Workflow("w", lock).run(("unlock", "wrong"))
    before = run.state_of("lock")["state"]

    run.run(("unlock", "secret"))

    assert before == "locked"
    assert run.state_of("lock")["state"] == "unlocked"


def test_reactors_fire_for_the_states_that_satisfy_them_and_no_others() -> None:
    """E49."""
    machine = counter(big=(lambda s: s > 10, lambda s: ("big", s)), any=lambda s: ("any", s))
    run = Workflow("w", machine).run(5)

    run.run(7)

    assert run.values("counter") == [5, 12]
    assert run.values("counter.any") == [("any", 5), ("any", 12)]
    assert run.values("counter.big") == [("big", 12)]


def test_reactors_may_finish_in_any_order(finish: Callable[[Run], Run]) -> None:
    machine = counter(big=(lambda s: s > 10, lambda s: ("big", s)), any=lambda s: ("any", s))

    run = finish(Workflow("w", machine).plan(5).plan(7).plan(1))

    assert sorted(run.values("counter.any")) == [("any", 5), ("any", 12), ("any", 13)]
    assert sorted(run.values("counter.big")) == [("big", 12), ("big", 13)]


def test_what_follows_a_state_machine_gets_the_new_state() -> None:
    run = Workflow("w", counter(any=lambda s: -s) >> step(lambda s: ("seen", s), name="show")).run(5)

    assert run.value("show") == ("seen", 5)
    assert run.results() == {"show": ("seen", 5)}


def test_a_reducer_that_fails_leaves_the_state_and_fires_nothing() -> None:
    run = Workflow("w", counter(any=lambda s: s)).run(1)

    run.run("text")
    run.run(2)

    assert run.values("counter.any") == [1, 3]
    assert isinstance(run.failures["counter"].__cause__, TypeError)


def test_a_reactor_that_fails_leaves_the_state_and_the_others() -> None:
    run = Workflow("w", counter(bad=lambda s: s / 0, good=lambda s: s)).run(1)

    assert run.state_of("counter") == 1
    assert run.values("counter.good") == [1]
    assert set(run.failures) == {"counter.bad"}


def test_a_reactor_has_a_policy_of_its_own() -> None:
    calls: list[int] = []

    def flaky(state: int) -> int:
        calls.append(state)
        if len(calls) < 3:
            raise OSError
        return state

    workflow = Workflow("w", counter(report=flaky)).with_policies([("counter.report", Policy(max_retries=2))])

    assert workflow.run(1).value("counter.report") == 1
    assert calls == [1, 1, 1]


def test_its_functions_read_context_and_other_components() -> None:
    limit: Any = context("limit")
    double = step(lambda x: x * 2, name="double")
    machine = state_machine(
        "m",
        init=0,
        reducer=lambda s, x, twice=latest("double"): s + twice,
        reactors={"over": (lambda s, most=limit: s > most, lambda s: ("over", s))},
    )

    run = Workflow("w", machine, double).run(3, context={"m.limit": 5})

    assert run.state_of("m") == 6
    assert run.value("m.over") == ("over", 6)


def test_others_read_its_state() -> None:
    seen = step(lambda x, total=state_of("counter"): (x, total), name="seen")
    run = Workflow("w", counter(), seen).run(5)

    run.run(2)

    assert run.values("seen") == [(5, 5), (2, 7)]


def test_it_stands_inside_an_each_and_inside_a_workflow(finish: Callable[[Run], Run]) -> None:
    inner = Workflow("inner", counter(any=lambda s: s))
    outer = Workflow("outer", each(inner) >> reduce(max, init=0, name="top"))

    run = finish(outer.plan([1, 2, 3]))

    assert run.state_of("inner.counter") == 6
    assert len(run.values("inner.counter.any")) == 3
    assert run.value("top") == 6


def test_it_can_be_added_to_a_live_run_and_removed_again() -> None:
    run = Workflow("w", step(lambda x: x, name="a")).run(1)

    run.add(counter(any=lambda s: s), to="a")
    run.run(2)
    run.remove("counter")
    run.run(3)

    assert run.values("counter.any") == [2]
    assert Run.from_log(run.log()) == run


def test_initial_states_are_fresh_for_every_run() -> None:
    made = state_machine("m", init=list, reducer=lambda s, x: [*s, x])
    workflow = Workflow("w", made)

    assert workflow.run(1).state_of("m") == [1]
    assert workflow.run(2).state_of("m") == [2]


def test_its_identity_covers_every_function_and_the_initial_state() -> None:
    base = counter(any=lambda s: s)

    others = [
        counter(any=lambda s: -s),
        counter(some=lambda s: s),
        counter(any=(lambda s: s > 0, lambda s: s)),
        state_machine("counter", init=1, reducer=lambda state, x: state + x, reactors={"any": lambda s: s}),
    ]

    assert base.identity == counter(any=lambda s: s).identity
    assert len({base.identity, *(other.identity for other in others)}) == 5


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["text", (1, 2), (len,), (len, len, len)])
def test_a_reactor_is_a_function_or_a_pair(given: object) -> None:
    with pytest.raises(InvalidComponent, match=r"reactor 'r' of 'counter' .* give a function of the state, or \(when"):
        counter(r=given)


def test_a_reactor_takes_the_state_and_nothing_else() -> None:
    with pytest.raises(WrongArity, match=r"'counter\.r' takes 2"):
        Workflow("w", counter(r=lambda state, x: x))


def test_a_part_and_a_component_cannot_have_one_name() -> None:
    with pytest.raises(DuplicateName, match=r"counter\.any"):
        Workflow("w", counter(any=lambda s: s), step(lambda x: x, name="counter.any"))
