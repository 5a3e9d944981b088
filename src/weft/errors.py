"""
Everything this library can raise, in one screen.

    WeftError
    ├── DefinitionError             the graph you wrote cannot work
    │   ├── CyclicWorkflow          a component would feed itself
    │   ├── DuplicateName           one name, two different components
    │   ├── InvalidComponent        a component that makes no sense by itself
    │   ├── InvalidJoin             a join where none can stand, or with too few parents
    │   ├── InvalidPolicy           a policy that makes no sense, or cannot be kept here
    │   ├── MixedRegions            inside an ``each`` and outside of it at once
    │   ├── MutualWait              components that read each other would wait for ever
    │   ├── PortMismatch            what a component gives is not what the next one takes
    │   ├── TracingError            a value was used while the graph is only being drawn
    │   ├── UnknownComponent        nothing has this name
    │   ├── UnknownReference        a parameter or a rule names what is not there
    │   └── WrongArity              a function that does not take what it is given
    ├── ExecutionError              a component ran and did not succeed
    │   ├── BatchFailed             an element failed, so its reduce cannot be made
    │   ├── CannotSpread            ``spread=True`` on a value that does not fit
    │   ├── CircuitOpen             a circuit breaker holds the component back
    │   ├── DeadlineExceeded        time for the run or the component is up
    │   ├── DescribedError          an exception of an earlier process, known by description
    │   ├── InvalidFallback         a fallback gave nothing that can be used
    │   ├── LoopExhausted           ``repeat`` made all its turns and was not done
    │   ├── NotACollection          ``each`` or ``reduce`` over something else
    │   ├── StepFailed              the last attempt failed; see ``__cause__``
    │   └── StepTimeout             an attempt took longer than its policy allows
    ├── RunError                    a run was asked for something it cannot do
    │   ├── AlreadyRunning          a run was driven from inside itself, or by two at once
    │   ├── MissingContext          a required context key was not given
    │   ├── NoRun                   a function that reads a run was called without one
    │   ├── NoSuchLetter            no dead letter of this name is kept
    │   ├── NothingProduced         the component exists and has made no value
    │   └── UnknownRunnable         an outcome of work that this run never offered
    ├── LogError                    a log that is no history of a run
    │   └── InvalidEvent            an event that cannot have happened here
    └── UnidentifiableValue         a value without a canonical form has no hash

A caller can catch at three heights: the library, the kind, the case.
Where a builtin says the same, the case is that builtin too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class WeftError(Exception):
    """Base of every error raised on purpose."""


# -- definitions ---------------------------------------------------------------------------------


class DefinitionError(WeftError, ValueError):
    """The graph that was written cannot work."""


class CyclicWorkflow(DefinitionError):
    """Following the edges leads back to where one started."""

    def __init__(self, workflow: str, cycle: Sequence[str]) -> None:
        path = " -> ".join([*cycle, cycle[0]])
        super().__init__(
            f"workflow {workflow!r} has a cycle: {path}; remove one of these edges, "
            "or feed the result back as a new input (Run.feed_back)"
        )
        self.cycle = tuple(cycle)


class DuplicateName(DefinitionError):
    """One name stands for two different components."""

    def __init__(self, name: str, difference: str) -> None:
        super().__init__(
            f"two different components are called {name!r} ({difference}); "
            f"give one of them another name: component.named('other')"
        )
        self.name = name


class InvalidComponent(DefinitionError):
    """A component that makes no sense, whatever it is wired to."""


class InvalidJoin(DefinitionError):
    """A join where none can stand, or one that joins nothing."""


class InvalidPolicy(DefinitionError):
    """A policy that makes no sense, or that cannot be kept where the run runs."""


class MixedRegions(DefinitionError):
    """A component would stand inside an ``each`` and outside of it, or in two of them."""


class MutualWait(DefinitionError):
    """Components that read each other would wait for each other for ever."""

    def __init__(self, cycle: Sequence[str]) -> None:
        path = " -> ".join([*cycle, cycle[0]])
        super().__init__(
            f"these components wait for each other: {path}; each reads what another one makes of "
            "the same input; let one of them be fed by the other with >> instead"
        )
        self.cycle = tuple(cycle)


class PortMismatch(DefinitionError, TypeError):
    """What *source* gives does not fit what *target* takes."""

    def __init__(self, source: str, gives: str, target: str, takes: str) -> None:
        super().__init__(
            f"{source} gives {gives}, and {target} takes {takes}; put a step between them that converts it, "
            "correct the annotation that is wrong, or say Workflow(..., validate='warn') or 'off'"
        )
        self.source, self.gives, self.target, self.takes = source, gives, target, takes


class TracingError(DefinitionError, TypeError):
    """Inside ``@workflow`` a value was used that is only there when the workflow runs, or a call cannot be drawn."""


class UnknownComponent(DefinitionError, LookupError):
    """Nothing in this workflow has this name."""

    def __init__(self, name: str, known: Iterable[str], where: str) -> None:
        super().__init__(f"no component {name!r} in {where}{_known(known)}")
        self.name = name


class UnknownReference(DefinitionError, LookupError):
    """A parameter or a rule refers to what the workflow does not have."""

    def __init__(self, component: str, reference: str, target: str, known: Iterable[str], hint: str) -> None:
        super().__init__(f"{component!r} refers to {reference} {target!r}, {hint}{_known(known)}")
        self.component, self.target = component, target


class WrongArity(DefinitionError, TypeError):
    """A function does not take the number of values that reach it."""


def _known(names: Iterable[str], most: int = 12) -> str:
    listed = sorted(names)
    if not listed:
        return "; it has no components yet"
    more = f", and {len(listed) - most} more" if len(listed) > most else ""
    return f"; it has {', '.join(listed[:most])}{more}"


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
    """Stands for an exception whose class is not known here: *kind* and *message* are all there is."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message


class LoopExhausted(ExecutionError):
    """A loop made as many turns as it may, and what it waits for never held."""


class NotACollection(ExecutionError, TypeError):
    """What should be taken apart into elements has none."""


class CannotSpread(ExecutionError, TypeError):
    """A value cannot be spread over the parameters of a function."""


class StepTimeout(ExecutionError, TimeoutError):
    """An attempt took longer than *seconds*."""

    def __init__(self, component: str, seconds: float) -> None:
        super().__init__(f"{component!r} took longer than its timeout of {seconds:g} s")
        self.component, self.seconds = component, seconds


class DeadlineExceeded(ExecutionError, TimeoutError):
    """The deadline of a run or a component is past, or would be before the next attempt."""

    def __init__(self, component: str) -> None:
        super().__init__(f"{component!r} ran into its deadline; no further attempt is made")
        self.component = component


class CircuitOpen(ExecutionError):
    """The circuit breaker *name* holds the component back."""

    def __init__(self, component: str, name: str) -> None:
        super().__init__(f"{component!r} was not called: the circuit breaker {name!r} is open")
        self.component, self.name = component, name


class InvalidFallback(ExecutionError, TypeError):
    """A fallback gave neither a Value, nor a RetryWith, nor a runnable."""


class BatchFailed(ExecutionError):
    """Elements of a batch failed, so there is nothing whole to reduce."""


# -- runs ----------------------------------------------------------------------------------------


class RunError(WeftError):
    """A run was asked for something that it cannot do."""


class AlreadyRunning(RunError):
    """A run that is being driven was asked to run: by one of its own steps, or by somebody else at once."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"run {run_id!r} is running already; inside of it give it more input with run.plan(...), "
            "which is taken up when the step has ended"
        )
        self.run_id = run_id


class MissingContext(RunError, LookupError):
    """A context key without a default was not given."""

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


class NoSuchLetter(RunError, LookupError):
    """There is no such dead letter in this run."""

    def __init__(self, which: object, kept: Sequence[str]) -> None:
        known = f"there are letters of {', '.join(dict.fromkeys(kept))}" if kept else "this run keeps none"
        super().__init__(f"no dead letter {which!r}: {known}; run.dead_letters lists them")
        self.which = which


class NothingProduced(RunError, LookupError):
    """The component exists, and has produced nothing in this run."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name!r} has produced nothing: {reason}; pass default= to get a value anyway")
        self.name = name


class UnknownRunnable(RunError, LookupError):
    """An outcome belongs to no work that this run has offered."""


# -- logs and identity ---------------------------------------------------------------------------


class LogError(WeftError, ValueError):
    """A log that is not the history of a run."""


class InvalidEvent(LogError):
    """An event that cannot have happened at this place of this log."""

    def __init__(self, message: str, story: Iterable[object] = ()) -> None:
        self.story = tuple(story)
        told = "".join(f"\n    {event}" for event in self.story)
        super().__init__(f"{message}{'; the events before it:' + told if told else ''}")


class UnidentifiableValue(WeftError, TypeError):
    """A value that has no canonical form, so it has no hash that another process would find again."""

    def __init__(self, kind: str, path: str) -> None:
        super().__init__(
            f"a {kind} at {path} has no canonical form; use builtins, dataclasses, attrs or msgspec "
            "classes, enums, dates, Decimal or UUID for values that need an identity"
        )
