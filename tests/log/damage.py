"""Logs whose checksums would be right and whose content is not: every way to damage one that this knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from weft import Workflow, step
from weft.core import events as ev

OTHER = Workflow("other", step(lambda x: x, name="elsewhere"))

_ADDRESSES: list[Any] = [(), (0,), (1,), (-1,), (10**9,), ((2, 0),), ((2, -1),), ((2, 10**6),), ((0, 0),), (2, 2)]
_WRONG: list[Any] = [None, 0, -1, 10**9, "", "text", b"bytes", 1.5, True, (), [], {}, (1, 2), [[]], object()]
"""In place of anything."""
_KINDS: list[type[ev.Event]] = [
    *(ev.ReactionOccurred, ev.FannedOut, ev.StateChanged, ev.ConditionEvaluated, ev.RunnableDispatched),
    *(ev.RunnableDelayed, ev.AttemptFailed, ev.RunnableFailed, ev.RunnableSkipped, ev.RunnableRetried),
    ev.ChildStarted,
]
_FILLED: dict[str, Any] = {
    "value": [1, 2],
    "state": 0,
    "holds": True,
    "at": 0.0,
    "error": ev.ErrorDetail("OSError", ("Exception", "BaseException"), "gone"),
    "attempt": 1,
    "child": "child",
}


def damaged(log: Sequence[ev.AnyEvent]) -> Iterator[tuple[str, list[Any]]]:
    """Yield copies of *log*, each with one thing wrong, and what it is."""
    for at, event in enumerate(log):
        yield f"without {at}", renumbered([*log[:at], *log[at + 1 :]])
        yield f"{at} twice", renumbered([*log[: at + 1], *log[at:]])
        yield f"{at} again at the end", renumbered([*log, event])
        if at:
            yield f"{at} before its time", renumbered([*log[: at - 1], event, log[at - 1], *log[at + 1 :]])
        for other in changed(event, log):
            yield f"{at} as {type(other).__name__}", [*log[:at], other, *log[at + 1 :]]


def renumbered(log: Sequence[ev.AnyEvent]) -> list[Any]:
    """Return *log* with the positions that its events have now."""
    return [replace(event, seq=seq) for seq, event in enumerate(log, 1)]


def changed(event: ev.AnyEvent, log: Sequence[ev.AnyEvent]) -> Iterator[Any]:
    """Yield what might stand in the place of *event*."""
    seq = event.seq
    yield from (None, "text", ev.Event(seq), replace(event, seq=0), replace(event, seq=seq + 1))
    yield from (ev.RunCancelled(seq), ev.Notified(seq), ev.PolicyChanged(seq, (5,)), ev.InputReceived(seq, 1, 1))
    yield from (ev.WorkflowDefined(seq, "other", OTHER), ev.ComponentAdded(seq, ("elsewhere",), OTHER))
    yield ev.ComponentRemoved(seq, "elsewhere", OTHER)
    for name in event.__struct_fields__:
        if name != "seq":
            yield from (replace(event, **{name: wrong}) for wrong in _WRONG)
    if not isinstance(event, ev.Activated):
        return
    named = {other.component: None for other in log if isinstance(other, ev.Activated)}
    yield from (replace(event, component=name) for name in (*named, "unknown"))
    yield from (replace(event, inputs=inputs) for inputs in _ADDRESSES)
    for kind in _KINDS:
        given = {name: _FILLED[name] for name in kind.__struct_fields__ if name in _FILLED}
        yield kind(**{**given, "seq": seq, "component": event.component, "inputs": event.inputs})
