"""
A rule: a reaction, and the condition under which it happens.

    >>> @rule(when=lambda x: x > 10)
    ... def large(x):
    ...     return ("large", x)
    >>> large
    Rule('large')

*when* is a function, a condition, an expression over conditions, or the name of one; without it the rule
always fires.  A reaction is a fact like any other.

*given* is a pattern: a rule fires only on what fits it, and its functions take the parts that they name.

    >>> @rule(given={"status": "pending", "total": int | float}, when=lambda total: total > 100)
    ... def discount(order, total):
    ...     return {**order, "total": 0.9 * total}
    >>> print(discount.check({"status": "pending", "total": 50}))
    it does not fire: when= does not hold for total=50
    >>> print(discount.check("an order"))
    it does not fire: it is a str, not a mapping
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import msgspec

from weft.core.components.binding import bound_by, keys_for
from weft.core.components.condition import Condition, answers, as_condition, check_plain, components_in
from weft.core.components.pattern import Capture, Items, ValuePattern, classes_in, pattern_of, shown
from weft.core.compose.component import Component, check_arity, check_filled
from weft.core.compose.expression import Expression, leaves, substitute, text
from weft.core.compose.symbol import tracing
from weft.core.functions.function import Function
from weft.errors import InvalidComponent, NoRun, WrongArity

if TYPE_CHECKING:
    from weft.core.compose.expansion import Expansion


class RuleCheck(msgspec.Struct, frozen=True):
    """Whether a rule would fire on a value, and why; true if it would."""

    fires: bool
    reason: str
    bound: Mapping[str, Any] = {}
    """The parts that ``given=`` has taken out of the value, by parameter of the reaction."""

    def __bool__(self) -> bool:
        return self.fires

    def __str__(self) -> str:
        return f"it {'fires' if self.fires else 'does not fire'}: {self.reason}"


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Component):
    """A function that runs on what satisfies a condition."""

    then: Function
    when: Function | Expression | None = None
    spread: bool = False
    given: ValuePattern | None = None
    kind: ClassVar[str] = "rule"
    takes_join: ClassVar[bool] = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the reaction as it was written, whatever the condition says; inside ``@workflow``, draw the rule."""
        tracer = tracing()
        if tracer is not None:
            return tracer.draw(self, args, kwargs)
        return self.then.plainly(args, kwargs)

    def check(self, *values: Any, **parameters: Any) -> RuleCheck:
        """
        Return whether the rule would fire on what arrives, and why; the reaction does not run.

        >>> large = rule(when=lambda x: x > 10, then=lambda x: x, name="large")
        >>> bool(large.check(12)), large.check(3).reason
        (True, 'when= does not hold for x=3')

        Args:
            values: what would arrive; several if the rule would stand after a join.
            parameters: what ``when=`` would read from a run, by parameter.

        Raises:
            NoRun: the condition has to be awaited, or reads something from a run that was not given.
        """
        value = values[0] if len(values) == 1 else values
        bound: dict[str, Any] = {}
        if self.given is not None:
            reason = self.given.why_not(value)
            if reason is not None:
                return RuleCheck(False, reason)
            bound = self._taken(self.then, value)
        holds, reason = self._asked(values, parameters)
        return RuleCheck(holds, reason, bound)

    def _asked(self, values: tuple[Any, ...], parameters: dict[str, Any]) -> tuple[bool, str]:
        """Return whether the condition holds for *values*, which fit the pattern, and in words why."""
        when = self.when
        if when is None:
            return True, "it has no condition" if self.given is None else f"it fits {shown(self.given)}"
        try:
            if not isinstance(when, Function):
                holds, known = answers(when, self.label, values, parameters)
                return holds, ", ".join(
                    f"{name} {'holds' if said else 'does not hold'}" for name, said in known.items()
                )
            check_plain(self.label, when)
            args, about = self._arguments(when, values)
            holds = bool(when.plainly(args, parameters))
        except NoRun:
            raise
        except Exception as error:  # noqa: BLE001 - the condition's own, which a run would record
            return False, f"when= raises {type(error).__name__}: {error}"
        return holds, f"when= {'holds' if holds else 'does not hold'}{f' for {about}' if about else ''}"

    def _arguments(self, when: Function, values: tuple[Any, ...]) -> tuple[tuple[Any, ...], str]:
        """Return the arguments of *when* for *values*, and the same as text."""
        if self.given is not None:
            taken = self._taken(when, values[0] if len(values) == 1 else values)
            args = tuple(taken.values())
        else:
            args = tuple(values[0]) if self.spread and len(values) == 1 else values if when.required else ()
        names = (*when.required, *("*" for _ in args[len(when.required) :]))
        return args, ", ".join(f"{name}={arg!r:.40}" for name, arg in zip(names, args, strict=False))

    def _taken(self, function: Function, value: Any) -> dict[str, Any]:
        """Return the parts of *value*, which fits the pattern, that *function* takes, by parameter."""
        given = self.given
        if given is None:
            return {}
        bound = bound_by(given, value)
        keys = keys_for(self.label, given, function)
        names = (*function.required, *(f"*{at}" for at in range(len(keys) - len(function.required))))
        return {name: bound[key] for name, key in zip(names, keys, strict=True)}

    def supports(self) -> tuple[Component, ...]:
        """Return the conditions that the rule brings along."""
        if self.when is None or isinstance(self.when, Function):
            return ()
        return components_in(self.when)

    def placed(self, name: str, names: Mapping[Component, str]) -> Self:
        """Return this rule with its conditions by name."""
        if self.when is None or isinstance(self.when, Function):
            return self if self.name == name else self.named(name)
        return replace(self, name=name, when=substitute(self.when, lambda of: of if isinstance(of, str) else names[of]))

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return this rule with components renamed as *names* says."""
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

    def arriving(self) -> dict[str, Function]:
        """Return the functions that get what arrives: with a pattern none, since they get parts of it."""
        return {} if self.given is not None else self.functions()

    def classes(self) -> Iterable[type]:
        """Return the classes that the pattern asks about."""
        return () if self.given is None else classes_in(self.given)

    def check_width(self, width: int, source: str) -> None:
        """Require that condition and reaction take what arrives."""
        if self.given is not None:
            inner = self.given.of if isinstance(self.given, Capture) else self.given
            if width > 1 and not (isinstance(inner, Items) and len(inner.parts) == width):
                raise WrongArity(
                    f"{self.label!r} gets {width} values from {source}, and given= is not a tuple of {width}; write "
                    "one pattern for each parent of the join, in the order they are written"
                )
            return
        for part, function in self.functions().items():
            name = f"{self.label}.{part}" if part else self.label
            check_arity(name, function, width, source, spread=self.spread)

    def expand(self, into: Expansion) -> None:
        """A node that asks, or a gate over shared conditions; then the node that reacts."""
        if self.given is not None:
            self._expand_given(self.given, into)
            return
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

    def _expand_given(self, given: ValuePattern, into: Expansion) -> None:
        """A node that asks whether a value fits, or a gate that asks it before shared conditions; then the reaction."""
        then, when = self.then, self.when
        reaction = into.work(_taking_all(then), call=_bind(_react, self.label, given, then))
        if isinstance(when, Function):
            ask = _aask if when.is_async else _ask
            fits = into.test(_taking_all(when), call=_bind(ask, self.label, given, when), part="when")
        else:
            fits = into.test(Function(partial(_fits, given), (), variadic=True), part="given")
        asks = (
            fits if when is None or isinstance(when, Function) else into.gate(when, part="when", first=("given", fits))
        )
        into.feed(asks)
        into.link(asks, reaction)

    def details(self) -> bytes:
        """The expression over shared conditions, and the pattern."""
        said = None if self.when is None or isinstance(self.when, Function) else text(self.when)
        pattern = b"" if self.given is None else self.given.identity
        return f"{said or ''}:{self.spread}".encode() + pattern


# -- how functions get what a pattern binds ------------------------------------------------------


def _taking_all(function: Function) -> Function:
    """Return *function* for a node that gets the values that arrive as they are."""
    return replace(function, required=(), variadic=True, by_keyword=False, opened=())


def _bind(call: Callable[..., Any], rule: str, given: ValuePattern, function: Function) -> Callable[..., Any]:
    names = function.required if function.by_keyword else ()
    return partial(call, given, keys_for(rule, given, function), names, function.call)


# Partials of functions at the top of the module, not closures: these can be sent to a worker process.
def _fits(given: ValuePattern, /, *values: Any) -> bool:
    return given.fits(values[0] if len(values) == 1 else values)


def _react(
    given: ValuePattern,
    keys: tuple[str | int, ...],
    names: tuple[str, ...],
    call: Callable[..., Any],
    /,
    *values: Any,
    **more: Any,
) -> Any:
    bound = bound_by(given, values[0] if len(values) == 1 else values)
    args = [bound[key] for key in keys]
    return call(**dict(zip(names, args, strict=True)), **more) if names else call(*args, **more)


def _ask(given: ValuePattern, /, *rest: Any, **more: Any) -> bool:
    return _fits(given, *rest[3:]) and bool(_react(given, *rest, **more))


async def _aask(given: ValuePattern, /, *rest: Any, **more: Any) -> bool:
    return _fits(given, *rest[3:]) and bool(await _react(given, *rest, **more))


@overload
def rule(
    *,
    then: Callable[..., Any],
    when: object = None,
    given: object = ...,
    name: str | None = None,
    spread: bool = False,
) -> Rule: ...
@overload
def rule(
    *, when: object = None, given: object = ..., name: str | None = None, spread: bool = False
) -> Callable[[Callable[..., Any]], Rule]: ...
def rule(
    *,
    when: object = None,
    then: Callable[..., Any] | None = None,
    given: object = ...,
    name: str | None = None,
    spread: bool = False,
) -> Any:
    """
    Make a rule: *then* runs on what satisfies *when*; without *then*, a decorator for the reaction.

    Args:
        when: a function, a condition, an expression such as ``is_int & ~is_even``, or a condition's name.
        then: the reaction.
        given: a pattern: a class, a mapping, a tuple, or a value to be equal to.  The rule fires only on what fits.
            A parameter takes the part of its name (a key, a field of the class, ``capture(name)``); the open items of a
            tuple go by position; one parameter that is left takes the whole.  Conditions that are shared get the whole.
        name: its name; by default that of the reaction, if it has one.
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

    if spread and given is not ...:
        raise InvalidComponent("a rule takes given=, which binds its parameters by itself, or spread=True, not both")
    pattern = None if given is ... else pattern_of(given)

    def make(call: Callable[..., Any]) -> Rule:
        read = Function.of(call)
        called = name or read.name
        if pattern is not None:
            for function in (read, asked):
                if isinstance(function, Function):
                    check_filled(called or Rule.kind, function)
                    keys_for(called or Rule.kind, pattern, function)
        return Rule(called, read, asked, spread, pattern)

    make.lacks = "rule(when=...) has no reaction yet: pass then=, or use it as a decorator"  # type: ignore[attr-defined]
    return make if then is None else make(then)
