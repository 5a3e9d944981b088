"""
The serial loop: prepare the ready runnables, execute them here, apply their outcomes, repeat.

A cycle is everything that was ready when it began.  Failures are recorded and nothing is raised, unless the
caller asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from time import perf_counter_ns
from types import CoroutineType
from typing import Any, cast

from weft.calling import PROPAGATES, READ_ONCE, run_blocking, whole
from weft.core.failure import sound
from weft.core.fold.fold import complete
from weft.core.fold.scope import Activation
from weft.core.functions.current import announce, announced
from weft.core.run.external import failure_outside
from weft.core.run.run import Run
from weft.core.run.runnable import Outcome, Runnable, bind
from weft.core.run.undoing import end_unstarted
from weft.local.concurrent import drive_concurrently, enter, raise_first
from weft.local.policies import current_policy, dispatch, note_failed, policies_of, policy_of
from weft.local.policy_driver import PolicyDriver
from weft.local.timers import Timers
from weft.policy.policy import Policy
from weft.policy.run_policies import RunPolicies


def react(run: Run, timers: Timers | None = None) -> None:
    """Run one cycle of *run*; *timers* are those of the loop that does this, if there is one."""
    run.check_context()
    memory = run.memory
    if memory.undo is not None:
        end_unstarted(run)
    memory.newly_ready.clear()
    plan = memory.plan
    outer = announced()
    enter(run)
    try:
        if memory.waiting is not None:
            (timers or Timers(run)).look()
        offered = memory.offered()
        policies = None
        is_told = run.known_policies is not None or memory.workflow.policies or memory.rules
        if is_told or memory.has_deadlines or memory.retried or memory.dispatched or memory.attempts:
            policies = policies_of(run)
        if policies is not None and (priorities := policies.table(run.workflow, plan).priorities):
            offered.sort(key=lambda activation: -priorities.get(activation.node.name, 0))
        for activation in offered:
            if memory.plan is not plan and memory.ready.get(activation.key) is not activation:
                continue  # a step has removed it from its own run
            perform(run, activation, policies)
    finally:
        run.is_driven = False
        announce(outer)


def perform(run: Run, activation: Activation, policies: RunPolicies | None) -> None:
    """Execute one *activation* of *run* under its *policies*, if it has any, and record its outcome."""
    memory, node = run.memory, activation.node
    policy: Policy | None = None
    if policies is not None:
        policy, outcome = governed(run, activation, policies)
        if outcome is not None:
            run.apply(outcome)
            return
    value: Any
    runnable: Runnable | None = None
    started = perf_counter_ns()
    try:
        if node.arguments is None:  # 0.6 us less than binding a runnable, and by far the most common case
            announce((memory, activation))
            facts = activation.facts
            value = node.call(facts[0].value) if len(facts) == 1 else node.call(*[fact.value for fact in facts])
        elif node.folds_plainly and node.state is not None:
            announce((memory, activation))
            known = memory.produced.get(node.name)
            value = node.call(known[-1].value if known else node.state.initial.make(), activation.facts[0].value)
        else:
            runnable = bind(activation, memory, run.context)
            value = runnable.call()
        if type(value) is CoroutineType:
            value = run_blocking(cast("Coroutine[Any, Any, Any]", value))
        if node.is_test:
            value = bool(value)
        elif READ_ONCE.get(value.__class__, True):
            value = whole(value)
        if runnable is not None:
            memory.adding = runnable.added
    except PROPAGATES:
        memory.adding = ()
        raise
    except BaseException as error:  # noqa: BLE001 - whatever else a step raises is its outcome
        memory.adding = ()
        if policy is None or policies is None:
            run.record_failure(activation, error, 1, perf_counter_ns() - started)
        else:
            runnable = bind(activation, memory, run.context)
            current, driver = current_policy(policies, activation), PolicyDriver(clock=policies.clock)
            note = partial(note_failed, run)
            run.apply(driver.execute(runnable, policy, failed=sound(error), current=current, note=note))
    else:
        if memory.adding:
            added, memory.adding = memory.adding, ()
            key, duration = activation.key, perf_counter_ns() - started
            run.apply(Outcome(*key, "completed", value, duration_ns=duration, added=added))
            return
        complete(memory, activation, value, 1, perf_counter_ns() - started)


def governed(run: Run, activation: Activation, policies: RunPolicies) -> tuple[Policy | None, Outcome | None]:
    """Return the policy to use if *activation* fails; or its outcome, if a policy matters before that."""
    policy, matters_before = policy_of(run, policies, activation)
    if policy is None or not matters_before:
        return policy, None
    runnable = bind(activation, run.memory, run.context)
    begun = policies.begun(activation.key)
    dispatch(run, runnable, policy, begun)
    driver, current = PolicyDriver(clock=policies.clock), current_policy(policies, activation)
    failed = None if run.memory.external is None else failure_outside(run.memory, activation.key)
    note = partial(note_failed, run)
    return policy, driver.execute(runnable, policy, failed=failed, current=current, begun=begun, note=note)


def evaluate(run: Run) -> None:
    """Evaluate every condition that is ready, and those that become ready, and run nothing else."""
    run.check_context()
    memory = run.memory
    outer = announced()
    try:
        while tests := [activation for activation in memory.offered() if activation.node.is_test]:
            for activation in tests:
                perform(run, activation, policies_of(run))
    finally:
        announce(outer)


def _needs_threads(run: Run) -> bool:
    policies = policies_of(run)
    return policies is not None and policies.table(run.workflow, run.memory.plan).needs_threads


def _pass_time(run: Run, timers: Timers | None) -> bool:
    """Sleep until the next timer of *run*, in which nothing is ready, is due; return whether something has happened."""
    if run.memory.waiting is None:
        return False
    before, timers = len(run.memory.log), timers or Timers(run)
    enter(run)
    try:
        timers.look()
        pause = None if run.memory.ready else timers.pause
        if pause is not None:
            timers.clock.sleep(pause)
            timers.slept(pause)
    finally:
        run.is_driven = False
    return pause is not None or len(run.memory.log) > before


def drive(
    run: Run,
    *,
    parallel: int | None = None,
    checkpoint: Callable[[Run], None] | None = None,
    raise_on_failure: bool = False,
) -> None:
    """Run *run* until there is nothing to do."""
    since, memory = len(run.memory.log), run.memory
    if (parallel is not None and parallel != 1) or run.memory.plan.has_async or _needs_threads(run):
        drive_concurrently(run, parallel=parallel, checkpoint=checkpoint)
    else:
        timers = Timers(run) if memory.plan.has_waits else None
        while memory.ready or _pass_time(run, timers):
            react(run, timers)
            if checkpoint is not None:
                answer: Any = checkpoint(run)
                if type(answer) is CoroutineType:
                    run_blocking(cast("Coroutine[Any, Any, Any]", answer))
    if raise_on_failure:
        raise_first(run, since)
