"""CONFORMANCE E, F and J, case by case: what components that keep state, readers and definitions must do."""

from __future__ import annotations

from typing import Any

import pytest

from weft import (
    FSM,
    Aggregate,
    ProcessManager,
    Run,
    Saga,
    Workflow,
    accumulator,
    all_values,
    context,
    fact_count,
    latest,
    rule,
    state_machine,
    state_of,
    step,
    step_ran,
)
from weft.errors import InvalidComponent, PortMismatch

total = accumulator(lambda state, x: state + x, init=0, name="total")


def fed(workflow: Workflow, *inputs: Any) -> Run:
    run = workflow.plan()
    for value in inputs:
        run.run(value)
    return run


# -- E. State ------------------------------------------------------------------------------------


def test_45_states_follow_each_other_and_equal_inputs_both_count() -> None:
    assert fed(Workflow("w", total)).state_of("total") == 0
    assert fed(Workflow("w", total), 1, 2, 3).values("total") == [1, 3, 6]
    assert fed(Workflow("w", total), 1, 1).state_of("total") == 2


def test_46_inputs_that_are_planned_together_are_all_folded() -> None:
    run = Workflow("w", total).plan(1).plan(10)

    assert run.react_until_satisfied().state_of("total") == 11
    as_function = Workflow("w", total).plan()
    for value in range(1, 6):
        as_function.plan(value)
    assert as_function.react_until_satisfied().state_of("total") == 15


def test_48_a_lock_opens_for_its_code_alone() -> None:
    def turn(lock: dict[str, str], event: tuple[str, str]) -> dict[str, str]:
        return {**lock, "state": "unlocked"} if event == ("unlock", lock["code"]) else lock

    flow = Workflow("w", state_machine("lock", init={"code": "secret", "state": "locked"}, reducer=turn))

    assert flow.run(("unlock", "secret")).state_of("lock")["state"] == "unlocked"
    assert flow.run(("unlock", "guess")).state_of("lock")["state"] == "locked"


def test_49_reactors_fire_when_the_new_state_satisfies_them() -> None:
    reactors = {"big": (lambda s: s > 10, lambda s: ("big", s)), "any": lambda s: ("any", s)}
    machine = state_machine("m", init=0, reducer=lambda s, x: s + x, reactors=reactors)

    run = fed(Workflow("w", machine), 5, 7)

    assert (run.values("m.any"), run.values("m.big")) == ([("any", 5), ("any", 12)], [("big", 12)])


def test_50_events_lead_from_state_to_state_or_nowhere() -> None:
    states = {"red": {"timer": "green"}, "green": {"timer": "yellow", "stay": "green"}, "yellow": {"timer": "red"}}
    flow = Workflow("w", FSM("light", initial="red", states=states))

    assert fed(flow, *["timer"] * 4).values("light") == ["green", "yellow", "red", "green"]
    assert fed(flow, "timer", "nonsense", ("stay", 1)).values("light") == ["green", "green"]
    assert fed(flow, "stay").values("light") == []


def test_51_an_entry_action_runs_on_entry_alone() -> None:
    states = {"idle": {"start": "running"}, "running": {}}
    entry = {"running": lambda: "entered", "idle": lambda: "never"}
    run = fed(Workflow("w", FSM("job", initial="idle", states=states, on_entry=entry)), "start", "start", "other")

    assert (run.values("job.running.entry"), run.values("job.idle.entry")) == (["entered"], [])


def test_53_what_is_not_declared_is_a_build_error() -> None:
    with pytest.raises(InvalidComponent, match="initial state"):
        FSM("f", initial="blue", states={"red": {}})
    with pytest.raises(InvalidComponent, match="blue"):
        FSM("f", initial="red", states={"red": {"timer": "blue"}})
    saga = Saga("s")
    saga.transaction(_transaction)
    with pytest.raises(InvalidComponent, match="compensat"):
        Workflow("w", saga)


def _transaction(request: Any, results: dict[str, Any]) -> Any:
    return request


@pytest.mark.parametrize(
    ("init", "commands", "events", "state"),
    [
        (5, ["dec"], [("decreased", 1)], 4),
        (0, ["dec"], [], 0),
        (0, ["inc"] * 3, None, 3),
        (0, ["inc", "dec", "dec"], None, 0),
    ],
)
def test_54_an_aggregate_rejects_what_its_guard_refuses(
    init: int, commands: list[str], events: list[Any] | None, state: int
) -> None:
    counter = Aggregate("counter", init=init)
    counter.command("inc")(lambda s, command: ("increased", 1))
    counter.command("dec", when=lambda s, command: s > 0)(lambda s, command: ("decreased", 1))
    counter.event("increased")(lambda s, by: s + by)
    counter.event("decreased")(lambda s, by: s - by)

    run = fed(Workflow("w", counter), *commands)

    assert run.state_of("counter") == state
    assert events is None or run.values("counter") == events


def saga(*deeds: tuple[str, bool]) -> tuple[Workflow, list[str]]:
    """A saga of transactions that succeed or not, and what it has undone."""
    undone: list[str] = []
    made = Saga("saga", on_complete=lambda outcome: "complete", on_abort=lambda outcome: "abort")
    for name, succeeds in deeds:

        def do(request: Any, results: dict[str, Any], name: str = name, succeeds: bool = succeeds) -> str:
            if not succeeds:
                raise ValueError("boom")
            return name

        def undo(request: Any, results: dict[str, Any], name: str = name) -> None:
            undone.append(name)

        do.__name__, undo.__name__ = name, f"undo_{name}"
        made.transaction(do).compensate(undo)
    return Workflow("w", made), undone


def test_56_a_saga_that_completes_says_so_once() -> None:
    flow, undone = saga(("a", True), ("b", True))

    assert flow.plan().state_of("saga").status == "pending"
    run = flow.run(1)
    assert (run.state_of("saga").status, run.state_of("saga").results) == ("completed", {"a": "a", "b": "b"})
    assert (run.values("saga.on_complete"), run.values("saga.on_abort"), undone) == (["complete"], [], [])


def test_57_a_saga_that_aborts_undoes_what_was_done() -> None:
    flow, undone = saga(("a", True), ("b", False))

    outcome = (run := flow.run(1)).state_of("saga")

    assert (outcome.status, outcome.failed_step, outcome.compensated) == ("aborted", "b", ["a"])
    assert "boom" in outcome.error
    assert (run.values("saga.on_abort"), undone) == (["abort"], ["a"])


def test_58_compensation_goes_backwards_whatever_the_names() -> None:
    flow, undone = saga(("alpha", True), ("zeta", True), ("third", False))

    flow.run(1)

    assert undone == ["zeta", "alpha"]


def test_60_a_process_completes_once() -> None:
    process = ProcessManager(
        "p", init={"a": False, "b": False}, complete=lambda s: s["a"] and s["b"], on_complete=lambda s: "done"
    )
    process.on("ea")(lambda s, event: ({**s, "a": True}, ["got_a"]))
    process.on("eb")(lambda s, event: ({**s, "b": True}, []))
    flow = Workflow("w", process)

    assert fed(flow, "zz").state_of("p") == {"a": False, "b": False}
    run = fed(flow, "ea", "eb", "zz", "ea")
    assert (run.values("p"), run.values("p.on_complete"), run.is_complete("p")) == (["got_a"], ["done"], True)


def test_61_a_command_uses_the_event_and_the_state() -> None:
    process = ProcessManager("p", init="charge")
    process.on("order")(lambda state, event: (state, [(state, event[1])]))

    assert Workflow("w", process).run(("order", 7)).values("p") == [("charge", 7)]


# -- F. Readers and context ----------------------------------------------------------------------


def test_62_a_rule_reads_the_state_after_the_same_input() -> None:
    above = rule(when=lambda x, s=state_of("total"): s > 5, then=lambda x: ("above", x), name="above")

    assert fed(Workflow("w", total, above), 10, 1).values("above") == [("above", 10), ("above", 1)]


def test_63_a_rule_reads_a_path_of_a_state() -> None:
    config = accumulator(lambda s, x: x if isinstance(x, dict) else s, init=dict, name="config")
    matched = rule(when=lambda x, c=state_of("config"): c.get("mode") == "enabled", then=lambda x: x, name="matched")

    assert fed(Workflow("w", config, matched), "early", {"mode": "enabled"}, "ready").values("matched") == [
        {"mode": "enabled"},
        "ready",
    ]


def test_64_what_has_made_nothing_reads_as_nothing() -> None:
    silent = rule(when=lambda x: False, then=lambda x: x, name="silent")

    def look(
        x: int,
        count: int = fact_count("silent"),
        last: Any = latest("silent"),
        every: Any = all_values("silent"),
        ran: bool = step_ran("silent"),
    ) -> tuple[Any, ...]:
        return count, last, every, ran

    assert Workflow("w", silent, step(look)).run(1).value("look") == (0, None, [], False)


def test_65_a_rule_knows_that_a_step_ran() -> None:
    after = rule(when=lambda x, ran=step_ran("a"): ran, then=lambda x: x, name="after")

    assert fed(Workflow("w", step(lambda x: x, name="a"), after), 1, 2).values("after") == [1, 2]


def test_68_context_is_for_one_component_then_for_all_then_a_default() -> None:
    asked: list[str] = []

    def default() -> str:
        asked.append("default")
        return "default"

    flow = Workflow("w", step(lambda x, k=context("k", default=default): k, name="a"))

    assert flow.run(1, context={"k": "all", "a.k": "one"}).value("a") == "one"
    assert flow.run(1, context={"k": "all"}).value("a") == "all"
    assert asked == []
    assert (flow.run(1).value("a"), asked) == ("default", ["default"])


# -- J. Identity and composition -----------------------------------------------------------------


def scaled(by: int, name: str = "scale") -> Workflow:
    return Workflow("w", step(lambda x, by: x * by, name=name).bind(by=by))


def test_100a_identity_is_definition_and_bound_values() -> None:
    assert scaled(2).hash == scaled(2).hash
    assert len({scaled(2).hash, scaled(3).hash, scaled(2, "other").hash}) == 3


def test_100b_hooks_run_around_the_work_and_are_a_part_of_the_attempt() -> None:
    called: list[str] = []

    def told(name: str) -> Any:
        return lambda *given: called.append(name)

    work = step(lambda x: called.append("work") or x, name="work")
    hooked = work.before(told("before1"), told("before2")).after(told("after1"), told("after2"))
    assert Workflow("w", hooked).run(1).output == 1
    assert called == ["before1", "before2", "work", "after1", "after2"]

    failed = Workflow("w", work.after(lambda current, value: 1 / 0)).run(1)
    assert isinstance(failed.failures["work"].__cause__, ZeroDivisionError)

    more = step(lambda x: ("more", x), name="more")
    grown = Workflow("w", work.after(lambda current, value: current.add(more, to="work"))).run(1)
    assert grown.results() == {"more": ("more", 1)}


def test_100c_ports_that_cannot_fit_are_refused_unless_told_otherwise() -> None:
    def words(text: str) -> list[str]:
        return text.split()

    def size(numbers: list[int]) -> int:
        return len(numbers)

    with pytest.raises(PortMismatch):
        Workflow("w", step(words) >> step(size))
    with pytest.warns(UserWarning, match="'words' produces"):
        Workflow("w", step(words) >> step(size), validate="warn")
    assert Workflow("w", step(words) >> step(size), validate="off").run("a b").output == 2


def test_100d_results_by_port_are_the_latest_or_all_in_order() -> None:
    run = fed(Workflow("w", step(lambda x: x, name="a"), rule(when=lambda x: False, then=lambda x: x, name="b")), 1, 2)

    assert (run.results("a"), run.results("a", all=True)) == ({"a": 2}, {"a": [1, 2]})
    assert (run.results("b"), run.results("b", all=True)) == ({"b": None}, {"b": []})


def test_100e_removing_a_step_joins_what_was_around_it() -> None:
    one, double, less = (
        step(lambda x: x + 1, name="one"),
        step(lambda x: x * 2, name="double"),
        step(lambda x: x - 1, name="less"),
    )
    flow = Workflow("w", one >> double >> less)

    run = flow.remove("double").run(5)

    assert (run.value("one"), run.value("less")) == (6, 5)
    assert flow.remove("unknown") is flow


def test_100f_divergent_advances_are_united() -> None:
    flow = Workflow("w", [step(lambda x: x + 1, name="a"), step(lambda x: x + 2, name="b")] >> step(max, name="c"))
    mine = flow.plan(1, id="r")
    other = Run.from_log(mine.log())
    for run, name in ((mine, "a"), (other, "b")):
        [runnable] = [ready for ready in run.prepare() if ready.component == name]
        run.apply(runnable.execute())

    mine.merge(other)

    assert mine.react_until_satisfied().results() == {"c": 3}
    whole = mine.log()
    mine.merge(mine)
    assert mine.log() == whole


def test_100g_a_run_can_begin_again_without_facts() -> None:
    used = fed(Workflow("w", total), 1, 2)

    fresh = used.workflow.plan()

    assert (fresh.values("total"), fresh.state_of("total"), fresh.workflow) == ([], 0, used.workflow)
