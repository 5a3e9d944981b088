"""
The lineage of a run: where every value came from, read from the log.

Facts are addressed by their position: an input and a production by their event, an element of an ``each`` by
the event that took its collection apart and its index.  Hashes are computed when they are first read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from weft.core import events as ev
from weft.core.failure import Failure
from weft.core.functions.identity import canonical, digest
from weft.core.lineage.fact import Fact
from weft.core.lineage.fact_index import FactIndex
from weft.core.lineage.history import FACTS, ColdList, Edited, History, PagedLog
from weft.errors import HistoryTruncated
from weft.typing import Address


class Element(msgspec.Struct, frozen=True, gc=False):
    """A fact that has no event: an element of a collection, or what an ``all_done`` join did not get."""

    address: Address
    value: Any
    producer: str
    origin: Address
    """The fact that it came from."""
    index: int | None = None


class Failed(msgspec.Struct, frozen=True):
    """The failure that the event at *seq* tells of, as a fact."""

    seq: int
    component: str
    inputs: tuple[Address, ...]
    value: Failure

    @property
    def address(self) -> Address:
        """Where it stands."""
        return self.seq


class FactRef:
    """
    A fact that a snapshot refers to: what else is asked of it is read from the log.

    Args:
        maker: its maker, as an arrival order knows it.
    """

    __slots__ = ("_lineage", "address", "maker")

    def __init__(self, lineage: Lineage, address: Address, maker: str) -> None:
        self._lineage, self.address, self.maker = lineage, address, maker

    def of(self, lineage: Lineage) -> FactRef:
        """Return the same fact, read from the log of *lineage*."""
        return FactRef(lineage, self.address, self.maker)

    @property
    def value(self) -> Any:
        """Its value."""
        return self._lineage.cell(self.address).value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lineage.cell(self.address), name)

    def __repr__(self) -> str:
        return f"FactRef({self.address!r}, maker={self.maker!r})"


Cell = (
    ev.InputReceived
    | ev.SignalReceived
    | ev.Production
    | ev.FannedOut
    | ev.StateChanged
    | ev.StateCarried
    | Element
    | Failed
    | FactRef
)
"""A fact as the fold hands it from node to node: anything with a value and an address."""


def emission(change: ev.StateChanged, index: int) -> Element:
    """Return what *change* emitted at *index*; what was emitted alone needs no number."""
    number = index if len(change.emitted) > 1 else None
    return Element((change.seq, index), change.emitted[index], change.component, change.inputs[0], number)


_MADE: dict[type, tuple[type, ...]] = {int: (*ev.PRODUCTIONS, ev.StateChanged), tuple: (ev.StateChanged,)}
"""By form of an address: the events whose facts are productions, rather than parts of one."""


NONE: Final[frozenset[int]] = frozenset()
NONE_NOTED: Final[frozenset[str]] = frozenset()
_NO_EDITS: Final[Mapping[int, ev.AnyEvent]] = MappingProxyType({})

_LAST = 8
"""How many of the last events are looked at before an index is made: nearly always one of them is the one asked for."""


class Lineage:
    """The log of one run, and what cannot be read from it at once."""

    __slots__ = (
        *("_hashes", "_index", "_origins", "causes"),
        *("absent", "absent_since", "cut", "gathered", "log", "noted", "ordinals", "read", "stateful", "void"),
    )

    def __init__(self, log: Sequence[ev.AnyEvent] = ()) -> None:
        self.log = log
        self.gathered: dict[int, tuple[Cell, ...]] | None = None
        """By position of a reduce: the facts it was computed from; its event names only their collections."""
        self.read: dict[int, tuple[Address, ...]] | None = None
        """By position of the fact of a reader: the other facts that it read."""
        self.absent: list[Element] | ColdList[Element] | None = None
        """Facts without an event, such as what joins did not get; the n-th has the address -n."""
        self.absent_since: list[int] | ColdList[int] | None = None
        """The event that each fact came from."""
        self.causes: Mapping[int, tuple[Address, int]] | None = None
        """
        By address of a fact without an event, which may not be in memory: the fact that it came from, and how many
        inputs there were when an event last named it.
        """
        self.cut = 0
        """How many events, the first ones, are not stored any more, although they may be in memory."""
        self.void: frozenset[int] = NONE
        """The positions of events that no longer count (ADR 32)."""
        self.stateful: frozenset[str] = frozenset()
        """The components that keep state: each of their facts was computed from the one before."""
        self.noted: frozenset[str] | None = NONE_NOTED
        """The components that *gathered* or *read* may know of, in any graph that the run has had; None for all."""
        self.ordinals: dict[Address, int] | None = None
        """By fact whose cause may not be in memory: the ordinal of its input."""
        self._index: FactIndex | None = None
        self._hashes: dict[Address, bytes] | None = None
        self._origins: dict[Address, bytes] | None = None

    @property
    def history(self) -> History | None:
        """The events that are not in memory; None if all of them are."""
        paged = self.paged
        return None if paged is None else paged.history

    @property
    def removed(self) -> int:
        """How many events were removed from the log, the first ones."""
        paged = self.paged
        return 0 if paged is None else paged.removed

    def check_whole(self) -> None:
        """
        Check that all events of the log can be read.

        Raises:
            HistoryTruncated: the first ones were removed.
        """
        history = self.history
        if history is not None:
            history.check(1)

    def check_changeable(self, run: str) -> None:
        """
        See that the graph of *run* may change, and its log be revised: its next owner has to read all of it for that.

        Raises:
            HistoryTruncated: the first events were removed.
        """
        self.check_whole()
        if self.cut:
            raise HistoryTruncated(run, self.cut + 1)

    @property
    def paged(self) -> PagedLog | None:
        """The log, if its beginning may not be in memory; what a fork has edited is not in it."""
        log = self.log.log if isinstance(self.log, Edited) else self.log
        return log if isinstance(log, PagedLog) else None

    @property
    def edits(self) -> Mapping[int, ev.AnyEvent]:
        """By position: the events that count in place of those of the log, which a fork has edited."""
        return self.log.edits if isinstance(self.log, Edited) else _NO_EDITS

    def standing(self) -> Sequence[ev.AnyEvent]:
        """Return the events that count, in order: all of them, unless the log was revised."""
        void = self.void
        return [event for event in self.log if event.seq not in void] if void else self.log

    def follow(self, plan: Any) -> None:
        """The run follows *plan* from now on."""
        self.stateful = plan.stateful
        if self.noted is not None and not plan.noted <= self.noted:
            self.noted |= plan.noted

    def forget_index(self) -> None:
        """Forget what was looked up so far: the log is another one, or its beginning is not in memory any more."""
        self._index = self._hashes = None

    def since(self, position: int) -> Iterable[ev.AnyEvent]:
        """Return the events after *position*, those that are not in memory block by block."""
        paged, edits = self.paged, self.edits
        if paged is None:
            return self.log[position:]
        found = paged.since(position)
        return (edits.get(event.seq, event) for event in found) if edits else found

    def index(self, since: int = 1) -> dict[str, list[Address]]:
        """
        Return the positions of the facts of each component, computed at the first call and extended since.

        Args:
            since: which event they have to begin with; if the events before it are not in memory, these are left out.
        """
        return self._indexed(since).facts

    def _indexed(self, since: int = 1) -> FactIndex:
        index = self._index
        if index is None or since <= index.begins:
            paged = self.paged
            index = self._index = FactIndex(0 if paged is None else min(since - 1, paged.cold))
        index.extend(self.since(index.ends), self.void, len(self.log))
        return index

    @property
    def misses_facts(self) -> bool:
        """Whether :meth:`index` has left events out when it was last called."""
        return self._index is not None and self._index.begins > 0

    def last_address(self, name: str) -> Address | None:
        """Return where the latest fact of *name* stands, if that can be said without the history; else None."""
        paged = self.paged
        if paged is None or not paged.cold:
            return None
        recent = self.index(paged.cold + 1).get(name)
        if recent:
            return recent[-1]
        seq = paged.latest.get(name)
        return seq if seq is not None and isinstance(self.log[seq - 1], ev.PRODUCTIONS) else None

    def made_last(self, name: str) -> ev.Production | None:
        """Return what *name* made last, if that is among the last events; else ask :meth:`index`."""
        log, edits = self.log, _NO_EDITS
        kind: Any = type(log)
        if kind is not list:  # its beginning is not in memory, or a fork has edited it
            paged, edits = self.paged, self.edits
            log = log if paged is None else paged.tail
        for last in log[: -_LAST - 1 : -1]:
            event = edits.get(last.seq, last) if edits else last
            if getattr(event, "component", None) == name and event.seq not in self.void:
                return event if isinstance(event, ev.PRODUCTIONS) else None
        return None

    def reads(self, address: Address) -> tuple[Address, ...]:
        """Return the other facts that were read for the fact at *address*: the previous state, or other components."""
        seq = address if isinstance(address, int) else address[0]
        event = self.log[seq - 1] if seq > 0 else None
        own: Any = ()
        if not isinstance(event, (*ev.PRODUCTIONS, ev.StateChanged)):
            return ()
        read = self._noted("read", event, ())
        paged = self.paged
        if paged is not None and paged.cold and not paged.history.is_loaded:
            before = self._state_before(event)
            return read if before is None else (before, *read)
        if isinstance(event, ev.StateChanged):
            own = self._indexed().state_changes[event.component, event.key]
        elif event.component in self.stateful:
            own = self.index()[event.component]
        place = bisect_left(own, seq)
        return (own[place - 1], *read) if place else read

    def _state_before(self, event: Any) -> Address | None:
        """Return where the state stands that *event* of a stateful component followed, looking backwards for it."""
        is_change = isinstance(event, ev.StateChanged)
        if not is_change and event.component not in self.stateful:
            return None
        kinds: tuple[type[Any], ...] = (ev.StateChanged,) if is_change else ev.PRODUCTIONS
        for seq in range(event.seq - 1, 0, -1):
            found: Any = self.log[seq - 1]
            if isinstance(found, kinds) and found.component == event.component and seq not in self.void:
                if not is_change or getattr(found, "key", None) == event.key:
                    return seq
            elif not is_change and isinstance(found, ev.StateChanged) and found.component == event.component:
                emitted = len(found.emitted)
                if emitted and seq not in self.void:
                    return (seq, emitted - 1)
        return None

    def without_event(self, value: Any, producer: str, origin: Address) -> Element:
        """Return a new fact that follows from others and is not recorded by itself; its address is negative."""
        if self.absent is None:
            self.absent = []
        if self.absent_since is None:
            self.absent_since = []
        self.absent.append(Element(-len(self.absent) - 1, value, producer, origin))
        self.absent_since.append(len(self.log) + 1)
        return self.absent[-1]

    def pad(self, known: Lineage, seq: int) -> None:
        """Skip the addresses of facts without an event that *known*, of the same log, has of events before *seq*."""
        since = known.absent_since or []
        count = bisect_left(since, seq)
        if count > len(self.absent or ()):
            have = len(self.absent or ())
            self.absent = [*(self.absent or ()), *(known.absent or ())[have:count]]
            self.absent_since = [*(self.absent_since or ()), *since[have:count]]

    def cell(self, address: Address) -> Cell:
        """Return what stands at *address*."""
        if isinstance(address, tuple):
            seq, index = address
            fan: Any = self.log[seq - 1]
            if isinstance(fan, ev.StateChanged):
                return emission(fan, index)
            if isinstance(fan, ev.RunnableRetried):
                return self.replaced(fan, index)
            return Element(address, fan.value[index], fan.component, fan.inputs[0], index)
        if address < 0:
            return (self.absent or [])[-address - 1]
        event = self.log[address - 1]
        if isinstance(event, ev.RunnableFailed):
            return self.failure(event)
        assert isinstance(event, FACTS)  # noqa: S101
        return event

    def replaced(self, event: ev.RunnableRetried, index: int) -> Element:
        """Return what was given in place of a fact when a dead letter was tried again: its maker stays the same."""
        origin = event.inputs[index]
        maker = self.fact(origin).producer or ""
        return Element((event.seq, index), (event.values or ())[index], maker, origin, index)

    def failure(self, event: ev.RunnableFailed) -> Failed:
        """Return the failure that *event* tells of, as a fact."""
        values = tuple(self.cell(at).value for at in event.inputs)
        error = event.error
        given = values[0] if len(values) == 1 else values
        told = Failure(event.component, error.type, error.bases, error.message, error.traceback, event.attempts, given)
        return Failed(event.seq, event.component, event.inputs, told)

    def fact(self, address: Address) -> Fact:
        """Return the fact at *address*."""
        cell: Any = self.cell(address)
        if isinstance(cell, ev.InputReceived):
            return Fact(self, address, cell.value, None, cell.ordinal)
        if isinstance(cell, Element):
            return Fact(self, address, cell.value, cell.producer or None, cell.index)
        if isinstance(cell, ev.SignalReceived):
            return Fact(self, address, cell.value, None, signal=cell.name, by=cell.by)
        return Fact(self, address, cell.value, cell.component)

    def parents(self, address: Address) -> tuple[Address, ...]:
        """Return the addresses of the facts that the fact at *address* was computed from."""
        cell: Any = self.cell(address)
        if isinstance(cell, ev.InputReceived | ev.SignalReceived):
            return ()
        if isinstance(cell, Element):
            return (cell.origin,)
        if isinstance(cell, ev.SignalTaken):
            return (*cell.inputs, cell.signal)
        made_of = self._noted("gathered", cell, None)
        return tuple(fact.address for fact in made_of) if made_of else cell.inputs

    def _noted(self, table: str, event: Any, default: Any) -> Any:
        """Return what the fold has noted in *table* for *event*, also if that is not in memory."""
        noted, seq = getattr(self, table), event.seq
        if noted is not None and seq in noted:
            return noted[seq]
        history = self.history
        if history is not None and seq <= history.count and (self.noted is None or event.component in self.noted):
            before: dict[int, Any] = getattr(history.memory().lineage, table) or {}
            return before.get(seq, default)
        return default

    def ordinal(self, address: Address) -> int:
        """Return the ordinal of the input that the fact at *address* came from."""
        known = self.ordinals
        while known is None or address not in known:
            cell = self.cell(address)
            if isinstance(cell, ev.InputReceived):
                return cell.ordinal
            address = self.parents(address)[0]
        return known[address]

    def is_of(self, address: Address, ordinal: int, begin: int) -> bool:
        """
        Return whether the fact at *address* came from the input *ordinal*; its own input may have been removed.

        Args:
            begin: where that input stands; what came from an earlier event came from another input.
        """
        known = self.ordinals or {}
        while address not in known:
            seq = address if isinstance(address, int) else address[0]
            if 0 < seq < begin:
                return False
            if seq > 0 and isinstance(event := self.log[seq - 1], ev.InputReceived):
                return event.ordinal == ordinal
            address = self._cause(address)
        return known[address] == ordinal

    def _cause(self, address: Address) -> Address:
        """Return a fact that the one at *address* came from, one with an event if there is one; inputs have none."""
        if isinstance(address, int) and address < 0:
            known = self.known_cause(address)
            return (self.absent or [])[-address - 1].origin if known is None else known
        event = self._event(address)
        if isinstance(event, ev.RunnableRetried) and isinstance(address, tuple):
            return event.inputs[address[1]]
        inputs: tuple[Address, ...] = event.inputs
        return next((at for at in inputs if isinstance(at, tuple) or at > 0), inputs[0])

    def known_cause(self, address: int) -> Address | None:
        """Return what the fact without an event at *address* came from, if that is known without the history."""
        absent, place = self.absent or [], -address - 1
        if self.causes is not None and address in self.causes:
            return self.causes[address][0]
        return absent[place].origin if not isinstance(absent, ColdList) or absent.holds(place) else None

    def _event(self, address: Address) -> Any:
        """Return the event that a fact with an event is made of."""
        return self.log[(address if isinstance(address, int) else address[0]) - 1]

    def known_ordinal(self, address: Address) -> int | None:
        """Return the ordinal of the input that a fact came from, if that is known without the history."""
        known, paged = self.ordinals or {}, self.paged
        while address not in known:
            seq = address if isinstance(address, int) else address[0]
            if seq < 0 or (paged is not None and seq <= paged.cold and seq not in paged.known):
                return None
            event = self.log[seq - 1]
            if isinstance(event, ev.InputReceived):
                return event.ordinal
            parents = getattr(event, "inputs", ())
            if not parents:
                return None
            address = parents[0]
        return known[address]

    def elements(self, address: Address, maps: Sequence[str | None]) -> list[tuple[int, int]]:
        """Return the elements of *maps* that the fact at *address* came from, outermost first; none if it did not."""
        found: list[tuple[int, int]] = []
        while len(found) < len(maps):
            event = None if isinstance(address, int) and address < 0 else self._event(address)
            if isinstance(event, ev.InputReceived | ev.SignalReceived):
                return []
            if isinstance(address, tuple) and isinstance(event, ev.FannedOut) and event.component in maps:
                found.append(address)
            address = self._cause(address)
        return found[::-1]

    def last_batch(self, outermost: str) -> int | None:
        """Return the event that last took a collection apart for the map *outermost*."""
        for event in reversed(self.log):
            if isinstance(event, ev.FannedOut) and event.component == outermost and event.seq not in self.void:
                return event.seq
        return None

    def ancestry(self, address: Address, depth: int | None = None) -> list[Address]:
        """
        Return all that the fact at *address* came from, in the order of the log, itself last.

        A signal stands before the wait that took it: it may have come before the input.

        Args:
            depth: how many steps to go back at most.
        """
        done: dict[Address, None] = {address: None}
        ring, left = [address], depth
        while ring and left != 0:  # ring by ring, each from its end: then the history is read block by block
            ring = [
                parent
                for parent in dict.fromkeys(parent for at in ring for parent in self.parents(at))
                if parent not in done
            ]
            ring.sort(key=self._position, reverse=True)
            done.update(dict.fromkeys(ring))
            left = None if left is None else left - 1
        takers = {taken.signal: taken.seq for taken in map(self._event_at, done) if isinstance(taken, ev.SignalTaken)}
        if not takers:
            return sorted(done, key=self._position)
        return sorted(done, key=lambda at: (takers[at], -2, 0) if at in takers else self._position(at))

    def _event_at(self, address: Address) -> ev.AnyEvent | None:
        return self.log[address - 1] if isinstance(address, int) and address > 0 else None

    def _position(self, address: Address) -> tuple[int, int, int]:
        if isinstance(address, tuple):
            return (*address, 0)
        if address < 0:  # right after what it would have come from
            seq, index, _ = self._position(self.parents(address)[0])
            return (seq, index, 1)
        return (address, -1, 0)

    def depth(self, address: Address) -> int:
        """Return how many productions lie between the input and the fact at *address*."""
        depths: dict[Address, int] = {}
        for at in self.ancestry(address):
            seq = at if isinstance(at, int) else at[0]
            made = seq > 0 and isinstance(self.log[seq - 1], _MADE[type(at)])
            depths[at] = max((depths[parent] for parent in self.parents(at)), default=0) + made
        return depths[address]

    # -- identity --------------------------------------------------------------------------------

    def hash(self, address: Address) -> bytes:
        """Return the content hash of the fact at *address*: its value and what it came from."""
        if self._hashes is None:
            self._hashes = {}
        known = self._hashes
        for at in () if address in known else self._unknown(address, known):
            fact = self.fact(at)
            value = canonical(fact.value, f"the value of {fact.producer or 'the input'}")
            known[at] = self._digest(b"fact", fact, value, known)
        return known[address]

    def know_origins(self, origins: Mapping[Address, tuple[bytes, int]]) -> None:
        """
        Take over where facts came from, as :meth:`origin` and :meth:`ordinal` returned it; forget the rest.

        Their causes may not be in memory.  What is asked later is found from these, however long the history is.
        """
        self._origins = {at: origin for at, (origin, _) in origins.items()}
        self.ordinals = {at: ordinal for at, (_, ordinal) in origins.items()}

    def origin(self, address: Address) -> bytes:
        """Return where the fact at *address* came from, without any value: what idempotency keys are made of."""
        if self._origins is None:
            self._origins = {}
        known = self._origins
        for at in () if address in known else self._unknown(address, known):
            known[at] = self._digest(b"origin", self.fact(at), b"", known)
        return known[address]

    def _digest(self, word: bytes, fact: Fact, value: bytes, known: dict[Address, bytes]) -> bytes:
        index = b"" if fact.index is None else b"%d" % fact.index
        parents = (known[parent] for parent in self.parents(fact.address))
        return digest(word, value, (fact.producer or "").encode(), index, *parents)

    def _unknown(self, address: Address, known: dict[Address, bytes]) -> list[Address]:
        """Return what has to be known first, and then *address*, each after what it came from."""
        found: dict[Address, None] = {}
        stack: list[tuple[Address, bool]] = [(address, False)]
        while stack:
            at, after = stack.pop()
            if after:
                found[at] = None
            elif at not in found and at not in known:
                stack.append((at, True))
                stack.extend((parent, False) for parent in self.parents(at))
        return list(found)

    def runnable_id(self, component: str, inputs: tuple[Address, ...]) -> str:
        """Return the id of *component* at work on *inputs*: the same in every process and after every resume."""
        return digest(b"runnable", component.encode(), *(self.hash(at) for at in inputs)).hex()

    def idempotency_key(self, run: str, component: str, inputs: tuple[Address, ...]) -> str:
        """Return the key of *component* at work on *inputs* in *run*, at every attempt and after a deploy."""
        return digest(b"key", run.encode(), component.encode(), *(self.origin(at) for at in inputs)).hex()
