"""
The serial loop: prepare what is ready, execute it here, apply it, again.

A cycle is everything that was ready when it began.  Failures are recorded and nothing is raised, unless the
caller asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from time import perf_counter_ns
from types import CoroutineType
from typing import Any, cast

from weft.core.fold import complete
from weft.core.run import Run
from weft.core.runnable import announce, announced, bind
from weft.core.scope import Activation
from weft.local.concurrent import drive_concurrently, enter, raise_first
from weft.local.execution import READ_ONCE, run_blocking, whole


def react(run: Run) -> None:
    """Run one cycle of *run*."""
    run.check_context()
    memory = run.memory
    memory.fresh.clear()
    plan = memory.plan
    outer = announced()
    enter(run)
    try:
        for activation in memory.offered():
            if memory.plan is not plan and memory.ready.get(activation.key) is not activation:
                continue  # a step has removed it from its own run
            perform(run, activation)
    finally:
        run.is_driven = False
        announce(outer)


def perform(run: Run, activation: Activation) -> None:
    """Execute one *activation* of *run* and record what came of it."""
    memory, node = run.memory, activation.node
    value: Any
    started = perf_counter_ns()
    try:
        if node.simple:  # 0.6 us less than binding a runnable, and by far the most common
            announce((memory, activation))
            facts = activation.facts
            value = node.call(facts[0].value) if len(facts) == 1 else node.call(*[fact.value for fact in facts])
        elif node.folds:
            announce((memory, activation))
            known = memory.produced.get(node.name)
            value = node.call(known[-1].value if known else node.begin(), activation.facts[0].value)
        else:
            value = bind(activation, memory, run.context).call()
        if type(value) is CoroutineType:
            value = run_blocking(cast("Coroutine[Any, Any, Any]", value))
        if node.is_test:
            value = bool(value)
        elif READ_ONCE.get(value.__class__, True):
            value = whole(value)
    except Exception as error:  # noqa: BLE001 - whatever a step raises is its outcome
        run.fail(activation, error, 1, perf_counter_ns() - started)
    else:
        complete(memory, activation, value, 1, perf_counter_ns() - started)


def evaluate(run: Run) -> None:
    """Ask every condition that is ready, and those that become ready, and run nothing else."""
    run.check_context()
    memory = run.memory
    outer = announced()
    try:
        while tests := [activation for activation in memory.offered() if activation.node.is_test]:
            for activation in tests:
                perform(run, activation)
    finally:
        announce(outer)


def drive(
    run: Run,
    *,
    parallel: int | None = None,
    checkpoint: Callable[[Run], None] | None = None,
    raise_on_failure: bool = False,
) -> None:
    """Run *run* until there is nothing to do."""
    since = len(run.memory.log)
    if (parallel is not None and parallel != 1) or run.memory.plan.has_async:
        drive_concurrently(run, parallel=parallel, checkpoint=checkpoint)
    else:
        while run.memory.ready:
            react(run)
            if checkpoint is not None:
                answer: Any = checkpoint(run)
                if type(answer) is CoroutineType:
                    run_blocking(cast("Coroutine[Any, Any, Any]", answer))
    if raise_on_failure:
        raise_first(run, since)
