"""
Logs as bytes, and back.

    >>> import operator
    >>> from weft import Run, Workflow, step
    >>> log = Workflow("negation", step(operator.neg, name="negate")).run(5).log()
    >>> decode(encode(log)) == log
    True

There are two forms.  ``encode`` returns one self-contained piece: a magic number, a version, a checksum, the
definitions, the large values and the events.  A store keeps these separately: a :class:`Segment` has the events
of one batch as one body, and next to it the definitions and large values (*facts*) it refers to, by the
hash of their content.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, cast

import msgspec
from msgspec.msgpack import Ext
from msgspec.structs import replace

from weft.core.events import AnyEvent, InputReceived, ReactionOccurred, WorkflowDefined
from weft.core.workflow import Workflow
from weft.errors import CorruptLog, ResolutionError, UnencodableValue
from weft.log.definition import Definition, definition_of, read_definition
from weft.log.event_codec import AT_ONCE, WIRES, UnknownEvent, Wire, as_terms, pieces, reader
from weft.log.ext_types import HASHED, Code, content_hash, hash_in_slices
from weft.log.known_types import known_types
from weft.log.module_names import kind_of
from weft.log.value_decoder import Values
from weft.log.value_encoder import PLAIN, SHORT, encode_in_slices, encode_small, encode_value

INLINE: Final = 1024
"""How many bytes a value may take inside an event.  A longer one is kept separately from the log, once per run."""

LONGEST: Final = 1 << 30
"""How many bytes a log that is read in one piece may have."""

_REMEMBERED: Final = 4096
"""Number of hashes of stored facts that an encoder remembers, approximately."""

_FIRST: Final = 2
"""How many events the first segment of most runs has: the definition, and an input."""

_MOST_READ: Final = 64
"""How many definitions a decoder keeps in mind, about."""

_MAGIC: Final = b"WEFTLOG"
_VERSION: Final = 1
_HEAD: Final = len(_MAGIC) + 1 + 16
_BODY: Final = 1 + 4
_segment_head = struct.Struct(">BI")
"""The header of a segment: the version of its format, and the checksum of the rest."""

_encode = msgspec.msgpack.Encoder().encode


_NOTHING: Final[Mapping[bytes, bytes]] = {}


class Segment(msgspec.Struct, frozen=True, gc=False):  # its fields cannot refer back to it
    """Consecutive events of one run as bytes."""

    body: bytes
    count: int
    definitions: Mapping[bytes, bytes] = _NOTHING
    """The definitions that the events refer to, by the hash of their bytes."""
    facts: Mapping[bytes, bytes] = _NOTHING
    """The large values that the events refer to, by the hash of their bytes."""


class Encoded(msgspec.Struct, frozen=True):
    """A value as bytes, encoded once, before the event that holds it is written."""

    value: Any
    data: bytes
    key: bytes | None
    """The hash of the bytes, if these are too many to be inside an event."""


class Encoder:
    """
    Writes the events of one run, batch by batch.

    Facts that are known to be stored are not repeated: report them with :meth:`stored`.
    """

    __slots__ = ("_stored", "portable")

    def __init__(self, *, portable: bool = False) -> None:
        self.portable = portable
        self._stored: set[bytes] | None = None

    def segment(self, events: Sequence[AnyEvent], encoded: Mapping[int, Encoded] | None = None) -> Segment:
        """
        Return *events* as a segment, with the definitions it refers to, and the facts that are not stored yet.

        Args:
            encoded: by position of the event: its value as bytes, where that was encoded before.

        Raises:
            UnencodableValue: a value is not data; the error names the component and the path.
            UnresolvedFunction: the encoder is *portable*, and a function cannot be found elsewhere.
        """
        for event in events:
            if type(event) is not ReactionOccurred or kind_of(event.value) not in SHORT:
                first = self._first(events) if type(event) is WorkflowDefined else None
                return first or self._translated(events, encoded)
        return Segment(_body(events, events), len(events))  # nearly all events are written as they are

    def _first(self, events: Sequence[AnyEvent]) -> Segment | None:
        """Return the first segment of a run, if that is its definition and an input of a few bytes; else None."""
        if len(events) != _FIRST or self.portable:
            return None
        defined, received = events
        is_short = type(received) is InputReceived and kind_of(received.value) in SHORT
        if not is_short or not isinstance(defined, WorkflowDefined) or defined.options is not None:
            return None
        known: Definition = definition_of(cast("Workflow", defined.workflow))
        named = WorkflowDefined(1, defined.run, cast("Any", known.hash), defined.options, defined.by)
        return Segment(_body((named, received), events), _FIRST, {known.hash: known.body})

    def _translated(self, events: Sequence[AnyEvent], encoded: Mapping[int, Encoded] | None) -> Segment:
        definitions: dict[bytes, bytes] = {}
        facts: dict[bytes, bytes] = {}
        out: list[Any] = []
        for event in events:
            wire = WIRES.get(type(event))
            if wire is None:
                out.append(_raw(event))
                continue
            written: Any = event
            for name in wire.values:
                value = getattr(event, name)
                kind = kind_of(value)
                if kind not in PLAIN or (kind not in SHORT and len(value) > INLINE // 4):
                    known = encoded.get(event.seq) if encoded else None
                    if known is None or known.value is not value:
                        known = _encoded(event, value)
                    written = replace(written, **{name: self._value(known, facts)})
            if wire.workflows:
                written = self._refer(written, wire, definitions)
            if wire.terms:
                written = replace(written, **{name: as_terms(getattr(event, name)) for name in wire.terms})
            out.append(written)
        return Segment(_body(out, events), len(out), definitions, facts)

    def stored(self, segment: Segment) -> None:
        """
        Note that *segment* is stored: its large values need not be returned again.

        Definitions are returned again if an event names the same one twice: remembering them would cost a set per run.
        """
        if segment.facts:
            if self._stored is None or len(self._stored) > _REMEMBERED:  # forgetting costs a repetition, not a mistake
                self._stored = set()
            self._stored.update(segment.facts)

    def _value(self, known: Encoded, facts: dict[bytes, bytes]) -> Any:
        key = known.key
        if key is None:
            return msgspec.Raw(known.data)
        if self._stored is None or key not in self._stored:
            facts[key] = known.data
        return Ext(Code.FACT, key)

    def _refer(self, event: Any, wire: Wire, definitions: dict[bytes, bytes]) -> Any:
        for name in wire.workflows:
            definition: Definition = definition_of(getattr(event, name))
            if self.portable:
                definition.check_portable()
            definitions[definition.hash] = definition.body
            event = replace(event, **{name: definition.hash})
        return event


def lone_reaction(event: AnyEvent) -> bytes | None:
    """
    Return the body of a segment of *event* alone, if that is a reaction with a value of a few bytes; else None.

    It is what :meth:`Encoder.segment` returns, for the event that is by far the most frequent.
    """
    if type(event) is not ReactionOccurred or kind_of(event.value) not in SHORT:
        return None
    try:
        data = _encode((event,))
    except OverflowError:  # a number that MessagePack cannot hold
        return None
    return _segment_head.pack(_VERSION, zlib.crc32(data)) + data


def _encoded(event: Any, value: Any) -> Encoded:
    try:
        data = encode_value(value)
    except UnencodableValue as error:
        raise _with_owner(error, event) from None
    return Encoded(value, data, content_hash(data) if len(data) > INLINE else None)


def _raw(event: object) -> msgspec.Raw:
    if isinstance(event, UnknownEvent):
        return msgspec.Raw(event.data)
    raise UnencodableValue(type(event).__qualname__, "the log, which is not an event and")


def _body(out: Sequence[Any], events: Sequence[Any]) -> bytes:
    try:
        data = _encode(out)
    except (OverflowError, UnicodeEncodeError):
        data = _encode([_careful(written, event) for written, event in zip(out, events, strict=True)])
    return _segment_head.pack(_VERSION, zlib.crc32(data)) + data


def _careful(written: Any, event: Any) -> Any:
    """Return *written* with values that MessagePack supports only in part, such as large numbers, packed."""
    wire = WIRES.get(kind_of(written))
    if wire is None:
        return written
    plain = {name: getattr(event, name) for name in wire.values if type(getattr(written, name)) in PLAIN}
    fixed = replace(written, **{name: msgspec.Raw(encode_value(value)) for name, value in plain.items()})
    try:
        _encode(fixed)
    except (OverflowError, UnicodeEncodeError) as error:
        raise UnencodableValue(
            f"name or number of {event.seq} that MessagePack cannot hold ({error})", "event"
        ) from error
    return fixed


def _with_owner(error: UnencodableValue, event: Any) -> UnencodableValue:
    return UnencodableValue(error.kind, error.path, getattr(event, "component", "INPUT"))


def check_encodable(value: object, component: str) -> None:
    """
    Refuse a value of *component* that cannot be written, before anything uses the value.

    Raises:
        UnencodableValue: the error names the component and the path.
    """
    if kind_of(value) not in PLAIN:
        try:
            encode_value(value)
        except UnencodableValue as error:
            raise UnencodableValue(error.kind, error.path, component) from None


def needs_encoding(value: object) -> bool:
    """Return whether *value* needs more than plain MessagePack, or is so long that hashing it takes time."""
    kind: Any = kind_of(value)
    return kind not in SHORT and (kind not in PLAIN or len(value) > HASHED)  # type: ignore[arg-type]


def encode_once(value: object, component: str) -> Generator[None, None, Encoded]:
    """
    Return a value of *component* as bytes, yielding whenever other tasks should run; never for a small value.

    Raises:
        UnencodableValue: the error names the component and the path.
    """
    try:
        data = encode_small(value)
        if data is None:
            data = yield from encode_in_slices(value)
    except UnencodableValue as error:
        raise UnencodableValue(error.kind, error.path, component) from None
    return Encoded(value, data, (yield from hash_in_slices(data)) if len(data) > INLINE else None)


def encode_at_once(value: object) -> Encoded | None:
    """Return *value* as bytes, as :func:`encode_once` does, if it is a small one; None if not, or if it is not data."""
    try:
        data = encode_small(value)
    except UnencodableValue:
        return None
    return None if data is None or len(data) > INLINE else Encoded(value, data, None)


def encode_segment(events: Sequence[AnyEvent]) -> Segment:
    """Return *events* as a segment with everything it refers to."""
    return Encoder().segment(events)


def encode(log: Iterable[AnyEvent], *, portable: bool = False) -> bytes:
    """
    Return *log* as one piece of bytes.

    Args:
        portable: refuse functions that no other process could find.

    Raises:
        UnencodableValue: a value is not data; the error names the component and the path.
        UnresolvedFunction: *portable*, and a function cannot be found by another process.
    """
    segment = Encoder(portable=portable).segment(list(log))
    data = _encode([segment.body, segment.definitions, segment.facts])
    version = bytes([_VERSION])
    return b"".join((_MAGIC, version, _checksum(version, data), data))


def _checksum(version: bytes, data: Any) -> bytes:
    hasher = blake2b(version, digest_size=16, person=b"weft.log")
    hasher.update(data)
    return hasher.digest()


# -- reading -------------------------------------------------------------------------------------


_read_whole = msgspec.msgpack.Decoder(tuple[bytes, dict[bytes, bytes], dict[bytes, bytes]]).decode


def decode(
    data: bytes,
    *,
    workflow: Workflow | None = None,
    strict: bool = False,
    longest: int = LONGEST,
    mentions: Workflow | None = None,
) -> list[AnyEvent]:
    """
    Return the log that was written as *data*.

    No user function is called and nothing is imported: functions and classes are those that the application
    has imported or registered, or that *workflow* has.

    Args:
        workflow: the live definition: functions are taken from it, by component.
        strict: refuse code that has changed since the log was written.
        longest: the maximum number of bytes.
        mentions: a workflow whose functions mention classes that values may be of, besides those of the log.

    Raises:
        CorruptLog: *data* is not a log, was altered, or was written by a newer version.
        ChangedCode: *strict*, and some code has changed.
    """
    view = memoryview(data)
    if len(view) > longest:
        raise CorruptLog(f"{len(view):,} bytes are more than the maximum of {longest:,}; pass longest= to read them")
    if len(view) < _HEAD or bytes(view[: len(_MAGIC)]) != _MAGIC:
        raise CorruptLog("these bytes are not a log of Weft")
    version = bytes(view[len(_MAGIC) : len(_MAGIC) + 1])
    if version[0] != _VERSION:
        raise CorruptLog(f"a log of format {version[0]}; this Weft reads up to {_VERSION}: upgrade it")
    if bytes(view[len(_MAGIC) + 1 : _HEAD]) != _checksum(version, view[_HEAD:]):
        raise CorruptLog("the checksum is wrong: the log was cut off or altered; take another copy of it")
    body, definitions, facts = _guarded(_read_whole, view[_HEAD:])
    decoder = Decoder(workflow=workflow, strict=strict, mentions=mentions)
    return decoder.segments([body], definitions=definitions, facts=facts)


class Decoder:
    """
    Reads the events of runs; all of them share the definitions that it has read.

    Args:
        workflow: the live definition: functions are taken from it, by component.
        strict: refuse code that has changed since the log was written.
        mentions: a workflow whose functions mention classes that values may be of, besides those of the definitions.
    """

    __slots__ = ("_known", "_mentions", "_readers", "_strict", "_workflow", "unknown")

    def __init__(
        self, *, workflow: Workflow | None = None, strict: bool = False, mentions: Workflow | None = None
    ) -> None:
        self._workflow, self._strict, self._mentions = workflow, strict, mentions
        self.unknown: dict[str, None] = {}
        """The classes that are not known here, whose instances were read as records."""
        self._known: dict[bytes, tuple[Workflow, dict[str, type]]] = {}
        self._readers: dict[tuple[bytes, ...], tuple[Values, Callable[[Any], list[AnyEvent]]]] = {}

    def knowing(self, workflows: Mapping[bytes, Workflow]) -> Decoder:
        """Return another decoder of the same kind, which takes *workflows* for the definitions with these hashes."""
        other = Decoder(workflow=self._workflow, strict=self._strict, mentions=self._mentions)
        live = [] if self._workflow is None else [self._workflow]
        other._known = {key: (workflow, known_types([workflow, *live])) for key, workflow in workflows.items()}
        return other

    @property
    def is_complete(self) -> bool:
        """Whether it has found every function of the definitions that it has read; one may be offered later."""
        return not any(workflow.missing for workflow, _ in self._known.values())

    def knows(self, definitions: Collection[bytes]) -> bool:
        """Whether it has read the *definitions* with these hashes, so that their bytes are not needed again."""
        return all(content in self._known for content in definitions)

    def segments(
        self, bodies: Iterable[bytes], *, definitions: Mapping[bytes, bytes], facts: Mapping[bytes, bytes]
    ) -> list[AnyEvent]:
        """Return the events of segments, in order; see :meth:`batches`."""
        events: list[AnyEvent] = []
        for some in self.batches(bodies, definitions=definitions, facts=facts):
            events += some
        return events

    def batches(
        self,
        bodies: Iterable[bytes],
        *,
        definitions: Mapping[bytes, bytes],
        facts: Mapping[bytes, bytes],
        unknown: dict[str, None] | None = None,
    ) -> Iterator[list[AnyEvent]]:
        """
        Yield the events of segments, in order, at most a few hundred at a time; each list is decoded when it is needed.

        Several logs may be read in turns.

        Args:
            definitions: all definitions that the events refer to, by hash; of those that it knows the bytes are not
                looked at.
            facts: all facts that the events refer to, by hash; looked up one by one, so the mapping may load them.
            unknown: where classes that are not known here are noted; in :attr:`unknown` if it is not given.

        Raises:
            CorruptLog: something is missing or was altered.
            ChangedCode: the decoder is *strict*, and some code has changed.
        """
        values, read = self._readers.get(tuple(definitions)) or self._reader(definitions)
        noted = self.unknown if unknown is None else unknown
        events: list[AnyEvent] = []
        yielded = 0
        for body in bodies:
            begins = yielded + len(events) + 1
            for piece in _guarded(pieces, opened(body, begins), begins):
                values.turn_to(facts, noted)
                events += _guarded(read, piece, yielded + len(events) + 1)
                if len(events) >= AT_ONCE:
                    yield events
                    yielded += len(events)
                    events = []
        yield events

    def _reader(self, definitions: Mapping[bytes, bytes]) -> tuple[Values, Callable[[Any], list[AnyEvent]]]:
        """Return what reads the values and the events of logs that refer to these *definitions*."""
        if len(self._known) > _MOST_READ or len(self._readers) > _MOST_READ:
            self._known = {key: self._known[key] for key in definitions if key in self._known}
            self._readers.clear()
        workflows: dict[bytes, Workflow] = {}
        types = {} if self._mentions is None else known_types([self._mentions])
        for key, body in definitions.items():
            workflows[key], mentioned = self._known.get(key) or self._define(key, body)
            types |= mentioned
        values = Values(types)
        made = self._readers[tuple(definitions)] = values, reader(values.restore, workflows)
        return made

    def _define(self, key: bytes, body: bytes) -> tuple[Workflow, dict[str, type]]:
        if content_hash(body) != key:
            raise CorruptLog(f"the definition {key.hex()} was altered")
        workflow = read_definition(body, workflow=self._workflow, strict=self._strict)
        given = [workflow] if self._workflow is None else [workflow, self._workflow]
        self._known[key] = workflow, known_types(given)
        return self._known[key]


def decode_segments(
    bodies: Iterable[bytes],
    *,
    definitions: Mapping[bytes, bytes],
    facts: Mapping[bytes, bytes],
    workflow: Workflow | None = None,
    strict: bool = False,
) -> list[AnyEvent]:
    """Return the events of segments, in order; see :meth:`Decoder.segments`."""
    decoder = Decoder(workflow=workflow, strict=strict)
    return decoder.segments(bodies, definitions=definitions, facts=facts)


def opened(body: bytes, position: int | None = None) -> memoryview:
    """Return the events inside the *body* of a segment, which begins at *position*, as MessagePack."""
    if len(body) < _BODY:
        raise CorruptLog("a segment is cut off", position)
    version, checksum = _segment_head.unpack_from(body)
    if version != _VERSION:
        raise CorruptLog(f"a segment of format {version}; this Weft reads up to {_VERSION}: upgrade it", position)
    data = memoryview(body)[_BODY:]
    if zlib.crc32(data) != checksum:
        raise CorruptLog("the checksum of a segment is wrong: it was altered", position)
    return data


def _guarded(read: Callable[[Any], Any], data: Any, position: int | None = None) -> Any:
    """Return ``read(data)``; an exception there means that the data is corrupt."""
    try:
        return read(data)
    except ResolutionError:
        raise
    except CorruptLog as error:
        raise error if position is None or error.position else CorruptLog(str(error), position) from None
    except KeyError as error:
        raise CorruptLog(f"something it refers to is missing: {error}", position) from error
    except Exception as error:
        raise CorruptLog(f"it cannot be read: {type(error).__name__}: {error}", position) from error
