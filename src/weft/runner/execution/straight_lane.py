"""
The straight lane: a plain runnable that is the only one of its run is started without the queue.

Most steps have no policy, no hook and no listener, and are the only ready runnable of their run.  Such a runnable is
the *upcoming* one of its worker from the moment it is ready until its dependencies are durable.  Then it runs in the
event loop, or is handed to its executor (docs/adr/0042-a-lane-for-every-executor.md), and its outcome is folded into
the run.  It never waits in the queue of its run; one that an executor has is known there as executing.

    ready ──► upcoming ──► durable enough ──► run, or handed over ──► folded
                  │                                     │
                  └── another runnable, a ──────────────┴── failed, or a large value ──► the queue, as any other one
                      listener, others queued

Invariants:

1. A worker has an upcoming runnable only while its queue is empty.
2. The upcoming runnable is ready in its run, has no policy, no deadline and no earlier attempt.
3. While it runs in the event loop, nothing else of its run is queued or started: its calls about its own run wait until
   it has ended.
4. A runnable that moves to the queue continues as if it had been there from the beginning: it runs once either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from weft.core import events as ev
from weft.core.fold.fold import react
from weft.core.fold.scope import Activation
from weft.core.run.runnable import Outcome, Runnable, bind
from weft.log import needs_encoding
from weft.log.codec import encode_at_once
from weft.log.module_names import kind_of
from weft.log.value_encoder import SHORT
from weft.policy.driver import Attempt
from weft.ports.executor import ImmediateExecutor
from weft.runner.durability.rehydration import is_partial
from weft.runner.execution.executor_queue import ExecutorQueue
from weft.runner.execution.inflight import InFlight
from weft.telemetry import bus

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker


IN_A_ROW: Final = 8
"""How many steps of a chain run before they are written, on a store that does not outlive the process (ADR 59)."""


class Lane(Protocol):
    """The lane of one executor; the workers of a runner share it."""

    def start(self, worker: Worker, activation: Activation) -> bool:
        """
        Start the upcoming runnable of *worker*; return whether it has ended, and nothing was queued.

        It is queued instead if it would overtake queued runnables, a policy holds the run, or there is a listener.
        """
        ...


Lanes = tuple[Lane | None, Lane | None, Lane | None]
"""By place of a function (:mod:`weft.core.plan.node`): its lane, if there is one."""
NO_LANES: Final[Lanes] = (None, None, None)


def goes_straight(worker: Worker, activation: Activation) -> bool:
    """Whether *activation*, the only one, can take the straight lane: no policy, deadline or earlier attempt."""
    memory = worker.run.memory
    return not (
        worker.lanes[activation.node.place] is None
        or (memory.workflow.policies if memory.rules is None else memory.rules)
        or memory.has_deadlines
        or memory.attempts
        or memory.dispatched
        or memory.retried
    )


def start_upcoming(worker: Worker, upcoming: Activation) -> bool:
    """
    Start the *upcoming* runnable; return whether exactly one has followed it, and waits for the store in its place.

    That is what the next round of ``Worker.turn`` would find for a run that is strict and has nothing in flight: a
    quarter of the operations of a turn.  On a store that does not outlive the process those that follow run too, a few
    of them, and are written together.
    """
    lanes, memory = worker.lanes, worker.run.memory
    place, in_a_row = upcoming.node.place, worker.dispatcher.in_a_row
    while True:
        lane = lanes[place]
        assert lane is not None  # noqa: S101 - else it would not be the upcoming one
        if not lane.start(worker, upcoming) or not worker.is_strict or worker.life != "driving":
            return False
        ready = memory.newly_ready
        if len(ready) != 1 or memory.unopened is not None:
            return False
        following, known = ready[0], len(memory.log)
        node = following.node
        # Where nothing but its own event has come since, the run is as plain as it was.
        is_alike = node.place == place and known == worker.needed + 1
        if not is_alike and not goes_straight(worker, following):
            return False
        ready.clear()
        worker.upcoming, worker.needed = following, known
        in_a_row -= 1
        if not in_a_row or node.is_relay:  # a step of a saga waits for the store, whatever store it is
            worker.dispatcher.journal.note(worker)
            return True
        upcoming, place = following, node.place


def queue_upcoming(worker: Worker, activation: Activation) -> InFlight:
    """Queue the upcoming runnable: it is not the only one any more, or it cannot take the straight lane."""
    inflight = InFlight(activation, needed=worker.needed)
    worker.expect_attempts()
    worker.queue.add(inflight)
    worker.upcoming = None
    return inflight


class StraightLane:
    """The lane of an executor that runs a runnable immediately."""

    __slots__ = ("_executor", "_queue", "_run")

    def __init__(self, executor: str, queue: ExecutorQueue, immediate: ImmediateExecutor) -> None:
        self._executor, self._queue, self._run = executor, queue, immediate.run

    def start(self, worker: Worker, activation: Activation) -> bool:
        """Run the upcoming runnable of *worker* here and now, or queue it."""
        run, key, queue = worker.run, activation.key, self._queue
        memory = run.memory
        ready, may_start = memory.ready, queue.may_start
        is_held = queue.line or worker.queue.barrier or (may_start is not None and not may_start())
        if is_held or not worker.at_once or bus.runnable_start or bus.runnable_stop:
            queue_upcoming(worker, activation)
            worker.start()
            return False
        worker.upcoming = None
        if ready.get(key) is not activation:  # it was removed from the run meanwhile
            return False
        worker.at_once -= 1
        runnable = bind(activation, memory, run.context)
        runnable.runner = worker.dispatcher.step_runner
        worker.is_in_lane = True
        try:
            outcome = self._run(runnable)
        finally:
            worker.is_in_lane = False
        if ready.get(key) is not activation or worker.life == "crashed":
            return False  # it has cancelled its own run
        if fold_straight(worker, activation, outcome):
            if worker.observer is not None:
                worker.observer(worker)
            return True
        self._hand_on(worker, activation, runnable, outcome)
        return False

    def _hand_on(self, worker: Worker, activation: Activation, runnable: Runnable, outcome: Outcome) -> None:
        """Go on as if the runnable had been queued and started: it has failed, or has made a large value."""
        inflight = queue_upcoming(worker, activation)
        worker.queue.start_first()
        inflight.runnable, inflight.executor = runnable, self._executor
        worker.attempts.ended(inflight, outcome)


class HandOverLane:
    """The lane of an executor that runs a runnable elsewhere, on a thread or in another process."""

    __slots__ = ("_executor", "_queue")

    def __init__(self, executor: str, queue: ExecutorQueue) -> None:
        self._executor, self._queue = executor, queue

    def start(self, worker: Worker, activation: Activation) -> bool:
        """Hand the upcoming runnable of *worker* to the executor, or queue it; it ends in :func:`end_straight`."""
        run = worker.run
        is_observed = bus.runnable_start or bus.runnable_stop
        if worker.queue.barrier or is_observed or not self._queue.has_room_now:
            queue_upcoming(worker, activation)
            worker.start()
            return False
        worker.upcoming = None
        if run.memory.ready.get(activation.key) is activation:  # else it was removed from the run meanwhile
            runnable = bind(activation, run.memory, run.context)
            runnable.runner = worker.dispatcher.step_runner
            inflight = InFlight(activation, state="executing", runnable=runnable, attempt=Attempt(runnable, None))
            inflight.executor, inflight.is_straight = self._executor, True
            inflight.started = inflight.last_sign = worker.monotonic()
            worker.expect_attempts()
            worker.queue.add_started(inflight)
            self._queue.hand_over(worker, inflight, runnable)
        return False


def end_straight(worker: Worker, inflight: InFlight, outcome: Outcome) -> bool:
    """
    Fold the *outcome* of *inflight*, which was handed over straight, into the run of *worker*.

    Return False if it has to go the usual way: it has failed, has made a large value or was given up, or there is a
    listener.
    """
    activation, inflight.is_straight = inflight.activation, False  # a further attempt is not
    is_here = inflight.state == "executing" and worker.run.memory.ready.get(activation.key) is activation
    if not is_here or bus.runnable_stop or not fold_straight(worker, activation, outcome):
        return False
    worker.queue.move(inflight, "done")
    if worker.observer is not None:
        worker.observer(worker)
    return True


def fold_straight(worker: Worker, activation: Activation, outcome: Outcome) -> bool:
    """Fold the *outcome* of *activation*, which is ready, into the run; return False if it is not a plain one."""
    result, encoded = outcome.result, None
    if outcome.status != "completed" or outcome.receipt is not None or (outcome.added and is_partial(worker.run)):
        return False
    if kind_of(result) not in SHORT and needs_encoding(result) and (encoded := encode_at_once(result)) is None:
        return False
    if encoded is None and activation.node.only_delivers and not outcome.added:  # the usual case
        worker.units += 1
        now, timing = worker.monotonic(), None
        if now >= worker.untimed_until:
            worker.untimed_until, timing = now + ev.PRECISION, ev.Timing(worker.dispatcher.clock.time())
        react(worker.run.memory, activation, result, outcome.attempt, outcome.duration_ns, timing)
    else:
        worker.fold(activation, outcome, encoded)
    return True
