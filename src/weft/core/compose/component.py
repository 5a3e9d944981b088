"""
The base of every component: a name, functions, an identity, and an expansion into nodes.

To add a component, write one file in ``weft/core/components`` with a frozen dataclass that derives from
:class:`Component`, a line each in ``weft/__init__.py`` and ``weft/log/wire_names.py``, and a test that inherits the
tests of all components.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from weft.core.compose.flow import ENTRY, Flow, Fragment, Link, as_flow, rescue
from weft.core.compose.symbol import tracing
from weft.core.failure import names_of
from weft.core.functions.annotations import ANY
from weft.core.functions.function import Function
from weft.core.functions.hooks import NO_HOOKS, Hooks, as_hook
from weft.core.functions.identity import digest
from weft.core.functions.offered import offer
from weft.errors import InvalidComponent, NoRun, UnknownComponent, WrongArity, an
from weft.typing import Out_co

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion
    from weft.core.compose.part import Part
    from weft.core.functions.current import Current


@dataclass(frozen=True, eq=False)
class Component(Fragment[Out_co]):
    """Something that a user composes.  Immutable; two components are the same if their identity is."""

    name: str | None
    tags: tuple[str, ...] = field(default=(), kw_only=True)
    """Labels that policies can match besides the name; not part of the identity."""
    hooks: Hooks = field(default=NO_HOOKS, kw_only=True)
    """Functions that run before and after it, at every attempt; not part of the identity."""
    kind: ClassVar[str] = "component"
    takes_join: ClassVar[bool] = False
    """Whether several parents may feed it at once."""
    makes_facts: ClassVar[bool] = True
    """Whether it produces values, which others may read."""
    opens_region: ClassVar[bool] = False
    """Whether what it feeds runs in scopes that it opens: one per element, or per turn."""
    can_be_asked: ClassVar[bool] = False
    """Whether rules and conditions may ask whether it holds: where nothing follows it, it runs only then."""
    makes_many: ClassVar[bool] = False
    """Whether one input may make several facts of it."""
    keeps_state: ClassVar[bool] = False
    """Whether its last value is a state, folded in the order of the log."""
    is_leaf: ClassVar[bool] = True
    """Whether its values are among the results of a run, if nothing takes them."""
    gathers: ClassVar[bool] = False
    """Whether it takes all that its parents make in a scope at once: it closes an ``each`` before it."""
    folds: ClassVar[bool] = False
    """Whether the functions that get what arrives take a state before it."""

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name(self.name, "a component")
        for held in self.__dict__.values():
            if type(held) not in _OFFERED and held is not _NO_TAGS:
                offer(held)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Draw it inside ``@workflow``, fed by the values it gets; those that can be called elsewhere override this."""
        tracer = tracing()
        if tracer is None:
            raise NoRun(
                f"the {self.kind} {self.label!r} is called inside @workflow only; elsewhere make a workflow of it: "
                f"Workflow(name, {self.label})"
            )
        return tracer.draw(self, args, kwargs)

    def flow(self) -> Flow[Out_co]:
        """Return this component, open at both ends."""
        return Flow(
            entries=(Link((ENTRY,), self, implicit=True),),
            tails=(self,),
            components=(self,),
            supports=self.supports(),
        )

    def named(self, name: str) -> Self:
        """Return the same component under another *name*."""
        return replace(self, name=name)

    def tagged(self, *tags: str) -> Self:
        """Return the same component with *tags* that policies can match."""
        for tag in tags:
            check_name(tag, "a tag")
        return replace(self, tags=(*self.tags, *tags))

    def before(self, *hooks: Callable[[Current], object], part: str | None = None) -> Self:
        """
        Return the same component with *hooks* that run before it at every attempt; one that raises fails the attempt.

        Each is called with what ``weft.current()`` returns.

        Args:
            part: the part that they run before, such as a transaction of a saga; the component itself if not given.
        """
        return replace(self, hooks=self.hooks.and_before(tuple(as_hook(hook, 1) for hook in hooks), part))

    def after(self, *hooks: Callable[[Current, Any], object], part: str | None = None) -> Self:
        """
        Return the same component with *hooks* that run after it at every attempt; one that raises fails the attempt.

        Each is called with what ``weft.current()`` returns, and the value.

        Args:
            part: the part that they run after, such as a transaction of a saga; the component itself if not given.
        """
        return replace(self, hooks=self.hooks.and_after(tuple(as_hook(hook, 2) for hook in hooks), part))

    def part(self, name: str) -> Part:
        """
        Return the part *name* of this component, to be the parent of others: ``trip.part("book") >> notify``.

        Raises:
            UnknownComponent: it has no part of this name that produces values.
            InvalidComponent: the component has no name.
        """
        from weft.core.compose.part import Part

        if self.name is None:
            raise InvalidComponent(f"a part of {an(self.kind)} without a name was asked for; use .named('other') first")
        if name not in self.parts():
            raise self.has_no_part(name)
        return Part(f"{self.name}.{name}", self, name)

    def has_no_part(self, name: str) -> UnknownComponent:
        """Return the error that says that no part *name* produces values, and why."""
        where = f"{self.label!r}: {an(self.kind)} has no parts that produce values"
        if name in self.functions():
            where = f"{self.label!r} that produces values: it is called inside of it"
        elif self.parts():
            where = repr(self.label)
        return UnknownComponent(name, self.parts(), where, "part")

    def on_error(self, *errors: type[BaseException], then: object) -> Flow:
        """
        Return this component with a route for its failures: after the last retry, *then* gets a ``Failure``.

        A failure that is handled in this way is not a failure of the run.  The components that follow with ``>>`` still
        get only values.  If several routes fit, the one for the nearest class is taken.

        Args:
            errors: the exceptions to handle, subclasses included; all of them if none is given.
            then: what handles the failure: a component, or anything else that can stand beside ``>>``.
        """
        return rescue(self, names_of(errors), as_flow(then))

    def supports(self) -> tuple[Component, ...]:
        """Return the components that this one brings along, such as the conditions of a rule."""
        return ()

    def placed(self, name: str, names: Mapping[Component, str]) -> Self:
        """Return this component as *name*, with components inside it referred to by their *names*."""
        del names
        return self if self.name == name else self.named(name)

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this component with components renamed as *names* says, itself included."""
        return self.named(names.get(self.label, self.label))

    @property
    def label(self) -> str:
        """The name, or the kind of a component that has none yet."""
        return self.name or self.kind

    @abstractmethod
    def functions(self) -> dict[str, Function]:
        """Return the user's functions, by part: ``""`` is the component itself, ``"when"`` is ``name.when``."""

    def parts(self) -> Mapping[str, Function]:
        """Return those of its functions that produce values besides the component's own, by part."""
        return {}

    def unreadable(self) -> str | None:
        """Return why no parameter can read its state; None if one can."""
        return None if self.keeps_state else f"which is {an(self.kind)} and keeps no state; read latest({self.label!r})"

    def describe_state(self, state: Any) -> str:
        """Return the text that a picture of a run shows for its *state*; empty unless the component is about states."""
        del state
        return ""

    def arriving(self) -> dict[str, Function]:
        """Return those of its functions that get what arrives, by part."""
        return self.functions()

    @property
    def makes(self) -> Any:
        """The type of its values, as far as it is annotated."""
        function = self.functions().get("")
        return ANY if function is None else function.makes

    def classes(self) -> Iterable[type]:
        """Return the classes that it compares values with, besides those that its functions are annotated with."""
        return ()

    @property
    def inputs(self) -> dict[str, Any]:
        """The parameters that take what arrives, and their types; of a component that folds, without the state."""
        function = next(iter(self.arriving().values()), None)
        if function is None:
            return {}
        return dict(function.taken(len(function.required) + function.variadic)[int(self.folds) :])

    @property
    def outputs(self) -> dict[str, Any]:
        """The names under which values are produced, its own and those of its parts, and their types."""
        own = {self.label: self.makes} if self.makes_facts else {}
        return {**own, **{f"{self.label}.{part}": function.makes for part, function in self.parts().items()}}

    def refers_to(self) -> dict[str, str]:
        """Return the conditions that this component names, and how: name to word."""
        return {}

    def own_policies(self) -> dict[str, Any]:
        """Return, by part, the policies that were declared with the function: ``""`` is the component itself."""
        return {}

    def rules_hold_for(self, part: str) -> bool:
        """
        Whether a policy for this component as a whole holds for *part* of it; the empty name is its outcome.

        A rule for exactly the name of a part holds in any case.
        """
        del part
        return True

    @abstractmethod
    def check_width(self, width: int, source: str) -> None:
        """Raise WrongArity if *width* values, arriving from *source*, do not fit."""

    @abstractmethod
    def expand(self, into: Expansion) -> None:
        """Add the nodes of this component to a plan."""

    @cached_property
    def identity(self) -> bytes:
        """The hash of kind, code, constants and options; not of the name."""
        functions = self.functions()
        return digest(
            self.kind.encode(),
            *(part for name in sorted(functions) for part in (name.encode(), functions[name].identity)),
            self.details(),
        )

    def outline(self) -> bytes:
        """Return the part of it that belongs to the version of a workflow: its kind, and the wiring inside it."""
        return self.kind.encode()

    def is_interchangeable_with(self, other: Component) -> bool:
        """Whether *other*, of the same identity, also holds the same objects where these have no identity."""
        held, theirs = self._held(), other._held()
        return len(held) == len(theirs) and all(
            a is b or (isinstance(a, bytes) and a == b) for a, b in zip(held, theirs, strict=True)
        )

    def _held(self) -> list[object]:
        """Return the objects inside that the identity does not cover."""
        functions = self.functions()
        return [found for part in sorted(functions) for found in functions[part].held()]

    def details(self) -> bytes:
        """Return what else belongs to the identity, as canonical bytes."""
        return b""

    def to_data(self) -> dict[str, Any]:
        """
        Return the fields of this component except its name and tags, for a stored definition.

        Functions, expressions, constants and Weft's own records are written by ``weft.log``; a component whose
        fields are all of these does not have to override this.
        """
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name not in ("name", "tags")}

    @classmethod
    def from_data(cls, name: str, tags: tuple[str, ...], data: Mapping[str, Any]) -> Self:
        """Return the component whose :meth:`to_data` returned *data*; fields that are missing have their default."""
        return cls(name=name, tags=tags, **data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label!r})"


_OFFERED = frozenset({str, bool, type(None), Function, Hooks, Flow})
"""Classes of fields that hold no functions, or have offered them by themselves."""
_NO_TAGS: tuple[str, ...] = ()


def short(value: object) -> str:
    """Return *value* in the few characters that a picture has room for."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a repr of the user's that fails must not prevent the drawing
        text = an(type(value).__name__)
    return abridged(text)


def abridged(text: str) -> str:
    """Return as much of *text* as a picture has room for."""
    return text if len(text) <= 24 else f"{text[:23]}…"


def refers(component: Component, name: str) -> bool:
    """Whether *component* reads or asks the component *name*."""
    reads = {read.target for function in component.functions().values() for read in function.reads.values()}
    return name in reads or name in component.refers_to()


def check_name(name: object, what: str) -> None:
    """Raise InvalidComponent unless *name* can name *what*."""
    if not isinstance(name, str) or not name or name == "INPUT" or "\0" in name:
        raise InvalidComponent(f"{what} needs a name, a string other than 'INPUT'; got {name!r}")


def check_filled(component: str, function: Function) -> None:
    """Raise WrongArity if *function* has parameters that nothing fills."""
    if function.unfilled:
        names = ", ".join(repr(name) for name in function.unfilled)
        raise WrongArity(
            f"{component!r}: nothing fills the keyword-only parameter {names}; give it a default, "
            f"or bind it: .bind({function.unfilled[0]}=...)"
        )


def check_arity(component: str, function: Function, width: int, source: str, *, spread: bool) -> None:
    """
    Raise WrongArity unless *function* takes *width* values that arrive from *source*.

    A function without required parameters takes anything: it is only triggered.
    """
    check_filled(component, function)
    takes = len(function.required)
    if spread and width == 1:
        if takes < 2 and not function.variadic:
            raise WrongArity(f"{component!r} says spread=True and has only {takes} parameter to spread over")
        return
    if function.takes(width) or takes == 0:
        return
    expected = f"{'at least ' if function.variadic else ''}{takes} ({', '.join(function.required)})"
    if width == 1:
        hint = (
            f"join as many parents ([a, b] >> {component}), give the others defaults, bind them, "
            "or say spread=True to spread one collection over the parameters"
        )
    else:
        hint = "take one parameter for each parent of the join, in the order they are written, or *values"
    raise WrongArity(f"{component!r} takes {expected} values and gets {width} from {source}; {hint}")
