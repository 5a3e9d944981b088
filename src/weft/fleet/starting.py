"""
New runs for workers: their first events, as appends that create runs that no process owns.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.ports.store import Append, RunStatus
from weft.runner.durability.unsaved import UnsavedLog, whole
from weft.runner.options import RunOptions, StartRequest

_IDLE: Final[RunStatus] = "idle"
_RUNNING: Final[RunStatus] = "running"


async def new_run(
    id: str, workflow: Workflow[Any, Any], options: RunOptions, request: StartRequest, at: float
) -> Append:
    """
    Return the append that creates a run of *workflow*, *at* this time, as free.

    Raises:
        UnencodableValue: the input could not be stored.
    """
    run: Run[Any] = Run(workflow, id=id, options=options.said, by=request.by)
    if request.policies is not None:
        run.set_policies(request.policies, mode=request.policies_mode)
    unsaved, status = UnsavedLog(run), _IDLE
    if request.input is not MISSING:
        run.plan(request.input, deadline=request.deadline, at=at, last=request.is_last, by=request.by)
        if request.encoded is not None:
            unsaved.keep(request.encoded)
        status = _RUNNING
    (append,) = await whole(run, unsaved, at, status)
    return replace(append, release=True)
