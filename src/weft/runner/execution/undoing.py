"""
Cancelling a run so that it is undone (ADR 61): which attempts are stopped, which go on, and what the log says of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.core.fold.scope import Activation, Key
from weft.core.fold.undoing import has_something_to_undo, has_undo
from weft.core.run.external import attempt_number
from weft.runner.execution.chain_progress import advance_all
from weft.runner.execution.inflight import InFlight
from weft.typing import Address

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker


class ToUndo(NamedTuple):
    """The work that is left to undo in a run that is about to be cancelled."""

    stopped: tuple[tuple[str, tuple[Address, ...], int], ...]
    """The runnables that may have begun, and whose end has something to undo, as :class:`RunCancelled` has them."""
    kept: frozenset[InFlight]
    """The compensations that are in flight, and go on."""
    is_something: bool
    """Whether anything is to be undone in this run."""


NOTHING_TO_UNDO: Final = ToUndo((), frozenset(), is_something=False)
"""Of a run that is cancelled as it is."""


def to_undo(worker: Worker) -> ToUndo:
    """Return what is to be undone if the run of *worker* is cancelled now."""
    if worker.dispatcher.scheduler is not None and worker.life != "crashed":
        advance_all(worker)
    stopped: list[tuple[str, tuple[Address, ...], int]] = []
    kept: set[InFlight] = set()
    by_key = worker.queue.by_key
    for activation in _open(worker):
        key, node = activation.key, activation.node
        inflight = by_key.get(key)
        if node.undoes:
            if inflight is not None:
                kept.add(inflight)
            continue
        attempt = _attempt(worker, key, inflight)
        if not attempt or not (has_undo(node) or _compensates(worker, activation)):
            continue
        stopped.append((*key, attempt))
        if inflight is not None and inflight.calls_policy and _compensates(worker, activation):
            kept.add(inflight)  # it has failed before, and what undoes it runs
    return ToUndo(tuple(stopped), frozenset(kept), bool(stopped) or has_something_to_undo(worker.run.memory))


def _open(worker: Worker) -> list[Activation]:
    """Return what is ready, in flight or open outside."""
    memory = worker.run.memory
    return [*memory.ready.values(), *(each.activation for each in (memory.waiting or {}).values() if each.attempt)]


def _attempt(worker: Worker, key: Key, inflight: InFlight | None) -> int:
    """Return the number of the attempt at *key* that may have begun last; 0 if there was none."""
    memory = worker.run.memory
    if inflight is not None and inflight.begun is None and key not in (memory.attempts or {}):
        if not inflight.is_started and not inflight.has_ended and not inflight.calls_policy:
            return 0  # the log may say that it was handed out: that was here, and it is still in the queue
        return 1 if inflight.attempt is None else max(1, inflight.attempt.runnable.attempt)
    last = (memory.attempts or {}).get(key)
    begun = 0 if last is None else last.last
    if key in (memory.dispatched or {}) or key in (memory.waiting or {}):
        begun = max(begun, attempt_number(memory, key))
    if inflight is not None and inflight.attempt is not None and inflight.is_started:
        begun = max(begun, inflight.attempt.runnable.attempt)
    return begun


def _compensates(worker: Worker, activation: Activation) -> bool:
    """Whether the policy of *activation* has a compensation."""
    policy, _ = worker.policies.of(activation)
    return policy is not None and policy.on_failure == "compensate"


def retry_stuck(worker: Worker, by: str | None) -> None:
    """Try the compensations again that have failed for good before the run was cancelled."""
    memory = worker.run.memory
    for key, letter in list((memory.letters or {}).items()):
        if letter.activation.node.undoes:
            record(memory, ev.RunnableRetried(len(memory.log) + 1, *key, by=by))
