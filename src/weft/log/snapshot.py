"""
Snapshots: the memory of a run at one position of its log, as bytes, and back.

A snapshot holds what the future of the run needs, and not its history (ADR 31).  It is a cache of the fold: a run that
is restored from one, and folds the rest of its log, equals the fold of the whole log.

    >>> import operator
    >>> from weft import Workflow, accumulator
    >>> run = Workflow("sum", accumulator(operator.add, init=0, name="total")).run(5).run(7)
    >>> written = SnapshotWriter().write(run.memory, link=b"")
    >>> snapshot = Snapshot.opened(written.body)
    >>> definitions, load = dict(definitions_of(run.memory)), lambda first, last: run.log()[first - 1 : last]
    >>> memory = snapshot.restore(Decoder(workflow=run.workflow), definitions, {}, load)
    >>> len(memory.log), memory.produced["total"][-1].value
    (5, 12)

The structure is described by the tables of :mod:`weft.log.snapshot_tables`.  Beside it there are four bodies of
events, each written like a segment of a log: *records*, which are always read; *facts*, whose values the future needs;
facts without an event; and the *edited* events of a fork, which count in place of those of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Self, cast

import msgspec

from weft.core import events as ev
from weft.core.fold.fold import fold
from weft.core.fold.memory import Memory
from weft.core.fold.memory_data import MemoryData
from weft.core.fold.ordering import maker_of
from weft.core.fold.refold import positions, ranges
from weft.core.fold.scope import Scope
from weft.core.functions.references import AllValues
from weft.core.lineage.history import FACTS, ColdList, Edited, History, Load, PagedLog, last_takeover
from weft.core.lineage.lineage import NONE, Cell, Element, FactRef
from weft.core.plan.node import FunctionNode
from weft.core.plan.plan import Plan
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import CorruptLog, HistoryNotLoaded
from weft.log.codec import Decoder, Encoder
from weft.log.definition import definition_of
from weft.log.hash_chain import References, references
from weft.log.kept_causes import KeptCauses
from weft.log.kept_orders import KeptOrders
from weft.log.snapshot_fields import ADDRESS, NUMBER, TEXT, Field, items, listing, mapping, record, together, wrong
from weft.log.snapshot_tables import A_SCOPE, MEMORY
from weft.typing import Address

_MAGIC: Final = b"WEFTSNAP"
_VERSION: Final = 1
_HEAD: Final = len(_MAGIC) + 1 + 16

_encode = msgspec.msgpack.Encoder().encode
_DEFINITIONS: Final = (ev.WorkflowDefined, ev.ComponentAdded, ev.ComponentRemoved, ev.RunUpgraded, ev.CodeChanged)
_KNOWN: Final = (*_DEFINITIONS, ev.RunTakenOver)
"""The records that stay known as events of the log."""


class Written(NamedTuple):
    """A snapshot as bytes."""

    body: bytes
    facts: Mapping[bytes, bytes]
    """Large values that it refers to and the log does not: of facts without an event, and of edited ones."""
    definitions: Mapping[bytes, bytes]
    """The definitions that it refers to.  The log may have others: a run calls code that has changed since."""


class SnapshotWriter:
    """Writes the snapshots of one run, one after the other."""

    __slots__ = ("_causes", "_definitions", "_latest", "_leaves", "_orders", "_scanned", "ordinals")

    def __init__(self) -> None:
        self._definitions: list[Any] = []
        """The events with a definition, as far as the log was looked through."""
        self._leaves: frozenset[str] = frozenset()
        self._latest: dict[str, int] = {}
        """By leaf of the workflow: the event with its latest fact."""
        self._orders = KeptOrders()
        self._causes = KeptCauses()
        self._scanned = 0
        self.ordinals: dict[int, int] = {}
        """By event with the latest fact of a leaf: the ordinal of its input, where that is known."""

    @property
    def definitions(self) -> Sequence[Any]:
        """The events with a definition, in order."""
        return self._definitions

    @property
    def latest(self) -> Mapping[str, int]:
        """By leaf of the workflow: the event with its latest fact."""
        return self._latest

    def write(self, memory: Memory, link: bytes) -> Written:
        """
        Return the snapshot of *memory*; *link* is the last link of the hash chain of its log.

        Raises:
            HistoryNotLoaded: something that belongs into it is not in memory.
        """
        self._scan(memory)
        writer = self._writer(memory)
        structure = writer.structure()
        encoder = Encoder()
        records, facts = encoder.segment(writer.records), encoder.segment(writer.facts)
        absent, edited = encoder.segment(writer.absent), encoder.segment(writer.edited)
        bodies = [records.body, facts.body, absent.body, edited.body]
        data = _encode([len(memory.log), link, _encode(structure), *bodies])
        version, large = bytes([_VERSION]), {**absent.facts, **edited.facts}
        return Written(b"".join((_MAGIC, version, _checksum(version, data), data)), large, records.definitions)

    def workflows(self) -> dict[bytes, Workflow]:
        """Return the workflows of the run that was written, by the hashes of their definitions."""
        found = (cast("Workflow", event.workflow) for event in self._definitions)
        return {definition_of(workflow).hash: workflow for workflow in found}

    def scan(self, memory: Memory) -> None:
        """Look through the part of the log that is new, for definitions and facts of leaves."""
        self._scan(memory)

    def needed(self, memory: Memory) -> list[int]:
        """Return the numbers of the events of *memory* whose facts the future needs."""
        writer = self.collected(memory)
        return [*(event.seq for event in writer.facts), *writer.needed_edits]

    def collected(self, memory: Memory) -> Writer:
        """Return what the future of *memory* refers to, without writing it."""
        self._scan(memory)
        writer = self._writer(memory)
        writer.structure()
        return writer

    def _writer(self, memory: Memory) -> Writer:
        orders, causes = self._orders.needed(memory), self._causes.needed(memory)
        return Writer(memory, self._definitions, self._latest, orders, causes)

    def _scan(self, memory: Memory) -> None:
        """Look for definitions, and for facts of leaves, in the part of the log that is new."""
        log: Any = memory.log
        if self._scanned == 0 and isinstance(log, PagedLog):
            for seq in sorted(log.known):
                if isinstance(log.known[seq], _DEFINITIONS):
                    self._define(log.known[seq])
            self._latest, self._scanned, self.ordinals = dict(log.latest), log.cold, dict(log.ordinals)
        lineage = memory.lineage
        added: Sequence[Any] = lineage.log[self._scanned :]
        if self._scanned and any(isinstance(event, ev.REVISIONS) for event in added):
            # What a leaf has made last may be void now: then the whole log says what it is instead.
            self._definitions, self._leaves, self._latest, added = [], frozenset(), {}, lineage.log
        self._causes.add(memory, added)
        for event in added:
            if isinstance(event, FACTS):
                name = getattr(event, "component", "")
                if name in self._leaves and event.seq not in lineage.void:
                    self._latest[name] = event.seq
            elif isinstance(event, _DEFINITIONS):
                self._define(event)
        self._scanned = len(log)
        known, self.ordinals = self.ordinals, {}
        for seq in self._latest.values():
            ordinal = known.get(seq) or lineage.known_ordinal(seq)
            if ordinal is not None:
                self.ordinals[seq] = ordinal

    def _define(self, event: Any) -> None:
        self._definitions.append(event)
        self._leaves = frozenset(event.workflow.leaves)
        self._latest = {name: seq for name, seq in self._latest.items() if name in self._leaves}


class Classified(NamedTuple):
    """The facts of a run that are in memory, by the numbers of their events."""

    hot: tuple[int, ...]
    """Facts that the future needs: of pending work, joins, batches and states, and the latest ones of leaves."""
    cold: tuple[int, ...]
    """The others: they are read only if the history is asked for."""


def classify(run: Run) -> Classified:
    """
    Return which facts of *run* the future needs, and which not.

    >>> import operator
    >>> from weft import Workflow, accumulator
    >>> classify(Workflow("sum", accumulator(operator.add, init=0, name="total")).run(5).run(7))
    Classified(hot=(5,), cold=(2, 3, 4))
    """
    memory = run.memory
    log: Any = memory.log
    writer = SnapshotWriter()
    hot = set(writer.needed(memory))
    resident = [*log.known.values(), *log.tail] if isinstance(log, PagedLog) else log
    resident = [*(event for event in resident if event.seq not in memory.lineage.void), *memory.lineage.edits.values()]
    facts = sorted({event.seq for event in resident if isinstance(event, FACTS)})
    return Classified(tuple(seq for seq in facts if seq in hot), tuple(seq for seq in facts if seq not in hot))


def definitions_of(memory: Memory) -> Iterator[tuple[bytes, bytes]]:
    """Yield the definitions that *memory* has had, by hash, as a store has them."""
    for event in memory.log:
        if isinstance(event, _DEFINITIONS):
            definition = definition_of(cast("Workflow", event.workflow))
            yield definition.hash, definition.body


class Writer:
    """Collects what the fields of one snapshot refer to: facts, events, scopes and definitions."""

    def __init__(
        self,
        memory: Memory,
        definitions: Sequence[Any],
        latest: Mapping[str, int],
        orders: Mapping[str, range],
        causes: Mapping[int, tuple[Address, int]],
    ) -> None:
        self._orders, self._causes = orders, causes
        self._memory, self._lineage, self._latest = memory, memory.lineage, latest
        self.records: list[Any] = [definitions[0]]
        self._record_at: dict[int, int] = {id(definitions[0]): 0}
        self._by_plan: dict[int, Any] = {}
        first: dict[bytes, Any] = {}
        for event in definitions:  # of equal ones the first counts: a decoder makes one workflow of them
            known = first.setdefault(definition_of(event.workflow).hash, event)
            self._by_plan[id(event.workflow.compiled)] = known
        self._needed: dict[int, Any] = {}
        self._edits = memory.lineage.edits
        self.needed_edits: set[int] = set()
        """The numbers of edited events whose facts the future needs."""
        self._absent: dict[int, Element] = {}
        self._scopes: list[Any] = []
        self._scope_at: dict[int, int] = {}
        self._open: list[Scope] = []
        self._cells: list[Any] = []
        self._cell_at: dict[Address, int] = {}
        self._origins: dict[Address, tuple[bytes, int]] = {}
        if (taken := last_takeover(memory.log)) is not None:
            self.record(taken)

    def structure(self) -> dict[str, Any]:
        """Return the structure of the memory, and collect the events that it refers to."""
        memory = A_MEMORY.write(self, self._memory, None)
        self._lineage.know_origins(self._origins)
        self._lineage.causes = self._causes or None
        for seq in self._latest.values():
            self._need(seq)
        return {
            "memory": memory,
            "latest": _LATEST.write(None, self._latest, None),
            "scopes": self._scopes,
            "cells": self._cells,
            "origins": _ORIGINS.write(None, self._origins, None),
            "absent": len(self._lineage.absent or ()),
            "void": _VOID.write(None, ranges(self._lineage.void), None),
            **({"causes": _CAUSES.write(None, self._causes, None)} if self._causes else {}),
        }

    @property
    def facts(self) -> list[Any]:
        """The events of facts that the future needs, in order."""
        return [self._needed[seq] for seq in sorted(self._needed)]

    @property
    def absent(self) -> list[Any]:
        """The facts without an event, each as an event whose number is its place."""
        return [
            ev.ReactionOccurred(place, fact.producer, (fact.origin,), fact.value)
            for place, fact in sorted(self._absent.items())
        ]

    @property
    def edited(self) -> list[Any]:
        """The events of a fork that count in place of those of the log."""
        return [self._edits[seq] for seq in sorted(self._edits)]

    def cell(self, cell: Cell, *, is_hot: bool) -> int:
        """Return the number of a fact; if *is_hot*, its event is written too."""
        at = cell.address
        if is_hot:
            self._need(at)
        number = self._cell_at.get(at)
        if number is None:
            number = self._cell_at[at] = len(self._cells)
            self._cells.append([ADDRESS.write(None, at, None), maker_of(cell)])
        return number

    def _need(self, at: Address) -> None:
        """Write the events that the fact at *at* is made of."""
        pending = [at]
        while pending:
            at = pending.pop()
            seq = at if isinstance(at, int) else at[0]
            if seq < 0:
                self._absent[-seq - 1] = (self._lineage.absent or [])[-seq - 1]
                continue
            if seq in self._edits:
                self.needed_edits.add(seq)
            if seq in self._needed or seq in self._edits:
                continue
            event = self._needed[seq] = self._lineage.log[seq - 1]
            if isinstance(event, ev.RunnableFailed | ev.RunnableRetried):  # a failure has the values that it failed on
                pending.extend(event.inputs)

    def event(self, event: Any) -> int:
        """Return the number of an event of the log, which is written."""
        if event.seq in self._edits:
            self.needed_edits.add(event.seq)
        else:
            self._needed[event.seq] = event
        return cast("int", event.seq)

    def record(self, event: Any) -> int:
        """Return the place of an event among the records."""
        place = self._record_at.get(id(event))
        if place is None:
            place = self._record_at[id(event)] = len(self.records)
            self.records.append(event)
            if isinstance(event, ev.RunnableFailed):
                self.origins(event.inputs[:1])
        return place

    def definition(self, plan: Plan) -> int:
        """Return the place of the event with the definition of *plan* among the records."""
        return self.record(self._by_plan[id(plan)])

    def scope(self, scope: Scope) -> int:
        """Return the number of a scope; the scope around it has a smaller one."""
        number = self._scope_at.get(id(scope))
        if number is None:
            written = A_SCOPE.write(self, scope, None)
            self.origins((scope.address,))  # a fact without an event comes from what its scope began with
            number = self._scope_at[id(scope)] = len(self._scopes)
            self._scopes.append(written)
            self._open.append(scope)
        return number

    @property
    def looked_at(self) -> int:
        """How many facts and scopes were looked at."""
        return len(self._cells) + len(self._scopes) + len(self._needed)

    def absent_facts(self) -> Mapping[int, Element]:
        """Return the facts without an event that are referred to, by their place."""
        return self._absent

    def known_records(self) -> list[Any]:
        """Return the records that stay known as events of the log."""
        return [event for event in self.records if isinstance(event, _KNOWN)]

    def read(self, name: str, count: int) -> Iterable[int]:
        """Return which of the *count* facts of *name* can still be read."""
        return self._read(name, count)

    def orders(self, name: str, count: int) -> range:
        """Return which of the *count* orders of the facts of *name* are needed: all, if all its values are read."""
        return range(count) if name in self._read_as_a_whole() else self._orders.get(name, range(0))

    def origins(self, addresses: Iterable[Address]) -> None:
        """Write where the facts at *addresses* came from: later facts will come from these."""
        for at in addresses:
            if at not in self._origins:
                self._origins[at] = self._lineage.origin(at), self._lineage.ordinal(at)

    def produced(self, lists: Mapping[str, Sequence[Any]], field: Field) -> Any:
        """Return how many facts each component has made, and those that can still be read one by one."""
        return [
            [name, len(made), [[at, field.write(self, made[at], None)] for at in sorted(self._read(name, len(made)))]]
            for name, made in lists.items()
        ]

    def keyed(self, lists: Mapping[str, Sequence[Any]], field: Field) -> Any:
        """Return how many orders there are of the facts of each component, and those that are needed."""
        return [
            [name, len(orders), [[at, field.write(self, orders[at], None)] for at in self.orders(name, len(orders))]]
            for name, orders in lists.items()
        ]

    def _read(self, name: str, count: int) -> Iterable[int]:
        """Return which of the *count* facts of *name* can still be read."""
        if name in self._read_as_a_whole():
            return range(count)
        before = {(scope.before or {}).get(name, count) for scope in self._open if scope.parent is None}
        return {version - 1 for version in (count, *before) if version > 0}

    def _read_as_a_whole(self) -> set[str]:
        """Return the components of which some other reads all values."""
        plans = {id(plan): plan for plan in (self._memory.plan, *(scope.plan for scope in self._open))}
        return {name for plan in plans.values() for name in _targets_of_all_values(plan)}


def _targets_of_all_values(plan: Plan) -> set[str]:
    return {
        reading.target.name
        for node in plan.nodes.values()
        if isinstance(node, FunctionNode)
        for reading in node.readings
        if isinstance(reading.read, AllValues)
    }


# -- reading -------------------------------------------------------------------------------------


class Snapshot:
    """A snapshot that was read as far as that needs nothing from a store."""

    __slots__ = ("_absent", "_edited", "_facts", "_records", "_structure", "link", "position")

    def __init__(self, position: int, link: bytes, structure: bytes, bodies: tuple[bytes, bytes, bytes, bytes]) -> None:
        self.position, self.link = position, link
        self._structure, (self._records, self._facts, self._absent, self._edited) = structure, bodies

    @classmethod
    def opened(cls, data: bytes) -> Self:
        """
        Return the snapshot that was written as *data*.

        Raises:
            CorruptLog: it is not a snapshot, was altered, or was written by a newer version.
        """
        view = memoryview(data)
        if len(view) < _HEAD or bytes(view[: len(_MAGIC)]) != _MAGIC:
            raise CorruptLog("these bytes are not a snapshot")
        version = bytes(view[len(_MAGIC) : len(_MAGIC) + 1])
        if version[0] != _VERSION:
            raise CorruptLog(f"a snapshot of format {version[0]}; this Weft reads up to {_VERSION}")
        if bytes(view[len(_MAGIC) + 1 : _HEAD]) != _checksum(version, view[_HEAD:]):
            raise CorruptLog("the checksum of a snapshot is wrong: it was cut off or altered")
        try:
            position, link, structure, records, facts, absent, edited = _read_parts(view[_HEAD:])
        except msgspec.DecodeError as error:
            raise CorruptLog(f"a snapshot cannot be read: {error}") from error
        return cls(position, link, structure, (records, facts, absent, edited))

    def references(self, *, lazy: bool = False) -> References:
        """Return the definitions and the large values that it needs; if *lazy*, without those of facts."""
        always = [self._records, self._absent, self._edited]
        return references(always if lazy else [*always, self._facts])

    def references_of_facts(self) -> References:
        """Return the large values that its facts need."""
        return references([self._facts])

    def restore(
        self,
        decoder: Decoder,
        definitions: Mapping[bytes, bytes],
        facts: Mapping[bytes, bytes],
        load: Load,
        *,
        lazy: bool = False,
        unknown: dict[str, None] | None = None,
    ) -> Memory:
        """
        Return the memory as it was.

        Args:
            definitions: the definitions that it refers to, by hash.
            facts: the large values that it refers to, by hash.
            load: loads events that are not in memory.
            lazy: leave the facts where they are; they are loaded when they are read.
            unknown: where classes that are not known here are noted.

        Raises:
            CorruptLog: it is not what was written, or needs something that this version does not know.
            HistoryNotLoaded: it cannot be restored without its facts.
        """
        read = partial(_events, decoder, definitions, facts, unknown)
        records, absent, edited = read(self._records), read(self._absent), read(self._edited)
        resident = [] if lazy else read(self._facts)
        try:
            structure = _read_structure(self._structure)
            return Reader(self.position, records, resident, absent, edited, load).memory(structure)
        except (CorruptLog, HistoryNotLoaded):
            raise
        except Exception as error:
            raise CorruptLog(f"a snapshot cannot be read: {type(error).__name__}: {error}") from error

    def facts(self, decoder: Decoder, definitions: Mapping[bytes, bytes], facts: Mapping[bytes, bytes]) -> list[Any]:
        """Return the events of the facts that the future needs."""
        return _events(decoder, definitions, facts, None, self._facts)


def _events(
    decoder: Decoder,
    definitions: Mapping[bytes, bytes],
    facts: Mapping[bytes, bytes],
    unknown: dict[str, None] | None,
    body: bytes,
) -> list[Any]:
    """Return the events of one body of a snapshot."""
    batches = decoder.batches([body], definitions=definitions, facts=facts, unknown=unknown)
    return [event for batch in batches for event in batch]


class Reader:
    """Builds a memory; the fields ask it for facts, events, scopes and definitions."""

    def __init__(
        self,
        position: int,
        records: Sequence[Any],
        facts: Sequence[Any],
        absent: Sequence[Any],
        edited: Sequence[Any],
        load: Load,
    ) -> None:
        self._memory = memory = Memory()
        self._records = records
        known: dict[int, Any] = {event.seq: event for event in records if isinstance(event, _KNOWN)}
        known |= {event.seq: event for event in facts}
        self._history = History(position, load, folded)
        self._log = log = PagedLog(self._history, known)
        memory.log = cast("list[ev.AnyEvent]", log)
        self._edits = {event.seq: event for event in edited}
        memory.lineage.log = Edited(log, self._edits) if edited else log
        self._known, self._absent = known, absent
        self._scopes: list[Scope] = []
        self._cells: list[FactRef] = []

    def memory(self, structure: Mapping[str, Any]) -> Memory:
        """Return the memory that is described by *structure*."""
        memory, lineage, history = self._memory, self._memory.lineage, self._history
        self._cells = [FactRef(lineage, at, maker) for at, maker in _CELLS.read(None, structure["cells"], {})]
        for written in items(structure["scopes"]):
            self._scopes.append(A_SCOPE.read(self, written, {}))
        for name, value in A_MEMORY.read(self, structure["memory"], {}).items():
            setattr(memory, name, value)
        memory.plan = memory.workflow.compiled
        lineage.follow(memory.plan)
        if any(isinstance(event, _DEFINITIONS) for event in self._records[1:]):  # other graphs are not known
            lineage.noted = None
        lineage.know_origins(_ORIGINS.read(None, structure["origins"], {}))
        lineage.causes = _CAUSES.read(None, structure.get("causes", []), {}) or None
        self._log.latest = _LATEST.read(None, structure["latest"], {})
        count = NUMBER.read(None, structure["absent"], {})
        if count:
            known = {
                fact.seq: Element(-fact.seq - 1, fact.value, fact.component, fact.inputs[0]) for fact in self._absent
            }
            lineage.absent = ColdList(count, known, history.absent)
            lineage.absent_since = ColdList(count, {}, history.absent_since)
        lineage.void = frozenset(positions(_VOID.read(None, structure["void"], {}))) or NONE
        return memory

    def cell(self, number: int) -> FactRef:
        """Return a fact."""
        return cast("FactRef", _at(self._cells, number, "the number of a fact"))

    def event(self, seq: int) -> Any:
        """Return an event of the log that brings a value."""
        event = self._edits.get(seq) or self._known.get(seq)
        if event is None:
            raise HistoryNotLoaded("that is being restored")
        return event

    def record(self, place: int) -> Any:
        """Return one of the records."""
        return _at(self._records, place, "the place of a record")

    def workflow(self, place: int) -> Workflow:
        """Return the workflow of a definition."""
        event = self.record(place)
        if not isinstance(event, _DEFINITIONS):
            raise wrong(place, "the place of a definition")
        return cast("Workflow", event.workflow)

    def scope(self, number: int) -> Scope:
        """Return a scope that was read before."""
        return cast("Scope", _at(self._scopes, number, "the number of a scope"))

    def cold_lists(self, table: str, data: Any, field: Field) -> dict[str, Any]:
        """Return what the *table* of the memory has kept for each component."""
        found: dict[str, Any] = {}
        for name, count, known in listing(together(TEXT, NUMBER, mapping(NUMBER, field))).read(self, data, {}):
            found[name] = ColdList(count, known, partial(self._history.items, table, name))
        return found


def _at(found: Sequence[Any], place: int, expected: str) -> Any:
    if not 0 <= place < len(found):
        raise wrong(place, expected)
    return found[place]


def folded(events: Iterable[ev.AnyEvent]) -> Memory:
    memory = Memory()
    fold(memory, events)
    return memory


def _checksum(version: bytes, data: Any) -> bytes:
    hasher = blake2b(version, digest_size=16, person=b"weft.snapshot")
    hasher.update(data)
    return hasher.digest()


def _slots(**known: Any) -> dict[str, Any]:
    return known


def _of_a_new_memory() -> dict[str, Any]:
    """Return the slots of a memory that has folded nothing; those that are set by the first event are not there."""
    new = Memory()
    return {name: getattr(new, name) for name in MemoryData.__slots__ if hasattr(new, name)}


A_MEMORY: Final = record(Memory, MEMORY, _slots, _of_a_new_memory())
_LATEST: Final = mapping(TEXT, NUMBER)
_VOID: Final = listing(together(NUMBER, NUMBER), tuple)
_CELLS: Final = listing(together(ADDRESS, TEXT))
_BYTES: Final = Field(lambda _, value, __: value, lambda _, data, __: bytes(data))
_CAUSES: Final = mapping(ADDRESS, together(ADDRESS, NUMBER))
_ORIGINS: Final = mapping(ADDRESS, together(_BYTES, NUMBER))

_read_parts: Callable[[Any], Any] = msgspec.msgpack.Decoder(tuple[int, bytes, bytes, bytes, bytes, bytes, bytes]).decode
_read_structure: Callable[[bytes], dict[str, Any]] = msgspec.msgpack.Decoder(dict[str, Any]).decode
