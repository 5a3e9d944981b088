"""Classes and values of every kind that a log can hold, and what it means that one came back."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import functools
import ipaddress
import math
import pathlib
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
from hypothesis import strategies as st

from weft.errors import UnencodableValue


class Colour(enum.Enum):
    """A plain enum."""

    RED = "red"
    GREEN = ("green", 2)


class Level(enum.IntEnum):
    """An enum whose members are numbers."""

    LOW = 1
    HIGH = 2


class Mode(enum.StrEnum):
    """An enum whose members are text."""

    FAST = "fast"


class Rights(enum.Flag):
    """An enum whose members combine."""

    READ = 1
    WRITE = 2


class Point(NamedTuple):
    """A named tuple."""

    x: int
    y: int = 0


@dataclass
class Plain:
    """A dataclass."""

    name: str
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    """A dataclass that cannot be set."""

    inner: Plain
    at: Point | None = None


@dataclass
class Counted:
    """A dataclass whose ``__init__`` may not run twice, and which computes."""

    made: list[int]
    doubled: int = field(init=False)

    def __post_init__(self) -> None:
        self.made = [*self.made, 1]
        self.doubled = 2 * len(self.made)

    @functools.cached_property
    def length(self) -> int:
        """Kept in ``__dict__``, and no field."""
        return len(self.made)


@attrs.define
class Defined:
    """An attrs class with slots and a converter."""

    number: int = attrs.field(converter=int)
    _hidden: str = "h"


@attrs.frozen(cache_hash=True)
class Cached:
    """An attrs class that remembers its hash."""

    number: int


class Struct(msgspec.Struct, frozen=True, array_like=True, rename="camel"):
    """A msgspec class whose own wire format does not matter."""

    first_name: str
    items: tuple[Point, ...] = ()


class Model(pydantic.BaseModel):
    """A pydantic model with an alias and a private attribute."""

    number: int = pydantic.Field(alias="num")
    inner: Plain | None = None
    _cache: int = pydantic.PrivateAttr(default=0)


class Open(pydantic.BaseModel):
    """A pydantic model that takes anything."""

    model_config = pydantic.ConfigDict(extra="allow", frozen=True)

    name: str = "x"


CLASSES: tuple[type, ...] = (
    *(Colour, Level, Mode, Rights, Point, Plain, Frozen, Counted, Defined, Cached, Struct, Model, Open),
)

VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "zero": 0,
    "largest_plain": 2**64 - 1,
    "large": 2**64,
    "small": -(2**63) - 1,
    "huge": -(10**400),
    "float": -0.0,
    "infinite": math.inf,
    "text": "żółw \N{SNAKE}",
    "surrogate": "\ud800x",
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"abc"),
    "complex": complex(1.5, -0.0),
    "list": [1, [2.0, None], "x"],
    "tuple": (1, (2,), []),
    "empty_tuple": (),
    "set": {1, "a", (2, 3), None},
    "frozenset": frozenset({b"x", 1.5}),
    "dict": {"a": 1, "": {"nested": [True]}},
    "dict_of_anything": {1: "a", False: "b", (1, 2): {3}, None: b"", "x": 2},
    "dict_of_surrogates": {"\udfff": 1},
    "date": dt.date(2026, 11, 15),
    "time": dt.time(23, 59, 59, 999999),
    "time_with_offset": dt.time(1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    "datetime": dt.datetime(2026, 10, 25, 2, 30, fold=1),  # noqa: DTZ001
    "datetime_utc": dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    "datetime_with_offset": dt.datetime(9999, 12, 31, 23, tzinfo=dt.timezone(-dt.timedelta(hours=5, minutes=30))),
    "datetime_with_named_offset": dt.datetime(2026, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1), "HERE")),
    "datetime_in_zone": dt.datetime(2026, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1),
    "timedelta": dt.timedelta(days=-3, microseconds=7),
    "decimal": decimal.Decimal("1.10"),
    "decimal_infinite": decimal.Decimal("-Infinity"),
    "uuid": uuid.UUID(int=7),
    "range": range(10, -(2**70), -3),
    "ellipsis": ...,
    "ordered_dict": OrderedDict([("b", 1), ("a", 2)]),
    "counter": Counter("abracadabra"),
    "defaultdict": defaultdict(list, {"a": [1]}),
    "defaultdict_of_nothing": defaultdict(None, {1: 2}),
    "deque": deque([1, (2,)], maxlen=3),
    "enum": Colour.GREEN,
    "int_enum": Level.HIGH,
    "str_enum": Mode.FAST,
    "flag": Rights.READ | Rights.WRITE,
    "named_tuple": Point(1, 2),
    "dataclass": Plain("a", ["b"]),
    "frozen_dataclass": Frozen(Plain("a"), Point(3)),
    "dataclass_with_init": Counted([7]),
    "attrs": Defined(5, "secret"),
    "attrs_cached": Cached(5),
    "struct": Struct("Ada", (Point(1),)),
    "model": Model(num=3, inner=Plain("Bo")),
    "open_model": Open(name="y", other=(1, 2)),
    "pure_path": pathlib.PurePosixPath("a/../b"),
    "windows_path": pathlib.PureWindowsPath("C:/x"),
    "odd_path": pathlib.PurePosixPath("\udcff"),
    "fraction": fractions.Fraction(-(2**80), 3),
    "ipv4": ipaddress.ip_address("10.0.0.1"),
    "ipv6": ipaddress.ip_address("fe80::1%eth0"),
    "ipv4_network": ipaddress.ip_network("10.0.0.0/8"),
    "ipv6_network": ipaddress.ip_network("fe80::/64"),
    "ipv4_interface": ipaddress.ip_interface("10.0.0.1/8"),
    "ipv6_interface": ipaddress.ip_interface("fe80::1/64"),
    "exception": ValueError("no", 5, 2**80),
    "exception_of_a_file": FileNotFoundError(2, "No such file", "a", None, "b"),
    "exception_of_bytes": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    "exception_group": ExceptionGroup("two", [KeyError("k"), OSError("down")]),
    "exception_of_weft": UnencodableValue("socket", "value[0]", "fetch"),
    "mixed": {"rows": [Plain("a"), (Colour.RED, {Point(1): frozenset()})]},
}
"""One value of each kind; the names are those of the fixtures that pin the wire format."""


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, and of the same types at every level."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float | complex | decimal.Decimal):
        return repr(one) == repr(other)
    if isinstance(one, dt.datetime | dt.time):
        return (one.replace(tzinfo=None), one.tzinfo, one.fold) == (
            other.replace(tzinfo=None),
            other.tzinfo,
            other.fold,
        )
    if isinstance(one, Mapping):
        pairs = zip(one.items(), other.items(), strict=True) if len(one) == len(other) else [((0, 0), (1, 1))]
        return all(same(key, twin) and same(item, held) for (key, item), (twin, held) in pairs)
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, set | frozenset):
        return one == other and sorted(map(repr, one)) == sorted(map(repr, other))
    if isinstance(one, BaseException):
        return same(one.args, other.args) and str(one) == str(other) and same(vars(one), vars(other))
    return bool(one == other)


def values() -> st.SearchStrategy[Any]:
    """Return values of all kinds, nested in all ways."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.complex_numbers(allow_nan=False),
        st.text(st.characters(exclude_categories=())),
        st.binary(),
        st.dates(),
        st.times(),
        st.datetimes(timezones=st.one_of(st.none(), st.timezones(), st.just(dt.UTC))),
        st.timedeltas(),
        st.decimals(allow_nan=False),
        st.uuids(),
        st.builds(range, st.integers(), st.integers(), st.integers(1)),
        st.fractions(),
        st.ip_addresses(),
        st.text(st.characters(exclude_categories=(), exclude_characters="\0")).map(pathlib.PurePosixPath),
        st.sampled_from([Colour.RED, Level.LOW, Mode.FAST, Rights.READ | Rights.WRITE]),
        st.builds(Point, st.integers(), st.integers()),
        st.builds(Cached, st.integers()),
    )

    def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = st.lists(inner, max_size=4)
        return st.one_of(
            lists,
            lists.map(tuple),
            lists.map(deque),
            st.sets(leaves, max_size=4),
            st.frozensets(leaves, max_size=4),
            st.dictionaries(st.text(max_size=4), inner, max_size=4),
            st.dictionaries(leaves, inner, max_size=4),
            st.builds(Plain, st.text(max_size=3), lists),
            st.builds(Frozen, st.builds(Plain, inner), inner),
            st.builds(Struct, inner, lists.map(tuple)),
        )

    return st.recursive(leaves, grown, max_leaves=12)
