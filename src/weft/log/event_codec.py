"""
Events as MessagePack maps, and back.

The class of an event determines its form on the wire: a map of its tag (``e``) and its fields by name,
without those at their default.  Three kinds of fields are special, and are found by their annotations:
``Any`` holds a user's value, ``CompiledWorkflow`` is written as the hash of its definition, and an annotation that
only a type checker can resolve is treated as ``Any``.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from weft.core.events import Event, PolicyChanged, RunnableRetried
from weft.core.plan.compiled_workflow import CompiledWorkflow
from weft.core.workflow import Workflow
from weft.errors import CorruptLog
from weft.log.definition_json import Reader, Writer
from weft.log.functions import Memo
from weft.log.part_types import is_of
from weft.policy.matching import PolicyRule
from weft.policy.policy import Policy


class UnknownEvent(msgspec.Struct, frozen=True):
    """
    An event that a newer Weft wrote: it is kept as it is, and written to the same bytes again.

    A run cannot be folded over it, since this version does not know its effect: ``Run.from_log`` refuses it.
    """

    seq: int
    tag: str
    data: bytes


class Wire(msgspec.Struct, frozen=True):
    """How one class of events is written and read."""

    values: tuple[str, ...]
    """The fields that hold a user's value."""
    workflows: tuple[str, ...]
    """The fields that hold a workflow."""
    terms: tuple[str, ...]
    """The fields that hold policies."""
    mirror: Any
    """The class that the bytes are read as."""
    mirrored: bool
    """Whether that is another one than the class of the event."""


_TERMS: dict[type[Event], tuple[str, ...]] = {PolicyChanged: ("rules",), RunnableRetried: ("policy",)}
"""The fields that hold policies, which are written like those of a definition."""


_POLICIES: Any = Policy | tuple[PolicyRule, ...]


def as_terms(policies: Any) -> Any:
    """Return a policy, or rules, as plain data; functions are references."""
    if policies is None:
        return None
    writer = Writer()
    writer.owner = "a policy"
    given = [list(rule) for rule in policies] if policies.__class__ is tuple else policies
    return writer.write(given)


def from_terms(data: Any) -> Any:
    """
    Return the policy, or the rules, that was written as *data*.

    Raises:
        CorruptLog: it is something else.
    """
    if data is None:
        return None
    reader = Reader({}, Memo(), comparable=True)
    reader.owner = "a policy"
    found: Any = reader.read(data)
    policies = tuple(tuple(rule) for rule in found) if found.__class__ is list else found
    if not is_of(policies, _POLICIES):
        raise CorruptLog(f"{policies!r:.60} is neither a policy nor a tuple of rules")
    return policies


def _wire(kind: type[Event]) -> Wire:
    names: dict[str, Any] = {"CompiledWorkflow": CompiledWorkflow}
    hints: dict[str, Any] = {}
    while not hints:
        try:
            hints = typing.get_type_hints(kind, localns=names)
        except NameError as error:  # imported for type checkers alone
            names[str(error.name)] = Any
    fields = kind.__struct_fields__
    workflows = tuple(name for name in fields if hints[name] is CompiledWorkflow)
    terms = _TERMS.get(kind, ())
    values = tuple(name for name in fields if hints[name] is Any and name not in terms)
    if not workflows and not terms and len(names) == 1:
        return Wire(values, workflows, terms, kind, mirrored=False)
    required = len(fields) - len(kind.__struct_defaults__)
    shape: list[Any] = []
    for place, name in enumerate(fields):
        hint = bytes if name in workflows else Any if name in terms else hints[name]
        shape.append((name, hint) if place < required else (name, hint, kind.__struct_defaults__[place - required]))
    config = kind.__struct_config__
    mirror = msgspec.defstruct(kind.__name__, shape, tag_field=config.tag_field, tag=config.tag, frozen=True)
    return Wire(values, workflows, terms, mirror, mirrored=True)


def _tagged(base: type[Event]) -> list[type[Event]]:
    """Return *base* and its subclasses that have their own tag."""
    own = [base] if base.__struct_config__.tag != base.__name__ else []
    return own + [kind for below in base.__subclasses__() for kind in _tagged(below)]


WIRES: dict[type[Any], Wire] = {kind: _wire(kind) for kind in _tagged(Event)}

DEFINED: dict[str, tuple[str, ...]] = {
    str(kind.__struct_config__.tag): wire.workflows for kind, wire in WIRES.items() if wire.workflows
}
"""The fields that refer to a definition, by the tag of their event."""

_BY_MIRROR = {wire.mirror: (kind, wire) for kind, wire in WIRES.items() if wire.mirrored}
_UNION: Any = typing.Union[tuple(wire.mirror for wire in WIRES.values())]  # noqa: UP007


class _Head(msgspec.Struct, frozen=True):
    """The fields that every event has."""

    e: str
    seq: int


_read_head = msgspec.msgpack.Decoder(_Head).decode
_read_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_TAGS = {str(kind.__struct_config__.tag) for kind in WIRES}

Restore = Callable[[int, memoryview], Any]

AT_ONCE: Final = 512
"""How many events are read at once, so that other tasks do not wait for a long log to be read."""


def pieces(data: Any) -> Iterable[Any]:
    """Return *data*, a list of events, as lists of at most :data:`AT_ONCE` events; a short one as it is."""
    events = _read_raw(data) if len(data) > AT_ONCE else ()  # an event takes more than a byte
    if len(events) <= AT_ONCE:
        return (data,)
    starts = range(0, len(events), AT_ONCE)
    return (_array(events[first : first + AT_ONCE]) for first in starts)


def _array(items: Sequence[Any]) -> bytes:
    """Return *items*, which are MessagePack, as an array; there are less than 65,536."""
    return b"".join((b"\xdc", len(items).to_bytes(2, "big"), *items))


def reader(restore: Restore, workflows: Mapping[bytes, Workflow]) -> Callable[[Any], list[Any]]:
    """Return a function that reads a list of events: *restore* makes user values, *workflows* are known by hash."""
    read_all = msgspec.msgpack.Decoder(list[_UNION], ext_hook=restore).decode

    def read(data: Any) -> list[Any]:
        try:
            events: list[Any] = read_all(data)
        except msgspec.ValidationError:  # one of them is of a kind that is not known, or wrong
            read_one = msgspec.msgpack.Decoder(_UNION, ext_hook=restore).decode
            events = [_unknown(raw) or read_one(raw) for raw in _read_raw(data)]
        for place, event in enumerate(events):
            known = _BY_MIRROR.get(type(event))
            if known is not None:
                events[place] = _real(*known, event, workflows)
        return events

    return read


def _unknown(raw: Any) -> UnknownEvent | None:
    """Return an event of a kind that is not known."""
    head = _read_head(raw)
    return None if head.e in _TAGS else UnknownEvent(head.seq, head.e, bytes(raw))


def _real(kind: type, wire: Wire, mirror: Any, workflows: Mapping[bytes, Workflow]) -> Any:
    fields = {name: getattr(mirror, name) for name in mirror.__struct_fields__}
    for name in wire.workflows:
        fields[name] = workflows[fields[name]]
    for name in wire.terms:
        fields[name] = from_terms(fields[name])
    return kind(**fields)
