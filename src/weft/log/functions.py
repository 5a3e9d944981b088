"""
Functions as references, and back: the name of a function, and the hash of its code.

A reference is looked up in modules that the application has imported, and nowhere else.  It can lead to a
function or class by its qualified name, to a component at the top level of a module, which stands for its
functions, or to a method of an object there; a ``functools.partial`` is written as its parts.

The name is not enough: the function that is found must have been offered (``weft.core.functions.offered``).  Either
the process has made a component, condition, policy function or callback of it, or the application has named the
module and the module defines the function.

    >>> from weft import step
    >>> reference = refer(divmod)
    >>> reference["module"], reference["name"]
    ('builtins', 'divmod')
    >>> print(resolve(reference))
    None
    >>> divide = step(divmod)
    >>> resolve(reference) is divmod
    True

A function that none of these find, such as a lambda inside an expression, is written with ``"local"``: it can only be
passed in a live workflow.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from weft.core.compose.component import Component
from weft.core.functions.code_identity import fingerprint
from weft.core.functions.offered import is_offered
from weft.core.functions.unresolved import LOCAL, NAMELESS, NOT_OFFERED
from weft.log.module_names import MAIN, MAINS, contents, home, kind_of, modules
from weft.log.wire_names import FUNCTIONS

Reference = dict[str, Any]


def refer(call: Callable[..., Any]) -> Reference:
    """Return *call* as data, without its bound arguments if it is a ``functools.partial``."""
    for (owner, name), function in FUNCTIONS.items():
        if call is function:
            return {"module": owner, "name": name, "code": fingerprint(call).hex()}
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
    """Return whether another process could find the function of *reference*."""
    return not reference.get("local") and reference.get("module") != MAIN


def why_unresolved(reference: Mapping[str, Any]) -> str:
    """Return why the function of *reference* was not found, for an error message."""
    if not reference.get("local"):
        return NOT_OFFERED
    name = str(reference.get("name"))
    return LOCAL if "<lambda>" in name or "<locals>" in name else NAMELESS


def label(reference: Mapping[str, Any]) -> str:
    """Return the name of the function for error messages."""
    return f"{reference.get('module')}.{reference.get('name')}"


def resolve(reference: Mapping[str, Any]) -> Any:
    """
    Return the function that *reference* leads to, one whose code is the same before any other.

    None if nothing is found, or something that this process has not offered.
    """
    if reference.get("local"):
        return None
    own = FUNCTIONS.get((str(reference["module"]), str(reference["name"])))
    if own is not None:
        return own
    found: list[Any] = []
    for module in modules(str(reference["module"]), was_main=bool(reference.get("main"))):
        call = _offered(reference, module)
        if callable(call):
            if is_same_code(reference, call):
                return call
            found.append(call)
    return found[0] if found else None


def named(where: str, *, unoffered: bool = False) -> Any:
    """
    Return the callable at *where*, ``module:name``, in an imported module; None if there is none.

    Args:
        unoffered: whether it may be one that this process has not offered.

    >>> print(named("builtins:eval"))
    None
    """
    module, _, path = where.partition(":")
    owner, _, method = path.rpartition(".")
    for found in modules(module, was_main=False):
        held = contents(found)
        thing = _held_at(path, held)
        if owner and thing is None:
            thing = _method(_held_at(owner, held), method)
        if callable(thing) and (unoffered or _is_component(thing) or _may_be_called(thing, found)):
            return thing
    return None


def is_same_code(reference: Mapping[str, Any], call: Any) -> bool:
    """Return whether *call* has the code that *reference* was made of."""
    return bool(fingerprint(call).hex() == reference["code"])


class Memo:
    """Caches references while one definition is written or read: hashing code is most of the work."""

    def __init__(self) -> None:
        self._references: dict[int, tuple[Any, Reference]] = {}
        self._calls: dict[tuple[Any, ...], Any] = {}
        self._same: dict[tuple[int, Any], tuple[Any, bool]] = {}

    def refer(self, call: Any) -> Reference:
        """Like :func:`refer`."""
        if id(call) not in self._references:
            self._references[id(call)] = (call, refer(call))  # kept, so that its id is not used again
        return dict(self._references[id(call)][1])

    def resolve(self, reference: Mapping[str, Any]) -> Any:
        """Like :func:`resolve`."""
        key = tuple(reference.items())
        if key not in self._calls:
            self._calls[key] = resolve(reference)
        return self._calls[key]

    def is_same_code(self, reference: Mapping[str, Any], call: Any) -> bool:
        """Like :func:`is_same_code`."""
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
    """Yield the paths that may lead to *call* from a module that holds *held*, the simplest first."""
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
    return Component in kind_of(thing).__mro__  # isinstance would trigger a proxy


def _top(module: str) -> dict[str, Any]:
    for found in modules(module, was_main=False):
        return dict(contents(found))
    return {}


def _follow(reference: Mapping[str, Any], held: Mapping[str, Any]) -> Any:
    """Return the object of *reference* in a module that holds *held*."""
    found = _held_at(str(reference["name"]), held)
    if _is_component(found):
        function = found.functions().get(str(reference.get("part", "")))
        return None if function is None else function.call
    return _method(found, str(reference["method"])) if "method" in reference else found


def _offered(reference: Mapping[str, Any], module: types.ModuleType) -> Any:
    """Return the function of *reference* in *module*, if a stored definition may have it called."""
    held = contents(module)
    call = _follow(reference, held)
    # A component was made here, which has offered its functions.
    is_part = _is_component(_held_at(str(reference["name"]), held))
    return call if is_part or (callable(call) and _may_be_called(call, module)) else None


def _may_be_called(call: Any, module: types.ModuleType) -> bool:
    """Return whether *call*, found in *module*, was offered: directly, or as a function of a named module."""
    if is_offered(call):
        return True
    function = call.__func__ if kind_of(call) is types.MethodType else call
    is_class = issubclass(kind_of(function), type)  # naming a module does not offer its constructors
    return is_offered(module) and not is_class and _module_of(function) == contents(module).get("__name__")


def _held_at(path: str, held: Mapping[str, Any]) -> Any:
    """Return the object at *path* in a module that holds *held*, without computing any attribute."""
    first, *rest = path.split(".")
    found: Any = held.get(first)
    for name in rest:
        if not issubclass(kind_of(found), type):
            return None
        found = _static(found, name)
    return found


def _method(owner: Any, name: str) -> Any:
    """Return the method *name* of the object *owner*; None if there is none."""
    method = None if owner is None else _static(kind_of(owner), name)
    return types.MethodType(method, owner) if isinstance(method, types.FunctionType) else None


def _static(owner: type, name: str) -> Any:
    for base in owner.__mro__:
        if name in base.__dict__:
            held: Any = base.__dict__[name]
            if isinstance(held, staticmethod):
                return cast("Any", held).__func__
            if isinstance(held, classmethod):  # its __get__ would compute a property inside it
                inner = cast("Any", held).__func__
                return types.MethodType(inner, owner) if callable(inner) else None
            return held.__get__(None, owner) if isinstance(held, types.ClassMethodDescriptorType) else held
    return None


def _same(found: Any, call: Any) -> bool:
    if isinstance(call, types.MethodType | types.BuiltinMethodType):  # created again at every access
        return bool(kind_of(found) is kind_of(call) and found == call)
    return found is call


def unbound(call: Any) -> functools.partial[Any] | None:
    """Return *call* if it is a ``functools.partial``, to be written as its parts."""
    return call if kind_of(call) is functools.partial else None
