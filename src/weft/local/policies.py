"""
The policies of one run: which rules hold, and what they say of each node, looked up once per plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from weft.core.components.base import Component
from weft.core.node import Kind
from weft.core.plan import Plan
from weft.core.run import Run
from weft.core.scope import Activation
from weft.core.workflow import Workflow
from weft.local.clock import SystemClock
from weft.local.driver import PolicyDriver
from weft.policy.matching import Choice, Target, as_rules, combine, winner
from weft.policy.policy import Policy, check_in_memory
from weft.ports.clock import Clock


class Policies:
    """What a run was told about how to run, and the driver that keeps it."""

    def __init__(
        self,
        workflow: Workflow,
        *,
        clock: Clock | None = None,
        extra: Iterable[Any] | None = None,
        mode: Literal["merge", "replace"] = "merge",
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.driver = PolicyDriver(clock=self.clock)
        self.rules = combine(workflow.policies, extra, mode)
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
            self._plan, self._reactive, self._guarded, self.priorities = plan, {}, {}, {}
            for name, node in plan.nodes.items():
                if node.kind not in _RUN:
                    continue
                policy = winner(self.rules, Target(name, workflow.components.get(node.owner))).policy
                check_in_memory(name, policy)
                if policy.priority:
                    self.priorities[name] = policy.priority
                if not policy.is_reactive:
                    self._guarded[name] = policy
                elif policy.changes():
                    self._reactive[name] = policy
            if self.rules is workflow.policies:  # all runs of a definition share what its rules say
                workflow.__dict__["_ruled_plan"] = (plan, self._reactive, self._guarded, self.priorities)
        return self._reactive, self._guarded

    def of(self, run: Run, activation: Activation) -> tuple[Policy | None, bool]:
        """Return the policy of *activation*, and whether it matters before an attempt fails."""
        reactive, guarded = self.tables(run.workflow, activation.scope.plan)
        name = activation.node.name
        policy = guarded.get(name)
        if policy is not None:
            return policy, True
        if run.memory.has_deadlines and activation.scope.root.deadline is not None:
            return reactive.get(name, _NO_POLICY), True
        return reactive.get(name), False


_NO_POLICY = Policy()
_RUN = (Kind.WORK, Kind.TEST, Kind.FAN, Kind.TURN)
"""The nodes that run something."""


def policies_of(run: Run) -> Policies | None:
    """Return what holds for *run*; None where nobody said how to run, and no deadline is to be kept."""
    known: Policies | None = run.policies
    if known is None and run.memory.has_deadlines:
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


def checked(rules: Iterable[Any]) -> tuple[Any, ...]:
    """Return *rules*, refused if they make no sense."""
    return as_rules(rules)
