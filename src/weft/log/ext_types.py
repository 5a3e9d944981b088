"""
The numbers of the extension types and the limits, shared by encoder and decoder.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import pathlib
from collections.abc import Generator
from hashlib import blake2b
from typing import Any, Final

DEEPEST: Final = 100
"""How many levels a value may nest."""

MICROSECOND: Final = dt.timedelta(microseconds=1)

FACTORIES: Final[dict[str, Any]] = {
    kind.__name__: kind for kind in (bool, bytes, dict, float, int, list, set, str, tuple)
}
"""The factories that a ``defaultdict`` may have."""


class Code:
    """The meaning of each extension type.  Wire format: a number may be added, but never changed."""

    TUPLE: Final = 1
    SET: Final = 2
    FROZENSET: Final = 3
    DICT: Final = 4
    INTEGER: Final = 5
    TEXT: Final = 6
    COMPLEX: Final = 7
    BYTEARRAY: Final = 8
    DATE: Final = 9
    TIME: Final = 10
    DATETIME: Final = 11
    TIMEDELTA: Final = 12
    DECIMAL: Final = 13
    UUID: Final = 14
    RANGE: Final = 15
    ELLIPSIS: Final = 16
    ORDERED_DICT: Final = 17
    COUNTER: Final = 18
    DEFAULT_DICT: Final = 19
    DEQUE: Final = 20
    RECORD: Final = 21
    FACT: Final = 22
    PATH: Final = 23
    FRACTION: Final = 24
    ADDRESS: Final = 25
    EXCEPTION: Final = 26


PATHS: Final = (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)
"""The classes of paths.  Wire format, as the next one: a path is written as its place here, and its text."""

ADDRESSES: Final = (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Interface,
)


HASHED: Final = 1 << 18
"""How many bytes are hashed at once where other tasks share the thread: a third of a millisecond."""


def content_hash(data: bytes) -> bytes:
    """Return the 16 bytes by which *data* is stored next to a log."""
    return blake2b(data, digest_size=16, person=b"weft.content.1").digest()


def hash_in_slices(data: bytes) -> Generator[None, None, bytes]:
    """Return the same as :func:`content_hash`, yielding after every :data:`HASHED` bytes but the last."""
    hasher, view = blake2b(digest_size=16, person=b"weft.content.1"), memoryview(data)
    for first in range(0, len(data), HASHED):
        if first:
            yield
        hasher.update(view[first : first + HASHED])
    return hasher.digest()
