"""
Whether a value is of the type that a field of Weft's own records is annotated with.

A definition is data that others may have written.  A wrong field would otherwise show only when
the run is driven, as an unrelated error; so the fields are checked when the definition is read.

    >>> from weft.policy.matching import Tag
    >>> check(Tag, {"name": 7})
    Traceback (most recent call last):
        ...
    weft.errors.CorruptLog: Tag(name=7) in a definition: it should be str
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Union, cast

from weft.core.compose.component import Component
from weft.core.compose.expression import Leaf
from weft.errors import CorruptLog
from weft.policy.matching import Matcher, Within

_NARROWER: dict[Any, dict[str, Any]] = {Within: {"matcher": Matcher}, Leaf: {"condition": Component | str}}
"""The fields whose annotation says less than what they hold."""


def check(kind: Any, fields: Mapping[str, Any]) -> None:
    """
    Check that *fields* are of the types that the record *kind* has for them.

    Raises:
        CorruptLog: one is not.
    """
    hints = hints_of(kind)
    for name, value in fields.items():
        hint = hints.get(name, Any)  # a field that is not there is refused by the record itself
        if not is_of(value, hint):
            expected = hint.__name__ if isinstance(hint, type) else str(hint)
            raise CorruptLog(f"{kind.__name__}({name}={value!r:.60}) in a definition: it should be {expected}")


@functools.cache
def hints_of(kind: Any) -> dict[str, Any]:
    """Return the types of the fields of a record."""
    hints = typing.get_type_hints(kind) | _NARROWER.get(kind, {})
    return {name: hint for name, hint in hints.items() if typing.get_origin(hint) is not ClassVar}


def is_of(value: Any, hint: Any) -> bool:
    """Whether *value* is of the type *hint*: one that the fields of records are annotated with."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin is Union or origin is types.UnionType:
        return any(is_of(value, each) for each in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is Callable:
        return callable(value)
    if origin is type:
        return isinstance(value, type) and issubclass(value, inner[0])
    if origin is tuple and inner[-1] is not ...:
        held = cast("tuple[Any, ...]", value)
        return isinstance(value, tuple) and len(held) == len(inner) and all(map(is_of, held, inner))
    if origin is tuple or origin is list:
        return isinstance(value, origin) and all(is_of(each, inner[0]) for each in cast("Any", value))
    if origin in (dict, Mapping):
        return isinstance(value, origin) and all(
            is_of(key, inner[0]) and is_of(held, inner[1]) for key, held in cast("Any", value).items()
        )
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, origin or hint) and not (hint is int and isinstance(value, bool))
