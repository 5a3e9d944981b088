"""
All errors that this library raises on purpose, in one tree.

    WeftError
    ├── DefinitionError             the graph you wrote cannot work
    │   ├── CyclicWorkflow          a component would feed itself
    │   ├── DuplicateName           one name, two different components
    │   ├── InvalidComponent        a component that is invalid by itself
    │   ├── InvalidFragment         an operand of ``>>`` that cannot be composed
    │   ├── InvalidJoin             a join in an invalid place, or with too few parents
    │   ├── InvalidPolicy           a policy that is invalid, or cannot be honoured here
    │   ├── MixedRegions            a component both inside and outside an ``each``
    │   ├── MutualWait              components that read each other would wait forever
    │   ├── PortMismatch            the result of a component does not fit the next one
    │   ├── TracingError            a value was used while the graph was being drawn
    │   ├── UnknownComponent        no component has this name
    │   ├── UnknownReference        a parameter or a rule refers to an unknown name
    │   └── WrongArity              a function does not accept the values that reach it
    ├── ExecutionError              a component ran and did not succeed
    │   ├── BatchFailed             an element failed, so its reduce cannot run
    │   ├── CannotSpread            ``spread=True`` on a value that does not fit
    │   ├── ChangedArgument         a component changed a value that others share
    │   ├── CircuitOpen             a circuit breaker holds the component back
    │   ├── DeadlineExceeded        the deadline of the run or the component is past
    │   ├── DescribedError          an exception of another process, known by description
    │   ├── ExternalFailure         an external step failed outside
    │   ├── InvalidFallback         a fallback returned something that cannot be used
    │   ├── InvalidStateChange      a handler returned an invalid state change
    │   ├── InvalidWait             a function returned something that is not a time to sleep
    │   ├── LoopExhausted           ``repeat`` made all its turns without an end
    │   ├── NotACollection          ``each`` or ``reduce`` over something else
    │   ├── NotTransferable         a value cannot be sent to another process, or back
    │   ├── QueueTimeout            a component waited too long to be started
    │   ├── SignalTimeout           no signal came within the timeout of a wait
    │   ├── StepCancelled           a caller has cancelled the component
    │   ├── StepFailed              the last attempt failed; see ``__cause__``
    │   ├── StepTimeout             an attempt took longer than its policy allows
    │   │   └── SilentStep          an attempt sent no heartbeat
    │   ├── TransactionEnded        a step used its transaction after it had ended, or ended it itself
    │   │   ├── TransactionLost     the connection of a transaction was lost, or its commit has failed
    │   │   └── TransactionTimeout  a step had the only transaction of its store for too long
    │   └── WorkerDied              the process that ran the step has ended
    ├── ExecutorError               an executor cannot accept work
    │   ├── ClusterUnreachable      there is no cluster, or what it needs is not installed
    │   ├── ExecutorClosed          it is not open
    │   ├── ExecutorFull            its capacity is used up
    │   └── ThreadsExhausted        every thread is blocked in a step that was cancelled
    ├── RunError                    a run was asked for something it cannot do
    │   ├── AlreadyRunning          a run was driven from inside itself, or twice at once
    │   ├── HistoryNotLoaded        the beginning of a log is not in memory, and cannot be awaited here
    │   ├── HistoryTruncated        the beginning of a log was removed, and is needed
    │   ├── InvalidSignal           a signal does not fit what the run waits for
    │   ├── InvalidToken            a token that no run has issued
    │   │   └── TokenExpired        a token whose attempt has ended
    │   ├── MissingContext          a required context key is missing
    │   ├── NoRun                   a function that reads a run was called without one
    │   ├── NoRunner                a step tried to start a child run without a runner
    │   ├── NoSuchLetter            there is no such dead letter
    │   ├── NoStreams               a step writes a stream, and the store has no streams
    │   ├── NotInTransaction        a step that has the only transaction asks for more of the store
    │   ├── NoToken                 a step that is not external was asked for its token
    │   ├── NoTransactions          a step asks for a transaction, and the store has no transactions
    │   ├── NothingProduced         the component exists and has produced no value
    │   │   └── NoInput             a handle that belongs to no input was asked for its result
    │   ├── RunFrozen               a run from a runner can be read, not changed
    │   ├── StreamFull              a step writes faster than its stream is stored
    │   ├── UnknownRunnable         an outcome of work that this run never offered
    │   └── UnknownSignal           nothing in the workflow waits for such a signal
    ├── LogError                    a log that is not the history of a run
    │   ├── CorruptLog              bytes that are not a log, or were altered
    │   └── InvalidEvent            an event that cannot have happened here
    ├── RunnerError                 a runner was asked for something it cannot do
    │   ├── AnotherGraph            a run was resumed with a workflow that it does not follow
    │   ├── Interrupted             code in the runner's event loop cancelled a call
    │   ├── InvalidOption           an invalid option
    │   ├── NoSnapshot              a run has no snapshot to be restored from
    │   ├── NotPortable             another process could not find parts of the run
    │   ├── RedactedRun             values of an imported run were replaced, so it cannot continue
    │   ├── RunBusy                 a run has something left to do
    │   ├── RunClosed               a run that has finished accepts nothing more
    │   ├── RunFailed               something failed and was not handled
    │   ├── RunNotHeld              a run is stored, and this runner does not drive it
    │   ├── RunParked               a run was set aside until a person resumes it
    │   ├── RunnerClosed            the runner is not open
    │   ├── ScheduleNotFound        no schedule is stored under this name
    │   ├── JobNotFound             no job is stored under this id
    │   ├── JobTimeout              a job has not ended within the timeout
    │   ├── UnknownWorkflow         no workflow of this name was added to the registry
    │   ├── WaitTimeout             the run was not done within the timeout
    │   ├── WorkerNotFound          no worker of this id is alive
    │   └── WorkersEnded            none of the processes of a supervisor can be started
    ├── TelemetryError              a handler cannot be attached
    │   ├── AlreadyInstrumented     a bridge to another library is in use
    │   ├── DuplicateHandler        one id, two handlers
    │   └── UnknownTelemetryEvent   no event has this name
    ├── StoreError                  a store could not do what was asked
    │   ├── BrokenChain             the hash chain does not end as its writer expects
    │   ├── ConcurrentAppend        the log has grown since it was read
    │   ├── CorruptStore            stored data is damaged
    │   │   ├── DamagedRow          a column holds an impossible value
    │   │   ├── LostCommits         the last commit is missing
    │   │   └── StoreRemoved        the file of an open store was removed
    │   ├── ForeignStore            a file that Weft did not create
    │   ├── InvalidAppend           an append that is invalid for every run
    │   ├── InvalidStoreOption      a store with impossible options
    │   ├── MissingContent          a value or a definition that was never stored
    │   ├── NewerStore              a store that a newer Weft has written
    │   ├── OwnershipLost           another process has taken the run over
    │   ├── ReadOnlyStore           a store that cannot be written to
    │   ├── RunExists               the id is taken
    │   ├── UniqueKeyTaken          an unfinished run of the workflow has the unique key
    │   ├── RunNotFound             no run is stored under this id
    │   │   └── RunReplaced         the run of a handle was deleted, and another one has its id
    │   ├── RunOwned                another living process owns the run
    │   ├── ShardsChanged           the databases that were named are not those of the fleet
    │   ├── StoreClosed             the store is not open
    │   ├── StoreNotFound           there is no store at this path
    │   ├── StoreUnavailable        not now: busy, locked, or a failing disk
    │   │   └── StoreFull           no space is left
    │   ├── UnwrittenEvents         a runner was closed and could not write everything
    │   └── WrongLoop               an open store was used from another event loop
    ├── CommandError                a command line that cannot be executed
    │   ├── CodeNotImported         a run needs functions that were not imported
    │   ├── ContextNotFound         ``--context`` does not name a mapping
    │   ├── ImportFailed            a module cannot be imported
    │   ├── StoreNotNamed           a command names no store to work on
    │   └── WorkflowNotFound        a module has no workflow of this name
    ├── ResolutionError             a stored definition does not fit the code of this process
    │   ├── ChangedCode             a function has changed since the log was written
    │   ├── UnknownClass            a run has values of a class that this process does not know
    │   └── UnresolvedFunction      a function cannot be found again
    │       └── UnresolvedConstant  a bound constant was not written
    ├── InvalidArgument             an argument of the wrong kind
    ├── Stuck                       all tasks wait forever, in a test on virtual time
    ├── DurabilityBroken            a workflow had another outcome after a fault, in a test
    ├── UnencodableValue            a value that cannot be written to a log
    ├── InvalidDrawing              an unknown direction or kind of picture
    └── UnidentifiableValue         a value without a canonical form has no hash

A caller can catch errors at three levels: the library, the group, the single case.
Where a builtin exception has the same meaning, the class is a subclass of it too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

_MOST_NAMED = 5
"""How many runs an error names."""


class WeftError(Exception):
    """Base of every error that Weft raises on purpose."""


# -- definitions ---------------------------------------------------------------------------------


class DefinitionError(WeftError, ValueError):
    """The graph that was written cannot work."""


class CyclicWorkflow(DefinitionError):
    """The edges of a workflow form a cycle."""

    def __init__(self, workflow: str, cycle: Sequence[str], repeated: str | None = None) -> None:
        """
        Name the *cycle* of *workflow*.

        Args:
            repeated: the component that was written twice in one chain, if that is the reason for the cycle.
        """
        at = 0 if repeated is None else cycle.index(repeated)
        self.cycle = (*cycle[at:], *cycle[:at])
        path = " -> ".join([*self.cycle, self.cycle[0]])
        text = f"workflow {workflow!r} has a cycle: {path}; "
        advice = "remove one of these edges, or feed the result back as a new input (Run.feed_back)"
        if repeated is not None:
            graph = repeated.rpartition(".")[0]
            twice, other = (graph, f"{graph}.renamed") if graph else (repeated, f"{repeated}.named")
            text = f"{twice!r} appears twice in a chain of workflow {workflow!r}: {path}; "
            advice = (
                f"both places are the same component, which would feed itself: write {other}('other') in the second "
                "one, or repeat(...) for a loop"
            )
        super().__init__(text + advice)


class DuplicateName(DefinitionError):
    """Two different components have the same name."""

    def __init__(self, name: str, difference: str) -> None:
        super().__init__(
            f"two different components are called {name!r} ({difference}); "
            f"give one of them another name: component.named('other')"
        )
        self.name = name


class InvalidComponent(DefinitionError):
    """A component that is invalid by itself, whatever it is wired to."""


class InvalidFragment(DefinitionError, TypeError):
    """An operand of a composition is not a component, a workflow or a list of these."""


class InvalidJoin(DefinitionError):
    """A join in a place that does not allow one, or with too few parents."""


class InvalidPolicy(DefinitionError):
    """A policy that is invalid, or that cannot be honoured where the run is executed."""


class MixedRegions(DefinitionError):
    """A component would be both inside and outside an ``each``, or inside two of them."""


class MutualWait(DefinitionError):
    """Components that read each other would wait for each other forever."""

    def __init__(self, cycle: Sequence[str]) -> None:
        path = " -> ".join([*cycle, cycle[0]])
        super().__init__(
            f"these components wait for each other: {path}; each reads a value that another one "
            "produces for the same input; feed one of them into the other with >> instead"
        )
        self.cycle = tuple(cycle)


class PortMismatch(DefinitionError, TypeError):
    """The result type of *source* does not fit the parameter of *target*."""

    def __init__(self, source: str, gives: str, target: str, takes: str) -> None:
        super().__init__(
            f"{source} produces {gives}, and {target} takes {takes}; put a step between them that converts it, "
            "correct the wrong annotation, or pass Workflow(..., validate='warn') or 'off'"
        )
        self.source, self.gives, self.target, self.takes = source, gives, target, takes


class TracingError(DefinitionError, TypeError):
    """Inside ``@workflow``, code used a value that exists only when the workflow runs, or a call cannot be drawn."""


class UnknownComponent(DefinitionError, LookupError):
    """The workflow has no component of this name."""

    def __init__(self, name: str, known: Iterable[str], where: str, what: str = "component") -> None:
        listed = _known(known) if what == "component" or known else ""
        super().__init__(f"no {what} {name!r} in {where}{listed}")
        self.name = name


class UnknownReference(DefinitionError, LookupError):
    """A parameter or a rule refers to a component that the workflow does not have."""

    def __init__(self, component: str, reference: str, target: str, known: Collection[str], hint: str) -> None:
        has = _known(known) if known else ""
        super().__init__(f"{component!r} refers to {reference} {target!r}, {hint}{has}")
        self.component, self.target = component, target


class WrongArity(DefinitionError, TypeError):
    """A function does not accept the number of values that reach it."""


# -- execution -----------------------------------------------------------------------------------


class ExecutionError(WeftError):
    """A component ran and did not succeed."""


class StepFailed(ExecutionError):
    """*component* failed, after *attempts*; its own exception is the ``__cause__``."""

    def __init__(self, component: str, attempts: int, kind: str, message: str) -> None:
        tries = "" if attempts <= 1 else f" after {attempts} attempts"
        super().__init__(f"{component!r} failed{tries}: {kind.rpartition('.')[2]}{': ' + message if message else ''}")
        self.component, self.attempts = component, attempts


class DescribedError(ExecutionError):
    """Represents an exception whose class this process does not know; it has its *kind* and *message*."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message
        self.detail: object = None
        """More about the exception, if it is known."""
        self.original_args: tuple[object, ...] | None = None
        """The ``args`` of the exception, if it was a value and they were data."""


class ChangedArgument(ExecutionError):
    """*component* has changed an argument, at *path*, which the log and other components share."""

    def __init__(self, component: str, path: str) -> None:
        super().__init__(
            f"{component!r} has changed its argument at {path}, which the log and other components share; change a "
            "copy, such as [*items, item], {**fields, key: value} or copy.deepcopy(...), and return that"
        )
        self.component, self.path = component, path


class LoopExhausted(ExecutionError):
    """A loop made all its turns, and its ``until`` was never true."""


class NotACollection(ExecutionError, TypeError):
    """A value that was to be taken apart, or reduced, is not a collection."""


class CannotSpread(ExecutionError, TypeError):
    """A value cannot be spread over the parameters of a function."""


class QueueTimeout(ExecutionError, TimeoutError):
    """The component waited too long to be started."""

    def __init__(self, component: str, seconds: float) -> None:
        super().__init__(
            f"{component!r} was not started within {seconds:g} s of being ready (queue_timeout); "
            "raise max_concurrency or the size of its executor, or let it wait longer"
        )
        self.component, self.seconds = component, seconds


class StepTimeout(ExecutionError, TimeoutError):
    """An attempt took longer than *seconds*."""

    def __init__(self, component: str, seconds: float) -> None:
        super().__init__(f"{component!r} took longer than its timeout of {seconds:g} s")
        self.component, self.seconds = component, seconds


class TransactionEnded(ExecutionError):
    """A step used its transaction after it had ended, or committed or rolled it back itself."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the transaction of the step has ended: {reason}")


class TransactionTimeout(TransactionEnded, TimeoutError):
    """A step had the only transaction of its store for longer than *seconds*."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"it was rolled back after {seconds:g} s, because nothing else could be written to the store meanwhile; do "
            "the slow part in an earlier step, or use SQLiteStore(..., transaction_timeout=...)"
        )
        self.seconds = seconds


class TransactionLost(TransactionEnded):
    """The connection of a transaction was lost, or its commit has failed: nothing of it was written."""


class SignalTimeout(ExecutionError, TimeoutError):
    """The *signal* that *component* waited for did not come within *seconds*."""

    def __init__(self, component: str, signal: str, seconds: float) -> None:
        super().__init__(f"{component!r} waited {seconds:g} s for the signal {signal!r}, which did not come")
        self.component, self.signal, self.seconds = component, signal, seconds


class StepCancelled(ExecutionError):
    """A caller has cancelled *component*, for *reason*."""

    def __init__(self, component: str, reason: str = "", by: str | None = None) -> None:
        text = f"{component!r} was cancelled" + ("" if by is None else f" by {by}")
        super().__init__(f"{text}: {reason}" if reason else text)
        self.component, self.reason, self.by = component, reason, by


class ExternalFailure(ExecutionError):
    """An external step has failed outside; the text says why."""


class InvalidWait(ExecutionError, ValueError):
    """The function that decides how long *component* sleeps returned something that is not a time."""

    def __init__(self, component: str, given: object, hint: str) -> None:
        super().__init__(f"{component!r} cannot sleep: its function returned {shown(given)}; {hint}")
        self.component = component


class SilentStep(StepTimeout):
    """An attempt sent no heartbeat for *seconds*."""

    def __init__(self, component: str, seconds: float) -> None:
        super().__init__(component, seconds)
        hint = "call weft.current().heartbeat() more often, or allow more time"
        self.args = (f"{component!r} sent no heartbeat for {seconds:g} s; {hint}",)


class DeadlineExceeded(ExecutionError, TimeoutError):
    """The deadline of a run or a component is past, or would be before the next attempt."""

    def __init__(self, component: str) -> None:
        super().__init__(f"{component!r} ran into its deadline; no further attempt is made")
        self.component = component


class CircuitOpen(ExecutionError):
    """The component was not called because the circuit breaker *name* is open."""

    def __init__(self, component: str, name: str) -> None:
        super().__init__(f"{component!r} was not called: the circuit breaker {name!r} is open")
        self.component, self.name = component, name


class InvalidFallback(ExecutionError, TypeError):
    """A fallback returned neither a Value, nor a RetryWith, nor a runnable."""


class InvalidStateChange(ExecutionError, TypeError):
    """A handler returned something that is not a state change, or a stored state does not fit the definition."""


class BatchFailed(ExecutionError):
    """Elements of a batch failed, so the batch is incomplete and cannot be reduced."""


class WorkerDied(ExecutionError):
    """The process that ran *component* has ended; *exitcode* is its exit status, negative for a signal."""

    def __init__(self, component: str, exitcode: int | None, how: str, hint: str) -> None:
        super().__init__(f"the worker process of {component!r} {how}; {hint}")
        self.component, self.exitcode = component, exitcode


class NotTransferable(ExecutionError, TypeError):
    """*what* of *component* cannot be sent to another process, or back from it."""

    def __init__(self, component: str, what: str, why: str, hint: str) -> None:
        super().__init__(f"{component!r} cannot run in another process: {what} cannot be sent ({why}); {hint}")
        self.component, self.what = component, what


# -- executors -----------------------------------------------------------------------------------


class ExecutorError(WeftError):
    """An executor cannot accept work."""


class ExecutorFull(ExecutorError):
    """The capacity of *executor* is used up."""

    def __init__(self, executor: str, capacity: int) -> None:
        super().__init__(f"{executor} holds {capacity} tickets, its capacity; call collect() first, and check free")
        self.executor, self.capacity = executor, capacity


class ExecutorClosed(ExecutorError):
    """*executor* has not been opened yet, or is closed already."""

    def __init__(self, executor: str, state: str) -> None:
        super().__init__(f"this {executor} {state}; make a new one for every runner, which opens it once")
        self.executor = executor


class ClusterUnreachable(ExecutorError):
    """The cluster of *executor* cannot be used."""

    def __init__(self, executor: str, why: str, hint: str) -> None:
        super().__init__(f"{executor} cannot use its cluster: {why}; {hint}")
        self.executor = executor


class ThreadsExhausted(ExecutorError):
    """Every thread is still blocked in a step that was cancelled, most likely at its timeout."""

    def __init__(self, left: int) -> None:
        super().__init__(
            f"{left} threads are still blocked in cancelled steps, so no thread is left; put a timeout on what these "
            "steps wait for, or run them on the process executor, which can stop them"
        )
        self.left = left


# -- runs ----------------------------------------------------------------------------------------


class RunError(WeftError):
    """A run was asked for something that it cannot do."""


class AlreadyRunning(RunError):
    """A run that is already running was asked to run again: by one of its own steps, or by another thread."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"run {run_id!r} is running already; from one of its steps, send more input with run.plan(...), "
            "which is processed when the step has ended"
        )
        self.run_id = run_id


class HistoryNotLoaded(RunError):
    """The beginning of the log of a run is only in the store, and the caller cannot wait for it there."""

    def __init__(self, run_id: str, first: int | None = None, last: int | None = None) -> None:
        super().__init__(
            f"the beginning of the log of run {run_id!r} is not in memory, and the event loop of its runner cannot "
            "wait for the store here; await run.load() first, or resume the run with rehydration='full'"
        )
        self.run_id, self.first, self.last = run_id, first, last


class HistoryTruncated(RunError):
    """The log of a run was truncated: the events before number *first* were removed, and one of them is needed."""

    def __init__(self, run_id: str, first: int) -> None:
        super().__init__(
            f"the log of run {run_id!r} was truncated and begins with event {first}: whatever needs earlier events "
            "cannot be answered or done any more; its present state, its results and all later events can be read"
        )
        self.run_id, self.first = run_id, first


class RunFrozen(RunError):
    """
    *method*, or setting the attribute *method*, would change a frozen run.

    *instead* is what to call, with the id of the run in place of ``{id}``.
    """

    def __init__(self, run_id: str, method: str, instead: str = "", *, is_attribute: bool = False) -> None:
        advice = instead.replace("{id}", repr(run_id)) or "call the runner that drives it"
        action = f"setting {method}" if is_attribute else f"{method}()"
        super().__init__(
            f"{action} would change run {run_id!r}, which is frozen: it shows the run as it was when it was "
            f"returned; {advice}, or make your own copy from its log: Run.from_log(run.log())"
        )
        self.run_id, self.method = run_id, method


class MissingContext(RunError, LookupError):
    """A context key without a default is missing."""

    def __init__(self, missing: Iterable[tuple[str, str]]) -> None:
        self.missing = tuple(missing)
        keys = ", ".join(f"{key!r} (for {component})" for component, key in self.missing)
        example = self.missing[0][1]
        super().__init__(
            f"required context is missing: {keys}; pass context={{{example!r}: ...}}, "
            f"or declare a default: context({example!r}, default=...)"
        )


class NoRun(RunError):
    """A function whose parameters read a run was called without a run."""


class NoRunner(RunError):
    """A step tried to start a child run without a runner."""

    def __init__(self, component: str) -> None:
        super().__init__(
            f"{component!r} cannot start a child run without a runner: start its run with Runner or "
            "AsyncRunner, and let the component run on a thread or as a coroutine, not in another process"
        )
        self.component = component


class NoStreams(RunError):
    """A step writes to a stream, or a caller reads one, and the store has no streams."""

    def __init__(self, store: str) -> None:
        super().__init__(f"{store} keeps no streams; use a store of weft.stores, or implement StreamStore")


class NoTransactions(RunError):
    """A step asks for a transaction, and its run is in memory, or its store has no transactions."""

    def __init__(self, component: str) -> None:
        super().__init__(
            f"{component!r} asks for a transaction (transaction()), and its run has no store that offers one: start "
            'the run with Runner("runs.db") or Runner("postgresql://..."); in a test call the function itself, and '
            "pass your own object for the parameter"
        )
        self.component = component


class NotInTransaction(RunError):
    """A step that has the only transaction of its store asks for something that would have to wait for it."""

    def __init__(self, component: str, what: str) -> None:
        super().__init__(
            f"{component!r} cannot {what} while it has the transaction of a SQLite store, in which nothing else is "
            "written meanwhile; do it in a step before or after it"
        )
        self.component = component


class StreamFull(RunError):
    """Too many items of a stream are not stored yet, and the thread of the event loop cannot wait."""

    def __init__(self, stream: str) -> None:
        super().__init__(
            f"the stream {stream!r} has too many items that are not stored yet; write from a coroutine with "
            "`await stream.drain()` now and then, or let the step run on a thread"
        )
        self.stream = stream


class NoToken(RunError):
    """A step asked for its token, and its policy does not say that it is completed from outside."""

    def __init__(self, component: str) -> None:
        super().__init__(
            f"{component!r} has no token: its policy does not say execution_mode='external', or it was executed by a "
            "program that prepares runnables itself; give it Policy(execution_mode='external'), and let Weft execute it"
        )
        self.component = component


class InvalidToken(RunError, LookupError):
    """A token that no run has issued."""


class TokenExpired(InvalidToken):
    """A token that is no longer valid: it was used, or its attempt has ended for another reason."""

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"this token of run {run_id!r} is no longer valid: {why}")
        self.run_id, self.why = run_id, why


class NoSuchLetter(RunError, LookupError):
    """No dead letter of this run fits; *halted* names the components whose failures were not kept as one."""

    def __init__(self, which: object, kept: Sequence[str], halted: Sequence[str] = ()) -> None:
        known = f"there are letters of {', '.join(dict.fromkeys(kept))}" if kept else "this run has none"
        asked = "" if which is None else f" {which!r}"
        what = "run.dead_letters lists them"
        if halted:
            failed = ", ".join(map(repr, dict.fromkeys(halted)))
            what = f"the failure of {failed} halted it: retry() runs it again, and there is nothing to discard"
        super().__init__(f"no dead letter{asked}: {known}; {what}")
        self.which, self.halted = which, tuple(halted)


class InvalidSignal(RunError, ValueError):
    """The *signal* was refused, for *reason*; the run has not changed."""

    def __init__(self, signal: str, reason: str, hint: str = "") -> None:
        super().__init__(f"the signal {signal!r} was refused: {reason}{f'; {hint}' if hint else ''}")
        self.signal, self.reason = signal, reason


class UnknownSignal(RunError, LookupError):
    """Nothing in the run waits for a signal of this name, or ever will."""

    def __init__(self, signal: str, run_id: str, known: Iterable[str]) -> None:
        listed = ", ".join(map(repr, sorted(known)))
        waits = f"it waits for {listed}" if listed else "no component of it waits for signals; wait_for(...) makes one"
        super().__init__(f"run {run_id!r} does not wait for a signal {signal!r}; {waits}")
        self.signal = signal


class NothingProduced(RunError, LookupError):
    """The component exists, and has produced nothing in this run."""

    def __init__(self, name: str, reason: str, advice: str = "") -> None:
        super().__init__(f"{repr(name) if name else 'the run'} has produced nothing: {reason}{advice}")
        self.name, self.reason = name, reason


class NoInput(NothingProduced):
    """A handle that belongs to no input of its run was asked for a result."""

    def __init__(self, run_id: str) -> None:
        reason = f"this handle of run {run_id!r} belongs to no input, and a result belongs to one"
        RunError.__init__(
            self, f"{reason}; use the handle that send() returned, or runner.result({run_id!r}) for the last input"
        )
        self.name, self.reason, self.run_id = "result", reason, run_id


class UnknownRunnable(RunError, LookupError):
    """An outcome belongs to work that this run never offered."""


# -- runners -------------------------------------------------------------------------------------


class RunnerError(WeftError):
    """A runner was asked for something that it cannot do."""


class InvalidOption(RunnerError, ValueError):
    """An option is invalid."""


class AnotherGraph(RunnerError):
    """The workflow that was passed has another graph than the run follows."""

    def __init__(self, run_id: str, workflow: str) -> None:
        super().__init__(
            f"run {run_id!r} follows another graph than the workflow {workflow!r} that was passed: "
            f"upgrade({run_id!r}, workflow, preview=True) says what is kept and what runs again, and upgrade() "
            "does it; resume() without a workflow continues the run as it is"
        )
        self.run_id, self.workflow = run_id, workflow


class RedactedRun(RunnerError):
    """Values of the run were replaced when it was exported, so it cannot continue."""

    def __init__(self, run_id: str, redacted: Sequence[str]) -> None:
        super().__init__(
            f"run {run_id!r} was imported without some of its values ({', '.join(redacted)}), and cannot continue with "
            f"their placeholders; read it, or fork({run_id!r}, at=..., value=...) it at a place that has its values"
        )
        self.run_id, self.redacted = run_id, tuple(redacted)


class RunnerClosed(RunnerError):
    """The runner is not open: it was closed (*again*), or never opened; a *blocking* one is opened by ``with``."""

    def __init__(self, *, again: bool = False, blocking: bool = False) -> None:
        opening = "with Runner(...)" if blocking else "async with AsyncRunner(...)"
        unopened = f"is not open; use `{opening} as runner:`, or open() it first"
        super().__init__(f"this runner {'was closed and stays closed; create a new one' if again else unopened}")


class Interrupted(RunnerError):
    """Code that runs in the event loop of a blocking runner has cancelled a call of another thread."""

    def __init__(self) -> None:
        super().__init__(
            "a coroutine in this runner's event loop cancelled this call (asyncio.all_tasks() names every task there, "
            "including those of the runner); call again, and let that coroutine cancel only its own tasks"
        )


class NoSnapshot(RunnerError):
    """The log of the run *run_id* cannot be truncated: it has no snapshot to be restored from, for this *reason*."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(
            f"run {run_id!r} has no snapshot that covers its history: {reason}; give it snapshot_every= (start, "
            "resume or the runner), and try again after that many more events"
        )
        self.run_id, self.reason = run_id, reason


class NotPortable(RunnerError):
    """Some parts of a run could not be found again by another process."""

    def __init__(self, workflow: str, parts: Sequence[str], count: int) -> None:
        more = f" and {count - len(parts)} more" if count > len(parts) else ""
        super().__init__(
            f"another process could not find {', '.join(parts)}{more} of workflow {workflow!r} again; define functions "
            "at the top level of a module, read other things with context(...), or pass the workflow again: "
            "resume(id, workflow=...), register(workflow)"
        )
        self.workflow, self.parts = workflow, list(parts)


class RunNotHeld(RunnerError, LookupError):
    """The run is stored, and this runner does not drive it."""

    def __init__(self, run_id: str, owner: str | None = None, *, owner_died: bool = False) -> None:
        hint = f"resume({run_id!r}) it first"
        if owner_died:
            hint = f"the process that drove it has died: {hint}"
        elif owner is not None:
            hint = f"{owner} owns it: use it there, or resume({run_id!r}) it if that has ended"
        super().__init__(f"run {run_id!r} is stored, and this runner does not drive it; {hint}")
        self.run_id, self.owner = run_id, owner


class RunParked(RunnerError):
    """The run was set aside until a person resumes it."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(f"run {run_id!r} is parked: {reason}; resume({run_id!r}) tries again")
        self.run_id, self.reason = run_id, reason


class RunBusy(RunnerError):
    """The run *run_id* has something left to do, which is the *reason* why it cannot be *wanted*."""

    def __init__(self, run_id: str, reason: str, wanted: str = "continued as a new one") -> None:
        super().__init__(f"run {run_id!r} cannot be {wanted}: {reason}")
        self.run_id = run_id


class RunFailed(RunnerError):
    """Something failed and was not handled; *failures* has every failure, *results* every result that there is."""

    def __init__(self, run_id: str, failures: Mapping[str, StepFailed], results: Mapping[str, object]) -> None:
        first = next(iter(failures.values()))
        more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        super().__init__(f"run {run_id!r}: {first}{more}")
        self.run_id, self.failures, self.results = run_id, dict(failures), dict(results)


class RunClosed(RunnerError):
    """The run accepts nothing more: it has finished, or finishes as soon as nothing is left to do."""

    def __init__(self, run_id: str, reason: str = "", *, status: str = "cancelled") -> None:
        if status == "cancelled":
            why = f"was cancelled ({reason or 'no reason given'}) and accepts nothing more; start another one"
        elif status in ("completed", "failed"):
            why = f"has {status}{f' ({reason})' * (status == 'completed' and bool(reason))} and accepts nothing more"
            why += f"; retry({run_id!r}) runs again what failed" if status == "failed" else "; start another one"
        else:
            why = "finishes with the input that it has; start(..., open=True) keeps a run open for more"
        super().__init__(f"run {run_id!r} {why}")
        self.run_id, self.reason, self.status = run_id, reason, status


class WorkerNotFound(RunnerError, LookupError):
    """No living worker of the fleet has this name."""

    def __init__(self, worker: str) -> None:
        super().__init__(f"no worker {worker!r} is alive; `weft workers` shows those that are")
        self.worker = worker


class WorkersEnded(RunnerError):
    """Every process of a supervisor has ended with an error several times in a row."""

    def __init__(self, count: int) -> None:
        super().__init__(f"none of the {count} workers could be started; their output is above")


class ScheduleNotFound(RunnerError, LookupError):
    """No schedule is stored under this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no schedule {name!r} is stored here; schedules() lists those that exist")
        self.name = name


class JobNotFound(RunnerError, LookupError):
    """No job is stored under this id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"no job {job_id!r} is stored here; jobs() lists those that exist")
        self.job_id = job_id


class JobTimeout(RunnerError, TimeoutError):
    """The job has not ended within the timeout; it continues."""

    def __init__(self, job_id: str, seconds: float, state: str, visited: int, matched: int, why: str) -> None:
        super().__init__(
            f"job {job_id!r} is still {state} after {seconds:g} s, at {visited:,} of {matched:,} runs: {why}; wait "
            "longer, or watch_job() it"
        )
        self.job_id, self.seconds, self.state = job_id, seconds, state


class UnknownWorkflow(RunnerError, LookupError):
    """No workflow of this name was added to the registry of this process."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"no workflow {name!r} was added to weft.registry{_known(known)}; import its module first")
        self.name = name


class WaitTimeout(RunnerError, TimeoutError):
    """The run was not settled within the timeout; *diagnose* says what it is waiting for."""

    def __init__(self, run_id: str, seconds: float, state: str, diagnose: str = "", *, is_here: bool = True) -> None:
        is_done = is_here and state in ("idle", "completed", "failed")
        still = "has nothing left to do and is not settled" if is_done else f"is still {state}"
        why = f": {diagnose}" if diagnose else ""
        super().__init__(f"run {run_id!r} {still} after {seconds:g} s{why}; wait longer, or look at its log()")
        self.run_id, self.seconds, self.state, self.diagnose = run_id, seconds, state, diagnose


# -- the command line ----------------------------------------------------------------------------


class CommandError(WeftError):
    """A command on the command line cannot be executed."""


class ImportFailed(CommandError):
    """The module *name* cannot be imported: it is not found, or it raises something."""

    def __init__(self, name: str, error: BaseException, *, is_found: bool) -> None:
        advice = "; name a module as `import` would, and run the command in the folder that it is in"
        super().__init__(f"cannot import {name!r}: {type(error).__name__}: {error}{'' if is_found else advice}")
        self.name = name


class ContextNotFound(CommandError, LookupError):
    """The object that ``--context`` names is neither a mapping nor a function that returns one."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"--context {where}: {reason}; name a mapping of context keys to values, or a function that returns one, "
            "as MODULE:NAME"
        )
        self.where = where


class StoreNotNamed(CommandError, LookupError):
    """Neither ``--store`` nor the environment nor a TOML file names a store."""

    def __init__(self) -> None:
        super().__init__(
            'which store? say --store runs.db (or postgresql://...), set WEFT_STORE, or write store = "runs.db" into '
            "weft.toml, or under [tool.weft] into pyproject.toml"
        )


class WorkflowNotFound(CommandError, LookupError):
    """The module that *where* names, ``MODULE:NAME``, has no such workflow."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}; name a workflow at the top level of a module, as MODULE:NAME")
        self.where = where


class CodeNotImported(CommandError, LookupError):
    """
    The run needs *functions*, by component, that are not imported here; nothing was changed.

    Args:
        modules: the modules that have them, as far as the stored definition names them.
    """

    def __init__(
        self, run_id: str, functions: Mapping[str, str], modules: Sequence[str] = (), *, needs_workflow: bool = False
    ) -> None:
        listed = ", ".join(f"{name} ({label})" if label else name for name, label in functions.items())
        option = " ".join(f"--import {module}" for module in modules) or "--import with its module"
        advice = (
            f"pass {option}; if it has lambdas or local functions, the workflow must be at the top level there"
            if not needs_workflow
            else "it has no name to be found by, and no imported module has this workflow at its top level: put the "
            f"workflow at the top level of a module, or resume from Python: resume({run_id!r}, workflow=the_workflow)"
        )
        super().__init__(f"run {run_id!r} needs code that is not here: {listed}; {advice}")
        self.run_id, self.functions = run_id, dict(functions)


# -- telemetry -----------------------------------------------------------------------------------


class TelemetryError(WeftError, ValueError):
    """A handler cannot be attached."""


class AlreadyInstrumented(TelemetryError):
    """The runners of this process are observed through *module* already."""

    def __init__(self, module: str) -> None:
        super().__init__(
            f"instrument() of {module} was called before, and one call is for all runners of the process: "
            "leave the second out, or call uninstrument() first"
        )
        self.module = module


class DuplicateHandler(TelemetryError):
    """A handler is already attached under *handler_id*."""

    def __init__(self, handler_id: str) -> None:
        super().__init__(
            f"a handler {handler_id!r} is attached already; detach({handler_id!r}) first, or use another id"
        )
        self.handler_id = handler_id


class UnknownTelemetryEvent(TelemetryError, LookupError):
    """No event of the catalogue has this *name*."""

    def __init__(self, name: object, known: Iterable[str]) -> None:
        super().__init__(f"there is no event {name!r}; telemetry.EVENTS lists them all: {', '.join(sorted(known))}")
        self.name = name


# -- logs ----------------------------------------------------------------------------------------


class LogError(WeftError, ValueError):
    """A log that is not the history of a run."""


class InvalidEvent(LogError):
    """An event that cannot have happened at this place in the log; *position*, *kind* and *run_id*, if known."""

    def __init__(self, message: str, story: Iterable[object] = ()) -> None:
        self.message, self.story = message, tuple(story)
        self.position: int | None = None
        self.kind: str | None = None
        self.run_id: str | None = None
        super().__init__(f"{message}{self._story_text()}")

    def at(self, position: int, kind: str, run_id: str | None) -> InvalidEvent:
        """Return the same error, about the event at *position* of a log."""
        error = InvalidEvent(self.message, self.story)
        error.position, error.kind, error.run_id = position, kind, run_id
        whose = "" if run_id is None else f" of run {run_id!r}"
        text = (
            f"event {position}{whose}, {kind}, cannot have happened: {self.message}; if it is stored like this, "
            f"restore the store from a copy, or delete the run{self._story_text()}"
        )
        error.args = (text,)
        return error

    def _story_text(self) -> str:
        lines = "".join(f"\n    {shown(event)}" for event in self.story)
        return f"; the events before it:{lines}" if lines else ""


class CorruptLog(LogError):
    """Bytes that are not a log, were altered, or were written by a newer version; *position* is the event, if known."""

    def __init__(self, message: str, position: int | None = None, run_id: str | None = None) -> None:
        where = "" if position is None else f"at event {position}: "
        whose = "" if run_id is None else f"the log of run {run_id!r} cannot be read: "
        then = "" if run_id is None else "; restore the store from a copy, or delete the run"
        super().__init__(f"{whose}{where}{message}{then}")
        self.message, self.position, self.run_id = message, position, run_id

    def of(self, run_id: str) -> CorruptLog:
        """Return the same error, about the log of a run."""
        return CorruptLog(self.message, self.position, run_id)


# -- stores --------------------------------------------------------------------------------------


class StoreError(WeftError):
    """The store could not do what was asked."""


class RunNotFound(StoreError, LookupError):
    """No run is stored under this id."""

    def __init__(self, run_id: str) -> None:
        advice = "start() it first, or see runs() for the ids that exist"
        if not isinstance(run_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            advice = "an id is text: pass handle.id, or call the handle itself"
        self._say(run_id, f"no run {run_id!r} is stored here; {advice}")

    def _say(self, run_id: str, message: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class RunReplaced(RunNotFound):
    """The run of a handle was deleted, and a later run has its id."""

    def __init__(self, run_id: str) -> None:
        self._say(
            run_id,
            f"the run {run_id!r} of this handle was deleted, and another run of this id was started since; use the "
            "handle of that start, or pass the id to the runner",
        )


class RunExists(StoreError):
    """The id of a new run is taken; *instead* names the alternative that the call offers."""

    def __init__(self, run_id: str, differs: str = "", instead: str = "") -> None:
        super().__init__(
            f"run {run_id!r} exists already{f', {differs}' if differs else ''}; choose another id"
            f"{f', or {instead}' if instead else ''}"
        )
        self.run_id, self.differs = run_id, differs


class UniqueKeyTaken(StoreError):
    """Another unfinished run of the workflow has the unique key of a run that was to be started or retried."""

    def __init__(self, run_id: str, workflow: str, unique: str, holder: str, differs: str = "") -> None:
        super().__init__(
            f"run {run_id!r} cannot have the unique key {unique!r}: run {holder!r} of {workflow!r} has it"
            f"{f', {differs}' if differs else ''}, and has not finished; wait() for that run, cancel({holder!r}) it, "
            "or use another key"
        )
        self.run_id, self.workflow, self.unique, self.holder, self.differs = run_id, workflow, unique, holder, differs


class ConcurrentAppend(StoreError):
    """The log has grown since it was read; nothing was written."""

    def __init__(self, run_id: str, expected: int, actual: int) -> None:
        super().__init__(
            f"run {run_id!r} is at {actual}, not {expected}: another writer has appended; drop this copy and reload"
        )
        self.run_id, self.expected, self.actual = run_id, expected, actual


class BrokenChain(StoreError):
    """The hash chain of the log does not end as its writer expects; nothing was written."""

    def __init__(self, run_id: str, expected: int) -> None:
        super().__init__(
            f"the log of run {run_id!r} is as long as expected ({expected} events) but is a different log: its last "
            "hash link differs from the one the writer knows, so the log was altered, or the writer did not load it; "
            "drop this copy, check the store (weft doctor), and resume the stored run"
        )
        self.run_id, self.expected = run_id, expected


class OwnershipLost(StoreError):
    """Another owner has taken the run over; nothing was written."""

    def __init__(self, run_id: str, epoch: int, actual: int) -> None:
        super().__init__(
            f"run {run_id!r} is in epoch {actual}, not {epoch}: another owner has taken it over; "
            "drop this copy, the new owner continues the run"
        )
        self.run_id, self.epoch, self.actual = run_id, epoch, actual


class RunOwned(StoreError):
    """Another living owner owns the run."""

    def __init__(self, run_id: str, owner: str) -> None:
        super().__init__(f"run {run_id!r} is held by {owner}, which is alive; use it there, or stop it first")
        self.run_id, self.owner = run_id, owner


class MissingContent(StoreError, LookupError):
    """Values or definitions that are referred to were never stored."""

    def __init__(self, kind: str, hashes: Iterable[bytes], run_id: str | None = None) -> None:
        self.hashes, self.run_id = tuple(hashes), run_id
        listed = ", ".join(each.hex() for each in self.hashes[:3])
        more = f" and {len(self.hashes) - 3} more" if len(self.hashes) > 3 else ""
        whose = "" if run_id is None else f", which run {run_id!r} refers to"
        super().__init__(
            f"no {kind} {listed}{more} in this store{whose}; restore the store that the log was written to"
        )


class InvalidAppend(StoreError, ValueError):
    """An append that is invalid in every state of the run."""


class StoreNotFound(StoreError, LookupError):
    """The store that was named cannot be looked at: *reason* says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; name the file that a SQLiteStore(...) was opened on")
        self.reason = reason


class InvalidStoreOption(StoreError, ValueError):
    """An option or a call that this store does not support."""


class ShardsChanged(StoreError):
    """A client or a worker knows another list of databases than the fleet; nothing was started."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; pass the addresses of all databases of the fleet, and no others")


class StoreClosed(StoreError):
    """A store was used before it was opened, or after it was closed."""

    def __init__(self, store: str) -> None:
        super().__init__(f"{store} is not open; use it inside `async with store:`, or call open() first")


class WrongLoop(StoreError):
    """An open store was used from another event loop than the one it was opened on."""

    def __init__(self, store: str) -> None:
        super().__init__(f"{store} was opened on another event loop; open a second store on the same data here")


class StoreUnavailable(StoreError):
    """The store cannot answer now; a later attempt may succeed."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"{store} is unavailable: {reason}; try again, and find out what blocks it if that fails too")


class StoreFull(StoreUnavailable):
    """There is no space left; nothing was written.  A later attempt succeeds once there is space."""

    def __init__(self, store: str, reason: str) -> None:
        StoreError.__init__(
            self,
            f"{store} has no space left ({reason}); free some on its disk, and waiting runs continue by themselves; "
            "purging finished runs needs space too, so do that afterwards",
        )


class UnwrittenEvents(StoreError):
    """A runner was closed, and its store could not write all events; *runs* has the number of events of each run."""

    def __init__(self, runs: Mapping[str, int], reason: BaseException | None) -> None:
        total = sum(runs.values())
        few = ", ".join(f"{run!r} ({count})" for run, count in list(runs.items())[:_MOST_NAMED])
        more = f" and {len(runs) - _MOST_NAMED:,} more" if len(runs) > _MOST_NAMED else ""
        super().__init__(
            f"{total:,} {'event' if total == 1 else 'events'} of {len(runs):,} {'run' if len(runs) == 1 else 'runs'} "
            f"could not be written when the runner was closed: {few}{more}; the error of the store: "
            f"{reason or 'none'}. The store has these runs up to their last checkpoint; resume them to go on"
        )
        self.runs, self.reason = dict(runs), reason


class ReadOnlyStore(StoreError):
    """The store can be read but not written to."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"{store} cannot be written to ({reason}); give this user write access to it and its folder")


class CorruptStore(StoreError):
    """Stored data is damaged."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"{store} is damaged ({reason}); restore it from a copy, or recover the readable part")


class DamagedRow(CorruptStore):
    """A column holds an impossible value; *whose* names the damaged record, and nothing else is affected."""

    def __init__(self, whose: str, column: str, found: str, expected: str) -> None:
        StoreError.__init__(
            self,
            f"{whose} is damaged in its store: {column} is {found} and should be {expected}; "
            "restore the file from a copy, put the right value there, or delete that row and what belongs to it",
        )
        self.whose, self.column, self.found, self.expected = whose, column, found, expected


class LostCommits(CorruptStore):
    """The last commit noted in the file beside the store is not in the store; nothing was changed."""

    def __init__(self, store: str, missing: str, log: str, note: str) -> None:
        StoreError.__init__(
            self,
            f"{store} has lost committed work: {missing} is noted in {note}, and is not in the store. "
            f"Either its write-ahead log ({log}) was damaged or removed, or the file was replaced by an older copy. "
            "Nothing was changed: keep a copy of all these files, check what is left (weft doctor), and restore a "
            "better copy if there is one; to continue with the present state, or with an older copy that was put there "
            f"on purpose, delete {note} and open the store again",
        )
        self.missing, self.note = missing, note


class StoreRemoved(CorruptStore):
    """The file of an open store was removed or replaced; events that were not written yet are not stored."""

    def __init__(self, store: str) -> None:
        StoreError.__init__(
            self,
            f"the file of {store} was removed while it was open, or replaced by another: nothing more is written "
            "to it; close the store, put a copy in its place if there is one, and open it again",
        )


class ForeignStore(StoreError):
    """The data belongs to another application, and is left as it is."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(
            f"{store} is not a Weft store ({reason}), or its header is damaged; choose another path, or restore a copy"
        )


class NewerStore(StoreError):
    """The data was written by a newer version of Weft."""

    def __init__(self, store: str, found: int, known: int) -> None:
        super().__init__(
            f"{store} has schema version {found} and this Weft knows versions up to {known}; upgrade Weft to open it"
        )
        self.found, self.known = found, known


# -- stored code and other values ----------------------------------------------------------------


class ResolutionError(WeftError, LookupError):
    """A stored definition does not fit the code of this process."""


class UnresolvedFunction(ResolutionError):
    """The function of *component* cannot be found by name, or this process did not offer it."""

    def __init__(self, component: str, function: str, reason: str, advice: str) -> None:
        super().__init__(f"the function {function} of {component!r} {reason}; {advice}")
        self.component, self.function = component, function


class UnresolvedConstant(UnresolvedFunction):
    """A constant that is bound to *component* is not data, so only the workflow itself has it."""

    def __init__(self, component: str, kind: str, reason: str, advice: str) -> None:
        ResolutionError.__init__(self, f"a constant of {component!r}, {an(kind)}, {reason}; {advice}")
        self.component, self.function = component, kind


class ChangedCode(ResolutionError):
    """The code of *components* has changed since the log was written."""

    def __init__(self, workflow: str, components: Iterable[str]) -> None:
        self.workflow, self.components = workflow, tuple(components)
        super().__init__(
            f"the code of {', '.join(map(repr, self.components))} in workflow {workflow!r} has changed since this log "
            "was written; run the code that wrote it, or pass strict=False to continue with the new code"
        )


class UnknownClass(ResolutionError):
    """The *run* has values of *classes* that this process does not know; components that receive them would fail."""

    def __init__(self, run: str, classes: Iterable[str]) -> None:
        self.run, self.classes = run, tuple(classes)
        super().__init__(
            f"run {run!r} has values of classes that this process does not know ({', '.join(self.classes)}); it would "
            "continue with plain records; mention the class in an annotation of the function that makes it, or "
            "register it: weft.log.register(Class)"
            + ("; for those of NumPy, install it" if any(name.startswith("numpy.") for name in self.classes) else "")
        )


class InvalidArgument(WeftError, TypeError):
    """An argument is not of a kind that the call accepts."""


class Stuck(WeftError):
    """All tasks wait forever, which virtual time reveals at once; *who* lists them and what they wait for."""

    def __init__(self, who: str, advice: str = "find out what should have woken them") -> None:
        super().__init__(f"{who}; {advice}")


class DurabilityBroken(WeftError, AssertionError):
    """A workflow had another outcome after a fault: *report* says where, and after which fault."""

    def __init__(self, report: object) -> None:
        super().__init__(f"{report}\nname what is not deterministic by design with ignore=, and fix the rest")
        self.report = report


class UnencodableValue(WeftError, TypeError):
    """A value cannot be written to a log: *path* leads to the part that cannot, *component* made it."""

    def __init__(self, kind: str, path: str, component: str | None = None) -> None:
        self.kind, self.path, self.component = kind, path, component
        made = "" if component is None else f"what {component!r} made cannot be written: "
        made = "the input cannot be written: " if component == "INPUT" else made
        super().__init__(
            f"{made}{an(kind)} at {path} is not data; use builtins, dates, Decimal, UUID, paths, enums, dataclasses, "
            "attrs, msgspec or pydantic classes, say how it is written with weft.log.register(Class, encode=..., "
            "decode=...), and pass handles by context(...)"
        )


class InvalidDrawing(WeftError, ValueError):
    """An unknown direction or kind of picture."""

    def __init__(self, option: str, given: object, known: Iterable[str]) -> None:
        super().__init__(f"{option}={given!r} is not a way to draw; use one of {', '.join(map(repr, known))}")


class UnidentifiableValue(WeftError, TypeError):
    """A value without a canonical form, so that another process could not compute its hash."""

    def __init__(self, kind: str, path: str) -> None:
        super().__init__(
            f"{an(kind)} at {path} has no canonical form; use builtins, dataclasses, attrs or msgspec "
            "classes, enums, dates, Decimal or UUID for values that need an identity, or weft.log.register(Class, "
            "encode=..., decode=...)"
        )


# -- text of messages ----------------------------------------------------------------------------


def an(noun: str) -> str:
    """
    Return *noun*, such as the name of a class, with its indefinite article.

    >>> [an(noun) for noun in ("step", "accumulator", "_Odd", "UUID", "fsm")]
    ['a step', 'an accumulator', 'an _Odd', 'a UUID', 'an fsm']
    """
    spoken = noun.lstrip("_").lower()
    is_open = spoken.startswith(("a", "e", "i", "o", "u")) and not spoken.startswith(("eu", "one", "uni", "use", "uu"))
    return f"{'an' if is_open or spoken == 'fsm' else 'a'} {noun}"


def _known(names: Iterable[str], most: int = 12) -> str:
    listed = sorted(names)
    if not listed:
        return "; it has no components yet"
    more = f", and {len(listed) - most} more" if len(listed) > most else ""
    return f"; it has {', '.join(listed[:most])}{more}"


def shown(event: object, most: int = 500) -> str:
    """Return *event* as text of limited length, even if the values in it cannot be shown."""
    try:
        text = repr(event)
    except Exception as error:  # noqa: BLE001 - the error that is about to be raised matters more
        return f"{an(type(event).__name__)} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= most else f"{text[:most]}…"
