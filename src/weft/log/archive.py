"""
A run as one file: its log with everything that it refers to, and what its record said.

The file is a magic number, a version, a checksum and MessagePack.  The segments, definitions and large values in it are
those of the store, and their hash chain ends in the head that the store had, so that a file which was altered is
noticed.  The log of a redacted run is another one, with another chain; the file says so.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from weft.core.events import AnyEvent
from weft.core.workflow import Workflow
from weft.errors import CorruptLog
from weft.log.codec import Decoder
from weft.log.hash_chain import verify

_MAGIC = b"weft run"
_VERSION = 1
_HEAD = len(_MAGIC) + 1 + 16


class Archive(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a file."""

    run: str
    workflow: str
    version: str
    status: str
    reason: str = ""
    created_at: float
    updated_at: float
    head: int
    """How many events there are."""
    chain: bytes
    """The last link of their hash chain."""
    bodies: list[bytes]
    definitions: dict[bytes, bytes]
    facts: dict[bytes, bytes]
    redacted: list[str] = []
    """The values that were redacted, in words."""

    def log(self, workflow: Workflow | None = None) -> list[AnyEvent]:
        """
        Return the events, after the hash chain has been followed.

        Raises:
            CorruptLog: something was altered.
        """
        verify(self.bodies, facts=self.facts, definitions=self.definitions, head=self.chain, position=self.head)
        decoder = Decoder(workflow=workflow)
        return decoder.segments(self.bodies, definitions=self.definitions, facts=self.facts)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Archive).decode


def encode_archive(archive: Archive) -> bytes:
    """Return *archive* as the bytes of a file."""
    data = _encode(archive)
    return b"".join((_MAGIC, bytes([_VERSION]), _checksum(data), data))


def decode_archive(data: bytes) -> Archive:
    """
    Return the archive that was written as *data*.

    Raises:
        CorruptLog: *data* is not a run that was exported, was altered, or was written by a newer version.
    """
    if data[: len(_MAGIC)] != _MAGIC or len(data) < _HEAD:
        raise CorruptLog("this is not a run that was exported")
    version = data[len(_MAGIC)]
    if version != _VERSION:
        raise CorruptLog(f"an exported run of format {version}; this Weft reads up to {_VERSION}: upgrade it")
    if data[len(_MAGIC) + 1 : _HEAD] != _checksum(data[_HEAD:]):
        raise CorruptLog("the checksum is wrong: the file was cut off or altered; take another copy of it")
    try:
        return _decode(data[_HEAD:])
    except msgspec.DecodeError as error:
        raise CorruptLog(f"an exported run cannot be read: {error}") from error


def _checksum(data: bytes) -> bytes:
    return blake2b(data, digest_size=16, person=b"weft.archive").digest()
