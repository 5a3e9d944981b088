"""Why a value is what it is: the causal tree, as data and as text."""

from __future__ import annotations

from textwrap import dedent

import pytest
from arithmetic import add_one, double, pair, root

from weft import (
    FSM,
    Policy,
    Run,
    Saga,
    Workflow,
    accumulator,
    condition,
    each,
    join,
    reduce,
    repeat,
    rule,
    state_of,
    step,
    wait_for,
)
from weft.errors import NothingProduced, UnknownComponent

diamond = Workflow("diamond", root >> [add_one, double] >> pair)


def text(run: Run, which: object) -> str:
    return str(run.explain(which))


def test_the_text_of_a_chain_leads_to_the_input() -> None:
    run = Workflow("w", add_one >> double).run(1)

    assert text(run, "double") == dedent("""\
        double = 4
        └─ add_one = 2
           └─ input 1 = 1""")


def test_the_text_tells_what_several_values_came_from_once() -> None:
    assert text(diamond.run(5), "pair") == dedent("""\
        pair = (6, 10)
        ├─ add_one = 6
        │  └─ root = 5
        │     └─ input 1 = 5
        └─ double = 10
           └─ root = 5 (see above)""")


def test_the_text_tells_which_element_of_a_collection_it_was() -> None:
    run = Workflow("w", each(double, name="all")).run([7, 8])

    assert text(run, run.facts("double")[1]) == dedent("""\
        double = 16
        └─ all[1] = 8
           └─ input 1 = [7, 8]""")


def test_the_text_tells_which_input_it_was() -> None:
    run = Workflow("w", double).run(1)
    run.run(2)

    assert text(run, "double").endswith("input 2 = 2")
    assert text(run, run.facts("double")[0]).endswith("input 1 = 1")


def test_a_condition_is_not_a_cause() -> None:
    large = rule(when=lambda x: x > 1, then=lambda x: -x, name="large")
    positive = condition(lambda x: x > 0, name="positive")

    run = Workflow("w", positive >> large).run(2)

    assert text(run, "large") == "large = -2\n└─ input 1 = 2"


def test_a_reduce_is_explained_by_its_elements() -> None:
    total = reduce(lambda acc, x: acc + x, init=0, name="total")

    run = Workflow("w", each(double, name="all") >> total).run([1, 2])

    assert text(run, "total") == dedent("""\
        total = 6
        ├─ double = 2
        │  └─ all[0] = 1
        │     └─ input 1 = [1, 2]
        └─ double = 4
           └─ all[1] = 2
              └─ input 1 = [1, 2]""")


def test_the_text_of_a_wide_fact_is_cut_and_says_so() -> None:
    total = reduce(lambda acc, x: acc + x, init=0, name="total")

    lines = text(Workflow("w", each(double) >> total).run(range(2000)), "total").splitlines()

    assert len(lines) < 50
    assert "1,992 more" in lines[-1]


def test_the_text_of_a_long_value_is_cut() -> None:
    lines = text(Workflow("w", step(lambda n: "x" * n, name="long")).run(10_000), "long").splitlines()

    assert len(lines[0]) < 100
    assert lines[0].endswith("...")


def test_a_value_that_spans_lines_stays_on_one() -> None:
    class Table:
        def __repr__(self) -> str:
            return "a\nb\nc"

    lines = text(Workflow("w", step(lambda _: Table(), name="table")).run(1), "table").splitlines()

    assert len(lines) == 2


def test_a_value_that_cannot_be_shown_is_still_explained() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    told = text(Workflow("w", step(lambda _: Shy(), name="shy")).run(1), "shy")

    assert told.startswith("shy = ")
    assert told.endswith("input 1 = 1")


def test_what_was_read_is_part_of_the_explanation() -> None:
    total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")
    so_far = state_of("total")
    run = Workflow("w", total, step(lambda x, s=so_far: x / s, name="share")).run(1)
    run.run(3)

    told = text(run, "share")

    assert told.startswith("share = 0.75")
    assert "reads total = 4" in told


def test_what_was_absent_is_part_of_the_explanation() -> None:
    broken = step(lambda x: x / 0, name="broken")

    run = Workflow("w", join(broken, double, wait="all_done") >> pair).run(1)

    assert "broken = Absent(component='broken', reason='failed')" in text(run, "pair")


# -- as data -------------------------------------------------------------------------------------


def test_the_tree_is_data() -> None:
    tree = diamond.run(5).explain("pair").root

    assert (tree.component, tree.value) == ("pair", (6, 10))
    assert [(cause.component, cause.value) for cause in tree.causes] == [("add_one", 6), ("double", 10)]
    assert [cause.causes[0].component for cause in tree.causes] == ["root", "root"]
    assert tree.causes[0].causes[0].causes[0].component is None


def test_a_shared_cause_is_one_object() -> None:
    tree = diamond.run(5).explain("pair").root

    assert tree.causes[0].causes[0] is tree.causes[1].causes[0]


def test_the_record_is_flat_and_ordered() -> None:
    run = diamond.run(5)

    record = run.explain("pair").to_dict()

    assert record["fact"] == run.fact("pair").address
    assert [fact["component"] for fact in record["facts"]] == [None, "root", "add_one", "double", "pair"]
    assert record["facts"][-1]["causes"] == [fact["address"] for fact in record["facts"][2:4]]


def test_an_explanation_is_the_same_after_a_restore() -> None:
    run = diamond.run(5)
    rebuilt = Run.from_log(run.log())

    assert text(rebuilt, "pair") == text(run, "pair")
    assert rebuilt.explain("pair").to_dict() == run.explain("pair").to_dict()


def test_a_component_a_name_and_a_fact_can_be_explained() -> None:
    run = diamond.run(5)

    assert text(run, pair) == text(run, "pair") == text(run, run.fact("pair"))


def test_an_input_explains_itself() -> None:
    run = diamond.run(5)

    assert text(run, run.facts()[0]) == "input 1 = 5"


def test_a_long_chain_is_explained_without_recursion() -> None:
    flow: object = step(lambda x: x + 1, name="s0")
    for number in range(1, 3000):
        flow = flow >> step(lambda x: x + 1, name=f"s{number}")
    run = Workflow("w", flow).run(0)

    explanation = run.explain("s2999")

    assert len(str(explanation).splitlines()) == 3001
    assert explanation.root.value == 3000


def test_what_made_nothing_cannot_be_explained() -> None:
    with pytest.raises(NothingProduced, match="'pair' has produced nothing"):
        diamond.plan(1).explain("pair")


def test_something_unknown_cannot_be_explained() -> None:
    with pytest.raises(UnknownComponent, match="no component 'nobody'"):
        diamond.run(1).explain("nobody")


# -- compound components -------------------------------------------------------------------------


def failing_trip() -> Saga:
    saga = Saga("trip")
    saga.transaction(lambda request, results: "seat", name="book", compensate=lambda request, results: "free")
    saga.transaction(lambda request, results: 1 // 0, name="pay", compensate=None)
    return saga


def test_a_loop_is_explained_turn_by_turn() -> None:
    run = Workflow("w", repeat(lambda x: x * 2, until=lambda x: x > 5, at_most=9, name="loop")).run(2)

    assert str(run.explain("loop")).splitlines() == [
        "loop = 8",
        "└─ loop.turn = 8",
        "   └─ loop.turn = 4",
        "      └─ input 1 = 2",
    ]


def test_an_outcome_is_explained_by_what_was_done_what_failed_and_what_was_undone() -> None:
    causes = Workflow("w", failing_trip()).run("Rome").explain("trip").root.causes

    assert [cause.component for cause in causes] == [None, "trip.book", "trip.pay", "trip.book.undo"]


def test_a_reaction_is_explained_by_the_state_and_what_it_was_about() -> None:
    machine = FSM("door", initial="a", states={"a": {"go": "b"}, "b": {}}, on_entry={"b": lambda: "hello"})

    assert str(Workflow("w", machine).run("go").explain("door.b.entry")).splitlines() == [
        "door.b.entry = 'hello'",
        "├─ door = 'b'",
        "│  └─ input 1 = 'go'",
        "└─ input 1 = 'go'",
    ]


def test_what_made_nothing_says_what_became_of_it() -> None:
    machine = FSM("door", initial="a", states={"a": {"go": "b"}, "b": {}})
    rescued = step(lambda x: 1 // 0, name="bad").on_error(then=step(lambda failure: 1, name="rescue"))
    loop = repeat(lambda x: x, until=lambda x: True, at_most=1, name="loop")
    left_out = Workflow("w", machine, rescued, loop, failing_trip(), step(lambda x: 1 // 0, name="skips"))
    run = left_out.add_policy("skips", Policy(on_failure="skip")).run("stay")

    def why(name: str) -> str:
        with pytest.raises(NothingProduced) as caught:
            run.value(name)
        return str(caught.value).partition(": ")[2].partition(";")[0]

    assert why("door") == "it ignored what arrived"
    assert why("bad").startswith("it failed (ZeroDivisionError: ")
    assert why("bad").endswith("), and that was handled")
    assert why("trip.pay").endswith("and that was handled")
    assert why("loop.until") == "a condition makes no values"
    assert why("skips").startswith("it was skipped")


def test_a_signal_that_came_before_the_input_stands_behind_it() -> None:
    run = Workflow("w", wait_for("paid") >> step(lambda x: x, name="last")).plan()
    run.signal("paid", 20, by="Ada").plan("order").fire_timers().react()

    assert [(fact.producer, fact.signal) for fact in run.lineage(run.fact("last"))] == [
        *((None, None), (None, "paid"), ("paid", None), ("last", None))
    ]
    assert [fact["causes"] for fact in run.explain("last").to_dict()["facts"]] == [[], [], [3, 2], [4]]
    assert run.fact("last").depth == 2
