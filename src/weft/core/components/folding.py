"""
Folding: the base of components that fold values into one, with a function of the result so far and the next value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from weft.core.compose.component import Component, check_filled
from weft.core.compose.symbol import tracing
from weft.core.functions.code_identity import hidden_state
from weft.core.functions.function import Function
from weft.core.functions.initial import Initial
from weft.errors import WrongArity
from weft.typing import Out_co


def check_fold(component: str, function: Function, width: int, source: str, *, state: str) -> None:
    """Raise WrongArity unless *function* takes a *state* and one value that arrives from *source*."""
    check_filled(component, function)
    if width != 1:
        raise WrongArity(f"{component!r} folds one value at a time and gets {width} from {source}")
    if not function.takes(2):
        takes = ", ".join(function.required)
        raise WrongArity(f"{component!r} must take ({state}, value): the {state} first; it takes ({takes})")


@dataclass(frozen=True, eq=False, repr=False)
class Folding(Component[Out_co]):
    """A function that folds values, and the value to begin with."""

    function: Function
    initial: Initial
    folds: ClassVar[bool] = True
    folds_into: ClassVar[str]
    """The word for the first parameter of the function, in errors."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it was written; inside ``@workflow``, draw it, fed by the one value it gets."""
        tracer = tracing()
        if tracer is not None:
            return tracer.draw(self, args, kwargs)
        return self.function.plainly(args, kwargs)

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this component with components renamed as *names* says."""
        return replace(super().renamed(names), function=self.function.renamed(names))

    def functions(self) -> dict[str, Function]:
        """Return the one function."""
        return {"": self.function}

    def check_width(self, width: int, source: str) -> None:
        """Require a function of the result so far and one value."""
        check_fold(self.label, self.function, width, source, state=self.folds_into)

    def _held(self) -> list[object]:
        return [*super()._held(), *hidden_state(self.initial.init)]

    def details(self) -> bytes:
        """The value to begin with."""
        return self.initial.identity
