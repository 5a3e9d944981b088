"""
Takes in what the last events of a run have made ready: runnables are queued, and what only waits gets its timers.

A runnable is queued with the policy that holds for it and the attempts that it has had.  One that takes the straight
lane does not come here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core.fold.scope import Activation
from weft.core.run.runnable import bind
from weft.core.run.undoing import end_unstarted
from weft.core.run.waits import begin_waits, fire_timer
from weft.runner.execution.external import announce_attempt, take_failure
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.straight_lane import queue_upcoming

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker


def queue_ready(worker: Worker) -> None:
    """Queue the runnables that have become ready; for durable ones, record that they are about to start."""
    memory = worker.run.memory
    worker.expect_attempts()
    if worker.upcoming is not None:  # it is not alone any more
        queue_upcoming(worker, worker.upcoming)
    if memory.undo is not None:
        end_unstarted(worker.run, worker.timing())
    offered, memory.newly_ready = memory.newly_ready, []
    if worker.options.hooks is not None and worker.options.hooks.transform is not None:
        offered = _transformed(worker, offered)
    rules = memory.retried or (memory.workflow.policies if memory.rules is None else memory.rules)
    for activation in offered:
        if activation.key in worker.queue.by_key or memory.ready.get(activation.key) is not activation:
            continue
        policy, is_guarded = worker.policies.of(activation) if rules else (None, False)
        begun = worker.policies.begun(activation.key) if memory.attempts or memory.dispatched else None
        inflight = InFlight(activation, policy, is_guarded, begun)
        has_failed = memory.external is not None and take_failure(worker, inflight)
        if policy is not None:
            inflight.priority, inflight.ready_since = policy.priority, worker.dispatcher.monotonic()
            if policy.queue is not None:
                spreads = worker.dispatcher.spreads
                inflight.is_spread = spreads is not None and spreads(worker, inflight)
            if not has_failed and not worker.attempts.await_start(inflight) and inflight.is_durable:
                announce_attempt(worker, inflight, 1 + (begun.attempts if begun else 0), policy)
        inflight.needed = len(memory.log)
        worker.queue.add(inflight)


def _transformed(worker: Worker, offered: list[Activation]) -> list[Activation]:
    memory = worker.run.memory
    runnables = [bind(activation, memory, worker.run.context) for activation in offered]
    by_key = {activation.key: activation for activation in offered}
    wanted = [by_key[runnable.key] for runnable in worker.report.transformed(runnables)]
    left = set(by_key) - {activation.key for activation in wanted}
    memory.newly_ready.extend(by_key[key] for key in by_key if key in left)
    return wanted


def start_waits(worker: Worker) -> None:
    """Start the timers of what has begun to wait, unless a signal has come before; what is due already ends at once."""
    memory, now = worker.run.memory, worker.policies.clock.time()  # what waits asks its run for them
    is_stored = worker.unsaved.is_empty
    while memory.newly_waiting:
        for key in begin_waits(worker.run, now):
            found = (memory.waiting or {}).get(key)
            if found is None or (due := found.next_at) is None:
                continue
            if due <= now and is_stored and fire_timer(worker.run, key, now):
                worker.untimed_until = 0.0
                continue
            is_relative = found.is_relative and due == found.due
            worker.dispatcher.timers.add(worker, key, due, is_relative=is_relative)
            worker.unsaved.add_timer(key, due)
