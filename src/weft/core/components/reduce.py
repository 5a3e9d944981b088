"""
A reduce: the elements of a batch, folded into one value, in the order of the collection.

    >>> total = reduce(lambda acc, x: acc + x, init=0, name="total")

A reduce after an ``each`` closes it: it fires once per input, when every element is done, even if there were
none.  After any other component it folds the collection that arrives.  After several maps it folds the
elements of the first, then those of the second, and still fires once.  Returning :class:`Stop` ends the fold.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, overload

import msgspec

from weft.core.components.folding import Folding
from weft.core.components.map import elements_of
from weft.core.compose.flow import Gathering
from weft.core.functions.function import Function
from weft.core.functions.initial import Initial
from weft.typing import Out_co

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


S = TypeVar("S")


class Stop(msgspec.Struct, frozen=True):
    """
    Returned by a reducer: the fold ends here, with *value*.

    >>> first_big = reduce(lambda acc, x: Stop(x) if x > 2 else acc, init=None, name="first_big")
    """

    value: Any


@dataclass(frozen=True, eq=False, repr=False)
class Reduce(Folding[Out_co], Gathering[Out_co]):
    """How a batch becomes one value."""

    kind: ClassVar[str] = "reduce"
    gathers: ClassVar[bool] = True
    folds_into: ClassVar[str] = "accumulator"

    def expand(self, into: Expansion) -> None:
        """A node that collects, which is part of the fold, and one that runs."""
        fold = _afold if self.function.is_async else _fold
        node = into.work(self.function, call=partial(fold, self.function.call, self.initial, not into.closes_map))
        into.collect(node)


# Partials of functions at the top of the module, not closures: these can be sent to a worker process.
def _fold(reducer: Callable[..., Any], initial: Initial, flatten: bool, /, *values: Any, **given: Any) -> Any:
    acc = initial.make()
    for value in _flat(values) if flatten else values:
        acc = reducer(acc, value, **given)
        if type(acc) is Stop:
            return acc.value
    return acc


async def _afold(reducer: Callable[..., Any], initial: Initial, flatten: bool, /, *values: Any, **given: Any) -> Any:
    acc = initial.make()
    for value in _flat(values) if flatten else values:
        acc = reducer(acc, value, **given)
        acc = await acc if inspect.isawaitable(acc) else acc
        if type(acc) is Stop:
            return acc.value
    return acc


def _flat(collections: tuple[Any, ...]) -> Iterable[Any]:
    return chain.from_iterable(elements_of(collection, "reduce") for collection in collections)


class ReduceDecorator(Protocol):
    """Makes a reduce from a function."""

    @overload
    def __call__(self, function: Callable[..., Coroutine[Any, Any, S | Stop]], /) -> Reduce[S]: ...
    @overload
    def __call__(self, function: Callable[..., S | Stop], /) -> Reduce[S]: ...


@overload
def reduce(
    function: Callable[..., Coroutine[Any, Any, S | Stop]], *, init: Any, name: str | None = None
) -> Reduce[S]: ...
@overload
def reduce(function: Callable[..., S | Stop], *, init: Any, name: str | None = None) -> Reduce[S]: ...
@overload
def reduce(*, init: Any, name: str | None = None) -> ReduceDecorator: ...
def reduce(function: Callable[..., Any] | None = None, *, init: Any, name: str | None = None) -> Any:
    """
    Make a reduce from *function*, whose first parameter is the accumulator; also a decorator.

    Args:
        init: the value before the first element, or a function that makes it (``list``).
        name: its name; by default that of the function, if it has one.
    """

    def make(call: Callable[..., Any]) -> Reduce:
        read = Function.of(call)
        return Reduce(name or read.name, read, Initial(init))

    return make if function is None else make(function)
