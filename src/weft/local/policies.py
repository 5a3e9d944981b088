"""
The policies of runs in memory: which can be honoured, which rule wins, and what a change would do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from weft.core.compose.component import Component
from weft.core.events import AttemptFailed
from weft.core.fold.fold import record
from weft.core.fold.scope import Activation
from weft.core.plan.node import FunctionNode
from weft.core.run.external import failure_outside, issue_token, token_of
from weft.core.run.run import Run
from weft.core.run.runnable import Runnable
from weft.core.workflow import Workflow
from weft.local.clock import SystemClock, new_secret
from weft.policy.instructions import Begun
from weft.policy.matching import Choice, PolicyRule, Target, as_rules, winner
from weft.policy.policy import Policy, check_external, check_in_memory, check_queue
from weft.policy.policy_table import PolicyTables
from weft.policy.run_policies import RunPolicies
from weft.ports.clock import Clock
from weft.typing import Address


def _check(node: FunctionNode, policy: Policy) -> None:
    check_external(node, policy)
    check_queue(node, policy)
    check_in_memory(node.name, policy)


TABLES = PolicyTables(_check, logging.getLogger("weft.local"))
"""The policies of the nodes of all plans that run in memory."""
_NO_POLICY = Policy()


def policies_in_memory(run: Run, clock: Clock | None = None) -> RunPolicies:
    """
    Return the policies of a *run* that is executed here, by this *clock*.

    Raises:
        InvalidPolicy: a run in memory cannot honour one of them.
    """
    policies = RunPolicies(run, TABLES, clock or SystemClock())
    policies.check_all()
    return policies


def policies_of(run: Run) -> RunPolicies | None:
    """
    Return the policies of *run*; None if it has no rules, no deadline and no earlier attempts.

    Raises:
        InvalidPolicy: as :func:`policies_in_memory`.
    """
    known = cast("RunPolicies | None", run.policies)
    memory = run.memory
    if known is None and (memory.has_deadlines or memory.retried or memory.dispatched or memory.attempts):
        known = run.known_policies = policies_in_memory(run)
    return known


def policy_of(run: Run, policies: RunPolicies, activation: Activation) -> tuple[Policy | None, bool]:
    """
    Return the policy of *activation*, and whether it matters before a failure.

    The deadline of its input matters too, and so do attempts that were made before the run was restored.
    """
    policy, matters_before = policies.of(activation)
    memory = run.memory
    if memory.has_deadlines and activation.scope.root.deadline is not None:
        return policy or _NO_POLICY, True
    if (memory.dispatched or memory.attempts) and policies.begun(activation.key) is not None:
        return policy or _NO_POLICY, True
    return policy, matters_before


def dispatch(run: Run, runnable: Runnable, policy: Policy, begun: Begun | None) -> None:
    """Record the dispatch of a durable or external *runnable*, whose attempts count on from *begun*."""
    has_failed = run.memory.external is not None and failure_outside(run.memory, runnable.key) is not None
    if policy.execution_mode in ("durable", "external") and not has_failed:
        number = 1 if begun is None else begun.attempts + 1
        run.record_dispatch(msgspec.structs.replace(runnable, attempt=number), policy)
    if policy.execution_mode == "external":
        clock = SystemClock() if run.known_policies is None else run.known_policies.clock
        issue_token(run.memory, runnable.key, new_secret(), clock.time())
        runnable.token = token_of(run.memory, runnable.key)


def note_failed(run: Run, failed: AttemptFailed) -> None:
    """
    Record that an attempt has *failed* and that another one follows, unless it was removed from *run* meanwhile.

    Nothing is recorded for an external step: its token stays in force for the next attempt, and its own events count.
    """
    memory, key = run.memory, (failed.component, failed.inputs)
    is_external = memory.external is not None and memory.external.get(key) is not None
    if memory.at(key) is not None and not is_external:
        record(memory, msgspec.structs.replace(failed, seq=len(memory.log) + 1))


def current_policy(policies: RunPolicies, activation: Activation) -> Callable[[], Policy]:
    """Return a function that returns the policy of *activation* at the time of the call."""
    return lambda: policies.of(activation)[0] or _NO_POLICY


def choose(workflow: Workflow, which: object, rules: tuple[PolicyRule, ...] | None = None) -> Choice:
    """
    Return which of *rules* wins for *which*: a component of *workflow*, its name, or the name of a part.

    Args:
        rules: those of the workflow if not given.
    """
    component: Any = which
    name = component.label if isinstance(which, Component) else str(which)
    if not isinstance(which, Component):
        owner = (
            name
            if name in workflow.components
            else workflow.compiled.nodes[name].owner
            if name in workflow.compiled.nodes
            else workflow.name_of(name)
        )
        component = workflow.components[owner]
    return winner(workflow.policies if rules is None else rules, Target(name, component))


class Effect(msgspec.Struct, frozen=True):
    """The effect of a change of policies on one pending runnable."""

    component: str
    inputs: tuple[Address, ...]
    before: Choice
    after: Choice

    def __str__(self) -> str:
        return f"{self.component} at {self.inputs}: {self.before.summary()} -> {self.after.summary()}"


def preview(run: Run, rules: tuple[PolicyRule, ...]) -> list[Effect]:
    """Return the pending runnables of *run* whose policy would change under *rules*."""
    memory = run.memory
    now = run.workflow.policies if memory.rules is None else memory.rules
    waiting = [*memory.open_all().values(), *(memory.blocked or {}).values()]
    waiting += [each.activation for each in (memory.waiting or {}).values()]
    waiting += [letter.activation for letter in (memory.letters or {}).values()]
    found: list[Effect] = []
    for activation in waiting:
        node = activation.node
        if activation.key not in (memory.retried or {}):  # which has its own policy
            target = Target(node.name, node.component)
            before, after = winner(now, target), winner(rules, target)
            if before.policy != after.policy:
                found.append(Effect(*activation.key, before, after))
    return found


def checked(rules: Iterable[Any]) -> tuple[Any, ...]:
    """Return *rules*, refused if they make no sense."""
    return as_rules(rules)
