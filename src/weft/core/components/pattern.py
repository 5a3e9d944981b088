"""
Patterns: what a value must look like for a rule to fire.

    >>> order = pattern_of({"status": "pending", "total": int | float, "to": (capture("city"), str)})
    >>> order.fits({"status": "pending", "total": 150, "to": ("Bergen", "NO"), "note": ""})
    True
    >>> order.why_not({"status": "pending", "total": "150", "to": ("Bergen", "NO")})
    "'total' is a str, not int | float"

A pattern reads as a ``case`` of ``match`` does: a class fits its instances, a mapping fits mappings that have its keys,
a tuple fits tuples and lists of its length, any other value fits what equals it.  It is data: stored with the rule,
and read again in another process.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, Union

import msgspec

from weft.core.compose.flow import Fragment
from weft.core.functions.identity import canonical, digest
from weft.core.functions.offered import offer_class
from weft.errors import InvalidComponent, UnidentifiableValue, an

Bound: TypeAlias = dict[str | int, Any]
"""The parts that a pattern has found: by name; by position in a tuple that is the pattern; the whole as ``""``."""


class OfClass(msgspec.Struct, frozen=True):
    """Fits the instances of *classes*."""

    classes: tuple[type, ...]
    attributes: tuple[str, ...] = ()
    """The fields of the instances, for a process that does not have the classes."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields that all the classes have."""
        return _fields(self.classes) or self.attributes

    def fits(self, value: Any) -> bool:
        """Whether *value* is an instance."""
        return isinstance(value, self.classes)

    def why_not(self, value: Any, at: str = "it") -> str | None:
        """Return why *value*, which is called *at*, does not fit; None if it does."""
        return None if self.fits(value) else f"{at} is {_a(value)}, not {shown(self)}"

    def bind(self, value: Any, bound: Bound) -> None:
        """Add what parameters can take of *value*; its fields if it is the whole."""

    @property
    def identity(self) -> bytes:
        """The names of the classes."""
        return digest(b"class", *sorted(kind.__qualname__.encode() for kind in self.classes))


class Equals(msgspec.Struct, frozen=True):
    """Fits what equals one of *values*."""

    values: tuple[Any, ...]

    def fits(self, value: Any) -> bool:
        """Whether *value* is equal to one of these; None, True and False fit only themselves."""
        for known in self.values:
            if known is value:
                return True
            if known is None or isinstance(known, bool):
                continue
            try:
                if bool(value == known):
                    return True
            except Exception:  # noqa: BLE001, S112 - an array that is compared has no truth: it does not fit
                continue
        return False

    def why_not(self, value: Any, at: str = "it") -> str | None:
        """Return why *value*, which is called *at*, does not fit; None if it does."""
        return None if self.fits(value) else f"{at} is {_short(value)}, not {shown(self)}"

    def bind(self, value: Any, bound: Bound) -> None:
        """Add nothing: a value that is known has no name."""

    @property
    def identity(self) -> bytes:
        """The values."""
        return digest(b"equals", canonical(self.values))


class Entries(msgspec.Struct, frozen=True):
    """Fits mappings that have these keys, with values that fit; other keys do not matter."""

    parts: tuple[tuple[Any, ValuePattern], ...]

    def fits(self, value: Any) -> bool:
        """Whether *value* has every key, and the values of these keys fit."""
        held = value  # what is still of any type after the check
        if not isinstance(value, Mapping):
            return False
        return all(key in held and part.fits(held[key]) for key, part in self.parts)

    def why_not(self, value: Any, at: str = "it") -> str | None:
        """Return why *value*, which is called *at*, does not fit; None if it does."""
        held = value
        if not isinstance(value, Mapping):
            return f"{at} is {_a(held)}, not a mapping"
        for key, part in self.parts:
            if key not in held:
                return f"{at} has no {key!r}"
            if (reason := part.why_not(held[key], repr(key) if at == "it" else f"{key!r} of {at}")) is not None:
                return reason
        return None

    def bind(self, value: Any, bound: Bound) -> None:
        """Add every value, under its key where that can be the name of a parameter."""
        for key, part in self.parts:
            if is_name(key):
                bound[key] = value[key]
            part.bind(value[key], bound)

    @property
    def identity(self) -> bytes:
        """The keys and the patterns of their values; the order of the keys does not matter."""
        return digest(b"entries", *sorted(digest(canonical(key), part.identity) for key, part in self.parts))


class Items(msgspec.Struct, frozen=True):
    """Fits tuples and lists of as many items, which fit one by one."""

    parts: tuple[ValuePattern, ...]

    def fits(self, value: Any) -> bool:
        """Whether *value* has as many items, and each fits."""
        held = value
        if not isinstance(value, tuple | list):
            return False
        return len(held) == len(self.parts) and all(
            part.fits(item) for part, item in zip(self.parts, held, strict=True)
        )

    def why_not(self, value: Any, at: str = "it") -> str | None:
        """Return why *value*, which is called *at*, does not fit; None if it does."""
        held = value
        if not isinstance(value, tuple | list):
            return f"{at} is {_a(held)}, not a tuple or a list"
        if len(held) != len(self.parts):
            return f"{at} has {len(held)} item{'' if len(held) == 1 else 's'}, not {len(self.parts)}"
        for place, (part, item) in enumerate(zip(self.parts, held, strict=True)):
            called = f"item {place}" if at == "it" else f"item {place} of {at}"
            if (reason := part.why_not(item, called)) is not None:
                return reason
        return None

    def bind(self, value: Any, bound: Bound) -> None:
        """Add the parts that the items name."""
        for part, item in zip(self.parts, value, strict=True):
            part.bind(item, bound)

    @property
    def open(self) -> tuple[int, ...]:
        """The indexes of the items that are neither known values nor have a name."""
        return tuple(at for at, part in enumerate(self.parts) if not isinstance(part, Equals | Capture))

    @property
    def identity(self) -> bytes:
        """The items, in their order."""
        return digest(b"items", *(part.identity for part in self.parts))


class Capture(msgspec.Struct, frozen=True):
    """Fits what *of* fits, and names it for the parameter that takes it."""

    name: str
    of: ValuePattern

    def fits(self, value: Any) -> bool:
        """Whether *value* fits the pattern inside."""
        return self.of.fits(value)

    def why_not(self, value: Any, at: str = "it") -> str | None:
        """Return why *value*, which is called *at*, does not fit; None if it does."""
        return self.of.why_not(value, at)

    def bind(self, value: Any, bound: Bound) -> None:
        """Add the value, and the parts that the pattern inside names."""
        bound[self.name] = value
        self.of.bind(value, bound)

    @property
    def identity(self) -> bytes:
        """The name, and the pattern inside."""
        return digest(b"capture", self.name.encode(), self.of.identity)


ValuePattern: TypeAlias = OfClass | Equals | Entries | Items | Capture


# -- as they are written -------------------------------------------------------------------------


def capture(name: str, of: object = object) -> Capture:
    """
    Name a part of a pattern for the parameter that takes it.

    >>> capture("amount", float)
    Capture(name='amount', of=OfClass(classes=(<class 'float'>,), attributes=()))

    Args:
        name: the parameter.
        of: the pattern that the part must fit; anything if it is not given.
    """
    if not is_name(name):
        raise InvalidComponent(f"capture({name!r}) must name a parameter")
    return Capture(name, pattern_of(of))


def pattern_of(thing: Any) -> ValuePattern:
    """
    Return *thing*, a class, a mapping, a tuple or a value, as a pattern.

    Raises:
        InvalidComponent: it cannot be one; the error says what to write instead.
    """
    if isinstance(thing, OfClass | Equals | Entries | Items | Capture):
        return thing
    if thing is Any:
        return OfClass((object,))
    origin = typing.get_origin(thing)
    if origin is Union or origin is types.UnionType:
        return _of_classes(typing.get_args(thing), thing)
    if origin is typing.Literal:
        return _equals(typing.get_args(thing))
    if origin is not None:
        raise InvalidComponent(
            f"given={thing!r}: what is inside of {an(_name(origin))} is not checked; write {_name(origin)}, and ask "
            "about the inside in when="
        )
    if isinstance(thing, type):
        return _of_classes((thing,), thing)
    written = thing  # what is still of any type after the checks
    if isinstance(thing, Mapping):
        return Entries(tuple((_equals((key,)).values[0], pattern_of(part)) for key, part in written.items()))
    if isinstance(thing, tuple) and not hasattr(written, "_fields"):
        return Items(tuple(map(pattern_of, written)))
    return _equals((written,))


def _of_classes(found: tuple[Any, ...], written: object) -> OfClass:
    classes = tuple(type(None) if kind is None else kind for kind in found)
    for kind in classes:
        try:
            isinstance(None, kind)
        except TypeError:
            raise InvalidComponent(
                f"given={_name(written)}: nothing can be asked whether it is {an(_name(kind))}; use a class, or a "
                'mapping such as {"total": float}'
            ) from None
        offer_class(kind)
    return OfClass(classes, _fields(classes))


def _equals(values: tuple[Any, ...]) -> Equals:
    for value in values:
        if value is ...:
            raise InvalidComponent("given= has ..., which is a value like others; write object where all is allowed")
        if type(value) is list:
            raise InvalidComponent(f"given= has the list {value!r:.40}; write a tuple, which fits lists too")
        if isinstance(value, Fragment) or callable(value):
            raise InvalidComponent(
                f"given= has {value!r}, and takes classes, mappings, tuples and values; what has to be called goes "
                "into when="
            )
        try:
            canonical(value)
        except UnidentifiableValue as error:
            raise InvalidComponent(f"given= has {_short(value)}, which is not data: {error}") from None
    return Equals(values)


# -- words ---------------------------------------------------------------------------------------


def shown(pattern: ValuePattern) -> str:
    """Return *pattern* in a few words."""
    match pattern:
        case OfClass(classes):
            return " | ".join("None" if kind is type(None) else kind.__qualname__ for kind in classes)
        case Equals(values):
            return " or ".join(map(_short, values))
        case Entries(parts):
            return f"{{{', '.join(f'{key!r}: {shown(part)}' for key, part in parts)}}}"
        case Items(parts):
            return f"({', '.join(map(shown, parts))}{',' if len(parts) == 1 else ''})"
        case Capture(name, of):
            return name if of == OfClass((object,)) else f"{name}: {shown(of)}"


def classes_in(pattern: ValuePattern) -> Iterator[type]:
    """Yield the classes that *pattern* asks about, and those of the values in it."""
    match pattern:
        case OfClass(classes):
            yield from classes
        case Equals(values):
            yield from (type(value) for value in values)
        case Entries(parts):
            for _, part in parts:
                yield from classes_in(part)
        case Items(parts):
            for part in parts:
                yield from classes_in(part)
        case Capture(_, of):
            yield from classes_in(of)


def _fields(classes: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the names of the fields that all of *classes* have."""
    first, *others = map(_fields_of, classes)
    return tuple(name for name in first if all(name in other for other in others))


def _fields_of(kind: Any) -> tuple[str, ...]:
    for attribute in ("__struct_fields__", "_fields", "__pydantic_fields__"):
        found = getattr(kind, attribute, None)
        if found is not None:
            return tuple(found)
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return tuple(str(field.name) for field in getattr(kind, "__attrs_attrs__", ()))


def is_name(key: object) -> bool:
    """Whether *key* can be the name of a parameter."""
    return isinstance(key, str) and key.isidentifier()


def _a(value: object) -> str:
    return "None" if value is None else an(type(value).__qualname__)


def _name(kind: Any) -> str:
    return str(getattr(kind, "__qualname__", None) or kind)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
