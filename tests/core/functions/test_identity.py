"""Identity is content: the same in every process, different for everything that differs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import math
import subprocess
import sys
import uuid
from collections import Counter, OrderedDict
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import Run, Workflow, accumulator, condition, each, join, reduce, step
from weft.core.functions.identity import canonical, digest, digest_of
from weft.errors import UnidentifiableValue


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    x: int
    y: int


@dataclasses.dataclass
class Spot:
    x: int
    y: int


class Pair(NamedTuple):
    x: int
    y: int


class Record(msgspec.Struct):
    x: int
    y: int


class Name(str):
    __slots__ = ()


# -- values --------------------------------------------------------------------------------------

DIFFERENT: list[object] = [
    *(None, True, False, 0, 1, -1, 2**80, 0.0, -0.0, 1.0, math.inf, 1j, "", "1", "a", b"", b"a", bytearray(b"a")),
    *([], [1], [[1]], [1, 2], [2, 1], (), (1,), (1, 2), {}, {1: 2}, {"a": None}, set(), {1}, frozenset({1})),
    *({"a": {"b": 1}}, {"a": 1, "b": 2}, [{}], [[]], [()], range(2), range(0, 2, 3), [0, 1], ...),
    *(dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, tzinfo=dt.UTC), dt.time(1, 2), dt.timedelta(1)),
    *(dt.datetime(2020, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=1))), dt.timedelta(seconds=1)),
    *(decimal.Decimal(1), decimal.Decimal("1.5"), uuid.UUID(int=1), uuid.UUID(int=2)),
    *(Colour.RED, Colour.BLUE, Level.LOW, Point(1, 2), Spot(1, 2), Point(2, 1), Pair(1, 2), Record(1, 2)),
    *(Name("a"), Counter("a"), OrderedDict(a=1), {"x": 1, "y": 2}, "Colour.RED", "\ud800"),
]


def test_values_that_differ_have_different_identities() -> None:
    """Also those that are equal in Python and of different types."""
    identities = [canonical(value) for value in DIFFERENT]

    clashes = [
        (DIFFERENT[i], DIFFERENT[j]) for i in range(len(DIFFERENT)) for j in range(i) if identities[i] == identities[j]
    ]
    assert clashes == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1, 2, 3}, {3, 2, 1}),
        (Point(1, 2), Point(y=2, x=1)),
        ("é", "é"),
        ([1, (2, {"a": None})], [1, (2, {"a": None})]),
    ],
)
def test_values_that_are_the_same_have_the_same_identity(one: object, other: object) -> None:
    assert canonical(one) == canonical(other)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(one: object, other: object) -> bool:
    """Whether two values are equal all the way down, types and the sign of zero included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


@given(values, values)
def test_an_identity_is_shared_exactly_by_the_same_values(one: object, other: object) -> None:
    assert (canonical(one) == canonical(other)) is same(one, other)


def test_a_hash_has_128_bits() -> None:
    assert len(digest_of("anything")) == 16


def test_parts_that_are_cut_differently_have_different_hashes() -> None:
    assert digest(b"ab", b"c") != digest(b"a", b"bc")
    assert digest(b"ab") != digest(b"ab", b"")


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (object(), "value"),
        ([1, object()], r"value\[1\]"),
        ({"a": [object()]}, r"value\['a'\]\[0\]"),
        (Point(1, object()), r"value\['y'\]|value.y"),
    ],
)
def test_a_value_without_an_identity_is_an_error_that_says_where(value: object, where: str) -> None:
    with pytest.raises(UnidentifiableValue, match=rf"an object at {where} has no canonical form; use builtins"):
        canonical(value)


def test_a_value_that_contains_itself_is_an_error() -> None:
    endless: list[object] = []
    endless.append(endless)

    with pytest.raises(UnidentifiableValue, match="contains itself"):
        canonical(endless)


# -- another process -----------------------------------------------------------------------------

PROGRAM = """
from weft import Workflow, accumulator, condition, each, reduce, rule, step

is_known = condition(lambda x: x in {"a", "b", "c", "d"}, name="is_known")
flow = Workflow(
    "w",
    step(lambda x, k=frozenset({"x", "y", "z"}): x, name="a").bind() >> step(lambda x: [x, x], name="b"),
    rule(when=is_known & ~is_known, then=lambda x: x, name="r"),
    step(lambda x: {"a", "b", ("c", 1), 2, None}, name="set")
    >> each(step(repr, name="show"))
    >> reduce(lambda acc, x: [*acc, x], init=list, name="collect"),
    accumulator(lambda s, x: s | {x}, init=set, name="acc"),
)
run = flow.run("a", id="r1")
print(flow.hash, flow.version)
print([run.hash_of(fact) for fact in run.facts()])
print([(r.id, r.idempotency_key) for r in flow.plan({"k": "v", "l": {1, 2}}, id="r2").prepare()])
print(run.value("collect"))
"""


def test_everything_has_the_same_identity_in_another_process() -> None:
    """J100a: whatever the seed of its hashes; the order of a set's elements too."""
    told = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    ]

    assert told[0].count("\n") == 4
    assert told[0] == told[1] == told[2]


# -- facts ---------------------------------------------------------------------------------------

double = step(lambda x: x * 2, name="double")


def test_a_fact_is_its_value_and_where_it_came_from() -> None:
    one, other = Workflow("w", double).run(1, id="a"), Workflow("w", double).run(1, id="b")

    assert one.hash_of(one.fact("double")) == other.hash_of(other.fact("double"))


def test_a_fact_of_another_value_producer_or_cause_is_another_fact() -> None:
    base = Workflow("w", double).run(1)
    by_value = Workflow("w", step(lambda x: x * 3, name="double")).run(1)
    by_producer = Workflow("w", double.named("twice")).run(1)
    by_cause = Workflow("w", step(lambda _: 2, name="double")).run(7)

    hashes = {run.hash_of(run.productions()[0]) for run in (base, by_value, by_producer, by_cause)}

    assert len(hashes) == 4


def test_equal_inputs_and_what_comes_of_them_are_different_facts() -> None:
    run = Workflow("w", double).run(1)
    run.run(1)

    assert len({run.hash_of(fact) for fact in run.facts()}) == 4


def test_equal_elements_and_what_comes_of_them_are_different_facts() -> None:
    run = Workflow("w", each(double)).run([1, 1, 1])

    assert len({run.hash_of(fact) for fact in run.facts("double")}) == 3
    assert len({run.hash_of(fact.parents[0]) for fact in run.facts("double")}) == 3


def test_a_fact_does_not_depend_on_when_it_was_made() -> None:
    pair = step(lambda a, b: (a, b), name="pair")
    workflow = Workflow("w", [double, step(lambda x: -x, name="negate")] >> pair)
    early, late = workflow.plan(1), workflow.plan(1)

    for run, order in ((early, (0, 1)), (late, (1, 0))):
        runnables = run.prepare()
        for index in order:
            run.apply(runnables[index].execute())
        run.react_until_satisfied()

    assert early.hash_of(early.fact("pair")) == late.hash_of(late.fact("pair"))


def test_a_run_whose_values_have_no_identity_works() -> None:
    """A hash that is not asked for is not computed."""
    run = Workflow("w", step(lambda _: object(), name="opaque") >> step(repr, name="show")).run(object())

    assert run.output.startswith("<object")
    with pytest.raises(UnidentifiableValue, match="the value of the input"):
        run.hash_of(run.fact("show"))


# -- runnables -----------------------------------------------------------------------------------


def test_the_id_of_a_runnable_is_its_component_and_its_inputs() -> None:
    both = Workflow("w", double, double.named("twice"))
    one, other = both.plan(1).prepare()
    [again, _] = both.plan(1).prepare()
    [elsewhere, _] = both.plan(2).prepare()

    assert one.id == again.id
    assert len({one.id, other.id, elsewhere.id}) == 3


def test_the_id_of_a_runnable_does_not_depend_on_code() -> None:
    [one] = Workflow("w", double).plan(1).prepare()
    [other] = Workflow("w", step(lambda x: x + x, name="double")).plan(1).prepare()

    assert one.id == other.id


def keys(run: Run) -> list[str]:
    return [runnable.idempotency_key for runnable in run.prepare()]


def test_an_idempotency_key_holds_no_code_and_no_values() -> None:
    """The same after a deploy, also if what came before made another value."""
    old = Workflow("w", double >> step(lambda x: x, name="charge")).plan(1, id="r").react()
    new = Workflow("w", step(lambda x: x * 99, name="double") >> step(lambda x: -x, name="charge"))
    deployed = new.plan(5, id="r").react()

    assert keys(old) == keys(deployed)


def test_an_idempotency_key_is_the_same_after_a_resume() -> None:
    run = Workflow("w", double >> each(double.named("inner"))).plan([1, 2], id="r").react().react()

    assert len(keys(run)) == 4
    assert keys(Run.from_log(run.log())) == keys(run)


@pytest.mark.parametrize(
    "other",
    [
        Workflow("w", double).plan(1, id="other"),
        Workflow("w", double.named("twice")).plan(1, id="r"),
        Workflow("w", double).run(1, id="r").plan(1),
    ],
    ids=["run", "component", "input"],
)
def test_an_idempotency_key_differs_by_run_component_and_input(other: Run) -> None:
    run = Workflow("w", double).plan(1, id="r")

    assert set(keys(run)).isdisjoint(keys(other))


def test_an_idempotency_key_does_not_depend_on_the_name_of_the_workflow() -> None:
    assert keys(Workflow("v", double).plan(1, id="r")) == keys(Workflow("w", double).plan(1, id="r"))


def test_elements_of_equal_value_have_keys_of_their_own() -> None:
    run = Workflow("w", each(double)).plan([7, 7, 7], id="r").react()

    assert len(set(keys(run))) == 3


def test_an_idempotency_key_does_not_depend_on_the_order_of_completion() -> None:
    pair = step(lambda a, b: (a, b), name="pair")
    workflow = Workflow("w", [double, double.named("twice")] >> pair)
    early, late = workflow.plan(1, id="r"), workflow.plan(1, id="r")

    for run, order in ((early, (0, 1)), (late, (1, 0))):
        runnables = run.prepare()
        for index in order:
            run.apply(runnables[index].execute())

    assert keys(early) == keys(late)


def test_the_key_of_a_reduce_over_several_maps_does_not_depend_on_their_order() -> None:
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
    workflow = Workflow(
        "w",
        each(double, name="one") >> collect,
        each(double.named("twice"), name="two") >> collect,
    )
    runs = [workflow.plan([1, 2], id="r"), workflow.plan([1, 2], id="r")]

    for run, pick in zip(runs, (0, -1), strict=True):
        while [runnable.component for runnable in run.prepare()] != ["collect"]:
            run.apply(run.prepare()[pick].execute())

    assert keys(runs[0]) == keys(runs[1])
    assert runs[0].prepare()[0].id == runs[1].prepare()[0].id


def test_the_work_of_all_kinds_of_components_has_keys_of_its_own() -> None:
    show = step(lambda *xs: xs, name="show")
    workflow = Workflow(
        "w",
        double >> show,
        double.named("twice") >> show,
        join(double, double.named("twice"), wait="all_done") >> show,
        condition(lambda _: True, name="yes") >> double.named("gated"),
        accumulator(lambda s, x: s + x, init=0, name="total"),
        step(lambda x: [x, x], name="list") >> each(double.named("inner")) >> reduce(max, init=0, name="most"),
    )
    run = workflow.plan(1, id="r").plan(1)
    seen: list[str] = []

    while run.is_runnable:
        seen.extend(keys(run)[:1])
        run.apply(run.prepare()[0].execute())

    assert len(set(seen)) == len(seen) > 20
