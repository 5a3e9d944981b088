"""
The policies of all nodes of a plan, looked up once.

A policy that only matters after a failure costs nothing before one, so there are two tables: the *reactive* ones,
used when an attempt has failed, and the *guarded* ones, used before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from weft.core.plan.node import Node
from weft.policy.matching import PolicyRule, Target, winner
from weft.policy.policy import Policy


class PolicyTable:
    """The policies of one plan under certain rules."""

    __slots__ = ("guarded", "needs_threads", "priorities", "reactive")

    def __init__(
        self, nodes: Iterable[Node], rules: Sequence[PolicyRule], check: Callable[[str, Policy], object]
    ) -> None:
        """
        Look up the policies of *nodes* under *rules*.

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
        for node in nodes if rules else ():
            if not node.is_runnable:
                continue
            policy = winner(rules, Target(node.name, node.component)).policy
            check(node.name, policy)
            if policy.priority:
                self.priorities[node.name] = policy.priority
            if policy.execution_mode == "async" and not node.is_async:
                self.needs_threads = True
            if not policy.is_reactive:
                self.guarded[node.name] = policy
            elif policy.changes():
                self.reactive[node.name] = policy

    def of(self, name: str) -> tuple[Policy | None, bool]:
        """Return the policy of the node *name*, and whether it matters before an attempt fails."""
        policy = self.guarded.get(name)
        return (policy, True) if policy is not None else (self.reactive.get(name), False)
