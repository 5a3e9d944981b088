"""
Cancelling single steps of a run (ADR 37): their attempts are stopped, and their policies decide what follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.core.fold.scope import Key
from weft.core.run.external import attempt_number
from weft.core.run.runnable import RunnableRef
from weft.core.run.texts import check_text_or_none
from weft.errors import RunParked, StepCancelled, UnknownRunnable
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.straight_lane import queue_upcoming

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker


def cancel_steps(worker: Worker, which: str | RunnableRef, reason: str, by: str | None) -> None:
    """
    Cancel the runnables of a component, or the one that a ref names.

    Raises:
        UnknownRunnable: nothing of it is ready, in flight or waiting.
        RunClosed, RunParked: as ``Worker.check_open``.
    """
    worker.check_open()
    if worker.state == "parked":
        raise RunParked(worker.id, worker.reason)
    check_text_or_none("reason", reason)
    check_text_or_none("by", by)
    keys = _pending(worker, which)
    if not keys:
        name = which.component if isinstance(which, RunnableRef) else which
        raise UnknownRunnable(f"nothing of {name!r} is ready, in flight or waiting in run {worker.id!r}")
    if worker.upcoming is not None:
        queue_upcoming(worker, worker.upcoming)
    for key in keys:
        _cancel(worker, key, reason, by)
    worker.changed()
    worker.checkpoint()


def _pending(worker: Worker, which: str | RunnableRef) -> list[Key]:
    memory = worker.run.memory
    if isinstance(which, RunnableRef):
        key = (which.component, which.inputs)
        return [key] if memory.at(key) is not None or key in (memory.waiting or ()) else []
    name = worker.run.workflow.name_of(which) if which in worker.run.workflow else which
    return [key for key in (*memory.open_all(), *(memory.waiting or ())) if key[0] == name]


def _cancel(worker: Worker, key: Key, reason: str, by: str | None) -> None:
    memory, now = worker.run.memory, worker.dispatcher.clock.time()
    waiting = (memory.waiting or {}).get(key)
    if waiting is not None and not waiting.attempt:  # nothing is executed, so that its policy has nothing to say
        worker.run.record_failure(waiting.activation, StepCancelled(key[0], reason, by), 1, 0, timing=ev.Timing(now))
        return
    if memory.external is not None and (known := memory.external.get(key)) is not None and known.failed is not None:
        return  # it has failed, and its policy decides just now
    inflight = worker.queue.by_key.get(key)
    attempt = attempt_number(memory, key) if inflight is None else _number(inflight)
    if inflight is not None:
        worker.attempts.drop(inflight)
    record(memory, ev.RunnableCancelled(len(memory.log) + 1, *key, reason, attempt, now, by))
    activation = memory.ready[key]
    if activation not in memory.newly_ready:
        memory.newly_ready.append(activation)


def _number(inflight: InFlight) -> int:
    begun = 0 if inflight.begun is None else inflight.begun.attempts
    return max(1, begun if inflight.attempt is None else inflight.attempt.runnable.attempt)
