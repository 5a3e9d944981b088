"""
How much memory an event takes, as an estimate: what Python holds for its value, and a constant for the event itself.

    >>> from weft.core.events import ReactionOccurred
    >>> size_of(ReactionOccurred(3, "grow", (2,), b"x" * 1_000_000)) // 1_000_000
    1
    >>> size_of_value(["x" * 1_000] * 100) // 10_000
    10

Only a sample of a long container is looked at, so the work for one event is bounded, whatever its value.  Values that
several events share are counted for each of them, so the estimate is too high rather than too low.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, cast

EVENT: Final = 400
"""How many bytes an event takes besides its value: the event, its addresses, and its places in the lists of a run."""

SAMPLE: Final = 12
"""How many items of a container are looked at."""

_DEEPEST: Final = 4
"""How deep containers are looked into; what lies deeper counts like one reference."""

_HELD: Final = ("value", "values", "state", "emitted", "error", "key", "reason")
"""The fields of events whose content can be large."""

_held_by: dict[type, tuple[str, ...]] = {}

_FLAT: Final = frozenset({int, float, bool, complex, str, bytes, bytearray, type(None)})


def size_of(event: object) -> int:
    """Return about how many bytes *event* takes."""
    kind = type(event)
    names = _held_by.get(kind)
    if names is None:
        fields = getattr(kind, "__struct_fields__", ())
        names = _held_by[kind] = tuple(name for name in _HELD if name in fields)
    size = EVENT
    for name in names:
        try:
            size += size_of_value(getattr(event, name))
        except Exception:  # noqa: BLE001 - a class of the user that cannot say its size must not stop a run
            size += EVENT
    return size


def size_of_value(value: object, deepest: int = _DEEPEST) -> int:
    """Return about how many bytes *value* takes."""
    kind = type(value)
    if kind in _FLAT:
        return sys.getsizeof(value)
    size = sys.getsizeof(value, 64)
    if deepest == 0:
        return size
    look = _INSIDE.get(kind)
    if look is not None:
        return size + look(value, deepest - 1)
    return size + _fields(value, deepest - 1)


def _sampled(items: Iterable[object], count: int, deepest: int) -> int:
    """Return the size of *count* items, of which *items* are a sample."""
    sizes = [size_of_value(item, deepest) for item in items]
    return sum(sizes) * count // len(sizes) if sizes else 0


def _sequence(value: Any, deepest: int) -> int:
    count = len(value)
    return _sampled(value if count <= SAMPLE else value[:: -(-count // SAMPLE)], count, deepest)


def _collection(value: Any, deepest: int) -> int:
    return _sampled(islice(value, SAMPLE), len(value), deepest)


def _mapping(value: Mapping[Any, Any], deepest: int) -> int:
    count = len(value)
    return _sampled(islice(value.keys(), SAMPLE), count, deepest) + _sampled(
        islice(value.values(), SAMPLE), count, deepest
    )


def _fields(value: object, deepest: int) -> int:
    """Return the size of what an object holds in its attributes."""
    names = getattr(type(value), "__struct_fields__", None) or getattr(type(value), "__slots__", ())
    held: list[object] = []
    if isinstance(names, tuple):
        held = [getattr(value, str(name), None) for name in cast("tuple[object, ...]", names)[:SAMPLE]]
    own = getattr(value, "__dict__", None)
    size = sum(size_of_value(each, deepest) for each in held)
    if not isinstance(own, dict):
        return size
    return size + sys.getsizeof(cast("object", own)) + _mapping(cast("dict[str, object]", own), deepest)


_INSIDE: Final[dict[type, Callable[[Any, int], int]]] = {
    list: _sequence,
    tuple: _sequence,
    set: _collection,
    frozenset: _collection,
    deque: _collection,
    dict: _mapping,
}
