"""
The policies that hold for one run now, what its log says of attempts under them, and what a runner can keep of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.core.fold.scope import Activation, Key
from weft.core.plan.node import Node
from weft.core.plan.plan import Plan
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import InvalidPolicy
from weft.policy.driver import Begun
from weft.policy.matching import combine
from weft.policy.policy import Policy
from weft.policy.policy_table import PolicyTable
from weft.ports.executor import Executor
from weft.typing import PoliciesMode


class PolicyTables:
    """Works out what policies say of the nodes of a plan, once for all runs of a runner with these *executors*."""

    def __init__(self, executors: Mapping[str, Executor]) -> None:
        self._executors = executors
        self._by_plan: WeakKeyDictionary[Plan, tuple[Any, PolicyTable]] = WeakKeyDictionary()

    def of(self, plan: Plan, rules: tuple[Any, ...]) -> PolicyTable:
        """
        Return what *rules* say of the nodes of *plan*; worked out once for all runs that share both.

        Raises:
            InvalidPolicy: a policy that this runner cannot keep.
        """
        known = self._by_plan.get(plan)
        if known is None or known[0] is not rules:
            table = PolicyTable(plan.nodes.values(), rules, partial(self._check_in, plan))
            known = self._by_plan[plan] = (rules, table)
        return known[1]

    def _check_in(self, plan: Plan, component: str, policy: Policy) -> None:
        self.check(plan.nodes[component], policy)

    def check(self, node: Node, policy: Policy, executor: str | None = None) -> None:
        """
        Refuse what this runner cannot keep; *executor* is where plain functions run if the policy does not say.

        Raises:
            InvalidPolicy: the policy of *node* asks for it.
        """
        component, where = node.name, policy.executor or executor
        is_plain = not (node.is_async or node.is_test or node.is_fan)
        if policy.execution_mode == "external":
            raise InvalidPolicy(
                f"the policy of {component!r} says execution_mode='external', which needs an inbox for what comes from "
                "outside, and this runner has none"
            )
        if policy.executor is not None and policy.executor not in self._executors:
            known = ", ".join(map(repr, self._executors))
            raise InvalidPolicy(
                f"the policy of {component!r} says executor={policy.executor!r}; this runner has {known}"
            )
        if is_plain and where == "async":
            raise InvalidPolicy(
                f"the policy of {component!r} says executor='async', where a plain function would hold up all runs; "
                "make it a coroutine function, or use 'thread'"
            )
        if is_plain and policy.heartbeat is not None and where == "inline":
            raise InvalidPolicy(
                f"the policy of {component!r} wants heartbeats from executor 'inline', where nothing can listen; "
                "use timeout=, or executor='thread'"
            )


class RunPolicies:
    """Says which policy a runnable of *run* has."""

    __slots__ = ("_executor", "_run", "_table", "_tables")

    def __init__(self, run: Run, tables: PolicyTables, executor: str) -> None:
        """Say it for a run whose plain functions run on *executor*, unless their policy says otherwise."""
        self._run, self._tables, self._executor = run, tables, executor
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
            known = self._table = (plan, rules, self._tables.of(plan, rules))
        return known[2].of(activation.node.name)

    def begun(self, key: Key) -> Begun | None:
        """Return how far the runnable *key* had come before it was resumed; None if it had not begun."""
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

    def check_all(self) -> None:
        """
        Check that this runner can keep what the policies of the run ask for.

        Raises:
            InvalidPolicy: it cannot.
        """
        memory = self._run.memory
        if memory.workflow.policies if memory.rules is None else memory.rules:
            self.table(self._run.workflow, memory.plan)

    # -- what a run asks of its policies ---------------------------------------------------------

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
        if node is None:  # it was removed, and is only in a dead letter
            node = next(
                each.activation.node for each in (memory.letters or {}).values() if each.event.component == component
            )
        self._tables.check(node, policy, self._executor)

    def _checked(self, plan: Plan, rules: tuple[Any, ...]) -> PolicyTable:
        table = self._tables.of(plan, rules)
        if rules and self._executor != "thread":  # what depends on the run is not worked out for all of them
            for name, policy in (*table.guarded.items(), *table.reactive.items()):
                self._tables.check(plan.nodes[name], policy, self._executor)
        return table
