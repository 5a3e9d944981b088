"""
The policies of all nodes of a plan, looked up once.

A policy that only matters after a failure costs nothing before one, so there are two tables: the *reactive* ones,
used when an attempt has failed, and the *guarded* ones, used before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from logging import Logger
from typing import Any
from weakref import WeakKeyDictionary

from weft.core.plan.node import FunctionNode
from weft.core.plan.plan import Plan
from weft.policy.advice import NameWarnings
from weft.policy.matching import PolicyRule, Target, winner
from weft.policy.policy import Policy

Check = Callable[[FunctionNode, Policy], object]
"""Raises InvalidPolicy for a policy of a node that cannot be honoured: in memory, or by a runner with its executors."""


class PolicyTable:
    """The policies of one plan under certain rules."""

    __slots__ = ("guarded", "needs_threads", "priorities", "reactive")

    def __init__(self, plan: Plan, rules: Sequence[PolicyRule], check: Check) -> None:
        """
        Look up the policies of the nodes of *plan* under *rules*.

        Raises:
            InvalidPolicy: *check* refuses a policy for a node.
        """
        self.reactive: dict[str, Policy] = {}
        """The policies that matter only after a failure."""
        self.guarded: dict[str, Policy] = {}
        """The policies that matter before an attempt."""
        self.priorities: dict[str, int] = {}
        self.needs_threads = False
        """Whether a plain function is to run in parallel with others (``execution_mode="async"``)."""
        for node in plan.nodes.values() if rules else ():
            if not isinstance(node, FunctionNode):
                continue
            policy = winner(rules, Target(node.name, node.component, is_outcome=node.name == node.owner)).policy
            if not policy.changes():
                continue
            check(node, policy)
            if policy.priority:
                self.priorities[node.name] = policy.priority
            if policy.execution_mode == "async" and not node.is_async:
                self.needs_threads = True
            if policy.is_reactive:
                self.reactive[node.name] = policy
            else:
                self.guarded[node.name] = policy

    def of(self, name: str) -> tuple[Policy | None, bool]:
        """Return the policy of the node *name*, and whether it matters before an attempt fails."""
        policy = self.guarded.get(name)
        return (policy, True) if policy is not None else (self.reactive.get(name), False)


class PolicyTables:
    """The tables of all plans, each looked up once for the runs that share it, on whatever thread."""

    def __init__(self, check: Check, log: Logger) -> None:
        """Look policies up, refuse those that *check* refuses, and warn in *log* of rules for unknown names."""
        self.check = check
        self.names = NameWarnings(log)
        self._by_plan: WeakKeyDictionary[Plan, tuple[Any, PolicyTable]] = WeakKeyDictionary()

    def of(self, plan: Plan, rules: tuple[PolicyRule, ...]) -> PolicyTable:
        """
        Return the policies of the nodes of *plan* under *rules*.

        Raises:
            InvalidPolicy: a policy that cannot be honoured here.
        """
        known = self._by_plan.get(plan)
        if known is None or known[0] is not rules:
            known = self._by_plan[plan] = (rules, PolicyTable(plan, rules, self.check))
        return known[1]
