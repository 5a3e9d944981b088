"""
The parts of a definition as JSON: functions, constants, expressions, policies.

Numbers, strings, booleans, null and lists stand for themselves.  Everything else is an object with one key
that begins with ``$`` and says what it is:

| key | stands for |
| --- | --- |
| ``$call`` | a function, as a reference |
| ``$partial`` | a ``functools.partial``: its function, and its bound arguments |
| ``$part`` | one of Weft's own records, by its name in a closed table (``weft.log.wire_names``) |
| ``$missing`` | no default at all |
| ``$tuple``, ``$map`` | a tuple; a dict with text as keys |
| ``$error``, ``$kind`` | a class of exceptions; a class of components |
| ``$class`` | a class that values are compared with, in a pattern |
| ``$component`` | a component inside another: its kind, name, tags and fields |
| ``$pattern`` | a regular expression |
| ``$value`` | any other value, as MessagePack in base 64 |
| ``$lost`` | a value that cannot be written, by the name of its class |

A callable that is read was offered by this process (``weft.core.functions.offered``), is made of offered functions, or
is data of Weft itself.  Classes in a policy or a pattern are compared, and never called, so their names are enough.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec

from weft.core.components.pattern import OfClass
from weft.core.compose.component import Component
from weft.core.functions.function import Function, is_builtin
from weft.core.functions.offered import is_offered, offer
from weft.core.functions.references import MISSING
from weft.core.functions.unresolved import NOT_OFFERED, UNKNOWN, UNWRITABLE, Lost, Unresolved
from weft.errors import CorruptLog, DefinitionError, UnencodableValue, an
from weft.log import functions
from weft.log.ext_types import DEEPEST
from weft.log.module_names import contents, home, kind_of, modules
from weft.log.part_types import check
from weft.log.value_decoder import Values
from weft.log.value_encoder import encode_value
from weft.log.wire_names import COMPONENTS, NAMES, PARTS
from weft.policy.limits import RateLimit
from weft.policy.matching import Kinds
from weft.policy.policy import Policy


class Unportable(NamedTuple):
    """A function or a constant that another process could not find."""

    label: str
    is_function: bool = True


class Writer:
    """Writes the parts of one definition; *owner* is the component that is being written."""

    def __init__(self) -> None:
        self.owner = ""
        self.unportable: dict[str, Unportable] = {}
        """The functions and constants that another process could not find, by component."""
        self._depth = 0
        self._memo = functions.Memo()

    def write(self, value: Any) -> Any:
        """Return *value* as JSON."""
        kind = kind_of(value)
        if kind in (bool, type(None)) or (kind is float and math.isfinite(value)):
            return value
        if kind is int and abs(value) < _EXACT:
            return value
        if kind is str:
            return value if value.isascii() or _is_text(value) else self._value(value)
        if self._depth >= DEEPEST:
            return self._lost(kind)
        self._depth += 1
        try:
            return self._compound(kind, value)
        finally:
            self._depth -= 1

    def _compound(self, kind: Any, value: Any) -> Any:
        if kind is list:
            return [self.write(item) for item in value]
        if kind is tuple:
            return {"$tuple": [self.write(item) for item in value]}
        if kind is dict and all(type(key) is str for key in value):
            return {"$map": [[key, self.write(item)] for key, item in value.items()]}
        if value is MISSING:
            return {"$missing": True}
        if kind in NAMES:
            compared = _COMPARED.get(kind, ())
            fields = {
                name: self._classes(held) if name in compared else self.write(held)
                for name, held in _changes(value).items()
            }
            return {"$part": [NAMES[kind], fields]}
        if kind is re.Pattern:
            return {"$pattern": [value.pattern, value.flags]}
        if _is_class(value, BaseException):
            return {"$error": {"module": home(value.__module__), "name": value.__qualname__}}
        if _is_class(value, Component):
            return {"$kind": value.kind}
        held = value  # what is still of any type after the check
        if isinstance(value, Component):
            return {"$component": [held.kind, held.name, list(held.tags), self.fields(held)]}
        bound = functions.unbound(value)
        if bound is not None:
            return {"$partial": [self.write(bound.func), self.write(bound.args), self.write(bound.keywords)]}
        if callable(value):
            return self._call(value)
        return self._value(value)

    def fields(self, component: Component) -> dict[str, Any]:
        """Return the fields of *component* that differ from their default."""
        defaults = {field.name: field.default for field in dataclasses.fields(component)}
        made_of = component.to_data().items()
        return {
            name: self.write(value)
            for name, value in made_of
            if not is_default(value, defaults.get(name, dataclasses.MISSING))
        }

    def _classes(self, held: Any) -> Any:
        """Return a tuple of classes that are compared; other data, such as a function that decides, as usual."""
        return {"$tuple": list(map(self._class, held))} if kind_of(held) is tuple else self.write(held)

    def _class(self, kind: Any) -> Any:
        """Return a class that is compared, and never called; other data as usual."""
        if not isinstance(kind, type) or issubclass(kind, BaseException | Component):
            return self.write(kind)
        return {"$class": {"module": home(kind.__module__), "name": kind.__qualname__}}

    def _call(self, call: Any) -> Any:
        is_lost = isinstance(call, Unresolved)  # written again as it was read
        if not is_lost:
            offer(call)  # this process can find what it writes
        reference = dict(call.reference) if is_lost else self._memo.refer(call)
        if not functions.is_portable(reference):
            self.unportable.setdefault(self.owner, Unportable(functions.label(reference)))
        return {"$call": reference}

    def _value(self, value: Any) -> Any:
        try:
            return {"$value": base64.b64encode(encode_value(value)).decode()}
        except UnencodableValue:
            return self._lost(kind_of(value))

    def _lost(self, kind: type) -> Any:
        self.unportable.setdefault(self.owner, Unportable(kind.__qualname__, is_function=False))
        return {"$lost": kind.__qualname__}


class Reader:
    """
    Reads the parts of one definition.

    The live workflow, if there is one, is walked together with the data: functions and lost values are taken from
    the same place in it.
    """

    def __init__(self, types: Mapping[str, type], memo: functions.Memo, *, comparable: bool) -> None:
        self.owner = ""
        self._memo = memo
        self.changed: dict[str, None] = {}
        """The components whose code has changed."""
        self.unresolved: dict[str, tuple[str, str]] = {}
        """The components that lack a function or a value, its name, and why it is missing."""
        self._comparable = comparable
        self._values = Values(types)
        self._suspects = 0

    def read(self, data: Any, live: Any = None) -> Any:
        """Return the object that *data* stands for."""
        if isinstance(data, list):
            return [self.read(item, _at(live, place)) for place, item in enumerate(cast("Any", data))]
        if not isinstance(data, dict):
            return data
        ((key, body),) = cast("dict[str, Any]", data).items()
        return _READ[key](self, body, live)

    def tuple(self, body: Any, live: Any) -> Any:
        """Return a tuple."""
        return tuple(self.read(body, live))

    def map(self, body: Any, live: Any) -> Any:
        """Return a dict."""
        held: dict[str, Any] = dict(cast("Any", live)) if isinstance(live, Mapping) else {}
        return {str(key): self.read(item, held.get(key)) for key, item in body}

    def part(self, body: Any, live: Any) -> Any:
        """Return one of Weft's own records."""
        name, fields = body
        kind = _part(name)
        beside = live if type(live) is kind else None
        before = self._suspects
        compared = _COMPARED.get(kind, ())
        read = _FORMER_DEFAULTS.get(kind, {}) | {
            field: (self._classes if field in compared else self.read)(item, getattr(beside, field, None))
            for field, item in fields.items()
        }
        check(kind, read)
        if kind is Function:
            return self._function(read, fields["call"], is_suspect=self._suspects > before)
        return kind(**read)

    def component(self, body: Any, live: Any) -> Any:
        """Return a component inside another."""
        kind, name, tags, fields = body
        beside = live if type(live) is kinds()[kind] else None
        read = {field: self.read(item, getattr(beside, field, None)) for field, item in fields.items()}
        return kinds()[kind].from_data(name, tuple(tags), read)

    def call(self, reference: Any, live: Any) -> Any:
        """Return a function, or a stand-in for it."""
        found = live if callable(live) else self._memo.resolve(reference)
        if found is None:
            return self._unresolved(reference)
        if not self._comparable or not self._memo.is_same_code(reference, found):
            self._suspects += 1
            if self._comparable:
                self.changed[self.owner] = None
        return found

    def _function(self, fields: dict[str, Any], written: Any, *, is_suspect: bool) -> Function:
        call, constants = fields["call"], fields.get("constants", {})
        reference = written.get("$call") or functions.refer(call)
        stored = Function(**fields)
        lost = next((value for value in constants.values() if isinstance(value, Lost)), None)
        if lost is not None:
            return dataclasses.replace(stored, call=self._unresolved(reference, lost.reason, type(lost).__qualname__))
        if not is_suspect or isinstance(call, Unresolved) or is_builtin(call):
            return stored  # a builtin has a signature in one version of Python, and not in another
        try:
            fresh = Function.of(call).bind(constants)
        except DefinitionError:
            fresh = None
        if fresh is None or (len(fresh.required), fresh.variadic) != (len(stored.required), stored.variadic):
            return dataclasses.replace(
                stored, call=self._unresolved(reference, "has changed and takes other parameters now")
            )
        # Where it reads another component, that one may have another name here than in the code.
        reads = {name: stored.references.get(name, ref) for name, ref in fresh.references.items()}
        return dataclasses.replace(fresh, references=reads)

    def _unresolved(self, reference: Any, reason: str = "", constant: str = "") -> Unresolved:
        reason = reason or functions.why_unresolved(reference)
        label, code = functions.label(reference), bytes.fromhex(reference["code"])
        self.unresolved.setdefault(self.owner, (label, reason))
        return Unresolved(self.owner, label, code, reason, tuple(reference.items()), constant)

    def partial(self, body: Any, live: Any) -> Any:
        """Return a function with its bound arguments."""
        beside = functions.unbound(live)
        given: Any = (None, None, None) if beside is None else (beside.func, beside.args, beside.keywords)
        call, args, keywords = (self.read(item, held) for item, held in zip(body, given, strict=True))
        return functools.partial(call, *args, **keywords)

    def _classes(self, data: Any, live: Any) -> Any:
        """Return a tuple of classes that are compared, and never called; other data as usual."""
        if not isinstance(data, dict) or "$tuple" not in data:
            return self.read(data, live)
        items = cast("dict[str, Any]", data)["$tuple"]
        return tuple(_known_class(item, _at(live, place)) or self.read(item) for place, item in enumerate(items))

    def error(self, body: Any, _: Any) -> Any:
        """Return an exception class that was offered, or a stand-in: it may be called."""
        found = _exception(body)
        if is_offered(found):
            return found
        self.unresolved.setdefault(self.owner, (functions.label(body), NOT_OFFERED))
        return _named(body, Exception)

    def kind(self, body: Any, live: Any) -> Any:
        """Return a class of components that was offered, or a stand-in: it may be called."""
        found = kinds()[body]
        return found if is_offered(found) else self.lost(found.__qualname__, live, NOT_OFFERED)

    def pattern(self, body: Any, _: Any) -> Any:
        """Return a regular expression."""
        expression, flags = body
        return re.compile(expression, flags)

    def missing(self, _: Any, __: Any) -> Any:
        """Return the marker for a missing default."""
        return MISSING

    def lost(self, body: Any, live: Any, reason: str = UNWRITABLE) -> Any:
        """Return the value of the live workflow, or a stand-in."""
        if live is not None:
            return live
        self.unresolved.setdefault(self.owner, (str(body), reason))
        return Lost.of(str(body), self.owner, reason)

    def value(self, body: Any, live: Any) -> Any:
        """Return any value; a value of an unknown class is lost."""
        unknown = self._values.unknown
        unknown.clear()
        value = self._values.decode(base64.b64decode(body, validate=True))
        if callable(value):  # it would have been written as a function
            raise CorruptLog(f"{self.owner!r} has {an(kind_of(value).__qualname__)}, which can be called, as a value")
        return self.lost(next(iter(unknown)), live, UNKNOWN) if unknown else value


class _ByName(type):
    """Makes classes that match exceptions by the name of a class that is not imported here yet."""

    def __instancecheck__(cls, instance: object) -> bool:
        place = (cls.__module__, cls.__qualname__)
        return any((home(base.__module__), base.__qualname__) == place for base in type(instance).__mro__)


_READ: dict[str, Any] = {
    "$call": Reader.call,
    "$component": Reader.component,
    "$error": Reader.error,
    "$kind": Reader.kind,
    "$lost": Reader.lost,
    "$map": Reader.map,
    "$missing": Reader.missing,
    "$part": Reader.part,
    "$partial": Reader.partial,
    "$pattern": Reader.pattern,
    "$tuple": Reader.tuple,
    "$value": Reader.value,
}


# -- Weft's own records --------------------------------------------------------------------------


def kinds() -> dict[str, Any]:
    """Return the classes of components, by kind."""
    found: dict[str, Any] = {kind.kind: kind for kind in COMPONENTS}
    pending: list[Any] = [Component]  # and those of the application
    while pending:
        below: list[Any] = pending.pop(0).__subclasses__()
        for kind in below:
            found.setdefault(kind.kind, kind)
        pending.extend(below)
    return found


def _is_class(thing: object, base: type) -> bool:
    return isinstance(thing, type) and issubclass(thing, base)


_COMPARED: dict[Any, tuple[str, ...]] = {
    Policy: ("retryable", "non_retryable"),
    Kinds: ("classes",),
    OfClass: ("classes",),
}
"""The fields whose classes are only compared, and never called."""


_FORMER_DEFAULTS: dict[Any, dict[str, Any]] = {RateLimit: {"burst": 1}}
"""The defaults of fields that were not written while they had them, and are always written since they have others."""


def _part(name: str) -> Any:
    try:
        return PARTS[name]
    except KeyError:
        raise CorruptLog(f"a definition is made of {name!r}, which is not known; a newer Weft wrote it") from None


def _known_class(data: Any, live: Any = None) -> Any:
    """Return the class that *data* names, *live* if it is that, for comparisons; None if it does not name one."""
    match data:
        case {"$class": body}:
            is_live = isinstance(live, type) and (home(live.__module__), live.__qualname__) == _place(body)
            return live if is_live else class_named(body) or _named(body, object)
        case {"$error": body}:
            return _exception(body) or _named(body, Exception)
        case {"$kind": kind}:
            return kinds()[kind]
        case _:
            return None


def _exception(body: Any) -> Any:
    """Return the exception class in an imported module that *body* names; None if there is none."""
    return class_named(body, BaseException)


def class_named(body: Any, base: type = object) -> Any:
    """Return the class below *base* in an imported module that *body* names; None if there is none."""
    module, name = _place(body)
    first, *rest = name.split(".")
    for held in modules(module, was_main=False):
        found = functools.reduce(_inner, rest, contents(held).get(first))
        if _is_class(found, base):
            return found
    return None


def _place(body: Any) -> tuple[str, str]:
    return str(body["module"]), str(body["name"])


def _named(body: Any, base: type) -> Any:
    """Return a class that matches the instances of the class that *body* names, and is written under that name."""
    module, name = _place(body)
    bases = () if base is object else (base,)
    return _ByName(name.rpartition(".")[2], bases, {"__module__": module, "__qualname__": name})


def _changes(value: Any) -> dict[str, Any]:
    """Return the fields of a record that differ from their default; of a policy those that were given."""
    kind = kind_of(value)
    if isinstance(value, Policy):
        return {name: getattr(value, name) for name in value.__struct_fields__ if name in value.given}
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        defaults = dict(zip(reversed(names), reversed(kind.__struct_defaults__), strict=False))
    else:
        names = tuple(field.name for field in dataclasses.fields(kind))
        defaults = {
            field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            for field in dataclasses.fields(kind)
        }
    return {name: held for name in names if not is_default(held := getattr(value, name), defaults.get(name, _NONE))}


_NONE = object()
_EXACT = 1 << 53
"""Numbers from here on are not exact in the JSON of other languages."""


def is_default(value: Any, default: Any) -> bool:
    """Return whether *value* need not be written."""
    return value is default or (type(value) is type(default) and value == default)


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _inner(owner: Any, name: str) -> Any:
    return owner.__dict__.get(name) if _is_class(owner, object) else None


def _at(live: Any, place: int) -> Any:
    held = list(cast("Any", live)) if isinstance(live, list | tuple) else []
    return held[place] if place < len(held) else None
