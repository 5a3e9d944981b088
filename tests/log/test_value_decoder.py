"""Values come back equal and of the same type, or are refused where they stand."""

from __future__ import annotations

import datetime as dt
import socket
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass
from pathlib import Path, PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any

import kept
import msgspec
import pytest
from hypothesis import given
from kept import CLASSES, VALUES, Plain, same, values

from weft import Absent
from weft.core.events import InputReceived
from weft.errors import CorruptLog, UnencodableValue, WeftError
from weft.log import Record, decode_segments, encode_segment, value_encoder
from weft.log.class_registry import name_of
from weft.log.ext_types import DEEPEST, Code
from weft.log.value_decoder import Values
from weft.log.value_encoder import encode_value

KNOWN = {name_of(kind): kind for kind in CLASSES}


def back(value: Any) -> Any:
    """Write and read *value*."""
    return Values(KNOWN).decode(encode_value(value))


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_it_was(name: str) -> None:
    value = VALUES[name]

    again = back(value)

    assert same(again, value), (again, value)


@given(values())
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    data = encode_value(value)

    again = Values(KNOWN).decode(data)

    assert same(again, value)
    assert encode_value(again) == data, "what came back is written to the same bytes"


@given(values())
def test_what_is_not_known_here_is_written_to_the_same_bytes(value: Any) -> None:
    data = encode_value(value)

    opaque = Values().decode(data)

    assert encode_value(opaque) == data


def test_an_instance_of_an_unknown_class_is_a_record() -> None:
    data = encode_value([Plain("a"), kept.Colour.RED])

    first, second = Values().decode(data)

    assert first == Record("kept.Plain", {"name": "a", "tags": []})
    assert second == Record("kept.Colour", {"name": "RED"})
    assert len({first, Record("kept.Plain", {"name": "a", "tags": []})}) == 1
    with pytest.raises(AttributeError):
        first.type = "other"


def test_weft_s_own_values_are_known_without_being_registered() -> None:
    absent = Absent("fetch", "failed")

    assert Values().decode(encode_value(absent)) == absent


def test_a_model_keeps_what_is_not_among_its_fields() -> None:
    model = kept.Model(num=3)
    model._cache = 9

    again = back(model)

    assert (again._cache, again.model_fields_set) == (9, {"number"})
    assert again == model


def test_a_hash_that_was_remembered_is_worked_out_again() -> None:
    assert hash(back(kept.Cached(5))) == hash(kept.Cached(5))


def test_a_value_that_was_computed_and_kept_is_left_out() -> None:
    value = kept.Counted([1])
    assert value.length == 2

    again = back(value)

    assert again == value
    assert "length" not in vars(again)


class Text(str):
    """Text that is more than text."""

    __slots__ = ()


class Bag(dict[str, int]):
    """A dict that is more than a dict."""


class Handle:
    """No data."""


class Zone(dt.tzinfo):
    """A zone of one's own."""

    def utcoffset(self, _: object) -> None:
        return None


@dataclass
class Holder:
    """Holds anything."""

    handle: Any


LAZY = defaultdict(lambda: 1)

EXTENDED = Plain("x")
EXTENDED.more = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Handle(), "value"),
        ({"items": [1, 2, 3, Holder(Handle())]}, "value['items'][3].handle"),
        ([Text("x")], "value[0]"),
        ((1, Bag(a=1)), "value[1]"),
        ({"a": {Handle}}, "value['a']{...}"),
        ({(1, Text("k")): 1}, "value key (1, 'k')[1]"),
        ({1: Handle()}, "value[1]"),
        (LAZY, "value"),
        ([print], "value[0]"),
        (dt.datetime(2026, 1, 1, tzinfo=Zone()), "value"),
        ([EXTENDED], "value[0]"),
        (memoryview(b"x"), "value"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_what_is_not_data_is_refused_with_its_place(value: Any, path: str) -> None:
    with pytest.raises(UnencodableValue) as caught:
        encode_value(value)

    assert caught.value.path == path
    assert path in str(caught.value)
    assert isinstance(caught.value, WeftError | TypeError)


def test_an_open_socket_is_refused() -> None:
    with socket.socket() as handle, pytest.raises(UnencodableValue, match=r"a socket at value\['s'\]"):
        encode_value({"s": handle})


def nested(depth: int) -> Any:
    """A list in a list, that many times."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: (inner,), lambda inner: {"a": inner}, Holder])
def test_a_value_may_nest_as_deep_as_allowed_and_no_deeper(wrap: Any) -> None:
    value: Any = 1
    for _ in range(DEEPEST):
        value = wrap(value)

    again = Values({**KNOWN, name_of(Holder): Holder}).decode(encode_value(value))

    assert same(again, value)
    with pytest.raises(UnencodableValue, match="nests deeper than 100"):
        encode_value(wrap(value))


def test_a_value_that_contains_itself_is_refused() -> None:
    ring: list[Any] = [1]
    ring += [ring, ring]
    around: dict[str, Any] = {}
    around["a"] = {"b": (around,)}
    record = Holder(None)
    record.handle = [record]

    for value, path in ((ring, "value[1]"), (around, "value['a']['b'][0]"), (record, "value.handle[0]")):
        with pytest.raises(UnencodableValue, match="contains itself") as caught:
            encode_value(value)
        assert caught.value.path == path


def test_a_value_that_shares_its_parts_too_often_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_encoder, "_MOST", 10_000)
    value: Any = [(1, 2)]
    for _ in range(60):
        value = [value, value]

    with pytest.raises(UnencodableValue, match="items"):
        encode_value(value)


def test_an_object_that_stands_twice_in_a_value_is_not_a_cycle() -> None:
    shared = [(1,)]

    assert back([shared, shared, {"a": shared}]) == [shared, shared, {"a": shared}]


def test_the_order_of_a_dict_is_kept_and_that_of_a_set_does_not_matter() -> None:
    assert list(back({"b": 1, "a": 2})) == ["b", "a"]
    assert encode_value({3, 1, 2}) == encode_value({2, 3, 1})
    assert list(back(OrderedDict([((2,), 1), (1, 2)]))) == [(2,), 1]
    assert back(Counter(a=-1)) == Counter(a=-1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\xc7\x00\x7f",  # an unknown extension type
        b"\xd4\x01\x01",  # a tuple of no array
        b"\xc7\x02\x02\x91\x90",  # a set of a list
        b"\xc7\x03\x04\x93\x01\x02",  # a dict that is cut off
        b"\xc7\x04\x09oops",  # no date
        b"\xc7\x0b\x0b\x92\xa4oops\xa4oops",  # no moment
        b"\xd8\x16" + bytes(16),  # a fact that is missing
        b"\xc7\x06\x15\x92\xa1a\x91\x01",  # a record whose fields have no names
        b"\xc7\x03\x0d\xff\xff\xff",  # no number
    ],
)
def test_junk_raises_and_nothing_else_happens(data: bytes) -> None:
    with pytest.raises((ValueError, TypeError, ArithmeticError, CorruptLog)):
        Values(KNOWN).decode(data)


def test_the_deepest_value_comes_back_also_from_beside_the_log() -> None:
    value: Any = (dt.date(2026, 1, 1), "x" * 2000)
    for _ in range(DEEPEST - 1):
        value = (value,)
    segment = encode_segment([InputReceived(1, value, 1)])

    (event,) = decode_segments([segment.body], definitions={}, facts=segment.facts)

    assert segment.facts
    assert event.value == value


@dataclass
class Broken:
    """Cannot be looked at."""

    a: int = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "a":
            raise RuntimeError("no")
        return super().__getattribute__(name)


def test_an_object_that_cannot_be_looked_at_is_refused() -> None:
    with pytest.raises(UnencodableValue, match="fields cannot be read"):
        encode_value([Broken()])


def test_a_class_that_has_moved_comes_back_by_its_annotation() -> None:
    data = encode_value([Record("old.place.Plain", {"name": "a", "tags": []}), Record("old.Colour", {"name": "RED"})])

    read = Values(KNOWN).decode(data)

    assert read == [Plain("a"), kept.Colour.RED]


def test_a_class_of_the_same_name_that_does_not_fit_is_another_one() -> None:
    values = Values(KNOWN)
    strangers = [Record("old.Plain", {"other": 1}), Record("old.Colour", {"name": "BLUE"}), Record("old.Gone", {})]

    read = values.decode(encode_value(strangers))

    assert read == strangers
    assert list(values.unknown) == ["old.Plain", "old.Colour", "old.Gone"]


def test_of_two_classes_that_may_have_moved_none_is_taken() -> None:
    twin = dataclass(type("Plain", (), {"__annotations__": {"name": str}, "__module__": "twin"}))
    record = Record("old.Plain", {"name": "a", "tags": []})

    read = Values({"kept.Plain": Plain, "twin.Plain": twin}).decode(encode_value(record))

    assert read == record


# -- paths -----------------------------------------------------------------------------------------


def test_a_path_that_can_be_opened_comes_back_as_one() -> None:
    assert same(back(Path("a/b")), Path("a/b"))


def test_a_path_of_another_system_comes_back_without_its_disk() -> None:
    there = {PosixPath: (3, PureWindowsPath), WindowsPath: (2, PurePosixPath)}[type(Path())]
    place, pure = there

    again = Values().decode(msgspec.msgpack.encode(msgspec.msgpack.Ext(Code.PATH, bytes([place]) + b"a/b")))

    assert same(again, pure("a/b"))
