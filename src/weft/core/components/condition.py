"""
A condition: a question about what arrives, which gates what follows.

    >>> is_int = condition(lambda x: isinstance(x, int), name="is_int")
    >>> is_even = condition(lambda x: x % 2 == 0, name="is_even")
    >>> is_int & ~is_even
    Condition('is_int & ~is_even')

The truth of what the function returns counts.  ``&`` and ``|`` short-circuit, left to right, and a
condition that several rules share is asked once per fact.  A condition makes no fact: what follows it gets
what it was asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast, overload

import msgspec

from weft.core.components.base import Component, check_arity
from weft.core.function import Function
from weft.core.symbol import tracing
from weft.errors import InvalidComponent, NoRun

if TYPE_CHECKING:
    from weft.core.expansion import Expansion


class Leaf(msgspec.Struct, frozen=True):
    """A condition inside an expression, by object or by name."""

    condition: Any


class Not(msgspec.Struct, frozen=True):
    """The opposite of an expression."""

    of: Expression


class And(msgspec.Struct, frozen=True):
    """Both of two expressions; the right one is asked only if the left one holds."""

    left: Expression
    right: Expression


class Or(msgspec.Struct, frozen=True):
    """Either of two expressions; the right one is asked only if the left one does not hold."""

    left: Expression
    right: Expression


Expression = Leaf | Not | And | Or


def decide(expression: Expression, known: Mapping[str, bool]) -> bool | str:
    """
    Return whether *expression* holds, or the name of the condition that must be asked next.

    >>> both = And(Leaf("a"), Leaf("b"))
    >>> decide(both, {}), decide(both, {"a": True}), decide(both, {"a": False})
    ('a', 'b', False)
    """
    match expression:
        case Leaf(condition=name):
            return known.get(str(name), str(name))
        case Not(of):
            inner = decide(of, known)
            return not inner if isinstance(inner, bool) else inner
        case And(left, right):
            first = decide(left, known)
            return decide(right, known) if first is True else first
        case Or(left, right):
            first = decide(left, known)
            return decide(right, known) if first is False else first


def leaves(expression: Expression) -> Iterator[Any]:
    """Yield the conditions of *expression*, left to right, repeated ones again."""
    match expression:
        case Leaf(of):
            yield of
        case Not(of):
            yield from leaves(of)
        case And(left, right) | Or(left, right):
            yield from leaves(left)
            yield from leaves(right)


def expand(expression: Expression, leaf: Callable[[Any], Expression]) -> Expression:
    """Return *expression* with every condition replaced by what *leaf* makes of it."""
    match expression:
        case Leaf(of):
            return leaf(of)
        case Not(of):
            return Not(expand(of, leaf))
        case And(left, right):
            return And(expand(left, leaf), expand(right, leaf))
        case Or(left, right):
            return Or(expand(left, leaf), expand(right, leaf))


def substitute(expression: Expression, name: Callable[[Any], str]) -> Expression:
    """Return *expression* with every condition replaced by its *name*."""
    return expand(expression, lambda of: Leaf(name(of)))


def text(expression: Expression) -> str | None:
    """Return *expression* as it would be written, or None if a condition in it has no name."""
    match expression:
        case Leaf(of):
            return of if isinstance(of, str) else of.name
        case Not(of):
            inner = text(of)
            return inner and (f"~{inner}" if isinstance(of, Leaf | Not) else f"~({inner})")
        case And(left, right) | Or(left, right):
            sign = "&" if isinstance(expression, And) else "|"
            sides = [text(left), text(right)]
            if None in sides:
                return None
            kind = type(expression)
            shown = [
                f"({side})" if isinstance(of, And | Or) and not isinstance(of, kind) else side
                for side, of in zip(sides, (left, right), strict=True)
            ]
            return f"{shown[0]} {sign} {shown[1]}"


@dataclass(frozen=True, eq=False, repr=False)
class Condition(Component):
    """A function that says yes or no, or an expression over other conditions."""

    function: Function | None = None
    expression: Expression | None = None
    spread: bool = False
    kind: ClassVar[str] = "condition"
    takes_join: ClassVar[bool] = True
    makes_facts: ClassVar[bool] = False
    is_function: ClassVar[bool] = True

    def __call__(self, *args: Any, **kwargs: Any) -> bool:
        """Ask the condition directly, as the plain function; inside ``@workflow``, draw it."""
        tracer = tracing()
        if tracer is not None:
            return cast("bool", tracer.draw(self, args, kwargs))
        if self.function is not None:
            return bool(self.function.plainly(args, kwargs))
        known: dict[str, bool] = {}
        asked: dict[str, Any] = {_label(leaf): leaf for leaf in leaves(self.tree)}
        expression = substitute(self.tree, _label)
        while not isinstance(needed := decide(expression, known), bool):
            if isinstance(asked[needed], str):
                raise NoRun(f"{self.label!r} asks {needed!r}, which only a workflow knows by name")
            known[needed] = bool(asked[needed](*args, **kwargs))
        return needed

    @property
    def tree(self) -> Expression:
        """This condition as an expression."""
        return Leaf(self) if self.expression is None else self.expression

    def __and__(self, other: object) -> Condition:
        return _compose(And(self.tree, as_condition(other)))

    def __rand__(self, other: object) -> Condition:
        return _compose(And(as_condition(other), self.tree))

    def __or__(self, other: object) -> Condition:
        return _compose(Or(self.tree, as_condition(other)))

    def __ror__(self, other: object) -> Condition:
        return _compose(Or(as_condition(other), self.tree))

    def __invert__(self) -> Condition:
        return _compose(Not(self.tree))

    def __bool__(self) -> bool:
        raise TypeError(
            "a condition has no truth of its own before it is asked; combine conditions with &, | and ~ "
            "instead of `and`, `or` and `not`"
        )

    def supports(self) -> tuple[Component, ...]:
        """Return the conditions that the expression is made of."""
        if self.expression is None:
            return ()
        return tuple(leaf for leaf in leaves(self.expression) if isinstance(leaf, Component))

    def placed(self, name: str, names: Mapping[Component, str]) -> Self:
        """Return this condition with the others in its expression by name."""
        if self.expression is None:
            return self if self.name == name else self.named(name)
        by_name = substitute(self.expression, lambda of: of if isinstance(of, str) else names[of])
        return replace(self, name=name, expression=by_name)

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this condition among renamed components."""
        twin = super().renamed(names)
        if self.function is not None:
            return replace(twin, function=self.function.renamed(names))
        return replace(twin, expression=substitute(self.tree, lambda of: names.get(of, of)))

    def functions(self) -> dict[str, Function]:
        """Return the function, if this is no expression."""
        return {"": self.function} if self.function is not None else {}

    def refers_to(self) -> dict[str, str]:
        """Return the conditions of the expression."""
        return {} if self.expression is None else dict.fromkeys(leaves(self.expression), "condition")

    def check_width(self, width: int, source: str) -> None:
        """Require that the function takes what arrives; those of an expression are checked by themselves."""
        if self.function is not None:
            check_arity(self.label, self.function, width, source, spread=self.spread)

    def expand(self, into: Expansion) -> None:
        """One node that asks, or one gate over the nodes of others."""
        if self.function is not None:
            into.feed(into.test(self.function, spread=self.spread))
        else:
            into.feed(into.gate(self.tree))

    def details(self) -> bytes:
        """The expression."""
        shown = None if self.expression is None else text(self.expression)
        return f"{shown or ''}:{self.spread}".encode()


def as_condition(thing: object) -> Expression:
    """Return *thing*, a condition, a function or the name of a condition, as an expression."""
    if isinstance(thing, Condition):
        return thing.tree
    if isinstance(thing, str):
        return Leaf(thing)
    if callable(thing):
        return Leaf(condition(thing))
    raise InvalidComponent(f"expected a condition, a function or the name of a condition, got {thing!r}")


def _label(leaf: Any) -> str:
    return leaf if isinstance(leaf, str) else leaf.name or str(id(leaf))


def _compose(expression: Expression) -> Condition:
    return Condition(text(expression), expression=expression)


@overload
def condition(function: Callable[..., object], *, name: str | None = None, spread: bool = False) -> Condition: ...
@overload
def condition(*, name: str | None = None, spread: bool = False) -> Callable[[Callable[..., object]], Condition]: ...
def condition(function: Callable[..., object] | None = None, *, name: str | None = None, spread: bool = False) -> Any:
    """
    Make a condition of *function*; also a decorator.

    Args:
        name: what it is called; the function's own name if it has one.
        spread: take one collection and spread it over the parameters.
    """

    def make(call: Callable[..., object]) -> Condition:
        read = Function.of(call)
        return Condition(name or read.name, read, spread=spread)

    return make if function is None else make(function)
