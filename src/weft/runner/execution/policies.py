"""
The policies that a runner can honour: those that its executors can.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import partial

from weft.core.plan.node import FunctionNode
from weft.errors import InvalidPolicy
from weft.policy.policy import Policy, check_external, check_queue
from weft.policy.policy_table import PolicyTables
from weft.ports.executor import Executor

_log = logging.getLogger("weft.runner")


def policy_tables(executors: Mapping[str, Executor]) -> dict[str, PolicyTables]:
    """Return the tables of a runner with these *executors*, by the one that the plain functions of a run are for."""
    return {name: PolicyTables(partial(check_policy, executors, name), _log) for name in executors}


def check_policy(executors: Collection[str], executor: str, node: FunctionNode, policy: Policy) -> None:
    """
    Refuse what these *executors* cannot honour; plain functions run on *executor* unless their policy says otherwise.

    Raises:
        InvalidPolicy: the policy of *node* asks for it.
    """
    component, where = node.name, policy.executor or executor
    is_plain = not (node.is_async or node.is_test or node.is_fan)
    check_external(node, policy)
    check_queue(node, policy)
    if policy.executor is not None and policy.executor not in executors:
        known = ", ".join(map(repr, executors))
        raise InvalidPolicy(f"the policy of {component!r} says executor={policy.executor!r}; this runner has {known}")
    if policy.executor == "queue":
        raise InvalidPolicy(f"the policy of {component!r} says executor='queue'; use queue=, the name of a queue")
    if node.transaction and policy.queue is not None:
        raise InvalidPolicy(
            f"the policy of {component!r} says queue={policy.queue!r}, and a step with a transaction runs where its "
            "run is: only the owner of a run stores its completion; leave the queue out"
        )
    if node.transaction and policy.executor not in (None, "async" if node.is_async else "thread"):
        raise InvalidPolicy(
            f"the policy of {component!r} says executor={policy.executor!r}, and a step with a transaction runs on a "
            "thread or as a coroutine of this process; leave the executor out"
        )
    if is_plain and where == "async" and not node.transaction:
        raise InvalidPolicy(
            f"the policy of {component!r} says executor='async', where a plain function would hold up all runs; "
            "make it a coroutine function, or use 'thread'"
        )
    if is_plain and policy.heartbeat is not None and where == "inline" and not node.transaction:
        raise InvalidPolicy(
            f"the policy of {component!r} wants heartbeats from executor 'inline', where nothing can listen; "
            "use timeout=, or executor='thread'"
        )
