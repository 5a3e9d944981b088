"""
Equality of events, even if ``==`` of the values in them does not return a bool.

Values belong to the user: ``==`` of two arrays returns an array, and of some objects it raises an exception.  An object
equals itself; otherwise ``==`` is called; if it does not return a bool, the content hashes are compared
(``weft.core.functions.identity``); values without canonical content count as different.

    >>> class Loose(list):
    ...     def __eq__(self, other):
    ...         return [one == another for one, another in zip(self, other)]
    >>> same_values(Loose([1, 2]), Loose([1, 2])), same_values(Loose([1, 2]), Loose([1, 3]))
    (True, False)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.events import AnyEvent
from weft.core.functions.identity import canonical
from weft.errors import UnidentifiableValue


def same_logs(one: Sequence[AnyEvent], other: Sequence[AnyEvent]) -> bool:
    """Return whether two logs have the same events."""
    return len(one) == len(other) and all(map(same_events, one, other))


def same_events(one: AnyEvent, other: AnyEvent) -> bool:
    """Return whether two events are equal."""
    if one is other:
        return True
    return type(one) is type(other) and all(
        same_values(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__
    )


def same_values(one: Any, other: Any) -> bool:
    """Return whether two values are the same; those that cannot be compared are not."""
    return compare(one, other) is True


def compare(one: Any, other: Any) -> bool | None:
    """Return whether two values are the same; None if they cannot be compared."""
    if one is other:
        return True
    try:
        answer: Any = one == other
        # A list of answers is not an answer, and two exceptions are never equal.
        if not hasattr(answer, "__len__") and not isinstance(one, BaseException):
            return bool(answer)
    except Exception:  # noqa: BLE001, S110 - what a value raises here says only that it cannot tell
        pass
    try:
        return canonical(one) == canonical(other)
    except UnidentifiableValue:
        return None
