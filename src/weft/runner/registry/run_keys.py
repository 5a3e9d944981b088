"""
The key of a run: the part of its id that it shares with all that is derived from it.

A fleet on several databases places runs by their keys, so that derived runs are where the first one is (ADR 54).
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 96
"""How many characters a key has at most, so that the id of a child has room for it."""

_ADDED = re.compile(r"(~\d+|@\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z)+\Z")
"""The ends of the ids of continued runs and of firings of schedules."""


def key_of(id: str) -> str:
    """
    Return the key of the run *id*: its id up to the first ``/``, without what Weft has added to it.

    >>> key_of("order-7"), key_of("order-7/charge/0011223344556677/payment"), key_of("order-7~3")
    ('order-7', 'order-7', 'order-7')
    >>> key_of("nightly@2026-03-29T02:30:00Z"), key_of("eve@example.org")
    ('nightly', 'eve@example.org')
    """
    key = id.partition("/")[0]
    while (shorter := _ADDED.sub("", key)[:LONGEST]) != key:
        key = shorter
    return key
