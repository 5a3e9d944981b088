"""Causes and effects, as a sequence diagram."""

from __future__ import annotations

import re
from textwrap import dedent

from sketches import aborted_run, batch, failed_run, one, opened_run, spent_run, two

from weft import Policy, Run, Workflow, join, rule, sleep, step, wait_for
from weft.core.diagrams.sequence import INPUTS


def sequence(run: Run) -> str:
    return run.to_mermaid(kind="sequence")


def test_facts_go_from_what_made_them_to_what_took_them() -> None:
    run = Workflow("w", step(lambda x: x + 1, name="a") >> step(lambda x: x * 2, name="b")).run(1)

    assert sequence(run) == dedent("""\
        sequenceDiagram
          participant INPUT as input
          participant a as a
          participant b as b
          INPUT->>a: 1
          a->>b: 2
        """)


def test_what_was_joined_comes_from_each_of_its_parents() -> None:
    lines = sequence(Workflow("w", [one("a"), one("b")] >> two("c")).run(1)).splitlines()

    assert lines[-2:] == ["  a->>c: 1", "  b->>c: 1"]


def test_elements_of_a_map_are_one_arrow() -> None:
    lines = sequence(batch().run([1, 2, 3])).splitlines()

    assert "  map_1->>price: 3 times" in lines
    assert "  rounded->>total: 3 times" in lines


def test_a_failure_ends_in_a_cross() -> None:
    assert "  map_1-xprice: ✗ ValueError: nothing can be had for no…" in sequence(failed_run())


def test_a_skip_ends_in_a_cross() -> None:
    workflow = Workflow("w", step(lambda x: 1 // 0, name="a")).add_policy("a", Policy(on_failure="skip"))

    assert "INPUT-xa: ↷" in sequence(workflow.run(1))


def test_a_rule_that_does_not_fire_says_no_and_one_that_fires_says_what_it_took() -> None:
    large = rule(when=lambda x: x > 1, then=lambda x: -x, name="large")

    run = Workflow("w", large).run(1)
    run.run(2)

    assert sequence(run).splitlines()[3:] == [
        "  Note over INPUT: input 1",
        "  INPUT->>large: ⊘ no",
        "  Note over INPUT: input 2",
        "  INPUT->>large: 2",
    ]


def test_a_read_is_a_broken_line() -> None:
    assert "  spent-->>over_budget: reads 7" in sequence(spent_run())


def test_a_state_is_not_a_cause_of_itself() -> None:
    assert "spent-->>spent" not in sequence(spent_run())


def test_what_a_join_did_not_get_is_told_too() -> None:
    fails = step(lambda x: 1 // 0, name="fails")

    run = Workflow("w", join(fails, one("works"), wait="all_done") >> two("tidy")).run(5)

    assert "fails->>tidy: Absent(" in sequence(run)


def test_of_many_inputs_the_latest_are_shown() -> None:
    run = Workflow("w", one("a")).run(0)
    for value in range(1, INPUTS + 5):
        run.run(value)

    lines = sequence(run).splitlines()

    assert lines[3] == "  Note over INPUT: 5 earlier inputs are not shown"
    assert lines[4:6] == ["  Note over INPUT: input 6", "  INPUT->>a: 5"]
    assert sum("->>" in line for line in lines) == INPUTS


def test_a_run_without_input_has_no_arrows() -> None:
    run = Run(Workflow("w", one("a")))

    assert sequence(run) == "sequenceDiagram\n  participant INPUT as input\n"


def test_what_was_removed_meanwhile_is_still_a_cause() -> None:
    run = Workflow("w", one("a") >> one("b")).run(1)

    run.remove("b")

    assert "  a->>b: 1" in sequence(run)


def test_the_parts_of_a_component_take_part_by_themselves_and_what_is_carried_along_is_left_out() -> None:
    lines = sequence(aborted_run()).splitlines()

    names = dict(line.strip().removeprefix("participant ").split(" as ") for line in lines if "participant" in line)
    arrows = [re.fullmatch(r"  (\w+?)(->>|-x)(\w+): .*", line) for line in lines]
    assert [(names[found[1]], found[2], names[found[3]]) for found in arrows if found] == [
        ("input", "->>", "ask"),
        ("ask", "->>", "trip.flight"),
        ("trip.flight", "->>", "trip.hotel"),
        ("trip.hotel", "-x", "trip.pay"),
        ("trip.pay", "->>", "trip.hotel.undo"),
        ("trip.hotel.undo", "->>", "trip.flight.undo"),
        ("trip.flight.undo", "->>", "trip"),
        ("trip.flight.undo", "->>", "trip.on_abort"),
        ("trip", "->>", "tell"),
    ]


def test_an_action_comes_of_the_machine_and_not_of_the_event_again() -> None:
    lines = [line.strip() for line in sequence(opened_run()).splitlines() if "->>" in line]

    assert lines == [
        "INPUT->>door: ⊘ no",
        "INPUT->>door: ('unlock', 1234)",
        "door->>tell: 'open'",
        "door->>n2: 'open'",
    ]


def test_signals_come_from_outside_and_timers_from_nowhere() -> None:
    run = Workflow("w", sleep(5, name="nap") >> wait_for("paid", timeout=60)).plan(1)

    run.fire_timers(100.0).fire_timers(105.0).signal("paid", 20, by="Ada")

    assert sequence(run).splitlines()[1:] == [
        "  participant INPUT as input",
        "  participant nap as nap",
        "  participant paid as paid",
        "  participant n3 as signals",
        "  INPUT->>nap: 1",
        "  nap->>paid: 1",
        "  n3->>paid: paid: 20",
    ]
