"""
Finds the failures of a run that halted a component, to be retried.

Two kinds of failure have no event: that of a batch, whose elements are retried in its place, and that of a loop that
used up its turns, which begins again.
"""

from __future__ import annotations

import msgspec

from weft.core import events as ev
from weft.core.fold.memory import Memory
from weft.core.fold.scope import Key
from weft.core.plan.node import FunctionNode, Node
from weft.core.plan.plan import Plan
from weft.typing import Address


class Retried(msgspec.Struct, frozen=True):
    """The work of a run that is to be retried."""

    failures: tuple[ev.RunnableFailed, ...]
    """The failures, in the order of the log."""
    again: frozenset[Key]
    """The activations with which loops begin."""


def halted(memory: Memory, which: str | ev.RunnableFailed | None, until: int | None = None) -> Retried:
    """
    Return the failures that halted a component and that *which* stands for: one, a component's, or all.

    What failed after the event *until* is left out.
    """
    letters = memory.letters or {}
    known = {
        key: event
        for key, event in (memory.failures or {}).items()
        if key not in letters and (until is None or event.seq <= until)
    }
    asked = [
        event
        for event in known.values()
        if which is None or (event == which if isinstance(which, ev.RunnableFailed) else event.component == which)
    ]
    failures: dict[int, ev.RunnableFailed] = {}
    again: set[Key] = set()
    for event in asked:
        if has_event(memory, event):
            failures[event.seq] = event
        elif test := _test_of(memory.plan, event.component):
            again |= _beginning(memory, event, test)
        else:
            failures.update({each.seq: each for each in known.values() if _is_element_of(memory, each, event)})
    return Retried(tuple(failures[seq] for seq in sorted(failures)), frozenset(again))


def has_event(memory: Memory, failure: ev.RunnableFailed) -> bool:
    """Whether *failure* is in the log, rather than derived by the fold."""
    return failure.seq <= len(memory.log) and memory.log[failure.seq - 1] == failure


def _is_element_of(memory: Memory, failure: ev.RunnableFailed, batch: ev.RunnableFailed) -> bool:
    """Whether *failure* is one of an element of the collections that *batch* gave up."""
    if not has_event(memory, failure):
        return False
    taken_apart = {at for at in batch.inputs if isinstance(at, int)}
    return any(_seq(at) in taken_apart for at in memory.lineage.ancestry(failure.inputs[0]))


def _test_of(plan: Plan, loop: str) -> FunctionNode | None:
    """Return the test that ends the turns of *loop*; None if that is not a loop."""
    tests = (node for node in plan.nodes.values() if isinstance(node, FunctionNode) and node.loop_test is not None)
    return next((node for node in tests if node.owner == loop), None)


def _beginning(memory: Memory, failure: ev.RunnableFailed, until: FunctionNode) -> set[Key]:
    """Return the activations with which the loop of *failure* began."""
    found: set[Key] = set()
    for at in memory.lineage.ancestry(failure.inputs[0]):
        event = memory.log[_seq(at) - 1] if _seq(at) > 0 else None
        if isinstance(event, ev.Activated) and _is_inside(memory.plan, event.component, until):
            makers = (getattr(memory.lineage.cell(_seq(given)), "component", "") for given in event.inputs)
            if not any(_is_inside(memory.plan, maker, until) for maker in makers):
                found.add((event.component, event.inputs))
    return found


def _is_inside(plan: Plan, name: str, until: FunctionNode) -> bool:
    """Whether the node *name* belongs to the turns that *until* ends."""
    node: Node | None = plan.nodes.get(name)
    opening = None if until.loop_test is None else until.loop_test.opening
    while node is not None:
        if node.owner == until.owner or (opening is not None and node.region == opening.name):
            return True
        node = None if node.region is None else plan.nodes.get(node.region)
    return False


def _seq(address: Address) -> int:
    return address if isinstance(address, int) else address[0]
