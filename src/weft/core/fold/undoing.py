"""
Undoing a run that was cancelled (ADR 61): what of its pending work goes on, and what follows from it.

    a transaction ──► cancelled, its policy pending ──► failed ──► the compensation before it ──► … ──► nothing is left
    a compensation ──► goes on
    anything else ──► dropped

Nothing but compensations becomes ready any more: not the outcome of a saga, and no handler of an error.  The run is
cancelled when none is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from weft.core import events as ev
from weft.core.fold.external import ExternalAttempts
from weft.core.fold.reads import pin
from weft.core.fold.scope import Activation, Key
from weft.core.lineage.lineage import Cell
from weft.core.plan.node import FunctionNode, Target

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory

NOT_STARTED: Final = 0
"""In place of the number of an attempt: the runnable was cancelled before it had one."""


def cancelled(memory: Memory, event: ev.RunCancelled) -> None:
    """The run was cancelled: keep what undoes it, if it is to be undone, and drop everything else."""
    before = memory.undo
    memory.cancelled = event.reason or memory.cancelled or ""
    memory.undo = event if event.undo and before is None else None
    if memory.undo is None:
        _drop(memory)
    else:
        _keep(memory, event)


def _drop(memory: Memory) -> None:
    memory.ready.clear()
    memory.newly_ready.clear()
    memory.waiting = memory.newly_waiting = memory.signals = memory.external = None
    memory.unopened = memory.blocked = memory.state_queues = memory.dispatched = memory.attempts = memory.letters = None


def _keep(memory: Memory, event: ev.RunCancelled) -> None:
    """Drop what undoes nothing; of what is left, cancel all but compensations."""
    stopped = {(component, inputs): attempt for component, inputs, attempt in event.stopped}
    for key in stopped:
        memory.at(key)  # it may be an element that is not in *ready* yet
    letters = memory.letters or {}
    attempts, dispatched = memory.attempts or {}, memory.dispatched or {}
    pending = [each for each in _pending(memory) if each.key in stopped or has_undo(each.node)]
    _drop(memory)
    memory.letters = {key: each for key, each in letters.items() if each.activation.node.undoes} or None
    external, handed_out = ExternalAttempts(), dict[Key, int]()
    for activation in pending:
        key = activation.key
        if not activation.node.undoes:
            attempt = handed_out[key] = stopped.get(key, NOT_STARTED)
            external.fail(key, ev.RunnableCancelled(event.seq, *key, event.reason, attempt, by=event.by))
        elif key in dispatched:
            handed_out[key] = dispatched[key]
        _offer(memory, activation)
    undone = {each.key for each in pending if each.node.undoes}
    memory.attempts = {key: each for key, each in attempts.items() if key in undone} or None
    memory.dispatched, memory.external = handed_out or None, external or None


def _pending(memory: Memory) -> Iterator[Activation]:
    """Yield the activations that have not ended, except for dead letters."""
    yield from memory.ready.values()
    for waiting in (memory.waiting or {}).values():
        yield waiting.activation
    yield from (memory.blocked or {}).values()


def _offer(memory: Memory, activation: Activation) -> None:
    """Let *activation* run now; what was to settle before it was read settles no more."""
    if activation.missing:
        activation.missing = 0
        activation.pins = tuple(pin(memory, reading, activation.scope) for reading in activation.node.readings)
    memory.ready[activation.key] = activation
    memory.newly_ready.append(activation)


def has_undo(node: FunctionNode) -> bool:
    """Whether *node* is a compensation, or a transaction whose failure leads to one."""
    if not node.is_relay:
        return False
    return node.undoes or any(isinstance(each, FunctionNode) and each.undoes for each in _after_failure(node))


def _after_failure(node: FunctionNode) -> list[Target]:
    return [target for _, target, _ in node.error_routes]


def unstarted(memory: Memory) -> list[Activation]:
    """Return the runnables that were cancelled with the run before they had an attempt: there is no policy to ask."""
    if memory.undo is None or memory.external is None:
        return []
    return [
        memory.ready[key]
        for key, attempt in memory.external.attempts().items()
        if isinstance(attempt.failed, ev.RunnableCancelled)
        and attempt.failed.attempt == NOT_STARTED
        and key in memory.ready
    ]


def has_something_to_undo(memory: Memory) -> bool:
    """Whether a compensation would run, or is stuck, if the run were cancelled now."""
    if any(has_undo(each.node) for each in _pending(memory)):
        return True
    return any(letter.activation.node.undoes for letter in (memory.letters or {}).values())


def went_back(memory: Memory, activation: Activation, fact: Cell) -> None:
    """A compensation has ended, or a transaction has failed, with *fact*: the compensation before it is next."""
    node = activation.node
    following = [target for target, _ in node.routes] if node.undoes else _after_failure(node)
    facts, inputs = (*activation.facts, fact), (*activation.key[1], fact.address)
    for target in following:
        if isinstance(target, FunctionNode) and target.undoes:
            memory.accept(target, facts, inputs, activation.scope, activation.order)


def failed(memory: Memory, activation: Activation, event: ev.RunnableFailed) -> None:
    """A runnable has failed for good while the run is undone."""
    if activation.node.undoes:
        memory.fail(event)
        memory.keep_dead_letter(activation, event)
    elif has_undo(activation.node):
        went_back(memory, activation, memory.lineage.failure(event))
    else:
        memory.fail(event)
