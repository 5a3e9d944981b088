"""
Functions as references, and back: where a function stands, and the hash of its code.

A reference is followed in modules that the application has imported, and nowhere else.  It can lead to a
function or class by its qualified name, to a component at the top of a module, which stands for its
functions, or to a method of an object there; a ``functools.partial`` is written as what it is made of.

    >>> reference = refer(len)
    >>> reference["module"], reference["name"]
    ('builtins', 'len')
    >>> resolve(reference) is len
    True

A function that none of these lead to, such as a lambda inside of an expression, is written with
``"local"``: it can only be handed over.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from weft.core.components.base import Component
from weft.core.identity import fingerprint
from weft.log.places import MAIN, MAINS, contents, home, kind_of, modules

Reference = dict[str, Any]


def refer(call: Callable[..., Any]) -> Reference:
    """Return *call* as data, without what it is bound to if it is a ``functools.partial``."""
    module = _module_of(call)
    reference: Reference = {"module": home(module), "name": _qualified(call), "code": fingerprint(call).hex()}
    if module in MAINS:
        reference["main"] = True
    held = _top(module)
    for path in _paths(call, held):
        candidate = {**reference, **path}
        if _same(_follow(candidate, held), call):
            return candidate
    return {**reference, "local": True}


def is_portable(reference: Mapping[str, Any]) -> bool:
    """Whether another process could find what *reference* leads to."""
    return not reference.get("local") and reference.get("module") != MAIN


def label(reference: Mapping[str, Any]) -> str:
    """Return what errors call the function."""
    return f"{reference.get('module')}.{reference.get('name')}"


def resolve(reference: Mapping[str, Any]) -> Any:
    """Return the function that *reference* leads to, or None; one whose code is the same before any other."""
    if reference.get("local"):
        return None
    found: list[Any] = []
    for module in modules(str(reference["module"]), was_main=bool(reference.get("main"))):
        call = _follow(reference, contents(module))
        if callable(call):
            if is_same_code(reference, call):
                return call
            found.append(call)
    return found[0] if found else None


def is_same_code(reference: Mapping[str, Any], call: Any) -> bool:
    """Whether *call* is the code that *reference* was made of."""
    return bool(fingerprint(call).hex() == reference["code"])


class Memo:
    """What has been worked out while one definition is written or read: hashing code is most of the work."""

    def __init__(self) -> None:
        self._references: dict[int, tuple[Any, Reference]] = {}
        self._calls: dict[tuple[Any, ...], Any] = {}
        self._same: dict[tuple[int, Any], tuple[Any, bool]] = {}

    def refer(self, call: Any) -> Reference:
        """As :func:`refer`."""
        if id(call) not in self._references:
            self._references[id(call)] = (call, refer(call))  # kept, so that its id is not used again
        return dict(self._references[id(call)][1])

    def resolve(self, reference: Mapping[str, Any]) -> Any:
        """As :func:`resolve`."""
        key = tuple(reference.items())
        if key not in self._calls:
            self._calls[key] = resolve(reference)
        return self._calls[key]

    def is_same_code(self, reference: Mapping[str, Any], call: Any) -> bool:
        """As :func:`is_same_code`."""
        key = (id(call), reference["code"])
        if key not in self._same:
            self._same[key] = (call, is_same_code(reference, call))
        return self._same[key][1]


# -- the way there -------------------------------------------------------------------------------


def _module_of(call: Any) -> str:
    inner = getattr(call, "__func__", call)
    owner = getattr(inner, "__objclass__", None) or kind_of(inner)  # str.upper, or an object that can be called
    return str(getattr(inner, "__module__", None) or owner.__module__)


def _qualified(call: Any) -> str:
    return str(getattr(call, "__qualname__", None) or f"{type(call).__qualname__} object")


def _paths(call: Any, held: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the ways that may lead to *call* from a module that holds *held*, the plainest first."""
    yield {}
    if isinstance(call, types.MethodType) and not isinstance(call.__self__, type):
        yield from ({"name": name, "method": call.__name__} for name, thing in held.items() if thing is call.__self__)
        return
    for name, thing in held.items():
        if thing is call:
            yield {"name": name}
        elif _is_component(thing):
            yield from ({"name": name, "part": part} for part, f in thing.functions().items() if f.call is call)


def _is_component(thing: Any) -> bool:
    return Component in kind_of(thing).__mro__  # a proxy would be woken by isinstance


def _top(module: str) -> dict[str, Any]:
    for found in modules(module, was_main=False):
        return dict(contents(found))
    return {}


def _follow(reference: Mapping[str, Any], held: Mapping[str, Any]) -> Any:
    """Return what *reference* leads to from a module that holds *held*; nothing that is computed is asked for."""
    first, *rest = str(reference["name"]).split(".")
    found: Any = held.get(first)
    for name in rest:
        if not issubclass(kind_of(found), type):
            return None
        found = _static(found, name)
    if _is_component(found):
        function = found.functions().get(str(reference.get("part", "")))
        return None if function is None else function.call
    if "method" in reference and found is not None:
        method = _static(kind_of(found), str(reference["method"]))
        return types.MethodType(method, found) if isinstance(method, types.FunctionType) else None
    return found


def _static(owner: type, name: str) -> Any:
    for base in owner.__mro__:
        if name in base.__dict__:
            held: Any = base.__dict__[name]
            is_bound = isinstance(held, staticmethod | classmethod | types.ClassMethodDescriptorType)
            return cast("Any", held).__get__(None, owner) if is_bound else held
    return None


def _same(found: Any, call: Any) -> bool:
    if isinstance(call, types.MethodType | types.BuiltinMethodType):  # made anew each time it is asked for
        return bool(kind_of(found) is kind_of(call) and found == call)
    return found is call


def unbound(call: Any) -> functools.partial[Any] | None:
    """Return *call* if it is a ``functools.partial``, to be written as what it is made of."""
    return call if kind_of(call) is functools.partial else None
