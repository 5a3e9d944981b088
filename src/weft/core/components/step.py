"""
A step: a function of the values that arrive.

    >>> @step
    ... def double(x: int) -> int:
    ...     return x * 2
    >>> double(4)
    8
    >>> double.named("twice")
    Step('twice')

The function is plain or ``async def``; its required parameters take the values of the parents.
Parameters with defaults are constants, or are read by ``state_of``, ``latest`` and ``context``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Self, TypeVar, cast, overload

from weft.core.compose.component import Component, check_arity
from weft.core.compose.symbol import tracing
from weft.core.functions.function import Function

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, eq=False, repr=False)
class Step(Component, Generic[P, R]):
    """A function as a component; calling it still calls the function."""

    function: Function
    spread: bool = False
    kind: ClassVar[str] = "step"
    takes_join: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        call = self.function.call
        self.__dict__.update(__wrapped__=call, __doc__=call.__doc__)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it was written; inside ``@workflow``, draw it."""
        tracer = tracing()
        if tracer is not None:
            return cast("R", tracer.draw(self, args, kwargs))
        return cast("R", self.function.plainly(args, kwargs))

    def bind(self, **constants: Any) -> Self:
        """
        Return this step with *constants* for parameters of these names.

        >>> add = step(lambda x, y: x + y, name="add")
        >>> add.bind(y=10)(1)
        11
        """
        return replace(self, function=self.function.bind(constants))

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this step among renamed components."""
        return replace(super().renamed(names), function=self.function.renamed(names))

    def functions(self) -> dict[str, Function]:
        """Return the one function."""
        return {"": self.function}

    def check_width(self, width: int, source: str) -> None:
        """Require that the function takes what arrives."""
        check_arity(self.label, self.function, width, source, spread=self.spread)

    def expand(self, into: Expansion) -> None:
        """One node."""
        into.feed(into.work(self.function, spread=self.spread))

    def details(self) -> bytes:
        """``spread`` changes what the function gets."""
        return b"spread" if self.spread else b""


@overload
def step(function: Callable[P, R], *, name: str | None = None, spread: bool = False) -> Step[P, R]: ...
@overload
def step(*, name: str | None = None, spread: bool = False) -> Callable[[Callable[P, R]], Step[P, R]]: ...
def step(function: Callable[..., Any] | None = None, *, name: str | None = None, spread: bool = False) -> Any:
    """
    Make a step of *function*; also a decorator, with or without arguments.

    Args:
        name: what the step is called; the function's own name if it has one.
        spread: take one collection and spread it over the parameters.
    """

    def make(call: Callable[..., Any]) -> Step[..., Any]:
        read = Function.of(call)
        given: Any = call
        known = given if isinstance(call, Step) else None
        own = read.name if known is None else known.name
        return Step(name or own, read, spread or (known is not None and known.spread))

    return make if function is None else make(function)
