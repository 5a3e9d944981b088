"""CONFORMANCE A to D and H, case by case: how values flow, join, fan out and are chosen, and what a log gives back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from weft import (
    FSM,
    Aggregate,
    ProcessManager,
    Run,
    Saga,
    Stop,
    Workflow,
    accumulator,
    condition,
    context,
    each,
    reduce,
    repeat,
    rule,
    state_of,
    step,
)
from weft.core import events as ev
from weft.errors import InvalidFragment, NotACollection, UnknownReference, WrongArity
from weft.log import decode, encode
from weft.policy import Policy

PATIENCE = 20.0


def produced(run: Run) -> list[Any]:
    """Return every value that a component of *run* produced, in the order of the log."""
    return [event.value for event in run.log() if isinstance(event, ev.ReactionOccurred)]


def in_memory(workflow: Workflow, value: Any) -> Run:
    return workflow.run(value)


def in_parallel(workflow: Workflow, value: Any) -> Run:
    return workflow.run(value, parallel=3)


def in_an_event_loop(workflow: Workflow, value: Any) -> Run:
    return asyncio.run(workflow.arun(value))


def in_three_phases(workflow: Workflow, value: Any) -> Run:
    run = workflow.plan(value)
    while ready := run.prepare():
        for outcome in [runnable.execute() for runnable in ready]:
            run.apply(outcome)
    return run


ways = pytest.mark.parametrize("go", [in_memory, in_parallel, in_an_event_loop, in_three_phases])
Go = Callable[[Workflow, Any], Run]

double = step(lambda x: x * 2, name="double")
triple = step(lambda x: x * 3, name="triple")
added = reduce(lambda total, x: total + x, init=0, name="added")


# -- A. Dataflow and the three phases ------------------------------------------------------------


def test_1_a_value_knows_its_component_and_the_fact_it_came_from() -> None:
    run = Workflow("w", double).run(5)
    given, made = run.lineage(run.fact("double"))

    assert produced(run) == [10]
    assert (made.value, made.producer, given.value, given.producer) == (10, "double", 5, None)


branching = Workflow(
    "w",
    (r := step(lambda x: x + 1, name="r")) >> step(lambda x: x + 2, name="p2"),
    r >> step(lambda x: x + 4, name="p4"),
)


def test_2_what_branches_produces_once_per_branch() -> None:
    run = branching.run(2)

    assert sorted(produced(run)) == [3, 5, 7]
    assert (run.is_runnable, run.prepare()) == (False, [])


def test_3_nothing_runs_before_a_reaction_and_a_reaction_runs_what_was_ready() -> None:
    run = branching.plan(2)
    assert (produced(run), len(run.prepare()), run.is_runnable) == ([], 1, True)

    run.react()
    assert produced(run) == [3]
    assert [runnable.args for runnable in run.prepare()] == [(3,), (3,)]

    run.react()
    assert (len(produced(run)), run.is_runnable) == (3, False)


@pytest.mark.parametrize(("value", "matches"), [(2, 2), (-3, 1), (4, 2)])
def test_4_planning_asks_conditions_and_never_runs_steps(value: int, matches: int) -> None:
    def ruled(name: str, holds: Callable[[int], bool], then: Callable[[int], Any]) -> Any:
        return rule(when=holds, then=then, name=name) >> step(lambda x: x, name=f"after_{name}")

    flow = Workflow(
        "w",
        ruled("pos", lambda x: x > 0, lambda x: 2 * x),
        ruled("neg", lambda x: x < 0, lambda x: 3 * x),
        ruled("even", lambda x: x % 2 == 0, lambda x: x // 2),
    )

    run = flow.plan_eagerly(value)

    assert (len(run.prepare()), produced(run)) == (matches, [])


@ways
def test_5_a_text_pipeline_produces_each_of_its_values_once(go: Go) -> None:
    tokenize = step(str.split, name="tokenize")
    count = step(lambda words: {word: words.count(word) for word in words}, name="count")
    flow = Workflow(
        "w",
        tokenize >> count >> step(len, name="unique"),
        tokenize >> step(lambda words: words[0], name="first"),
        tokenize >> step(lambda words: words[-1], name="last"),
    )
    assert len(flow.plan("anybody want a peanut").prepare()) == 1

    made = produced(go(flow, "anybody want a peanut"))

    counts = {"anybody": 1, "want": 1, "a": 1, "peanut": 1}
    assert sorted(map(str, made)) == sorted(map(str, [list(counts), counts, 4, "anybody", "peanut"]))


def test_6_every_way_to_run_produces_the_same() -> None:
    runs = [go(branching, 2) for go in (in_memory, in_parallel, in_an_event_loop, in_three_phases)]

    assert [sorted(produced(run)) for run in runs] == [[3, 5, 7]] * 4
    assert not any(run.is_runnable for run in runs)


def test_7_a_list_is_spread_over_parameters_only_where_the_step_says_so() -> None:
    with pytest.raises(WrongArity):
        Workflow("w", step(lambda a, b: a - b, name="f"))

    assert Workflow("w", step(lambda a, b: a - b, name="f", spread=True)).run([9, 4]).output == 5
    assert Workflow("w", step(lambda a: a, name="f")).run([9, 4]).output == [9, 4]


def test_8_a_chain_leads_back_to_its_input() -> None:
    first, *rest = [step(lambda x: x + 1, name=f"s{number}") for number in range(5)]
    flow: Any = first
    for each_step in rest:
        flow = flow >> each_step
    run = Workflow("w", flow).run(0)

    assert [fact.value for fact in run.lineage(run.fact("s4"))] == [0, 1, 2, 3, 4, 5]


def test_9_none_is_a_value() -> None:
    run = Workflow("w", step(lambda x: None, name="t") >> step(lambda x: ("got", x), name="u")).run(1)

    assert produced(run) == [None, ("got", None)]


def test_10_equal_inputs_are_two_inputs() -> None:
    run = Workflow("w", step(lambda x: x + 1, name="s")).run(1).run(1)

    assert produced(run) == [2, 2]
    assert len({run.hash_of(fact) for fact in run.facts("s")}) == 2


def test_11_outputs_are_fed_back_only_where_that_is_asked_for() -> None:
    rules = [rule(given=a, then=lambda b=b: b, name=f"{a}_{b}") for a, b in (("a", "b"), ("b", "c"))]
    run = Workflow("w", *rules).run("a")
    assert produced(run) == ["b"]

    run.feed_back(run.fact("a_b")).react_until_satisfied()

    assert produced(run) == ["b", "c"]
    assert produced(Run.from_log(run.log()).react_until_satisfied()) == ["b", "c"]


def failing(x: Any) -> Any:
    raise ValueError("bad")


@ways
def test_12_a_failure_stops_its_branch_and_no_other(go: Go) -> None:
    flow = Workflow(
        "w",
        step(failing, name="bad") >> step(lambda x: x, name="x"),
        step(lambda x: ("g1", x), name="g1") >> step(lambda x: x, name="g2"),
    )

    run = go(flow, 1)

    assert list(run.failures) == ["bad"]
    assert produced(run) == [("g1", 1), ("g1", 1)]
    assert not run.is_runnable


# -- B. Joins ------------------------------------------------------------------------------------

a, b = step(lambda x: x + 1, name="a"), step(lambda x: x * 2, name="b")
pair = step(lambda x, y: (x, y), name="pair")


@ways
def test_14_a_join_has_the_order_of_the_declaration(go: Go) -> None:
    assert go(Workflow("w", [a, b] >> pair), 5).value("pair") == (6, 10)
    assert go(Workflow("w", [b, a] >> pair), 5).value("pair") == (10, 6)


def test_15_one_join_feeds_several() -> None:
    sides: Any = [double, triple]
    flow = Workflow(
        "w",
        sides >> step(lambda x, y: x * y, name="product"),
        sides >> step(lambda x, y: x + y, name="sum"),
        sides >> step(lambda x, y: y - x, name="difference"),
    )
    run = flow.plan(2)
    run.react()
    assert len(run.prepare()) == 3

    assert run.react_until_satisfied().results() == {"product": 24, "sum": 10, "difference": 2}


def test_16_a_join_waits_for_the_parent_that_is_missing() -> None:
    run = Workflow("w", [double, triple] >> step(lambda x, y: x + y, name="sum")).plan(5)
    [first] = [ready for ready in run.prepare() if ready.component == "double"]

    run.apply(first.execute())

    assert [ready.component for ready in run.prepare()] == ["triple"]
    assert run.react_until_satisfied().value("sum") == 25


@pytest.mark.parametrize("parallel", [1, 3, None])
def test_17_a_slow_branch_delays_its_join_alone(parallel: int | None) -> None:
    fast, seen = threading.Event(), list[set[str]]()
    slow = step(lambda x: (parallel != 3 or fast.wait(PATIENCE)) and x + 3, name="slow")
    root = step(lambda x: x, name="root")
    quick = [step(lambda x: x + 1, name="one"), step(lambda x: x + 2, name="two")]
    flow = Workflow("w", root >> [*quick, slow], [*quick, slow] >> step(lambda *xs: sum(xs), name="total"))

    def look(run: Run) -> None:
        seen.append({event.component for event in run.log() if isinstance(event, ev.ReactionOccurred)})
        if {"one", "two"} <= seen[-1]:
            fast.set()

    run = flow.run(5, parallel=parallel, checkpoint=look)

    assert run.values("total") == [21]
    assert parallel != 3 or any({"one", "two"} <= names and "slow" not in names for names in seen)


def test_18_a_join_pairs_values_of_the_same_input() -> None:
    flow = Workflow("w", [double, triple] >> step(lambda x, y: x + y, name="sum"))

    assert flow.run(10).run(1).values("sum") == [50, 5]


@ways
def test_20_joins_that_overlap_produce_once(go: Go) -> None:
    e, r_, h = (step(lambda x: x, name=name) for name in "erh")
    classify, gen = step(lambda *xs: sum(xs), name="cls"), step(lambda x: x, name="gen")
    flow = Workflow("w", e >> [r_, h], [e, r_, h] >> classify >> gen, [gen, e] >> step(lambda x, y: x + y, name="proc"))

    assert go(flow, 1).values("proc") == [4]


# -- C. Map and reduce ---------------------------------------------------------------------------


@ways
def test_23_a_map_runs_per_element_and_a_reduce_once(go: Go) -> None:
    run = go(Workflow("w", each(double) >> added), [1, 2, 3])

    assert sorted(run.values("double")) == [2, 4, 6]
    assert run.values("added") == [12]


@ways
def test_24_a_reduce_has_the_order_of_the_collection(go: Go) -> None:
    letters = step(lambda _: ["a", "b", "c", "d"], name="letters")
    listed = reduce(lambda so_far, x: [*so_far, x], init=list, name="listed")

    assert go(Workflow("w", letters >> each(step(lambda x: x, name="same")) >> listed), 0).output == [
        "a",
        "b",
        "c",
        "d",
    ]


def test_25_a_reducer_can_stop() -> None:
    halting = reduce(lambda so_far, x: Stop(x) if x >= 3 else x, init=0, name="halting")
    small = reduce(lambda so_far, x: Stop(so_far) if x > 6 else [*so_far, x], init=list, name="small")

    assert Workflow("w", halting).run([1, 2, 3, 4, 5]).output == 3
    assert Workflow("w", added).run([1, 2, 3, 4]).output == 10
    assert Workflow("w", each(double) >> small).run(range(6)).output == [0, 2, 4, 6]


def test_26_a_reduce_without_a_map_folds_the_collection() -> None:
    run = Workflow("w", step(lambda _: [1, 2, 3], name="made") >> added).run(0)

    assert produced(run) == [[1, 2, 3], 6]


def test_27_a_reduce_takes_the_branch_it_is_attached_to() -> None:
    one, p2 = step(lambda x: x + 1, name="one"), step(lambda x: x + 2, name="p2")
    flow = Workflow("w", each(one) >> [step(lambda x: x + 4, name="p4"), p2]).add(added, to="p2")

    assert flow.run(range(4)).value("added") == 18


def test_29_nothing_is_reduced_to_the_beginning_and_a_number_is_not_a_collection() -> None:
    flow = Workflow("w", each(double) >> added)

    assert flow.run([]).values("added") == [0]
    run = flow.run(5)
    assert isinstance(next(iter(run.failures.values())).__cause__, NotACollection)
    assert not run.is_runnable


def test_31_an_element_that_fails_keeps_its_reduce_from_firing() -> None:
    flow = Workflow("w", each(step(lambda x: x if x != 2 else failing(x), name="s")) >> added)

    run = flow.run([1, 2, 3])

    assert (run.values("s"), run.values("added"), list(run.failures), run.is_runnable) == (
        [1, 3],
        [],
        ["s", "added"],
        False,
    )


def test_32_a_reducer_reads_context() -> None:
    weighted = reduce(lambda so_far, x, by=context("weight"): so_far + x * by, init=0, name="weighted")

    assert (
        Workflow("w", each(step(lambda x: x, name="same")) >> weighted).run([1, 2, 3], context={"weight": 10}).output
        == 60
    )


def test_33_parts_of_a_batch_that_were_advanced_apart_are_merged_and_reduced_once() -> None:
    mine = Workflow("w", each(double) >> added).plan([1, 2, 3], id="r")
    mine.react()
    others = [Run.from_log(mine.log()) for _ in range(3)]
    for number, run in enumerate(others):
        run.apply(run.prepare()[number].execute())

    for run in others:
        mine.merge(run)

    assert mine.react_until_satisfied().values("added") == [12]
    assert not mine.is_runnable


# -- D. Rules and conditions ---------------------------------------------------------------------

ham = condition(lambda x: x > 10, name="ham")


def fires(flow: Workflow, *values: Any) -> list[bool]:
    return [bool(flow.run(value).values("r")) for value in values]


def test_35_a_rule_fires_where_its_condition_holds() -> None:
    flow = Workflow("w", rule(when=lambda v: 0 < v < 100 or v == 999, then=lambda v: ("ok", v), name="r"))

    assert fires(flow, 50, 999, 500) == [True, True, False]


def test_36_a_pattern_binds_what_the_rule_asks_for() -> None:
    discount = rule(
        given={"status": "pending", "total": int},
        when=lambda total: total > 100,
        then=lambda total, status: ("discounted", status, 0.9 * total),
        name="r",
    )
    flow = Workflow("w", discount)

    assert flow.run({"status": "pending", "total": 150}).output == ("discounted", "pending", 135.0)
    others = [{"status": "confirmed", "total": 150}, {"status": "pending", "total": 50}, "no mapping"]
    assert fires(flow, *others) == [False] * 3
    assert not any(flow.run(other).failed for other in others)


def test_37_a_rule_needs_a_reaction_and_nothing_else() -> None:
    assert Workflow("w", rule(then=lambda x: x, name="r")).run("anything").output == "anything"
    assert Workflow("w", rule(given={"x": int}, then=lambda x: ("got_x", x), name="r")).run({"x": 42}).output == (
        "got_x",
        42,
    )
    with pytest.raises(InvalidFragment, match=r"rule\(when=...\) has no reaction yet"):
        Workflow("w", rule(when=lambda x: True, name="r"))


def test_38_a_rule_asks_a_condition_and_its_own_function() -> None:
    flow = Workflow("w", rule(when=ham & condition(lambda x: x >= 2, name="two"), then=lambda x: x, name="r"))
    always = condition(lambda x: True, name="always")
    strict = Workflow("w", rule(when=always & condition(lambda x: x > 100, name="many"), then=lambda x: x, name="r"))

    assert (fires(flow, 15, 5), fires(strict, 5)) == ([True, False], [False])


def test_39_conditions_are_alternatives() -> None:
    negative, two = condition(lambda x: x < 0, name="negative"), condition(lambda x: x >= 2, name="two")
    vip = condition(lambda x: x == 1, name="vip")

    assert fires(Workflow("w", rule(when=ham | negative, then=lambda x: x, name="r")), 15, -5, 5) == [True, True, False]
    assert fires(Workflow("w", rule(when=(ham & two) | vip, then=lambda x: x, name="r")), 15, 1, 5) == [
        True,
        True,
        False,
    ]


def test_40_a_condition_that_rules_share_is_asked_once() -> None:
    asked: list[int] = []
    shared = condition(lambda x: bool(asked.append(x)) or x > 10, name="shared")
    two, low = condition(lambda x: x >= 2, name="two"), condition(lambda x: x < 100, name="low")
    flow = Workflow(
        "w",
        rule(when=shared & two, then=lambda x: x, name="rule1"),
        rule(when=shared & low, then=lambda x: x, name="rule2"),
    )

    assert flow.run(15).results() == {"rule1": 15, "rule2": 15}
    assert asked == [15]


def test_41_a_rule_fires_once_though_both_sides_hold() -> None:
    five = condition(lambda x: x > 5, name="five")

    assert Workflow("w", rule(when=ham | five, then=lambda x: x, name="r")).run(15).values("r") == [15]


def test_43_a_rule_of_two_parameters_says_how_they_are_found() -> None:
    big = rule(given=(int, int), when=lambda a, b: a > 1 and b > 1, then=lambda a, b: (a, b), name="r")
    flow = Workflow("w", big)

    assert [flow.run(value).values("r") for value in ([2, 3], [1, 3], 2)] == [[(2, 3)], [], []]


def test_44_a_rule_that_names_what_is_not_there_is_refused_until_it_is() -> None:
    counter = accumulator(lambda state, x: state + x, init=0, name="counter")
    reading = rule(when=lambda x, n=state_of("counter"): n > 5, then=lambda x: x, name="r")
    with pytest.raises(UnknownReference, match=r"'r' refers to state_of 'counter', which is not there; add it first"):
        Workflow("w", reading)

    assert Workflow("w", counter).add(reading).run(10).value("r") == 10


# -- H. Log and replay ---------------------------------------------------------------------------


def saga() -> Saga:
    trip = Saga("trip")

    @trip.transaction(compensate=None)
    def book(request: Any, results: Any) -> Any:
        return "seat"

    return trip


def account() -> Aggregate:
    made = Aggregate("account", init=0)
    made.command("add")(lambda state, command: ("added", 1))
    made.event("added")(lambda state, by: state + by)
    return made


def process() -> ProcessManager:
    made = ProcessManager("process", init=0, complete=lambda state: state > 5)
    made.on("add")(lambda state, event: (state + 1, [("ship", state)]))
    return made


FLOWS: dict[str, tuple[Callable[[], Workflow], Any]] = {
    "step": (lambda: Workflow("w", double), 5),
    "pipeline": (lambda: Workflow("w", double >> triple), 5),
    "gated": (lambda: Workflow("w", ham >> double), 15),
    "accumulator": (lambda: Workflow("w", accumulator(lambda s, x: s + x, init=0, name="acc")), 5),
    "map": (lambda: Workflow("w", each(double) >> added), [1, 2, 3]),
    "join": (lambda: Workflow("w", [a, b] >> pair), 5),
    "fsm": (lambda: Workflow("w", FSM("door", initial="shut", states={"shut": {"add": "open"}, "open": {}})), "add"),
    "aggregate": (lambda: Workflow("w", account()), "add"),
    "saga": (lambda: Workflow("w", saga()), "add"),
    "process": (lambda: Workflow("w", process()), "add"),
    "loop": (lambda: Workflow("w", repeat(double, until=lambda x: x > 30, at_most=9)), 1),
}


def states(run: Run) -> dict[str, Any]:
    kept = [name for name, component in run.workflow.components.items() if component.keeps_state]
    return {name: run.state_of(name) for name in kept}


@pytest.mark.parametrize("flow", FLOWS)
def test_79_81_a_run_that_is_rebuilt_at_any_event_is_the_same_and_goes_on_the_same(flow: str) -> None:
    make, value = FLOWS[flow]
    workflow = make()
    whole = workflow.run(value)
    for length in range(1, len(whole.log()) + 1):
        part = Run.from_log(whole.log()[:length])
        if part.memory.received == 0:
            continue
        stored = Run.from_log(decode(encode(part.log()), workflow=workflow))

        assert stored == part
        assert [r.component for r in stored.prepare()] == [r.component for r in part.prepare()]
        stored.react_until_satisfied()
        assert (stored.results(), states(stored)) == (whole.results(), states(whole))
        again, once = stored.run(value), workflow.run(value).run(value)
        assert (again.results(), states(again)) == (once.results(), states(once))


def test_80_a_run_that_stopped_in_between_finishes_as_if_it_had_not() -> None:
    run = Workflow("w", double >> triple).plan(5)
    run.react()

    restored = Run.from_log(run.log())

    [pending] = restored.prepare()
    assert (pending.component, pending.args) == ("triple", (10,))
    assert restored.react_until_satisfied().results() == run.react_until_satisfied().results() == {"triple": 30}


def test_82_name_policies_ports_and_removals_are_rebuilt() -> None:
    flow = Workflow(
        "named",
        double >> triple,
        policies=[("double", Policy(max_retries=3))],
        inputs={"double": int},
        outputs={"double": int},
    ).remove("triple")

    restored = Run.from_log(decode(encode(flow.plan(1).log()), workflow=flow)).workflow

    assert (restored.name, list(restored.components)) == ("named", ["double"])
    assert restored.policy_for("double").max_retries == 3
    assert (restored.inputs, restored.outputs) == (flow.inputs, flow.outputs)


@pytest.mark.parametrize(
    ("recorded", "open_"),
    [("d1 d2 c1", {2}), ("d1 c1", set()), ("d1 f1", set()), ("", set()), ("d1 d1 c1", set())],
)
def test_86_what_was_dispatched_and_has_not_ended_is_known(recorded: str, open_: set[int]) -> None:
    first = step(failing if "f" in recorded else lambda x: x, name="one")
    run = Workflow("w", first, step(lambda x: x, name="two")).plan(1)
    by_number = dict(zip("12", run.prepare(), strict=True))
    for kind, number in recorded.split():
        runnable = by_number[number]
        if kind == "d":
            run.record_dispatch(runnable)
        else:
            run.apply(runnable.execute())

    found = {number for number, ready in by_number.items() if ready.key in (run.memory.dispatched or {})}
    assert found == {str(number) for number in open_}
    assert Run.from_log(run.log()) == run
