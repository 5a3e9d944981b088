"""
The policies that hold for one run now, and what its log says of attempts that were made under them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.core.fold.scope import Activation, Key
from weft.core.plan.plan import Plan
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.policy.driver import Begun
from weft.policy.matching import combine
from weft.policy.policy import Policy
from weft.policy.policy_table import PolicyTable
from weft.runner.execution.dispatcher import Dispatcher
from weft.typing import PoliciesMode


class RunPolicies:
    """Says which policy a runnable of *run* has."""

    __slots__ = ("_dispatcher", "_executor", "_run", "_table")

    def __init__(self, run: Run, dispatcher: Dispatcher, executor: str) -> None:
        """Say it for a run whose plain functions run on *executor*, unless their policy says otherwise."""
        self._run, self._dispatcher, self._executor = run, dispatcher, executor
        self._table: tuple[Plan, Any, PolicyTable] | None = None

    def of(self, activation: Activation) -> tuple[Policy | None, bool]:
        """Return the policy of *activation* that holds now, and whether it matters before an attempt fails."""
        memory = self._run.memory
        if memory.retried and activation.key in memory.retried:
            return memory.retried[activation.key], True
        rules = memory.workflow.policies if memory.rules is None else memory.rules
        if not rules:
            return None, False
        plan, known = activation.scope.plan, self._table
        if known is None or known[0] is not plan or known[1] is not rules:
            known = self._table = (plan, rules, self._dispatcher.table(plan, rules))
        return known[2].of(activation.node.name)

    def begun(self, key: Key) -> Begun | None:
        """Return how far the runnable *key* had come in an earlier life; None if it had not begun."""
        memory = self._run.memory
        failed = (memory.attempts or {}).get(key)
        dispatched = (memory.dispatched or {}).get(key, 0)
        if failed is None:
            return Begun(dispatched) if dispatched else None
        return Begun(max(failed.last, dispatched), failed.failed, failed.retry_at, failed.since)

    def change(self, policies: Iterable[Any], mode: PoliciesMode) -> None:
        """
        Let *policies* hold from the next decision on.

        Raises:
            InvalidPolicy: one that this runner cannot keep.
        """
        memory = self._run.memory
        now = memory.workflow.policies if memory.rules is None else memory.rules
        rules = combine(now, policies, mode)
        self._checked(memory.plan, rules)
        record(memory, ev.PolicyChanged(len(memory.log) + 1, rules))

    def look_through(self) -> None:
        """
        See that this runner can keep what the run asks for.

        Raises:
            InvalidPolicy: it cannot.
        """
        memory = self._run.memory
        if memory.workflow.policies if memory.rules is None else memory.rules:
            self.table(self._run.workflow, memory.plan)

    # -- what a run asks of its policies, whoever drives it ----------------------------------------

    def table(self, workflow: Workflow, plan: Plan) -> PolicyTable:
        """
        Return what the rules in force say of the nodes of *plan*, which is that of *workflow*.

        Raises:
            InvalidPolicy: this runner cannot keep them.
        """
        rules = self._run.memory.rules
        return self._checked(plan, workflow.policies if rules is None else rules)

    def check(self, component: str, policy: Policy) -> None:
        """
        Refuse a *policy* for *component* that this runner cannot keep.

        Raises:
            InvalidPolicy: it cannot.
        """
        memory = self._run.memory
        node = memory.plan.nodes.get(component)
        if node is None:  # it was removed, and is only in a letter
            node = next(
                each.activation.node for each in (memory.letters or {}).values() if each.event.component == component
            )
        self._dispatcher.check(node, policy, self._executor)

    def _checked(self, plan: Plan, rules: tuple[Any, ...]) -> PolicyTable:
        table = self._dispatcher.table(plan, rules)
        if rules and self._executor != "thread":  # what depends on the run is not worked out for all of them
            for name, policy in (*table.guarded.items(), *table.reactive.items()):
                self._dispatcher.check(plan.nodes[name], policy, self._executor)
        return table
