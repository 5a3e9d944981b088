"""
The ``>>`` language: how fragments become edges.

A fragment is anything that can be an operand of ``>>``: a component, a join, a workflow, a list of these.  Each
has *entries*, which take the facts of the fragment before it, and *tails*, which produce its own facts.  ``a >> b``
links the tails of *a* to the entries of *b*; several tails are a join.  A list is on one side of ``>>`` at a time:
``[a, b] >> [c, d]`` never gets here, since Python refuses two lists; ``join(a, b) >> [c, d]`` says the same.

A flow is a tree of the flows it was made of, so ``>>`` costs the same however long the chain is; the tree
is walked once, when a workflow is made of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NoReturn, TypeVar, cast, overload

from weft.core import deferred
from weft.core.compose.symbol import tracing
from weft.errors import InvalidFragment, InvalidJoin, NoRun
from weft.typing import Out, Out_co, Wait

if TYPE_CHECKING:
    from weft.core.compose.component import Component


T = TypeVar("T")

_OF_WORKFLOWS = frozenset({"run", "arun", "react", "react_until_satisfied", "plan", "plan_eagerly", "with_policies"})
"""Methods that a workflow has and its parts have not."""


class Fragment(Generic[Out_co]):
    """
    Base of everything that can be composed with ``>>``; a subclass says with :meth:`flow` what it is made of.

        >>> from weft import Fragment, Workflow, step
        >>> class Cleaned(Fragment):
        ...     def __init__(self, name):
        ...         self.strip = step(str.strip, name=f"{name}.strip")
        ...         self.lower = step(str.lower, name=f"{name}.lower")
        ...     def flow(self):
        ...         return self.strip >> self.lower
        >>> Workflow("w", Cleaned("title") >> step(len)).run("  Weft ").output
        4

    Create its components once, so that every use has the same ones; ``weft.testing.FragmentContract`` tests that.
    """

    is_function: ClassVar[bool] = False
    """Whether it can be used where a function is expected, although it is composed."""

    def flow(self) -> Flow[Out_co]:
        """Return this fragment as a flow: what ``a >> b`` is, or ``component.flow()``."""
        raise NotImplementedError(f"override {type(self).__name__}.flow() to return a flow, such as a >> b")

    def _repr_svg_(self) -> str | None:
        """Draw it where a notebook shows it; None, for its text, if it cannot stand alone."""
        return deferred.drawn(self)

    if not TYPE_CHECKING:  # to a type checker, every attribute would be one that is there

        def __getattr__(self, name: str) -> NoReturn:
            what = type(self).__name__
            text = f"{what!r} object has no attribute {name!r}"
            if name in _OF_WORKFLOWS:
                text += f": a workflow has; make one of it: Workflow('name', ...).{name}(...)"
            raise AttributeError(text, name=name, obj=self)

    @overload
    def __rshift__(self, other: PerElement[T]) -> ElementFlow[T]: ...
    @overload
    def __rshift__(self, other: Gathering[T]) -> GatheringFlow[T]: ...
    @overload
    def __rshift__(self, other: Fragment[T]) -> Flow[T]: ...
    @overload
    def __rshift__(self, other: object) -> Flow: ...
    def __rshift__(self, other: object) -> Flow[Any]:
        return connect(as_flow(self), as_flow(other))

    def __rrshift__(self, other: object) -> Flow[Out_co]:
        return connect(as_flow(other), as_flow(self))


class PerElement(Fragment[list[Out]], Generic[Out]):
    """Base of what opens an ``each``: what follows it runs once per element, until something gathers the results."""

    if TYPE_CHECKING:  # what >> does is the same; what a run of it produces is a list

        @overload  # type: ignore[override]
        def __rshift__(self, other: PerElement[T]) -> ElementFlow[T]: ...
        @overload
        def __rshift__(self, other: Gathering[T]) -> Flow[T]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        @overload
        def __rshift__(self, other: NamedGraph[Any]) -> Flow: ...  # type: ignore[overload-overlap]
        @overload
        def __rshift__(self, other: Fragment[T]) -> ElementFlow[T]: ...
        @overload
        def __rshift__(self, other: object) -> Flow: ...
        def __rshift__(self, other: object) -> Any: ...  # pyright: ignore[reportIncompatibleMethodOverride]


class Gathering(Fragment[Out_co]):
    """Base of what makes one value of all that an ``each`` before it has made."""

    if TYPE_CHECKING:

        @overload
        def __rshift__(self, other: PerElement[T]) -> ElementFlow[T]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        @overload
        def __rshift__(self, other: Fragment[T]) -> GatheringFlow[T]: ...
        @overload
        def __rshift__(self, other: object) -> Flow: ...
        def __rshift__(self, other: object) -> Any: ...  # pyright: ignore[reportIncompatibleMethodOverride]


class NamedGraph(Fragment[Out_co]):
    """A graph with a name, such as a workflow; as a part of another graph, its components are named after it."""

    name: str

    @abstractmethod
    def renamed(self, name: str) -> NamedGraph:
        """Return the same graph under another *name*."""


class Input(Fragment):
    """The input of the workflow, as a parent: ``[INPUT, title] >> report``."""

    name: Final = "INPUT"

    def flow(self) -> Flow:
        """Return a flow that starts at the input."""
        return Flow(tails=(self,))

    def __repr__(self) -> str:
        return "INPUT"


INPUT: Final = Input()


class Entry(Fragment):
    """Where a flow is open: stands for whatever will precede it."""


ENTRY: Final = Entry()


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """*parents* feed *child*; several of them are a join that waits for *wait*."""

    parents: tuple[Any, ...]
    child: Component
    wait: Wait = "all"
    implicit: bool = False
    """Whether this only says that *child* is open: a component that nothing feeds is a root by itself."""
    errors: tuple[str, ...] = ()
    """The names of exceptions: the link carries failures of its parent with one of these, and no values."""
    place: int = 0
    """The place of this link among those of *child*, if that is known already: in a workflow that is nested."""

    def fed_by(self, tails: tuple[Any, ...], wait: Wait) -> Link:
        """Return this link with *tails* where it was open."""
        if self.parents == (ENTRY,):
            return Link(tails, self.child, wait, place=self.place)
        if wait != "all":
            raise InvalidJoin(
                f"{self.child.name!r} joins its input with other parents, so a join that waits for "
                f"{wait!r} cannot feed it; put a step between them"
            )
        parents: list[Any] = []
        for parent in self.parents:
            parents.extend(tails if parent is ENTRY else (parent,))
        return replace(self, parents=tuple(parents))

    def fed_by_errors(self, component: Component, errors: tuple[str, ...]) -> Link:
        """Return this link with the failures of *component* where it was open."""
        if self.parents != (ENTRY,):
            raise InvalidJoin(
                f"{self.child.name!r} joins its input with other parents, so no failure can be routed to it; "
                "put a step between them"
            )
        return Link((component,), self.child, errors=errors)


@dataclass(frozen=True, slots=True, eq=False)
class Flow(Fragment[Out_co]):
    """A piece of a graph that is open at both ends."""

    entries: tuple[Link, ...] = ()
    tails: tuple[Any, ...] = ()
    wait: Wait = "all"
    components: tuple[Component, ...] = ()
    supports: tuple[Component, ...] = ()
    """Conditions that the components bring along: they are there to be asked, and are nowhere in the flow."""
    links: tuple[Link, ...] = ()
    parts: tuple[Flow, ...] = ()
    home: Component | None = None
    """The ``each`` whose body this flow is."""
    rules: tuple[Any, ...] = ()
    """How its components run, if it is a workflow with policies."""
    context: tuple[tuple[str, Any], ...] = ()
    """The defaults of its components for context keys, if it is a workflow with some."""

    def flow(self) -> Flow[Out_co]:
        """Return the flow itself."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Draw this flow inside ``@workflow``, fed by the values it gets."""
        tracer = tracing()
        if tracer is None:
            raise NoRun("a flow is called inside @workflow only; elsewhere make a workflow of it: Workflow(name, flow)")
        return tracer.draw(self, args, kwargs)

    def __repr__(self) -> str:
        into = ", ".join(str(entry.child.name) for entry in self.entries)
        out = ", ".join(str(tail.name) for tail in self.tails)
        return f"Flow({into or 'INPUT'} >> ... >> {out})"

    def walk(self) -> Iterator[tuple[Flow, tuple[Component, ...]]]:
        """Yield every flow of this tree, parts first, with the homes it is in, innermost last."""
        stack: list[tuple[Flow, tuple[Component, ...], bool]] = [(self, (), False)]
        while stack:
            flow, homes, seen = stack.pop()
            if seen:
                yield flow, homes
                continue
            inner = homes if flow.home is None else (*homes, flow.home)
            stack.append((flow, inner, True))
            stack.extend((part, inner, False) for part in reversed(flow.parts))


if TYPE_CHECKING:  # type checkers tell these apart by where an ``each`` opens and closes; a graph knows that anyway

    class ElementFlow(PerElement[Out], Flow[list[Out]]):
        """A flow in which an ``each`` is open: what follows it runs once per element."""

    class GatheringFlow(Gathering[Out_co], Flow[Out_co]):
        """A flow that gathers what an ``each`` before it makes."""

else:
    ElementFlow = GatheringFlow = Flow


def as_flow(thing: object) -> Flow:
    """
    Return *thing*, a fragment or a list of fragments, as a flow.

    Raises:
        InvalidJoin: an empty list.
        InvalidFragment: something that is not a fragment.
    """
    given: Any = thing  # what is still of any type after the checks
    if isinstance(thing, Fragment):
        flow: Any = given.flow()
        if not isinstance(flow, Flow):
            raise InvalidFragment(
                f"{type(given).__name__}.flow() returned {flow!r:.80}; return a flow: a >> b, or component.flow()"
            )
        return flow  # pyright: ignore[reportUnknownVariableType]
    if isinstance(thing, list | tuple):
        return beside([as_flow(item) for item in cast("Iterable[object]", thing)])
    if callable(thing):
        hint = getattr(thing, "lacks", "wrap a function with step(...)")
    else:
        hint = "if a step was called here, write it without the call"
    raise InvalidFragment(f"expected a component, a workflow or a list of these beside >>, got {thing!r:.120}; {hint}")


def beside(flows: Iterable[Flow]) -> Flow:
    """Return *flows* side by side: all of them are fed, all of them feed."""
    parts = tuple(flows)
    if not parts:
        raise InvalidJoin("an empty list cannot stand beside >>; it would feed nothing and join nothing")
    if len(parts) == 1:
        return parts[0]
    for part in parts:
        if part.wait != "all":
            raise InvalidJoin("a join inside a list would lose what it waits for; write join(...) >> child separately")
    return Flow(
        entries=tuple(entry for part in parts for entry in part.entries),
        tails=tuple(tail for part in parts for tail in part.tails),
        parts=parts,
    )


def connect(first: Flow, then: Flow) -> Flow:
    """Return a flow in which *first* feeds *then*."""
    if not first.tails:
        raise InvalidJoin("nothing comes out of the left side of >>")
    if not then.entries:
        raise InvalidJoin("nothing goes into the right side of >>; INPUT and a bare join take no parents")
    links = tuple(entry.fed_by(first.tails, first.wait) for entry in then.entries)
    return Flow(entries=first.entries, tails=then.tails, wait=then.wait, links=links, parts=(first, then))


def rescue(component: Component, errors: tuple[str, ...], then: Flow, around: Flow | None = None) -> Flow:
    """
    Return *component*, open at both ends, with *then* fed by those of its failures that *errors* name.

    Args:
        around: the flow that *component* is a part of; *component* alone if not given.
    """
    if not then.entries:
        raise InvalidJoin("nothing goes into then=...; INPUT and a bare join take no failure")
    flow = around or component.flow()
    links = tuple(entry.fed_by_errors(component, errors) for entry in then.entries)
    return Flow(entries=flow.entries, tails=flow.tails, wait=flow.wait, links=links, parts=(flow, then))
