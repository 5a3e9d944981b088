"""
An accumulator: a state that every arriving value is folded into.

    >>> @accumulator(init=0)
    ... def total(so_far, amount):
    ...     return so_far + amount
    >>> total
    Accumulator('total')

Its values are its states, one after each fold.  Folds of one run happen one at a time, in the order of the
log, so no update is ever lost; a fold that fails leaves the state as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, overload

from weft.core.components.folding import Folding
from weft.core.functions.function import Function
from weft.core.functions.initial import Initial
from weft.typing import Out_co

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


S = TypeVar("S")


@dataclass(frozen=True, eq=False, repr=False)
class Accumulator(Folding[Out_co]):
    """A state and the function that folds values into it."""

    kind: ClassVar[str] = "accumulator"
    keeps_state: ClassVar[bool] = True
    folds_into: ClassVar[str] = "state"

    def expand(self, into: Expansion) -> None:
        """One node that runs one at a time."""
        into.feed(into.work(self.function, initial=self.initial))


class AccumulatorDecorator(Protocol):
    """Makes an accumulator from a function."""

    @overload
    def __call__(self, function: Callable[..., Coroutine[Any, Any, S]], /) -> Accumulator[S]: ...
    @overload
    def __call__(self, function: Callable[..., S], /) -> Accumulator[S]: ...


@overload
def accumulator(
    function: Callable[..., Coroutine[Any, Any, S]], *, init: Any, name: str | None = None
) -> Accumulator[S]: ...
@overload
def accumulator(function: Callable[..., S], *, init: Any, name: str | None = None) -> Accumulator[S]: ...
@overload
def accumulator(*, init: Any, name: str | None = None) -> AccumulatorDecorator: ...
def accumulator(function: Callable[..., Any] | None = None, *, init: Any, name: str | None = None) -> Any:
    """
    Make an accumulator from *function*, whose first parameter is the state; also a decorator.

    Args:
        init: the state before the first value, or a function that makes it (``list``).
        name: its name; by default that of the function, if it has one.
    """

    def make(call: Callable[..., Any]) -> Accumulator:
        read = Function.of(call)
        return Accumulator(name or read.name, read, Initial(init))

    return make if function is None else make(function)
