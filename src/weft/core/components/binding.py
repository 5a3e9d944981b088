"""
Binds parts of a value that fits the pattern of a rule to the parameters of the rule.

    >>> pattern = pattern_of({"status": "pending", "total": float, "to": (capture("city"), str)})
    >>> list(names_in(pattern))
    ['status', 'total', 'to', 'city']
    >>> keys = keys_for("ship", pattern, Function.of(lambda order, city: ...))
    >>> keys
    ('', 'city')
    >>> bound = bound_by(pattern, {"status": "pending", "total": 9.5, "to": ("Bergen", "NO")})
    >>> bound["city"]
    'Bergen'
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any

from weft.core.components.pattern import (
    Bound,
    Capture,
    Entries,
    Items,
    OfClass,
    ValuePattern,
    capture,
    is_name,
    pattern_of,
)
from weft.core.functions.function import Function
from weft.errors import WrongArity

__all__ = ["WHOLE", "bound_by", "capture", "keys_for", "names_in", "pattern_of"]

WHOLE = ""
"""The key of the whole value."""


def keys_for(rule: str, pattern: ValuePattern, function: Function) -> tuple[str | int, ...]:
    """
    Return, for each parameter of *function*, the key of the part that it gets of a value that fits *pattern*.

    A parameter gets the part with its name, or else the field with its name.  The parameters that remain get the open
    items of a tuple, one by one; a single one gets the whole value.

    Raises:
        WrongArity: *pattern* does not have what *function* takes, or has it twice, or it has a default.
    """
    names = Counter(names_in(pattern))
    inner = pattern.of if isinstance(pattern, Capture) else pattern
    fields = inner.fields if isinstance(inner, OfClass) else ()
    places = inner.open if isinstance(inner, Items) else ()
    for name in _defaulted(function):
        if name in names or name in fields:
            raise WrongArity(
                f"{rule!r}: given= has a value for {name!r}, which has a default in {function.label}; leave the "
                "default out, or give the parameter another name"
            )
    rest = [name for name in function.required if name not in names and name not in fields]
    for name in function.required:
        if names[name] > 1:
            raise WrongArity(f"{rule!r}: given= has {names[name]} values for {name!r}; name one with capture(...)")
    if function.variadic:
        return (*function.required, *(places or (WHOLE,)))
    if not rest:
        return function.required
    if places and len(rest) == len(places):
        by_place = iter(places)
        return tuple(next(by_place) if name in rest else name for name in function.required)
    if not places and len(rest) == 1:
        return tuple(WHOLE if name in rest else name for name in function.required)
    known = ", ".join(dict.fromkeys([*names, *fields])) or "nothing by name"
    more = f", and {len(places)} item{'' if len(places) == 1 else 's'} by position" if places else ""
    raise WrongArity(
        f"{rule!r}: {function.label} takes {', '.join(rest)}, and given= has {known}{more}; "
        f"name what it takes: capture({rest[0]!r}, ...)"
    )


def bound_by(pattern: ValuePattern, value: Any) -> Bound:
    """Return the parts of *value*, which fits *pattern*, that parameters may take."""
    bound: Bound = {WHOLE: value}
    inner = pattern.of if isinstance(pattern, Capture) else pattern
    if isinstance(inner, OfClass):
        bound.update((name, getattr(value, name)) for name in inner.fields if hasattr(value, name))
    elif isinstance(inner, Items):
        bound.update((at, value[at]) for at in inner.open)
    pattern.bind(value, bound)
    return bound


def _defaulted(function: Function) -> list[str]:
    try:
        parameters = inspect.signature(function.call).parameters.values()
    except (ValueError, TypeError):  # a builtin that does not tell its signature
        return []
    return [p.name for p in parameters if p.default is not p.empty and p.name not in function.references]


def names_in(pattern: ValuePattern) -> Iterator[str]:
    """Yield the names that *pattern* has for parts of a value; a name that stands for several parts, each time."""
    match pattern:
        case Capture(name, of):
            yield name
            yield from names_in(of)
        case Entries(parts):
            for key, part in parts:
                if is_name(key):
                    yield key
                yield from names_in(part)
        case Items(parts):
            for part in parts:
                yield from names_in(part)
        case _:
            return
