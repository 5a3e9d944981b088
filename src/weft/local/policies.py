"""
The policies of one run: the rules in force, and the policy of each node, looked up once per plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from weft.core.compose.component import Component
from weft.core.fold.scope import Activation
from weft.core.plan.plan import Plan
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.local.clock import SystemClock
from weft.local.policy_driver import PolicyDriver
from weft.policy.matching import Choice, PolicyRule, Target, as_rules, winner
from weft.policy.policy import Policy, check_in_memory
from weft.policy.policy_table import PolicyTable
from weft.ports.clock import Clock
from weft.typing import Address


class Policies:
    """The policies and deadline of a run, and the driver that applies them."""

    def __init__(
        self,
        workflow: Workflow,
        *,
        clock: Clock | None = None,
        rules: tuple[PolicyRule, ...] | None = None,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.driver = PolicyDriver(clock=self.clock)
        self.rules = rules
        """The rules of the run; None if those of its workflow are in force."""
        self._known: dict[Plan, tuple[Any, PolicyTable]] = {}
        self._last: tuple[Plan, Any, PolicyTable] | None = None
        self.table(workflow, workflow.compiled)

    def table(self, workflow: Workflow, plan: Plan) -> PolicyTable:
        """
        Return the policies of the nodes of *plan*; computed once, and safe to call on any thread.

        Raises:
            InvalidPolicy: a rule cannot be applied, or a run in memory cannot honour it.
        """
        last, own = self._last, self.rules  # read once: they may change on another thread
        if last is not None and last[0] is plan and last[1] is own:
            return last[2]
        rules = workflow.policies if own is None else own
        known = self._known.get(plan)
        if known is None or known[0] is not rules:
            if len(self._known) >= _MOST_PLANS:
                self._known = {}
            known = self._known[plan] = (rules, _shared(workflow, plan, rules))
        self._last = (plan, own, known[1])
        return known[1]

    def check(self, component: str, policy: Policy) -> None:
        """Refuse a *policy* for *component* that a run in memory cannot honour."""
        check_in_memory(component, policy)

    def change(self, plan: Plan, rules: tuple[PolicyRule, ...]) -> None:
        """
        Put *rules* in force from now on.

        Raises:
            InvalidPolicy: a run in memory cannot honour them; then nothing has changed.
        """
        known = {plan: (rules, _worked_out(plan, rules))}
        self.rules, self._known = rules, known

    def of(self, run: Run, activation: Activation) -> tuple[Policy | None, bool]:
        """Return the policy of *activation*, and whether it matters before an attempt fails."""
        if run.memory.retried and activation.key in run.memory.retried:
            return run.memory.retried[activation.key], True
        last = self._last  # called at every step; a plan belongs to one workflow, so it identifies both
        if last is not None and last[0] is activation.scope.plan and last[1] is self.rules:
            table = last[2]
        else:
            table = self.table(run.workflow, activation.scope.plan)
        name, reactive = activation.node.name, table.reactive
        policy = table.guarded.get(name)
        if policy is not None:
            return policy, True
        if run.memory.has_deadlines and activation.scope.root.deadline is not None:
            return reactive.get(name, _NO_POLICY), True
        return reactive.get(name), False

    def teller(self, run: Run, activation: Activation) -> Callable[[], Policy]:
        """Return a function that returns the policy of *activation* at the time of the call."""
        return lambda: self.of(run, activation)[0] or _NO_POLICY


_NO_POLICY = Policy()
_MOST_PLANS = 16
"""For how many plans the policies are kept: the present one, and those that inputs in flight follow."""


def _shared(workflow: Workflow, plan: Plan, rules: tuple[PolicyRule, ...]) -> PolicyTable:
    """Return the policies of *plan* under *rules*; runs of a definition without other rules share them."""
    if rules is not workflow.policies or plan is not workflow.compiled:
        return _worked_out(plan, rules)
    found: PolicyTable | None = workflow.__dict__.get("_policy_table")
    if found is None:
        found = workflow.__dict__["_policy_table"] = _worked_out(plan, rules)
    return found


def _worked_out(plan: Plan, rules: tuple[PolicyRule, ...]) -> PolicyTable:
    return PolicyTable(plan.nodes.values(), rules, check_in_memory)


def policies_of(run: Run) -> Policies | None:
    """Return the policies of *run*; None if it has neither rules nor a deadline."""
    known = cast("Policies | None", run.policies)
    if known is None and (run.memory.has_deadlines or run.memory.retried):
        known = cast("Policies | None", run.under(clock=SystemClock()).policies)
    if known is not None:
        known.table(run.workflow, run.memory.plan)
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
    """The effect of a change of policies on one pending runnable."""

    component: str
    inputs: tuple[Address, ...]
    before: Choice
    after: Choice

    def __str__(self) -> str:
        return f"{self.component} at {self.inputs}: {self.before.told()} -> {self.after.told()}"


def preview(run: Run, rules: tuple[PolicyRule, ...]) -> list[Effect]:
    """Return the pending runnables of *run* whose policy would change under *rules*."""
    memory = run.memory
    now = run.workflow.policies if memory.rules is None else memory.rules
    waiting = [*memory.open_all().values(), *(memory.blocked or {}).values()]
    waiting += [letter.activation for letter in (memory.letters or {}).values()]
    found: list[Effect] = []
    for activation in waiting:
        node = activation.node
        if node.is_runnable and activation.key not in (memory.retried or {}):  # which has its own policy
            target = Target(node.name, node.component)
            before, after = winner(now, target), winner(rules, target)
            if before.policy != after.policy:
                found.append(Effect(*activation.key, before, after))
    return found


def checked(rules: Iterable[Any]) -> tuple[Any, ...]:
    """Return *rules*, refused if they make no sense."""
    return as_rules(rules)
