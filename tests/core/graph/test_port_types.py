"""Typed ports: edges are checked by the annotations of both ends, and results are asked for by port."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from weft import (
    FSM,
    INPUT,
    Aggregate,
    ProcessManager,
    Saga,
    Transition,
    Workflow,
    accumulator,
    condition,
    each,
    join,
    reduce,
    repeat,
    rule,
    state_machine,
    step,
    workflow,
)
from weft.core.components.reduce import Stop
from weft.core.components.saga_outcome import SagaOutcome
from weft.errors import DefinitionError, PortMismatch, UnknownComponent


@step
def size(text: str) -> int:
    return len(text)


@step
def shout(text: str) -> str:
    return text.upper()


@step
def split(text: str) -> list[str]:
    return text.split()


@step
def double(x: int) -> int:
    return x * 2


@step
def both(text: str, x: int) -> str:
    return text * x


@condition
def is_long(text: str) -> bool:
    return len(text) > 3


untyped = step(lambda x: x, name="untyped")


@accumulator(init=0)
def total(so_far: int, x: int) -> int:
    return so_far + x


@reduce(init=0)
def summed(acc: int, x: int) -> int | Stop:
    return acc + x


FITTING = {
    "any to any": lambda: untyped >> step(lambda x: x, name="other"),
    "any to a type": lambda: untyped >> size,
    "a type to any": lambda: size >> untyped,
    "equal": lambda: shout >> size,
    "a join by parameter": lambda: [shout, size] >> both,
    "the input beside a value": lambda: [INPUT, size] >> both,
    "elements": lambda: split >> each(size) >> summed,
    "a collection": lambda: step(lambda x: [1], name="list") >> summed,
    "through a condition": lambda: shout >> is_long >> size,
    "a condition with a type of its own": lambda: untyped >> is_long >> double,
    "a state": lambda: size >> total >> double,
    "a fold that may stop": lambda: split >> each(size) >> summed >> double,
    "a race": lambda: join(shout, step(lambda x: x, name="other"), wait="any") >> size,
    "what may be absent": lambda: join(shout, size, wait="all_done") >> both,
}

MISMATCHES: dict[str, tuple[Callable[[], Any], str]] = {
    "a step": (lambda: size >> shout, "'size' produces int, and 'shout' takes str as 'text'"),
    "the second of a join": (
        lambda: [shout, split] >> both,
        r"'split' produces list\[str\], and 'both' takes int as 'x'",
    ),
    "elements": (lambda: split >> each(double), "an element of 'map_1' produces str, and 'double' takes int"),
    "no collection": (lambda: size >> each(untyped), "'size' produces int, and 'map_1', an each.*a list"),
    "text is no collection": (lambda: shout >> each(untyped), "'shout' produces str, and 'map_1'"),
    "elements of a reduce": (lambda: split >> each(shout) >> summed, "'shout' produces str, and 'summed' takes int"),
    "a collection": (lambda: split >> summed, "'split' produces str, and 'summed' takes int"),
    "no collection to reduce": (lambda: size >> summed, "'size' produces int, and 'summed', a reduce"),
    "through a condition": (lambda: shout >> is_long >> double, "'is_long' produces str, and 'double' takes int"),
    "into a condition": (lambda: size >> is_long, "'size' produces int, and 'is_long' takes str"),
    "a state": (lambda: shout >> total, "'shout' produces str, and 'total' takes int as 'x'"),
    "out of a state": (lambda: total >> shout, "'total' produces int"),
    "a reaction": (lambda: size >> rule(then=lambda x: x, when=_wants_text, name="r"), "'r.when' takes str"),
    "a race": (lambda: join(shout, size, wait="any") >> both.bind(x=1), "'size' produces int, and 'both' takes str"),
    "an error route": (lambda: size.on_error(then=double), "the error route of 'size' produces Failure, and 'double'"),
    "one of several ways": (lambda: [shout >> untyped, size >> shout.named("again")], "'size' produces int"),
}


def _wants_text(text: str) -> bool:
    return bool(text)


@pytest.mark.parametrize("case", FITTING)
def test_what_may_fit_is_accepted(case: str) -> None:
    Workflow("w", FITTING[case]())


@pytest.mark.parametrize("case", MISMATCHES)
def test_what_can_never_fit_is_refused_where_the_edge_is_drawn(case: str) -> None:
    fragment, said = MISMATCHES[case]

    with pytest.raises(PortMismatch, match=said) as caught:
        Workflow("w", fragment())

    assert "put a step between" in str(caught.value)


def test_a_mismatch_can_be_a_warning_or_nothing() -> None:
    with pytest.warns(UserWarning, match="'size' produces int, and 'shout' takes str"):
        Workflow("w", size >> shout, validate="warn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Workflow("w", size >> shout, validate="off")


def test_another_word_than_these_three_is_refused() -> None:
    with pytest.raises(DefinitionError, match="'error', 'warn' and 'off'"):
        Workflow("w", size, validate="loud")  # type: ignore[arg-type]


def test_what_is_added_is_checked_and_the_choice_is_kept() -> None:
    with pytest.raises(PortMismatch, match="'size' produces int"):
        Workflow("w", size).add(shout, to=size)

    relaxed = Workflow("w", size, validate="off")

    assert "shout" in relaxed.add(shout, to=size)
    assert "shout" in relaxed.renamed("v").add(shout, to=size)


def test_removing_what_converts_is_refused_too() -> None:
    convert = step(lambda x: str(x), name="convert")  # noqa: PLW0108
    flow = Workflow("w", size >> convert >> shout)

    with pytest.raises(PortMismatch, match="'size' produces int, and 'shout' takes str"):
        flow.remove(convert)


def test_a_traced_workflow_is_checked_too() -> None:
    with pytest.raises(PortMismatch, match="'size' produces int"):
        workflow(lambda text: shout(size(text)), name="flow")

    assert "shout" in workflow(lambda text: shout(size(text)), name="flow", validate="off")


def test_a_nested_workflow_is_checked_at_its_ends() -> None:
    inner = Workflow("inner", shout >> size)

    with pytest.raises(PortMismatch, match=r"'inner.size' produces int, and 'shout' takes str"):
        Workflow("w", inner >> shout)
    with pytest.raises(PortMismatch, match=r"'double' produces int, and 'inner.shout' takes str"):
        Workflow("w", double >> inner)


# -- ports of a workflow -------------------------------------------------------------------------


def test_the_ports_of_a_workflow_are_its_ends() -> None:
    flow = Workflow("w", size >> double, split >> each(shout), [INPUT, size] >> both, total)

    assert flow.inputs == {"size": str, "split": str, "both": str, "total": int}
    assert flow.outputs == {"double": int, "shout": list[str], "both": str, "total": int}


def test_the_ports_of_a_traced_workflow_are_its_parameters_and_what_it_returns() -> None:
    @workflow
    def flow(text: str, times: int) -> Any:
        return {"loud": shout(text), "more": (double(times), size(text))}

    assert flow.inputs == {"text": str, "times": int}
    assert flow.outputs == {"loud": str, "more.double": int, "more.size": int}


# -- results by port -----------------------------------------------------------------------------


def test_results_by_port_are_the_latest_or_all_in_order() -> None:
    flow = workflow(lambda text: {"loud": shout(text), "length": size(text)}, name="flow")
    run = flow.run("a")
    run.run("bb")

    assert run.results() == {"shout": "BB", "size": 2}
    assert run.results("loud") == {"loud": "BB"}
    assert run.results("loud", "length", all=True) == {"loud": ["A", "BB"], "length": [1, 2]}
    assert run.results(size, all=True) == {"size": [1, 2]}
    assert run.results(all=True) == {"shout": ["A", "BB"], "size": [1, 2]}


def test_what_has_produced_nothing_is_none_or_empty_if_it_was_asked_for() -> None:
    flow = Workflow("w", is_long >> size, shout)
    run = flow.run("a")

    assert run.results() == {"shout": "A"}
    assert run.results("size") == {"size": None}
    assert run.results("size", "shout", all=True) == {"size": [], "shout": ["A"]}


def test_a_port_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UnknownComponent, match="nobody"):
        Workflow("w", size).run("a").results("nobody")


def test_all_results_come_by_input_and_element_whichever_finished_first(finish: Callable[[Any], Any]) -> None:
    run = Workflow("w", split >> each(shout)).plan("a b c")
    run.plan("d e")

    assert finish(run).results("shout", all=True) == {"shout": ["A", "B", "C", "D", "E"]}


# -- compound components -------------------------------------------------------------------------


@dataclass
class Deposit:
    amount: int


@dataclass
class Close:
    pass


def deposit(text: str) -> Deposit:
    return Deposit(len(text))


def test_the_reducer_of_a_state_machine_is_checked_and_its_reactors_are_not() -> None:
    def grow(state: list[int], x: int) -> list[int]:
        return [*state, x]

    def longest(state: list[int]) -> int:
        return max(state)

    machine = state_machine("seen", init=list, reducer=grow, reactors={"longest": longest})

    assert Workflow("w", size >> machine >> step(longest)).run("text").output == 4
    assert Workflow("w", machine).inputs == {"seen": int}
    with pytest.raises(PortMismatch, match="'shout' produces str, and 'seen' takes int as 'x'"):
        Workflow("w", shout >> machine)


def test_handlers_take_the_types_that_they_are_declared_for() -> None:
    account = Aggregate("account", init=0)
    events = ProcessManager("manager", init=0)

    @account.command(Deposit)
    def add(balance: int, command: Deposit) -> tuple[str, int]:
        return ("added", command.amount)

    @account.command(Close)
    def close(balance: int, command: Close) -> None:
        pass

    @account.event("added")
    def added(balance: int, amount: int) -> int:
        return balance + amount

    @events.on(Deposit)
    def on_deposit(seen: int, event: Deposit) -> tuple[int, list[str]]:
        return seen + 1, []

    @events.on(Close)
    def on_close(seen: int, event: Close) -> tuple[int, list[str]]:
        return seen, []

    machine = FSM("machine", initial="a", states={"a": {Deposit: "b", Close: Transition(do=closed)}, "b": {}})

    run = Workflow("w", step(deposit) >> [account, events, machine]).run("text")

    assert (run.state_of("account"), run.state_of("manager"), run.state_of("machine")) == (4, 1, "b")


def closed(event: Close) -> str:
    return "closed"


def test_the_request_of_a_saga_is_checked_and_its_outcome_has_a_type() -> None:
    def tell(outcome: SagaOutcome) -> str:
        return outcome.status

    def book(request: int, results: dict[str, Any]) -> str:
        return "booked"

    saga = Saga("trip", on_complete=tell)
    saga.transaction(book, compensate=None)

    assert Workflow("w", size >> saga >> step(tell)).run("text").output == "completed"
    with pytest.raises(PortMismatch, match=r"'shout' produces str, and 'trip.book' takes int as 'request'"):
        Workflow("w", shout >> saga)
    with pytest.raises(PortMismatch, match="'trip' produces SagaOutcome"):
        Workflow("w", saga >> shout)


def test_a_loop_takes_what_its_first_step_takes_and_gives_what_its_last_one_makes() -> None:
    loop = repeat(double, until=lambda x: x > 10, at_most=9, name="loop")

    assert Workflow("w", size >> loop).outputs == {"loop": int}
    with pytest.raises(PortMismatch):
        Workflow("w", shout >> loop)
    with pytest.raises(PortMismatch):
        Workflow("w", loop >> shout)


def test_a_warning_points_to_the_line_that_drew_the_edge() -> None:
    with pytest.warns(UserWarning, match="'size' produces int") as caught:
        Workflow("w", size >> shout, validate="warn")

    assert [warning.filename for warning in caught] == [__file__]


def test_values_that_a_step_takes_by_args_are_checked_too() -> None:
    @step
    def total(first: str, *others: int) -> int:
        return len(first) + sum(others)

    assert Workflow("w", [shout, size, size.named("again")] >> total).run("abc").value("total") == 9
    with pytest.raises(PortMismatch, match=r"'split' produces list\[str\], and 'total' takes int as '\*others'"):
        Workflow("w", [shout, size, split] >> total)


def test_the_input_that_a_step_takes_by_args_has_its_type() -> None:
    @step
    def total(*numbers: int) -> int:
        return sum(numbers)

    assert Workflow("w", [INPUT, double] >> total).inputs == {"double": int, "total": int}
