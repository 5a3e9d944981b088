"""Components of several functions in another process: what was packed there and back again decides as here."""

from __future__ import annotations

from typing import Any

import pytest

from weft import FSM, Aggregate, ProcessManager, Run, Saga, Transition, Workflow, step
from weft.errors import DescribedError
from weft.executors.transfer import pack, pack_outcome, unpack, unpack_outcome


def is_large(event: Any) -> bool:
    return event[1] > 1


def entered(event: Any) -> str:
    return f"entered with {event[1]}"


door = FSM(
    "door",
    initial="shut",
    states={"shut": {"push": Transition("open", when=is_large)}, "open": {}},
    on_entry={"open": entered},
)

account = Aggregate("account", init=int)


@account.command("push")
def push(balance: int, command: Any) -> Any:
    return ("pushed", command[1])


@account.event("pushed")
def pushed(balance: int, amount: int) -> int:
    return balance + amount


def whose(event: Any) -> int:
    return event[1] % 2


manager = ProcessManager("manager", init=int, key=whose)


@manager.on("push")
def on_push(state: int, event: Any) -> Any:
    return state + 1, [event[1], state]


trip = Saga("trip")


@trip.transaction
def first(request: Any, results: dict[str, Any]) -> int:
    return request[1]


@first.compensate
def undo_first(request: Any, results: dict[str, Any]) -> str:
    return f"undone {results['first']}"


@trip.transaction(compensate=None)
def second(request: Any, results: dict[str, Any]) -> Any:
    raise ValueError(results["first"])


def elsewhere(run: Run) -> Run:
    """Take *run* to its end with every runnable packed, and its outcome packed on the way back."""
    while runnables := run.prepare():
        there = unpack(pack(1, runnables[0]), lambda: None)
        run.apply(unpack_outcome(runnables[0], pack_outcome(1, there.execute())))
    return run


@pytest.mark.parametrize("component", [door, account, manager, trip], ids=lambda component: component.name)
def test_what_runs_in_another_process_comes_to_the_same(component: Any) -> None:
    workflow = Workflow("w", component)
    here, there = workflow.plan(), workflow.plan()

    for value in (("push", 1), ("push", 2), ("push", 3), "other"):
        here.run(value)
        elsewhere(there.plan(value))

    assert there.state_of(component) == here.state_of(component)
    assert there.values() == here.values()
    assert there.values() != []


class Nasty(Exception):
    """Cannot say what notes it has."""

    @property
    def __notes__(self) -> list[str]:
        raise RuntimeError("notes are broken")


def test_an_exception_that_cannot_be_read_in_full_is_described_on_the_way_back() -> None:
    def fail(_: int) -> None:
        raise Nasty("the message")

    run = Workflow("w", step(fail)).plan(1)
    [runnable] = run.prepare()

    outcome = unpack_outcome(runnable, pack_outcome(1, runnable.execute()))

    assert isinstance(outcome.error, DescribedError)
    assert (outcome.error.kind.rpartition(".")[2], outcome.error.message) == ("Nasty", "the message")
