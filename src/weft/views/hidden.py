"""
Hides what may quote a value, such as the messages of errors, from those who may not see values.

    >>> hidden_error("CardDeclined: card 4711 of ada")
    'CardDeclined: hidden'
    >>> hidden_error("CardDeclined")
    'CardDeclined'

The types of errors, the names of components and what a person has typed as a reason stay.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

import msgspec

from weft.core import events as ev
from weft.core.draw.progress import Progress
from weft.core.functions.identity import canonical
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import CorruptLog, UnidentifiableValue
from weft.log.outcome import RunOutcome, decode_outcome, encode_outcome
from weft.log.redaction import Redaction
from weft.ports.store import RunRecord
from weft.views.attention import UNDONE, Attention, is_cancelled

HIDDEN: Final = "hidden"
_KEY: Final = secrets.token_bytes(32)
"""Of this process: the hashes say which values are equal, and no value can be found by trying."""


class Hidden:
    """Stands for a value: it is shown as the word, and equals what stands for an equal value."""

    __slots__ = ("_hash",)

    def __init__(self, value: Any) -> None:
        try:
            self._hash = blake2b(canonical(value), key=_KEY, digest_size=16).digest()
        except UnidentifiableValue:
            self._hash = secrets.token_bytes(16)

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hidden) and other._hash == self._hash

    def __hash__(self) -> int:
        return hash(self._hash)


def hidden_run(run: Run) -> Run:
    """
    Return *run* with nothing in it that its values could be read from: its log without them, folded again.

    >>> from weft import Workflow, step
    >>> hidden_run(Workflow("w", step(str.upper, name="up")).run("secret")).results()
    {'up': hidden}

    Raises:
        HistoryTruncated: its log is not whole, and cannot be folded.
    """
    run.memory.lineage.check_whole()
    log = list(run.memory.log)
    redaction = Redaction(lambda _, value: Hidden(value), _KEY, text=HIDDEN)
    return Run.from_log([_hidden(*pair) for pair in zip(log, redaction.events(log), strict=True)])


def _hidden(event: Any, redacted: Any) -> Any:
    """Return an event as it is redacted, and policies without metadata; what a person has typed as a reason stays."""
    if is_cancelled(event):
        return event
    if isinstance(event, ev.PolicyChanged):
        return msgspec.structs.replace(event, rules=_hidden_rules(event.rules))
    workflow = getattr(event, "workflow", None)
    if isinstance(workflow, Workflow) and any(policy.metadata for _, policy in workflow.policies):
        return msgspec.structs.replace(redacted, workflow=workflow.with_policies(_hidden_rules(workflow.policies)))
    return redacted


def _hidden_rules(rules: Iterable[Any]) -> tuple[Any, ...]:
    """Return the *rules* of policies with other words in place of their metadata."""
    return tuple(
        (matcher, msgspec.structs.replace(policy, metadata=dict.fromkeys(policy.metadata, HIDDEN)))
        if policy.metadata
        else (matcher, policy)
        for matcher, policy in rules
    )


def hidden_record(record: RunRecord) -> RunRecord:
    """Return *record* with nothing in it that a value could be read from."""
    changes: dict[str, Any] = {}
    try:
        stored = decode_outcome(record.outcome)
    except CorruptLog:  # the page of the run says so
        stored, changes["outcome"] = None, b""
    if record.reason and record.status != "cancelled":
        changes["reason"] = HIDDEN
    if stored is not None:
        failures = tuple(hidden_event(each) for each in stored.failures)
        changes["outcome"] = encode_outcome(
            RunOutcome(stored.ordinal, {}, failures=failures, successor=stored.successor)
        )
    return msgspec.structs.replace(record, **changes) if changes else record


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
