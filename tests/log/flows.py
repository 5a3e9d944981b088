"""Workflows of every kind of component, defined as an application would: at the top of a module."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import operator
from dataclasses import dataclass
from typing import Annotated

import msgspec

from weft import (
    FSM,
    INPUT,
    Aggregate,
    Policy,
    ProcessManager,
    Saga,
    Transition,
    Workflow,
    accumulator,
    all_values,
    capture,
    collect,
    condition,
    context,
    each,
    fact_count,
    group_by,
    join,
    latest,
    reduce,
    repeat,
    rule,
    sleep,
    state_machine,
    state_of,
    step,
    step_ran,
    wait_for,
    workflow,
)
from weft.core.components.rule import Rule
from weft.core.components.step import Step
from weft.core.run.runnable import Runnable
from weft.log import register
from weft.policy import DEFAULT, CircuitBreaker, kind, matching, tag


class Kind(enum.Enum):
    """The kind of an order."""

    SMALL = 1
    LARGE = 2


@dataclass(frozen=True)
class Order:
    """An order."""

    amount: int
    kind: Kind = Kind.SMALL


@step
def order(amount: int) -> Order:
    """Make an order."""
    return Order(amount, Kind.LARGE if amount > 10 else Kind.SMALL)


@step
def price(of: Order, rate: int = 2) -> int:
    """Price an order."""
    return of.amount * rate


@step
async def later(x: int) -> int:
    """Take time."""
    return x


double = step(lambda x: x * 2, name="double")
is_even = condition(lambda x: x % 2 == 0, name="is_even")
is_large = condition(lambda x: x > 10, name="is_large")


@rule(when=is_even & ~is_large)
def small_even(x: int) -> int:
    """React to a small even number."""
    return x


halved = rule(when=lambda x: x > 1, then=lambda x: x // 2, name="halved")


@accumulator(init=dict)
def seen(state: dict[str, int], x: int) -> dict[str, int]:
    """Count what was seen."""
    return {**state, str(x): state.get(str(x), 0) + 1}


@accumulator(init=Order(0))
def largest(state: Order, x: int) -> Order:
    """Keep the largest."""
    return max(state, Order(x), key=lambda held: held.amount)


@step
def report(x: int, counts: dict[str, int] = state_of("seen"), limit: int = context("limit", default=5)) -> int:
    """Read another component."""
    return x + len(counts) + limit


@step
def readings(
    x: int,
    last: int | None = latest("double", default=(1, 2)),
    every: list[int] = all_values("double"),
    ran: bool = step_ran("double"),
    count: int = fact_count("double"),
) -> tuple[object, ...]:
    """Read all there is."""
    return (x, last, tuple(every), ran, count)


def pair(a: int, b: int) -> tuple[int, int]:
    """Make a pair."""
    return (a, b)


def scaled(factor: int, x: int) -> int:
    """Scale."""
    return factor * x


class Service:
    """Has methods."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def shift(self, x: int) -> int:
        """Shift."""
        return x + self.offset

    @classmethod
    def named(cls, x: int) -> str:
        """Name."""
        return f"{cls.__name__}-{x}"

    @staticmethod
    def plain(x: int) -> int:
        """Return it."""
        return x

    def __call__(self, x: int) -> int:
        return x * self.offset


service = Service(3)


def give_up(runnable: Runnable, error: BaseException) -> object:
    """Fall back."""
    return error


def is_fetch(target: object) -> bool:
    """Match."""
    return str(target).startswith("fetch")


inner = Workflow("inner", order >> price, double)


@register
class Lamp(enum.Enum):
    OFF = "off"
    ON = "on"


def keep(state: int, given: object) -> tuple[str, int]:
    return ("kept", state + 1)


def add(state: int, amount: int) -> int:
    return state + amount


def answer(state: int, event: object) -> tuple[int, list[object]]:
    return state + 1, [event]


def deed(request: int, results: dict[str, object]) -> int:
    return request + len(results)


def undeed(request: int, results: dict[str, object]) -> None: ...


light = FSM(
    "light",
    initial="red",
    states={"red": {"go": Transition("green", when=bool, do=str), "stop": "red"}, "green": {}},
    on_entry={"green": str},
    final=["green"],
)
lamp = FSM("lamp", initial=Lamp.OFF, states={Lamp.OFF: {int: Lamp.ON}, Lamp.ON: {int: Lamp.OFF}})
level = state_machine("level", init=0, reducer=add, reactors={"high": (bool, str), "any": str})
keeper = Aggregate("keeper", init=0)
keeper.command(int, when=max)(keep)
keeper.command("keep")(keep)
keeper.event("kept")(add)
manager = ProcessManager("manager", init=0, key=str, complete=bool, on_complete=str)
manager.on(int)(answer)
manager.on("asked")(answer)
undertaking = Saga("undertaking", on_complete=str, on_abort=str)
undertaking.transaction(deed, name="first", compensate=undeed)
undertaking.transaction(deed, name="second", compensate=None)


grow = repeat(
    double.tagged("twice") >> step(scaled, name="by").bind(factor=3),
    until=is_large,
    at_most=9,
    otherwise="last",
    name="grow",
)


@workflow
def summary(x: int) -> dict[object, object]:
    """Return values in structures of every kind."""
    twice = double(x)
    return {"twice": twice, 1: (grow(twice), [order(x), level(x)])}


@workflow
def sum_of(x: int, y: int) -> int:
    """Return the sum of two inputs."""
    return step(operator.add, name="sum")(x, y)


@workflow
def sum_of_both(x: int) -> int:
    """Feed each input of a workflow with another value."""
    return sum_of(double(x), order(x))


def discounted(whole: object, amount: int) -> tuple[object, int]:
    """React to an order."""
    return whole, amount


patterns = [
    rule(given=Order, when=is_large, then=discounted, name="of_class"),
    rule(given={"kind": Kind.LARGE, "amount": int | None, 5: (capture("whole"), "x")}, then=discounted, name="entries"),
    rule(given=("order", int, Kind), when=pair, then=pair, name="items"),
    rule(given=4, then=str, name="equals"),
]


def no_time(x: int) -> float:
    """Say for how long to sleep."""
    return x * 0.0


def long_ago(x: int) -> dt.datetime:
    """Say until when to sleep."""
    return dt.datetime(1970, 1, x, tzinfo=dt.UTC)


def is_first(orders: list[Order] | None, waiting: int) -> bool:
    """Say whether *orders* are for what waits."""
    return orders is not None and orders[0].amount == waiting


of_orders = wait_for("orders", timeout=60, match=is_first, schema=list[Order] | None, name="of_orders")
limited = wait_for("limited", schema=Annotated[dict[str, tuple[int, ...]], msgspec.Meta(min_length=1)])

WORKFLOWS: dict[str, tuple[Workflow, object]] = {
    "pipeline": (Workflow("pipeline", order >> price >> double), 12),
    "async": (Workflow("async", later >> double), 3),
    "conditions": (Workflow("conditions", is_even >> double, small_even, halved), 4),
    "patterns": (Workflow("patterns", *patterns), 4),
    "named_condition": (Workflow("named", (is_even | is_large).named("either") >> double), 4),
    "join": (Workflow("join", [double, INPUT] >> step(pair)), 4),
    "race": (Workflow("race", join(double, later, wait="any") >> step(operator.neg, name="first")), 4),
    "all_done": (Workflow("done", join(is_large >> double, later, wait="all_done") >> step(pair)), 4),
    "map": (Workflow("map", each(double >> halved) >> reduce(operator.add, init=0, name="sum")), [1, 2, 3]),
    "collect": (Workflow("collect", each(double) >> collect(), double >> group_by(is_large)), [1, 2, 30]),
    "nested_map": (
        Workflow("maps", each(each(double) >> reduce(operator.add, init=0, name="row")) >> reduce(max, init=0)),
        [[1, 2], [3]],
    ),
    "state": (Workflow("state", seen, largest, report, double, readings), 4),
    "fsm": (Workflow("fsm", light, lamp), 4),
    "state_machine": (Workflow("machine", level), 4),
    "aggregate": (Workflow("aggregate", keeper), 4),
    "process_manager": (Workflow("manager", manager), 4),
    "saga": (Workflow("saga", undertaking), 4),
    "repeat": (Workflow("repeat", double >> grow), 4),
    "sleep": (Workflow("sleep", sleep(no_time) >> sleep(seconds=0) >> sleep(until=long_ago) >> sleep(until=1.5)), 4),
    "wait_for": (Workflow("wait", wait_for("approved") >> double, of_orders, double.on_error(then=limited)), 4),
    "traced": (summary, 4),
    "traced_in_traced": (sum_of_both, 4),
    "nested": (Workflow("outer", inner >> step(pair)), 4),
    "bound": (Workflow("bound", order >> price.bind(rate=5)), 4),
    "spread": (Workflow("spread", step(pair, spread=True)), [1, 2]),
    "callables": (
        Workflow(
            "callables",
            step(functools.partial(scaled, 3), name="partial"),
            step(service.shift, name="method"),
            step(Service.named, name="class_method"),
            step(Service.plain, name="static_method"),
            step(service, name="instance"),
            step(str, name="builtin"),
            step(Order, name="class"),
        ),
        4,
    ),
    "tagged": (Workflow("tagged", double.tagged("db", "slow")), 4),
    "policies": (
        Workflow("policies", double).with_policies(
            [
                ("fetch", Policy(max_retries=3, backoff="jitter", retryable=(OSError, KeyError))),
                (matching("^llm_"), Policy.llm(metadata={"team": ("a", 1)})),
                (kind(Step, Rule), Policy(circuit_breaker=CircuitBreaker("api"))),
                (tag("db"), Policy(on_failure="fallback", fallback=give_up)),
                (is_fetch, Policy(timeout=5.0)),
                (DEFAULT, Policy(priority=2)),
            ]
        ),
        4,
    ),
}
"""A workflow and an input for it, by what is special about it."""
