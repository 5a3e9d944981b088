"""
A loop: a body that runs again on its own result until a condition holds.

    >>> from weft import Workflow
    >>> halve = repeat(lambda x: x // 2, until=lambda x: x < 10, at_most=8, name="halve")
    >>> run = Workflow("w", halve).run(100)
    >>> run.value("halve"), run.values("halve.turn")
    (6, [50, 25, 12, 6])

Every turn is a fact that came from the turn before, so a loop can be interrupted anywhere and continues from there;
only the result of the last turn is the value of the loop.  Policies apply per turn.

A step, or a chain of steps, is one component.  Any other graph is a :class:`~weft.core.components.loop.Loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast, overload

from weft.core.components.loop import Loop
from weft.core.components.loop_ends import ITSELF, Otherwise
from weft.core.components.step import Step, step
from weft.core.compose.component import Component, check_arity
from weft.core.compose.flow import Flow, Fragment, Link, NamedGraph, as_flow
from weft.core.compose.symbol import tracing
from weft.core.functions.function import Function
from weft.core.functions.identity import canonical
from weft.errors import InvalidComponent, LoopExhausted, NoRun

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion, NodeHandle


@dataclass(frozen=True, eq=False, repr=False)
class Repeat(Component):
    """A chain of steps that runs again until a test holds."""

    turn: Mapping[str, Step[..., Any]]
    """The steps of a turn, in order, by the part of the name that is their own."""
    until: Function
    at_most: int
    otherwise: Otherwise = field(default="fail", kw_only=True)
    kind: ClassVar[str] = "repeat"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the loop here and now; inside ``@workflow``, draw it."""
        tracer = tracing()
        if tracer is not None:
            return tracer.draw(self, args, kwargs)
        if any(function.is_async for function in self.functions().values()):
            raise NoRun(f"{self.label!r} has an `async def` in its turn; run it in a workflow")
        (value,) = args
        for _ in range(self.at_most):
            for inner in self.turn.values():
                value = inner(value)
            if self.until.plainly((value,), {}):
                return value
        if self.otherwise == "last":
            return value
        raise LoopExhausted(f"{self.label!r} made {self.at_most} turns and its until= never held")

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this loop with components renamed as *names* says."""
        turn = {part: replace(inner, function=inner.function.renamed(names)) for part, inner in self.turn.items()}
        return replace(super().renamed(names), turn=turn, until=self.until.renamed(names))

    def before(self, *hooks: Callable[..., object], part: str | None = None) -> Self:
        """Refuse *hooks*, unless they are for a *part*: a step of a turn."""
        if part is not None:
            return super().before(*hooks, part=part)
        raise InvalidComponent(
            f"{self.label!r} is a loop and cannot have hooks; put them on the steps of its turn: "
            "repeat(think.before(...) >> act, ...)"
        )

    def after(self, *hooks: Callable[..., object], part: str | None = None) -> Self:
        """Refuse *hooks*, unless they are for a *part*: a step of a turn."""
        return self.before(*hooks) if part is None else super().after(*hooks, part=part)

    def functions(self) -> dict[str, Function]:
        """Return the steps of a turn, and the test that ends the loop."""
        return {**{part: inner.function for part, inner in self.turn.items()}, "until": self.until}

    def parts(self) -> dict[str, Function]:
        """Return the steps of a turn."""
        return {part: inner.function for part, inner in self.turn.items()}

    def arriving(self) -> dict[str, Function]:
        """Return the first function of a turn: the others get what it made."""
        part, first = next(iter(self.turn.items()))
        return {part: first.function}

    @property
    def makes(self) -> Any:
        """The type of the last value of a turn."""
        return list(self.turn.values())[-1].function.makes

    def own_policies(self) -> dict[str, Any]:
        """Return the policies that were declared with the steps of a turn."""
        return {part: inner.policy for part, inner in self.turn.items() if inner.policy is not None}

    def rules_hold_for(self, part: str) -> bool:
        """Whether *part* is a step of a turn: a policy for the loop holds once per turn for each of them."""
        return part in self.turn

    def check_width(self, width: int, source: str) -> None:
        """Require that a turn takes one value, and that each function in it takes what the one before makes."""
        for part, inner in self.turn.items():
            check_arity(f"{self.label}.{part}", inner.function, width, source, spread=inner.spread)
            width, source = 1, f"{self.label}.{part}"
        check_arity(f"{self.label}.until", self.until, 1, source, spread=False)

    def expand(self, into: Expansion) -> None:
        """A node for each step of a turn, a test, and a node for the outcome."""
        turn = [self._work(into, part, inner) for part, inner in self.turn.items()]
        until = into.test(self.until, part="until")
        outcome = into.work(ITSELF)
        into.feed(turn[0])
        into.loop(turn, until, at_most=self.at_most, gives_last=self.otherwise == "last")
        into.link(until, outcome)

    def _work(self, into: Expansion, part: str, inner: Step[..., Any]) -> NodeHandle:
        function = inner.function
        hooked = inner.hooks.around(function.call, is_async=function.is_async, component=f"{self.label}.{part}")
        return into.work(function, call=hooked if inner.hooks else None, spread=inner.spread, part=part)

    def details(self) -> bytes:
        """The order of the steps, how many turns there may be, and what happens after the last one."""
        steps = [(part, inner.spread) for part, inner in self.turn.items()]
        return canonical((steps, self.at_most, self.otherwise))


@overload
def repeat(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    body: Flow | NamedGraph,
    *,
    until: Callable[..., object],
    at_most: int,
    otherwise: Otherwise = "fail",
    name: str | None = None,
) -> Repeat | Loop: ...
@overload
def repeat(
    body: Step[..., Any] | Callable[..., Any],
    *,
    until: Callable[..., object],
    at_most: int,
    otherwise: Otherwise = "fail",
    name: str | None = None,
) -> Repeat: ...
@overload
def repeat(
    body: Fragment,
    *,
    until: Callable[..., object],
    at_most: int,
    otherwise: Otherwise = "fail",
    name: str | None = None,
) -> Repeat | Loop: ...
def repeat(
    body: object,
    *,
    until: Callable[..., object],
    at_most: int,
    otherwise: Otherwise = "fail",
    name: str | None = None,
) -> Repeat | Loop:
    """
    Run *body* on what arrives, then on its own result, until *until* holds for that result.

    Args:
        body: a function or a step, a chain of steps (``think >> act``), or any graph that takes one value and ends
            with one: a workflow, or a flow with branches, joins, rules and maps.
        until: a function or a condition, asked after every turn.
        at_most: how many turns there may be.
        otherwise: what happens after the last turn if *until* does not hold: ``"fail"`` with LoopExhausted, or go
            on with the ``"last"`` value.
        name: its name; by default that of the body, if this is one function or a workflow.

    Raises:
        InvalidComponent: a body without an input or an output, or a bound that makes no sense.
    """
    if type(at_most) is not int or at_most < 1:
        raise InvalidComponent(f"at_most={at_most!r}: a loop makes a whole number of turns, at least 1")
    if otherwise not in ("fail", "last"):
        raise InvalidComponent(f"otherwise={otherwise!r} is none of 'fail' and 'last'")
    chain = _chain(body)
    if chain is None:
        return _loop(body, Function.of(until), at_most, otherwise, name)
    if len(chain) == 1:
        name = name or chain[0].name
        turn = {"turn": chain[0]}
    else:
        turn = {inner.name or f"turn_{number}": inner for number, inner in enumerate(chain, 1)}
    if len(turn) != len(chain) or "until" in turn:
        raise InvalidComponent("the steps of a turn need different names, other than 'until'; use step.named('other')")
    tags = tuple(dict.fromkeys(tag for inner in chain for tag in inner.tags))
    return Repeat(name, turn, Function.of(until), at_most, otherwise=otherwise, tags=tags)


def _chain(body: object) -> list[Step[..., Any]] | None:
    """Return the steps of *body*, in order; None if it is more than a chain of steps."""
    if isinstance(body, Step):
        return [cast("Step[..., Any]", body)]
    given: Any = body  # what is still of any type after the checks
    if not isinstance(body, Fragment | list | tuple):
        return [step(given)]
    if isinstance(body, NamedGraph):  # its components keep their names, and it may have policies
        return None
    flow = as_flow(given)
    components = [component for part, _ in flow.walk() for component in part.components]
    links = [link for part, _ in flow.walk() for link in part.links]
    following = {link.parents[0]: link.child for link in links if _is_plain(link)}
    if (
        all(isinstance(component, Step) for component in components)
        and len(flow.entries) == len(flow.tails) == 1
        and len(links) == len(following) == len(components) - 1
    ):
        chain: list[Component] = [flow.entries[0].child]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        return cast("list[Step[..., Any]]", chain)
    return None


def _loop(body: Any, until: Function, at_most: int, otherwise: Otherwise, name: str | None) -> Loop:
    given: Any = body
    if not isinstance(body, NamedGraph):
        given = as_flow(body)
    name = name or getattr(given, "name", None)
    if name is None:
        raise InvalidComponent(
            f"a loop over several components needs a name, which theirs begin with: repeat({body!r}, ..., name='draft')"
        )
    if not given.flow().entries:
        raise InvalidComponent("the body of repeat() must take what arrives: start it with a component, not with INPUT")
    return Loop(name, given, until, at_most, otherwise)


def _is_plain(link: Link) -> bool:
    return len(link.parents) == 1 and isinstance(link.parents[0], Step)
