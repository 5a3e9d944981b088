"""
Types as data: what the value of a signal must be, written with a definition and read in another process.

    >>> schema = schema_of(list[int] | None)
    >>> schema.type
    list[int] | None
    >>> schema.classes()
    ()

A class of the application is a reference, found again only if this process has offered it: to make a wait with a
schema is to offer the classes in it.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import types
import typing
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Literal, Union

import msgspec

from weft.core.functions.annotations import shown
from weft.core.functions.identity import canonical, digest
from weft.core.functions.offered import offer
from weft.core.functions.unresolved import Unresolved
from weft.errors import InvalidComponent, UnidentifiableValue

_NAMED: dict[str, Any] = {
    "any": Any,
    "none": None,
    "...": ...,
    **{kind.__name__: kind for kind in (bool, int, float, str, bytes, list, tuple, dict, set, frozenset)},
    **{kind.__name__: kind for kind in (dt.datetime, dt.date, dt.time, dt.timedelta, decimal.Decimal, uuid.UUID)},
}
"""The classes that every process has, by the name that they have in definitions."""
_NAMES = {id(kind): name for name, kind in _NAMED.items()} | {id(type(None)): "none", id(object): "any"}

_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")
"""The limits of values that a ``msgspec.Meta`` can name."""


class Schema(msgspec.Struct, frozen=True):
    """A type: its *origin*, and the *arguments* in its brackets."""

    origin: str | Callable[..., Any]
    """A class, or the name of a builtin one, or ``"union"``, ``"literal"`` or ``"annotated"``."""
    arguments: tuple[Any, ...] = ()
    """Other schemas; of a literal the values; of an annotated type also its limits, by name."""
    described: dict[str, Any] | None = None
    """The JSON Schema of a type with classes of the application, for processes that do not have these."""

    @property
    def json(self) -> dict[str, Any]:
        """The JSON Schema of the type; it accepts everything if that is not known here."""
        return self.described or ({} if self.missing else json_schema(self.type))

    @property
    def type(self) -> Any:
        """The type itself."""
        if self.origin == "literal":
            return Literal[self.arguments]
        if self.origin == "annotated":
            of, limits = self.arguments
            return typing.Annotated[of.type, msgspec.Meta(**limits)]
        inner: tuple[Any, ...] = tuple(each.type for each in self.arguments)
        if self.origin == "union":
            return _union(inner)
        kind: Any = _NAMED[self.origin] if isinstance(self.origin, str) else self.origin
        return kind[inner] if len(inner) > 1 else kind[inner[0]] if inner else kind

    def classes(self) -> tuple[Any, ...]:
        """Return the classes of the application in it."""
        return tuple(dict.fromkeys(self._classes()))

    def _classes(self) -> Iterator[Any]:
        if not isinstance(self.origin, str | Unresolved):
            yield self.origin
        for inner in self.arguments:
            if isinstance(inner, Schema):
                yield from inner.classes()

    @property
    def missing(self) -> Unresolved | None:
        """The placeholder of a class that this process does not know, if there is one."""
        inner = (each.missing for each in self.arguments if isinstance(each, Schema))
        return self.origin if isinstance(self.origin, Unresolved) else next(filter(None, inner), None)

    @property
    def identity(self) -> bytes:
        """The names of the classes, and how they are put together."""
        inner = [each.identity if isinstance(each, Schema) else _constant(each) for each in self.arguments]
        return digest(_name_of(self.origin).encode(), *inner)

    def __str__(self) -> str:
        return shown(self.type)


def _name_of(origin: Any) -> str:
    if isinstance(origin, str):
        return origin
    return f"class {dict(origin.reference)['name'] if isinstance(origin, Unresolved) else origin.__qualname__}"


def _constant(value: Any) -> bytes:
    try:
        return canonical(value)
    except UnidentifiableValue:
        return repr(value).encode()


def _union(members: tuple[Any, ...]) -> Any:
    try:
        return functools.reduce(lambda one, other: one | other, members)
    except TypeError:  # one of them is not a class
        return Union[members]  # noqa: UP007


def schema_of(kind: Any) -> Schema:
    """
    Return *kind*, a class or a type that is made of classes, as data.

    Raises:
        InvalidComponent: it is not a type that a value can be checked against.
    """
    schema = _read(kind)
    classes = schema.classes()
    for held in classes:
        offer(held)
    try:
        msgspec.json.Decoder(schema.type, dec_hook=lambda _, value: value)
    except TypeError as error:
        raise InvalidComponent(f"schema={shown(kind)} cannot be checked: {error}") from error
    return msgspec.structs.replace(schema, described=json_schema(schema.type)) if classes else schema


def json_schema(kind: Any) -> dict[str, Any]:
    """
    Return the JSON Schema of a type; classes that it cannot describe accept everything there.

    >>> json_schema(list[int])
    {'type': 'array', 'items': {'type': 'integer'}}
    """
    try:
        return msgspec.json.schema(kind, schema_hook=_described)
    except TypeError:  # a class that says nothing of what it consists of
        return {}


def _described(kind: Any) -> dict[str, Any]:
    model = getattr(kind, "model_json_schema", None)  # of pydantic
    return {} if model is None else model()


def _read(kind: Any) -> Schema:
    kind = getattr(kind, "__value__", kind)  # type X = ...
    name = _NAMES.get(id(kind))
    if name is not None:
        return Schema(name)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Union or origin is types.UnionType:
        return Schema("union", tuple(map(_read, inner)))
    if origin is Literal:
        return Schema("literal", inner)
    if origin is typing.Annotated:
        return _annotated(inner)
    if origin is not None and isinstance(origin, type):
        outer = _NAMES.get(id(origin), origin)
        return Schema(outer, tuple(map(_read, inner)))
    if not isinstance(kind, type):
        raise InvalidComponent(
            f"schema={kind!r:.80}: use a class (a dataclass, a TypedDict, a msgspec.Struct, a pydantic model), or a "
            "type that is made of classes, such as list[int]"
        )
    return Schema(kind)


def _annotated(inner: tuple[Any, ...]) -> Schema:
    limits: dict[str, Any] = {}
    for said in inner[1:]:
        if isinstance(said, msgspec.Meta):
            limits.update({name: held for name in _LIMITS if (held := getattr(said, name)) is not None})
    known = _read(inner[0])
    return Schema("annotated", (known, limits)) if limits else known
