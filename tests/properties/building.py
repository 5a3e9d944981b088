"""
From the description of a graph to the workflow it describes.

    >>> from description import Code, Graph, Inlet, Step
    >>> graph = Graph((Step("s1", (Inlet(("INPUT",)),), code=Code(k=1)), Step("s2", (Inlet(("s1",)),))))
    >>> build(graph).run(5).values()
    [11, 22]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

from description import (
    INPUT,
    Accumulator,
    And,
    Condition,
    Expression,
    Gate,
    Graph,
    Inlet,
    Map,
    Not,
    Or,
    Part,
    Reduce,
    Rule,
    Step,
)

import weft
from weft.typing import Wait


def build(graph: Graph, calls: Counter[str] | None = None, *, said: Sequence[int] | None = None) -> weft.Workflow:
    """
    Return the workflow that *graph* describes.

    Args:
        calls: where its functions count how often they are called.
        said: numbers that put the edges into another order; by themselves they come child by child.
    """
    return _Builder(graph, Counter() if calls is None else calls).workflow(said)


class _Builder:
    def __init__(self, graph: Graph, calls: Counter[str]) -> None:
        self.graph, self.calls = graph, calls
        self.made: dict[str, Any] = {INPUT: weft.INPUT}

    def workflow(self, said: Sequence[int] | None) -> weft.Workflow:
        for part in self.graph.parts:
            if not isinstance(part, Map):
                self.made[part.name] = self.component(part)
        for part in reversed(self.graph.parts):  # inner maps first
            if isinstance(part, Map):
                self.made[part.name] = weft.each(list(self.body(part.name)), name=part.name)
        fragments = list(self.fragments())
        if said:
            order = [said[place % len(said)] for place in range(len(fragments))]
            fragments = [fragments[place] for place in sorted(range(len(fragments)), key=order.__getitem__)]
        return weft.Workflow("drawn", *fragments)

    # -- wiring ----------------------------------------------------------------------------------

    def fragments(self) -> Iterator[Any]:
        """Yield every link of the graph; those from a map to what takes its elements are in its body."""
        for part in self.graph.parts:
            component = self.made[part.name]
            if not part.inlets:
                yield component
            for inlet in part.inlets:
                if inlet.parents != (part.region,):
                    yield joined([self.made[parent] for parent in inlet.parents], inlet.wait) >> component

    def body(self, region: str) -> Iterator[Any]:
        """Yield what takes the elements, and the reduces that stand in the body and do not close the map."""
        for part in self.graph.parts:
            if any(inlet.parents == (region,) for inlet in part.inlets):
                yield self.made[part.name]
            elif isinstance(part, Reduce) and part.region == region and not self.graph.closes(part):
                yield self.chain(part)

    def chain(self, part: Part) -> Any:
        """Return a chain from the element to *part*, by first inlets."""
        inlet = part.inlets[0]
        if inlet.parents == (part.region,):
            return self.made[part.name]
        parents = [self.chain(self.graph.by_name[parent]) for parent in inlet.parents]
        return joined(parents, inlet.wait) >> self.made[part.name]

    # -- components ------------------------------------------------------------------------------

    def component(self, part: Part) -> Any:
        name = part.name
        match part:
            case Step(code=code):
                function = self.function(part, name, code.work)
                made = weft.step(function, name=name, spread=code.takes == "spread")
                return made.bind(k=code.k) if code.bound else made
            case Condition(code=code):
                return weft.condition(self.function(part, name, code.test), name=name)
            case Gate(when=when):
                return self.expression(when).named(name)
            case Rule(code=code):
                return weft.rule(when=self.when(part), then=self.function(part, name, code.work), name=name)
            case Reduce():
                init = list if part.init == [] else part.init
                return weft.reduce(self.function(part, name, part.fold, width=2), init=init, name=name)
            case Accumulator():
                function = self.function(part, name, part.fold, width=2)
                return weft.accumulator(function, init=part.init, name=name)
            case _:
                raise TypeError(f"{part!r} is no part with a component of its own")

    def when(self, rule: Rule) -> Any:
        """Return the condition of *rule*: a function, an expression over others, or the name of one."""
        match rule.when:
            case None | str():
                return rule.when
            case Not() | And() | Or():
                return self.expression(rule.when)
            case code:
                return self.function(rule, f"{rule.name}.when", code.test)

    def expression(self, expression: Expression) -> Any:
        match expression:
            case str():
                return self.made[expression]
            case Not(of):
                return ~self.expression(of)
            case And(left, right):
                return self.expression(left) & self.expression(right)
            case Or(left, right):
                return self.expression(left) | self.expression(right)

    def function(self, part: Part, name: str, work: Callable[..., Any], width: int | None = None) -> Any:
        """Return a function with the parameters that its code asks for, which does *work* and counts."""
        code, calls = part.codes[name], self.calls
        parameters = {"one": None, "two": None}
        for parameter, read in zip(parameters, code.reads, strict=False):
            parameters[parameter] = read.reference()

        def call(args: tuple[Any, ...], k: int, *seen: Any) -> Any:
            calls[name] += 1
            return work(args, seen[: len(code.reads)], k)

        arities = {"nothing": 0, "each": self.width(part) if width is None else width}
        function = with_parameters(call, arities.get(code.takes))
        function.__annotations__ = {}  # they say nothing, and reading a log would work them out each time
        function.__kwdefaults__ = {"k": -1 if code.bound else code.k, **parameters}
        return as_coroutine(function) if code.is_async else function

    def width(self, part: Part) -> int | None:
        """Return how many values arrive at *part*; None if that differs, or if it is only asked."""
        widths = {self.inlet_width(inlet) for inlet in part.inlets}
        return widths.pop() if len(widths) == 1 else None

    def inlet_width(self, inlet: Inlet) -> int | None:
        if inlet.wait == "all":
            parents = [self.graph.by_name.get(parent) for parent in inlet.parents]
            widths = [self.width(parent) if isinstance(parent, Condition | Gate) else 1 for parent in parents]
            return None if None in widths else sum(width or 0 for width in widths)
        return {"any": 1, "all_done": len(inlet.parents)}.get(str(inlet.wait)) or int(inlet.wait)


def joined(parents: list[Any], wait: Wait) -> Any:
    """Return *parents* as what stands left of ``>>``."""
    if len(parents) == 1:
        return parents[0]
    return parents if wait == "all" else weft.join(*parents, wait=wait)


def with_parameters(call: Callable[..., Any], width: int | None) -> Any:
    """Return a function of *width* values, or of any number, that has *call* do its work."""

    def nullary(*, k: int, one: Any, two: Any) -> Any:
        return call((), k, one, two)

    def unary(x: Any, *, k: int, one: Any, two: Any) -> Any:
        return call((x,), k, one, two)

    def binary(x: Any, y: Any, *, k: int, one: Any, two: Any) -> Any:
        return call((x, y), k, one, two)

    def variadic(*values: Any, k: int, one: Any, two: Any) -> Any:
        return call(values, k, one, two)

    return {0: nullary, 1: unary, 2: binary}.get(-1 if width is None else width, variadic)


def as_coroutine(function: Callable[..., Any]) -> Any:
    """Return *function* as a coroutine function."""

    @wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return coroutine
