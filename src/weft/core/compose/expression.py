"""
Conditions combined with and, or and not.

An expression is immutable, and the same part may occur in several places: conditions refer to each other by name, and
every occurrence of a name becomes the same part.  So every function here visits a part once, however often it occurs,
and shares the result.

    >>> either = Or(Leaf("a"), Leaf("b"))
    >>> text(And(either, Not(either)))
    '(a | b) & ~(a | b)'
    >>> list(leaves(And(either, Not(either))))
    ['a', 'b']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class Leaf(msgspec.Struct, frozen=True):
    """A condition inside an expression, by object or by name."""

    condition: Any


class Not(msgspec.Struct, frozen=True):
    """The opposite of an expression."""

    of: Expression


class And(msgspec.Struct, frozen=True):
    """Both of two expressions; the right one is evaluated only if the left one holds."""

    left: Expression
    right: Expression


class Or(msgspec.Struct, frozen=True):
    """Either of two expressions; the right one is evaluated only if the left one does not hold."""

    left: Expression
    right: Expression


Expression = Leaf | Not | And | Or


def sides(expression: Expression) -> tuple[Expression, ...]:
    """Return the operands of *expression*."""
    match expression:
        case Leaf():
            return ()
        case Not(of):
            return (of,)
        case And(left, right) | Or(left, right):
            return left, right


def leaves(expression: Expression) -> Iterator[Any]:
    """Yield the conditions of *expression*, left to right; those of a part that occurs several times, once."""
    seen: set[int] = set()
    stack: list[Expression] = [expression]
    while stack:
        top = stack.pop()
        if id(top) in seen:
            continue
        seen.add(id(top))
        if isinstance(top, Leaf):
            yield top.condition
        else:
            stack += reversed(sides(top))


def fold(expression: Expression, leaf: Callable[[Any], T], combine: Callable[[Not | And | Or, list[T]], T]) -> T:
    """Return what *combine* makes of *expression*, from its leaves up; each part is combined once; no recursion."""
    made: dict[int, T] = {}
    stack: list[Expression] = [expression]
    while stack:
        top = stack[-1]
        waits = [side for side in reversed(sides(top)) if id(side) not in made]
        if waits:
            stack += waits
            continue
        stack.pop()
        if id(top) not in made:
            ready = [made[id(side)] for side in sides(top)]
            made[id(top)] = leaf(top.condition) if isinstance(top, Leaf) else combine(top, ready)
    return made[id(expression)]


def expand(expression: Expression, leaf: Callable[[Any], Expression]) -> Expression:
    """Return *expression* with every condition replaced by what *leaf* makes of it."""
    return fold(expression, leaf, lambda of, sides: type(of)(*sides))


def substitute(expression: Expression, name: Callable[[Any], str]) -> Expression:
    """Return *expression* with every condition replaced by its *name*."""
    return expand(expression, lambda of: Leaf(name(of)))


def text(expression: Expression) -> str | None:
    """Return *expression* as it would be written, or None if a condition in it has no name."""
    return fold(expression, lambda of: of if isinstance(of, str) else of.name, written)


def written(expression: Not | And | Or, sides: list[str | None]) -> str | None:
    """Return *expression* as it would be written, where its *sides* are written like this."""
    if None in sides:
        return None
    if isinstance(expression, Not):
        return f"~{sides[0]}" if isinstance(expression.of, Leaf | Not) else f"~({sides[0]})"
    kind = type(expression)
    shown = [
        f"({side})" if isinstance(of, And | Or) and not isinstance(of, kind) else side
        for side, of in zip(sides, (expression.left, expression.right), strict=True)
    ]
    return f"{shown[0]} {'&' if kind is And else '|'} {shown[1]}"
