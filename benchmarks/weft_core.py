"""
Weft in memory: the core alone, with its log and lineage, no store and no runner.

Definitions are built before the clock starts, like the graphs of the others; a
sample is a whole run, from the input to the value that is read at its end.
Steps do next to nothing, but enough to show in the result that each has run.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from benchmarks.harness import Stock, Work
from weft import Policy, Run, Workflow, accumulator, each, reduce, rule, state_of, step
from weft.core.events import ReactionOccurred
from weft.log import Encoder, decode_segments, definition_of, read_definition
from weft.policy import DEFAULT


def add_one(x: int) -> int:
    return x + 1


def square(x: int) -> int:
    return x * x


def add(total: int, x: int) -> int:
    return total + x


def count(*xs: int) -> int:
    return len(xs)


def larger(a: int, b: int) -> int:
    return max(a, b)


@accumulator(init=0)
def total(so_far: int, x: int) -> int:
    return so_far + x


so_far = state_of("total")


@rule(when=lambda _, so_far=so_far: so_far >= 0)
def report(_: int, so_far: int = so_far) -> int:
    return so_far


def chain(size: int) -> Work:
    """Steps in a row, each adding one."""
    workflow, last = _chain(size)
    return Work(lambda: workflow.run(0).value(last), expected=size, units=size)


def chain_with_policy(size: int) -> Work:
    """The same under a policy that never triggers."""
    workflow, last = _chain(size)
    ruled = workflow.with_policies([(DEFAULT, Policy(max_retries=3))])
    return Work(lambda: ruled.run(0).value(last), expected=size, units=size)


def chain_with_rules(size: int) -> Work:
    """The same under a hundred rules, of which the last one matches."""
    workflow, last = _chain(size)
    rules = [(f"nobody_{i}", Policy(max_retries=1)) for i in range(99)]
    ruled = workflow.with_policies([*rules, (DEFAULT, Policy(max_retries=3))])
    return Work(lambda: ruled.run(0).value(last), expected=size, units=size)


def leaves(size: int) -> Work:
    """One root and its leaves, all of them read."""
    workflow = Workflow("leaves", step(add_one, name="root") >> _steps("leaf", size))
    return Work(lambda: sum(workflow.run(0).results().values()), expected=2 * size, units=size)


def map_reduce(size: int) -> Work:
    """The sum of the squares of a list."""
    workflow, items = _map_reduce(), list(range(size))
    return Work(lambda: workflow.run(items).value("sum"), expected=sum(i * i for i in items), units=size)


def rules_all_firing(size: int) -> Work:
    """Rules with a condition each, which holds for all."""
    rules = [rule(when=lambda x, k=k: x >= k, then=lambda x: x, name=f"rule_{k}") for k in range(size)]
    workflow = Workflow("rules", *rules)
    return Work(lambda: len(workflow.run(size).results()), expected=size, units=size)


def rules_one_firing(size: int) -> Work:
    """Rules with a condition each, which holds for one."""
    rules = [rule(when=lambda x, k=k: x == k, then=lambda x: x, name=f"rule_{k}") for k in range(size)]
    workflow = Workflow("rules", *rules)
    return Work(lambda: len(workflow.run(size // 2).results()), expected=1, units=size)


def inputs(size: int) -> Work:
    """Inputs to one run, each reacted to before the next."""
    workflow = Workflow("inputs", total)

    def call() -> object:
        run = Run(workflow)
        for i in range(size):
            run.run(i)
        return run.value("total")

    return Work(call, expected=sum(range(size)), units=size)


def inputs_planned(size: int) -> Work:
    """Inputs to one run, all of them before the first reaction."""
    workflow = Workflow("inputs", total)

    def call() -> object:
        run = Run(workflow)
        for i in range(size):
            run.plan(i)
        return run.react_until_satisfied().value("total")

    return Work(call, expected=sum(range(size)), units=size)


def fold_of_chain(size: int) -> Work:
    """The log of a chain, made a run again; a unit is an event."""
    workflow, last = _chain(size)
    log = workflow.run(0).log()
    return Work(lambda: Run.from_log(log).value(last), expected=size, units=len(log))


def fold_of_map(size: int) -> Work:
    """The log of a map and reduce, made a run again; a unit is an event."""
    log = _map_reduce().run(list(range(size))).log()
    return Work(lambda: Run.from_log(log).value("sum"), expected=sum(i * i for i in range(size)), units=len(log))


def log_to_bytes(size: int) -> Work:
    """The reactions of a chain, written as one segment; a unit is an event."""
    reactions = _reactions(size)
    encoder = Encoder()
    return Work(lambda: encoder.segment(reactions).count, expected=size, units=size)


def log_from_bytes(size: int) -> Work:
    """The same, read back."""
    body = Encoder().segment(_reactions(size)).body
    return Work(lambda: len(decode_segments([body], definitions={}, facts={})), expected=size, units=size)


def lone_event_to_bytes(size: int) -> Work:
    """The reactions of a chain, each in a segment of its own, as a runner writes them that waits for nobody."""
    batches = [[event] for event in _reactions(size)]
    encoder = Encoder()
    return Work(lambda: sum(encoder.segment(batch).count for batch in batches), expected=size, units=size)


def definition_to_bytes(size: int) -> Work:
    """A chain as data, worked out anew; a unit is a component."""
    workflow, _ = _chain(size)
    return Work(lambda: len(workflow.to_dict()["components"]), expected=size, units=size)


def definition_from_bytes(size: int) -> Work:
    """The same, read back, its functions found."""
    workflow, _ = _chain(size)
    body = definition_of(workflow).body
    return Work(lambda: len(read_definition(body).components), expected=size, units=size)


def idle_run(size: int) -> Stock:
    """Runs without input, of one definition of a hundred steps."""
    workflow, _ = _chain(100)
    return Stock(lambda: Run(workflow), count=size)


def wide_join(size: int) -> Work:
    """One root, its children, and one step that takes all of them; a unit is a child."""
    flow = step(add_one, name="root") >> _steps("parent", size) >> step(count, name="count")
    workflow = Workflow("join", flow)
    return Work(lambda: workflow.run(0).value("count"), expected=size, units=size)


def diamonds(size: int) -> Work:
    """Diamonds in a row: two steps and the step that joins them; a unit is a step."""
    flow = step(add_one, name="root")
    for i in range(size):
        sides = [step(add_one, name=f"left_{i}"), step(add_one, name=f"right_{i}")]
        flow = flow >> sides >> step(larger, name=f"larger_{i}")
    workflow, last = Workflow("diamonds", flow), f"larger_{size - 1}"
    return Work(lambda: workflow.run(0).value(last), expected=size + 1, units=3 * size + 1)


def state_readers(size: int) -> Work:
    """Inputs to an accumulator and to a rule that reads its state, twice."""
    workflow = Workflow("budget", total, report)

    def call() -> object:
        run = Run(workflow)
        for i in range(size):
            run.run(i)
        return run.value("report")

    return Work(call, expected=sum(range(size)), units=size)


def _reactions(size: int) -> list[Any]:
    workflow, _ = _chain(size)
    return [event for event in workflow.run(0).log() if isinstance(event, ReactionOccurred)]


def drawing(size: int) -> Work:
    """Ten lines of steps that exchange values with their neighbours, drawn as SVG."""
    lines, flows = 10, []
    for i in range(size):
        parents = [f"step_{j}" for j in (i - lines, i - lines + 1 if (i + 1) % lines else i - 2 * lines + 1) if j >= 0]
        flows.append((step(larger if len(parents) == 2 else add_one, name=f"step_{i}"), parents))
    workflow = Workflow("mesh", *(flow for flow, parents in flows if not parents))
    for flow, parents in flows:
        if parents:
            workflow = workflow.add(flow, to=parents)
    return Work(lambda: workflow.to_svg().count("data-name="), expected=size + 1, units=size)


def _steps(prefix: str, size: int) -> list[Any]:
    return [step(add_one, name=f"{prefix}_{i}") for i in range(size)]


def _chain(size: int) -> tuple[Workflow, str]:
    flow = functools.reduce(operator.rshift, _steps("step", size))
    return Workflow("chain", flow), f"step_{size - 1}"


def _map_reduce() -> Workflow:
    return Workflow("sum_of_squares", each(step(square, name="square")) >> reduce(add, init=0, name="sum"))
