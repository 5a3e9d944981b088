"""Patterns in rules: what fits, what of it the parameters get, and what a rule says of a value."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypedDict

import msgspec
import pytest

from weft import Workflow, accumulator, capture, condition, context, each, rule, state_of, step, workflow
from weft.errors import InvalidComponent, NoRun, WrongArity


@dataclass(frozen=True)
class Order:
    status: str
    total: float


class Point(NamedTuple):
    x: int
    y: int


class Parcel(msgspec.Struct):
    weight: int


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def fired(made: Any, value: Any) -> list[Any]:
    """Return what *made*, a rule, makes of *value*; nothing may fail."""
    run = Workflow("w", made).run(value)
    assert not run.failed, run.failures
    return run.values(made.label)


# -- what fits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "fits", "does_not"),
    [
        (Order, [Order("new", 1.0)], ["an order", {"status": "new", "total": 1.0}, None]),
        (int | None, [3, None], ["3", 3.0]),
        (object, [3, None, "text"], []),
        (Any, [3, None, "text"], []),
        (
            {"status": "pending", "total": float},
            [{"status": "pending", "total": 1.0, "more": 1}],
            [{"status": "pending"}],
        ),
        ({"status": "pending"}, [{"status": "pending"}], [{"status": "new"}, ["status"], "status", 5]),
        ({1: int}, [{1: 2}], [{2: 1}, {1: "2"}]),
        ({"to": {"city": str}}, [{"to": {"city": "Bergen"}}], [{"to": {}}, {"to": "Bergen"}, {"to": {"city": 5}}]),
        (("add", int, int), [("add", 1, 2), ["add", 1, 2]], [("sub", 1, 2), ("add", 1), ("add", 1, 2, 3), "add"]),
        ((), [(), []], [(1,), {}]),
        (("at", (int, int)), [("at", (1, 2))], [("at", 1, 2), ("at", (1,))]),
        ("stop", ["stop"], ["go", None, b"stop"]),
        (None, [None], [0, "", False]),
        (True, [True], [1, "true", False]),
        (Literal["red", "blue"], ["red", "blue"], ["green"]),
        (Colour.RED, [Colour.RED], [Colour.BLUE, 1]),
        ({"colour": Colour}, [{"colour": Colour.BLUE}], [{"colour": 2}]),
        (capture("it", int), [3], ["3"]),
        (Point(1, 2), [Point(1, 2), (1, 2)], [Point(2, 1)]),
    ],
)
def test_a_rule_fires_on_what_fits_and_is_silent_on_the_rest(given: Any, fits: list[Any], does_not: list[Any]) -> None:
    """D36: what does not fit does not fire, and nothing fails."""
    made = rule(given=given, then=lambda: "fired", name="r")

    assert [fired(made, value) for value in fits] == [["fired"]] * len(fits)
    assert [fired(made, value) for value in does_not] == [[]] * len(does_not)
    assert all(made.check(value) for value in fits)
    assert not any(made.check(value) for value in does_not)


def test_what_cannot_be_compared_does_not_fit() -> None:
    class Array:
        def __eq__(self, other: object) -> Any:
            raise ValueError("the truth of an array is ambiguous")

        __hash__ = object.__hash__

    assert fired(rule(given="stop", then=lambda: 1, name="r"), Array()) == []


# -- what the parameters get ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "then", "value", "made"),
    [
        (Order, lambda order: order, Order("new", 2.0), Order("new", 2.0)),
        (Order, lambda total, status: (status, total), Order("new", 2.0), ("new", 2.0)),
        (Order, lambda order, total: (order.status, total), Order("new", 2.0), ("new", 2.0)),
        (Point, lambda x, y: x + y, Point(1, 2), 3),
        (Parcel, lambda weight: weight, Parcel(5), 5),
        (int, lambda real: real, 7, 7),
        ({"total": float}, lambda total: total, {"total": 2.0}, 2.0),
        ({"total": float}, lambda order, total: (order["id"], total), {"total": 2.0, "id": 1}, (1, 2.0)),
        ({"to": {"city": str}}, lambda city: city, {"to": {"city": "Bergen"}}, "Bergen"),
        ({"to": (capture("city"), str)}, lambda city, to: (city, to), {"to": ("B", "NO")}, ("B", ("B", "NO"))),
        (("add", int, int), lambda a, b: a - b, ("add", 5, 2), 3),
        (("add", capture("b", int), capture("a", int)), lambda a, b: a - b, ("add", 5, 2), -3),
        (
            ("pay", Order, capture("by")),
            lambda order, by: (order.total, by),
            ("pay", Order("n", 2.0), "me"),
            (2.0, "me"),
        ),
        (capture("pair", (int, int)), lambda pair: pair, [1, 2], [1, 2]),
        (("stop",), lambda whole: whole, ("stop",), ("stop",)),
        ((int, int), lambda *values: values, (1, 2), (1, 2)),
        ({"a": int}, lambda *values: values, {"a": 1}, ({"a": 1},)),
        (Order, lambda: "fired", Order("new", 2.0), "fired"),
    ],
)
def test_parameters_take_what_they_name(given: Any, then: Callable[..., Any], value: Any, made: Any) -> None:
    """D36: the reaction sees the whole, and what is inside of it."""
    assert fired(rule(given=given, then=then, name="r"), value) == [made]


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ({"status": "pending", "total": 150}, [("discounted", {"status": "pending", "total": 150}, 135.0)]),
        ({"status": "confirmed", "total": 150}, []),
        ({"status": "pending", "total": 50}, []),
        ("not an order", []),
    ],
)
def test_the_condition_takes_parts_too(value: Any, made: list[Any]) -> None:
    """D36."""

    @rule(given={"status": "pending", "total": int | float}, when=lambda total: total > 100)
    def discount(order: Any, total: float) -> Any:
        return ("discounted", order, 0.9 * total)

    assert fired(discount, value) == made


def test_a_rule_with_a_pattern_needs_no_condition() -> None:
    """D37."""
    assert fired(rule(given={"x": int}, then=lambda x: ("got_x", x), name="r"), {"x": 42}) == [("got_x", 42)]


def test_coroutines_take_parts_as_well() -> None:
    async def is_large(total: float) -> bool:
        return total > 100

    async def twice(total: float) -> float:
        return total * 2

    made = rule(given=Order, when=is_large, then=twice)

    assert fired(made, Order("new", 150)) == [300]
    assert fired(made, Order("new", 50)) == []
    assert fired(made, "text") == []


def test_a_condition_that_is_shared_gets_the_whole_and_is_asked_of_what_fits_alone() -> None:
    asked: list[Any] = []

    @condition
    def is_due(order: Order) -> bool:
        asked.append(order)
        return order.total > 100

    first = rule(given=Order, when=is_due, then=lambda total: total, name="first")
    second = rule(given=Order, when=is_due & (lambda order: order.status == "new"), then=lambda: "new", name="second")
    flow = Workflow("w", first, second)

    assert flow.run(Order("new", 150)).results() == {"first": 150, "second": "new"}
    assert flow.run("text").results() == {}
    assert asked == [Order("new", 150)]


def test_other_parameters_read_the_run_as_ever() -> None:
    total = step(lambda order: order.total * 2, name="doubled")
    over = rule(
        given=Order,
        when=lambda total, limit=context("limit", default=100): total > limit,
        then=lambda status, seen=state_of("machine"): (status, seen),
        name="over",
    )
    machine = accumulator(lambda seen, _: seen + 1, init=0, name="machine")
    flow = Workflow("w", total, machine, over)

    assert flow.run(Order("new", 150)).value("over") == ("new", 1)
    assert flow.run(Order("new", 150), context={"limit": 200}).values("over") == []


def test_a_tuple_takes_a_join_apart() -> None:
    a, b = step(lambda x: x + 1, name="a"), step(lambda x: "even" if x % 2 == 0 else None, name="b")
    flow = Workflow("w", [a, b] >> rule(given=(int, str), then=lambda number, word: (word, number), name="both"))

    assert flow.run(4).results() == {"both": ("even", 5)}
    assert flow.run(5).results() == {}


def test_a_rule_with_a_pattern_drops_elements_of_an_each() -> None:
    paid = rule(given={"paid": True, "id": int}, then=lambda id: id, name="paid")
    orders = [{"paid": True, "id": 1}, {"paid": False, "id": 2}, "junk", {"paid": True, "id": 4}]

    assert Workflow("w", each(paid)).run(orders).results() == {"paid": [1, 4]}


def test_a_rule_with_a_pattern_is_called_with_the_value_inside_a_traced_workflow() -> None:
    make = step(lambda total: Order("new", total), name="make")

    @rule(given=Order, when=lambda total: total > 100)
    def discount(order: Any, total: float) -> Any:
        return (order.status, total)

    @workflow
    def shop(total: float) -> Any:
        return discount(make(total))

    assert shop.run(150).output == ("new", 150)
    assert shop.run(50).results() == {}


# -- what is refused -----------------------------------------------------------------------------


class Typed(TypedDict):
    total: float


class Sized(Protocol):
    def size(self) -> int: ...


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([int, int], "write a tuple, which fits lists too"),
        (lambda x: x > 1, "what has to be called goes into when="),
        (condition(lambda x: x, name="c"), "what has to be called goes into when="),
        ({"total": lambda total: total > 1}, "what has to be called goes into when="),
        (list[int], "what is inside of a list is not checked; write list"),
        (object(), "which is not data"),
        ({"total": ...}, "write object where all is allowed"),
        (Typed, "use a class, or a mapping"),
        (Sized, "use a class, or a mapping"),
        (int | list[str], "use a class, or a mapping"),
    ],
)
def test_what_is_not_a_pattern_is_refused_where_it_is_written(given: Any, says: str) -> None:
    with pytest.raises(InvalidComponent, match=says):
        rule(given=given, then=lambda x: x, name="r")


@pytest.mark.parametrize(
    ("given", "then", "says"),
    [
        (Order, lambda a, b: None, r"takes a, b, and given= has status, total; name what it takes: capture\('a'"),
        ({"x": int}, lambda a, b: None, "takes a, b, and given= has x; name"),
        (("add", int, int), lambda a: None, "takes a, and given= has nothing by name, and 2 items by position"),
        (("add", int), lambda a, b: None, "and 1 item by position"),
        ({"a": {"id": int}, "b": {"id": int}}, lambda id: None, r"given= has 2 values for 'id'"),
        (Order, lambda order, total=5: None, "'total', which has a default"),
        ({"x": int}, lambda *, x: None, "nothing fills the keyword-only parameter 'x'"),
    ],
)
def test_parameters_that_a_pattern_cannot_fill_are_refused_where_they_are_written(
    given: Any, then: Callable[..., Any], says: str
) -> None:
    with pytest.raises(WrongArity, match=says):
        rule(given=given, then=then, name="r")
    with pytest.raises(WrongArity, match=says):
        rule(given=given, when=then, then=lambda: None, name="r")


def test_a_name_for_a_part_is_the_name_of_a_parameter() -> None:
    with pytest.raises(InvalidComponent, match="must name a parameter"):
        capture("two words")


def test_a_pattern_binds_by_itself_so_nothing_is_spread() -> None:
    with pytest.raises(InvalidComponent, match="not both"):
        rule(given=(int, int), then=lambda a, b: a + b, name="r", spread=True)


def test_a_join_needs_a_pattern_for_every_parent() -> None:
    a, b = step(lambda x: x, name="a"), step(lambda x: x, name="b")

    with pytest.raises(WrongArity, match="'r' gets 2 values from a, b, and given= is not a tuple of 2"):
        Workflow("w", [a, b] >> rule(given=Order, then=lambda order: order, name="r"))


# -- what a rule says of a value -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "value", "reason"),
    [
        (Order, "text", "it is a str, not Order"),
        (int | None, 1.5, "it is a float, not int | None"),
        ({"status": "pending"}, {}, "it has no 'status'"),
        ({"status": "pending"}, {"status": "new"}, "'status' is 'new', not 'pending'"),
        ({"to": {"city": str}}, {"to": {"city": None}}, "'city' of 'to' is None, not str"),
        ({"to": {"city": str}}, {"to": 5}, "'to' is an int, not a mapping"),
        (("add", int), ("add",), "it has 1 item, not 2"),
        (("add", int), ("add", "x"), "item 1 is a str, not int"),
        (("add", (int,)), ("add", ("x",)), "item 0 of item 1 is a str, not int"),
        (("add", int), 5, "it is an int, not a tuple or a list"),
        (Literal["red", "blue"], "green", "it is 'green', not 'red' or 'blue'"),
    ],
)
def test_a_rule_says_why_a_value_does_not_fit(given: Any, value: Any, reason: str) -> None:
    said = rule(given=given, then=lambda: None, name="r").check(value)

    assert (said.fires, said.reason) == (False, reason)
    assert str(said) == f"it does not fire: {reason}"


def test_a_rule_says_what_its_condition_says() -> None:
    large = rule(when=lambda x: x > 10, then=lambda x: 1 / 0, name="large")

    assert large.check(12)
    assert not large.check(3)
    assert str(large.check(12)) == "it fires: when= holds for x=12"
    assert large.check(3).reason == "when= does not hold for x=3"
    assert large.check("a").reason.startswith("when= raises TypeError: ")
    assert str(rule(then=lambda x: x, name="always").check(1)) == "it fires: it has no condition"


def test_a_rule_says_what_its_parameters_would_get() -> None:
    said = rule(given=Order, when=lambda total: total > 1, then=lambda order, total: None, name="r").check(
        Order("n", 5)
    )

    assert (said.fires, said.reason) == (True, "when= holds for total=5")
    assert said.bound == {"order": Order("n", 5), "total": 5}


def test_a_rule_says_which_of_its_conditions_held() -> None:
    is_int = condition(lambda x: isinstance(x, int), name="is_int")
    is_even = condition(lambda x: x % 2 == 0, name="is_even")
    both = rule(when=is_int & is_even, then=lambda x: x, name="both")

    assert str(both.check(4)) == "it fires: is_int holds, is_even holds"
    assert str(both.check(3)) == "it does not fire: is_int holds, is_even does not hold"
    assert str(both.check("a")) == "it does not fire: is_int does not hold"


def test_a_rule_is_asked_about_a_join_and_about_what_it_spreads() -> None:
    both = rule(when=lambda a, b: a < b, then=lambda a, b: (a, b), name="both")
    spread = rule(when=lambda a, b: a < b, then=lambda a, b: (a, b), name="spread", spread=True)

    assert both.check(1, 2)
    assert not both.check(2, 1)
    assert spread.check([1, 2])
    assert not spread.check([2, 1])


def test_what_a_condition_reads_from_a_run_is_given_by_name() -> None:
    over = rule(
        when=lambda amount, spent=state_of("total"), limit=context("limit", default=100): spent > limit,
        then=lambda amount: amount,
        name="over",
    )

    assert over.check(5, spent=130)
    assert not over.check(5, spent=30)
    assert over.check(5, spent=30, limit=10)
    with pytest.raises(NoRun, match="spent="):
        over.check(5)


def test_a_condition_that_has_to_be_awaited_is_not_asked() -> None:
    async def later(x: int) -> bool:
        return True

    with pytest.raises(NoRun, match="coroutine function"):
        rule(when=later, then=lambda x: x, name="r").check(1)
    with pytest.raises(NoRun, match="coroutine function"):
        rule(when=condition(later), then=lambda x: x, name="r").check(1)


# -- identity and pictures -----------------------------------------------------------------------


def test_a_pattern_is_part_of_the_identity() -> None:
    def made(**more: Any) -> bytes:
        return rule(then=lambda: None, name="r", **more).identity

    different = [made(), *(made(given=given) for given in (int, str, (int,), {"a": int}, {"b": int}, "int", 1, True))]

    assert len(set(different)) == len(different)
    assert made(given={"a": int, "b": str}) == made(given={"b": str, "a": int})
    assert made(given=int | str) == made(given=str | int)


def test_a_rule_without_a_pattern_has_the_identity_it_always_had() -> None:
    assert rule(when=lambda x: x, then=lambda x: x, name="r").details() == b":False"


def test_a_picture_says_what_a_rule_is_given() -> None:
    is_due = condition(lambda order: True, name="is_due")
    flow = Workflow("w", rule(given=Order, when=is_due, then=lambda: None, name="r"))

    assert "given Order · when is_due" in flow.to_mermaid()


def test_a_picture_of_a_run_shows_a_rule_that_did_not_fit() -> None:
    is_due = condition(lambda order: True, name="is_due")
    flow = Workflow(
        "w", rule(given=Order, when=is_due, then=lambda: None, name="r"), is_due >> step(lambda x: x, name="s")
    )

    def refused_and_done(value: Any) -> tuple[int, int]:
        [found] = [box.progress for box in flow.run(value).picture().boxes if box.id == "r"]
        assert found is not None
        return found.refused, found.done

    assert refused_and_done("text") == (1, 0)
    assert refused_and_done(Order("new", 1)) == (0, 1)
