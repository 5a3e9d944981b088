"""
A loop over a graph: branches, joins, rules and maps that run again on their result until a condition holds.

    >>> from weft import Workflow, condition, join, repeat, rule
    >>> is_even = condition(lambda n: n % 2 == 0, name="is_even")
    >>> half, grow = rule(when=is_even, then=lambda n: n // 2), rule(when=~is_even, then=lambda n: 3 * n + 1)
    >>> shrink = join(half.named("half"), grow.named("grow"), wait="any")
    >>> loop = repeat(shrink, until=lambda n: n == 1, at_most=100, name="collatz")
    >>> run = Workflow("w", loop).run(6)
    >>> run.value("collatz"), run.values("collatz.half"), run.values("collatz.grow")
    (1, [3, 5, 8, 4, 2, 1], [10, 16])

It is made by :func:`weft.repeat`.  Every turn is a separate scope: facts of one turn are joined with facts of the same
turn only, as they are for the elements of an ``each``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from weft.core.components.loop_ends import Otherwise, TurnEnd, TurnStart
from weft.core.compose.assembly import Assembly
from weft.core.compose.component import Component, check_name
from weft.core.compose.flow import ENTRY, Flow, Fragment, Link, NamedGraph, as_flow, rescue
from weft.core.compose.nesting import nested
from weft.core.compose.symbol import tracing
from weft.core.failure import names_of
from weft.core.functions.function import Function
from weft.errors import InvalidComponent, NoRun


@dataclass(frozen=True, eq=False)
class Loop(Fragment):
    """A graph that runs again on its own result: several components, with one name for all of them."""

    name: str
    body: Flow | NamedGraph
    until: Function
    at_most: int
    otherwise: Otherwise = "fail"

    def __post_init__(self) -> None:
        check_name(self.name, "a loop")
        tails = self._inner().tails
        for tail in tails:
            if not isinstance(tail, Component) or not tail.makes_facts:
                what = f"the {tail.kind} {tail.label!r}" if isinstance(tail, Component) else "the input"
                raise InvalidComponent(
                    f"a turn of {self.name!r} ends with {what}, which makes no value to go on with; let it end with a "
                    "step or another component that makes one"
                )

    def named(self, name: str) -> Loop:
        """Return the same loop under another *name*."""
        return replace(self, name=name)

    def on_error(self, *errors: type[BaseException], then: object) -> Flow:
        """
        Return this loop with a route for failures inside it, and for the failure of a loop that has used all its turns.

        Routes of the components inside it come first.  Otherwise as :meth:`Component.on_error`.
        """
        mine = self.flow()
        return rescue(mine.tails[0], names_of(errors), as_flow(then), mine)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Draw this loop inside ``@workflow``, fed by the value it gets."""
        tracer = tracing()
        if tracer is None:
            raise NoRun(
                f"the loop {self.name!r} is called inside @workflow only; elsewhere make a workflow of it: "
                "Workflow(name, loop)"
            )
        return tracer.draw(self.flow(), args, kwargs)

    def flow(self) -> Flow:
        """Return the start of a turn, the body and the end of a turn, linked in this order."""
        body = self._inner()
        start = TurnStart(f"{self.name}.turn")
        end = TurnEnd(self.name, self.until, self.at_most, start.label, otherwise=self.otherwise)
        if any(component.name in (f"{self.name}.turn", f"{self.name}.until") for component in _components(body)):
            raise InvalidComponent(
                f"a component of the loop {self.name!r} is called 'turn' or 'until', which are parts of the loop; "
                "use .named('other')"
            )
        if len(body.tails) != 1 and body.wait != "any":
            ends = ", ".join(tail.label for tail in body.tails)
            raise InvalidComponent(
                f"a turn of {self.name!r} ends with {len(body.tails)} values ({ends}); let one component take them: "
                "[a, b] >> combine, or join(a, b, wait='any') if only one of them comes"
            )
        return Flow(
            entries=(Link((ENTRY,), start, implicit=True),),
            tails=(end,),
            components=(start, end),
            links=(
                *(entry.fed_by((start,), "all") for entry in body.entries),
                Link(body.tails, end, body.wait),
            ),
            parts=(Flow(parts=(body,), home=start),),
        )

    def _inner(self) -> Flow:
        """Return the body, with its components called after the loop."""
        if not isinstance(self.body, Flow):
            return (self.body if self.body.name == self.name else self.body.renamed(self.name)).flow()
        assembly = Assembly()
        assembly.take(self.body)
        tails = [assembly.names[tail] for tail in self.body.tails if tail in assembly.names]
        if len(tails) != len(self.body.tails):
            raise InvalidComponent(f"a turn of {self.name!r} ends with the input itself; put a step behind it")
        return nested(self.name, assembly, tails, wait=self.body.wait, rules=assembly.rules)

    def __repr__(self) -> str:
        return f"Loop({self.name!r})"


def _components(flow: Flow) -> list[Component]:
    return [component for part, _ in flow.walk() for component in (*part.components, *part.supports)]
