"""
The hash chain over the segments of a run, which finds events that were altered, dropped, reordered or cut off.

A link is the hash of the link before it and the body of a segment (BLAKE2b, 256 bits); the last one, the
*head*, is stored separately from the log.  Large values and definitions are in a body by their hash, so the chain
covers them too.

    >>> import operator
    >>> from weft import Workflow, step
    >>> from weft.log import chain, encode_segment, verify
    >>> segment = encode_segment(Workflow("w", step(operator.neg, name="negate")).run(5).log())
    >>> head = chain(b"", segment.body)
    >>> verify([segment.body], facts=segment.facts, definitions=segment.definitions, head=head)
    3
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from weft.errors import CorruptLog
from weft.log.codec import opened
from weft.log.event_codec import DEFINED, pieces
from weft.log.ext_types import Code, content_hash

GENESIS = b""
"""The link before the first segment."""


def chain(previous: bytes, body: bytes) -> bytes:
    """Return the link of *body* after the link *previous*."""
    if len(previous) == _LENGTH:
        hasher = _NEXT.copy()  # half the cost of creating one
        hasher.update(previous)
    else:
        hasher = _EMPTY.copy()
        hasher.update(b"%c%b" % (len(previous), previous))
    hasher.update(body)
    return hasher.digest()


_LENGTH = 32
_EMPTY = blake2b(digest_size=_LENGTH, person=b"weft.chain.1")
"""A hasher that has seen nothing."""
_NEXT = _EMPTY.copy()
"""One that has seen the length of a link."""
_NEXT.update(bytes([_LENGTH]))


def verify(
    bodies: Iterable[bytes],
    *,
    facts: Mapping[bytes, bytes],
    definitions: Mapping[bytes, bytes],
    head: bytes,
    position: int | None = None,
    known: bytes = GENESIS,
    first: int = 1,
    link: bytes = GENESIS,
) -> int:
    """
    Return how many events the segments hold, if they are as they were written.

    Args:
        head: the last link of the chain.
        position: where the log ends, if known: it distinguishes a log that was cut off from one that was rewritten.
        known: a link that was stored separately, which must be one of the chain.
        first: the number of the first event, of a log that was truncated.
        link: the link before that.

    Raises:
        CorruptLog: they are not; ``position`` of the error is the first wrong event.
    """
    following = first
    is_known = known in (GENESIS, link)
    for body in bodies:
        for seqs, referred in _outlines(body, following):
            for seq in seqs:
                if seq != following:
                    what = "is missing" if seq > following else "stands where another one stood"
                    raise CorruptLog(f"expected this event and found event {seq}: one {what}", following)
                following += 1
            for seq, kind, key in referred:
                _check(kind, key, (definitions if kind == "definition" else facts).get(key), seq)
        link = chain(link, body)
        is_known = is_known or link == known
    last = following - 1
    if position is not None and position > last:
        raise CorruptLog(f"the log was cut off: it ends at {last} and should end at {position}", following)
    if position is not None and position < last:
        raise CorruptLog(f"the log continues to {last} and should end at {position}", position + 1)
    if link != head:
        raise CorruptLog(
            f"the chain of {last} events does not end in its head: one was rewritten, or more were cut off"
        )
    if not is_known:
        raise CorruptLog(f"the log was cut off: it ends at {last}, and it was longer before", following)
    return last - first + 1


class References(msgspec.Struct, frozen=True):
    """The definitions and facts that segments refer to, by the hash of their bytes."""

    definitions: frozenset[bytes]
    facts: frozenset[bytes]


def references(bodies: Iterable[bytes]) -> References:
    """
    Return the definitions and facts that the segments refer to.

    Raises:
        CorruptLog: one of them is not a segment.
    """
    definitions: set[bytes] = set()
    facts: set[bytes] = set()
    for _, found in survey(bodies):
        definitions |= found.definitions
        facts |= found.facts
    return References(frozenset(definitions), frozenset(facts))


def may_refer(body: bytes) -> bool:
    """Whether a segment may refer to something; for most segments, which do not, this takes a microsecond."""
    return _REFERENCE(body) is not None


def survey(bodies: Iterable[bytes], first: int = 1) -> Iterator[tuple[int, References]]:
    """
    Yield the number and the references of the events in the segments, at most a few hundred events at a time.

    Args:
        first: the number of the first event.

    Raises:
        CorruptLog: one of them is not a segment.
    """
    following = first
    for body in bodies:
        for seqs, referred in _outlines(body, following):
            following += len(seqs)
            definitions = frozenset(key for _, kind, key in referred if kind == "definition")
            yield len(seqs), References(definitions, frozenset(key for _, kind, key in referred if kind == "fact"))


def _check(kind: str, key: bytes, body: bytes | None, seq: int) -> None:
    if body is None:
        raise CorruptLog(f"the {kind} {key.hex()} that it refers to is missing", seq)
    if content_hash(body) != key:
        raise CorruptLog(f"the {kind} {key.hex()} that it refers to was altered", seq)


_Outline = tuple[list[int], list[tuple[int, str, bytes]]]
"""The positions of events, and their references: position, kind and hash."""


def _outlines(body: bytes, position: int) -> Iterator[_Outline]:
    """Yield the positions of the events in *body*, which begins at *position*, and their references."""
    data = opened(body, position)
    has_facts = _FACT in body
    try:
        for piece in pieces(data):
            yield _outline(piece, has_facts=has_facts)
    except Exception as error:
        raise CorruptLog(f"it cannot be read: {error}", position) from error


def _outline(data: Any, *, has_facts: bool) -> _Outline:
    seqs: list[int] = []
    referred: list[tuple[int, str, bytes]] = []
    for event in _read(data):
        seqs.append(event["seq"])
        here = seqs[-1]
        if has_facts:
            referred += [(here, "fact", value.key) for value in event.values() if isinstance(value, _Fact)]
        referred += [(here, "definition", event[name]) for name in DEFINED.get(event["e"], ())]
    return seqs, referred


class _Fact(msgspec.Struct, frozen=True):
    key: bytes


def _restore(code: int, data: memoryview) -> Any:
    return _Fact(bytes(data)) if code == Code.FACT else None


_FACT = bytes([0xD8, Code.FACT])
"""The first bytes of the hash of a large value: an extension type of 16 bytes, and which one."""
_REFERENCE = re.compile(b"|".join([re.escape(_FACT), *(re.escape(tag.encode()) for tag in DEFINED)])).search

_read = msgspec.msgpack.Decoder(list[dict[str, Any]], ext_hook=_restore).decode
