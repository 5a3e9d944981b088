"""
The dispatcher that the workers of a runner share: the journal, the executors, timers and limits.

An attempt that ends, on any thread, wakes the event loop once.  A *turn* then collects everything that has ended, hands
each outcome to its worker, and lets these workers continue.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from weft.calling import is_ctrl_c
from weft.core.run.child import StepRunner
from weft.core.run.runnable import Outcome
from weft.errors import RunnerClosed
from weft.ports.clock import Clock
from weft.ports.counters import Counters
from weft.ports.executor import Executor, ImmediateExecutor, Ticket
from weft.ports.scheduler import Scheduler
from weft.ports.store import LogStore, SnapshotStore
from weft.ports.transactions import TransactionalStore
from weft.runner.durability.journal import Journal
from weft.runner.durability.residency import Residency
from weft.runner.execution.dangers import Dangers
from weft.runner.execution.executor_queue import ExecutorQueue
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.limit_queue import LimitQueues
from weft.runner.execution.policies import policy_tables
from weft.runner.execution.rate_queue import RateQueues
from weft.runner.execution.straight_lane import IN_A_ROW, HandOverLane, Lane, Lanes, StraightLane
from weft.runner.execution.timeouts import Timeouts
from weft.runner.execution.timers import Timers
from weft.runner.execution.transactions import StepTransactions

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker

_log = logging.getLogger("weft.runner")
_numbers = itertools.count(1)

QUEUE: Final = "queue"
"""The name of the executor of steps that any worker of a fleet may run."""


class Dispatcher:
    """Takes attempts to executors, and their outcomes to the workers of one runner."""

    loop: asyncio.AbstractEventLoop
    monotonic: Callable[[], float]
    step_runner: StepRunner
    """Starts the children of steps; set by the runtime, since it needs the workers of this dispatcher."""
    _thread: int

    def __init__(
        self,
        *,
        store: LogStore,
        executors: Mapping[str, Executor],
        clock: Clock,
        counters: Counters,
        worker_of: Callable[[str], Worker | None],
        drop_finished: Callable[[], bool],
        draw: Callable[[], float] = random.random,
        scheduler: Scheduler | None = None,
        memory_budget: int | None = None,
        may_start: Callable[[], bool] | None = None,
        spreads: Callable[[Worker, InFlight], bool] | None = None,
    ) -> None:
        """
        Take the attempts of all workers to *executors*.

        Args:
            worker_of: returns the worker of a run, if the run is here.
            drop_finished: forgets the run that has finished first of those that are kept; returns False if there is
                none.
            may_start: whether attempts may start now; :meth:`wake` goes on when they may again.
            spreads: whether any worker of the fleet may run what has a queue; None without a fleet.
        """
        self.clock, self.counters, self.draw = clock, counters, draw
        self.scheduler = scheduler
        """Groups runnables; None if each goes out by itself."""
        self.is_volatile = not getattr(store, "is_durable", True)
        """Whether the store does not outlive this process."""
        is_seen = not self.is_volatile or getattr(store, "sees_every_commit", False)
        self.in_a_row = 1 if is_seen else IN_A_ROW
        """How many steps of a chain are written together: several, if there is nothing durable that they wait for."""
        self.new_secret: Callable[[], str] = partial(secrets.token_urlsafe, 24)
        """Returns the secret part of a token for an external step."""
        self.number = next(_numbers)
        """The number of the runner in this process."""
        self.journal = Journal(store, clock.time, self.turn)
        self.has_snapshots = isinstance(store, SnapshotStore)
        """Whether the store keeps snapshots."""
        self.transactions = StepTransactions(store, self) if isinstance(store, TransactionalStore) else None
        """The transactions of steps; None if the store has none."""
        self.is_open = self.is_closing = False
        self.queues = {name: ExecutorQueue(executor, self.guard, may_start) for name, executor in executors.items()}
        """By name of the executor."""
        lanes: dict[str, Lane] = {
            name: StraightLane(name, queue, queue.executor)
            if isinstance(queue.executor, ImmediateExecutor)
            else HandOverLane(name, queue)
            for name, queue in self.queues.items()
            if scheduler is None or isinstance(queue.executor, ImmediateExecutor)
        }
        self.lanes: dict[str, Lanes] = {name: (None, lanes.get(name), lanes.get("inline")) for name in self.queues}
        """By executor of a run: where a lone runnable starts; a scheduler may group those for other executors."""
        self.spreads = spreads
        """Whether any worker of the fleet may run what has a queue; None without a fleet."""
        self.limit_queues, self.rate_queues, self.timeouts = LimitQueues(self), RateQueues(self), Timeouts(self)
        self.timers = Timers(self)
        """The timers of what waits in runs."""
        self.dangers = Dangers(self, store, worker_of)
        """The deadlines that are in danger."""
        self.residency = Residency(store, self.timers, clock.time, memory_budget, drop_finished)
        """Counts the values of the runs that are in memory."""
        self.policy_tables = policy_tables(executors)
        """By name of the executor that the plain functions of a run are for."""
        self._is_awake = self._is_due = False
        """Whether something has ended, and whether the loop will process it."""

    @property
    def is_busy(self) -> bool:
        """Whether an attempt is with an executor, or queued for one."""
        return any(queue.is_busy for queue in self.queues.values())

    def open(self) -> None:
        """Open the executors and the journal in the running event loop."""
        self.loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        is_usual = type(self.loop).time is asyncio.BaseEventLoop.time  # the same clock, without a call of Python code
        self.monotonic = time.monotonic if is_usual else self.loop.time
        if not is_usual:  # virtual time, which is not set by a person
            self.timers.nap = math.inf
        for queue in self.queues.values():
            queue.executor.open(self.wake)
        self.journal.open()
        self.is_open = True

    def check_open(self) -> None:
        """
        Refuse new work unless the runner is open.

        Raises:
            RunnerClosed: it is not.
        """
        if not self.is_open or self.is_closing:
            raise RunnerClosed(again=self.is_closing)

    def guard(self, worker: Worker, call: Callable[..., object], *args: object) -> None:
        """Call a method of *worker*; any exception of it, even ``SystemExit``, is a crash of this worker."""
        try:
            call(*args)
        except BaseException as error:  # noqa: BLE001 - it is handled there
            self.crashed(worker, error)

    @staticmethod
    def crashed(worker: Worker, error: BaseException) -> None:
        """*worker* has raised *error*: let its owner rebuild it, unless that is a Ctrl-C."""
        if is_ctrl_c(error):
            raise error
        worker.owner.crashed(worker, error)

    # -- turns -----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something has ended; called from any thread."""
        if threading.get_ident() == self._thread:
            self._awake()
        else:
            try:
                self.loop.call_soon_threadsafe(self._woken)
            except RuntimeError:  # the loop is closed: there is nothing left to tell
                _log.debug("something ended after its runner had closed")

    def _awake(self) -> None:
        self._is_awake = True
        if not self._is_due and not self.journal.is_telling:
            self._is_due = True
            self.loop.call_soon(self._due_turn)

    def _woken(self) -> None:
        """Process what has ended on another thread; called in the event loop."""
        self._is_awake = True
        self.turn()

    def _due_turn(self) -> None:
        self._is_due = False
        self.turn()

    def turn(self) -> None:
        """Hand the attempts that have ended, if any, to their workers, and start those that waited for a slot."""
        if self._is_awake:
            self._is_awake = False
            self.collect()
            for queue in self.queues.values():
                if queue.line:
                    queue.serve()

    def collect(self) -> None:
        """Hand the attempts that have ended to their workers, and let these continue."""
        ended: dict[Worker, list[tuple[InFlight, Outcome]]] = {}
        for queue in self.queues.values():
            if queue.is_used:
                for worker, inflight, outcome in queue.collect():
                    ended.setdefault(worker, []).append((inflight, outcome))
        for worker, attempts in ended.items():
            self.guard(worker, worker.ended, attempts)

    # -- attempts --------------------------------------------------------------------------------

    def withdraw(self, inflight: InFlight, *, leave: bool = False) -> None:
        """Cancel the attempt of *inflight*, or *leave* it to the next owner of its run; its outcome is dropped."""
        inflight.disarm()
        if inflight.ticket and self.queues[inflight.executor].withdraw(inflight, leave=leave) and not self.is_closing:
            self._awake()  # another one may have the place

    def started(self, inflight: InFlight) -> float | None:
        """Return when the attempt began to run; None if it still waits for a worker."""
        return self.queues[inflight.executor].started(inflight) if inflight.executor else None

    def lend(self, inflight: InFlight) -> Ticket:
        """Lend the slot of *inflight*, which waits for another run; return what to :meth:`reclaim`."""
        inflight.last_sign = self.monotonic()
        if self.queues[inflight.executor].lend(inflight.ticket):
            self._awake()
        return inflight.ticket

    def reclaim(self, inflight: InFlight, ticket: Ticket) -> None:
        """One of the waits of *inflight* is over; do nothing if the attempt has ended."""
        if self.queues[inflight.executor].reclaim(ticket):
            inflight.last_sign = self.monotonic()

    def is_left(self, inflight: InFlight) -> bool:
        """Whether another owner of the run could have the outcome of *inflight*, so that this one need not wait."""
        return inflight.executor in self.queues and self.queues[inflight.executor].can_leave

    def is_lent(self, inflight: InFlight) -> bool:
        """Whether *inflight* only waits for another run."""
        return inflight.ticket != 0 and self.queues[inflight.executor].is_lent(inflight)
