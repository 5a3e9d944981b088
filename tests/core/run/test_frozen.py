"""A run as it was, while it goes on."""

from __future__ import annotations

import copy
import inspect
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from weft import Policy, ProcessManager, Run, Saga, Workflow, accumulator, condition, each, latest, reduce, step
from weft.core.run.frozen import INSTEAD
from weft.errors import AlreadyRunning, RunFrozen

double = step(lambda x: x * 2, name="double")
total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")
collected = reduce(lambda so_far, x: [*so_far, x], init=list, name="collected")
left, right = step(lambda x: x + 1, name="left"), step(lambda x: x * 10, name="right")
both = step(lambda a, b: (a, b), name="both")
pair = Workflow("pair", [left, right] >> both)


def half_way(workflow: Workflow, value: Any, *, steps: int = 1) -> Run:
    """Return a run in which *steps* runnables have ended and others have not."""
    run = workflow.plan(value)
    for _ in range(steps):
        run.apply(run.prepare()[0].execute())
    return run


def test_it_knows_what_the_run_knew_and_nothing_of_what_came_after() -> None:
    run = Workflow("w", double >> total).run(1)

    still = run.frozen_copy()
    run.run(2)

    assert (still.values("double"), still.state_of("total")) == ([2], 2)
    assert (run.values("double"), run.state_of("total")) == ([2, 4], 6)
    assert Run.from_log(still.log()) == still


def test_it_answers_every_question() -> None:
    run = Workflow("w", each(double) >> collected).run([1, 2])

    still = run.frozen_copy()

    assert still.results() == run.results()
    assert str(still.explain("collected")) == str(run.explain("collected"))
    assert still.status == "idle"


def test_it_knows_states_by_key() -> None:
    order = ProcessManager("order", init=int, key=lambda event: event["id"])

    @order.on("paid")
    def paid(count: int, event: dict[str, object]) -> tuple[int, list[object]]:
        return count + 1, []

    run = Workflow("w", order).run({"event": "paid", "id": 7})
    still = run.frozen_copy()
    run.run({"event": "paid", "id": 7})

    assert (still.state_of("order"), run.state_of("order")) == ({7: 1}, {7: 2})
    assert still.workflow is run.workflow


def test_it_cannot_be_driven() -> None:
    still = Workflow("w", double).plan(1).frozen_copy()

    with pytest.raises(RunFrozen):
        still.react_until_satisfied()


# -- nothing is shared that changes ---------------------------------------------------------------


def damage_a_join(still: Run) -> None:
    [other] = still.prepare()
    still.apply(other.execute())


def damage_by_input(still: Run) -> None:
    still.plan(100)


def damage_by_running(still: Run) -> None:
    still.run(100)


def damage_by_adding(still: Run) -> None:
    still.add(step(lambda x: x, name="more"), to="both")


@pytest.mark.parametrize("damage", [damage_a_join, damage_by_input, damage_by_running, damage_by_adding])
def test_nothing_that_is_done_to_it_reaches_the_run(damage: Callable[[Run], None]) -> None:
    run = half_way(pair, 1)
    still, log = run.frozen_copy(), run.log()

    with pytest.raises(RunFrozen):
        damage(still)

    assert (run.log(), still.log()) == (log, log)
    assert run.react_until_satisfied().value("both") == (2, 10)


def test_a_batch_that_it_shows_is_the_runs_own() -> None:
    run = half_way(Workflow("w", each(double) >> collected), [1, 2, 3], steps=2)
    still = run.frozen_copy()

    for runnable in still.prepare():
        with pytest.raises(RunFrozen):
            still.apply(runnable.execute())

    assert run.react_until_satisfied().value("collected") == [2, 4, 6]


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_everything_that_would_change_it_is_refused(name: str) -> None:
    still = half_way(pair, 1).frozen_copy()
    [runnable], [activation] = still.prepare(), still.memory.ready.values()
    outcome = runnable.execute()
    given: dict[str, tuple[Any, ...]] = {
        "add": (double,),
        "apply": (outcome,),
        "arun": (1,),
        "extend": ([],),
        "fail": (activation, ValueError(), 1, 0),
        "merge": (half_way(pair, 1),),
        "plan": (1,),
        "plan_eagerly": (1,),
        "record": ([],),
        "record_dispatch": (runnable,),
        "remove": ("both",),
        "run": (1,),
        "set_policies": ([],),
        "apply_outcome": (activation, outcome),
        "under": ([("left", Policy(max_retries=1))],),
    }
    before = still.log()

    with pytest.raises(RunFrozen, match=rf"{name}\(\).*{still.id}.*Run\.from_log"):
        getattr(still, name)(*given.get(name, ()))

    assert still.log() == before


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("plan", "runner.send('a', value)"),
        ("run", "runner.send('a', value)"),
        ("set_policies", "runner.set_policies('a', rules)"),
        ("under", "runner.set_policies('a', rules, mode=\"merge\")"),
        ("retry", "runner.retry('a', ...)"),
        ("discard", "runner.discard('a', ...)"),
        ("react", "runner.wait('a')"),
        ("add", "runner.add('a', ...)"),
        ("remove", "runner.remove('a', component)"),
        ("finish", "runner.finish('a')"),
        ("cancel", "runner.cancel('a')"),
        ("send", "runner.send('a', value)"),
        ("stop", "runner.stop('a')"),
    ],
)
def test_the_refusal_names_the_call_to_use_instead(name: str, instead: str) -> None:
    still = Run(pair, id="a").frozen_copy()

    with pytest.raises(RunFrozen) as refused:
        getattr(still, name)()

    assert instead in str(refused.value)


def test_every_method_of_a_run_either_reads_or_is_refused_when_it_is_frozen() -> None:
    reads = {
        *("check_context", "explain", "fact", "facts", "failure_of", "fork", "from_log", "from_memory", "frozen_copy"),
        *("hash_of", "is_complete", "lineage", "load", "log", "nothing_produced", "pending_runnables", "picture"),
        *("explain_policy", "prepare", "preview"),
        *("productions", "results", "runnable"),
        *("state_of", "to_cytoscape", "to_dot", "to_edgelist", "to_mermaid", "to_svg", "value", "values"),
        "where",
    }
    methods = {name for name, _ in inspect.getmembers(Run, inspect.isroutine) if not name.startswith("_")}

    assert methods - reads == set(INSTEAD)


def test_a_copy_of_it_that_can_be_changed_is_made_of_its_log() -> None:
    run = half_way(pair, 1)

    own = Run.from_log(run.frozen_copy().log())

    assert own.react_until_satisfied().value("both") == (2, 10)
    assert run.values("both") == []


def test_it_shows_joins_and_what_is_ready_as_they_were() -> None:
    run = half_way(pair, 1)
    still, drawn = run.frozen_copy(), run.to_mermaid()

    run.react_until_satisfied()

    assert still.to_mermaid() == drawn != run.to_mermaid()
    assert [runnable.component for runnable in still.prepare()] == ["right"]
    assert (still.status, still.is_runnable, run.status) == ("running", True, "idle")


def test_it_is_as_it_was_after_its_run_was_changed() -> None:
    run = half_way(pair, 1)
    still = run.frozen_copy()
    before = (still.to_mermaid(), [runnable.key for runnable in still.prepare()])

    run.add(step(lambda x: x, name="more"), to="left").run(5)

    assert (still.to_mermaid(), [runnable.key for runnable in still.prepare()]) == before
    assert "more" not in still.workflow.components


def test_its_letters_are_those_that_lay_dead() -> None:
    attempts: list[int] = []

    def fragile(x: int) -> int:
        attempts.append(x)
        if len(attempts) == 1:
            raise ValueError(x)
        return x

    flow = Workflow("w", step(fragile, name="fragile"))
    run = flow.with_policies([("fragile", Policy(on_failure="dead_letter"))]).run(1)
    still = run.frozen_copy()
    run.retry().react_until_satisfied()

    assert [letter.component for letter in still.dead_letters] == ["fragile"]
    assert (still.failed, run.failed, run.dead_letters) == (True, False, [])
    with pytest.raises(RunFrozen):
        still.retry()
    with pytest.raises(RunFrozen):
        still.discard()


def test_it_prepares_with_the_deadline_and_the_context_of_its_run() -> None:
    from weft import context

    def limited(x: int, limit: int = context("limit")) -> int:
        return x + limit

    run = Run(Workflow("w", step(limited, name="limited")), context={"limit": 3}).plan(1, deadline=60.0)
    [own], [shown] = run.prepare(), run.frozen_copy().prepare()

    assert (shown.deadline, shown.kwargs) == (own.deadline, own.kwargs)
    assert shown.execute().result == 4
    assert shown.idempotency_key == own.idempotency_key


def test_a_reader_that_is_ready_reads_what_it_would_have_read() -> None:
    def reads(x: int, doubled: int = latest("double")) -> tuple[int, int]:
        return x, doubled

    flow = Workflow("w", double, step(reads, name="reads"))
    run = flow.run(1).plan(2)
    run.apply(run.prepare()[0].execute())
    still = run.frozen_copy()
    run.react_until_satisfied().run(50)

    [runnable] = still.prepare()

    assert runnable.execute().result == (2, 4)


def test_a_saga_that_it_shows_is_where_it_was() -> None:
    trip = Saga("trip")
    trip.transaction(lambda request, results: "booked", name="flight", compensate=lambda request, results: None)
    trip.transaction(lambda request, results: "booked", name="hotel", compensate=lambda request, results: None)
    run = half_way(Workflow("w", trip), 1)
    still = run.frozen_copy()
    before = str(still.state_of("trip")), still.is_complete("trip")

    run.react_until_satisfied()

    assert (str(still.state_of("trip")), still.is_complete("trip")) == before
    assert run.is_complete("trip")


def test_a_gate_that_waits_is_shown_as_waiting() -> None:
    positive = condition(lambda x: x > 0, name="positive")
    even = condition(lambda x: x % 2 == 0, name="even")
    flow = Workflow("w", (positive & even) >> double)
    run = half_way(flow, 2)
    still, drawn = run.frozen_copy(), run.to_mermaid()

    run.react_until_satisfied()

    assert still.to_mermaid() == drawn


def test_it_can_be_frozen_again_copied_and_compared() -> None:
    run = half_way(pair, 1)
    still = run.frozen_copy()
    run.react_until_satisfied()

    assert still.frozen_copy() == still == copy.copy(still) == Run.from_log(still.log())
    assert still != run
    assert still.frozen_copy().log() == still.log()


def test_what_it_keeps_of_the_log_is_written_as_a_plain_list() -> None:
    run = Workflow("w", double).run(1)
    still = run.frozen_copy()
    run.run(2)

    assert copy.copy(still.memory.log) == still.log()


def test_it_is_merged_into_another_run_like_any_other() -> None:
    run = half_way(pair, 1)
    elsewhere = Run.from_log(run.log()).react_until_satisfied()
    still = elsewhere.frozen_copy()
    elsewhere.run(2)

    assert run.merge(still).values("both") == [(2, 10)]


def test_predicates_see_a_run_that_refuses_to_be_changed_and_stays_as_it_was() -> None:
    run = half_way(pair, 1)
    seen: list[Run] = []

    def holds(view: Run) -> bool:
        seen.append(view)
        with pytest.raises(RunFrozen):
            view.plan(100)
        return bool(view.values("left"))

    found = run.where(holds)
    nothing = run.where(lambda view: seen.append(view) is not None)
    run.react_until_satisfied()

    assert found is seen[0]
    assert nothing is None
    assert [view.values("both") for view in seen] == [[], []]
    assert [view.status for view in seen] == ["running", "running"]


def test_a_predicate_that_raises_leaves_the_run_as_it_was() -> None:
    run = half_way(pair, 1)

    def breaks(view: Run) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run.where(breaks)
    assert run.react_until_satisfied().value("both") == (2, 10)


# -- what it costs ---------------------------------------------------------------------------------


def taken(run: Run) -> int:
    """Return how many bytes freezing *run* takes at its worst moment; other threads may take some meanwhile."""
    return min(_taken_once(run) for _ in range(3))


def _taken_once(run: Run) -> int:
    run.frozen_copy()
    tracemalloc.start()
    try:
        kept = run.frozen_copy()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        del kept


@pytest.mark.parametrize(
    "workflow",
    [
        Workflow("stateless", double),
        Workflow("stateful", double >> total),
        Workflow("map", step(lambda x: [x, x], name="twice") >> each(double) >> collected),
    ],
    ids=str,
)
def test_freezing_costs_the_same_after_a_long_history_as_after_a_short_one(workflow: Workflow) -> None:
    short, long = Run(workflow), Run(workflow)
    for at in range(20):
        short.run(at, key=f"k{at}")
    for at in range(2_000):
        long.run(at, key=f"k{at}")
    for run in (short, long):
        run.plan(1).react()

    assert taken(long) <= taken(short) + 64


def test_freezing_does_not_grow_with_the_keys_that_have_a_state() -> None:
    order = ProcessManager("order", init=int, key=lambda event: event["id"])

    @order.on("paid")
    def paid(count: int, event: dict[str, object]) -> tuple[int, list[object]]:
        return count + 1, []

    few, many = Run(Workflow("w", order)), Run(Workflow("w", order))
    for at in range(10):
        few.run({"event": "paid", "id": at})
    for at in range(1_000):
        many.run({"event": "paid", "id": at})

    assert taken(many) <= taken(few) + 64


def test_a_run_that_is_driven_is_still_refused_as_running_already() -> None:
    run: Run

    def again(x: int) -> int:
        run.react_until_satisfied()
        return x

    run = Workflow("w", step(again, name="again")).plan(1)
    run.react_until_satisfied()

    assert isinstance(run.failures["again"].__cause__, AlreadyRunning)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("status", "runner.finish('a') or runner.cancel('a')"),
        ("policies", "runner.set_policies('a', rules)"),
        ("workflow", "runner.upgrade('a', workflow)"),
        ("context", "runner.resume('a', context=...)"),
        ("anything", "runner.send('a', value)"),
    ],
)
def test_setting_an_attribute_is_refused_with_the_call_to_use_instead(name: str, instead: str) -> None:
    still = Run(pair, id="a").frozen_copy()

    with pytest.raises(RunFrozen, match=f"setting {name} would change run 'a'") as refused:
        setattr(still, name, {})

    assert instead in str(refused.value)
