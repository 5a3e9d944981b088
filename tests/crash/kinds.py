"""
One workflow for every kind of component, with inputs that make it do something worth interrupting.

What must come of them does not depend on the order in which things end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from weft import (
    FSM,
    INPUT,
    Aggregate,
    Policy,
    ProcessManager,
    Run,
    Saga,
    Workflow,
    accumulator,
    collect,
    condition,
    current,
    each,
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
    wait_for,
)
from weft.errors import NoRunner, WeftError
from weft.policy import DEFAULT
from weft.testing import Signal


class Kind(NamedTuple):
    """A workflow, and what it is given."""

    workflow: Workflow
    inputs: tuple[Any, ...] = (3, 4)
    retries_letters: bool = False
    """Whether the client retries dead letters once it is idle."""
    retries_failures: bool = False
    """Whether it retries failures that halted a component, with a value that does not fail."""
    signals: tuple[Signal, ...] = ()
    """The signals that the client sends."""


def increment(x: int) -> int:
    """Return one more."""
    return x + 1


async def in_its_own_time(x: int) -> int:
    """Return one more, later."""
    return x + 1


def told(x: Any, y: Any) -> str:
    """Return both as text, also what is absent."""
    return f"{x} {y}"


def told_more(x: int, y: int) -> int:
    """Return the sum, made even."""
    return x + y + 1 - (x + y) % 2


def is_far(x: int) -> bool:
    """Whether it has grown."""
    return x > 40


def refuse(x: int) -> int:
    """Fail on what is odd."""
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x


double = step(lambda x: 2 * x, name="double")
more = step(increment, name="more")
both = step(lambda x, y: (x, y), name="both")
picky = step(refuse, name="picky")
is_even = condition(lambda x: x % 2 == 0, name="is_even")
total = reduce(lambda so_far, x: so_far + x, init=0, name="total")
sums = accumulator(lambda so_far, x: so_far + x, init=0, name="sums")


def _light() -> Workflow:
    states = {"red": {"timer": "green"}, "green": {"timer": "yellow"}, "yellow": {"timer": "red"}}
    return Workflow("crossing", FSM("light", initial="red", states=states, on_entry={"green": lambda: "go"}))


def _account() -> Workflow:
    account = Aggregate("account", init=0)
    account.command("deposit")(lambda balance, command: ("deposited", command["amount"]))
    account.event("deposited")(lambda balance, amount: balance + amount)
    return Workflow("bank", account)


def _order() -> Workflow:
    order = ProcessManager("order", init=frozenset, complete=lambda seen: len(seen) == 2)
    order.on("paid")(lambda seen, event: (seen | {"paid"}, [("ship", event["order"])]))
    order.on("shipped")(lambda seen, event: (seen | {"shipped"}, []))
    return Workflow("shop", order)


def _trip() -> Workflow:
    trip = Saga("trip")

    @trip.transaction
    def book(request: int, results: dict[str, Any]) -> str:
        return f"flight {request}"

    @book.compensate
    def cancel(request: int, results: dict[str, Any]) -> str:
        return f"no {results['book']}"

    @trip.transaction(compensate=None)
    def pay(request: int, results: dict[str, Any]) -> str:
        return f"paid {refuse(request)}"

    return Workflow("travel", trip)


def _policy(**given: Any) -> Workflow:
    return Workflow("w", more >> picky).with_policies([(DEFAULT, Policy(**given))])


FALLIBLE = Workflow("w", picky.on_error(ValueError, then=step(lambda failure: failure.message, name="handle")))
LEVELS = state_machine(
    "level",
    init=0,
    reducer=lambda state, x: state + x,
    reactors={"high": (lambda state: state > 6, lambda state: "high")},
)

CHILD = Workflow("child", step(increment) >> step(in_its_own_time))


async def delegate(x: int) -> int:
    """Return what a child makes of *x*; in memory, where there are none, what its workflow does."""
    try:
        child = await current().astart_child(CHILD, x)
    except NoRunner:
        return int((await CHILD.arun(x)).output)
    return int(await child.result())


KINDS: dict[str, Kind] = {
    "step": Kind(Workflow("w", more >> double)),
    "async step": Kind(Workflow("w", step(in_its_own_time) >> double)),
    "condition": Kind(Workflow("w", is_even >> double)),
    "rule": Kind(Workflow("w", rule(when=lambda x: x > 3, then=lambda x: -x, name="large") >> double)),
    "join of all": Kind(Workflow("w", [more, double] >> both)),
    "join of any": Kind(Workflow("w", join(more, more.named("twin"), wait="any") >> double)),
    "join of two": Kind(Workflow("w", join(more, more.named("b"), more.named("c"), wait=2) >> both)),
    "join of all that are done": Kind(Workflow("w", join(more, picky, wait="all_done") >> step(told))),
    "map": Kind(Workflow("w", each(more >> double)), ([1, 2, 3], [4])),
    "reduce": Kind(Workflow("w", each(more) >> total), ([1, 2, 3], [])),
    "accumulator": Kind(Workflow("w", sums)),
    "reader": Kind(
        Workflow("w", sums, more >> step(lambda x, s=state_of("sums"), m=latest("more"): (x, s, m), name="read")),
        (3,),
    ),
    "error route": Kind(FALLIBLE),
    "dead letter": Kind(_policy(on_failure="dead_letter"), retries_letters=True),
    "skipped": Kind(_policy(on_failure="skip")),
    "retried": Kind(_policy(max_retries=2, base_delay=0.1)),
    "durable": Kind(_policy(max_retries=1, execution_mode="durable", base_delay=0.1)),
    "nested": Kind(Workflow("w", [INPUT, Workflow("inner", more >> double)] >> both)),
    "loop": Kind(Workflow("w", repeat(lambda x: x // 2, until=lambda x: x < 10, at_most=8, name="halve")), (100,)),
    "loop over a graph": Kind(
        Workflow("w", repeat(more >> [double, picky] >> step(told_more), until=is_far, at_most=4, name="far")), (3, 4)
    ),
    "state machine": Kind(Workflow("w", LEVELS)),
    "FSM": Kind(_light(), ("timer", "timer")),
    "aggregate": Kind(_account(), ({"command": "deposit", "amount": 5}, {"command": "deposit", "amount": 5})),
    "process manager": Kind(_order(), ({"event": "paid", "order": 7}, {"event": "shipped", "order": 7})),
    "child": Kind(Workflow("w", step(delegate) >> double)),
    "saga": Kind(_trip(), (3,)),
    "saga that completes": Kind(_trip(), (4,)),
    "collect": Kind(Workflow("w", each(more) >> collect(name="whole")), ([1, 2, 3], [])),
    "group_by": Kind(Workflow("w", each(more) >> group_by(lambda x: x % 2, name="parity")), ([1, 2, 3], [])),
    "sleep": Kind(Workflow("w", more >> sleep(0.01) >> double)),
    "wait for signals": Kind(
        Workflow("w", more >> wait_for("go", match=lambda said, x: said == 10 * x) >> double),
        signals=(Signal("go", 50), Signal("go", 40)),
    ),
    "wait that times out": Kind(Workflow("w", join(more, wait_for("go", timeout=0.0), wait="all_done") >> step(told))),
    "rule with a pattern": Kind(
        Workflow("w", rule(given=int, when=lambda x: x > 3, then=lambda x: -x, name="large") >> double)
    ),
    "halted failure": Kind(
        Workflow("w", join(more, picky, wait="all_done") >> step(told)), (3, 4), retries_failures=True
    ),
}


def _has_state(run: Run, name: str) -> bool:
    try:
        run.state_of(name)
    except WeftError:
        return False
    return True


def summary(run: Run) -> dict[str, Any]:
    """Return what *run* has come to, as far as the order of events does not matter."""
    return {
        "values": {name: sorted(map(repr, run.values(name))) for name in run.workflow.components},
        "failed": sorted(run.failures),
        "skipped": sorted(run.skipped),
        "letters": len(run.dead_letters),
        "states": {name: repr(run.state_of(name)) for name in run.workflow.components if _has_state(run, name)},
    }
