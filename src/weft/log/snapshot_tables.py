"""
The parts of the memory of a run that a snapshot holds: one table per class, with a line for every slot.

A slot is either written, by its field, or *derived*: it follows from others, or is empty whenever a snapshot is taken.
A new slot without a line here fails ``test_every_slot_has_a_line``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from weft.core import events as ev
from weft.core.fold.batches import BatchState, Results
from weft.core.fold.external import ExternalAttempt, ExternalAttempts
from weft.core.fold.gates import GateState
from weft.core.fold.joins import JoinState
from weft.core.fold.memory import Memory
from weft.core.fold.scope import BARRED, FIRED, NOTHING, Activation, Attempts, Letter, Opening, Scope, Waiting
from weft.core.lineage.lineage import Element, Lineage
from weft.core.plan.node import FunctionNode, GateNode
from weft.errors import CorruptLog, an
from weft.log.event_codec import as_terms, from_terms
from weft.log.snapshot_fields import (
    ADDRESS,
    ANSWER,
    FLAG,
    FLAG_OR_NUMBER,
    INPUTS,
    KEY,
    NUMBER,
    ORDER,
    TEXT,
    TEXT_OR_NUMBER,
    TIME,
    Derived,
    Field,
    Table,
    items,
    listing,
    mapping,
    optional,
    record,
    together,
    wrong,
)

if TYPE_CHECKING:
    from weft.log.snapshot import Reader, Writer

# -- what is shared: facts, events, scopes, plans -------------------------------------------------

HOT: Final = Field(
    lambda writer, cell, _: writer.cell(cell, is_hot=True),
    lambda reader, data, _: reader.cell(NUMBER.read(None, data, {})),
)
"""A fact whose value the future needs."""
NAMED: Final = Field(
    lambda writer, cell, _: writer.cell(cell, is_hot=False),
    lambda reader, data, _: reader.cell(NUMBER.read(None, data, {})),
)
"""A fact of which only the address is needed."""
FACTS: Final = listing(HOT, tuple)
RECORD: Final = Field(
    lambda writer, event, _: writer.record(event), lambda reader, data, _: reader.record(NUMBER.read(None, data, {}))
)
"""An event that brings no value.  It need not be in the log: the failure of a batch is derived."""
EVENT: Final = Field(
    lambda writer, event, _: writer.event(event), lambda reader, data, _: reader.event(NUMBER.read(None, data, {}))
)
"""An event of the log that brings a value."""
SCOPE: Final = Field(
    lambda writer, scope, _: writer.scope(scope), lambda reader, data, _: reader.scope(NUMBER.read(None, data, {}))
)
PLAN: Final = Field(
    lambda writer, plan, _: writer.definition(plan),
    lambda reader, data, _: reader.workflow(NUMBER.read(None, data, {})).compiled,
)
POLICY: Final = Field(lambda _, policy, __: as_terms(policy), lambda _, data, __: from_terms(data))


def _write_inputs(writer: Writer, key: Any, _: Any) -> Any:
    writer.origins(key[1])
    return KEY.write(writer, key, None)


ACTIVATION_KEY: Final = Field(_write_inputs, KEY.read)
"""The key of an activation; where its inputs came from is written too, since its idempotency key is made of that."""


def _pin(writer: Writer, pin: Any, _: Any) -> Any:
    return pin if pin is None or type(pin) is int else [writer.cell(pin, is_hot=True)]


def _read_pin(reader: Reader, data: Any, _: Any) -> Any:
    if data is None or type(data) is int:
        return data
    return reader.cell(NUMBER.read(None, items(data, 1)[0], {}))


PIN: Final = Field(_pin, _read_pin)
"""The version that a reading refers to: none, a number of facts, or a fact."""


def _arrived(writer: Writer, facts: Any, _: Any) -> Any:
    writer.origins(fact.address for fact in facts)
    return FACTS.write(writer, facts, None)


ARRIVED: Final = Field(_arrived, FACTS.read)
"""Facts that wait, and that later activations come from."""
ONE_ARRIVED: Final = Field(
    lambda writer, fact, _: ARRIVED.write(writer, (fact,), None)[0], lambda reader, data, _: HOT.read(reader, data, {})
)


def _source(writer: Writer, fact: Any, _: Any) -> Any:
    writer.origins((fact.address,))
    return NAMED.write(writer, fact, None)


SOURCE: Final = Field(_source, NAMED.read)
"""A collection whose elements wait."""

# -- joins, gates, batches -----------------------------------------------------------------------

JOIN: Final[Table] = {"groups": listing(listing(together(ORDER, ARRIVED))), "present": NUMBER}

RESULTS: Final[Table] = {
    "port": NUMBER,
    "fan": ORDER,
    "order": ORDER,
    "facts": listing(optional(ONE_ARRIVED)),
    "holes": NUMBER,
}

BATCH: Final[Table] = {
    "fans": listing(together(ORDER, SOURCE)),
    "results": mapping(together(NUMBER, ORDER, ORDER), record(Results, RESULTS)),
    "last": Derived("it only makes the next addition quick"),
    "facts": listing(ONE_ARRIVED),
    "places": listing(ORDER),
}


def _node(kind: type) -> Field:
    """Return the field of a node of this *kind*, which the plan of the scope beside it has."""

    def write(_: Any, node: Any, owner: Any) -> Any:
        if owner.scope.plan.nodes.get(node.name) is not node:
            raise CorruptLog(f"{node!r} is not in the plan that its input follows")
        return node.name

    def read(_: Any, data: Any, known: dict[str, Any]) -> Any:
        node = known["scope"].plan.nodes.get(TEXT.read(None, data, {}))
        if type(node) is not kind:
            raise wrong(data, f"the name of {an(kind.__name__)}")
        return node

    return Field(write, read)


GATE: Final[Table] = {
    "scope": SCOPE,
    "gate": _node(GateNode),
    "facts": ARRIVED,
    "inputs": INPUTS,
    "order": ORDER,
    "at": FLAG_OR_NUMBER,
    "known": mapping(TEXT_OR_NUMBER, FLAG),
    "inside": listing(NUMBER),
}


# -- scopes and activations ------------------------------------------------------------------------

_JOIN, _BATCH = record(JoinState, JOIN), record(BatchState, BATCH)
_MARKS: Final[dict[str, Any]] = {"fired": FIRED, "barred": BARRED}


def _write_slot(writer: Writer, held: Any, _: Any) -> Any:
    if isinstance(held, JoinState):
        return ["join", _JOIN.write(writer, held, None)]
    if isinstance(held, BatchState):
        return ["batch", _BATCH.write(writer, held, None)]
    if isinstance(held, Element) or held not in _MARKS.values():
        return ["fact", ONE_ARRIVED.write(writer, held, None)]
    return [next(name for name, mark in _MARKS.items() if mark is held), None]


def _read_slot(reader: Reader, data: Any, _: Any) -> Any:
    kind, held = items(data, 2)
    if kind == "join":
        return _JOIN.read(reader, held, {})
    if kind == "batch":
        return _BATCH.read(reader, held, {})
    if kind == "fact":
        return ONE_ARRIVED.read(reader, held, {})
    if kind not in _MARKS:
        raise wrong(data, "what a join or a collect keeps")
    return _MARKS[kind]


def _write_open(_: Any, counts: Any, scope: Scope) -> Any:
    is_unchanged = scope.borrows and counts is scope.plan.openings.get(scope.region, NOTHING)
    return None if is_unchanged else [[name, count] for name, count in counts.items()]


_COUNTS: Final = mapping(TEXT, NUMBER)


def _read_open(_: Any, data: Any, known: dict[str, Any]) -> Any:
    if data is None:
        return known["plan"].openings.get(known.get("region"), NOTHING)
    return _COUNTS.read(None, data, {})


SCOPES: Final[Table] = {
    "address": ADDRESS,
    "index": NUMBER,
    "plan": PLAN,
    "region": optional(TEXT),
    "open": Field(_write_open, _read_open),
    "parent": optional(SCOPE),
    "order": ORDER,
    "borrows": Derived("a table that is not the plan's own is written"),
    "slots": optional(mapping(TEXT, Field(_write_slot, _read_slot))),
    "waiters": optional(mapping(TEXT, listing(KEY))),
    "deadline": optional(TIME),
    "carrier": optional(mapping(TEXT, TEXT)),
    "made": optional(mapping(TEXT, together(ORDER, HOT))),
    "before": optional(_COUNTS),
    "earlier": optional(mapping(TEXT, HOT)),
    "outcomes": optional(mapping(KEY, ANSWER)),
    "endings": optional(mapping(TEXT, TEXT)),
    "seen": optional(
        Field(lambda writer, keys, _: listing(KEY).write(writer, sorted(keys, key=repr), None), listing(KEY, set).read)
    ),
}


def _scope(**known: Any) -> Scope:
    scope = Scope(**known)
    scope.borrows = scope.open is scope.plan.openings.get(scope.region, NOTHING)
    return scope


A_SCOPE: Final = record(Scope, SCOPES, _scope)

ACTIVATIONS: Final[Table] = {
    "scope": SCOPE,
    "node": _node(FunctionNode),
    "key": ACTIVATION_KEY,
    "facts": ARRIVED,
    "order": ORDER,
    "gathers": FLAG,
    "pins": listing(PIN, tuple),
    "missing": NUMBER,
    "flows": FLAG,
    "gates": optional(listing(record(GateState, GATE))),
    "turn": NUMBER,
}
ACTIVATION: Final = record(Activation, ACTIVATIONS)


def _opening(**known: Any) -> Opening:
    event: ev.FannedOut = known["event"]
    if type(event) is not ev.FannedOut:
        raise wrong(event, "a collection that was taken apart")
    return Opening(targets=known["scope"].plan.entries[event.component].plain_targets, **known)


OPENINGS: Final[Table] = {
    "event": EVENT,
    "targets": Derived("the nodes that the elements begin with are in the plan"),
    "scope": SCOPE,
    "order": ORDER,
    "following": NUMBER,
}
LETTERS: Final[Table] = {"activation": ACTIVATION, "event": RECORD}
WAITS: Final[Table] = {"activation": ACTIVATION, "due": optional(TIME), "is_relative": FLAG, "attempt": NUMBER}
EXTERNAL_ATTEMPTS: Final[Table] = {
    "token": optional(TEXT),
    "failed": optional(RECORD),
    "failures": NUMBER,
    "since": TIME,
}
ATTEMPTS: Final[Table] = {"failed": NUMBER, "last": NUMBER, "retry_at": TIME, "since": TIME}


# -- the memory ------------------------------------------------------------------------------------


def _write_pending(writer: Writer, pending: Any, _: Any) -> Any:
    return [ACTIVATION.write(writer, activation, None) for activation in pending.values()]


def _read_pending(reader: Reader, data: Any, _: Any) -> Any:
    found = [ACTIVATION.read(reader, item, {}) for item in items(data)]
    return {activation.key: activation for activation in found}


def _write_queues(_: Any, queues: Any, __: Any) -> Any:
    return [[name, [KEY.write(None, activation.key, None) for activation in queue]] for name, queue in queues.items()]


def _read_queues(_: Any, data: Any, known: dict[str, Any]) -> Any:
    """The activations that wait for a stateful node are blocked."""
    blocked: dict[Any, Activation] = known.get("blocked") or {}
    queues = mapping(TEXT, listing(KEY)).read(None, data, {})
    try:
        return {name: deque(blocked[key] for key in keys) for name, keys in queues.items()}
    except KeyError as error:
        raise wrong(error.args[0], "the key of a blocked activation") from error


_EXTERNAL: Final = together(mapping(KEY, record(ExternalAttempt, EXTERNAL_ATTEMPTS)), mapping(TEXT, KEY))

EXTERNAL: Final = Field(
    lambda writer, external, _: _EXTERNAL.write(writer, (external.attempts(), external.tokens()), None),
    lambda reader, data, _: ExternalAttempts.restored(*_EXTERNAL.read(reader, data, {})),
)

_WAITING: Final = listing(record(Waiting, WAITS))

PENDING: Final = Field(_write_pending, _read_pending)
WAITING: Final = Field(
    lambda writer, waiting, _: _WAITING.write(writer, waiting.values(), None),
    lambda reader, data, _: {each.activation.key: each for each in _WAITING.read(reader, data, {})},
)
PRODUCED: Final = Field(
    lambda writer, lists, _: writer.produced(lists, HOT),
    lambda reader, data, _: reader.cold_lists("produced", data, HOT),
)
KEYED: Final = Field(
    lambda writer, lists, _: writer.keyed(lists, ORDER), lambda reader, data, _: reader.cold_lists("keyed", data, ORDER)
)
STATES: Final = Field(
    lambda writer, states, _: [
        [name, [writer.event(each) for each in by_key.values()]] for name, by_key in states.items()
    ],
    lambda reader, data, _: {
        name: {change.key: change for change in changes}
        for name, changes in mapping(TEXT, listing(EVENT)).read(reader, data, {}).items()
    },
)

MEMORY: Final[Table] = {
    "_peak": Derived("it is counted again"),
    "_waits_ended": Derived("it is counted again"),
    "adding": Derived("it is empty between two events"),
    "attempts": optional(mapping(KEY, record(Attempts, ATTEMPTS))),
    "blocked": optional(PENDING),
    "cancelled": optional(TEXT),
    "children": optional(mapping(TEXT, RECORD)),
    "dispatched": optional(mapping(KEY, NUMBER)),
    "external": optional(EXTERNAL),
    "failures": optional(mapping(KEY, RECORD)),
    "has_deadlines": FLAG,
    "is_ending": FLAG,
    "keys": optional(mapping(TEXT, NUMBER)),
    "letters": optional(mapping(KEY, record(Letter, LETTERS))),
    "lineage": Derived("its table is below"),
    "log": Derived("the log is in the store"),
    "needs_context": listing(together(TEXT, TEXT, TEXT), tuple),
    "newly_ready": Derived("the loop that drives the run takes in everything that is ready"),
    "newly_waiting": Derived("the loop that drives the run begins everything that waits"),
    "notified": NUMBER,
    "page": Derived("it is a concern of the runner"),
    "partitions": optional(STATES),
    "plan": Derived("it is that of the workflow"),
    "ready": PENDING,
    "received": NUMBER,
    "redacted": listing(TEXT, tuple),
    "retried": optional(mapping(KEY, POLICY)),
    "rules": optional(POLICY),
    "run_id": TEXT,
    "signal_keys": optional(mapping(together(TEXT, TEXT), NUMBER)),
    "signals": optional(mapping(TEXT, listing(EVENT))),
    "skipped": optional(
        Field(lambda _, names, __: list(names), lambda _, data, __: dict.fromkeys(listing(TEXT).read(None, data, {})))
    ),
    "state_queues": optional(Field(_write_queues, _read_queues)),
    "successor": optional(TEXT),
    "undo": optional(RECORD),
    "unopened": optional(listing(record(Opening, OPENINGS, _opening))),
    "waiting": optional(WAITING),
    "workflow": Field(
        lambda writer, workflow, _: writer.definition(workflow.compiled),
        lambda reader, data, _: reader.workflow(NUMBER.read(None, data, {})),
    ),
    # Last, since it depends on what is open how much of these is needed.
    "keyed": optional(KEYED),
    "produced": PRODUCED,
}

LINEAGE: Final[Table] = {
    "_hashes": Derived("they are computed when they are asked for"),
    "_index": Derived("it is made when it is asked for"),
    "_origins": Derived("those of facts that wait are written with them"),
    "absent": Derived("those that are referred to are written as facts without an event"),
    "absent_since": Derived("only a revision asks for it, and that loads the history"),
    "causes": Derived("those that results need are written beside the memory"),
    "cut": Derived("a run that is read from the store knows by its log what was removed"),
    "gathered": Derived("it is about facts that were made before, and is found by loading the history"),
    "log": Derived("the log is in the store"),
    "noted": Derived("it is written beside the memory"),
    "ordinals": Derived("those of facts that wait are written with them"),
    "read": Derived("it is about facts that were made before, and is found by loading the history"),
    "stateful": Derived("it is that of the plan"),
    "void": Derived("it is written beside the memory, as ranges"),
}

TABLES: Final[dict[type, Table]] = {
    Activation: ACTIVATIONS,
    Attempts: ATTEMPTS,
    BatchState: BATCH,
    ExternalAttempt: EXTERNAL_ATTEMPTS,
    GateState: GATE,
    JoinState: JOIN,
    Letter: LETTERS,
    Lineage: LINEAGE,
    Memory: MEMORY,
    Opening: OPENINGS,
    Results: RESULTS,
    Scope: SCOPES,
    Waiting: WAITS,
}
"""Every class of which a memory is made."""
