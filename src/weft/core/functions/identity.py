"""
Content identity: the only code that hashes.

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
import dis
import enum
import fractions
import functools
import inspect
import ipaddress
import operator
import struct
import sys
import types
import uuid
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, cast

import msgspec

from weft.core.failure import outline
from weft.core.functions import arrays
from weft.core.functions.unresolved import Unresolved
from weft.errors import UnidentifiableValue

_DEEPEST = 200
"""How deep a value may nest.  Deeper is a cycle, or as good as one."""

_ADDRESSES = (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Interface,
)

_IMMUTABLE = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    decimal.Decimal,
    uuid.UUID,
    enum.Enum,
    dt.date,
    dt.time,
    dt.timedelta,
    fractions.Fraction,
    *_ADDRESSES,
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
    if _is_path(kind):
        return _scalar(b"P", lambda path: _text(f"{kind.__name__}:{path}"))
    if BaseException in bases:
        return _exception
    if arrays.is_numpy(kind):
        return _array
    if enum.Enum in bases:
        return _scalar(b"e", lambda member: f"{type(member).__qualname__}.{member.name}".encode())
    if kind in _GETTERS:
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


def _is_path(kind: type) -> bool:
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
    **{kind: _scalar(b"A", lambda value: _text(f"{type(value).__name__}:{value}")) for kind in _ADDRESSES},
    type(Ellipsis): _scalar(b".", lambda _: b""),
}


# -- functions -----------------------------------------------------------------------------------


def fingerprint(function: object) -> bytes:
    """
    Return the identity of *function*: its code, defaults and constant closure cells.

    Its name, its module and its file do not count: the same code is the same function wherever it was written.  A
    function without Python code, such as ``len``, is known by its qualified name.

    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    return _function(function, frozenset())


def _function(function: Any, inside: frozenset[int]) -> bytes:
    if id(function) in inside:
        return b"itself"
    inside |= {id(function)}
    if isinstance(function, Unresolved):
        return function.code
    if isinstance(function, functools.partial):
        bound = cast("Any", function)
        return digest(
            b"partial",
            _function(bound.func, inside),
            _constant(bound.args, inside),
            _named(bound.keywords, inside),
        )
    if isinstance(function, types.MethodType):
        owner = function.__self__
        return digest(b"method", _type(owner.__class__), _constant(owner, inside), _function(function.__func__, inside))
    if isinstance(function, types.FunctionType):
        cells = [_cell(cell, inside) for cell in function.__closure__ or ()]
        wrapped = getattr(function, "__wrapped__", None)
        return digest(
            b"function",
            _code(function.__code__),
            _constant(function.__defaults__ or (), inside),
            _named(function.__kwdefaults__ or {}, inside),
            _function(wrapped, inside) if wrapped is not None else b"",
            *cells,
        )
    if isinstance(function, type):
        return digest(b"type", _type(function))
    name = getattr(function, "__qualname__", None)
    if name is not None:
        owner = _constant(getattr(function, "__self__", None), inside)
        return digest(b"builtin", f"{getattr(function, '__module__', None)}.{name}".encode(), owner)
    kind = function.__class__
    return digest(b"callable", _type(kind), _function(kind.__call__, inside), _constant(function, inside))


def _type(kind: type) -> bytes:
    return kind.__qualname__.encode()


def _cell(cell: types.CellType, inside: frozenset[int]) -> bytes:
    try:
        contents = cell.cell_contents
    except ValueError:  # a cell that is filled later
        return b"empty"
    return _constant(contents, inside)


def _constant(value: Any, inside: frozenset[int]) -> bytes:
    """Return the identity of a default or a closure cell; one that can change counts as nothing."""
    if type(value) in (tuple, frozenset):
        parts = [_constant(item, inside) for item in value]
        return digest(b"frozen", *(parts if type(value) is tuple else sorted(parts)))
    if isinstance(value, types.ModuleType):  # what a builtin function is bound to
        return value.__name__.encode()
    if _is_frozen(value):
        try:
            return digest_of(value)
        except UnidentifiableValue:  # such as the default of a context that is an open handle
            return digest(b"opaque", _type(value.__class__))
    if isinstance(value, types.CodeType):
        return _code(value)
    if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType | functools.partial | type):
        return _function(value, inside)
    if value is Ellipsis:
        return b"ellipsis"
    return b"mutable"


def _is_frozen(value: Any) -> bool:
    """Whether *value* cannot change: a builtin constant, or an instance of a class that is declared frozen."""
    kind: Any = value.__class__
    return (
        isinstance(value, _IMMUTABLE)
        or _is_path(kind)
        or (msgspec.Struct in kind.__mro__ and kind.__struct_config__.frozen)
        or bool(getattr(getattr(kind, "__dataclass_params__", None), "frozen", False))
        or kind in _GETTERS
    )


def hidden_state(value: Any, inside: frozenset[int] = frozenset()) -> list[object]:
    """Return the objects that *value*, a function or a constant, holds and that no fingerprint knows, at any depth."""
    if id(value) in inside:
        return []
    inside |= {id(value)}
    held: list[Any] = []
    if isinstance(value, functools.partial):
        bound = cast("Any", value)
        held = [bound.func, *bound.args, *bound.keywords.values()]
    elif isinstance(value, types.FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or () if not _is_empty(cell)]
        held += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        held.append(getattr(value, "__wrapped__", None))
    elif isinstance(value, types.MethodType):
        held = [value.__self__, value.__func__]
    elif type(value) in (tuple, frozenset):
        held = list(value)
    elif isinstance(value, types.BuiltinFunctionType):
        held = [value.__self__]
    elif isinstance(value, type | types.ModuleType | types.CodeType) or value is Ellipsis or _is_frozen(value):
        return []
    else:
        try:
            canonical(value)
        except UnidentifiableValue:
            return [value]
        may_change = type(value) in (list, dict, set, bytearray) or isinstance(value, BaseException)
        return [canonical(value)] if may_change or arrays.is_numpy(value.__class__) else []
    return [found for item in held for found in hidden_state(item, inside)]


def _is_empty(cell: types.CellType) -> bool:
    return _cell(cell, frozenset()) == b"empty"


def _named(values: Mapping[str, Any], inside: frozenset[int]) -> bytes:
    return digest(b"named", *(digest(name.encode(), _constant(values[name], inside)) for name in sorted(values)))


@functools.lru_cache(maxsize=1_024)
def _code(code: types.CodeType) -> bytes:
    """
    Return the identity of compiled code: its instructions, with what they refer to.

    The names of files and of the function, its lines, its docstring and where it was nested do not count.  The identity
    is computed once: workflows that are made in a function all have the same code.
    """
    parts: list[bytes] = []
    for instruction in dis.get_instructions(code):
        parts.append(instruction.opname.encode())
        if instruction.opcode in dis.hasconst:
            parts.append(_constant(instruction.argval, frozenset()))
        elif instruction.arg is not None:
            parts.append(repr(instruction.argval).encode())
    flags = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | _SUSPENDS)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, flags)
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return digest(b"code", repr((counts, parameters)).encode(), code.co_exceptiontable, *parts)


_GETTERS: set[Any] = {operator.itemgetter, operator.attrgetter, operator.methodcaller}
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
