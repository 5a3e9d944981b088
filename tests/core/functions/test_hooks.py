"""Functions around a component: their order, what they see, what they may do, and what happens when they fail."""

from __future__ import annotations

from typing import Any

import pytest

from weft import FSM, Aggregate, Current, ProcessManager, Saga, Workflow, accumulator, condition, current, each, step
from weft.errors import InvalidComponent, WrongArity
from weft.policy import Policy


def test_hooks_run_in_the_order_they_are_written_around_the_work() -> None:
    """CONFORMANCE J100b."""
    told: list[str] = []
    work = (
        step(lambda x: told.append("work"), name="work")
        .before(lambda call: told.append("before1"), lambda call: told.append("before2"))
        .after(lambda call, value: told.append("after1"))
        .after(lambda call, value: told.append("after2"))
    )

    Workflow("w", work).run(1)

    assert told == ["before1", "before2", "work", "after1", "after2"]


def test_a_hook_sees_the_call_and_the_value() -> None:
    seen: list[Any] = []

    def note(call: Current, value: int) -> None:
        seen.append(
            (call.component, call.inputs, call.attempt, value, call.idempotency_key == current().idempotency_key)
        )

    Workflow("w", step(lambda x: x + 1, name="next").after(note)).run(1)

    assert seen == [("next", (1,), 1, 2, True)]


@pytest.mark.parametrize("parallel", [None, 3])
def test_a_failing_hook_is_a_failing_attempt_and_runs_at_every_one(parallel: int | None) -> None:
    attempts: list[int] = []

    def fails_at_first(call: Current) -> None:
        attempts.append(call.attempt)
        if call.attempt < 3:
            raise RuntimeError("not yet")

    workflow = Workflow("w", step(lambda x: x, name="work").before(fails_at_first))

    run = workflow.run(1, parallel=parallel, policies=[("work", Policy(max_retries=5))])

    assert attempts == [1, 2, 3]
    assert run.value("work") == 1


def test_a_hook_that_fails_for_good_fails_the_component() -> None:
    def refuses(call: Current, value: object) -> None:
        raise PermissionError("no")

    run = Workflow("w", step(lambda x: x, name="work").after(refuses)).run(1)

    assert isinstance(run.failures["work"].__cause__, PermissionError)
    assert run.values("work") == []


@pytest.mark.parametrize("parallel", [None, 3])
def test_a_hook_may_add_a_step_that_then_runs(parallel: int | None) -> None:
    """CONFORMANCE J100b: what is added gets the value that is about to be made."""
    extra = step(lambda x: x * 100, name="extra")
    work = step(lambda x: x + 1, name="work").after(lambda call, value: call.add(extra, to="work"))

    run = Workflow("w", work).run(1, parallel=parallel)

    assert run.results() == {"extra": 200}
    assert run.run(2, parallel=parallel).values("extra") == [200, 300]


def test_a_component_may_add_to_its_own_run() -> None:
    def grow(x: int) -> int:
        current().add(step(lambda y: y * 100, name="extra"), to="grow")
        return x

    assert Workflow("w", step(grow)).run(1).results() == {"extra": 100}


@pytest.mark.parametrize("parallel", [None, 3])
def test_an_attempt_that_fails_adds_nothing(parallel: int | None) -> None:
    def grow(x: int) -> int:
        current().add(step(lambda y: y, name=f"extra_{current().attempt}"), to="grow")
        if current().attempt == 1:
            raise RuntimeError("not yet")
        return x

    run = Workflow("w", step(grow)).run(1, parallel=parallel, policies=[("grow", Policy(max_retries=1))])

    assert list(run.workflow.components) == ["grow", "extra_2"]


def test_an_addition_that_makes_no_sense_fails_the_component() -> None:
    work = step(lambda x: x, name="work").after(
        lambda call, value: call.add(step(lambda a, b: a, name="two"), to="work")
    )

    run = Workflow("w", work).run(1)

    assert isinstance(run.failures["work"].__cause__, WrongArity)
    assert list(run.workflow.components) == ["work"]


def test_conditions_states_and_maps_have_hooks_too() -> None:
    told: list[str] = []

    def note(call: Current) -> None:
        told.append(call.component)

    gate = condition(lambda x: True, name="gate").before(note)
    state = accumulator(lambda so_far, x: so_far + x, init=0, name="state").before(note)
    element = step(lambda x: x, name="element").before(note)

    Workflow("w", gate >> state).run(1)
    Workflow("m", each(element, name="all").before(note)).run([1, 2])

    assert told == ["gate", "state", "all", "element", "element"]


def test_a_coroutine_function_may_have_hooks_of_both_kinds() -> None:
    told: list[str] = []

    async def waits(call: Current) -> None:
        told.append("waits")

    async def work(x: int) -> int:
        return x + 1

    run = Workflow("w", step(work).before(waits, lambda call: told.append("plain"))).run(1)

    assert run.value("work") == 2
    assert told == ["waits", "plain"]


def test_a_hook_that_could_not_be_awaited_is_refused() -> None:
    async def waits(call: Current) -> None: ...

    with pytest.raises(InvalidComponent, match="coroutine function"):
        Workflow("w", step(lambda x: x, name="work").before(waits)).run(1)


def test_a_hook_that_does_not_take_what_it_is_given_is_refused_when_it_is_written() -> None:
    with pytest.raises(InvalidComponent, match="the call and the value"):
        step(lambda x: x, name="work").after(lambda call: None)  # type: ignore[arg-type, misc]


def test_hooks_are_not_part_of_the_identity() -> None:
    work = step(lambda x: x, name="work")

    assert Workflow("w", work).hash == Workflow("w", work.before(print)).hash


# -- compounds -----------------------------------------------------------------------------------


def test_after_an_aggregate_come_its_events() -> None:
    told: list[Any] = []
    stock = Aggregate("stock", init=0)
    stock.command("fill")(lambda left, command: [("filled", 2), ("checked", 0)])
    stock.command("look")(lambda left, command: None)
    stock.event("filled")(lambda left, count: left + count)
    stock.event("checked")(lambda left, _: left)

    Workflow("w", stock.after(lambda call, events: told.append(events))).run("fill").run("look")

    assert told == [[("filled", 2), ("checked", 0)]]


def test_after_a_state_machine_comes_its_state() -> None:
    told: list[Any] = []
    door = FSM("door", initial="closed", states={"closed": {"open": "ajar"}, "ajar": {}})

    Workflow("w", door.after(lambda call, state: told.append(state))).run("kick").run("open")

    assert told == ["ajar"]


def test_after_a_process_manager_come_its_commands() -> None:
    told: list[Any] = []
    order = ProcessManager("order", init=0)
    order.on("paid")(lambda count, event: (count + 1, ["ship"]))
    order.on("seen")(lambda count, event: (count, []))

    Workflow("w", order.after(lambda call, commands: told.append(commands))).run("paid").run("seen").run("lost")

    assert told == [["ship"], []]


def test_hooks_of_a_saga_run_before_its_first_transaction_and_after_its_outcome() -> None:
    told: list[Any] = []
    trip = Saga("trip")
    trip.transaction(lambda request, results: told.append("book"), name="book", compensate=None)
    trip.transaction(lambda request, results: told.append("pay"), name="pay", compensate=None)
    hooked = trip.before(lambda call: told.append(call.inputs)).after(lambda call, end: told.append(end.status))

    Workflow("w", hooked).run("Rome")

    assert told == [("Rome",), "book", "pay", "completed"]


def test_a_saga_may_wait_before_a_transaction_that_waits() -> None:
    told: list[str] = []

    async def book(request: object, results: object) -> None:
        told.append("book")

    async def waits(call: Current) -> None:
        told.append("before")

    trip = Saga("trip")
    trip.transaction(book, compensate=None)

    Workflow("w", trip.before(waits)).run("Rome")

    assert told == ["before", "book"]
