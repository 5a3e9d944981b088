"""
Compares a start with the one that created a run: they are the same if workflow name and input are equal.

Options are not compared: a program that was changed may start the same run with others.
"""

from __future__ import annotations

from typing import Any

from weft.core.events import InputReceived
from weft.core.functions.identity import canonical
from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import UnidentifiableValue
from weft.runner.options import StartRequest


def difference(run: Run, workflow: Workflow, request: StartRequest) -> str:
    """Return how *run* differs from the run that *request* would create; empty if it does not."""
    if run.workflow.name != workflow.name:
        return f"as a run of {run.workflow.name!r}, not of {workflow.name!r}"
    history = run.memory.lineage.history
    if history is not None and history.removed and run.memory.received:
        return ""  # its first input is not known any more: it was removed
    first = next((event for event in run.memory.log if isinstance(event, InputReceived)), None)
    if request.input is MISSING:
        return "and was started with an input" if first is not None and first.last else ""
    if first is None:
        return "and was started without an input"
    if first.last != request.is_last:
        return f"and {'finishes with its input' if first.last else 'stays open'}"
    return "" if _equal(first.value, request.input) else "with another input"


def _equal(one: Any, other: Any) -> bool:
    try:
        return canonical(one) == canonical(other)
    except UnidentifiableValue:
        return bool(one == other)
