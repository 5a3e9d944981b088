"""
The events of a log, for code that reads one: a dashboard, an audit, a test.

    >>> from weft import Workflow, events, step
    >>> log = Workflow("w", step(lambda x: x * 2, name="double")).run(21).log()
    >>> [event.value for event in log if isinstance(event, events.ReactionOccurred)]
    [42]

A run is exactly the fold of these.  They are frozen, and a later version may add classes, and fields with a default.
"""

from weft.core.events import (
    Activated,
    AnyEvent,
    AttemptFailed,
    ChildStarted,
    ComponentAdded,
    ComponentRemoved,
    ConditionEvaluated,
    ContinuedAsNew,
    ContinuedFrom,
    ErrorDetail,
    Event,
    FannedOut,
    InputReceived,
    Notified,
    PolicyChanged,
    ReactionOccurred,
    RunCancelled,
    RunFinished,
    RunnableCompleted,
    RunnableDelayed,
    RunnableDispatched,
    RunnableFailed,
    RunnableRetried,
    RunnableSkipped,
    StateCarried,
    StateChanged,
    Timing,
    WorkflowDefined,
)

__all__ = [
    "Activated",
    "AnyEvent",
    "AttemptFailed",
    "ChildStarted",
    "ComponentAdded",
    "ComponentRemoved",
    "ConditionEvaluated",
    "ContinuedAsNew",
    "ContinuedFrom",
    "ErrorDetail",
    "Event",
    "FannedOut",
    "InputReceived",
    "Notified",
    "PolicyChanged",
    "ReactionOccurred",
    "RunCancelled",
    "RunFinished",
    "RunnableCompleted",
    "RunnableDelayed",
    "RunnableDispatched",
    "RunnableFailed",
    "RunnableRetried",
    "RunnableSkipped",
    "StateCarried",
    "StateChanged",
    "Timing",
    "WorkflowDefined",
]
