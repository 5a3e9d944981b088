"""
How the parts of a snapshot are written and read: small fields, of which tables and records are made.

A :class:`Field` turns a value into types that MessagePack has, and back.  Reading checks everything: bytes that were
altered, or that another version wrote, raise :class:`~weft.errors.CorruptLog`, and nothing is constructed but what the
field says.

    >>> pairs = mapping(TEXT, listing(NUMBER))
    >>> written = pairs.write(None, {"a": [1, 2]}, None)
    >>> written, pairs.read(None, written, {})
    ([['a', [1, 2]]], {'a': [1, 2]})
    >>> pairs.read(None, [["a", [1, "2"]]], {})
    Traceback (most recent call last):
    ...
    weft.errors.CorruptLog: the snapshot has '2' where a number should be
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from weft.errors import CorruptLog, an


class Field(msgspec.Struct, frozen=True):
    """One kind of value."""

    write: Callable[[Any, Any, Any], Any]
    """Takes the writer, the value, and the record that it is in."""
    read: Callable[[Any, Any, dict[str, Any]], Any]
    """Takes the reader, what was written, and the fields of the record that were read before."""


class Derived(msgspec.Struct, frozen=True):
    """A slot that is not written."""

    why: str


Table = Mapping[str, "Field | Derived"]
"""By slot of a class: how it is written.  The order matters: a field may use those before it."""


def wrong(found: object, expected: str) -> CorruptLog:
    """Return the error for something *found* in a snapshot that does not belong there."""
    return CorruptLog(f"the snapshot has {found!r:.60} where {expected} should be")


def _as_it_is(_: Any, value: Any, __: Any) -> Any:
    return value


def _plain(expected: str, *kinds: type) -> Field:
    def read(_: Any, data: Any, __: Any) -> Any:
        if type(data) not in kinds:
            raise wrong(data, expected)
        return data

    return Field(_as_it_is, read)


NUMBER: Final = _plain("a number", int)
TIME: Final = _plain("a time", int, float)
TEXT: Final = _plain("text", str)
FLAG: Final = _plain("a flag", bool)
FLAG_OR_NUMBER: Final = _plain("a flag or a number", bool, int)
TEXT_OR_NUMBER: Final = _plain("text or a number", str, int)
ANSWER: Final = _plain("an answer", bool, str)


def items(data: Any, count: int | None = None) -> list[Any]:
    """Return *data*, which has to be a list, of *count* items if that is given."""
    found: Any = data  # of any type still after the check
    if type(data) is not list or (count is not None and len(found) != count):
        raise wrong(found, "a list" if count is None else f"a list of {count}")
    return cast("list[Any]", found)


def optional(field: Field) -> Field:
    """Return the field of what may be None."""
    return Field(
        lambda writer, value, owner: None if value is None else field.write(writer, value, owner),
        lambda reader, data, known: None if data is None else field.read(reader, data, known),
    )


def listing(field: Field, made: Callable[[list[Any]], Any] = list) -> Field:
    """Return the field of a sequence, which *made* makes of a list."""
    read = field.read
    return Field(
        lambda writer, values, owner: [field.write(writer, value, owner) for value in values],
        lambda reader, data, known: made([read(reader, item, known) for item in items(data)]),
    )


def mapping(key: Field, value: Field) -> Field:
    """Return the field of a dict, whose order is kept."""

    def write(writer: Any, values: Mapping[Any, Any], owner: Any) -> Any:
        return [[key.write(writer, each, owner), value.write(writer, held, owner)] for each, held in values.items()]

    pairs = listing(together(key, value), dict)
    return Field(write, pairs.read)


def together(*fields: Field) -> Field:
    """Return the field of a tuple with these fields."""

    def write(writer: Any, values: tuple[Any, ...], owner: Any) -> Any:
        return [field.write(writer, value, owner) for field, value in zip(fields, values, strict=True)]

    reads, count = [field.read for field in fields], len(fields)

    def read(reader: Any, data: Any, known: dict[str, Any]) -> tuple[Any, ...]:
        return tuple([read(reader, item, known) for read, item in zip(reads, items(data, count), strict=True)])

    first, second = reads[0], reads[-1]

    def read_two(reader: Any, data: Any, known: dict[str, Any]) -> tuple[Any, ...]:
        pair = data
        if type(data) is not list or len(pair) != 2:
            raise wrong(pair, "a list of 2")
        return (first(reader, pair[0], known), second(reader, pair[1], known))

    return Field(write, read_two if count == 2 else read)  # most are pairs, and there are very many


def _write_order(_: Any, order: Any, __: Any) -> Any:
    return [_write_order(_, part, __) if type(part) is tuple else part for part in order]


def _read_order(_: Any, data: Any, __: Any) -> Any:
    parts = items(data)
    if not all(type(part) in (int, bool, list) for part in parts):
        raise wrong(data, "an order")
    return tuple(_read_order(_, part, __) if type(part) is list else part for part in parts)


ORDER: Final = Field(_write_order, _read_order)
"""Nested tuples of numbers."""


def _read_address(_: Any, data: Any, __: Any) -> Any:
    if type(data) is int:
        return data
    first, second = items(data, 2)
    if type(first) is not int or type(second) is not int:
        raise wrong(data, "an address")
    return (first, second)


def _write_address(_: Any, at: Any, __: Any) -> Any:
    return list(cast("tuple[int, int]", at)) if type(at) is tuple else at


ADDRESS: Final = Field(_write_address, _read_address)
INPUTS: Final = listing(ADDRESS, tuple)
KEY: Final = together(TEXT, INPUTS)
"""The key of an activation."""


def record(
    kind: type, table: Table, make: Callable[..., Any] | None = None, defaults: Mapping[str, Any] | None = None
) -> Field:
    """
    Return the field of a record of the class *kind*: a map of its slots by name, without those at their default.

    Args:
        make: makes one of its slots; the class itself if not given.
        defaults: the defaults of its slots, if they are not those of the class.
    """
    fields = {name: field for name, field in table.items() if isinstance(field, Field)}
    usual = _comparable(_defaults(kind) if defaults is None else defaults)
    made, reads = make or kind, [(name, field.read, name not in usual) for name, field in fields.items()]

    def write(writer: Any, value: Any, _: Any) -> Any:
        found: dict[str, Any] = {}
        for name, field in fields.items():
            held = getattr(value, name)
            if name not in usual or held is not usual[name]:
                found[name] = field.write(writer, held, value)
        return found

    def read(reader: Any, data: Any, _: Any) -> Any:
        given, known = cast("dict[str, Any]", data), dict[str, Any]()
        if type(data) is not dict or not fields.keys() >= given.keys():
            raise wrong(given, f"{an(kind.__name__)} with {', '.join(fields)}")
        for name, read, is_needed in reads:
            if name in given:
                known[name] = read(reader, given[name], known)
            elif is_needed:
                raise wrong(given, f"{an(kind.__name__)} with {name}")
        return made(**known)

    return Field(write, read)


_SIMPLE: Final = (type(None), bool, int, tuple)


def _comparable(defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the *defaults* that can be compared by identity: None, flags, small numbers and the empty tuple."""
    return {name: value for name, value in defaults.items() if type(value) in _SIMPLE}


def _defaults(kind: Any) -> dict[str, Any]:
    names, defaults = getattr(kind, "__struct_fields__", ()), getattr(kind, "__struct_defaults__", ())
    return dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
