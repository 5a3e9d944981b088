"""
The classes that the functions of a workflow mention, whose instances may be read from its log.

Annotations of parameters and returns are followed through containers, unions and the fields of classes.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Item:
    ...     price: int
    >>> def fetch(x: int) -> list[Item] | None: ...
    >>> [kind.__name__ for kind in classes_of(fetch)]
    ['Item']
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, cast

from weft.core.workflow import Workflow
from weft.log.class_registry import form_of, name_of


def known_types(workflows: Iterable[Workflow]) -> dict[str, type]:
    """Return the classes that the functions of *workflows* mention, by the name they have in logs."""
    known: dict[str, type] = {}
    for workflow in workflows:
        for component in workflow.components.values():
            for function in component.functions().values():
                known.update({name_of(kind): kind for kind in classes_of(function.call)})
            for compared in component.classes():
                known.update({name_of(kind): kind for kind in classes_of(compared)})
    return known


def classes_of(call: object) -> list[type]:
    """Return the classes with fields, and enums, that the annotations of *call* lead to."""
    found: dict[type, None] = {}
    seen: set[int] = set()
    pending = list(_annotations(call))
    if isinstance(call, type):
        pending.append(call)
    while pending:
        hint = pending.pop()
        if id(hint) in seen:
            continue
        seen.add(id(hint))
        if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
            if form_of(hint) is not None:
                found[hint] = None
                pending.extend(_hints(hint, hint.__module__))
        else:
            pending.extend(_parts(hint))
    return list(found)


def _parts(hint: Any) -> Iterator[Any]:
    """Yield the types that a compound type is made of."""
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin is typing.Literal:
        yield from (cast("Any", type)(value) for value in arguments)
        return
    if origin is not None:
        yield origin
    for argument in arguments:
        yield from argument if isinstance(argument, list) else (argument,)
    for name in ("__value__", "__supertype__", "__bound__"):  # type X = ..., NewType, TypeVar
        yield from filter(None, [getattr(hint, name, None)])
    yield from getattr(hint, "__constraints__", None) or ()


def _annotations(call: Any) -> Iterator[Any]:
    while isinstance(call, functools.partial):
        call = call.func
    call = getattr(call, "__func__", call)
    if not isinstance(call, types.FunctionType):
        owner: Any = call if isinstance(call, type) else type(call)
        call = inspect.getattr_static(owner, "__init__" if isinstance(call, type) else "__call__", call)
    yield from _hints(call, getattr(call, "__module__", None))


def _hints(owner: Any, module: str | None) -> list[Any]:
    """Return the types that *owner* is annotated with, except those whose names cannot be resolved."""
    with suppress(Exception):  # an annotation is code of the application, and may raise anything
        return list(typing.get_type_hints(owner).values())
    scope = getattr(owner, "__globals__", None) or getattr(sys.modules.get(module or ""), "__dict__", {})
    found: list[Any] = []
    for name, hint in dict(getattr(owner, "__annotations__", {})).items():
        alone = types.SimpleNamespace(__annotations__={name: hint})
        with suppress(Exception):  # as above: this one is left out, the others count
            found.extend(typing.get_type_hints(alone, scope).values())
    return found
