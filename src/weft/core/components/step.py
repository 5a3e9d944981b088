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

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from weft.core.compose.component import Component, check_arity
from weft.core.compose.symbol import tracing
from weft.core.deferred import local
from weft.core.functions.function import Function

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion

P = ParamSpec("P")
R = TypeVar("R")
Y = TypeVar("Y")


@dataclass(frozen=True, eq=False, repr=False)
class Step(Component[R], Generic[P, R]):
    """A function as a component; calling it still calls the function."""

    function: Function
    spread: bool = False
    policy: Any = field(default=None, kw_only=True)
    """The policy that was declared with the function; outside its identity, and stored as a rule of the workflow."""
    kind: ClassVar[str] = "step"
    takes_join: ClassVar[bool] = True

    if TYPE_CHECKING:

        @property
        def __wrapped__(self) -> Callable[P, Any]:
            """The function as it was written: of an ``async def`` step, what can be awaited."""
            ...

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
        """Return this step with components renamed as *names* says."""
        return replace(super().renamed(names), function=self.function.renamed(names))

    def functions(self) -> dict[str, Function]:
        """Return the one function."""
        return {"": self.function}

    def own_policies(self) -> dict[str, Any]:
        """Return the policy that was declared with the function."""
        return {} if self.policy is None else {"": self.policy}

    def to_data(self) -> dict[str, Any]:
        """Return its fields; a policy is not one of them, since it is stored with the rules of the workflow."""
        return {name: value for name, value in super().to_data().items() if name != "policy"}

    def check_width(self, width: int, source: str) -> None:
        """Require that the function takes what arrives."""
        check_arity(self.label, self.function, width, source, spread=self.spread)

    def expand(self, into: Expansion) -> None:
        """One node."""
        into.feed(into.work(self.function, spread=self.spread))

    def details(self) -> bytes:
        """``spread`` changes what the function gets."""
        return b"spread" if self.spread else b""


class PolicyFields(TypedDict, total=False):
    """The fields of a policy that can be declared with a function; see ``weft.Policy``."""

    max_retries: int
    backoff: Any
    base_delay: float
    max_delay: float
    timeout: float | None
    deadline: float | None
    on_failure: str
    fallback: Callable[..., Any] | None
    compensation: Callable[..., Any] | None
    retryable: Any
    non_retryable: tuple[type[BaseException], ...]
    circuit_breaker: Any
    rate_limit: Any
    concurrency_limit: Any
    execution_mode: str
    priority: int
    idempotency_key: Callable[[Any], str] | None
    delay: float
    queue_timeout: float | None
    heartbeat: float | None
    checkpoint_after: bool
    executor: str | None


class StepDecorator(Protocol):
    """Makes a step from a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Iterator[Y] | AsyncIterator[Y]], /) -> Step[P, list[Y]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Step[P, R]: ...


# A step is typed as what a run gets of it, and what stands for that inside ``@workflow``.
@overload
def step(
    function: Callable[P, Coroutine[Any, Any, R]],
    *,
    name: str | None = None,
    spread: bool = False,
    **policy: Unpack[PolicyFields],
) -> Step[P, R]: ...
@overload
def step(
    function: Callable[P, Iterator[Y] | AsyncIterator[Y]],
    *,
    name: str | None = None,
    spread: bool = False,
    **policy: Unpack[PolicyFields],
) -> Step[P, list[Y]]: ...
@overload
def step(
    function: Callable[P, R], *, name: str | None = None, spread: bool = False, **policy: Unpack[PolicyFields]
) -> Step[P, R]: ...
@overload
def step(*, name: str | None = None, spread: bool = False, **policy: Unpack[PolicyFields]) -> StepDecorator: ...
def step(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    spread: bool = False,
    **policy: Unpack[PolicyFields],
) -> Any:
    """
    Make a step from *function*; also a decorator, with or without arguments.

    Args:
        name: its name; by default that of the function, if it has one.
        spread: take one collection and spread it over the parameters.
        policy: fields of a policy, ``@step(max_retries=3, timeout=5)``: a rule behind those of the workflow, and
            before its ``DEFAULT``.
    """
    declared = local().declared_policy(policy) if policy else None

    def make(call: Callable[..., Any]) -> Step[..., Any]:
        read = Function.of(call)
        given: Any = call
        known = given if isinstance(call, Step) else None
        own = read.name if known is None else known.name
        before = None if known is None else known.policy
        return Step(name or own, read, spread or (known is not None and known.spread), policy=declared or before)

    return make if function is None else make(function)
