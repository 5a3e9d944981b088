"""
Takes instances of classes apart into fields, and puts them together again.

Dataclasses, attrs classes, ``msgspec.Struct``, pydantic models, named tuples and enums are written as the
name of their class and their fields.  They are read back only where that name is known: registered here, or
reachable from an annotation of the workflow.  Reading sets the fields as they were; no ``__init__`` of a
dataclass or attrs class runs, so nothing is validated, converted or counted twice.  The ``__post_init__`` of
a struct does run, and its changes are undone.

    >>> import dataclasses
    >>> @register(name="shop.Order")
    ... @dataclasses.dataclass
    ... class Order:
    ...     total: int
    >>> form = form_of(Order)
    >>> form.apart(Order(5))
    {'total': 5}
    >>> form.together(Order, {"total": 5})
    Order(total=5)
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast, overload
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import force_setattr

from weft.core.components.join import Absent
from weft.core.components.saga_outcome import SagaOutcome
from weft.core.functions import arrays
from weft.core.functions.identity import identify
from weft.errors import CorruptLog, DuplicateName, InvalidComponent, an
from weft.log.module_names import home, kind_of

C = TypeVar("C", bound=type)


class Unfit(Exception):
    """An instance holds more than its fields; the text describes it."""


class Record(msgspec.Struct, frozen=True):
    """
    An instance of a class that is not known here: the name of its class, and its fields.

    It is written to the same bytes again, so a process that knows the class gets the instance.
    """

    type: str
    fields: dict[str, Any]

    def __hash__(self) -> int:
        return hash((self.type, tuple(self.fields)))

    def __repr__(self) -> str:
        return f"{self.type}({', '.join(f'{name}={held!r}' for name, held in self.fields.items())})"


class Form(msgspec.Struct, frozen=True):
    """Turns instances of one kind of class into fields, and back."""

    apart: Callable[[Any], dict[str, Any]]
    together: Callable[[Any, dict[str, Any]], Any]


# -- names ---------------------------------------------------------------------------------------

_registered: dict[str, type] = {}
_names: WeakKeyDictionary[type, str] = WeakKeyDictionary()


@overload
def register(
    kind: C,
    name: str | None = None,
    *,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> C: ...
@overload
def register(
    kind: None = None,
    name: str | None = None,
    *,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Callable[[C], C]: ...
def register(
    kind: Any = None,
    name: str | None = None,
    *,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> Any:
    """
    Let instances of *kind* be written to a log and read from it; also a decorator, with or without arguments.

    Args:
        name: its name in logs from now on; by default its module and qualified name.  A name stays valid when the
            class moves to another module.
        encode: returns an instance as data, for a class whose instances are not defined by their fields.
        decode: returns the instance again, from what *encode* has returned.

    Raises:
        InvalidComponent: *kind* is not a class whose instances are defined by their fields, and *encode* and *decode*
            do not say how to write it; or Weft writes it by itself.
        DuplicateName: the name already stands for another class.
    """
    if kind is None:
        return functools.partial(register, name=name, encode=encode, decode=decode)
    _check_functions(kind, encode, decode)
    if encode is None and (not isinstance(kind, type) or form_of(kind) is None):
        raise InvalidComponent(
            f"cannot register {kind!r}: use a dataclass, an attrs class, a msgspec.Struct, a pydantic model, "
            "a NamedTuple or an Enum, or say how another class is written: register(Class, encode=..., decode=...)"
        )
    called = name or place(kind)
    known = _registered.get(called)
    # A class that was defined again, as in a notebook, replaces the earlier one.
    if known is not None and known is not kind and place(known) != place(kind):
        raise DuplicateName(called, f"the classes {place(known)} and {place(kind)}")
    _registered[called] = kind
    if encode is not None and decode is not None:
        _forms[kind] = _given_form(kind, called, encode, decode)
        identify(kind, called, encode)
    if name is not None:
        _names[kind] = name
        _registered.setdefault(place(kind), kind)  # logs that were written before it had the name
    return cast("Any", kind)


def _check_functions(kind: Any, encode: object, decode: object) -> None:
    """Refuse functions that cannot write and read instances of *kind*."""
    from weft.log.value_encoder import OWN

    if encode is None and decode is None:
        return
    shown = f"register({getattr(kind, '__qualname__', repr(kind))}, encode=..., decode=...)"
    if not isinstance(kind, type):
        raise InvalidComponent(f"{shown}: {kind!r} is not a class")
    if encode is None or decode is None:
        missing = "encode" if encode is None else "decode"
        raise InvalidComponent(f"{shown}: {missing}= is missing; what is written must be read again, so pass both")
    for option, function in (("encode", encode), ("decode", decode)):
        if not callable(function):
            raise InvalidComponent(f"{shown}: {option}={function!r} is not a function")
    if kind in OWN or kind is object or arrays.is_numpy(kind):
        raise InvalidComponent(f"{shown}: Weft writes {an(kind.__qualname__)} by itself; register a class of your own")


def _given_form(kind: type, name: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> Form:
    def apart(value: Any) -> dict[str, Any]:
        try:
            data = encode(value)
        except Exception as error:
            raise Unfit(f"{kind.__qualname__} whose encode= fails with {type(error).__name__}: {error};") from error
        if type(data) is kind:
            raise Unfit(f"{kind.__qualname__} whose encode= returns {an(kind.__qualname__)} again;")
        return {_ENCODED: data}

    def together(_: Any, fields: dict[str, Any]) -> Any:
        if fields.keys() != {_ENCODED}:
            raise Unfit(f"{kind.__qualname__} was written by its fields, before encode= and decode= were given")
        try:
            made = decode(fields[_ENCODED])
        except Exception as error:
            raise CorruptLog(
                f"decode= of {name!r} fails with {type(error).__name__}: {error}; let it read what was written before"
            ) from error
        if not isinstance(made, kind):
            found, expected = an(type(made).__qualname__), an(kind.__qualname__)
            raise CorruptLog(f"decode= of {name!r} returned {found}, and not {expected}")
        return made

    return Form(apart, together)


_ENCODED = "encoded"
"""The only field of an instance that a function has written."""


def registered() -> Mapping[str, type]:
    """Return the classes that the application has registered, by name, and Weft's own."""
    return _registered


def name_of(kind: type) -> str:
    """Return the name of *kind* in logs."""
    return _names.get(kind) or place(kind)


def place(kind: type) -> str:
    """Return the module and qualified name of *kind*."""
    return f"{home(kind.__module__)}.{kind.__qualname__}"


# -- forms ---------------------------------------------------------------------------------------

_BUILTIN = (str, bytes, bytearray, int, float, complex, list, tuple, dict, set, frozenset, BaseException, type)
_forms: WeakKeyDictionary[type, Form | None] = WeakKeyDictionary()


def form_of(kind: type) -> Form | None:
    """Return the form of *kind*, which takes instances apart; None if there is none."""
    try:
        return _forms[kind]
    except KeyError:
        _forms[kind] = form = _find_form(kind)
        return form


def _find_form(kind: Any) -> Form | None:
    bases = kind.__mro__  # asked for by name, since issubclass would forget what is known of the class
    if enum.Enum in bases:
        return _FLAG if enum.Flag in bases else _ENUM
    if tuple in bases and hasattr(kind, "_fields"):
        return _NAMED_TUPLE
    if arrays.is_numpy(kind):
        if arrays.is_scalar(kind):
            _names[kind] = arrays.SCALAR
        return _ARRAY
    if any(base in _BUILTIN for base in bases):
        return None
    if msgspec.Struct in bases:
        return _STRUCT
    if hasattr(kind, "__pydantic_fields__") and hasattr(kind, "model_construct"):
        return _MODEL
    if dataclasses.is_dataclass(kind):
        names = tuple(field.name for field in dataclasses.fields(kind))
        return Form(functools.partial(_apart, names), _together_dataclass)
    if hasattr(kind, "__attrs_attrs__"):
        names = tuple(str(field.name) for field in kind.__attrs_attrs__)
        return Form(functools.partial(_apart, names), _together_attrs)
    return None


def _apart(names: tuple[str, ...], value: Any) -> dict[str, Any]:
    fields = {name: getattr(value, name) for name in names if hasattr(value, name)}
    held = getattr(value, "__dict__", None)
    if held and not held.keys() <= fields.keys():
        kind = kind_of(value)
        extra = [
            name
            for name in held
            if name not in fields
            and not isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
        ]
        if extra:
            raise Unfit(f"{kind.__qualname__} that holds more than its fields ({', '.join(extra)})")
    return fields


def _together_dataclass(kind: Any, fields: dict[str, Any]) -> Any:
    made = object.__new__(kind)
    known = {field.name: field for field in dataclasses.fields(kind)}
    for name, field in known.items():
        if name in fields:
            value = fields[name]
        elif field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        elif not field.init:
            continue
        else:
            raise Unfit(f"{kind.__qualname__} was written without {name!r}, which has no default now")
        object.__setattr__(made, name, value)
    return _complete(kind, made, fields, known)


def _together_attrs(kind: Any, fields: dict[str, Any]) -> Any:
    made = object.__new__(kind)
    known = {field.name: field for field in kind.__attrs_attrs__}
    for name, field in known.items():
        if name in fields:
            value = fields[name]
        elif hasattr(field.default, "factory"):
            value = field.default.factory(made) if field.default.takes_self else field.default.factory()
        elif repr(field.default) != "NOTHING":
            value = field.default
        elif not field.init:
            continue
        else:
            raise Unfit(f"{kind.__qualname__} was written without {name!r}, which has no default now")
        object.__setattr__(made, name, value)
    if hasattr(kind, "_attrs_cached_hash"):
        object.__setattr__(made, "_attrs_cached_hash", None)
    return _complete(kind, made, fields, known)


def _complete(kind: Any, made: Any, fields: dict[str, Any], known: Mapping[str, Any]) -> Any:
    if not fields.keys() <= known.keys():
        gone = ", ".join(repr(name) for name in fields if name not in known)
        raise Unfit(f"{kind.__qualname__} was written with {gone}, which it no longer has")
    return made


def _together_named_tuple(kind: Any, fields: dict[str, Any]) -> Any:
    values = {**kind._field_defaults, **fields}
    made = cast("Any", tuple).__new__(kind, [values[name] for name in kind._fields])
    return _complete(kind, made, fields, dict.fromkeys(kind._fields))


def _together_struct(kind: Any, fields: dict[str, Any]) -> Any:
    known = dict.fromkeys(kind.__struct_fields__)
    _complete(kind, None, fields, known)
    try:
        made = kind(**fields)
    except TypeError as error:
        raise Unfit(f"{kind.__qualname__} cannot be made of {', '.join(fields) or 'nothing'} now ({error})") from error
    if hasattr(kind, "__post_init__"):  # it cannot be avoided, and it may have changed the fields
        for name, value in fields.items():
            force_setattr(made, name, value)
    return made


def _apart_model(value: Any) -> dict[str, Any]:
    kind = kind_of(value)
    fields = {name: held for name, held in value.__dict__.items() if name in kind.__pydantic_fields__}
    fields[_SET] = sorted(value.__pydantic_fields_set__)
    for hidden in (_EXTRA, _PRIVATE):
        if getattr(value, hidden, None):
            fields[hidden] = dict(getattr(value, hidden))
    return fields


def _together_model(kind: Any, fields: dict[str, Any]) -> Any:
    known = kind.__pydantic_fields__
    values = {name: value for name, value in fields.items() if name not in (_SET, _EXTRA, _PRIVATE)}
    for name, field in known.items():
        if name not in values:
            if field.is_required():
                raise Unfit(f"{kind.__qualname__} was written without {name!r}, which has no default now")
            values[name] = field.get_default(call_default_factory=True, validated_data=values)
    made = object.__new__(kind)
    allows_extra = kind.model_config.get("extra") == "allow"
    state = {
        "__dict__": values,
        _SET: set(fields[_SET]),
        _EXTRA: fields.get(_EXTRA, {}) if allows_extra else None,
        _PRIVATE: fields.get(_PRIVATE, {}) if kind.__private_attributes__ else None,
    }
    made.__setstate__(state)
    return _complete(kind, made, values, known)


_SET, _EXTRA, _PRIVATE = "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"


def _apart_array(value: Any) -> dict[str, Any]:
    try:
        return arrays.apart(value)
    except arrays.NotPlain as error:
        raise Unfit(str(error)) from None


_ARRAY = Form(_apart_array, lambda _, fields: arrays.together(fields))
_ENUM = Form(lambda member: {"name": member.name}, lambda kind, fields: kind.__members__[fields["name"]])
_FLAG = Form(lambda member: {"value": member.value}, lambda kind, fields: kind(fields["value"]))
_NAMED_TUPLE = Form(lambda value: dict(zip(value._fields, value, strict=True)), _together_named_tuple)
_STRUCT = Form(lambda value: {name: getattr(value, name) for name in value.__struct_fields__}, _together_struct)
_MODEL = Form(_apart_model, _together_model)

register(Absent, "weft.Absent")
register(SagaOutcome, "weft.SagaOutcome")
