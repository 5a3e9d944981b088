"""
Content identity: the only code that hashes.  That of functions is in :mod:`weft.core.functions.code_identity`.

Everything that has an identity is reduced to canonical bytes and hashed to 128 bits with BLAKE2b, so the
same content has the same identity in every process and on every machine.  ``1``, ``1.0`` and ``True`` are
three different values; the order of a dict or a set does not count.

    >>> digest_of({"b": 1, "a": 2}) == digest_of({"a": 2, "b": 1})
    True
    >>> digest_of(1) == digest_of(1.0)
    False
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import operator
import struct
import sys
import uuid
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final, cast

import msgspec

from weft.core.failure import outline
from weft.core.functions import arrays
from weft.errors import UnidentifiableValue

_DEEPEST = 200
"""How deep a value may nest.  Deeper is a cycle, or as good as one."""

GETTERS: Final[set[Any]] = {operator.itemgetter, operator.attrgetter, operator.methodcaller}
"""Callables of the standard library that are data: equal ones do the same."""

ADDRESSES: Final = (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Interface,
)


def digest(*parts: bytes) -> bytes:
    """Return the 16-byte hash of *parts*, each with its length, so that no two lists of parts collide."""
    hasher = blake2b(digest_size=16)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little"))
        hasher.update(part)
    return hasher.digest()


def digest_of(value: object) -> bytes:
    """Return the hash of *value*'s canonical form."""
    return digest(canonical(value))


def canonical(value: object, path: str = "value") -> bytes:
    """
    Return *value* as bytes that only an equal value of the same type shares.

    Raises:
        UnidentifiableValue: something inside has no canonical form; the error says where.
    """
    out: list[bytes] = []
    _write(out, value, path, 0)
    return b"".join(out)


def _write(out: list[bytes], value: Any, path: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise UnidentifiableValue("value that nests too deeply, or contains itself,", path[:80])
    writer = _WRITERS.get(value.__class__) or _structural(value)
    if writer is None:
        raise UnidentifiableValue(type(value).__qualname__, path)
    writer(out, value, path, depth)


def _scalar(tag: bytes, encode: Callable[[Any], bytes]) -> Callable[[list[bytes], Any, str, int], None]:
    def write(out: list[bytes], value: Any, _path: str, _depth: int) -> None:
        body = encode(value)
        out.append(b"%b%d:%b" % (tag, len(body), body))

    return write


def _sequence(tag: bytes) -> Callable[[list[bytes], Any, str, int], None]:
    def write(out: list[bytes], value: Any, path: str, depth: int) -> None:
        out.append(b"%b%d:" % (tag, len(value)))
        for i, item in enumerate(value):
            _write(out, item, f"{path}[{i}]", depth + 1)

    return write


def _unordered(tag: bytes) -> Callable[[list[bytes], Any, str, int], None]:
    def write(out: list[bytes], value: Any, path: str, depth: int) -> None:
        members: list[bytes] = []
        for item in value:
            member: list[bytes] = []
            _write(member, item, f"{path}{{...}}", depth + 1)
            members.append(b"".join(member))
        out.append(b"%b%d:" % (tag, len(members)))
        out.extend(sorted(members))

    return write


def _mapping(out: list[bytes], value: Mapping[Any, Any], path: str, depth: int) -> None:
    pairs: list[bytes] = []
    for key, item in value.items():
        pair: list[bytes] = []
        _write(pair, key, f"{path} key", depth + 1)
        _write(pair, item, f"{path}[{key!r}]", depth + 1)
        pairs.append(b"".join(pair))
    out.append(b"m%d:" % len(pairs))
    out.extend(sorted(pairs))


def _record(fields: list[str]) -> Callable[[list[bytes], Any, str, int], None]:
    """Write an instance of a class as the name of the class and its fields by name."""

    def write(out: list[bytes], value: Any, path: str, depth: int) -> None:
        out.append(b"o")
        _write(out, type(value).__qualname__, path, depth + 1)
        _mapping(out, {name: getattr(value, name) for name in fields}, path, depth)

    return write


def _structural(value: Any) -> Callable[[list[bytes], Any, str, int], None] | None:
    """Return how to write an instance of a user's class, or None."""
    kind: Any = cast("Any", type)(value)
    bases = kind.__mro__  # asked for by name, since isinstance would forget what is known of the class
    if is_path(kind):
        return _scalar(b"P", lambda path: _text(f"{kind.__name__}:{path}"))
    if BaseException in bases:
        return _exception
    if arrays.is_numpy(kind):
        return _array
    if enum.Enum in bases:
        return _scalar(b"e", lambda member: f"{type(member).__qualname__}.{member.name}".encode())
    if kind in GETTERS:
        return _scalar(b"g", lambda getter: repr(getter).encode())
    if tuple in bases and hasattr(kind, "_fields"):
        return _record(list(kind._fields))
    if msgspec.Struct in bases:
        return _record(list(kind.__struct_fields__))
    if dataclasses.is_dataclass(kind):
        return _record([field.name for field in dataclasses.fields(kind)])
    if hasattr(kind, "__attrs_attrs__"):
        return _record([field.name for field in kind.__attrs_attrs__])
    if hasattr(kind, "model_fields"):
        return _record(list(kind.model_fields))
    for base in (bool, int, float, str, bytes, list, tuple, dict, set, frozenset):
        if base in bases:
            return _subclass(base)
    return None


def is_path(kind: type) -> bool:
    """Return whether *kind* is a path of the standard library, and not a class made of one."""
    paths: Any = sys.modules.get("pathlib")
    return paths is not None and kind in (
        paths.PurePosixPath,
        paths.PureWindowsPath,
        paths.PosixPath,
        paths.WindowsPath,
    )


def _exception(out: list[bytes], value: BaseException, path: str, depth: int) -> None:
    """Write an exception as its class and its message, which a stand-in for it has too."""
    type_, _, message = outline(value)
    out.append(b"E")
    _write(out, (type_, message), path, depth + 1)


def _array(out: list[bytes], value: Any, path: str, depth: int) -> None:
    try:
        fields = arrays.apart(value)
    except arrays.NotPlain as error:
        raise UnidentifiableValue(str(error), path) from None
    out.append(b"N")
    _write(out, fields, path, depth + 1)


def identify(kind: type, name: str, encode: Callable[[Any], Any]) -> None:
    """Let the identity of an instance of *kind* be its *name* and what *encode* returns for it."""

    def write(out: list[bytes], value: Any, path: str, depth: int) -> None:
        out.append(b"R")
        _write(out, (name, encode(value)), path, depth + 1)

    _WRITERS[kind] = write


def _subclass(base: type) -> Callable[[list[bytes], Any, str, int], None]:
    def write(out: list[bytes], value: Any, path: str, depth: int) -> None:
        out.append(b"s")
        _write(out, type(value).__qualname__, path, depth + 1)
        _write(out, base(value), path, depth + 1)

    return write


def _text(value: object) -> bytes:
    return str(value).encode("utf-8", "surrogatepass")


_WRITERS: dict[type, Callable[[list[bytes], Any, str, int], None]] = {
    type(None): _scalar(b"n", lambda _: b""),
    bool: _scalar(b"t", lambda value: b"1" if value else b"0"),
    int: _scalar(b"i", lambda value: b"%x" % value),
    float: _scalar(b"f", lambda value: struct.pack(">d", value)),
    complex: _scalar(b"c", lambda value: struct.pack(">dd", value.real, value.imag)),
    str: _scalar(b"u", _text),
    bytes: _scalar(b"b", bytes),
    bytearray: _scalar(b"B", bytes),
    list: _sequence(b"l"),
    tuple: _sequence(b"("),
    dict: _mapping,
    set: _unordered(b"{"),
    frozenset: _unordered(b"<"),
    range: _scalar(b"r", lambda value: b"%d:%d:%d" % (value.start, value.stop, value.step)),
    dt.datetime: _scalar(b"D", lambda value: value.isoformat().encode()),
    dt.date: _scalar(b"d", lambda value: value.isoformat().encode()),
    dt.time: _scalar(b"T", lambda value: value.isoformat().encode()),
    dt.timedelta: _scalar(b"p", lambda value: b"%d:%d:%d" % (value.days, value.seconds, value.microseconds)),
    decimal.Decimal: _scalar(b"x", _text),
    uuid.UUID: _scalar(b"U", lambda value: value.bytes),
    fractions.Fraction: _scalar(b"q", _text),
    **{kind: _scalar(b"A", lambda value: _text(f"{type(value).__name__}:{value}")) for kind in ADDRESSES},
    type(Ellipsis): _scalar(b".", lambda _: b""),
}
