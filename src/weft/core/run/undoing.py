"""
The end of what was cancelled with its run before it had begun (ADR 61).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core.fold.undoing import unstarted
from weft.errors import StepCancelled

if TYPE_CHECKING:
    from weft.core.events import Timing
    from weft.core.run.phases import Phases


def end_unstarted(run: Phases, timing: Timing | None = None) -> None:
    """Let the transactions of *run* fail that were cancelled with it before they had an attempt."""
    undo = run.memory.undo
    if undo is not None:
        for activation in unstarted(run.memory):
            error = StepCancelled(activation.key[0], undo.reason, undo.by)
            run.record_failure(activation, error, 1, 0, timing=timing)
