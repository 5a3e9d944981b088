"""The stored bytes of every event, altered: they are read or refused in our own words, and construct nothing else."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from pinned import pinned

from weft.core.events import Event
from weft.errors import WeftError
from weft.log import UnknownEvent, decode_segments

HOSTILE = {
    "an array of four thousand million": b"\xdd\xff\xff\xff\xff",
    "a map of four thousand million": b"\xdf\xff\xff\xff\xff",
    "text of four gigabytes": b"\xdb\xff\xff\xff\xffx",
    "an extension of four gigabytes": b"\xc9\xff\xff\xff\xff\x05x",
    "a hundred thousand arrays in each other": b"\x91" * 100_000 + b"\x01",
    "a hundred thousand maps in each other": b"\x81\xa1e" * 100_000 + b"\x01",
    "a byte that has no meaning": b"\xc1",
    **{f"the extension {code}": b"\x91\xd4" + bytes([code]) + b"\xc0" for code in (*range(20), 127, 128, 255)},
    "every extension in a row": b"\xdc\x01\x00" + b"".join(b"\xd4" + bytes([code]) + b"\xc0" for code in range(256)),
    "an unknown event": msgspec.msgpack.encode([{"e": "no_such_event", "seq": 1}]),
    "an event without a tag": msgspec.msgpack.encode([{"seq": 1}]),
    "a tag that is not text": msgspec.msgpack.encode([{"e": 5, "seq": 1}]),
}


def sealed(rest: bytes) -> bytes:
    """Return a segment with *rest* and a checksum that is right: who can write to a store can also write that."""
    return struct.pack(">BI", 1, zlib.crc32(rest)) + rest


def altered(rest: bytes, draw: random.Random) -> Iterator[bytes]:
    """Yield copies of *rest*, each with something wrong."""
    for _ in range(8):
        yield rest[: draw.randrange(len(rest))]
        flipped = bytearray(rest)
        flipped[draw.randrange(len(rest))] ^= 1 << draw.randrange(8)
        yield bytes(flipped)
        at = draw.randrange(len(rest))
        yield rest[:at] + draw.choice([each for each in HOSTILE.values() if len(each) < 10]) + rest[at:]
        yield rest[:at] + bytes([draw.randrange(256), draw.randrange(256)]) + rest[at + 2 :]


def read(body: bytes, stored: dict[str, Any]) -> list[Any]:
    definitions, facts = (
        {bytes.fromhex(k): bytes.fromhex(v) for k, v in stored.get(name, {}).items()}
        for name in ("definitions", "facts")
    )
    return decode_segments([body], definitions=definitions, facts=facts)


@pytest.mark.parametrize("name", pinned("events"))
def test_an_altered_event_is_read_or_refused_in_our_own_words(name: str) -> None:
    stored = pinned("events")[name]
    body, draw = bytes.fromhex(stored["body"]), random.Random(name)  # noqa: S311 - the same every time
    assert read(sealed(body[5:]), stored)
    escaped: list[tuple[str, str]] = []
    for rest in altered(body[5:], draw):
        try:
            events = read(sealed(rest), stored)
        except WeftError:
            continue
        except Exception as error:  # noqa: BLE001 - this is what must not be
            escaped.append((rest.hex(), repr(error)))
        else:
            assert all(isinstance(event, Event | UnknownEvent) for event in events)

    assert escaped == []


@pytest.mark.parametrize("name", HOSTILE)
def test_lengths_depths_and_tags_that_no_log_has_are_refused_or_kept_as_they_are(name: str) -> None:
    try:
        events = read(sealed(HOSTILE[name]), {})
    except WeftError:
        return

    assert all(isinstance(event, UnknownEvent) for event in events)
