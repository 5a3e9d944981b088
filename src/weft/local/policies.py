"""
The policies of one run: which rules hold, and what they say of each node, looked up once per plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from weft.core.components.base import Component
from weft.core.plan import Plan
from weft.core.run import Run
from weft.core.scope import Activation
from weft.core.workflow import Workflow
from weft.local.clock import SystemClock
from weft.local.driver import PolicyDriver
from weft.policy.matching import Choice, PolicyRule, Target, as_rules, winner
from weft.policy.policy import Policy, check_in_memory
from weft.ports.clock import Clock
from weft.typing import Address


class Policies:
    """What a run was told about how to run, and the driver that keeps it."""

    def __init__(
        self,
        workflow: Workflow,
        *,
        clock: Clock | None = None,
        rules: tuple[PolicyRule, ...] | None = None,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.driver = PolicyDriver(clock=self.clock)
        self.rules: tuple[PolicyRule, ...] = workflow.policies if rules is None else rules
        self._plan: Plan | None = None
        self._reactive: dict[str, Policy] = {}
        self._guarded: dict[str, Policy] = {}
        self.priorities: dict[str, int] = {}

    def tables(self, workflow: Workflow, plan: Plan) -> tuple[Mapping[str, Policy], Mapping[str, Policy]]:
        """Return the policies that matter only after a failure, and those that matter before an attempt, by node."""
        if self._plan is not plan:
            known: Any = workflow.__dict__.get("_ruled_plan") if self.rules is workflow.policies else None
            if known is not None and known[0] is plan:
                self._plan, self._reactive, self._guarded, self.priorities = known
                return self._reactive, self._guarded
            self._work_out(plan, self.rules)
            if self.rules is workflow.policies:  # all runs of a definition share what its rules say
                workflow.__dict__["_ruled_plan"] = (plan, self._reactive, self._guarded, self.priorities)
        return self._reactive, self._guarded

    def _work_out(self, plan: Plan, rules: tuple[PolicyRule, ...]) -> None:
        reactive: dict[str, Policy] = {}
        guarded: dict[str, Policy] = {}
        priorities: dict[str, int] = {}
        for name, node in plan.nodes.items():
            if not node.is_runnable:
                continue
            policy = winner(rules, Target(name, node.component)).policy
            check_in_memory(name, policy)
            if policy.priority:
                priorities[name] = policy.priority
            if not policy.is_reactive:
                guarded[name] = policy
            elif policy.changes():
                reactive[name] = policy
        self._plan, self._reactive, self._guarded, self.priorities = plan, reactive, guarded, priorities

    def change(self, plan: Plan, rules: tuple[PolicyRule, ...]) -> None:
        """
        Let *rules* hold from now on.

        Raises:
            InvalidPolicy: a run in memory cannot keep them; nothing has changed then.
        """
        self._work_out(plan, rules)
        self.rules = rules

    def of(self, run: Run, activation: Activation) -> tuple[Policy | None, bool]:
        """Return the policy of *activation*, and whether it matters before an attempt fails."""
        if run.memory.retried and activation.key in run.memory.retried:
            return run.memory.retried[activation.key], True
        reactive, guarded = self.tables(run.workflow, activation.scope.plan)
        name = activation.node.name
        policy = guarded.get(name)
        if policy is not None:
            return policy, True
        if run.memory.has_deadlines and activation.scope.root.deadline is not None:
            return reactive.get(name, _NO_POLICY), True
        return reactive.get(name), False

    def teller(self, run: Run, activation: Activation) -> Callable[[], Policy]:
        """Return what gives the policy of *activation* that holds when it is asked."""
        return lambda: self.of(run, activation)[0] or _NO_POLICY


_NO_POLICY = Policy()


def policies_of(run: Run) -> Policies | None:
    """Return what holds for *run*; None where nobody said how to run, and no deadline is to be kept."""
    known: Policies | None = run.policies
    if known is None and (run.memory.has_deadlines or run.memory.retried):
        known = run.under(clock=SystemClock()).policies
    if known is not None:
        known.tables(run.workflow, run.memory.plan)
    return known


def choose(workflow: Workflow, which: object) -> Choice:
    """Return which of the rules of *workflow* wins for *which*: a component, its name, or the name of a part."""
    component = which if isinstance(which, Component) else None
    name = component.label if component is not None else str(which)
    if component is None:
        owner = (
            name
            if name in workflow.components
            else workflow.compiled.nodes[name].owner
            if name in workflow.compiled.nodes
            else workflow.name_of(name)
        )
        component = workflow.components[owner]
    return winner(workflow.policies, Target(name, component))


class Effect(msgspec.Struct, frozen=True):
    """What a change of policies means for one pending runnable."""

    component: str
    inputs: tuple[Address, ...]
    before: Choice
    after: Choice

    def __str__(self) -> str:
        return f"{self.component} at {self.inputs}: {self.before.told()} -> {self.after.told()}"


def preview(run: Run, rules: tuple[PolicyRule, ...]) -> list[Effect]:
    """Return the pending runnables of *run* for which *rules* say something else than those in force."""
    memory = run.memory
    now = run.workflow.policies if memory.rules is None else memory.rules
    waiting = [*memory.ready.values(), *(memory.blocked or {}).values()]
    waiting += [letter.activation for letter in (memory.letters or {}).values()]
    found: list[Effect] = []
    for activation in waiting:
        node = activation.node
        if node.is_runnable:
            target = Target(node.name, node.component)
            before, after = winner(now, target), winner(rules, target)
            if before.policy != after.policy:
                found.append(Effect(*activation.key, before, after))
    return found


def checked(rules: Iterable[Any]) -> tuple[Any, ...]:
    """Return *rules*, refused if they make no sense."""
    return as_rules(rules)
