"""
The events of a run: everything that can happen in one.  The list of event classes is closed.

Events are facts about the past: named in the past tense, frozen, and never removed.  What follows from an
event, such as which components may run now, is derived by the fold and never stored.

    >>> ReactionOccurred(seq=3, component="double", inputs=(2,), value=10)
    ReactionOccurred(seq=3, component='double', inputs=(2,), value=10, attempt=1, duration_ns=0, timing=None)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.plan.compiled_workflow import CompiledWorkflow


class Event(msgspec.Struct, frozen=True, tag_field="e", omit_defaults=True):
    """
    Base of every event.  Tags, fields and defaults are wire format: a class may be renamed, a tag not.

    ``weft.log`` writes every class below that has its own tag; a field of any value is written as the
    user's, a field that holds a workflow as a reference to its definition.
    """

    seq: int
    """The position in the log, counted from 1."""


class WorkflowDefined(Event, frozen=True, tag="workflow_defined"):
    """The run began, with this definition."""

    run: str
    workflow: CompiledWorkflow
    options: Any = None
    """The options that were passed to the runner for this run, as plain data."""
    by: str | None = None
    """The name of the caller that started it."""


class ComponentAdded(Event, frozen=True, tag="component_added"):
    """*components* joined the run while it was live; from here on it follows *workflow*."""

    components: tuple[str, ...]
    workflow: CompiledWorkflow
    by: str | None = None


class ComponentRemoved(Event, frozen=True, tag="component_removed"):
    """*component* left the run while it was live; from here on it follows *workflow*."""

    component: str
    workflow: CompiledWorkflow
    by: str | None = None


class InputReceived(Event, frozen=True, tag="input_received"):
    """A value was given to the run.  *key* makes giving it again harmless; *at* is seconds since the epoch."""

    value: Any
    ordinal: int
    at: float | None = None
    key: str | None = None
    deadline: float | None = None
    """When everything that follows from it must be done, in seconds since the epoch."""
    last: bool = False
    """Whether the run accepts no more input after it, and finishes when nothing is left to do."""
    by: str | None = None
    """The name of the caller that sent it; so it is in the other events that a caller causes."""
    carrier: dict[str, str] | None = None
    """Text that telemetry has noted about the caller: with it, spans of what follows join the trace of the caller."""

    @property
    def address(self) -> Address:
        """The address of the fact that it brought."""
        return self.seq


class SignalReceived(Event, frozen=True, tag="signal_received"):
    """
    The signal *name* was sent to the run, with *value*; it is kept until a wait takes it.

    *key* makes sending it again harmless; *at* is seconds since the epoch.
    """

    name: str
    value: Any
    at: float | None = None
    key: str | None = None
    by: str | None = None

    @property
    def address(self) -> Address:
        """The address of the value that it brought."""
        return self.seq


class SignalRefused(Event, frozen=True, tag="signal_refused"):
    """A signal that was sent to the run did not fit, for *reason*: nothing has changed."""

    name: str
    reason: str
    at: float | None = None
    key: str | None = None
    by: str | None = None


class Timing(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """
    When a component ended, and for how many seconds it waited before, by reason.

    A runner notes it for the first event of an input that comes more than :data:`PRECISION` after the last one with a
    time, and wherever a policy made the component wait.  What is left of the time between its inputs and its end,
    without *duration_ns*, it spent in queues: for a slot, a thread, or the store.
    """

    at: float
    """When it ended, in seconds since the epoch."""
    delayed: float = 0.0
    """How long its policy kept it from starting: ``delay`` and ``scheduled_at``."""
    backing_off: float = 0.0
    """How long it waited between attempts."""
    limited: float = 0.0
    """How long it waited for limits."""


PRECISION = 0.01
"""In a runner, an event without a time has happened at most this many seconds after the last one with a time."""


class Activated(Event, frozen=True):
    """Base of what can happen to *component* at work on the facts at *inputs*."""

    component: str
    inputs: tuple[Address, ...]


class ReactionOccurred(Activated, frozen=True, tag="reaction_occurred"):
    """The component completed, with *value*."""

    value: Any
    attempt: int = 1
    duration_ns: int = 0
    timing: Timing | None = None

    @property
    def address(self) -> Address:
        """The address of the fact that it brought."""
        return self.seq


class FannedOut(Activated, frozen=True, tag="fanned_out"):
    """A map took the collection *value* apart; its elements are addressed by this event and their index."""

    value: Any
    attempt: int = 1
    duration_ns: int = 0
    timing: Timing | None = None

    @property
    def address(self) -> Address:
        """The address of the collection."""
        return self.seq


class StateChanged(Activated, frozen=True, tag="state_changed"):
    """
    A component that decides over its state took its input in; *state* is its new state.

    The values that it *emitted* are facts, addressed by this event and their index; the parts that it *fired* run next.
    """

    state: Any
    emitted: Any = ()
    """A tuple of values; written as one."""
    fired: tuple[str, ...] = ()
    done: bool = False
    """Whether the component, or what it does for this *key*, is complete with this."""
    key: Any = None
    """The key of the state, if the component keeps one per key."""
    attempt: int = 1
    duration_ns: int = 0
    timing: Timing | None = None

    @property
    def value(self) -> Any:
        """The state, as readers and reactions get it."""
        return self.state

    @property
    def address(self) -> Address:
        """The address of the state."""
        return self.seq


class SignalTaken(Activated, frozen=True, tag="signal_taken"):
    """A wait is over: it took the signal that was received at the position *signal*, and made *value* of it."""

    value: Any
    signal: int
    at: float | None = None

    @property
    def address(self) -> Address:
        """The address of the fact that it brought."""
        return self.seq


class TimerStarted(Activated, frozen=True, tag="timer_started"):
    """A component began at *at* to wait, until *due* at the latest; both are seconds since the epoch."""

    due: float
    at: float
    is_relative: bool = True
    """Whether it waits for a length of time, rather than for a time of day."""


class TimerFired(Activated, frozen=True, tag="timer_fired"):
    """A sleep is over, at *at*; *value* is what it took."""

    value: Any
    at: float

    @property
    def address(self) -> Address:
        """The address of the fact that it brought."""
        return self.seq


class ErrorDetail(msgspec.Struct, frozen=True):
    """An exception as plain data."""

    type: str
    """The qualified name of its class, with the module unless it is a builtin."""
    bases: tuple[str, ...]
    """The qualified names of the classes it derives from, nearest first."""
    message: str
    traceback: str = ""


class TokenIssued(Activated, frozen=True, tag="token_issued"):
    """The attempt that is about to start can be completed from outside with this *token*, the part that is secret."""

    token: str
    at: float | None = None


class CompletionAwaited(Activated, frozen=True, tag="completion_awaited"):
    """
    The function of an external step has returned at *at*: the step is open until it is completed from outside.

    If *due* is given, the attempt fails at that time.
    """

    attempt: int = 1
    at: float = 0.0
    due: float | None = None
    since: float = 0.0
    """When the first attempt began, in seconds since the epoch: what a deadline of its policy counts from."""
    duration_ns: int = 0


class CompletionReceived(Activated, frozen=True, tag="completion_received"):
    """An external step was completed from outside, with *value*."""

    value: Any
    attempt: int = 1
    duration_ns: int = 0
    at: float | None = None
    by: str | None = None
    token: str = ""
    """In a message: the token, which says what was completed.  In a log the other fields do."""

    @property
    def address(self) -> Address:
        """The address of the fact that it brought."""
        return self.seq


class FailureReceived(Activated, frozen=True, tag="failure_received"):
    """The attempt of an external step has failed outside, or was not completed in time; its policy decides next."""

    error: ErrorDetail
    attempt: int = 1
    at: float | None = None
    by: str | None = None
    token: str = ""
    """As in :class:`CompletionReceived`."""


class RunnableCancelled(Activated, frozen=True, tag="runnable_cancelled"):
    """
    A caller has cancelled the runnable, for *reason*: its attempt is stopped, and its failure follows.

    In a message without *inputs* all runnables of the component are meant.
    """

    reason: str = ""
    attempt: int = 1
    at: float | None = None
    by: str | None = None


class ConditionEvaluated(Activated, frozen=True, tag="condition_evaluated"):
    """The condition was asked, and *holds* or not; or a component that decides over its state has ignored an input."""

    holds: bool
    attempt: int = 1
    duration_ns: int = 0
    timing: Timing | None = None


class RunnableDispatched(Activated, frozen=True, tag="runnable_dispatched"):
    """Attempt number *attempt* was handed to an executor, and may be in flight."""

    attempt: int = 1
    policy: Any = None
    """The policy in force, as far as it is data."""


class RunnableDelayed(Activated, frozen=True, tag="runnable_delayed"):
    """The component became ready at *at*, seconds since the epoch; its policy lets the first attempt wait from then."""

    at: float


class RunnableCompleted(Activated, frozen=True, tag="runnable_completed"):
    """A driver reports that a runnable returned *value*; recorded as a reaction, or as the answer of a condition."""

    value: Any
    attempt: int = 1
    duration_ns: int = 0


class AttemptFailed(Activated, frozen=True, tag="attempt_failed"):
    """Attempt number *attempt* failed, and another one follows, not before *retry_at*, seconds since the epoch."""

    error: ErrorDetail
    attempt: int
    retry_at: float = 0.0
    since: float = 0.0
    """When the first attempt began, in seconds since the epoch: what a deadline of its policy counts from."""
    at: float = 0.0
    """When this one ended, in seconds since the epoch; 0 if that was not noted."""
    duration_ns: int = 0


class RunnableFailed(Activated, frozen=True, tag="runnable_failed"):
    """The last of *attempts* failed; *on_failure* is what its policy says about that."""

    error: ErrorDetail
    attempts: int = 1
    duration_ns: int = 0
    on_failure: Literal["halt", "dead_letter", "compensate"] = "halt"
    timing: Timing | None = None


class RunnableSkipped(Activated, frozen=True, tag="runnable_skipped"):
    """The component was left out, for *reason*: the branch ends here, and nothing has failed."""

    reason: str = ""
    attempts: int = 1
    by: str | None = None
    timing: Timing | None = None


class RunnableRetried(Activated, frozen=True, tag="runnable_retried"):
    """A dead letter gets another chance: with *values* in place of its facts and under *policy*, if these are given."""

    values: Any = None
    """A tuple, of one value for each fact."""
    policy: Any = None
    by: str | None = None


class ChildStarted(Activated, frozen=True, tag="child_started"):
    """A step is about to start another run."""

    child: str
    """The id of that run."""
    with_parent: bool = True
    """Whether it is cancelled when this run is."""


class Notified(Event, frozen=True, tag="notified"):
    """The callback for a run that has nothing left to do was called."""


class RunTakenOver(Event, frozen=True, tag="run_taken_over"):
    """
    An owner of the run has died without releasing it, and the present one is about to start something.

    It is written before the first start, so that a run that keeps killing its process is noticed; and before that, if
    the number of deaths has changed and nothing starts yet.
    """

    deaths: int
    """How many owners have died without progress; 0 if a person has resumed the run after it was parked."""
    epoch: int
    """
    The epoch of the last owner that has started something: the present one, or the one before, if the present one has
    only taken the run over.
    """
    component: str = ""
    """The component that is started first; empty if on_complete is called, or nothing is started yet."""
    at: float = 0.0
    """When, in seconds since the epoch."""


class RunFinished(Event, frozen=True, tag="run_finished"):
    """The caller said that no more input comes: the run finishes when nothing is left to do."""

    by: str | None = None


class ContinuedAsNew(Event, frozen=True, tag="continued_as_new"):
    """The run has ended, and another one continues from its state: *run* is the id of that one."""

    run: str
    by: str | None = None
    inputs: tuple[tuple[int, int], ...] = ()
    """The inputs that still waited: their ordinals here and in the new run."""


class ContinuedFrom(Event, frozen=True, tag="continued_from"):
    """The run continues another one, *run*; *keys* are the idempotency keys of inputs that were seen before."""

    run: str
    keys: tuple[str, ...] = ()
    signal_keys: tuple[tuple[str, str], ...] = ()
    """Names and idempotency keys of signals that were seen before."""


class LogTruncated(Event, frozen=True, tag="log_truncated"):
    """
    Stands, in a log that is read, for the events up to its number, which were removed.

    It is never stored and never folded: a store says by itself with which event a log begins.
    """


class StateCarried(Event, frozen=True, tag="state_carried"):
    """The run begins with *value* as the last one of *component*, whose state it is or which others read."""

    component: str
    value: Any
    key: Any = None
    """The key of the state, if the component keeps one per key."""
    done: bool = False
    """Whether the component, or what it does for this *key*, is complete."""

    @property
    def inputs(self) -> tuple[Address, ...]:
        """The facts of this run that it was computed from: there are none."""
        return ()

    @property
    def state(self) -> Any:
        """The value, as that of a state change."""
        return self.value

    @property
    def address(self) -> Address:
        """The address of the fact that it brought."""
        return self.seq


class RunCancelled(Event, frozen=True, tag="run_cancelled"):
    """
    The run was closed before it had done everything: nothing more happens, except that it is undone if *undo* says so.

    A second one, without *undo*, ends the undoing.
    """

    reason: str = ""
    by: str | None = None
    undo: bool = False
    """Whether compensations run, of this run and of the children that are cancelled with it."""
    stopped: tuple[tuple[str, tuple[Address, ...], int], ...] = ()
    """The runnables that were in flight and whose end has something to undo: component, inputs, attempt."""


class PolicyChanged(Event, frozen=True, tag="policy_changed"):
    """From here on these *rules* hold for the run, in place of all others."""

    rules: tuple[Any, ...]
    by: str | None = None


Positions = tuple[tuple[int, int], ...]
"""Positions in a log, as ranges: the first and the last of each."""


class RunRetried(Event, frozen=True, tag="run_retried"):
    """
    The failures at *failed* are tried again: each is a dead letter from its place on, and the events at *void*, which
    depended on the end of one of them, no longer count.
    """

    failed: tuple[int, ...]
    void: Positions = ()
    by: str | None = None


class RunForked(Event, frozen=True, tag="run_forked"):
    """
    The run is a fork of the run *origin*: the events before this one are those of *origin* up to *head*.

    The events at *edited* have *values* as their outcomes here; those at *void*, which depended on them, do not count.
    """

    origin: str
    head: int
    edited: tuple[int, ...] = ()
    values: Any = ()
    """A tuple, of a value, a collection, or whether a condition holds; of a state change, its state and its facts."""
    void: Positions = ()
    by: str | None = None


class RunUpgraded(Event, frozen=True, tag="run_upgraded"):
    """
    The run follows *workflow* from here on, and so do its inputs at *inputs*, from their beginning.

    The events at *void* have no place in the new graph, or depended on one that has none, and no longer count.
    """

    workflow: CompiledWorkflow
    inputs: tuple[int, ...] = ()
    void: Positions = ()
    by: str | None = None


class CodeChanged(Event, frozen=True, tag="code_changed"):
    """The code of *components* is not what it was: from here on the run follows *workflow*, the same graph."""

    components: tuple[str, ...]
    workflow: CompiledWorkflow


class RunImported(Event, frozen=True, tag="run_imported"):
    """The log up to here was read from a file, of the run *origin*; the hash chain in the file ends in *chain*."""

    origin: str
    chain: bytes
    redacted: tuple[str, ...] = ()
    """The values that were replaced when it was exported, in words."""
    by: str | None = None


REVISIONS = (RunRetried, RunForked, RunUpgraded)
"""The events after which others no longer count (ADR 32)."""

PRODUCTIONS = (ReactionOccurred, SignalTaken, TimerFired, CompletionReceived)
"""The events that are the one fact which a component has made of its inputs."""

Production = ReactionOccurred | SignalTaken | TimerFired | CompletionReceived

OUTSIDE = (TokenIssued, CompletionAwaited, FailureReceived, RunnableCancelled)
"""The events about the present attempt of an external step, or of one that was cancelled; other events end it."""

ENDINGS = (
    *(ReactionOccurred, FannedOut, StateChanged, ConditionEvaluated, RunnableFailed, RunnableSkipped),
    *(SignalTaken, TimerFired, CompletionReceived),
)
"""The events after which a runnable, or a wait, is no longer pending."""

NO_PROGRESS = (
    WorkflowDefined,
    ContinuedFrom,
    LogTruncated,
    StateCarried,
    InputReceived,
    RunFinished,
    CodeChanged,
    RunnableDispatched,
    RunnableDelayed,
    ChildStarted,
    SignalReceived,
    SignalRefused,
    TimerStarted,
    TokenIssued,
    RunTakenOver,
)
"""The events that an owner can write before it dies of what it starts: all others are progress."""

AnyEvent = (
    WorkflowDefined
    | ComponentAdded
    | ComponentRemoved
    | InputReceived
    | SignalReceived
    | SignalRefused
    | ReactionOccurred
    | FannedOut
    | StateChanged
    | SignalTaken
    | TimerStarted
    | TimerFired
    | TokenIssued
    | CompletionAwaited
    | CompletionReceived
    | FailureReceived
    | RunnableCancelled
    | ConditionEvaluated
    | RunnableDispatched
    | RunnableDelayed
    | AttemptFailed
    | RunnableFailed
    | RunnableSkipped
    | RunnableRetried
    | PolicyChanged
    | ChildStarted
    | Notified
    | RunTakenOver
    | RunFinished
    | ContinuedAsNew
    | ContinuedFrom
    | LogTruncated
    | StateCarried
    | RunCancelled
    | RunRetried
    | RunForked
    | RunUpgraded
    | CodeChanged
    | RunImported
)
