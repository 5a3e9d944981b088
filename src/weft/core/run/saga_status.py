"""
The status of a saga in a run, read from the inputs of its last event.

A transaction passes on all its inputs, so one event shows the progress of its saga.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import cast

from weft.core import events as ev
from weft.core.components.join import Absent
from weft.core.components.saga import Saga
from weft.core.components.saga_outcome import SagaOutcome, retrace
from weft.core.lineage.lineage import Lineage


def saga_status(
    saga: Saga, name: str, lineage: Lineage, stuck: Iterable[ev.RunnableFailed] = (), *, has_ended: bool = False
) -> SagaOutcome:
    """
    Return the progress of *saga*, which is called *name*, in the request that was active last.

    Args:
        stuck: the failures that are kept as dead letters; a request that has one of them takes precedence.
        has_ended: whether the run was cancelled and is undone: then the saga has no event that says how it ended.
    """
    nodes, undoable = saga.nodes(name), saga.undoable()
    compensations = {f"{name}.{deed.undo_name}" for deed in saga.deeds.values() if deed.undo is not None}
    mine = {name, *nodes.values(), *compensations}
    for event in chain(stuck, reversed(lineage.standing())):
        if not isinstance(event, (*ev.ENDINGS, ev.RunnableRetried)) or event.component not in mine:
            continue
        if isinstance(event, ev.ReactionOccurred) and event.component == name:
            return cast("SagaOutcome", event.value)
        values = [lineage.cell(at).value for at in event.inputs]
        is_stuck = isinstance(event, ev.RunnableFailed) and event.component in compensations
        if isinstance(event, ev.ReactionOccurred):
            values.append(event.value)
        elif isinstance(event, ev.RunnableFailed) and not is_stuck:
            values.append(lineage.failure(event).value)
        elif isinstance(event, ev.RunnableSkipped):
            values.append(Absent(event.component, "skipped"))
        history = retrace(nodes, undoable, values)
        is_undone = has_ended and history.failure is not None and not history.remaining
        return history.outcome(stuck=is_stuck, over=is_undone)
    return SagaOutcome("pending")
