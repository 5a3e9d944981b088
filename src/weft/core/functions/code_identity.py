"""
The identity of a function: its code, and what it holds that cannot change.

The hash of a workflow covers the code of its functions: the same code has the same identity wherever it was written,
in every process with the same minor version of Python.
"""

from __future__ import annotations

import datetime as dt
import decimal
import dis
import enum
import fractions
import functools
import inspect
import types
import uuid
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from weft.core.functions import arrays
from weft.core.functions.identity import ADDRESSES, GETTERS, canonical, digest, digest_of, is_path
from weft.core.functions.unresolved import Unresolved
from weft.errors import UnidentifiableValue

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
    *ADDRESSES,
)
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


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
        or is_path(kind)
        or (msgspec.Struct in kind.__mro__ and kind.__struct_config__.frozen)
        or bool(getattr(getattr(kind, "__dataclass_params__", None), "frozen", False))
        or kind in GETTERS
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
