"""
A value as a tree that can be folded: the parts that a page shows, with types and sizes.

    >>> tree = value_tree({"lines": [1, 2, 3], "to": "ada"})
    >>> tree.text, [(child.label, child.text) for child in tree.children]
    ('dict of 2', [('lines', 'list of 3'), ('to', "'ada'")])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, cast

import msgspec

from weft.log import Record
from weft.views.text import plain, shown

WIDE: Final = 50
"""How many parts of one value are shown."""
DEEP: Final = 6
"""How deep they nest before only their size is shown."""
LONGEST: Final = 400
"""How many characters of a text are shown."""


class ValueTree(msgspec.Struct, frozen=True):
    """One value, or a part of one."""

    label: str
    """The key, the index or the name of the field; empty for the value itself."""
    text: str
    type: str
    children: tuple[ValueTree, ...] = ()
    more: int = 0
    """How many parts are not among the children."""
    path: str = ""
    """Where it is in the value: the places of the parts that lead to it, "3.0.7"."""
    start: int = 0
    """The number of the part that is the first child."""


def value_tree(
    value: Any, label: str = "", *, start: int = 0, depth: int = 0, path: str = "", longest: int = LONGEST
) -> ValueTree:
    """
    Return the tree of *value*.

    Args:
        start: the first of its parts that is shown.
        path: where *value* is in another one.
        longest: how many characters of a text are shown.
    """
    kind = value.type if isinstance(value, Record) else type(value).__name__
    parts = _parts(value)
    if parts is None:
        text = shown(value, longest=longest)
        cut = max(0, len(value) - longest) if isinstance(value, str | bytes) else 0
        return ValueTree(label, text, kind, more=cut, path=path)
    size, pairs = parts
    if depth >= DEEP:
        return ValueTree(label, f"{kind} of {size:,}", kind, more=size, path=path)
    children = tuple(
        value_tree(part, plain(name), depth=depth + 1, path=f"{path}.{place}" if path else str(place), longest=longest)
        for place, (name, part) in enumerate(islice(pairs, start, start + WIDE), start)
    )
    more = max(0, size - start - len(children))
    return ValueTree(label, f"{kind} of {size:,}", kind, children, more, path, start)


def part_of(value: Any, path: str) -> Any:
    """
    Return the part of *value* at *path*.

    >>> part_of({"lines": [1, 2, 3], "to": "ada"}, "0.2")
    3

    Raises:
        LookupError: there is none.
    """
    for place in filter(None, path.split(".")):
        parts = _parts(value)
        if parts is None or not (place.isdecimal() and len(place) < 10):
            raise LookupError(path)
        for _, value in islice(parts[1], int(place), int(place) + 1):  # noqa: B007 - the value goes on
            break
        else:
            raise LookupError(path)
    return value


def _items(found: dict[Any, Any]) -> tuple[int, Iterable[tuple[str, Any]]]:
    return len(found), ((key if isinstance(key, str) else shown(key), held) for key, held in found.items())


def _parts(value: Any) -> tuple[int, Iterable[tuple[str, Any]]] | None:
    """Return how many parts *value* has, and these; None if it is shown as a whole."""
    if isinstance(value, Record):
        return len(value.fields), ((str(name), held) for name, held in value.fields.items())
    if isinstance(value, Mapping):
        return _items(cast("Any", value))
    if isinstance(value, list | tuple | set | frozenset):
        found_items = cast("list[Any]", value)
        return len(found_items), ((str(index), held) for index, held in enumerate(found_items))
    fields = _fields(type(value))
    if fields:
        return len(fields), ((name, getattr(value, name, None)) for name in fields)
    return None


def _fields(kind: Any) -> tuple[str, ...] | None:
    """Return the names of the fields of a record; None for any other class."""
    found: Any = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None)
    return None if not found else tuple(map(str, found))
