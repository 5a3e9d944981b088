"""
A run: one execution of a workflow, with its definition and the memory that its events add up to.

    >>> from weft import Workflow, step
    >>> run = Workflow("w", step(lambda x: x * 2, name="double")).plan(21)
    >>> run.is_runnable
    True
    >>> [runnable] = run.prepare()
    >>> run.apply(runnable.execute()).value("double")
    42

A run is exactly the fold of its log: ``Run.from_log(run.log())`` equals it, and calls no user function.
Nothing here waits, sleeps or starts a thread; the methods that execute work hand it to ``weft.local``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Self

from weft.core import events as ev
from weft.core.compose.flow import NamedGraph
from weft.core.deferred import local
from weft.core.fold.event_equality import same_logs
from weft.core.fold.fold import fold, record
from weft.core.fold.memory import Memory
from weft.core.fold.merge import merge_logs
from weft.core.fold.scope import Key
from weft.core.graph.context_keys import over_defaults
from weft.core.lineage.fact import Fact
from weft.core.lineage.history import FACTS, PagedLog
from weft.core.plan.compiled_workflow import CompiledWorkflow
from weft.core.run.external import complete_outside, fail_outside, failure_from, parse_token, token_text
from weft.core.run.phases import Phases
from weft.core.run.queries import check_fact
from weft.core.run.texts import check_text_or_none
from weft.core.run.waits import begin_waits, fire_timer, receive_signal, timers
from weft.errors import (
    AlreadyRunning,
    InvalidArgument,
    InvalidEvent,
    InvalidToken,
    RunClosed,
    StepFailed,
    shown,
)
from weft.typing import Out_co, Status

Checkpoint = Callable[["Run"], None]
_NO_CONTEXT: Final[Mapping[str, Any]] = MappingProxyType({})
"""The context of all runs that have none."""


class Run(Phases, Generic[Out_co]):
    """One execution of a workflow."""

    __slots__ = ()

    if TYPE_CHECKING:  # typed here alone, so that reading it costs nothing more

        @property
        def output(self) -> Out_co:
            """The result of the workflow; see :meth:`Queries.output`."""
            ...

    def __init__(
        self,
        workflow: CompiledWorkflow,
        *,
        id: str | None = None,
        context: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        by: str | None = None,
    ) -> None:
        if not isinstance(workflow, NamedGraph):
            raise InvalidArgument(f"a run is of a workflow, got {workflow!r:.120}; make one: Workflow(name, ...)")
        if by is not None:
            check_text_or_none("by", by)
        self._begin(over_defaults(workflow.context, context or {}) if workflow.context else context)
        record(self.memory, ev.WorkflowDefined(1, local().new_run_id() if id is None else id, workflow, options, by))

    def _begin(self, context: Mapping[str, Any] | None, memory: Memory | None = None) -> None:
        self.memory = Memory() if memory is None else memory
        self.context = context or _NO_CONTEXT
        self._causes = self._done = self._checked = self.known_policies = None
        self.is_driven = self.has_transactions = False

    @classmethod
    def from_log(cls, log: Iterable[ev.AnyEvent], *, context: Mapping[str, Any] | None = None) -> Self:
        """
        Rebuild a run from its *log*.  No user function is called.

        Raises:
            InvalidEvent: the log is not the history of a run.
        """
        _check_log(log)
        run = cls.__new__(cls)
        run._begin(context)  # noqa: SLF001
        fold(run.memory, log)
        if not run.memory.log:
            raise InvalidEvent("an empty log is not a run")
        run.memory.newly_ready.clear()
        run.memory.newly_waiting = [waiting.activation for waiting in (run.memory.waiting or {}).values()]
        if run.memory.workflow.context:
            run.context = over_defaults(run.memory.workflow.context, run.context)
        return run

    @classmethod
    def from_memory(cls, memory: Memory, *, context: Mapping[str, Any] | None = None) -> Self:
        """Continue the run whose *memory* was restored from a snapshot.  No user function is called."""
        run = cls.__new__(cls)
        run._begin(context, memory)  # noqa: SLF001
        memory.newly_waiting = [waiting.activation for waiting in (memory.waiting or {}).values()]
        if memory.workflow.context:
            run.context = over_defaults(memory.workflow.context, run.context)
        return run

    # -- what it is ------------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """
        The status of the run: ``running`` while something can be done, ``waiting`` for time or a signal, else ``idle``.

        A run that accepts no more input is ``completed`` or ``failed`` when nothing is left to do.
        """
        return self.memory.status

    @property
    def is_runnable(self) -> bool:
        """Whether something can be done."""
        return self.memory.is_runnable

    @property
    def resident_facts(self) -> int:
        """How many facts are in memory; the others of a run that was resumed from a snapshot are in its store."""
        log: Any = self.memory.log
        return log.resident if isinstance(log, PagedLog) else sum(isinstance(event, FACTS) for event in log)

    async def load(self) -> Self:
        """
        Load everything that is not in memory.

        That is for a run from an ``AsyncRunner``, which cannot wait for the store when a value is asked for.
        """
        while (history := self.memory.lineage.history) is not None and not history.is_loaded:
            await history.load()  # the run may be evicted meanwhile, and have another history
        return self

    def log(self) -> list[ev.AnyEvent]:
        """
        Return everything that has happened, in order.

        If the log was truncated, the first event is ``LogTruncated``, whose number is that of the last event that was
        removed.
        """
        log: Any = self.memory.log
        return log.log() if isinstance(log, PagedLog) else list(log)

    def frozen_copy(self, status: Status | None = None) -> Run[Out_co]:
        """
        Return this run as it is now, to be read while the original continues; *status* is what its runner knows.

        The copy is frozen: every method that would change it raises RunFrozen.  Freezing costs the same for a long
        history as for a short one.
        """
        from weft.core.run.frozen import FrozenMemory

        return self._frozen(FrozenMemory(self.memory, status))

    def where(self, predicate: Callable[[Run], bool]) -> Run | None:
        """
        Return this run as it is now, frozen, if *predicate* holds for it; else None.

        The predicate gets the frozen run too; reading that costs as much as reading this one.
        """
        from weft.core.run.frozen import FrozenMemory

        seen = self._frozen(self.memory)
        try:
            return seen if predicate(seen) else None
        finally:
            seen.memory = FrozenMemory(self.memory)

    def _frozen(self, memory: Memory) -> Run:
        from weft.core.run.frozen import Frozen

        twin = Frozen.__new__(Frozen)
        twin._begin(self.context, memory)  # noqa: SLF001
        twin.is_driven, twin.has_transactions = True, self.has_transactions
        twin._causes = None if self._causes is None else self._causes.copy()  # noqa: SLF001
        return twin

    # -- running ---------------------------------------------------------------------------------

    def _check_idle(self) -> None:
        """Refuse an input, before it is recorded, if it could not be run now."""
        if self.is_driven:
            raise AlreadyRunning(self.id)
        self.check_context()

    def plan_eagerly(self, value: Any, *, key: str | None = None) -> Self:
        """Take *value* as an input and evaluate the conditions it reaches, without running anything else."""
        self.plan(value, key=key)
        local().evaluate(self)
        return self

    def react(self) -> Self:
        """Run everything that can run now, once: one cycle."""
        local().react(self)
        return self

    def react_until_satisfied(
        self,
        *,
        parallel: int | None = None,
        checkpoint: Checkpoint | None = None,
        raise_on_failure: bool = False,
    ) -> Self:
        """
        Run until there is nothing to do.

        It waits for sleeps to end, and not for signals: when all that is left waits for signals, it returns.

        Args:
            parallel: run up to this many at once; plain functions on threads, coroutines in one event loop.
            checkpoint: called with the run after every cycle.
            raise_on_failure: raise the first failure, as StepFailed, when there is nothing left to do.
        """
        local().drive(self, parallel=parallel, checkpoint=checkpoint, raise_on_failure=raise_on_failure)
        return self

    def run(
        self,
        value: Any,
        *,
        key: str | None = None,
        parallel: int | None = None,
        checkpoint: Checkpoint | None = None,
        raise_on_failure: bool = False,
        deadline: float | None = None,
    ) -> Self:
        """Take *value* as a further input and run until there is nothing to do."""
        self._check_idle()
        self.plan(value, key=key, deadline=deadline)
        return self.react_until_satisfied(parallel=parallel, checkpoint=checkpoint, raise_on_failure=raise_on_failure)

    async def arun(
        self,
        value: Any,
        *,
        key: str | None = None,
        parallel: int | None = None,
        checkpoint: Checkpoint | None = None,
        raise_on_failure: bool = False,
        deadline: float | None = None,
    ) -> Self:
        """Take *value* as a further input and run in the running event loop until there is nothing to do."""
        self._check_idle()
        self.plan(value, key=key, deadline=deadline)
        await local().adrive(self, parallel=parallel, checkpoint=checkpoint, raise_on_failure=raise_on_failure)
        return self

    # -- waiting ---------------------------------------------------------------------------------

    @property
    def waiting_for(self) -> list[str]:
        """The names of the components that wait for time, a signal or the outside, in order."""
        return self.memory.waiting_for

    @property
    def tokens(self) -> dict[str, str]:
        """The tokens that complete external steps of this run, and the component of each, in order."""
        return {token_text(self.id, secret): key[0] for secret, key in self.memory.tokens.items()}

    def signal(self, name: str, value: Any = None, *, key: str | None = None, by: str | None = None) -> Self:
        """
        Send the signal *name* to this run: the wait that has waited longest, of those it is for, takes it.

        A signal that comes before its wait is kept.  Nothing runs yet: ``react_until_satisfied`` goes on.

        Args:
            key: makes sending it twice harmless: a signal with a name and key that this run has seen is ignored.
            by: the name of the caller.

        Raises:
            UnknownSignal: no component waits for it.
            InvalidSignal: its value does not fit; the run has not changed.
            RunClosed: the run has finished.
        """
        status = self.status if self.memory.cancelled is None else "cancelled"
        if status in ("completed", "failed", "cancelled"):
            raise RunClosed(self.id, self.memory.cancelled or "", status=status)
        now = self._time()
        begin_waits(self, now)
        receive_signal(self, name, local().whole(value), at=now, key=key, by=by)
        return self

    def complete(self, token: str, value: Any = None, *, by: str | None = None) -> Self:
        """
        Complete the external step that *token* is for, with *value*; ``react_until_satisfied`` goes on.

        Args:
            by: the name of the caller.

        Raises:
            TokenExpired: it was used, or that attempt has ended otherwise.
            InvalidToken: this run has not issued it.
        """
        complete_outside(self.memory, self._secret(token), local().whole(value), at=self._time(), by=by)
        return self

    def fail(self, token: str, error: BaseException | str, *, by: str | None = None) -> Self:
        """
        Fail the attempt of the external step that *token* is for; its policy decides what follows.

        Args:
            error: an exception, or text that says what went wrong.
            by: the name of the caller.

        Raises:
            TokenExpired, InvalidToken: as :meth:`complete`.
        """
        fail_outside(self.memory, self._secret(token), failure_from(error), at=self._time(), by=by)
        return self

    def _secret(self, token: str) -> str:
        run_id, secret = parse_token(token)
        if run_id != self.id:
            raise InvalidToken(f"this is a token of run {run_id!r}, and not of {self.id!r}")
        return secret

    def fire_timers(self, now: float | None = None) -> Self:
        """
        End the sleeps, and the waits with a timeout, that are due at *now*, for a program that runs runnables itself.

        Timers start at the first call, and with :meth:`signal`; ``react_until_satisfied`` does all of this by itself.

        Args:
            now: in seconds since the epoch; the time of the run's clock if not given.
        """
        now = self._time() if now is None else now
        begin_waits(self, now)
        for key, due, _ in timers(self.memory):
            if due <= now:
                fire_timer(self, key, now)
        return self

    def feed_back(self, *facts: Fact) -> Self:
        """
        Send values that this run has produced to it as new inputs: *facts*, or the results of the last input.

        Nothing is fed back unless this is called, and restoring a run does not do it again.
        """
        if not facts:
            facts = tuple(self._results_of_last_input())
        for fact in facts:
            check_fact("feed_back", fact)
        for fact in facts:
            self.plan(fact.value)
        return self

    # -- advanced elsewhere -----------------------------------------------------------------------

    def merge(self, other: Run) -> Self:
        """
        Add the events of *other*, the same run advanced elsewhere, since the two diverged.

        Work that both have done counts once; inputs that only *other* has received become further inputs.
        """
        if not isinstance(other, Run):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(f"merge() takes a run, the same one advanced elsewhere, got {shown(other)}")
        merge_logs(self.memory, other.memory.log)
        return self

    # -- failures --------------------------------------------------------------------------------

    @property
    def failed(self) -> bool:
        """Whether some activation has failed.  A failure does not close the run."""
        return bool(self.memory.failures)

    @property
    def failures(self) -> dict[str, StepFailed]:
        """The last failure of each component that had one; the user's exception is its ``__cause__``."""
        found: dict[str, StepFailed] = {}
        for (name, _), event in (self.memory.failures or {}).items():
            found[name] = self.failure_of(event)
        return found

    def _cause_of(self, event: ev.RunnableFailed) -> BaseException:
        seq, cause = (self._causes or {}).get(event.component, (0, None))
        return super()._cause_of(event) if cause is None or seq != event.seq else cause

    @property
    def skipped(self) -> list[str]:
        """The components that were skipped, in the order of the first time."""
        return list(self.memory.skipped or ())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        mine, theirs = self.memory, other.memory
        return (
            same_logs(mine.log, theirs.log)
            and mine.open_all().keys() == theirs.open_all().keys()
            and (mine.blocked or {}).keys() == (theirs.blocked or {}).keys()
            and _waits(mine) == _waits(theirs)
            and (mine.signals or {}).keys() == (theirs.signals or {}).keys()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Run({self.workflow.name!r}, id={self.id!r}, {self.status}, {len(self.memory.log)} events)"


def _waits(memory: Memory) -> dict[Key, float | None]:
    """Return what waits, and until when."""
    return {key: waiting.due for key, waiting in (memory.waiting or {}).items()}


def _check_log(log: object) -> None:
    """Raise InvalidArgument unless *log* can be the events of a log."""
    given: Any = log  # what is still of any type after the check
    if isinstance(log, Run | str | bytes) or not isinstance(log, Iterable):
        hint = "pass run.log()" if isinstance(log, Run) else "weft.log.decode(data) makes them of bytes"
        raise InvalidArgument(f"from_log() takes the events of a log, got {shown(given)}; {hint}")
