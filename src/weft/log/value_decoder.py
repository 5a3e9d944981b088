"""
Reads values from MessagePack, equal to those that were written and of the same type.

Reading never imports, and calls no constructor but those of the builtins in the table below and of
classes that are known: registered, or reachable from an annotation of the workflow.

    >>> from weft.log.value_encoder import encode_value
    >>> Values().decode(encode_value({"when": dt.date(2026, 1, 31), "of": (1, {2, 3})}))
    {'when': datetime.date(2026, 1, 31), 'of': (1, {2, 3})}
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import pathlib
import re
import struct
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, cast

import msgspec

from weft.core.failure import restored
from weft.core.functions import arrays
from weft.errors import CorruptLog
from weft.log.class_registry import Record, Unfit, form_of, registered
from weft.log.ext_types import ADDRESSES, DEEPEST, FACTORIES, MICROSECOND, PATHS, Code, content_hash


class Values:
    """Reads values: *types* are the classes that may be created, *facts* the large values by content hash."""

    __slots__ = ("_depth", "_facts", "_moved", "_types", "decode", "unknown")

    def __init__(self, types: Mapping[str, type] | None = None, facts: Mapping[bytes, bytes] | None = None) -> None:
        self._types = types or {}
        self._facts = facts or {}
        self._moved: dict[str, type | None] = {}
        self._depth = 0
        self.unknown: dict[str, None] = {}
        """The unknown classes that occurred, in order."""
        self.decode: Callable[[Any], Any] = msgspec.msgpack.Decoder(ext_hook=self.restore).decode
        """Reads one value; which exceptions it raises depends on the data."""

    def turn_to(self, facts: Mapping[bytes, bytes], unknown: dict[str, None]) -> None:
        """Read a log that has these *facts*; classes that are not known are noted in *unknown*."""
        self._facts, self.unknown = facts, unknown

    def restore(self, code: int, data: memoryview) -> Any:
        """Return the value of an extension type."""
        read = _READERS.get(code)
        if read is None:
            raise CorruptLog(f"a value of the unknown kind {code}; it was written by a newer Weft: upgrade this one")
        if self._depth > DEEPEST + 1:  # a fact is one level, and the items of the innermost are another
            raise CorruptLog(f"a value nests deeper than {DEEPEST} levels")
        self._depth += 1
        try:
            return read(self, data)
        finally:
            self._depth -= 1

    def pairs(self, data: Any) -> dict[Any, Any]:
        """Return alternating keys and values as a dict."""
        flat = self.decode(data)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def moment(self, kind: Any, data: Any) -> Any:
        """Return a date with a time, or a time, in its zone."""
        text, *rest = self.decode(data)
        zone = _as_zone(rest[0]) if rest else None
        return kind.fromisoformat(text).replace(tzinfo=zone, fold=rest[1] if len(rest) > 1 else 0)

    def default_dict(self, data: Any) -> defaultdict[Any, Any]:
        """Return a ``defaultdict``."""
        name, flat = self.decode(data)
        return defaultdict(name and FACTORIES[name], zip(flat[::2], flat[1::2], strict=True))

    def deque(self, data: Any) -> deque[Any]:
        """Return a queue."""
        longest, items = self.decode(data)
        return deque(items, longest)

    def record(self, data: Any) -> Any:
        """Return an instance of a known class, or a record that stands for one."""
        name, fields = self.decode(data)
        if not isinstance(name, str) or not isinstance(fields, dict):
            raise CorruptLog("a record without the name of its class or without fields")
        held = cast("dict[str, Any]", fields)
        kind = registered().get(name) or self._types.get(name)
        form = None if kind is None else form_of(kind)
        if form is None:
            return self._array(name, held) if name in _OF_NUMPY else self._elsewhere(name, held)
        try:
            return form.together(kind, held)
        except Unfit as unfit:
            raise CorruptLog(
                f"{unfit}; declare a default for new fields, or register a class that fits as {name!r}"
            ) from unfit

    def _array(self, name: str, fields: dict[str, Any]) -> Any:
        """Return an array or a scalar of NumPy; a record if that is not installed."""
        try:
            return arrays.together(fields)
        except ImportError:
            self.unknown[name] = None
            return Record(name, fields)

    def exception(self, data: Any) -> BaseException:
        """Return an exception: a builtin, one of Weft's own, or one that stands for it."""
        match self.decode(data):
            case [str(type_), [*bases], str(message), *rest] if len(rest) < 3:
                args, attributes = (*rest, None, None)[:2]
                return restored(type_, tuple(map(str, bases)), message, args and tuple(args), dict(attributes or {}))
            case _:
                raise CorruptLog("an exception without its class or its message")

    def _elsewhere(self, name: str, fields: dict[str, Any]) -> Any:
        """Return an instance of the class that was *name* before it moved, or a record."""
        if name not in self._moved:
            called = {kind for kind in self._types.values() if name.endswith(f".{kind.__qualname__}")}
            self._moved[name] = called.pop() if len(called) == 1 else None  # of two, it is unknown which
        kind = self._moved[name]
        form = None if kind is None else form_of(kind)
        if form is not None:
            with suppress(Unfit, KeyError):  # another class of that name
                return form.together(kind, fields)
        self.unknown[name] = None
        return Record(name, fields)

    def fact(self, data: Any) -> Any:
        """Return a value that is stored separately from the log."""
        key = bytes(data)
        if self._depth != 1:
            raise CorruptLog("a reference to a fact inside a value")
        try:
            body = self._facts[key]
        except KeyError:
            raise CorruptLog(f"the fact {key.hex()} is missing; pass all facts of the run") from None
        if content_hash(body) != key:
            raise CorruptLog(f"the fact {key.hex()} was altered")
        return self.decode(body)


def _as_zone(zone: Any) -> dt.tzinfo | None:
    match zone:
        case None:
            return None
        case int():
            return dt.timezone(zone * MICROSECOND) if zone else dt.UTC
        case [int(micros), str(name)]:
            return dt.timezone(micros * MICROSECOND, name)
        case str() if _ZONE.fullmatch(zone):
            try:
                return zoneinfo.ZoneInfo(zone)
            except zoneinfo.ZoneInfoNotFoundError:
                raise CorruptLog(f"the time zone {zone!r} is not known on this machine; install tzdata") from None
        case _:
            raise CorruptLog(f"{zone!r} is not a time zone")


def _path(data: Any) -> pathlib.PurePath:
    """Return a path; one of the other system without its methods that ask the disk."""
    place: int = data[0]
    text = str(data[1:], "utf-8", "surrogatepass")
    kind: type[pathlib.PurePath] = PATHS[place]
    if place >= _CONCRETE and kind is not pathlib.Path().__class__:
        kind = PATHS[place - _CONCRETE]
    return kind(text)


_CONCRETE: Final = 2
"""From this place on, the paths have methods that ask the disk; the pure ones come before, in the same order."""


_OF_NUMPY: Final = frozenset({arrays.ARRAY, arrays.SCALAR})

_ZONE: Final = re.compile(r"[A-Za-z0-9_+\-]{1,32}(?:/[A-Za-z0-9_+\-]{1,32}){0,3}")

_READERS: Final[dict[int, Callable[[Values, Any], Any]]] = {
    Code.TUPLE: lambda values, data: tuple(values.decode(data)),
    Code.SET: lambda values, data: set(values.decode(data)),
    Code.FROZENSET: lambda values, data: frozenset(values.decode(data)),
    Code.DICT: Values.pairs,
    Code.INTEGER: lambda _, data: int.from_bytes(data, "big", signed=True),
    Code.TEXT: lambda _, data: str(data, "utf-8", "surrogatepass"),
    Code.COMPLEX: lambda _, data: complex(*struct.unpack(">dd", data)),
    Code.BYTEARRAY: lambda _, data: bytearray(data),
    Code.DATE: lambda _, data: dt.date.fromisoformat(str(data, "ascii")),
    Code.TIME: lambda values, data: values.moment(dt.time, data),
    Code.DATETIME: lambda values, data: values.moment(dt.datetime, data),
    Code.TIMEDELTA: lambda _, data: dt.timedelta(*struct.unpack(">iII", data)),
    Code.DECIMAL: lambda _, data: decimal.Decimal(str(data, "ascii")),
    Code.UUID: lambda _, data: uuid.UUID(bytes=bytes(data)),
    Code.RANGE: lambda values, data: range(*values.decode(data)),
    Code.ELLIPSIS: lambda _, __: ...,
    Code.ORDERED_DICT: lambda values, data: OrderedDict(values.pairs(data)),
    Code.COUNTER: lambda values, data: Counter(values.pairs(data)),
    Code.DEFAULT_DICT: Values.default_dict,
    Code.DEQUE: Values.deque,
    Code.RECORD: Values.record,
    Code.FACT: Values.fact,
    Code.PATH: lambda _, data: _path(data),
    Code.FRACTION: lambda values, data: fractions.Fraction(*values.decode(data)),
    Code.ADDRESS: lambda _, data: ADDRESSES[int(data[0])](str(data[1:], "utf-8")),
    Code.EXCEPTION: Values.exception,
}
