"""
The policies that are in force in one run, and the attempts that its log records under them.

The same class serves a run in memory and a run of a runner.  They differ in the clock, and in which policies can be
honoured, which the policy tables check.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.core.fold.scope import Activation, Key
from weft.core.plan.node import FunctionNode
from weft.core.plan.plan import Plan
from weft.core.run.run import Run
from weft.core.run.texts import check_text_or_none
from weft.core.workflow import Workflow
from weft.policy.instructions import Begun
from weft.policy.matching import PolicyRule, combine
from weft.policy.policy import Policy
from weft.policy.policy_table import PolicyTable, PolicyTables
from weft.ports.clock import Clock
from weft.typing import PoliciesMode


class RunPolicies:
    """Says which policy a runnable of *run* has, by the rules of the run or else by those of its workflow."""

    __slots__ = ("_last", "_run", "_tables", "clock")

    def __init__(self, run: Run, tables: PolicyTables, clock: Clock) -> None:
        self._run, self._tables, self.clock = run, tables, clock
        self._last: tuple[Plan, tuple[PolicyRule, ...], PolicyTable] | None = None
        """The table that was used last: most activations of a run follow one plan, under one list of rules."""

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """The rules in force."""
        memory = self._run.memory
        rules: tuple[PolicyRule, ...] = memory.workflow.policies if memory.rules is None else memory.rules
        return rules

    def of(self, activation: Activation) -> tuple[Policy | None, bool]:
        """
        Return the policy of *activation*, and whether it matters before an attempt fails.

        The policy is the one in force now, also if other rules were in force when *activation* became ready.  May be
        called on any thread.
        """
        memory = self._run.memory
        if memory.retried and activation.key in memory.retried:
            return memory.retried[activation.key], True
        rules = memory.workflow.policies if memory.rules is None else memory.rules
        if not rules:
            return None, False
        return self._looked_up(activation.scope.plan, rules).of(activation.node.name)

    def begun(self, key: Key) -> Begun | None:
        """Return how far the runnable *key* had come before it was resumed; None if it had not begun."""
        memory = self._run.memory
        if memory.external and (outside := memory.external.get(key)) is not None and outside.failed is not None:
            return self._begun_outside(key, outside.failed.attempt, outside.failures, outside.since)
        failed = (memory.attempts or {}).get(key)
        dispatched = (memory.dispatched or {}).get(key, 0)
        if failed is None:
            return Begun(dispatched) if dispatched else None
        return Begun(max(failed.last, dispatched), failed.failed, failed.retry_at, failed.since)

    def _begun_outside(self, key: Key, attempt: int, failures: int, since: float) -> Begun:
        """Return how far a runnable had come before its *attempt*, which is the last of its *failures* outside."""
        before = (self._run.memory.attempts or {}).get(key)
        if before is None:
            return Begun(attempt - 1, failures - 1, 0.0, since)
        return Begun(attempt - 1, before.failed + failures - 1, 0.0, before.since)

    def table(self, workflow: Workflow, plan: Plan) -> PolicyTable:
        """
        Return the policies of the nodes of *plan*, which is that of *workflow*.

        Raises:
            InvalidPolicy: a policy that cannot be honoured here.
        """
        rules = self._run.memory.rules
        return self._looked_up(plan, workflow.policies if rules is None else rules)

    def _looked_up(self, plan: Plan, rules: tuple[PolicyRule, ...]) -> PolicyTable:
        last = self._last  # read once: another thread may change it
        if last is None or last[0] is not plan or last[1] is not rules:
            last = self._last = (plan, rules, self._tables.of(plan, rules))
        return last[2]

    def change(self, policies: Iterable[Any], mode: PoliciesMode, by: str | None = None) -> None:
        """
        Put *policies* in force from the next decision on, and record that, and *by* which caller.

        Raises:
            InvalidPolicy: one that makes no sense, or cannot be honoured here; then nothing has changed.
        """
        check_text_or_none("by", by)
        memory = self._run.memory
        rules = combine(self.rules, policies, mode)
        self._tables.of(memory.plan, rules)
        self._tables.names.look_at(self._run.workflow.name, memory.plan, rules)
        record(memory, ev.PolicyChanged(len(memory.log) + 1, rules, by))

    def check(self, component: str, policy: Policy) -> None:
        """
        Refuse a *policy* for *component* that cannot be honoured here.

        Raises:
            InvalidPolicy: it cannot.
        """
        memory = self._run.memory
        node = memory.plan.nodes.get(component)
        if not isinstance(node, FunctionNode):  # it was removed, and is only in a dead letter
            node = next(
                each.activation.node for each in (memory.letters or {}).values() if each.event.component == component
            )
        self._tables.check(node, policy)

    def check_all(self) -> None:
        """
        Check that the policies of the run can be honoured here.

        Raises:
            InvalidPolicy: one cannot.
        """
        rules = self.rules
        if rules:
            workflow, plan = self._run.workflow, self._run.memory.plan
            self.table(workflow, plan)
            self._tables.names.look_at(workflow.name, plan, rules)
