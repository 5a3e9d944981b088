"""
New runs for workers: their first events, as appends that create runs that no process owns.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from weft.core.functions.references import MISSING
from weft.core.plan.node import FunctionNode
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import InvalidOption
from weft.policy.policy import Policy
from weft.policy.policy_table import PolicyTables
from weft.policy.run_policies import RunPolicies
from weft.ports.queue import Placement
from weft.ports.store import Append, RunStatus
from weft.runner import defaults
from weft.runner.durability.unsaved import UnsavedLog, version_of, whole
from weft.runner.execution.policies import check_policy
from weft.runner.option_checks import Time, as_time, check_text
from weft.runner.options import RunOptions, StartRequest
from weft.typing import PoliciesMode

_IDLE: Final[RunStatus] = "idle"
_RUNNING: Final[RunStatus] = "running"
_CLOCK: Final = defaults.clock()
_EXECUTOR: Final = "thread"
"""Where workers run plain functions whose policy does not say."""


def _check_anywhere(node: FunctionNode, policy: Policy) -> None:
    """Refuse what no worker can honour, whatever executors it has."""
    check_policy({_EXECUTOR, policy.executor or _EXECUTOR}, _EXECUTOR, node, policy)


_tables: Final = PolicyTables(_check_anywhere, logging.getLogger("weft.fleet"))


async def new_run(
    id: str, workflow: Workflow[Any, Any], options: RunOptions, request: StartRequest, at: float
) -> Append:
    """
    Return the append that creates a run of *workflow*, *at* this time, as free.

    Raises:
        InvalidPolicy: no worker could honour the policy of a step.
        UnencodableValue: the input could not be stored.
    """
    run: Run[Any] = Run(workflow, id=id, options=options.said, by=request.by)
    policies = RunPolicies(run, _tables, _CLOCK)
    if request.policies is None:
        policies.check_all()
    else:
        policies.change(request.policies, request.policies_mode, None)
    unsaved, status = UnsavedLog(run), _IDLE
    if request.input is not MISSING:
        run.plan(request.input, deadline=request.deadline, at=at, last=request.is_last, by=request.by)
        if request.encoded is not None:
            unsaved.keep(request.encoded)
        status = _RUNNING
    (append,) = await whole(run, unsaved, at, status)
    return replace(append, release=True, unique=request.unique or "")


async def forked_run(
    run: Run[Any], policies: Iterable[Any] | None, mode: PoliciesMode, by: str | None, at: float
) -> Append:
    """
    Return the append that creates *run*, a new one with a history, *at* this time, as free.

    Raises:
        InvalidPolicy: no worker could honour the policy of a step.
    """
    in_force = RunPolicies(run, _tables, _CLOCK)
    if policies is not None:
        in_force.change(policies, mode, by)
    in_force.check_all()
    unsaved = UnsavedLog(run)
    unsaved.version = version_of(run)
    append = await asyncio.to_thread(unsaved.append, _RUNNING, "", at, sys.maxsize)  # it may be long
    assert append is not None  # noqa: S101 - a fork has events
    return replace(append, release=True)


def placement(queue: str, priority: int, scheduled_at: Time | None, fair_key: str | None = None) -> Placement:
    """
    Return where a new run is claimed, and when.

    Raises:
        InvalidOption: this cannot be.
    """
    check_text("queue", queue)
    if fair_key is not None:
        check_text("fair_key", fair_key)
    if type(priority) is not int or not -(1 << 31) <= priority < 1 << 31:
        raise InvalidOption(f"priority={priority!r}: use a number")
    return Placement(queue, priority, as_time("scheduled_at", scheduled_at), fair_key)
