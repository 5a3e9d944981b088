"""
A condition: a test of the value that arrives, which gates the components after it.

    >>> is_int = condition(lambda x: isinstance(x, int), name="is_int")
    >>> is_even = condition(lambda x: x % 2 == 0, name="is_even")
    >>> is_int & ~is_even
    Condition('is_int & ~is_even')

The result of the function is converted to a bool.  ``&`` and ``|`` short-circuit from left to right, and a
condition that several rules share is evaluated once per fact.  A condition produces no fact: the components
after it get the value that it was evaluated on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

from weft.core.compose.component import Component, check_arity
from weft.core.compose.expression import And, Expression, Leaf, Not, Or, leaves, substitute, text, written
from weft.core.compose.questions import next_question, questions_of
from weft.core.compose.symbol import tracing
from weft.core.functions.function import Function
from weft.errors import InvalidComponent, NoRun

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


@dataclass(frozen=True, eq=False, repr=False)
class Condition(Component):
    """A function whose result is true or false, or an expression over other conditions."""

    function: Function | None = None
    expression: Expression | None = None
    spread: bool = False
    said: str | None = None
    """The expression as it would be written, if all of it has names."""
    kind: ClassVar[str] = "condition"
    takes_join: ClassVar[bool] = True
    makes_facts: ClassVar[bool] = False
    is_function: ClassVar[bool] = True
    can_be_asked: ClassVar[bool] = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """
        Ask the condition directly, as the plain function; inside ``@workflow``, draw it.

        Its type is open, because there it stands for the value that it lets through.
        """
        tracer = tracing()
        if tracer is not None:
            return tracer.draw(self, args, kwargs)
        if self.function is not None:
            check_plain(self.label, self.function)
            return bool(self.function.plainly(args, kwargs))
        return answers(self.tree, self.label, args, kwargs)[0]

    @property
    def tree(self) -> Expression:
        """This condition as an expression."""
        return Leaf(self) if self.expression is None else self.expression

    def __and__(self, other: object) -> Condition:
        return _compose(And, self, other)

    def __rand__(self, other: object) -> Condition:
        return _compose(And, other, self)

    def __or__(self, other: object) -> Condition:
        return _compose(Or, self, other)

    def __ror__(self, other: object) -> Condition:
        return _compose(Or, other, self)

    def __invert__(self) -> Condition:
        return _compose(Not, self)

    def __bool__(self) -> bool:
        raise TypeError(
            "a condition is neither true nor false before it is asked; combine conditions with &, | and ~ "
            "instead of `and`, `or` and `not`"
        )

    def supports(self) -> tuple[Component, ...]:
        """Return the conditions that the expression is made of."""
        if self.expression is None:
            return ()
        return components_in(self.expression)

    def placed(self, name: str, names: Mapping[Component, str]) -> Self:
        """Return this condition with the others in its expression by name."""
        if self.expression is None:
            return self if self.name == name else self.named(name)
        by_name = substitute(self.expression, lambda of: of if isinstance(of, str) else names[of])
        return replace(self, name=name, expression=by_name, said=text(by_name))

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this condition with components renamed as *names* says."""
        twin = super().renamed(names)
        if self.function is not None:
            return replace(twin, function=self.function.renamed(names))
        expression = substitute(self.tree, lambda of: names.get(of, of))
        return replace(twin, expression=expression, said=text(expression))

    def functions(self) -> dict[str, Function]:
        """Return the function, if this is not an expression."""
        return {"": self.function} if self.function is not None else {}

    def refers_to(self) -> dict[str, str]:
        """Return the conditions of the expression."""
        return {} if self.expression is None else dict.fromkeys(leaves(self.expression), "condition")

    def check_width(self, width: int, source: str) -> None:
        """Require that the function takes what arrives; those of an expression are checked by themselves."""
        if self.function is not None:
            check_arity(self.label, self.function, width, source, spread=self.spread)

    def expand(self, into: Expansion) -> None:
        """One node that asks, or one gate over the nodes of others, if it stands in the flow."""
        if self.function is not None:
            into.feed(into.test(self.function, spread=self.spread))
        elif not into.is_asked_only:  # else those that ask it spell it out
            into.feed(into.gate(self.tree))

    def to_data(self) -> dict[str, Any]:
        """Return the fields but for how the expression is written, which follows from it."""
        return {name: value for name, value in super().to_data().items() if name != "said"}

    @classmethod
    def from_data(cls, name: str, tags: tuple[str, ...], data: Mapping[str, Any]) -> Self:
        """Return the condition whose :meth:`to_data` returned *data*."""
        expression = data.get("expression")
        said = None if expression is None else text(expression)
        return super().from_data(name, tags, {**data, "said": said})

    def details(self) -> bytes:
        """The expression."""
        return f"{self.said or ''}:{self.spread}".encode()


def components_in(expression: Expression) -> tuple[Component, ...]:
    """Return the conditions of *expression* that are there as objects."""
    found: list[Any] = [leaf for leaf in leaves(expression) if not isinstance(leaf, str)]
    return tuple(found)


def answers(
    expression: Expression, owner: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[bool, dict[str, bool]]:
    """
    Return whether *expression* holds, and the answers of the conditions that had to be asked, by name.

    Raises:
        NoRun: a condition is known by its name alone, or has to be awaited.
    """
    known: dict[str | int, bool] = {}
    said: dict[str, bool] = {}
    asked: dict[str | int, Any] = {_label(leaf): leaf for leaf in leaves(expression)}
    questions, inside = questions_of(substitute(expression, _label)), list[int]()
    at: int | bool = len(questions) - 1
    while not isinstance(at := next_question(questions, known, at, inside), bool):
        name = questions[at][0]
        leaf = asked[name]
        if isinstance(leaf, str):
            raise NoRun(f"{owner!r} asks {name!r}, which only a workflow knows by name")
        known[name] = said[leaf.label] = bool(leaf(*args, **kwargs))
    return at, said


def check_plain(owner: str, function: Function) -> None:
    """Raise NoRun if *function*, a condition of *owner*, has to be awaited."""
    if function.is_async:
        raise NoRun(
            f"the condition {function.label} of {owner!r} is a coroutine function, which only a run awaits; run a "
            "workflow of it"
        )


def as_condition(thing: object) -> Expression:
    """Return *thing*, a condition, a function or the name of a condition, as an expression."""
    return _side(thing)[0]


def _side(thing: object) -> tuple[Expression, str | None]:
    """Return *thing* as an expression and as text."""
    if isinstance(thing, Condition):
        return thing.tree, thing.name if thing.expression is None else thing.said
    if isinstance(thing, str):
        return Leaf(thing), thing
    if callable(thing):
        asked = condition(thing)
        return Leaf(asked), asked.name
    raise InvalidComponent(f"expected a condition, a function or the name of a condition, got {thing!r}")


def _label(leaf: Any) -> str:
    return leaf if isinstance(leaf, str) else leaf.name or str(id(leaf))


def _compose(kind: type[Not | And | Or], *things: object) -> Condition:
    """Return *things* as one condition.  Its text is put together from theirs: the whole is not walked again."""
    sides = [_side(thing) for thing in things]
    expression = kind(*(side for side, _ in sides))
    said = written(expression, [shown for _, shown in sides])
    return Condition(said, expression=expression, said=said)


@overload
def condition(function: Callable[..., object], *, name: str | None = None, spread: bool = False) -> Condition: ...
@overload
def condition(*, name: str | None = None, spread: bool = False) -> Callable[[Callable[..., object]], Condition]: ...
def condition(function: Callable[..., object] | None = None, *, name: str | None = None, spread: bool = False) -> Any:
    """
    Make a condition from *function*; also a decorator.

    Args:
        name: its name; by default that of the function, if it has one.
        spread: take one collection and spread it over the parameters.
    """

    def make(call: Callable[..., object]) -> Condition:
        read = Function.of(call)
        return Condition(name or read.name, read, spread=spread)

    return make if function is None else make(function)
