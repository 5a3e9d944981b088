"""
The edits of a fork: positions in the log, and the outcomes that count there instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from weft.core import events as ev
from weft.core.components.map import elements_of
from weft.core.compose.flow import INPUT
from weft.core.compose.inlet import INPUT_NAME
from weft.core.deferred import local
from weft.core.fold.event_equality import same_values
from weft.core.fold.memory import Memory
from weft.core.functions.references import MISSING
from weft.core.lineage.fact import Fact
from weft.core.plan.node import FunctionNode, Kind
from weft.errors import InvalidArgument, shown
from weft.typing import Address


class Point(msgspec.Struct, frozen=True):
    """Where a run is forked: the facts or outcomes that are edited or made again, or where its history ends."""

    addresses: tuple[Address, ...] = ()
    until: int | None = None


def point_of(memory: Memory, at: object, name_of: Callable[[object], str], *, with_value: bool) -> Point:
    """
    Return what *at* stands for in *memory*.

    Raises:
        InvalidArgument: nothing like that has happened.
        UnknownComponent: no component has this name.
    """
    if at is None:
        if with_value:
            raise InvalidArgument("fork(value=...) edits something: say what with at=, a fact, a component or an event")
        return Point()
    if isinstance(at, Fact):
        return Point((_checked(memory, at.address),))
    if isinstance(at, int) and not isinstance(at, bool):
        if not 1 <= at <= len(memory.log):
            raise InvalidArgument(f"fork(at={at}): the log has the events 1 to {len(memory.log)}")
        return Point((_checked(memory, at),)) if with_value else Point(until=at)
    return Point(_made_by(memory, at, name_of, with_value=with_value))


def _checked(memory: Memory, address: Address) -> Address:
    seq = address if isinstance(address, int) else address[0]
    if not 1 <= seq <= len(memory.log) or seq in memory.lineage.void:
        raise InvalidArgument(f"fork(at=...): there is no event for what stands at {address} in run {memory.run_id!r}")
    event = memory.log[seq - 1]
    return _taker(memory, event) if isinstance(event, ev.SignalReceived) else address


def _taker(memory: Memory, signal: ev.SignalReceived) -> Address:
    """Return what a wait has made of *signal*."""
    for event in memory.lineage.standing():
        if isinstance(event, ev.SignalTaken) and event.signal == signal.seq:
            return event.seq
    raise InvalidArgument(
        f"fork(at={signal.seq}): no wait has taken the signal {signal.name!r} in run {memory.run_id!r}; send the fork "
        "another one instead"
    )


def _made_by(
    memory: Memory, which: object, name_of: Callable[[object], str], *, with_value: bool
) -> tuple[Address, ...]:
    """Return the outcomes of *which* component for the last input that reached it."""
    lineage = memory.lineage
    if which is INPUT or which == INPUT_NAME:
        inputs = [event.seq for event in memory.log if isinstance(event, ev.InputReceived)]
        if not inputs:
            raise InvalidArgument(f"fork(at={INPUT_NAME!r}): run {memory.run_id!r} has had no input")
        return (inputs[-1],)
    name = name_of(which)
    ends = [event for event in lineage.standing() if isinstance(event, ev.ENDINGS) and event.component == name]
    if not ends:
        raise InvalidArgument(f"fork(at={name!r}): it has not run in run {memory.run_id!r}")
    last = lineage.ordinal(ends[-1].inputs[0])
    found = tuple(event.seq for event in ends if lineage.ordinal(event.inputs[0]) == last)
    if with_value and len(found) > 1:
        raise InvalidArgument(
            f"fork(at={name!r}, value=...): it has run {len(found)} times for input {last}; give the fact to edit: "
            f"run.facts({name!r})"
        )
    return found


class Edit(msgspec.Struct, frozen=True):
    """Another outcome of an event, as ``RunForked`` holds it; the facts at *addresses* have other values then."""

    value: Any
    addresses: frozenset[Address]


def edit_of(memory: Memory, address: Address, value: Any) -> Edit:
    """
    Return the edit that puts *value* in place of what stands at *address*.

    Without a value the same one counts as edited.

    Raises:
        InvalidArgument: nothing that a component or an input brought stands there.
        NotACollection: a map made it, and *value* is not a collection.
    """
    seq = address if isinstance(address, int) else address[0]
    event = memory.lineage.log[seq - 1]
    if isinstance(event, ev.InputReceived):
        return Edit(event.value if value is MISSING else local().whole(value), frozenset({seq}))
    if isinstance(event, ev.PRODUCTIONS):
        return Edit(value, frozenset({seq}))
    if isinstance(event, ev.FannedOut):
        new = elements_of(value, event.component) if isinstance(address, int) else _with(event.value, address[1], value)
        return Edit(new, frozenset({seq, *_differing(seq, event.value, new)}))
    if isinstance(event, ev.ConditionEvaluated):
        return Edit(bool(value), frozenset())
    if isinstance(event, ev.StateChanged):
        if isinstance(address, int):
            return Edit((value, event.emitted), frozenset({seq}))
        return Edit((event.state, _with(event.emitted, address[1], value)), frozenset({address}))
    if isinstance(event, ev.RunnableFailed | ev.RunnableSkipped):
        return Edit(_outcome(memory, event, value), frozenset({seq}))
    raise InvalidArgument(
        f"fork(at={seq}, value=...): {type(event).__name__} is not the outcome of a component; "
        "leave the value out to fork the run as it was then"
    )


def _differing(seq: int, old: Sequence[Any], new: Sequence[Any]) -> Iterator[Address]:
    """Yield the addresses of the elements that the collection of the event at *seq* has in one of the two alone."""
    for index in range(max(len(old), len(new))):
        if index >= min(len(old), len(new)) or not same_values(old[index], new[index]):
            yield (seq, index)


def _with(items: Sequence[Any], index: int, value: Any) -> Any:
    """Return *items* with *value* at *index*; a tuple stays one."""
    changed = [*items[:index], value, *items[index + 1 :]]
    return tuple(changed) if isinstance(items, tuple) else changed


def _outcome(memory: Memory, event: ev.RunnableFailed | ev.RunnableSkipped, value: Any) -> Any:
    """Return *value* as the outcome of what failed, or was skipped."""
    node = memory.plan.nodes.get(event.component)
    if not isinstance(node, FunctionNode) or node.kind is Kind.STATE:
        raise InvalidArgument(
            f"fork(at={event.seq}, value=...): {event.component!r} decides over a state, so {shown(value)} cannot be "
            "its outcome; fork at what it takes instead"
        )
    return elements_of(value, event.component) if node.is_fan else value
