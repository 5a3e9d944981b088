"""Conditions: questions that gate what follows, and how they compose."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as reduce_left
from operator import and_
from typing import Any

import pytest

from weft import INPUT, Run, Workflow, condition, each, join, reduce, rule, step
from weft.core.components.condition import Condition
from weft.core.compose.expression import leaves, sides, substitute
from weft.core.compose.questions import questions_of
from weft.core.plan.node import GateNode
from weft.errors import DuplicateName, InvalidComponent, UnknownReference, WrongArity


@condition
def is_int(x: object) -> bool:
    return isinstance(x, int)


@condition
def is_even(x: int) -> bool:
    return x % 2 == 0


@condition
def is_large(x: int) -> bool:
    return x > 10


keep = step(lambda x: x, name="keep")


def recorder(name: str, asked: list[str], *, says: bool) -> Condition:
    """A condition that notes in *asked* that it was asked."""

    def ask(_: object) -> bool:
        asked.append(name)
        return says

    return condition(ask, name=name)


# -- alone ---------------------------------------------------------------------------------------


def test_a_condition_gates_what_follows_it() -> None:
    gate = Workflow("gate", is_even >> step(lambda x: x // 2, name="half"))

    assert gate.run(8).results() == {"half": 4}
    assert gate.run(7).results() == {}


def test_a_condition_makes_no_fact() -> None:
    run = Workflow("gate", is_even >> keep).run(8)

    assert [fact.producer for fact in run.facts()] == [None, "keep"]
    assert run.values("is_even") == []


def test_what_follows_a_condition_comes_from_what_it_was_asked_about() -> None:
    run = Workflow("gate", is_even >> keep).run(8)

    assert [fact.producer for fact in run.lineage(run.fact("keep"))] == [None, "keep"]


@pytest.mark.parametrize(("says", "fires"), [(1, True), ("yes", True), ([0], True), (0, False), ("", False)])
def test_the_truth_of_what_a_condition_returns_counts(says: object, fires: bool) -> None:
    """D36: in Python a truthy value that is not a boolean counts as true."""
    run = Workflow("gate", condition(lambda _: says, name="ask") >> keep).run(1)

    assert run.values("keep") == [1] * fires


def test_a_condition_that_raises_is_a_recorded_failure_of_that_condition() -> None:
    """D36: it neither fires nor stops the run."""
    run = Workflow("gate", is_even >> keep, step(lambda x: x, name="other")).run("text")

    assert list(run.failures) == ["is_even"]
    assert isinstance(run.failures["is_even"].__cause__, TypeError)
    assert run.results() == {"other": "text"}
    assert run.status == "idle"


def test_an_async_condition_is_awaited() -> None:
    async def is_known(x: int) -> bool:
        return x == 1

    gate = Workflow("gate", condition(is_known) >> keep)

    assert gate.run(1).results() == {"keep": 1}
    assert gate.run(2).results() == {}


def test_a_condition_may_gate_several_components() -> None:
    asked: list[str] = []
    ask = recorder("ask", asked, says=True)

    run = Workflow("gate", ask >> [keep, step(lambda x: -x, name="negate")]).run(1)

    assert run.results() == {"keep": 1, "negate": -1}
    assert asked == ["ask"]


def test_conditions_in_a_row_must_all_hold() -> None:
    gate = Workflow("gate", is_even >> is_large >> keep)

    assert [gate.run(x).values("keep") for x in (12, 13, 8)] == [[12], [], []]


def test_what_two_conditions_let_through_to_one_component_runs_once() -> None:
    run = Workflow("gate", is_even >> keep, is_large >> keep)

    assert run.run(12).values("keep") == [12]
    assert run.run(8).values("keep") == [8]
    assert run.run(7).values("keep") == []


def test_what_comes_by_a_second_way_does_not_run_again(finish: Callable[[Run], Run]) -> None:
    """Also if it comes after the first one has run."""
    workflow = Workflow("w", INPUT >> keep, is_int >> is_even >> is_large >> keep)

    run = finish(workflow.plan(12).plan(12))

    assert run.values("keep") == [12, 12]


def test_a_condition_of_a_join_is_given_all_its_values() -> None:
    a, b = step(lambda x: x + 1, name="a"), step(lambda x: x * 2, name="b")
    ordered = condition(lambda x, y: x < y, name="ordered")
    pair = step(lambda x, y: (x, y), name="pair")
    workflow = Workflow("w", [a, b] >> ordered >> pair)

    assert workflow.run(5).results() == {"pair": (6, 10)}
    assert workflow.run(0).results() == {}


def test_a_condition_that_says_so_is_given_the_members_of_a_collection() -> None:
    ordered = condition(lambda x, y: x < y, name="ordered", spread=True)

    run = Workflow("w", ordered >> keep).run((1, 2))

    assert run.output == (1, 2)


def test_a_condition_of_two_values_with_one_parent_is_refused() -> None:
    with pytest.raises(WrongArity, match="'ordered' takes 2"):
        Workflow("w", condition(lambda x, y: x < y, name="ordered") >> keep)


def test_a_condition_that_nothing_follows_or_asks_is_not_asked() -> None:
    asked: list[str] = []

    run = Workflow("w", recorder("ask", asked, says=True), keep).run(1)

    assert asked == []
    assert run.results() == {"keep": 1}


def test_a_condition_called_directly_is_the_plain_question() -> None:
    assert is_even(4) is True
    assert is_even(3) is False


# -- composed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "fires_for"),
    [
        (is_int & is_large, {12, 13}),
        (is_even | is_large, {8, 12, 13}),
        (~is_even, {7, 13}),
        (~(is_even | is_large), {7}),
        (~~is_even, {8, 12}),
        ((is_even & is_large) | ~is_even, {7, 12, 13}),
    ],
    ids=str,
)
def test_conditions_compose(expression: Condition, fires_for: set[int]) -> None:
    gate = Workflow("gate", expression >> keep)

    assert {x for x in (7, 8, 12, 13) if gate.run(x).values("keep")} == fires_for


def test_a_composed_condition_called_directly_answers_as_in_a_run() -> None:
    assert (is_int & ~is_even)(3) is True
    assert (is_int & ~is_even)("text") is False


def test_a_composed_condition_shows_how_it_was_written() -> None:
    assert repr(is_int & (is_even | ~is_large)) == "Condition('is_int & (is_even | ~is_large)')"


def test_and_asks_the_right_side_only_if_the_left_one_holds() -> None:
    asked: list[str] = []
    no, yes = recorder("no", asked, says=False), recorder("yes", asked, says=True)

    Workflow("gate", (no & yes) >> keep).run(1)

    assert asked == ["no"]


def test_or_asks_the_right_side_only_if_the_left_one_does_not_hold() -> None:
    asked: list[str] = []
    no, yes = recorder("no", asked, says=False), recorder("yes", asked, says=True)

    Workflow("gate", (yes | no) >> keep).run(1)

    assert asked == ["yes"]


def test_a_left_side_guards_the_right_side() -> None:
    run = Workflow("gate", (is_int & is_even) >> keep).run("text")

    assert not run.failed
    assert run.results() == {}


def test_a_failing_part_of_an_expression_fails_alone() -> None:
    run = Workflow("gate", (is_even | is_int) >> keep).run("text")

    assert list(run.failures) == ["is_even"]
    assert run.results() == {}
    assert run.status == "idle"


def test_a_function_can_stand_in_an_expression() -> None:
    gate = Workflow("gate", (is_int & (lambda x: x < 5)) >> keep)

    assert gate.run(3).results() == {"keep": 3}
    assert gate.run(7).results() == {}


def test_a_condition_can_be_named_in_an_expression() -> None:
    gate = Workflow("gate", is_large, (is_int & "is_large") >> keep)

    assert gate.run(12).results() == {"keep": 12}


def test_a_name_in_an_expression_that_is_not_a_condition_is_refused() -> None:
    with pytest.raises(UnknownReference, match="'keep', which is not a condition"):
        Workflow("gate", keep, (is_int & "keep") >> keep.named("other"))


def test_something_that_is_not_a_condition_cannot_stand_in_an_expression() -> None:
    with pytest.raises(InvalidComponent, match="expected a condition, a function or the name"):
        is_int & 5


def test_a_condition_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match=r"combine conditions with &, \| and ~"):
        bool(is_int)


def test_two_conditions_of_one_name_with_different_code_are_refused() -> None:
    other = condition(lambda x: x < 0, name="is_even")

    with pytest.raises(DuplicateName, match="'is_even'"):
        Workflow("w", is_even >> keep, rule(when=other, then=lambda x: x, name="r"))


# -- shared --------------------------------------------------------------------------------------


def test_a_condition_that_gates_and_is_asked_by_a_rule_is_asked_once() -> None:
    asked: list[str] = []
    ask = recorder("ask", asked, says=True)

    run = Workflow("w", ask >> keep, rule(when=ask, then=lambda x: -x, name="negate")).run(1)

    assert run.results() == {"keep": 1, "negate": -1}
    assert asked == ["ask"]


def test_a_shared_condition_is_asked_once_for_each_fact() -> None:
    asked: list[str] = []
    ask = recorder("ask", asked, says=True)
    first = rule(when=ask, then=lambda x: x + 1, name="first")
    second = rule(when=ask, then=lambda x: x + 2, name="second")

    run = Workflow("w", first, second).plan(1).plan(1)
    run.react_until_satisfied()

    assert asked == ["ask", "ask"]
    assert run.values("first") == [2, 2]


def test_an_answer_is_known_to_a_rule_that_asks_later() -> None:
    """The second rule gets the same fact by way of another condition."""
    asked: list[str] = []
    ask, yes = recorder("ask", asked, says=True), recorder("yes", asked, says=True)
    early = rule(when=ask, then=lambda x: x + 1, name="early")
    late = rule(when=ask & yes, then=lambda x: x + 2, name="late")

    run = Workflow("w", early, is_int >> is_even >> late).run(2)

    assert run.results() == {"early": 3, "late": 4}
    assert sorted(asked) == ["ask", "yes"]


def test_an_answer_is_known_to_the_gate_that_comes_later() -> None:
    asked: list[str] = []
    ask = recorder("ask", asked, says=True)

    run = Workflow("w", rule(when=ask, then=lambda x: -x, name="negate"), is_int >> is_even >> ask >> keep).run(2)

    assert run.results() == {"negate": -2, "keep": 2}
    assert asked == ["ask"]


def test_a_failure_is_known_to_those_that_ask_later() -> None:
    early = rule(when=is_even, then=lambda x: x, name="early")
    is_text = condition(lambda x: isinstance(x, str), name="is_text")
    late = rule(when=is_even, then=lambda x: x, name="late")
    as_function = join(early, is_text >> late, is_text >> is_even >> keep, wait="all_done")
    show = step(lambda *xs: [x.reason for x in xs], name="show")

    run = Workflow("w", as_function >> show).run("text")

    assert list(run.failures) == ["is_even"]
    assert run.output == ["failed"] * 3


def test_a_shared_condition_inside_each_is_asked_once_for_each_element(finish: Callable[[Run], Run]) -> None:
    asked: list[str] = []
    ask = recorder("ask", asked, says=True)
    low = rule(when=ask & (lambda x: x < 2), then=lambda x: x, name="low")
    high = rule(when=ask & (lambda x: x >= 2), then=lambda x: x * 10, name="high")
    as_function = reduce(lambda acc, x: [*acc, x], init=list, name="together")

    run = finish(Workflow("w", each([low, high]), low >> as_function, high >> as_function).plan([1, 2, 3]))

    assert run.output == [1, 20, 30]
    assert asked == ["ask"] * 3


def test_a_shared_condition_that_fails_on_an_element_fails_the_batch() -> None:
    low = rule(when=is_even | is_large, then=lambda x: x, name="low")
    high = rule(when=is_even & is_large, then=lambda x: x, name="high")
    as_function = reduce(lambda acc, x: [*acc, x], init=list, name="together")

    run = Workflow("w", each([low, high]), low >> as_function, high >> as_function).run([2, "text"])

    assert run.values("together") == []
    assert set(run.failures) == {"is_even", "together"}


def test_a_shared_condition_that_fails_lets_none_of_its_rules_fire() -> None:
    first = rule(when=is_even, then=lambda x: x, name="first")
    second = rule(when=is_even & is_int, then=lambda x: x, name="second")

    run = Workflow("w", first, second, keep).run("text")

    assert list(run.failures) == ["is_even"]
    assert run.results() == {"keep": "text"}
    assert run.status == "idle"


# -- many ----------------------------------------------------------------------------------------


MANY = 5_000


def numbered(count: int) -> list[Condition]:
    """Conditions that hold for what is not their number."""
    return [condition(lambda x, n=number: x != n, name=f"not_{number}") for number in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("value", [-1, MANY - 1])
def test_thousands_of_conditions_can_be_composed(value: int) -> None:
    every = reduce_left(and_, numbered(MANY))

    run = Workflow("w", rule(when=every, then=lambda x: x, name="r")).run(value)

    assert every(value) is (value < 0)
    assert run.values("r") == [value] * (value < 0)
    assert str(every.name).split(" & ") == [f"not_{number}" for number in range(MANY)]


@pytest.mark.slow
def test_thousands_of_conditions_can_be_nested_to_either_side() -> None:
    conditions = numbered(MANY)
    deep = conditions[-1]
    for number, one in enumerate(reversed(conditions[:-1])):
        deep = ~(one & deep) if number % 2 else one | deep

    gated = Workflow("w", deep.named("deep") >> keep)

    assert gated.run(-1).values("keep") == [-1] * deep(-1)
    assert Workflow("outer", gated).run(-1).values("w.keep") == [-1] * deep(-1)


def test_thousands_of_conditions_can_refer_to_each_other_by_name() -> None:
    named = [condition(lambda x: x > 0, name="c0")]
    named += [(f"c{n - 1}" & condition(lambda x: x < 9, name=f"b{n}")).named(f"c{n}") for n in range(1, 2_001)]
    keep = rule(when="c2000", then=lambda x: x, name="keep")

    workflow = Workflow("w", *named, keep)

    assert [workflow.run(value).values("keep") for value in (5, -1, 10)] == [[5], [], []]
    assert workflow.check() == []


# -- conditions that are mentioned again and again ----------------------------------------------------

LEVELS = 14
"""Enough parts that visiting every mention of one would be noticed."""


def ladder(levels: int = LEVELS) -> list[Condition]:
    """Conditions of which each names the one before it twice; the last one holds for 1 to 8."""
    conditions = [condition(lambda x: x > 0, name="c0")]
    for n in range(1, levels + 1):
        less = condition(lambda x: x < 9, name=f"less{n}")
        conditions.append(((f"c{n - 1}" & less) | (f"c{n - 1}" & ~less & less)).named(f"c{n}"))
    return conditions


def test_the_questions_of_a_gate_are_as_many_as_its_conditions_however_often_they_are_mentioned() -> None:
    workflow = Workflow("w", *ladder(), rule(when=f"c{LEVELS}", then=lambda x: x, name="keep"))

    gates = [node for node in workflow.compiled.nodes.values() if isinstance(node, GateNode)]

    assert max(len(gate.questions) for gate in gates) <= 6 * LEVELS


def test_conditions_that_are_mentioned_twice_at_every_level_are_asked_once_and_in_order() -> None:
    asked: list[str] = []

    def tell(name: str, holds: bool) -> bool:
        asked.append(name)
        return holds

    conditions = [condition(lambda x: tell("c0", x > 0), name="c0")]
    for n in range(1, LEVELS + 1):
        other = condition(lambda x, n=n: tell(f"b{n}", x != n), name=f"b{n}")
        conditions.append(((f"c{n - 1}" & other) | (~other & f"c{n - 1}" & other)).named(f"c{n}"))
    keep = rule(when=f"c{LEVELS}", then=lambda x: x, name="keep")
    workflow = Workflow("w", *conditions, keep)

    told = [(workflow.run(value).values("keep"), [*asked], asked.clear())[:2] for value in (100, 3, -1)]

    everything = ["c0", *(f"b{n}" for n in range(1, LEVELS + 1))]
    assert told == [([100], everything), ([], everything), ([], everything)]


def test_a_workflow_of_such_conditions_is_checked_without_going_through_every_mention(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[int] = []

    def counted(of: Any) -> Any:
        looked_at.append(1)
        return sides(of)

    for module in ("compose.expression", "compose.questions"):
        monkeypatch.setattr(f"weft.core.{module}.sides", counted)
    workflow = Workflow("w", *ladder(), rule(when=f"c{LEVELS}", then=lambda x: x, name="keep"))

    assert workflow.check() == []
    assert workflow.run(5).values("keep") == [5]
    assert len(looked_at) < 400 * LEVELS


def test_conditions_that_are_put_together_from_the_same_ones_are_one_part_each() -> None:
    whole = condition(lambda x: x > 0, name="positive") & condition(lambda x: x < 9, name="small")
    for _ in range(LEVELS):
        whole = whole | ~whole

    assert len(questions_of(substitute(whole.tree, lambda of: of.name))) <= 4 * LEVELS
    assert len(list(leaves(whole.tree))) == 2
    assert whole(5) is True
