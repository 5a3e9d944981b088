"""
Runs a workflow and fails if one of its components changes an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.core.events import ErrorDetail
from weft.core.failure import described
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import ChangedArgument
from weft.runner import Runner


def run_checked(workflow: Workflow, *inputs: Any, context: Mapping[str, Any] | None = None) -> Run:
    """
    Return the run of *workflow* on *inputs*, in a runner in memory that checks the arguments of every attempt.

    >>> from weft import step
    >>> def grow(rows):
    ...     rows.append(1)
    ...     return rows
    >>> run_checked(Workflow("w", step(grow)), [])
    Traceback (most recent call last):
        ...
    weft.errors.ChangedArgument: 'grow' has changed its argument at rows, which ...

    Raises:
        ChangedArgument: a component has changed an argument, whatever its policy makes of that.
    """
    with Runner(executor="inline", context=context, check_arguments=True) as runner:
        handle = runner.start(workflow)
        for value in inputs:
            handle.send(value)
        run: Run = handle.wait()
    name = f"{ChangedArgument.__module__}.{ChangedArgument.__qualname__}"
    for event in run.log():
        detail = getattr(event, "error", None)
        if isinstance(detail, ErrorDetail) and detail.type == name:
            raise described(detail)
    return run
