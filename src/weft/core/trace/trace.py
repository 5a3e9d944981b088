"""
A graph drawn by calling steps: ``@workflow``.

    >>> from weft import step, workflow
    >>> fetch = step(lambda url: f"page of {url}", name="fetch")
    >>> title = step(lambda page: page.title(), name="title")
    >>> @workflow
    ... def crawl(url: str) -> str:
    ...     return title(fetch(url))
    >>> crawl.run("weft.dev").output
    'Page Of Weft.Dev'
    >>> crawl.edges()
    {('fetch', 'title')}

The function runs once, when it is decorated, with symbols for its inputs; what comes out is an ordinary
:class:`~weft.Workflow`, the same as if it had been written with ``>>``, which also knows what it returns.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast, overload

import msgspec

from weft.core.components.join import Join
from weft.core.components.step import step
from weft.core.compose.component import Component
from weft.core.compose.flow import INPUT, Flow, Fragment, Link, connect
from weft.core.compose.symbol import Origin, Symbol, drawing, living, origin_of, tracing, user_line
from weft.core.functions.annotations import ANY, hints_of
from weft.core.graph.outputs import Output, Template, fill, outputs_in
from weft.core.graph.port_types import Validate
from weft.core.trace.call import Values, called, check_arguments, is_value
from weft.core.trace.projection import Argument, Attribute, Item, itself
from weft.core.workflow import Workflow
from weft.errors import InvalidComponent, TracingError, WrongArity

A = TypeVar("A")
R = TypeVar("R")


class Drawing:
    """A graph while it is drawn."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_open = True
        self._flows: list[Flow] = []
        self._bases: dict[str, Component | Workflow] = {}
        self._taken: set[str] = set()
        self._placed: set[Component] = set()
        self._parts: dict[tuple[Any, bool, str], Symbol] = {}

    # -- what components and symbols ask for -----------------------------------------------------

    def draw(self, thing: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Draw the call of *thing*, a component or a workflow, and return symbols for what it makes."""
        given = thing  # what is still of any type after the checks
        if isinstance(thing, Workflow):
            return self._nest(given, args, kwargs)
        if isinstance(thing, Flow):
            return self._place(given, args, kwargs)
        bound, values = called(thing, args, kwargs)
        component = self._fresh(thing, bound)
        flow = component.flow()
        self._add(self._fed(flow, values), component)
        kind = component.makes if component.makes_facts else _passed_on(values)
        symbols = [self.symbol(tail, kind if tail is component else ANY) for tail in flow.tails]
        return symbols[0] if len(symbols) == 1 else tuple(symbols)

    def part(self, symbol: Symbol, key: Any, *, attribute: bool = False, kind: Any = ANY) -> Symbol:
        """Return the symbol of *key* of the value of *symbol*, which a small step takes out; the same one each time."""
        origin = origin_of(symbol)
        known = (origin.tail, attribute, repr(key))
        if known not in self._parts:
            before = "input" if origin.tail is INPUT else origin.tail.label
            name = re.sub(r"\W+", "_", f"{before}_{key}")
            self._parts[known] = self.take(symbol, Attribute(key) if attribute else Item(key), name, kind)
        return self._parts[known]

    def take(self, symbol: Symbol, function: Callable[..., Any], name: str, kind: Any) -> Symbol:
        """Draw one of Weft's own steps, called *name* if that is free; it makes a *kind* of the value of *symbol*."""
        component = step(function, name=self._unused(name))
        self._add(self._fed(component.flow(), [symbol]), component)
        return self.symbol(component, kind)

    def symbol(self, tail: Any, kind: Any) -> Symbol:
        """Return what stands for the values of *tail*, of type *kind*."""
        label = "the input" if tail is INPUT else repr(tail.label)
        return Symbol(Origin(self, tail, label, kind, user_line()))

    # -- drawing ---------------------------------------------------------------------------------

    def _add(self, flow: Flow, component: Component | None = None) -> None:
        self._flows.append(flow)
        if component is not None:
            self._placed.add(component)
        for part, _ in flow.walk():
            self._taken.update(str(inner.name) for inner in part.components if inner.name is not None)

    def _fed(self, flow: Flow, values: Values) -> Flow:
        """Return *flow*, fed by *values*; without any, or by the input alone, it is a root."""
        if any(isinstance(value, Join) for value in values):
            if len(values) > 1:
                raise TracingError(f"a join(...) beside other values ({user_line()}); put a step between them")
            return connect(values[0].flow(), flow)
        tails = tuple(origin_of(value).tail for value in values)
        return flow if tails in ((), (INPUT,)) else connect(Flow(tails=tails), flow)

    def _fresh(self, base: Component, bound: Component) -> Component:
        """Return *bound*, under a new name if *base* was called before."""
        if base.name is None:
            return bound if bound not in self._placed else cast("Component", dataclasses.replace(cast("Any", bound)))
        name = self._free(base.name, base)
        return bound if name == bound.name else bound.named(name)

    def _free(self, name: str, base: Component | Workflow) -> str:
        """Return *name*, with a number if it is taken by the same thing; by another, it will be refused."""
        known = self._bases.setdefault(name, base)
        if name not in self._taken or not _is_same(known, base):
            self._taken.add(name)
            return name
        return self._unused(name)

    def _unused(self, name: str) -> str:
        numbered, number = name, 2
        while numbered in self._taken:
            numbered, number = f"{name}_{number}", number + 1
        self._taken.add(numbered)
        return numbered

    def _place(self, flow: Flow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Draw *flow*, such as a component with its error routes, as it is."""
        check_arguments(repr(flow), args, kwargs)
        if kwargs or not args or not all(map(is_value, args)):
            raise TracingError(f"{flow!r} takes values by position and nothing else ({user_line()})")
        for part, _ in flow.walk():
            for component in part.components:
                if component in self._placed or component.name in self._taken:
                    raise TracingError(
                        f"{component.label!r} is already drawn ({user_line()}); inside a flow use it under another "
                        f"name: {component.label}.named('other')"
                    )
                self._placed.add(component)
        self._add(self._fed(flow, list(args)))
        symbols = [self.symbol(tail, getattr(tail, "makes", ANY)) for tail in flow.tails]
        return symbols[0] if len(symbols) == 1 else tuple(symbols)

    def _nest(self, workflow: Workflow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Draw *workflow* as a part of this one."""
        check_arguments(f"workflow {workflow.name!r}", args, kwargs)
        inner, given = workflow.fitted(args, kwargs)
        name = self._free(workflow.name, workflow)
        if name != workflow.name:
            inner = inner.renamed(name)
        flow = _each_its_own(inner, given) if len(given) > 1 else self._fed(inner.flow(), list(given.values()))
        self._add(flow)
        kinds = [inner.ports.made_by(output.component) for output in outputs_in(inner.returns)]
        tails = iter([self.symbol(tail, kind) for tail, kind in zip(flow.tails, kinds, strict=True)])
        return fill(inner.returns, lambda _: next(tails))

    # -- the end ---------------------------------------------------------------------------------

    def finish(self, returned: Any, traced: Traced) -> Workflow:
        """Return the workflow that was drawn, whose output is what was *returned*."""
        if not self._flows:
            raise TracingError(f"@workflow {self.name!r} draws nothing: it calls no component with its input")
        made = Workflow(self.name, *self._flows, validate=traced.validate)
        made.traced = traced
        if returned is not None:
            made.returned = _template(self.name, returned, made)
        return made


class Traced(msgspec.Struct, frozen=True):
    """The function that a workflow was drawn from, and how."""

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    """The parameters that take the input of a run."""
    constants: Mapping[str, Any]
    validate: Validate = "error"

    @property
    def ports(self) -> Mapping[str, Any]:
        """The types of the inputs, by name."""
        hints = hints_of(self.function)
        return {name: hints.get(name, ANY) for name in self.inputs}

    def draw(self, name: str) -> Workflow:
        """
        Run the function once, with symbols for its inputs, and return the workflow that it draws.

        Raises:
            TracingError: it used a value that is not there yet, or returned what no component makes.
        """
        drawing_ = Drawing(name)
        token = drawing.set(drawing_)
        try:
            given: dict[str, Any] = dict(self.constants)
            for index, (parameter, kind) in enumerate(self.ports.items()):
                source = drawing_.symbol(INPUT, kind)
                if len(self.inputs) > 1:
                    source = drawing_.take(source, Argument(parameter, index, len(self.inputs)), parameter, kind)
                given[parameter] = source
            returned = _call(self.function, given)
            return drawing_.finish(returned, self)
        finally:
            drawing_.is_open = False
            drawing.reset(token)

    def fitted(
        self, workflow: Workflow, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Workflow, dict[str, Any]]:
        """Return *workflow*, drawn again if the constants are not its own, and the values for its inputs, by name."""
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs).arguments
        except TypeError as error:
            raise WrongArity(f"workflow {workflow.name!r}: {error}") from None
        if tracing() is None:
            values = {name: bound[name] for name in bound if name in self.inputs}
        else:
            values = {name: value for name, value in bound.items() if is_value(value)}
        constants = {name: value for name, value in bound.items() if name not in values}
        if tuple(values) == self.inputs and not constants:
            return workflow, values
        defaults = {name: value for name, value in self.constants.items() if name not in values}
        again = Traced(self.function, tuple(values), {**defaults, **constants}, self.validate).draw(workflow.name)
        again.policies, again.context = workflow.policies, workflow.context
        return again, values


def _call(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    positional = [
        given.pop(p.name) for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_ONLY
    ]
    return function(*positional, **given)


_ITSELF: Component = step(itself)


def _each_its_own(workflow: Workflow, given: Mapping[str, Any]) -> Flow:
    """Return *workflow*, of several inputs, with each of them fed by its own value."""
    for name in given:
        workflow = workflow.replace(name, _ITSELF.named(name))
    flow = workflow.flow()
    tails = {f"{workflow.name}.{name}": origin_of(living(value)).tail for name, value in given.items()}
    first = next(iter(tails.values()))
    links: list[Link] = [entry.fed_by((tails.get(str(entry.child.name), first),), "all") for entry in flow.entries]
    return Flow(tails=flow.tails, links=tuple(links), parts=(flow,))


def _passed_on(values: Values) -> Any:
    """Return the type of the facts that a component passes on which produces none itself."""
    return origin_of(values[0]).kind if len(values) == 1 and isinstance(values[0], Symbol) else ANY


def _is_same(known: Component | Workflow, base: Component | Workflow) -> bool:
    if isinstance(known, Workflow) or isinstance(base, Workflow):
        return known is base or known == base
    return known is base or (known.kind == base.kind and known.identity == base.identity)


def _template(name: str, returned: Any, made: Workflow) -> Template:
    def leaf(value: Any) -> Output:
        if not isinstance(value, Symbol):
            raise TracingError(
                f"@workflow {name!r} returns {value!r:.60}, which no component makes; return values of steps, alone "
                "or in a tuple, a list or a dict"
            )
        tail = origin_of(living(value)).tail
        if tail is INPUT:
            raise TracingError(f"@workflow {name!r} returns its own input; put a step between that returns it")
        component = made.component(tail)
        if not component.makes_facts:
            raise TracingError(
                f"@workflow {name!r} returns the {component.kind} {component.label!r}, which makes no values; "
                "return what follows it"
            )
        return Output(made.name_of(tail))

    return fill(returned, leaf)


def _name_of(given: Any) -> str:
    return getattr(given, "name", None) or "name"


def _check_function(given: object) -> None:
    """Raise InvalidComponent unless *given* is something that ``@workflow`` can draw."""
    if callable(given) and hasattr(given, "__name__"):
        return
    hint = "a name is given by keyword: @workflow(name='name')"
    if isinstance(given, Fragment):
        hint = f"make a workflow of it: Workflow({_name_of(given)!r}, ...)"
    raise InvalidComponent(f"@workflow draws a function, got {given!r:.80}; {hint}")


class WorkflowDecorator(Protocol):
    """Draws a workflow of a function."""

    @overload
    def __call__(self, function: Callable[[A], R], /) -> Workflow[A, R]: ...
    @overload
    def __call__(self, function: Callable[..., R], /) -> Workflow[Any, R]: ...


# A function of one required parameter takes the input as it is; of several, a mapping or a sequence.
@overload
def workflow(
    function: Callable[[A], R], *, name: str | None = None, validate: Validate = "error"
) -> Workflow[A, R]: ...
@overload
def workflow(
    function: Callable[..., R], *, name: str | None = None, validate: Validate = "error"
) -> Workflow[Any, R]: ...
@overload
def workflow(*, name: str | None = None, validate: Validate = "error") -> WorkflowDecorator: ...
def workflow(
    function: Callable[..., Any] | None = None, *, name: str | None = None, validate: Validate = "error"
) -> Any:
    """
    Draw a workflow by calling steps: a decorator for a function that runs once, on symbols.

    Parameters without a default are inputs: one takes the input of a run as it is, several take a mapping or a
    sequence of that length.  Parameters with a default are constants.

    Args:
        name: what the workflow is called; the function's own name if not given.
        validate: what to do where annotations do not fit; as of :class:`~weft.Workflow`.

    Raises:
        TracingError: the function used a value that is not there yet, or returned what no component makes.
    """

    def make(call: Callable[..., Any]) -> Workflow:
        _check_function(call)
        if inspect.iscoroutinefunction(call) or inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call):
            raise InvalidComponent(
                f"@workflow takes a plain function, and {call.__qualname__}() suspends; only steps can be `async def`"
            )
        parameters = inspect.signature(call).parameters.values()
        for p in parameters:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise InvalidComponent(f"@workflow {call.__qualname__}() takes *{p.name}; name every input")
        inputs = tuple(p.name for p in parameters if p.default is p.empty)
        constants = {p.name: p.default for p in parameters if p.default is not p.empty}
        return Traced(call, inputs, constants, validate).draw(name or call.__name__)

    return make if function is None else make(function)
