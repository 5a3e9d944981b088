"""
A value as a tree that can be folded: what a page shows of it, with types and sizes.

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
"""How deep they nest before they are shown as text."""


class ValueTree(msgspec.Struct, frozen=True):
    """One value, or a part of one."""

    label: str
    """The key, the index or the name of the field; empty for the value itself."""
    text: str
    type: str
    children: tuple[ValueTree, ...] = ()
    more: int = 0
    """How many parts are not among the children."""


def value_tree(value: Any, label: str = "", *, start: int = 0, depth: int = 0) -> ValueTree:
    """
    Return the tree of *value*.

    Args:
        start: the first of its parts that is shown.
    """
    kind = value.type if isinstance(value, Record) else type(value).__name__
    parts = _parts(value) if depth < DEEP else None
    if parts is None:
        return ValueTree(label, shown(value, longest=400), kind)
    size, pairs = parts
    children = tuple(
        value_tree(part, plain(name), depth=depth + 1) for name, part in islice(pairs, start, start + WIDE)
    )
    return ValueTree(label, f"{kind} of {size:,}", kind, children, max(0, size - start - len(children)))


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
