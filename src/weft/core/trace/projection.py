"""
The small functions with which a traced workflow takes values apart; they are data, so another process can read them.

    >>> Item("title")({"title": "Weft"}), Argument("depth", 1, 2)(("weft.dev", 3))
    ('Weft', 3)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from weft.errors import CannotSpread, InvalidComponent


class Item(msgspec.Struct, frozen=True):
    """Takes ``value[key]``."""

    key: Any

    def __call__(self, value: Any) -> Any:
        """Return the item."""
        return value[self.key]


class Attribute(msgspec.Struct, frozen=True):
    """Takes ``value.name``; no name that begins with ``_``, which leads from a function to all of its module."""

    name: str

    def __post_init__(self) -> None:
        if self.name.startswith("_"):  # no traced workflow asks for one, but a definition may come from anywhere
            raise InvalidComponent(f"a value is not taken apart by {self.name!r}: its name begins with _")

    def __call__(self, value: Any) -> Any:
        """Return the attribute."""
        return getattr(value, self.name)


class Argument(msgspec.Struct, frozen=True):
    """Takes one of several inputs out of what a run is given: a mapping by name, or a sequence in their order."""

    name: str
    index: int
    count: int

    def __call__(self, *given: Any) -> Any:
        """Return the input; several parents may also bring one each."""
        value: object = given[0] if len(given) == 1 else given
        inputs: Any = value
        if isinstance(value, Mapping):
            if self.name in inputs:
                return inputs[self.name]
            raise CannotSpread(f"the input has no {self.name!r}; it has {', '.join(map(str, inputs)) or 'nothing'}")
        if isinstance(value, list | tuple) and len(inputs) == self.count:
            return inputs[self.index]
        raise CannotSpread(
            f"this workflow takes {self.count} inputs: give it a mapping with {self.name!r} and the others, or a list "
            f"of {self.count}; it got {inputs!r:.60}"
        )


def itself(value: Any) -> Any:
    """Return *value*: what stands for an input that a parent brings by itself."""
    return value
