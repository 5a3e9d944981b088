"""
A rule: a reaction, and the condition under which it happens.

    >>> @rule(when=lambda x: x > 10)
    ... def large(x):
    ...     return ("large", x)
    >>> large
    Rule('large')

*when* is a function, a condition, an expression over conditions, or the name of one; without it the rule
always fires.  A reaction is a fact like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

from weft.core.components.condition import Condition, as_condition
from weft.core.compose.component import Component, check_arity
from weft.core.compose.expression import Expression, leaves, substitute, text
from weft.core.compose.symbol import tracing
from weft.core.functions.function import Function
from weft.errors import InvalidComponent

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Component):
    """A function that runs on what satisfies a condition."""

    then: Function
    when: Function | Expression | None = None
    spread: bool = False
    kind: ClassVar[str] = "rule"
    takes_join: ClassVar[bool] = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the reaction as it was written, whatever the condition says; inside ``@workflow``, draw the rule."""
        tracer = tracing()
        if tracer is not None:
            return tracer.draw(self, args, kwargs)
        return self.then.plainly(args, kwargs)

    def supports(self) -> tuple[Component, ...]:
        """Return the conditions that the rule brings along."""
        if self.when is None or isinstance(self.when, Function):
            return ()
        return tuple(leaf for leaf in leaves(self.when) if isinstance(leaf, Component))

    def placed(self, name: str, names: Mapping[Component, str]) -> Self:
        """Return this rule with its conditions by name."""
        if self.when is None or isinstance(self.when, Function):
            return self if self.name == name else self.named(name)
        return replace(self, name=name, when=substitute(self.when, lambda of: of if isinstance(of, str) else names[of]))

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this rule among renamed components."""
        when = self.when
        if isinstance(when, Function):
            when = when.renamed(names)
        elif when is not None:
            when = substitute(when, lambda of: names.get(of, of))
        return replace(super().renamed(names), then=self.then.renamed(names), when=when)

    def functions(self) -> dict[str, Function]:
        """Return the reaction, and the condition if it is the rule's own."""
        return {"": self.then, "when": self.when} if isinstance(self.when, Function) else {"": self.then}

    def refers_to(self) -> dict[str, str]:
        """Return the conditions that the rule asks."""
        if self.when is None or isinstance(self.when, Function):
            return {}
        return dict.fromkeys(leaves(self.when), "condition")

    def check_width(self, width: int, source: str) -> None:
        """Require that condition and reaction take what arrives."""
        for part, function in self.functions().items():
            name = f"{self.label}.{part}" if part else self.label
            check_arity(name, function, width, source, spread=self.spread)

    def expand(self, into: Expansion) -> None:
        """A node that asks, or a gate over shared conditions; then the node that reacts."""
        reaction = into.work(self.then, spread=self.spread)
        if self.when is None:
            into.feed(reaction)
            return
        if isinstance(self.when, Function):
            asks = into.test(self.when, spread=self.spread, part="when")
        else:
            asks = into.gate(self.when, part="when")
        into.feed(asks)
        into.link(asks, reaction)

    def details(self) -> bytes:
        """The expression over shared conditions."""
        shown = None if self.when is None or isinstance(self.when, Function) else text(self.when)
        return f"{shown or ''}:{self.spread}".encode()


@overload
def rule(*, then: Callable[..., Any], when: object = None, name: str | None = None, spread: bool = False) -> Rule: ...
@overload
def rule(
    *, when: object = None, name: str | None = None, spread: bool = False
) -> Callable[[Callable[..., Any]], Rule]: ...
def rule(
    *,
    when: object = None,
    then: Callable[..., Any] | None = None,
    name: str | None = None,
    spread: bool = False,
) -> Any:
    """
    Make a rule: *then* runs on what satisfies *when*; without *then*, a decorator for the reaction.

    Args:
        when: a function, a condition, an expression such as ``is_int & ~is_even``, or a condition's name.
        then: the reaction.
        name: what the rule is called; the reaction's own name if it has one.
        spread: take one collection and spread it over the parameters of both.
    """
    asked: Function | Expression | None
    if when is None:
        asked = None
    elif isinstance(when, Condition | str):
        asked = as_condition(when)
    elif callable(when):
        asked = Function.of(when)
    else:
        raise InvalidComponent(f"when= takes a function, a condition or the name of one, got {when!r}")

    def make(call: Callable[..., Any]) -> Rule:
        read = Function.of(call)
        return Rule(name or read.name, read, asked, spread)

    make.lacks = "rule(when=...) has no reaction yet: pass then=, or use it as a decorator"  # type: ignore[attr-defined]
    return make if then is None else make(then)
