"""
Writes any value as plain MessagePack.

Types that MessagePack has itself (numbers, text, bytes, lists, dicts with text as keys) are left as they are and
cost next to nothing.  Everything else is packed: wrapped into an extension type whose number says what it is.
Only the exact types are known; a subclass of a builtin would come back as the plain type, so it is refused.

    >>> encode_value([1, "a"])
    b'\\x92\\x01\\xa1a'
    >>> encode_value({"items": [1, object()]})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    weft.errors.UnencodableValue: an object at value['items'][1] is not data; use ...
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import pathlib
import struct
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Generator, Mapping
from types import EllipsisType
from typing import Any, Final

import msgspec
from msgspec.msgpack import Ext

from weft.core.failure import arguments, outline
from weft.errors import UnencodableValue
from weft.log.class_registry import Record, Unfit, form_of, name_of
from weft.log.ext_types import ADDRESSES, DEEPEST, FACTORIES, MICROSECOND, PATHS, Code
from weft.log.module_names import kind_of

_MOST: Final = 1 << 26
"""How many items a value may have.  A value that contains the same part many times, nested, would never end."""

AT_ONCE: Final = 2048
"""How many items are packed at once where other tasks share the thread: about a millisecond of work."""

_CHUNK: Final = 256
"""How many items of a long list are tried together; fewer if that is more than may be packed at once."""

_encode = msgspec.msgpack.Encoder().encode

PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
"""The Python types that MessagePack has itself."""

SHORT: Final = PLAIN - {str, bytes}
"""Types of a few bytes at most; a number that MessagePack cannot hold is found when it is written."""

_SAFE: Final = PLAIN - {int, str}
"""The same without types that it supports only in part: numbers beyond 64 bits, text with lone surrogates."""

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


def encode_small(value: object) -> bytes | None:
    """
    Return *value* as MessagePack if it has no more than :data:`AT_ONCE` items; otherwise None, about as quickly.

    Raises:
        UnencodableValue: as :func:`encode_value`.
    """
    kind: Any = kind_of(value)
    try:
        if kind in (list, dict) and len(value) <= AT_ONCE and _is_flat(value):  # type: ignore[arg-type]
            return _encode(value)
        return _encode(_Packer(PLAIN, AT_ONCE).pack(value))
    except _TooMany:
        return None
    except (OverflowError, UnicodeEncodeError, _Refused, RecursionError):
        return encode_value(value)


def encode_in_slices(value: object) -> Generator[None, None, bytes]:
    """
    Return the same bytes as :func:`encode_value`, yielding after every :data:`AT_ONCE` items.

    Long lists, tuples and dicts are taken apart, however deeply nested they are.  A long value of any other class is
    packed at once.

    >>> slices = encode_in_slices(list(range(50_000)))
    >>> stops = 0
    >>> try:
    ...     while True:
    ...         next(slices)
    ...         stops += 1
    ... except StopIteration as end:
    ...     stops > 2, end.value == encode_value(list(range(50_000)))
    (True, True)

    Raises:
        UnencodableValue: as :func:`encode_value`.
    """
    try:
        return (yield from _Slicer().encode(value))
    except _Refused as refused:
        raise UnencodableValue(refused.what, f"value{''.join(reversed(refused.path))}") from None
    except RecursionError:
        raise UnencodableValue("value that nests too deeply for this process", "value") from None


def _is_flat(value: Any) -> bool:
    """Return whether *value* is of a type that MessagePack has, or a list or dict of those; most are, so be quick."""
    kind = kind_of(value)
    if kind is dict:
        return _TEXT.issuperset(map(type, value)) and PLAIN.issuperset(map(type, value.values()))
    return kind in PLAIN or (kind is list and PLAIN.issuperset(map(type, value)))


class _Refused(Exception):
    """A part cannot be written; holds the path to it, innermost first."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: list[str] = []


class _TooMany(Exception):
    """There are more items than may be packed at once."""


class _Packer:
    """
    Turns one value into types that MessagePack has.

    Args:
        flat: the types that it may leave as they are.
        budget: how many items it may pack at once; None for any number.
    """

    __slots__ = ("budget", "flat", "inside", "items")

    def __init__(self, flat: frozenset[type], budget: int | None = None) -> None:
        self.flat, self.budget = flat, budget
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
        if self.budget is not None and self.items > self.budget:
            raise _TooMany
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

    def members(self, values: Collection[Any]) -> bytes:
        """Return the members of a set in the order of their bytes, which every process agrees on."""
        self.count(len(values))
        written: list[bytes] = []
        for item in values:
            try:
                written.append(_encode(self.pack(item)))
            except _Refused as refused:
                refused.path.append("{...}")
                raise
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
                if BaseException in kind.__mro__:
                    return self.exception(value)
                raise _Refused(kind.__qualname__)
            try:
                name, fields = name_of(kind), form.apart(value)
            except Unfit as unfit:
                raise _Refused(str(unfit)) from unfit
            except Exception as error:
                raise _Refused(f"{kind.__qualname__} whose fields cannot be read ({error!r})") from error
        return Ext(Code.RECORD, _encode([name, self.fields(fields, ".{}")]))

    def exception(self, value: BaseException) -> Ext:
        """Return the class of an exception, its bases and message, and its arguments if they are data."""
        args, attributes = arguments(value)
        parts: list[Any] = [*outline(value), self.data(args), self.data(attributes or None)]
        while parts[-1] is None:
            parts.pop()
        return Ext(Code.EXCEPTION, _encode(parts))

    def data(self, value: Any) -> Any:
        """Return *value*, packed; None if it cannot be."""
        try:
            written = _encode(self.pack(value))
        except _Refused:
            return None
        return None if value is None else msgspec.Raw(written)


class _Slicer:
    """Turns one value into MessagePack, a few items at a time, yielding in between."""

    __slots__ = ("_packer", "_stopped_at")

    def __init__(self) -> None:
        self._packer = _Packer(PLAIN)
        self._stopped_at = 0

    def encode(self, value: Any) -> Generator[None, None, bytes]:
        """Return *value*, which may be a part of another one, as bytes."""
        packer, kind = self._packer, kind_of(value)
        data = self._written(packer.pack, value, AT_ONCE)
        if data is not None:
            if self._is_due():
                yield
            return data
        if kind not in (list, tuple, dict):
            return self._written(packer.pack, value, None) or b""
        key = id(value)
        if key in packer.inside or len(packer.inside) >= DEEPEST:
            packer.pack(value)  # which refuses it
        packer.inside.add(key)
        try:
            held = value.copy() if kind is not tuple else value  # between two stops it may change
            if kind is dict:
                return (yield from self._mapping(held))
            items = yield from self._items(held, "[{}]".format)
            items = _head_of_array(len(held)) + items
            return _encode(Ext(Code.TUPLE, items)) if kind is tuple else items
        finally:
            packer.inside.discard(key)

    def _written(self, pack: Callable[[Any], Any], value: Any, budget: int | None) -> bytes | None:
        """Return the result of *pack* for *value* as bytes, unless it has more items than *budget* allows."""
        packer, before = self._packer, self._packer.items
        packer.budget = None if budget is None else before + budget
        try:
            return _encode(pack(value))
        except _TooMany:
            packer.items = before
            return None
        except (OverflowError, UnicodeEncodeError):  # a type that MessagePack supports only in part
            packer.flat, packer.items = _SAFE, before
            return _encode(pack(value))
        finally:
            packer.budget, packer.flat = None, PLAIN

    def _is_due(self) -> bool:
        """Return whether enough was packed to yield again."""
        if self._packer.items < self._stopped_at + AT_ONCE:
            return False
        self._stopped_at = self._packer.items
        return True

    def _items(self, values: Any, shown: Callable[[int], str]) -> Generator[None, None, bytes]:
        """Return *values*, a list or tuple, one after the other; *shown* says where in it one of them is."""
        written: list[bytes] = []
        first, size, most, sequence = 0, _CHUNK, AT_ONCE, self._packer.sequence
        while first < len(values):
            some = list(values[first : first + size])
            try:
                data = self._written(sequence, some, AT_ONCE)
            except _Refused:
                data = None
            if data is not None:
                written.append(data[len(_head_of_array(len(some))) :])
                size = min(2 * size, most)
            elif len(some) > 1:
                size = most = len(some) // 2
                continue
            else:
                try:
                    written.append((yield from self.encode(some[0])))
                except _Refused as refused:
                    refused.path.append(shown(first))
                    raise
            first += len(some)
            if self._is_due():
                yield
        return b"".join(written)

    def _mapping(self, value: dict[Any, Any]) -> Generator[None, None, bytes]:
        if not _TEXT.issuperset(map(type, value)) or not all(map(_is_sound, value)):
            pairs: list[Any] = [part for pair in value.items() for part in pair]
            items = yield from self._items(
                pairs, lambda at: f"[{pairs[at - 1]!r}]" if at % 2 else f" key {pairs[at]!r}"
            )
            return _encode(Ext(Code.DICT, _head_of_array(len(pairs)) + items))
        self._packer.count(len(value))
        written: list[bytes] = []
        for key, item in value.items():
            try:
                written += (_encode(key), (yield from self.encode(item)))
            except _Refused as refused:
                refused.path.append(f"[{key!r}]")
                raise
            if self._is_due():
                yield
        return _head_of_map(len(value)) + b"".join(written)


def _head_of_array(length: int) -> bytes:
    if length < 16:
        return bytes([0x90 | length])
    return b"\xdc" + length.to_bytes(2, "big") if length < 1 << 16 else b"\xdd" + length.to_bytes(4, "big")


def _head_of_map(length: int) -> bytes:
    if length < 16:
        return bytes([0x80 | length])
    return b"\xde" + length.to_bytes(2, "big") if length < 1 << 16 else b"\xdf" + length.to_bytes(4, "big")


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
    if offset is None:  # its offset changes with the date, and it has no name that another process would know
        raise _Refused(f"{type(zone).__qualname__} as a time zone; use zoneinfo.ZoneInfo or datetime.timezone, which")
    micros, name = offset // MICROSECOND, zone.tzname(None)
    is_usual = type(zone) is not dt.timezone or name == dt.timezone(offset).tzname(None)
    return micros if is_usual else [micros, name]


def _numbered(code: int, kinds: tuple[type, ...]) -> dict[type, Callable[[Any], Any]]:
    """Return the leaves of *kinds*: written as the place of its class there, and its text."""

    def leaf(place: int) -> Callable[[Any], Any]:
        return lambda value: Ext(code, bytes([place]) + str(value).encode("utf-8", "surrogatepass"))

    return {kind: leaf(place) for place, kind in enumerate(kinds)}


def _fraction(value: fractions.Fraction) -> Ext:
    return Ext(Code.FRACTION, _encode([_integer(value.numerator), _integer(value.denominator)]))


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
    fractions.Fraction: _fraction,
    **_numbered(Code.PATH, PATHS),
    **_numbered(Code.ADDRESS, ADDRESSES),
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

OWN: Final = PLAIN | _LEAVES.keys() | _CONTAINERS.keys() | {pathlib.Path, pathlib.PurePath}
"""The types that are written by themselves, so that nothing need be registered for them."""
