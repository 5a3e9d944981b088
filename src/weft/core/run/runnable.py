"""
Runnables, which are prepared units of work, and their outcomes.

A runnable holds everything it needs to run anywhere: the function, its arguments, its context.  It holds no
reference to the run.  ``execute`` does not raise the exceptions of the function: they are in the :class:`Outcome`,
which ``run.apply`` records in the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import msgspec
from msgspec.structs import replace

from weft.core.components.state_change import States
from weft.core.deferred import local
from weft.core.events import Activated, Timing
from weft.core.failure import PROPAGATES
from weft.core.fold.reads import resolve
from weft.core.fold.scope import NOTHING, Activation, Key
from weft.core.functions.current import Addition, announce
from weft.core.functions.function import Function
from weft.core.functions.hooks import in_place_of
from weft.core.functions.reports import Reporter, StreamWriter
from weft.core.lineage.lineage import Lineage
from weft.core.plan.node import Arguments, FunctionNode
from weft.core.run.child import StepRunner
from weft.errors import CannotSpread, MissingContext, NoTransactions, an
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory


class StepTransaction(Protocol):
    """The transaction of one attempt."""

    @property
    def is_exclusive(self) -> bool:
        """Whether nothing else can be stored while it is open."""
        ...

    def call(self, node: FunctionNode, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call the function of *node* in it; a coroutine function returns its coroutine."""
        ...


class RunnableRef(msgspec.Struct, frozen=True):
    """A runnable by name: plain data, from which ``run.runnable(ref)`` prepares it again."""

    component: str
    inputs: tuple[Address, ...]


class Runnable(msgspec.Struct, eq=False):
    """*component*, ready to run on its arguments."""

    node: FunctionNode
    run_id: str
    inputs: tuple[Address, ...]
    lineage: Lineage
    """Where its inputs came from; its id follows from that."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    attempt: int = 1
    broken: BaseException | None = None
    """Why there are no arguments: a default, an initial state or a value that could not be made or spread."""
    own_key: str | None = None
    """The idempotency key of its policy, in place of the derived one."""
    override: Function | None = None
    """The function of a fallback, which runs in place of the component's."""
    deadline: float | None = None
    """When it must be done, in seconds since the epoch."""
    added: tuple[Addition, ...] = ()
    """The additions of this attempt to its run so far."""
    on_heartbeat: Callable[[], object] | None = None
    """Takes a heartbeat, where one is expected."""
    runner: StepRunner | None = None
    """Starts other runs, where there is a runner."""
    token: str | None = None
    """The token that completes it from outside, if it is an external step."""
    reporter: Reporter | None = None
    """Takes what it reports, in a worker process; elsewhere *runner* knows."""
    streams: dict[tuple[str, int], StreamWriter] | None = None
    """The streams that it writes to, by name and attempt."""
    transaction: StepTransaction | None = None
    """Calls its function in a transaction, if it asks for one and there is a runner."""
    entries: tuple[Callable[[], object], ...] = ()
    """Called right before its function, in the same context: telemetry makes the span of the attempt current."""

    @property
    def component(self) -> str:
        """The name of what runs: a component, or a part of one."""
        return self.node.name

    @property
    def is_condition(self) -> bool:
        """Whether its result is true or false rather than a value."""
        return self.node.is_test

    @property
    def id(self) -> str:
        """Its id: the same work has the same id in every process and on every resume."""
        return self.lineage.runnable_id(self.node.name, self.inputs)

    @property
    def idempotency_key(self) -> str:
        """The same at every attempt and after every resume and deploy; different for every input of every run."""
        return self.own_key or self.lineage.idempotency_key(self.run_id, self.node.name, self.inputs)

    @property
    def key(self) -> Key:
        """The key that identifies it in its run."""
        return (self.node.name, self.inputs)

    def using(self, call: Callable[..., Any]) -> Runnable:
        """Return a runnable of another function on the same arguments, for a fallback."""
        return replace(self, override=Function.of(call))

    def with_context(self, context: Mapping[str, Any]) -> Runnable:
        """
        Return this runnable with other values for context keys that its component reads.

        Raises:
            MissingContext: the component reads no such key.
        """
        contexts = () if self.node.arguments is None else self.node.arguments.contexts
        known = {ref.key for _, ref in contexts}
        unknown = [(self.node.owner, key) for key in context if key not in known]
        if unknown:
            raise MissingContext(unknown)
        changed = {parameter: context[ref.key] for parameter, ref in contexts if ref.key in context}
        return replace(self, kwargs={**self.kwargs, **changed})

    def ref(self) -> RunnableRef:
        """Return what identifies this runnable in its run, as plain data."""
        return RunnableRef(self.node.name, self.inputs)

    def call(self) -> Any:
        """Call the function; a coroutine function returns its coroutine."""
        if self.broken is not None:
            raise self.broken
        announce(self)
        if self.entries:
            self.enter()
        if self.override is not None:
            return in_place_of(self.node.call, self.override)(*self.args, **self.override.constants)
        if self.node.transaction:
            if self.transaction is None:
                raise NoTransactions(self.node.name)
            return self.transaction.call(self.node, self.args, self.kwargs)
        kwargs = self.kwargs
        return self.node.call(*self.args, **kwargs) if kwargs else self.node.call(*self.args)

    def enter(self) -> None:
        """Prepare the context in which the function is about to be called."""
        for entry in self.entries:
            entry()

    def execute(self) -> Outcome:
        """Run the function here and now; what it raises becomes part of the outcome."""
        return cast("Outcome", local().execute(self))

    async def aexecute(self) -> Outcome:
        """Run the function in the running event loop."""
        return cast("Outcome", await local().aexecute(self))

    def __repr__(self) -> str:
        return f"Runnable({self.component!r}, args={self.args!r})"


class Outcome(msgspec.Struct, frozen=True, eq=False):
    """The result of executing a runnable."""

    component: str
    inputs: tuple[Address, ...]
    status: Literal["completed", "failed", "skipped", "open"]
    """*open*: the function of an external step has returned, and the step waits to be completed from outside."""
    result: Any = None
    error: BaseException | None = None
    attempt: int = 1
    duration_ns: int = 0
    events: tuple[Activated, ...] = ()
    """The events of the runnable under its policy; none without a policy."""
    on_failure: Literal["halt", "dead_letter", "compensate"] = "halt"
    run_id: str | None = None
    """The run it belongs to, so that no other one takes it."""
    added: tuple[Addition, ...] = ()
    """The additions to the workflow of its run, if it completed."""
    timing: Timing | None = None
    """When it ended, and what it waited for, where that is noted."""
    receipt: tuple[int, int] | None = None
    """Where its executor keeps it until it is stored; the append with what comes of it removes it there."""


# -- preparing -----------------------------------------------------------------------------------


def bind(activation: Activation, memory: Memory, context: Mapping[str, Any]) -> Runnable:
    """Return *activation* with its arguments: values of its facts, constants, state and context."""
    node, facts = activation.node, activation.facts
    args: tuple[Any, ...] = (facts[0].value,) if len(facts) == 1 else tuple([fact.value for fact in facts])
    runnable = Runnable(node, memory.run_id, activation.key[1], memory.lineage, args, NOTHING)
    if memory.has_deadlines and not node.undoes:
        runnable.deadline = activation.scope.root.deadline
    arguments = node.arguments
    if arguments is None:
        return runnable
    try:
        runnable.args = _values(node, arguments, args, memory)
        runnable.kwargs = _keywords(node, arguments, activation.pins, memory, context)
        if arguments.by_keyword:
            runnable.kwargs.update(zip(arguments.by_keyword, runnable.args, strict=True))
            runnable.args = ()
    except PROPAGATES:
        raise
    except BaseException as error:  # noqa: BLE001 - user code that makes defaults failed: a failing attempt
        runnable.broken = error
    return runnable


def _values(node: FunctionNode, arguments: Arguments, args: tuple[Any, ...], memory: Memory) -> tuple[Any, ...]:
    if arguments.takes_no_values:
        return ()
    if arguments.spread and len(args) == 1:
        return _spread(node.name, arguments.spread, args[0])
    if node.stateful and node.state is not None:
        if node.state.sees_states:
            return (States(memory.state_changes(node)), *args)
        known = memory.produced.get(node.name)
        return (known[-1].value if known else node.state.initial.make(), *args)
    return args


def _keywords(
    node: FunctionNode, arguments: Arguments, pins: tuple[Any, ...], memory: Memory, context: Mapping[str, Any]
) -> dict[str, Any]:
    given = own_arguments(node, arguments, context)
    for reading, pin in zip(node.readings, pins, strict=True):
        given[reading.parameter] = resolve(memory, reading, pin)
    return given


def own_arguments(node: FunctionNode, arguments: Arguments, context: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the arguments that *node* has in every run of a process: its constants, and what it reads of *context*.

    Raises:
        MissingContext: *context* does not have a key that is required.
    """
    given = dict(arguments.constants)
    for parameter, ref in arguments.contexts:
        own, part = f"{node.owner}.{ref.key}", f"{node.name}.{ref.key}"
        if part in context:
            given[parameter] = context[part]
        elif own in context:
            given[parameter] = context[own]
        elif ref.key in context:
            given[parameter] = context[ref.key]
        else:
            given[parameter] = ref.fallback()
    return given


def _spread(component: str, parameters: int, value: Any) -> tuple[Any, ...]:
    given, values = value, cast("tuple[Any, ...] | None", None)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        values = tuple(given)
    if values is None or parameters not in (-1, len(values)):
        raise CannotSpread(
            f"{component!r} spreads its input over {'any' if parameters < 0 else parameters} parameters, "
            f"and got {an(type(given).__name__)}: {given!r:.60}"
        )
    return values
