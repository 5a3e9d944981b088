"""
The straight lane: runs a plain runnable that is the only one of its run, without the queue.

Most steps have no policy, no hook and no listener, run in the event loop, and are the only ready runnable of their run.
Such a runnable is the *upcoming* one of its worker from the moment it is ready until its dependencies are durable; then
it runs, and its outcome is folded into the run.  It never has a slot, an attempt or a place in the queue.

    ready ──► upcoming ──► durable enough ──► run ──► folded
                  │                            │
                  └── another runnable, a ─────┴── failed, or a large value ──► the queue, as any other runnable
                      listener, others queued

Invariants:

1. A worker has an upcoming runnable only while its queue is empty.
2. The upcoming runnable is ready in its run, has no policy, no deadline and no earlier attempt.
3. While it runs, nothing else of its run is queued or started: what it tells its own run waits until it has ended.
4. A runnable that moves to the queue continues as if it had been there from the beginning: it runs once either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core.fold.fold import react
from weft.core.fold.scope import Activation
from weft.core.run.runnable import Outcome, Runnable, bind
from weft.log import needs_encoding
from weft.log.codec import encode_at_once
from weft.log.module_names import kind_of
from weft.log.value_encoder import SHORT
from weft.ports.executor import ImmediateExecutor
from weft.runner.durability.rehydration import is_partial
from weft.runner.execution.executor_queue import ExecutorQueue
from weft.telemetry import bus

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker


class StraightLane:
    """The lane of one executor that runs a runnable immediately; the workers of a runner share it."""

    __slots__ = ("_executor", "_queue", "_run")

    def __init__(self, executor: str, queue: ExecutorQueue, immediate: ImmediateExecutor) -> None:
        self._executor, self._queue, self._run = executor, queue, immediate.run

    def start(self, worker: Worker, activation: Activation) -> bool:
        """
        Run the upcoming runnable of *worker* here and now; return whether that was all, and nothing was queued.

        It is queued instead if it would overtake queued runnables, a policy holds the run, or there is a listener.
        """
        run, node, key = worker.run, activation.node, activation.key
        memory = run.memory
        ready, may_start = memory.ready, self._queue.may_start
        is_held = self._queue.line or (may_start is not None and not may_start())
        if is_held or not worker.at_once or worker.queue.barrier or bus.runnable_start or bus.runnable_stop:
            worker.queue_upcoming(activation)
            worker.start()
            return False
        worker.upcoming = None
        if ready.get(key) is not activation:  # it was removed from the run meanwhile
            return False
        worker.at_once -= 1
        runnable = bind(activation, memory, run.context)
        runnable.family = worker.dispatcher.family
        worker.is_in_lane = True
        try:
            outcome = self._run(runnable)
        finally:
            worker.is_in_lane = False
        if ready.get(key) is not activation or worker.is_dead:  # it has cancelled its own run
            return False
        result, encoded = outcome.result, None
        if outcome.status != "completed":
            self._hand_on(worker, activation, runnable, outcome)
            return False
        if kind_of(result) in SHORT or not needs_encoding(result) or (encoded := encode_at_once(result)) is not None:
            if encoded is None and node.only_delivers and not outcome.added:  # as nearly always
                worker.units += 1
                timing = None
                if worker.monotonic() >= worker.untimed_until:
                    timing = worker.timing()
                react(memory, activation, result, outcome.attempt, outcome.duration_ns, timing)
            elif outcome.added and is_partial(run):
                self._hand_on(worker, activation, runnable, outcome)
                return False
            else:
                worker.fold(activation, outcome, encoded)
            if worker.observer is not None:
                worker.observer(worker)
            return True
        self._hand_on(worker, activation, runnable, outcome)
        return False

    def _hand_on(self, worker: Worker, activation: Activation, runnable: Runnable, outcome: Outcome) -> None:
        """Go on as if the runnable had been queued and started: it has failed, or has made a large value."""
        inflight = worker.queue_upcoming(activation)
        worker.queue.start_first()
        inflight.runnable, inflight.executor = runnable, self._executor
        worker.attempts.ended(inflight, outcome)
