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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

from weft.core.compose.component import Component, check_filled
from weft.core.compose.symbol import tracing
from weft.core.functions.function import Function
from weft.core.functions.identity import hidden_state
from weft.core.functions.initial import Initial
from weft.errors import WrongArity

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


def check_fold(component: str, function: Function, width: int, source: str, *, state: str) -> None:
    """Raise WrongArity unless *function* takes a *state* and one value that arrives from *source*."""
    check_filled(component, function)
    if width != 1:
        raise WrongArity(f"{component!r} folds one value at a time and gets {width} from {source}")
    if not function.takes(2):
        takes = ", ".join(function.required)
        raise WrongArity(f"{component!r} must take ({state}, value): the {state} first; it takes ({takes})")


@dataclass(frozen=True, eq=False, repr=False)
class Accumulator(Component):
    """A state and the function that folds values into it."""

    function: Function
    initial: Initial
    kind: ClassVar[str] = "accumulator"
    folds: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the fold as it was written; inside ``@workflow``, draw it, fed by the one value it gets."""
        tracer = tracing()
        if tracer is not None:
            return tracer.draw(self, args, kwargs)
        return self.function.plainly(args, kwargs)

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this accumulator among renamed components."""
        return replace(super().renamed(names), function=self.function.renamed(names))

    def functions(self) -> dict[str, Function]:
        """Return the fold."""
        return {"": self.function}

    def check_width(self, width: int, source: str) -> None:
        """Require a function of state and value."""
        check_fold(self.label, self.function, width, source, state="state")

    def expand(self, into: Expansion) -> None:
        """One node that runs one at a time."""
        into.feed(into.work(self.function, initial=self.initial))

    def _held(self) -> list[object]:
        return [*super()._held(), *hidden_state(self.initial.init)]

    def details(self) -> bytes:
        """The initial state."""
        return self.initial.identity


@overload
def accumulator(function: Callable[..., Any], *, init: Any, name: str | None = None) -> Accumulator: ...
@overload
def accumulator(*, init: Any, name: str | None = None) -> Callable[[Callable[..., Any]], Accumulator]: ...
def accumulator(function: Callable[..., Any] | None = None, *, init: Any, name: str | None = None) -> Any:
    """
    Make an accumulator of *function*, which takes the state first; also a decorator.

    Args:
        init: the state before the first value, or a function that makes it (``list``).
        name: what it is called; the function's own name if it has one.
    """

    def make(call: Callable[..., Any]) -> Accumulator:
        read = Function.of(call)
        return Accumulator(name or read.name, read, Initial(init))

    return make if function is None else make(function)
