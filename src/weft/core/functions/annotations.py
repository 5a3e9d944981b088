"""
Types of values as annotations declare them, and whether the output of one function fits the input of another.

    >>> fits(list[int], list[int]), fits(list[int], list[str])
    (True, False)
    >>> fits(int | None, int), fits(int, str | int), fits(bool, int)
    (True, True, True)

The answer is False only where nothing could ever fit: ``Any``, type variables, protocols, and names that cannot be
resolved fit everything, a union fits if one of its members does, and ``None`` beside something else is ignored.
"""

from __future__ import annotations

import collections.abc as abc
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

ANY: Final = Any
"""The type of what nothing is known about."""

_ITERATORS = (abc.Iterator, abc.Generator, abc.AsyncIterator, abc.AsyncGenerator)
_WIDENS = {int: (float, complex), float: (complex,), bytes: (bytearray, memoryview)}
"""Classes that a number may stand for besides its own, as type checkers have it."""


def hints_of(call: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotations of *call* as types; those that cannot be resolved are left out."""
    while isinstance(call, functools.partial):
        call = call.func
    if isinstance(call, type):
        return {"return": call}
    plain: Any = inspect.unwrap(call)
    if not isinstance(plain, types.FunctionType | types.MethodType):
        plain = getattr(cast("Any", type)(plain), "__call__", plain)  # noqa: B004 - what it is annotated with
    written = getattr(plain, "__annotations__", None)
    if not written:
        return {}
    try:
        return typing.get_type_hints(plain, include_extras=False)
    except Exception:  # noqa: BLE001 - a name that is only there for a type checker, or a form of a later Python
        return _one_by_one(plain, written)


def hints_of_class(kind: type) -> Mapping[str, Any]:
    """Return the annotations of the fields of *kind*; none if they cannot be resolved."""
    try:
        return typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001 - as above
        return {}


def _one_by_one(call: Any, written: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, annotation in written.items():
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            found.update(typing.get_type_hints(alone, globalns=getattr(call, "__globals__", {})))
        except Exception:  # noqa: BLE001, S112 - this one is not known, the others may be
            continue
    return found


def made_by(call: Callable[..., Any], hints: Mapping[str, Any]) -> Any:
    """Return the type of the value that a run gets from *call*: for a generator, a list of what it yields."""
    given = bare(hints.get("return", ANY))
    origin, args = typing.get_origin(given), typing.get_args(given)
    generates = inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call)
    if origin in _ITERATORS or (generates and args):
        return types.GenericAlias(list, args[:1]) if args else list
    return given


def bare(kind: Any) -> Any:
    """Return *kind* without metadata, aliases and new types, which say nothing about values."""
    while True:
        if kind is None:
            return type(None)
        if typing.get_origin(kind) is typing.Annotated:
            kind = typing.get_args(kind)[0]
        elif isinstance(kind, typing.NewType):
            kind = kind.__supertype__
        elif type(kind).__name__ == "TypeAliasType":  # `type X = ...`, of Python 3.12
            kind = kind.__value__
        else:
            return kind


def members(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union, None left out unless it is all there is; any other type by itself."""
    kind = bare(kind)
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return (kind,)
    found = tuple(inner for of in typing.get_args(kind) for inner in members(of))
    return tuple(of for of in found if of is not type(None)) or (type(None),)


def fits(given: Any, taken: Any) -> bool:
    """Whether some value of the type *given* is one of the type *taken*."""
    return any(_fits(one, other) for one in members(given) for other in members(taken))


def _fits(given: Any, taken: Any) -> bool:
    if _is_open(given) or _is_open(taken):
        return True
    if typing.get_origin(taken) is typing.Literal or typing.get_origin(given) is typing.Literal:
        return _literal_fits(given, taken)
    have, want = _class_of(given), _class_of(taken)
    if have is None or want is None:
        return True
    if not _class_fits(have, want):
        return False
    return _arguments_fit(have, typing.get_args(given), want, typing.get_args(taken))


def _literal_fits(given: Any, taken: Any) -> bool:
    is_given, is_taken = (typing.get_origin(kind) is typing.Literal for kind in (given, taken))
    if is_given and is_taken:
        return not set(typing.get_args(given)).isdisjoint(typing.get_args(taken))
    if is_given:
        return any(_fits(type(value), taken) for value in typing.get_args(given))
    return any(_fits(given, type(value)) or _fits(type(value), given) for value in typing.get_args(taken))


def _is_open(kind: Any) -> bool:
    """Whether nothing can be said about values of *kind*."""
    return (
        kind is ANY
        or kind is object
        or isinstance(kind, str | typing.TypeVar | typing.ForwardRef | typing.ParamSpec)
        or getattr(kind, "_is_protocol", False)
    )


def _class_of(kind: Any) -> type | None:
    """Return the class of the values of *kind*; None where that is not known."""
    if typing.is_typeddict(kind):
        return dict
    origin = typing.get_origin(kind) or kind
    return origin if isinstance(origin, type) else None


def _class_fits(have: type, want: type) -> bool:
    try:
        if issubclass(have, want) or want in _WIDENS.get(have, ()):
            return True
        # A function that is annotated with Iterable may return a list.
        return have.__module__ == "collections.abc" and issubclass(want, have)
    except TypeError:  # a class that cannot be asked
        return True


def _arguments_fit(have: type, given: tuple[Any, ...], want: type, taken: tuple[Any, ...]) -> bool:
    if not given or not taken or not issubclass(want, abc.Iterable) or not issubclass(have, abc.Iterable):
        return True
    if have is tuple and want is tuple and Ellipsis not in given and Ellipsis not in taken:
        return len(given) == len(taken) and all(map(fits, given, taken))
    if have is tuple:
        given = tuple(kind for kind in given if kind is not Ellipsis)
        return not given or any(fits(kind, taken[0]) for kind in given)
    return all(map(fits, given, (kind for kind in taken if kind is not Ellipsis)))


def element_of(kind: Any) -> Any | None:
    """
    Return the type of the elements of *kind*, a collection; None if it cannot be taken apart.

    >>> element_of(list[int]), element_of(str), element_of(list)
    (<class 'int'>, None, typing.Any)
    """
    found: list[Any] = []
    for member in members(kind):
        have = None if _is_open(member) else _class_of(member)
        if have is None:
            return ANY
        if issubclass(have, abc.Iterable) and not issubclass(have, str | bytes | bytearray | abc.Mapping):
            found.extend(of for of in typing.get_args(member) if of is not Ellipsis)
            if not typing.get_args(member):
                return ANY
    if not found:
        return ANY if any(_is_empty_tuple(member) for member in members(kind)) else None
    return functools.reduce(lambda one, other: one | other, found) if all(map(_unites, found)) else ANY


def _is_empty_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple and not typing.get_args(kind)


def _unites(kind: Any) -> bool:
    return isinstance(kind, type | types.GenericAlias | types.UnionType)


def parts_of(kind: Any) -> tuple[Any, ...] | None:
    """
    Return the types that a value of *kind* unpacks to, if their number is known.

    >>> parts_of(tuple[int, str]), parts_of(list[int])
    ((<class 'int'>, <class 'str'>), None)
    """
    kind = bare(kind)
    if typing.get_origin(kind) is tuple and Ellipsis not in typing.get_args(kind):
        return typing.get_args(kind)
    fields = cast("tuple[str, ...] | None", getattr(kind, "_fields", None))
    if isinstance(kind, type) and tuple in kind.__mro__ and fields is not None:
        known = hints_of_class(kind)
        return tuple(known.get(name, ANY) for name in fields)
    return None


def shown(kind: Any) -> str:
    """Return *kind* as it is written in code."""
    if isinstance(kind, type) and not typing.get_args(kind):
        return kind.__qualname__
    return str(kind).replace("typing.", "").replace("collections.abc.", "")
