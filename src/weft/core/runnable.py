"""
A prepared unit of work, and what executing it gave.

A runnable holds everything it needs to run anywhere: the function, its arguments, its context.  It holds no
reference to the run.  ``execute`` never raises what the function raises; the :class:`Outcome` says it, and
``run.apply`` takes it back into the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Literal, cast

import msgspec

from weft.core.fact import Fact
from weft.core.identity import idempotency_key, runnable_id
from weft.core.node import Node
from weft.core.references import AllValues, FactCount, Latest, StateOf
from weft.core.scope import Activation
from weft.errors import CannotSpread, NoRun
from weft.typing import Address


class RunnableRef(msgspec.Struct, frozen=True):
    """A runnable by name: plain data, from which ``run.runnable(ref)`` prepares it again."""

    component: str
    inputs: tuple[Address, ...]


class Runnable(msgspec.Struct, eq=False):
    """*component*, ready to run on its arguments."""

    node: Node
    run_id: str
    inputs: tuple[Address, ...]
    sources: tuple[Fact, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    attempt: int = 1
    broken: Exception | None = None
    """Why there are no arguments: a default, an initial state or a value that could not be made or spread."""

    @property
    def component(self) -> str:
        """The name of what runs: a component, or a part of one."""
        return self.node.name

    @property
    def is_condition(self) -> bool:
        """Whether it says yes or no rather than making a value."""
        return self.node.is_test

    @property
    def id(self) -> str:
        """What it is: the same work has the same id in every process and on every resume."""
        return runnable_id(self.node.name, self.sources, {})

    @property
    def idempotency_key(self) -> str:
        """The same at every attempt and after every resume and deploy; different for every input of every run."""
        return idempotency_key(self.run_id, self.node.name, self.sources)

    def ref(self) -> RunnableRef:
        """Return what identifies this runnable in its run, as plain data."""
        return RunnableRef(self.node.name, self.inputs)

    def call(self) -> Any:
        """Call the function; a coroutine function gives its coroutine."""
        if self.broken is not None:
            raise self.broken
        announce(self)
        return self.node.call(*self.args, **self.kwargs)

    def execute(self) -> Outcome:
        """Run the function here and now; what it raises becomes part of the outcome."""
        from weft.local import execute

        return execute(self)

    async def aexecute(self) -> Outcome:
        """Run the function in the running event loop."""
        from weft.local import aexecute

        return await aexecute(self)

    def __repr__(self) -> str:
        return f"Runnable({self.component!r}, args={self.args!r})"


class Outcome(msgspec.Struct, frozen=True, eq=False):
    """What executing a runnable gave."""

    component: str
    inputs: tuple[Address, ...]
    status: Literal["completed", "failed", "skipped"]
    result: Any = None
    error: BaseException | None = None
    attempt: int = 1
    duration_ns: int = 0


class Current(msgspec.Struct, frozen=True):
    """What user code can know about its own execution."""

    run_id: str
    component: str
    attempt: int
    idempotency_key: str
    runnable_id: str


_running: ContextVar[Runnable | tuple[str, Activation] | None] = ContextVar("weft_running", default=None)
announce = _running.set
"""Say what is about to run: a runnable, or the id of its run and an activation, which is cheaper."""
announced = _running.get


def current() -> Current:
    """
    Return what is running here: ``weft.current().idempotency_key`` inside a step.

    Raises:
        NoRun: called outside of a component.
    """
    running = _running.get()
    if running is None:
        raise NoRun("current() was called outside of a component that Weft runs")
    if isinstance(running, tuple):
        run_id, activation = running
        running = bind(activation, run_id, {}, None, {})
    return Current(running.run_id, running.component, running.attempt, running.idempotency_key, running.id)


# -- preparing -----------------------------------------------------------------------------------


def bind(
    activation: Activation,
    run_id: str,
    produced: Mapping[str, list[Fact]],
    keyed: Any,
    context: Mapping[str, Any],
) -> Runnable:
    """Return *activation* with its arguments: values of its facts, constants, state and context."""
    node, facts = activation.node, activation.facts
    args: tuple[Any, ...] = (facts[0].value,) if len(facts) == 1 else tuple([fact.value for fact in facts])
    runnable = Runnable(node, run_id, activation.key[1], activation.sources or facts, args, {})
    if node.simple:
        return runnable
    try:
        runnable.args = _arguments(node, args, produced)
        runnable.kwargs = _keywords(node, activation.pins, produced, keyed, context)
        if node.by_keyword:
            runnable.kwargs.update(zip(node.by_keyword, runnable.args, strict=True))
            runnable.args = ()
    except Exception as error:  # noqa: BLE001 - user code that makes defaults failed: a failing attempt
        runnable.broken = error
    return runnable


def _arguments(node: Node, args: tuple[Any, ...], produced: Mapping[str, list[Fact]]) -> tuple[Any, ...]:
    if node.blind:
        return ()
    if node.spread and len(args) == 1:
        return _spread(node, args[0])
    if node.initial is not None:
        known = produced.get(node.name)
        return (known[-1].value if known else node.initial.make(), *args)
    return args


def _keywords(
    node: Node,
    pins: tuple[Any, ...],
    produced: Mapping[str, list[Fact]],
    keyed: Any,
    context: Mapping[str, Any],
) -> dict[str, Any]:
    given = dict(node.fixed or {})
    for parameter, ref in node.contexts:
        own = f"{node.owner}.{ref.key}"
        if own in context:
            given[parameter] = context[own]
        elif ref.key in context:
            given[parameter] = context[ref.key]
        else:
            given[parameter] = ref.fallback()
    for reading, pin in zip(node.readings, pins, strict=True):
        given[reading.parameter] = _resolve(reading.read, reading.target, pin, produced, keyed)
    return given


def _spread(node: Node, value: Any) -> tuple[Any, ...]:
    given, values = value, cast("tuple[Any, ...] | None", None)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        values = tuple(given)
    if values is None or node.spread not in (-1, len(values)):
        raise CannotSpread(
            f"{node.name!r} spreads its input over {'any' if node.spread < 0 else node.spread} parameters, "
            f"and got a {type(given).__name__}: {given!r:.60}"
        )
    return values


def _resolve(read: Any, target: Node, pin: Any, produced: Mapping[str, list[Fact]], keyed: Any) -> Any:
    match read:
        case StateOf():
            assert target.initial is not None  # noqa: S101
            return target.initial.make() if pin is None else pin.value
        case Latest():
            return read.default if pin is None else pin.value
        case FactCount():
            return pin
        case AllValues():
            facts = produced.get(target.name, [])[:pin]
            if keyed is not None and target.name in keyed:
                places = keyed[target.name]
                facts = [facts[i] for i in sorted(range(pin), key=places.__getitem__)]
            return [fact.value for fact in facts]
        case _:
            return pin > 0
