"""Rules: reactions and the conditions under which they happen."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from weft import Workflow, accumulator, condition, rule, state_of, step
from weft.errors import DefinitionError, InvalidComponent, UnknownReference, WrongArity


@condition
def ham(x: int) -> bool:
    return x > 10


@condition
def vip(x: int) -> bool:
    return x == 1


# -- when it fires -------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "made"), [(50, [("ok", 50)]), (999, [("ok", 999)]), (500, [])])
def test_a_rule_fires_where_its_condition_holds(given: int, made: list[object]) -> None:
    """D35."""
    check = rule(when=lambda v: 0 < v < 100 or v == 999, then=lambda v: ("ok", v), name="check")

    run = Workflow("w", check).run(given)

    assert run.values("check") == made


@dataclass(frozen=True)
class Order:
    status: str
    total: float


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (Order("pending", 150), [135.0]),
        (Order("confirmed", 150), []),
        (Order("pending", 50), []),
        ("no order", []),
    ],
)
def test_a_rule_sees_the_whole_of_what_arrives(given: object, made: list[float]) -> None:
    """D36."""

    def is_due(order: object) -> bool:
        return isinstance(order, Order) and order.status == "pending" and order.total > 100

    discount = rule(when=is_due, then=lambda order: 0.9 * order.total, name="discount")

    run = Workflow("w", discount).run(given)

    assert run.values("discount") == made
    assert not run.failed


def test_a_condition_of_a_rule_that_raises_is_a_recorded_failure() -> None:
    """D36."""
    run = Workflow("w", rule(when=lambda x: x > 1, then=lambda x: x, name="large")).run("text")

    assert list(run.failures) == ["large.when"]
    assert run.status == "idle"


def test_a_rule_without_a_condition_always_fires() -> None:
    """D37."""
    run = Workflow("w", rule(then=lambda x: ("got", x), name="always")).run("anything")

    assert run.output == ("got", "anything")


def test_a_rule_without_a_reaction_is_refused_where_it_is_built() -> None:
    """D37: the error says what is missing."""
    with pytest.raises((TypeError, DefinitionError), match="then="):
        Workflow("w", rule(when=lambda _: True))


def test_a_rule_can_decorate_its_reaction() -> None:
    @rule(when=lambda x: x > 10)
    def large(x: int) -> tuple[str, int]:
        return ("large", x)

    assert Workflow("w", large).run(12).results() == {"large": ("large", 12)}
    assert large(3) == ("large", 3)


@pytest.mark.parametrize(("given", "fires"), [(15, True), (5, False)])
def test_a_rule_asks_a_condition_that_stands_by_itself(given: int, fires: bool) -> None:
    """D38."""
    both = rule(when=ham & (lambda x: x >= 2), then=lambda x: x, name="both")

    run = Workflow("w", both).run(given)

    assert bool(run.values("both")) is fires


def test_all_parts_of_and_must_hold() -> None:
    """D38: a condition that always holds does not make up for one that does not."""
    always = condition(lambda _: True, name="always")
    both = rule(when=always & (lambda x: x > 100), then=lambda x: x, name="both")

    assert Workflow("w", both).run(5).values("both") == []


@pytest.mark.parametrize(("given", "fires"), [(15, True), (-5, True), (5, False)])
def test_one_part_of_or_is_enough(given: int, fires: bool) -> None:
    """D39."""
    either = rule(when=ham | (lambda x: x < 0), then=lambda x: x, name="either")

    run = Workflow("w", either).run(given)

    assert bool(run.values("either")) is fires


@pytest.mark.parametrize(("given", "fires"), [(15, True), (1, True), (5, False)])
def test_and_and_or_can_be_mixed(given: int, fires: bool) -> None:
    """D39."""
    mixed = rule(when=(ham & (lambda x: x >= 2)) | vip, then=lambda x: x, name="mixed")

    run = Workflow("w", mixed).run(given)

    assert bool(run.values("mixed")) is fires


def test_a_condition_that_two_rules_share_is_asked_once() -> None:
    """D40."""
    asked: list[int] = []

    @condition
    def costly(x: int) -> bool:
        asked.append(x)
        return x > 10

    first = rule(when=costly & (lambda x: x >= 2), then=lambda _: "first", name="first")
    second = rule(when=costly & (lambda x: x < 100), then=lambda _: "second", name="second")

    run = Workflow("w", first, second).run(15)

    assert run.results() == {"first": "first", "second": "second"}
    assert asked == [15]


def test_a_rule_whose_condition_holds_twice_reacts_once() -> None:
    """D41."""
    either = rule(when=ham | (lambda x: x > 5), then=lambda x: x, name="either")

    run = Workflow("w", either).run(15)

    assert run.values("either") == [15]


@pytest.mark.parametrize(("given", "made"), [([2, 3], [(2, 3)]), ([1, 3], [])])
def test_a_rule_that_says_so_is_given_the_members_of_a_collection(given: object, made: list[object]) -> None:
    """D43: nothing is spread by itself."""
    both = rule(when=lambda a, b: a > 1 and b > 1, then=lambda a, b: (a, b), name="both", spread=True)

    run = Workflow("w", both).run(given)

    assert run.values("both") == made


def test_a_rule_that_cannot_spread_what_arrives_does_not_fire() -> None:
    """D43."""
    both = rule(when=lambda a, b: a > 1 and b > 1, then=lambda a, b: (a, b), name="both", spread=True)

    run = Workflow("w", both).run(2)

    assert run.values("both") == []
    assert list(run.failures) == ["both.when"]


def test_a_rule_of_two_parameters_and_one_parent_is_refused() -> None:
    """D43."""
    with pytest.raises(WrongArity, match="spread=True"):
        Workflow("w", rule(when=lambda a, b: a > b, then=lambda a, b: (a, b), name="both"))


def test_a_rule_takes_a_join() -> None:
    a, b = step(lambda x: x + 1, name="a"), step(lambda x: x * 2, name="b")
    larger = rule(when=lambda x, y: y > x, then=lambda x, y: (x, y), name="larger")
    workflow = Workflow("w", [a, b] >> larger)

    assert workflow.run(5).results() == {"larger": (6, 10)}
    assert workflow.run(0).results() == {}


def test_a_reaction_is_a_fact_like_any_other() -> None:
    large = rule(when=ham, then=lambda x: x * 2, name="large")

    run = Workflow("w", large >> step(lambda x: f"alarm: {x}", name="alarm")).run(11)

    assert run.output == "alarm: 22"
    assert [fact.producer for fact in run.lineage(run.fact("alarm"))] == [None, "large", "alarm"]


def test_a_reaction_that_raises_is_a_recorded_failure() -> None:
    run = Workflow("w", rule(when=ham, then=lambda x: x / 0, name="large")).run(11)

    assert list(run.failures) == ["large"]


def test_condition_and_reaction_may_be_coroutines() -> None:
    async def is_large(x: int) -> bool:
        return x > 10

    async def double(x: int) -> int:
        return x * 2

    workflow = Workflow("w", rule(when=is_large, then=double))

    assert workflow.run(11).results() == {"double": 22}
    assert workflow.run(9).results() == {}


# -- planning ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "matches"), [(2, 2), (-3, 1), (4, 2)])
def test_planning_eagerly_asks_conditions_and_runs_nothing(given: int, matches: int) -> None:
    """A4."""
    rules = [
        rule(when=lambda x: x > 0, then=lambda x: 2 * x, name="positive"),
        rule(when=lambda x: x < 0, then=lambda x: 3 * x, name="negative"),
        rule(when=lambda x: x % 2 == 0, then=lambda x: x // 2, name="even"),
    ]
    children = [step(lambda x: x, name=f"after_{r.name}") for r in rules]
    workflow = Workflow("w", *(r >> child for r, child in zip(rules, children, strict=True)))

    run = workflow.plan_eagerly(given)

    assert len(run.prepare()) == matches
    assert run.productions() == []


# -- what it refers to ---------------------------------------------------------------------------


def test_a_rule_that_names_an_unknown_condition_is_refused_when_it_is_added() -> None:
    """D44."""
    workflow = Workflow("w", step(lambda x: x, name="a"))

    with pytest.raises(UnknownReference, match="'r' refers to condition 'ham', which is not there; add it first"):
        workflow.add(rule(when="ham", then=lambda x: x, name="r"))


def test_a_rule_that_reads_the_state_of_nothing_is_refused_when_it_is_added() -> None:
    """D44."""
    total = state_of("total")
    over = rule(when=lambda _, so_far=total: so_far > 1, then=lambda x: x, name="over")

    with pytest.raises(UnknownReference, match="'over' refers to state_of 'total', which is not there"):
        Workflow("w").add(over)


def test_adding_the_target_first_succeeds() -> None:
    """D44."""
    total = state_of("total")
    over = rule(when=lambda _, so_far=total: so_far > 1, then=lambda x: x, name="over")
    named = rule(when="ham", then=lambda x: -x, name="named")
    summed = accumulator(lambda so_far, x: so_far + x, init=0, name="total")

    workflow = Workflow("w").add(ham).add(named).add(summed).add(over)

    assert workflow.run(12).results() == {"named": -12, "total": 12, "over": 12}


def test_an_unknown_reference_names_the_reader_the_name_and_what_there_is() -> None:
    """D44."""
    with pytest.raises(UnknownReference, match="it has ham, vip") as caught:
        Workflow("w", ham, vip, rule(when="spam", then=lambda x: x, name="r"))

    assert (caught.value.component, caught.value.target) == ("r", "spam")


def test_a_condition_that_is_not_a_condition_is_refused() -> None:
    with pytest.raises(InvalidComponent, match="when= takes a function, a condition or the name of one, got 5"):
        rule(when=5, then=lambda x: x)
