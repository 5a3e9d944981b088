"""
Any value as plain MessagePack.

What MessagePack has by itself (numbers, text, bytes, lists, dicts with text as keys) is left as it is and
costs next to nothing.  Everything else is packed: wrapped into an extension type whose number says what
it is.  Only the exact types are known; a subclass of a builtin would come back as less than it was, so it
is refused.

    >>> encode_value([1, "a"])
    b'\\x92\\x01\\xa1a'
    >>> encode_value({"items": [1, object()]})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    weft.errors.UnencodableValue: a object at value['items'][1] is no data; use ...
"""

from __future__ import annotations

import datetime as dt
import decimal
import struct
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from types import EllipsisType
from typing import Any, Final

import msgspec
from msgspec.msgpack import Ext

from weft.errors import UnencodableValue
from weft.log.codes import DEEPEST, FACTORIES, MICROSECOND, Code
from weft.log.places import kind_of
from weft.log.records import Record, Unfit, form_of, name_of

_MOST: Final = 1 << 26
"""How many items a value may have.  One that shares its parts a few dozen times over would never end."""

_encode = msgspec.msgpack.Encoder().encode

PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
"""What MessagePack has by itself, as it is in Python."""

SHORT: Final = PLAIN - {str, bytes}
"""What of that takes a few bytes at most; a number that MessagePack cannot hold is found when it is written."""

_SAFE: Final = PLAIN - {int, str}
"""The same without what it has only in part: numbers beyond 64 bits, text with lone surrogates."""

_TEXT: Final = frozenset({str})


def encode_value(value: object) -> bytes:
    """
    Return *value* as MessagePack.

    Raises:
        UnencodableValue: something inside cannot be written, nests too deeply or contains itself.
    """
    try:
        try:
            return _encode(value if _is_flat(value) else _Packer(PLAIN).pack(value))
        except (OverflowError, UnicodeEncodeError):
            return _encode(_Packer(_SAFE).pack(value))
    except _Refused as refused:
        raise UnencodableValue(refused.what, f"value{''.join(reversed(refused.path))}") from None
    except RecursionError:
        raise UnencodableValue("value that nests too deeply for this process", "value") from None


def _is_flat(value: Any) -> bool:
    """Whether *value* is what MessagePack has by itself, or a list or dict of that; most are, so this is quick."""
    kind = kind_of(value)
    if kind is dict:
        return _TEXT.issuperset(map(type, value)) and PLAIN.issuperset(map(type, value.values()))
    return kind in PLAIN or (kind is list and PLAIN.issuperset(map(type, value)))


class _Refused(Exception):
    """What cannot be written, and the way to it, innermost first."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: list[str] = []


class _Packer:
    """Turns one value into what MessagePack has; *flat* are the types that it may leave as they are."""

    __slots__ = ("flat", "inside", "items")

    def __init__(self, flat: frozenset[type]) -> None:
        self.flat = flat
        self.inside: set[int] = set()
        self.items = 0

    def pack(self, value: Any) -> Any:
        kind = kind_of(value)
        if kind in self.flat:
            return value
        leaf = _LEAVES.get(kind)
        if leaf is not None:
            return leaf(value)
        key = id(value)
        if key in self.inside:
            raise _Refused(f"{kind.__qualname__} that contains itself")
        if len(self.inside) >= DEEPEST:
            raise _Refused(f"value that nests deeper than {DEEPEST} levels")
        self.inside.add(key)
        try:
            return _CONTAINERS.get(kind, _Packer.record)(self, value)
        finally:
            self.inside.discard(key)

    def count(self, items: int) -> None:
        self.items += items
        if self.items > _MOST:
            raise _Refused(f"value of more than {_MOST:,} items")

    def sequence(self, values: Any) -> Any:
        self.count(len(values))
        if self.flat.issuperset(map(type, values)):
            return values
        packed: list[Any] = []
        for item in values:
            try:
                packed.append(self.pack(item))
            except _Refused as refused:
                refused.path.append(f"[{len(packed)}]")
                raise
        return packed

    def members(self, values: Iterable[Any]) -> bytes:
        """Return the members of a set in the order of their bytes, which every process agrees on."""
        written: list[bytes] = []
        for item in values:
            try:
                written.append(_encode(self.pack(item)))
            except _Refused as refused:
                refused.path.append("{...}")
                raise
        self.count(len(written))
        return _encode([msgspec.Raw(member) for member in sorted(written)])

    def mapping(self, value: dict[Any, Any]) -> Any:
        """Return a dict as it is, if its keys are text; else as an extension type."""
        if not _TEXT.issuperset(map(type, value)) or (str not in self.flat and not all(map(_is_sound, value))):
            return Ext(Code.DICT, self.pairs(value))
        self.count(len(value))
        if self.flat.issuperset(map(type, value.values())):
            return value
        return self.fields(value, "[{!r}]")

    def fields(self, value: Mapping[str, Any], shown: str) -> dict[str, Any]:
        packed: dict[str, Any] = {}
        for key, item in value.items():
            try:
                packed[key] = self.pack(item)
            except _Refused as refused:
                refused.path.append(shown.format(key))
                raise
        return packed

    def pairs(self, value: Mapping[Any, Any]) -> bytes:
        self.count(2 * len(value))
        packed: list[Any] = []
        for key, item in value.items():
            try:
                packed.append(self.pack(key))
                packed.append(self.pack(item))
            except _Refused as refused:
                refused.path.append(f"[{key!r}]" if len(packed) % 2 else f" key {key!r}")
                raise
        return _encode(packed)

    def record(self, value: Any) -> Any:
        kind = kind_of(value)
        if kind is Record:
            name, fields = value.type, value.fields
        else:
            form = form_of(kind)
            if form is None:
                raise _Refused(kind.__qualname__)
            try:
                name, fields = name_of(kind), form.apart(value)
            except Unfit as unfit:
                raise _Refused(str(unfit)) from unfit
            except Exception as error:
                raise _Refused(f"{kind.__qualname__} whose fields cannot be read ({error!r})") from error
        return Ext(Code.RECORD, _encode([name, self.fields(fields, ".{}")]))


def _is_sound(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(value: int) -> Any:
    if -(1 << 63) <= value < 1 << 64:
        return value
    return Ext(Code.INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _text(value: str) -> Any:
    return value if _is_sound(value) else Ext(Code.TEXT, value.encode("utf-8", "surrogatepass"))


def _range(value: range) -> Ext:
    return Ext(Code.RANGE, _encode([_integer(value.start), _integer(value.stop), _integer(value.step)]))


def _moment(code: int, value: dt.datetime | dt.time) -> Ext:
    parts: list[Any] = [value.replace(tzinfo=None, fold=0).isoformat()]
    if value.tzinfo is not None or value.fold:
        parts.append(_zone(value.tzinfo))
    if value.fold:
        parts.append(1)
    return Ext(code, _encode(parts))


def _zone(zone: dt.tzinfo | None) -> Any:
    """Return a zone as its name, or as an offset in microseconds, with a name if it was given one."""
    if zone is None:
        return None
    if type(zone) is zoneinfo.ZoneInfo and zone.key:
        return zone.key
    offset = zone.utcoffset(None)
    if offset is None:  # it changes with the date, and has no name that another process would know
        raise _Refused(f"{type(zone).__qualname__} as a time zone; use zoneinfo.ZoneInfo or datetime.timezone, which")
    micros, name = offset // MICROSECOND, zone.tzname(None)
    is_usual = type(zone) is not dt.timezone or name == dt.timezone(offset).tzname(None)
    return micros if is_usual else [micros, name]


def _default_dict(packer: _Packer, value: defaultdict[Any, Any]) -> Ext:
    factory: Any = value.default_factory
    if factory is not None and FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
        raise _Refused(f"defaultdict of {factory!r}; use one of {', '.join(FACTORIES)}, or a plain dict, which")
    return Ext(Code.DEFAULT_DICT, _encode([factory and factory.__name__, msgspec.Raw(packer.pairs(value))]))


_LEAVES: Final[dict[type, Callable[[Any], Any]]] = {
    int: _integer,
    str: _text,
    complex: lambda value: Ext(Code.COMPLEX, struct.pack(">dd", value.real, value.imag)),
    bytearray: lambda value: Ext(Code.BYTEARRAY, bytes(value)),
    dt.date: lambda value: Ext(Code.DATE, value.isoformat().encode()),
    dt.time: lambda value: _moment(Code.TIME, value),
    dt.datetime: lambda value: _moment(Code.DATETIME, value),
    dt.timedelta: lambda value: Ext(Code.TIMEDELTA, struct.pack(">iII", value.days, value.seconds, value.microseconds)),
    decimal.Decimal: lambda value: Ext(Code.DECIMAL, str(value).encode()),
    uuid.UUID: lambda value: Ext(Code.UUID, value.bytes),
    range: _range,
    EllipsisType: lambda _: Ext(Code.ELLIPSIS, b""),
}

_CONTAINERS: Final[dict[type, Callable[[_Packer, Any], Any]]] = {
    list: _Packer.sequence,
    dict: _Packer.mapping,
    tuple: lambda packer, value: Ext(Code.TUPLE, _encode(packer.sequence(value))),
    set: lambda packer, value: Ext(Code.SET, packer.members(value)),
    frozenset: lambda packer, value: Ext(Code.FROZENSET, packer.members(value)),
    OrderedDict: lambda packer, value: Ext(Code.ORDERED_DICT, packer.pairs(value)),
    Counter: lambda packer, value: Ext(Code.COUNTER, packer.pairs(value)),
    defaultdict: _default_dict,
    deque: lambda packer, value: Ext(Code.DEQUE, _encode([value.maxlen, packer.sequence(list(value))])),
}
