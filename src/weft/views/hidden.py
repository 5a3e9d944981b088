"""
Hides what may quote a value, such as the messages of errors, from those who may not see values.

    >>> hidden_error("CardDeclined: card 4711 of ada")
    'CardDeclined: hidden'
    >>> hidden_error("CardDeclined")
    'CardDeclined'

The types of errors, the names of components and what a person has typed as a reason stay.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from weft.core import events as ev
from weft.core.draw.progress import Progress
from weft.views.attention import UNDONE, Attention, is_cancelled

HIDDEN: Final = "hidden"


def hide(_: Any) -> str:
    """Return what stands for a value."""
    return HIDDEN


def as_it_is(event: Any) -> Any:
    """Return an event for those who may see values."""
    return event


def hidden_error(text: str) -> str:
    """Return an error on one line without its message."""
    kind, colon, _ = text.partition(": ")
    return f"{kind}: {HIDDEN}" if colon else kind


def hidden_event(event: Any) -> Any:
    """
    Return *event* without the texts that may quote a value: the message of an error, its traceback, why it was skipped.

    Values themselves stay: who shows them says how.
    """
    if is_cancelled(event):  # by a person, who said why
        return event
    changes: dict[str, Any] = {}
    error = getattr(event, "error", None)
    if isinstance(error, ev.ErrorDetail):
        changes["error"] = ev.ErrorDetail(error.type, error.bases, HIDDEN if error.message else "")
    if isinstance(event, ev.RunnableSkipped | ev.SignalRefused) and event.reason:
        changes["reason"] = HIDDEN
    return msgspec.structs.replace(event, **changes) if changes else event


def hidden_line(line: Attention) -> Attention:
    """Return *line* without the message of its error."""
    if not line.error or (line.state == "cancelled" and line.text != UNDONE):
        return line
    return msgspec.structs.replace(line, error=HIDDEN if line.state == "parked" else hidden_error(line.error))


def hidden_progress(progress: Progress) -> Progress:
    """Return *progress* without the message of its error."""
    return msgspec.structs.replace(progress, error=hidden_error(progress.error)) if progress.error else progress
