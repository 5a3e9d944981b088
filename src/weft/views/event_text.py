"""
Events in words: the details beside the name of an event, or a sentence where its name is not shown.

    >>> from weft.core import events as ev
    >>> refused = ev.SignalRefused(3, "paid", "Expected `int`", by="Ada")
    >>> details(refused)
    'paid: Expected `int`, by Ada'
    >>> sentence(refused)
    'signal refused: paid: Expected `int`, by Ada'

A caller that may not see values passes a *show* that hides them:

    >>> sentence(ev.InputReceived(2, "secret", 1), show=lambda value: "hidden")
    'input 1 = hidden'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from weft.core import events as ev
from weft.core.draw.progress import duration
from weft.core.workflow import Workflow
from weft.log import UnknownEvent
from weft.log.module_names import kind_of
from weft.views.attention import is_cancelled
from weft.views.text import count, short_type, shown, stamp, took

Show: TypeAlias = Callable[[Any], str]


def details(event: Any, show: Show = shown) -> str:
    """Return the details of *event*, without its name and its component."""
    words = WORDS.get(kind_of(event))
    return "" if words is None else words[1](event, show)


def sentence(event: Any, show: Show = shown) -> str:
    """Return *event* as a sentence, for places where its name is not shown."""
    words = WORDS.get(kind_of(event))
    if words is None:
        return type(event).__name__
    verb, tell = words
    told = tell(event, show)
    return f"{verb}{told}" if told else verb.rstrip(": ")


class Sentence(NamedTuple):
    """The sentence of an event in three parts; the middle one is how long until the time *due*, counted from it."""

    before: str
    left: str = ""
    after: str = ""
    due: float | None = None


def sentence_in_time(event: Any, show: Show = shown) -> Sentence:
    """
    Return *event* as a sentence in which a time is counted from the event.

    >>> from weft.core import events as ev
    >>> sentence_in_time(ev.TimerStarted(4, "approved", (3,), due=3_600.0, at=60.0))
    Sentence(before='waits ', left='for up to 59 min', after='', due=3600.0)
    """
    text = sentence(event, show)
    due, at = getattr(event, "retry_at", None) or getattr(event, "due", None), getattr(event, "at", None)
    if due and at:
        for absolute, relative in (("again at ", "next in "), ("until ", "for up to ")):
            before, found, after = text.partition(f"{absolute}{stamp(due)}")
            if found:
                if due <= at and absolute == "again at ":
                    return Sentence(f"{before}next at once{after}")
                return Sentence(before, f"{relative}{duration(max(0.0, due - at))}", after, due)
    return Sentence(text)


def state_after(event: Any) -> str:
    """Return the state of a component, or of the run, after *event*, as pictures colour it."""
    match event:
        case ev.RunCancelled() | ev.RunnableCancelled():
            return "cancelled"
        case ev.RunnableFailed() if is_cancelled(event):
            return "cancelled"
        case ev.RunnableFailed() | ev.AttemptFailed() | ev.SignalRefused() | ev.FailureReceived():
            return "failed"
        case ev.RunnableSkipped() | ev.ConditionEvaluated(holds=False):
            return "gated"
        case ev.TimerStarted() | ev.RunnableDelayed() | ev.CompletionAwaited():
            return "waiting"
        case ev.RunnableDispatched() | ev.TokenIssued():
            return "running"
        case _:
            return "done"


def error_line(detail: ev.ErrorDetail) -> str:
    """Return an exception on one line."""
    first = detail.message.splitlines()[0] if detail.message else ""
    kind = short_type(detail.type)
    return f"{kind}: {first}" if first else kind


def _nothing(_: Any, __: Show) -> str:
    return ""


def _by(event: Any) -> str:
    return "" if event.by is None else f", by {event.by}"


def _definition(event: Any) -> str:
    workflow: Workflow = event.workflow
    return f"{workflow.name}: {count(len(workflow.components), 'component')}"


def _input(event: ev.InputReceived, show: Show) -> str:
    key = "" if event.key is None else f", key {event.key}"
    return f"input {event.ordinal} = {show(event.value)}{key}{', the last one' * event.last}{_by(event)}"


def _signal(event: ev.SignalReceived, show: Show) -> str:
    key = "" if event.key is None else f", key {event.key}"
    return f"{event.name} = {show(event.value)}{key}{_by(event)}"


def _condition(event: ev.ConditionEvaluated, _: Show) -> str:
    return f"{'holds' if event.holds else 'does not hold'}{_effort(event)}"


def _state(event: ev.StateChanged, show: Show) -> str:
    emitted = f", emitted {show(event.emitted)}" if event.emitted else ""
    key = "" if event.key is None else f"of {show(event.key)} "
    return f"state {key}= {show(event.state)}{emitted}{', complete' if event.done else ''}{_effort(event)}"


def _effort(event: ev.ReactionOccurred | ev.FannedOut | ev.ConditionEvaluated | ev.StateChanged) -> str:
    attempt = f"attempt {event.attempt}" if event.attempt > 1 else ""
    spent = took(event.duration_ns) if event.duration_ns else ""
    effort = ", ".join(filter(None, (attempt, spent)))
    return f" ({effort})" if effort else ""


def _attempt(event: ev.AttemptFailed, _: Show) -> str:
    when = f", again at {stamp(event.retry_at)}" if event.retry_at else ""
    return f"attempt {event.attempt}: {error_line(event.error)}{when}"


def _failure(event: ev.RunnableFailed, _: Show) -> str:
    then = "" if event.on_failure == "halt" else f", then {event.on_failure}"
    after = f" after {count(event.attempts, 'attempt')}" if event.attempts else ""
    return f"{error_line(event.error)}{after}{then}"


def _awaited(event: ev.CompletionAwaited, _: Show) -> str:
    return "from outside" + ("" if event.due is None else f", until {stamp(event.due)}")


def _fork(event: ev.RunForked, show: Show) -> str:
    edited = f", with {show(event.values)} at {', '.join(map(str, event.edited))}" if event.edited else ""
    return f"from {event.origin} at event {event.head}{edited}{_by(event)}"


def _takeover(event: ev.RunTakenOver, _: Show) -> str:
    if not event.deaths:
        return "a person resumed it after it was parked"
    return "its owner died" if event.deaths == 1 else f"its owners died {event.deaths} times without progress"


def _cancelled(event: ev.RunCancelled, show: Show) -> str:
    told = _reason(event, show)
    if not event.undo:
        return told
    return f"{told}; what it has done is undone" if told else "what it has done is undone"


def _reason(event: Any, _: Show) -> str:
    return f"{event.reason}{_by(event)}" if event.reason else _by(event).removeprefix(", ")


WORDS: Final[dict[type, tuple[str, Callable[[Any, Show], str]]]] = {
    ev.WorkflowDefined: ("started ", lambda event, _: _definition(event)),
    ev.ComponentAdded: ("added ", lambda event, _: f"{', '.join(event.components)}; now {_definition(event)}"),
    ev.ComponentRemoved: ("removed; now ", lambda event, _: _definition(event)),
    ev.InputReceived: ("", _input),
    ev.SignalReceived: ("signal ", _signal),
    ev.SignalRefused: ("signal refused: ", lambda event, _: f"{event.name}: {event.reason}{_by(event)}"),
    ev.ReactionOccurred: ("", lambda event, show: f"= {show(event.value)}{_effort(event)}"),
    ev.FannedOut: (
        "",
        lambda event, show: f"{count(len(event.value), 'element')}: {show(event.value)}{_effort(event)}",
    ),
    ev.StateChanged: ("", _state),
    ev.SignalTaken: ("", lambda event, show: f"= {show(event.value)} (signal {event.signal})"),
    ev.TimerStarted: ("waits ", lambda event, _: f"until {stamp(event.due)}"),
    ev.TimerFired: ("the time came ", lambda event, show: f"= {show(event.value)}"),
    ev.TokenIssued: ("has a token with which it can be completed", _nothing),
    ev.CompletionAwaited: ("waits for a completion ", _awaited),
    ev.CompletionReceived: ("completed from outside ", lambda event, show: f"= {show(event.value)}{_by(event)}"),
    ev.FailureReceived: (
        "failed outside: ",
        lambda event, _: f"{error_line(event.error)}, attempt {event.attempt}{_by(event)}",
    ),
    ev.RunnableCancelled: ("cancelled: ", _reason),
    ev.ConditionEvaluated: ("", _condition),
    ev.RunnableDispatched: ("started ", lambda event, _: f"attempt {event.attempt}"),
    ev.RunnableDelayed: ("delayed ", lambda event, _: f"from {stamp(event.at)}"),
    ev.AttemptFailed: ("failed in ", _attempt),
    ev.RunnableFailed: ("failed: ", _failure),
    ev.RunnableSkipped: ("skipped: ", _reason),
    ev.RunnableRetried: ("retried ", lambda event, show: "" if event.values is None else f"with {show(event.values)}"),
    ev.PolicyChanged: ("policies changed: ", lambda event, _: count(len(event.rules), "rule")),
    ev.ChildStarted: (
        "child run ",
        lambda event, _: f"{event.child}{'' if event.with_parent else ', on its own'}",
    ),
    ev.Notified: ("on_complete was called", _nothing),
    ev.RunTakenOver: ("taken over: ", _takeover),
    ev.RunRetried: ("retried: ", lambda event, _: f"{count(len(event.failed), 'failure')}{_by(event)}"),
    ev.RunForked: ("forked ", _fork),
    ev.RunUpgraded: ("upgraded ", lambda event, _: f"to {_definition(event)}{_by(event)}"),
    ev.CodeChanged: ("code has changed: ", lambda event, _: ", ".join(event.components)),
    ev.RunImported: ("imported: ", lambda event, _: f"it was {event.origin}{_by(event)}"),
    ev.RunFinished: ("finishes: ", lambda event, _: f"no more input{_by(event)}"),
    ev.ContinuedAsNew: ("continues ", lambda event, _: f"as {event.run}{_by(event)}"),
    ev.ContinuedFrom: ("continues ", lambda event, _: event.run),
    ev.LogTruncated: ("truncated: ", lambda event, _: f"{count(event.seq, 'event')} before this were removed"),
    ev.StateCarried: ("state ", lambda event, show: show(event.value)),
    ev.RunCancelled: ("cancelled: ", _cancelled),
    UnknownEvent: ("unknown event ", lambda event, _: f"{event.tag!r}, written by a newer Weft"),
}
"""The words before the details in a sentence, and the details; a test fails if an event is missing here."""
