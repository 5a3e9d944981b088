"""
The functions and modules that this process has offered: a stored definition can name these, and no others.

Stored data alone cannot make a function be called.  A definition from a store leads only to functions of which this
process itself has made a component, condition, policy function or callback, and to those at the top level of modules
that the application has named.  Making a component offers its function, so nothing has to be listed twice.

    >>> import os
    >>> offer(len)  # as step(len) does
    >>> is_offered(len), is_offered(os.system)
    (True, False)

The registry is process-wide and holds weak references: an entry vanishes with its function.  It knows objects by
identity and not by name, since a wrapper may have the name of the function it wraps.  A bound method is a new object
each time it is read, so it is known by its object and its function; an object that cannot be weakly referenced, such as
one with ``__slots__``, is known by its name at the top level of its module.  Every change is one operation on a dict or
a set, so threads need no lock.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

_held: dict[Any, tuple[weakref.ref[Any], ...]] = {}
"""Weak references to what was offered, by identity."""
_places: set[tuple[str, str, str]] = set()
"""Module, name and method of what cannot be held weakly."""
_compared: weakref.WeakSet[type] = weakref.WeakSet()
"""Classes that rules of this process ask values for."""

_kind: Any = type
_C_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
)


def offer(value: object) -> None:
    """Offer the callables in *value*: itself, the items of a container, or the function of a ``functools.partial``."""
    if _kind(value) is types.FunctionType:  # the usual case
        known = _held.get(id(value))
        if known is None or known[0]() is not value:
            ref = _Ref(value, _forget)
            ref.key = id(value)
            _held[ref.key] = (ref,)
        return
    pending: list[Any] = [value]
    seen: set[int] = set()
    while pending:
        item = pending.pop()
        kind = _kind(item)
        if kind is list or kind is tuple or kind is dict:
            if id(item) not in seen:  # it may contain itself
                seen.add(id(item))
                pending.extend(item.values() if kind is dict else item)
        elif kind is functools.partial:
            pending += (item.func, item.args, item.keywords)
        elif callable(item) and not is_offered(item):
            _hold(item)


def offer_module(module: types.ModuleType) -> None:
    """Offer the functions that *module* defines."""
    _hold(module)


def offer_class(kind: type) -> None:
    """Let instances of *kind* be read where a stored definition compares values with it; it is not called for that."""
    _compared.add(kind)


def is_compared(kind: type) -> bool:
    """Whether this process has offered *kind* for comparisons."""
    return kind in _compared


def is_offered(thing: object) -> bool:
    """Whether this process has offered *thing*, a function or a module."""
    key, parts = _identified(thing)
    refs = _held.get(key)
    if refs is not None:
        return all(ref() is part for ref, part in zip(refs, parts, strict=True))
    return bool(_places) and any(place in _places for place in _places_of(thing))


def _hold(thing: object) -> None:
    key, parts = _identified(thing)
    refs: list[_Ref] = []
    for part in parts:
        try:
            ref = _Ref(part, _forget)
        except TypeError:
            _places.update(_places_of(thing))
            return
        ref.key = key
        refs.append(ref)
    _held[key] = tuple(refs)


class _Ref(weakref.ref[Any]):
    """A weak reference that knows its entry."""

    __slots__ = ("key",)
    key: Any


def _forget(ref: Any, held: dict[Any, tuple[weakref.ref[Any], ...]] = _held) -> None:
    """Drop the entry of an object that no longer exists."""
    # Called before the memory of what has died, and so its identity, can be used again; also while the process ends.
    held.pop(ref.key, None)


def _identified(thing: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the key of *thing* in the registry, and the objects that are the same whenever it is asked for."""
    kind = _kind(thing)
    if kind is types.MethodType:
        return (id(thing.__self__), id(thing.__func__)), (thing.__self__, thing.__func__)
    if kind in _C_FUNCTIONS:
        owner = getattr(thing, "__objclass__", None) or getattr(thing, "__self__", None)  # str.upper, dict.fromkeys
        if owner is not None and _kind(owner) is not types.ModuleType:
            return (kind, id(owner), thing.__name__), (owner,)
    return id(thing), (thing,)


def _places_of(thing: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the names at the top of its module of *thing*, or of the object whose method it is."""
    owner, method = thing, ""
    if _kind(thing) is types.MethodType:
        owner, method = thing.__self__, getattr(thing.__func__, "__name__", "")
        if not any(base.__dict__.get(method) is thing.__func__ for base in _kind(owner).__mro__):
            return
    home = _kind(owner).__module__
    module = sys.modules.get(home)
    if isinstance(module, types.ModuleType):
        held: dict[str, Any] = object.__getattribute__(module, "__dict__")  # wakes no module that loads itself
        yield from ((home, name, method) for name, found in held.copy().items() if found is owner)
