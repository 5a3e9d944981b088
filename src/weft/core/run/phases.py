"""
The three phases of a run: ``plan`` takes an input, ``prepare`` returns runnables, ``apply`` takes their outcomes.

Between the last two, the caller executes the runnables, anywhere.  Nothing here waits, sleeps or starts a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self, cast

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.components.map import elements_of
from weft.core.components.state_change import Ignored, StateChange
from weft.core.deferred import local
from weft.core.failure import describe, text_of
from weft.core.fold.fold import complete, fold, record
from weft.core.fold.scope import Activation, Key
from weft.core.graph.context_keys import missing_keys
from weft.core.plan.node import FunctionNode
from weft.core.run.external import await_completion
from weft.core.run.revisions import Revisions
from weft.core.run.runnable import Outcome, Runnable, RunnableRef, bind
from weft.core.run.texts import check_text_or_none
from weft.errors import (
    InvalidArgument,
    InvalidFallback,
    MissingContext,
    NotACollection,
    NoTransactions,
    UnknownRunnable,
    WeftError,
    shown,
)


class Phases(Revisions):
    """The methods that advance a run step by step."""

    __slots__ = ("_causes", "_checked", "_done", "context", "has_transactions", "is_driven")

    context: Mapping[str, Any]
    is_driven: bool
    has_transactions: bool
    """Whether a loop is at work on it."""
    _causes: dict[str, tuple[int, BaseException]] | None
    """By component: the position of its last failure, and the exception."""
    _checked: object
    """The plan whose context keys are known to be there."""
    _done: dict[Key, None] | None
    """The keys of what has ended, as far as the log was read for that."""

    @property
    def id(self) -> str:
        """The id of this run, part of every idempotency key."""
        return self.memory.run_id

    def plan(
        self,
        value: Any,
        *,
        key: str | None = None,
        deadline: float | None = None,
        at: float | None = None,
        last: bool = False,
        by: str | None = None,
        carrier: dict[str, str] | None = None,
    ) -> Self:
        """
        Take *value* as an input: nothing runs yet.

        Args:
            key: makes sending it twice harmless: an input with a key that this run has seen is ignored.
            deadline: seconds within which everything that follows from the input must be done.
            at: when it arrived, in seconds since the epoch; now, if not given.
            last: whether the run accepts no more input after it, and finishes when nothing is left to do.
            by: the name of the caller.
            carrier: text that telemetry has noted about the caller.
        """
        memory = self.memory
        if key is None or memory.keys is None or key not in memory.keys:
            if deadline is not None and not isinstance(deadline, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidArgument(f"deadline={deadline!r:.80}: use a number of seconds")
            if key is not None or by is not None:
                check_text_or_none("key", key)
                check_text_or_none("by", by)
            now = self._time() if at is None else at
            value, end = local().whole(value), None if deadline is None else now + deadline
            seq, ordinal = len(memory.log) + 1, memory.received + 1
            record(memory, ev.InputReceived(seq, value, ordinal, now, key, end, last, by, carrier))
        return self

    def _time(self) -> float:
        """Return the time, by the clock of the run or else by that of the system."""
        known = self.known_policies
        return cast("float", local().now() if known is None else known.clock.time())

    def prepare(self) -> list[Runnable]:
        """
        Return everything that can run now, each self-contained.  Calling it again changes nothing.

        Raises:
            MissingContext: a required context key was not given.
        """
        self.check_context()
        memory = self.memory
        if not self.is_driven:  # a loop that drives the run needs to know what became ready
            memory.newly_ready.clear()
        return [bind(activation, memory, self.context) for activation in memory.offered()]

    def runnable(self, ref: RunnableRef) -> Runnable:
        """
        Prepare the runnable that *ref* stands for again.

        Raises:
            UnknownRunnable: it is not ready in this run.
        """
        if not isinstance(ref, RunnableRef):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(f"runnable() takes what runnable.ref() returned, got {shown(ref)}")
        self.check_context()
        memory = self.memory
        activation = memory.at((ref.component, ref.inputs))
        if activation is None:
            raise UnknownRunnable(f"{ref.component!r} at {ref.inputs} is not ready in run {self.id!r}")
        return bind(activation, memory, self.context)

    def apply(self, outcome: Outcome) -> Self:
        """
        Take the *outcome* of a runnable back into the run; a second outcome of the same one changes nothing.

        Raises:
            UnknownRunnable: this run has never offered it.
        """
        memory = self.memory
        if not isinstance(outcome, Outcome):  # pyright: ignore[reportUnnecessaryIsInstance]
            hint = "apply the outcomes one by one" if isinstance(outcome, list) else "that is what execute() returns"
            raise InvalidArgument(f"apply() takes the outcome of a runnable, got {shown(outcome)}; {hint}")
        if outcome.run_id not in (None, self.id):
            raise UnknownRunnable(f"this outcome belongs to run {outcome.run_id!r}, not to {self.id!r}")
        key = (outcome.component, outcome.inputs)
        activation = memory.at(key)
        if activation is None:
            self._check_known(key)
        else:
            self.apply_outcome(activation, outcome)
        return self

    def apply_outcome(self, activation: Activation, outcome: Outcome) -> None:
        """Take the *outcome* of *activation*, which is ready, into the run."""
        if outcome.status == "completed":
            if outcome.added:
                try:
                    self.extend(outcome.added)
                except WeftError as error:
                    self.record_failure(activation, error, outcome.attempt, outcome.duration_ns, timing=outcome.timing)
                    return
            node = activation.node
            refused = None if not node.changes_state else _unfit(node, outcome.result)
            if refused is not None:
                self.record_failure(activation, refused, outcome.attempt, outcome.duration_ns, timing=outcome.timing)
            elif node.is_fan:
                self._complete(activation, outcome.result, outcome.attempt, outcome.duration_ns, outcome.timing)
            else:
                duration_ns, timing = outcome.duration_ns, outcome.timing
                complete(self.memory, activation, outcome.result, outcome.attempt, duration_ns, timing)
        elif outcome.status == "failed":
            cause = RuntimeError("failed without an error") if outcome.error is None else outcome.error
            attempt, duration_ns, timing = outcome.attempt, outcome.duration_ns, outcome.timing
            self.record_failure(activation, cause, attempt, duration_ns, outcome.on_failure, timing)
        elif outcome.status == "open":
            self._await_completion(outcome)
        else:
            seq, reason = len(self.memory.log) + 1, "" if outcome.error is None else text_of(outcome.error)
            record(
                self.memory, ev.RunnableSkipped(seq, *activation.key, reason, outcome.attempt, timing=outcome.timing)
            )

    def _await_completion(self, outcome: Outcome) -> None:
        """The function of an external step has returned: the step is open, and what the attempt added counts."""
        awaited = outcome.events[-1]
        assert isinstance(awaited, ev.CompletionAwaited)  # noqa: S101
        if outcome.added:
            self.extend(outcome.added)
        await_completion(self.memory, awaited, local().new_secret(), awaited.at)

    def _complete(
        self, activation: Activation, value: Any, attempt: int, duration_ns: int, timing: ev.Timing | None = None
    ) -> None:
        """Record that *activation* has produced *value*; a map whose fallback returned no collection has failed."""
        if activation.node.is_fan:
            try:
                value = elements_of(value, activation.node.name)
            except NotACollection as error:
                self.record_failure(activation, error, attempt, duration_ns, timing=timing)
                return
        complete(self.memory, activation, value, attempt, duration_ns, timing)

    def record_failure(
        self,
        activation: Activation,
        error: BaseException,
        attempts: int,
        duration_ns: int,
        on_failure: Literal["halt", "dead_letter", "compensate"] = "halt",
        timing: ev.Timing | None = None,
    ) -> None:
        """Record that *activation*, which is ready, has failed with *error*."""
        if activation.key not in self.memory.ready and activation.key not in (self.memory.waiting or ()):
            return  # it was removed from the run while it was in flight
        seq = len(self.memory.log) + 1
        if self._causes is None:
            self._causes = {}
        self._causes[activation.key[0]] = (seq, error)
        detail = describe(error)
        failed = ev.RunnableFailed(seq, *activation.key, detail, attempts, duration_ns, on_failure, timing)
        record(self.memory, failed)

    def record(self, events: Iterable[ev.AnyEvent | ev.RunnableCompleted]) -> Self:
        """
        Append *events* from elsewhere.

        Events of a log must follow those of this run.  Events of a policy driver (``outcome.events``) have no position
        yet and get the next ones; a completed runnable is recorded as the event of its component.

        Raises:
            InvalidEvent: an event that cannot have happened here.
            UnknownRunnable: a driver's event about work that this run has never offered.
        """
        memory = self.memory
        if not isinstance(events, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(f"record() takes a list of events, got {shown(events)}")
        for event in events:
            if isinstance(event, ev.Activated) and event.seq == 0:
                self._record_of_driver(event)
            else:
                fold(memory, [cast("ev.AnyEvent", event)])
        memory.newly_ready.clear()
        return self

    def _record_of_driver(self, event: ev.Activated) -> None:
        memory = self.memory
        key = (event.component, event.inputs)
        activation = memory.at(key)
        if activation is None:
            self._check_known(key)  # what has ended already is reported again: nothing changes
        elif isinstance(event, ev.RunnableCompleted):
            self._complete(activation, event.value, event.attempt, event.duration_ns)
        else:
            record(memory, cast("ev.AnyEvent", replace(event, seq=len(memory.log) + 1)))

    def record_dispatch(self, runnable: Runnable, policy: Any = None) -> Self:
        """Note in the log that *runnable* was handed to an executor, under *policy*."""
        memory, said = self.memory, None if policy is None else policy.data()
        event = ev.RunnableDispatched(len(memory.log) + 1, *runnable.key, runnable.attempt, said)
        record(memory, event)
        return self

    def pending_runnables(self) -> list[Runnable]:
        """Return the runnables that were dispatched and have no outcome."""
        pending = self.memory.dispatched or {}
        return [self.runnable(RunnableRef(*key)) for key in pending]

    def check_context(self) -> None:
        """Raise MissingContext if a required key was not given, NoTransactions if a step needs one and none is here."""
        memory = self.memory
        plan = memory.plan
        if plan.transactional and not self.has_transactions:
            raise NoTransactions(plan.transactional[0])
        if memory.needs_context and self._checked is not plan:
            missing = missing_keys(memory.needs_context, self.context)
            if missing:
                raise MissingContext(missing)
            self._checked = plan

    def _check_known(self, key: Key) -> None:
        if key not in self._finished():
            raise UnknownRunnable(f"run {self.id!r} has never offered {key[0]!r} at {key[1]}")

    def _finished(self) -> dict[Key, None]:
        """Return the keys of everything that has ended in this run; computed at the first call, and extended since."""
        if self._done is None:
            self._done = {}
        for event in self.memory.log[len(self._done) :]:
            key: Key = ("", (event.seq,))
            if isinstance(event, ev.ENDINGS):
                key = (event.component, event.inputs)
            self._done[key] = None
        return self._done


def _unfit(node: FunctionNode, result: Any) -> InvalidFallback | None:
    """Return what is wrong with a *result* of *node*, if that is a stateful component and this is not a decision."""
    if not node.changes_state or isinstance(result, StateChange | Ignored):
        return None
    return InvalidFallback(
        f"a fallback gave {node.name!r} the value {result!r:.60}; its state changes by its own functions alone: "
        "let it fail, skip it, or retry with other context"
    )
