"""
A map: a component, a pipeline or a graph for each element of a collection.

    >>> from weft import Workflow, reduce, step
    >>> square = step(lambda x: x * x, name="square")
    >>> run = Workflow("squares", each(square) >> reduce(lambda acc, x: acc + x, init=0, name="sum")).run([1, 2, 3])
    >>> run.values("square"), run.value("sum")
    ([1, 4, 9], 14)

The components of the body, and those after it up to a reduce, run once per element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, overload

from weft.core.compose.component import Component
from weft.core.compose.flow import ENTRY, ElementFlow, Flow, Fragment, Link, PerElement, as_flow
from weft.core.compose.symbol import tracing
from weft.core.functions.function import Function
from weft.core.functions.identity import canonical
from weft.errors import InvalidComponent, NoRun, NotACollection, UnidentifiableValue, WrongArity, an
from weft.typing import Out

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


@dataclass(frozen=True, eq=False, repr=False)
class Map(Component[list[Out]], PerElement[Out], Generic[Out]):
    """The start of a region in which everything runs once per element."""

    body: Flow
    kind: ClassVar[str] = "map"
    makes_facts: ClassVar[bool] = False
    opens_region: ClassVar[bool] = True

    def flow(self) -> ElementFlow[Out]:
        """Return the map and its body, which is fed by it."""
        links = tuple(entry.fed_by((self,), "all") for entry in self.body.entries)
        return ElementFlow(
            entries=(Link((ENTRY,), self, implicit=True),),
            tails=self.body.tails,
            components=(self,),
            links=links,
            parts=(Flow(parts=(self.body,), home=self),),
            wait=self.body.wait,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Draw this map inside ``@workflow``, fed by the collection it gets."""
        tracer = tracing()
        if tracer is None:
            raise NoRun(
                "each(...) is called on a collection inside @workflow only; elsewhere write source >> each(...)"
            )
        return tracer.draw(self, args, kwargs)

    def functions(self) -> dict[str, Function]:
        """Return nothing: a map does not run a function, its body does."""
        return {}

    def to_data(self) -> dict[str, Any]:
        """Return nothing: the body follows from the homes and inlets of the components in it."""
        return {}

    def check_width(self, width: int, source: str) -> None:
        """Require one collection."""
        if width != 1:
            raise WrongArity(f"each() takes one collection apart and gets {width} values from {source}")

    def expand(self, into: Expansion) -> None:
        """One node, whose value is taken apart by the fold."""
        into.feed(into.work(_ELEMENTS, fans_out=True))


def elements_of(value: Any, where: str = "each") -> Any:
    """
    Return *value* as a sequence whose order every process agrees on.

    Raises:
        NotACollection: *value* is not a finite iterable, or one that is not meant to be taken apart.
    """
    given = value  # what is still of any type after the checks
    if isinstance(value, tuple | range):
        return given
    if isinstance(value, set | frozenset):
        return _ordered(given)
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        raise NotACollection(
            f"{where} needs a list, tuple, range, set or another finite iterable, and got "
            f"{an(type(given).__name__)}: {_shown(given)}; let the step before it return a list"
        )
    return list(given)


def _ordered(members: set[Any] | frozenset[Any]) -> list[Any]:
    """Return the *members* of a set by value if they are numbers or text, else by their canonical form."""
    kinds: set[Any] = {type(member) for member in members}
    if len(kinds) == 1 and kinds <= {int, float, str, bytes}:
        return sorted(members)
    try:
        return sorted(members, key=canonical)
    except UnidentifiableValue as error:
        raise NotACollection(f"the elements of this set have no order: {error}; pass a list") from error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_ELEMENTS = Function(elements_of, ("value",), variadic=False)


@overload
def each(body: PerElement[Out], *, name: str | None = None) -> Map[Out]: ...
@overload
def each(body: Fragment[Out], *, name: str | None = None) -> Map[Out]: ...
@overload
def each(body: object, *, name: str | None = None) -> Map: ...
def each(body: object, *, name: str | None = None) -> Map:
    """
    Run *body*, a component, a pipeline or a list of these, for each element of what arrives.

    Any finite iterable can be taken apart, except strings, bytes and mappings.
    """
    flow = as_flow(body)
    if not flow.entries:
        raise InvalidComponent("the body of each() must take the element: start it with a component, not with INPUT")
    return Map(name, flow)
