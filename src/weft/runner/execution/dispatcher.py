"""
What the workers of a runner share: the journal, the executors, timers, limits, and one turn of the loop.

Whatever ends, on whatever thread, wakes the loop once; a turn then collects all that has ended, hands it to the
workers it belongs to, and lets each of them go on.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import random
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from weft.calling import is_ctrl_c
from weft.core.plan.node import Node
from weft.core.plan.plan import Plan
from weft.core.run.child import Family
from weft.core.run.runnable import Outcome, Runnable
from weft.errors import InvalidPolicy
from weft.policy.driver import Attempt
from weft.policy.policy import Policy
from weft.policy.policy_table import PolicyTable
from weft.ports.clock import Clock
from weft.ports.counters import Counters
from weft.ports.executor import Executor, ImmediateExecutor, LendingExecutor
from weft.runner.durability.journal import Journal
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.limit_queue import LimitQueues
from weft.telemetry import bus

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker

_log = logging.getLogger("weft.runner")


class Dispatcher:
    """The machinery behind the workers of one runner."""

    def __init__(
        self,
        *,
        journal: Journal,
        executors: Mapping[str, Executor],
        clock: Clock,
        counters: Counters,
        crashed: Callable[[Worker, BaseException], None],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.journal, self.executors, self.clock, self.counters, self.draw = journal, executors, clock, counters, draw
        self.loop = asyncio.get_running_loop()
        self.monotonic: Callable[[], float] = self.loop.time
        self.is_closing = False
        self.family: Family | None = None
        """Starts the children of steps."""
        self._crashed = crashed
        self._thread = threading.get_ident()
        self._tickets = itertools.count(1)
        self._order = itertools.count()
        self._aloft: dict[int, tuple[Worker, InFlight]] = {}
        """By ticket: what is with an executor."""
        self._queues = {name: ExecutorQueue(executor) for name, executor in executors.items()}
        self._at_once = {name: each.run for name, each in executors.items() if isinstance(each, ImmediateExecutor)}
        self._lent: dict[int, int] = {}
        """By ticket whose place others have: for how many waits."""
        self._used: list[ExecutorQueue] = []
        """Those that have ever had something to do: there is nothing to collect from the others."""
        self.limit_queues = LimitQueues(self)
        self._is_awake = self._is_due = False
        """Whether something has ended, and whether the loop will come round to it."""
        journal.afterwards = self.turn
        self._tables: WeakKeyDictionary[Plan, tuple[Any, PolicyTable]] = WeakKeyDictionary()

    @property
    def is_busy(self) -> bool:
        """Whether an executor has something, or something stands in line for one."""
        waiting = (inflight for queue in self._queues.values() for _, _, _, inflight, _ in queue.line)
        return bool(self._aloft) or any(not inflight.has_ended for inflight in waiting)

    def open(self) -> None:
        """Get the executors ready."""
        for executor in self.executors.values():
            executor.open(self.wake)

    # -- turns -----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something has ended; called from any thread."""
        if threading.get_ident() == self._thread:
            self._awake()
        else:
            try:
                self.loop.call_soon_threadsafe(self._woken)
            except RuntimeError:  # the loop is closed: nobody is left to tell
                _log.debug("something ended after its runner had closed")

    def _awake(self) -> None:
        self._is_awake = True
        if not self._is_due and not self.journal.is_telling:
            self._is_due = True
            self.loop.call_soon(self._come_round)

    def _woken(self) -> None:
        """Something has ended on another thread, for which the loop has come round."""
        self._is_awake = True
        self.turn()

    def _come_round(self) -> None:
        self._is_due = False
        self.turn()

    def turn(self) -> None:
        """Hand what has ended to its workers, and start what waited for a place; nothing if nothing has ended."""
        if self._is_awake:
            self._is_awake = False
            self.collect()
            self._start_waiting()

    def collect(self) -> None:
        """Hand what has ended to its workers."""
        touched: dict[Worker, None] = {}
        for queue in self._used:
            for ticket, outcome in queue.executor.collect():
                found = self._aloft.pop(ticket, None)
                if found is not None:
                    worker, inflight = found
                    touched[worker] = None
                    if self._lent and self._lent.pop(ticket, None) is not None:  # it has not waited for its wait to end
                        queue.aloft += 1
                    queue.landed(outcome.duration_ns)
                    try:
                        worker.attempts.landed(inflight, outcome)
                    except BaseException as error:  # noqa: BLE001 - as in guard(), without a call for each of many
                        self.blame(worker, error)
        for worker in touched:
            try:
                worker.turn()
            except BaseException as error:  # noqa: BLE001 - as in guard(), without a call for each of many
                self.blame(worker, error)

    def guard(self, worker: Worker, call: Callable[..., object], *args: object) -> None:
        """Call something of *worker*; what it raises is its crash and nobody else's."""
        try:
            call(*args)
        except BaseException as error:  # noqa: BLE001 - a worker that crashes is rebuilt, the others go on
            self.blame(worker, error)

    def blame(self, worker: Worker, error: BaseException) -> None:
        """*worker* has raised *error*: also what would end a program ends this worker alone."""
        if is_ctrl_c(error):
            raise error
        self._crashed(worker, error)

    # -- executors -------------------------------------------------------------------------------

    def submit(self, worker: Worker, inflight: InFlight) -> None:
        """Start *flight*, or let it stand in line until its executor has a place."""
        inflight.ticket = 0
        queue = self._queues[inflight.executor]
        if not queue.is_used:
            queue.is_used = True
            self._used.append(queue)
        if not queue.line and queue.has_room():
            self._start(queue, worker, inflight, inflight.attempt)
        else:
            heapq.heappush(queue.line, (-inflight.priority, next(self._order), worker, inflight, inflight.attempt))
            self._serve(queue)

    def run_at_once(self, worker: Worker, inflight: InFlight, runnable: Runnable) -> Outcome | None:
        """
        Return what came of *flight*, which no policy is about, if it is to run here and now: it needs no ticket.

        Nobody who stands in line for the executor is overtaken.
        """
        node = runnable.node
        executor = "inline" if node.is_test or node.is_fan else worker.options.executor
        run = self._at_once.get(executor)
        if run is None or node.is_async or self._queues[executor].line:
            return None
        runnable.family, inflight.executor = self.family, executor
        if bus.runnable_start or worker.options.hooks is not None:
            worker.report.started(inflight, self.clock.time)
            if inflight.state == "done":  # a listener has cancelled the run
                return None
        return run(runnable)

    def _start_waiting(self) -> None:
        for queue in self._used:
            if queue.line:
                self._serve(queue)

    def _serve(self, queue: ExecutorQueue) -> None:
        line = queue.line
        while line and queue.has_room():
            _, _, worker, inflight, attempt = heapq.heappop(line)
            self._start(queue, worker, inflight, attempt)

    def _start(self, queue: ExecutorQueue, worker: Worker, inflight: InFlight, attempt: Attempt | None) -> None:
        is_due = inflight.state == "executing" or inflight.state == "calling_policy"
        if not is_due or attempt is None or inflight.attempt is not attempt:  # it has waited too long
            return
        if worker.is_held:
            worker.send_back(inflight)
            return
        try:
            ticket = inflight.ticket = next(self._tickets)
            self._aloft[ticket] = (worker, inflight)
            queue.aloft += 1
            worker.attempts.taking_off(inflight)
            if inflight.state != "done":  # else a listener has cancelled the run
                queue.executor.submit(ticket, attempt.runnable)
        except BaseException as error:  # noqa: BLE001 - as in guard(), without a call for each of many
            self.blame(worker, error)

    def withdraw(self, inflight: InFlight) -> None:
        """Lose interest in the attempt that is under way."""
        inflight.disarm()
        if self._aloft.pop(inflight.ticket, None) is not None:
            queue = self._queues[inflight.executor]
            if self._lent.pop(inflight.ticket, None) is None:
                queue.aloft -= 1
            queue.executor.cancel(inflight.ticket)
            if queue.line and not self.is_closing:  # somebody else may have the place
                self._awake()

    def lend(self, inflight: InFlight) -> int:
        """Let others have the place of *flight*, which waits for another run; return what to :meth:`reclaim`."""
        ticket, queue = inflight.ticket, self._queues[inflight.executor]
        inflight.last_sign = self.monotonic()
        if ticket in self._aloft:
            waits = self._lent[ticket] = self._lent.get(ticket, 0) + 1
            if waits == 1:
                queue.lend(ticket)
                self._awake()
        return ticket

    def reclaim(self, inflight: InFlight, ticket: int) -> None:
        """One of the waits of *flight* is over; nothing happens if the attempt is."""
        waits = self._lent.pop(ticket, 0)
        if waits > 1:
            self._lent[ticket] = waits - 1
        elif waits:
            inflight.last_sign = self.monotonic()
            self._queues[inflight.executor].reclaim(ticket)

    def is_lent(self, inflight: InFlight) -> bool:
        """Whether *flight* only waits for another run."""
        return inflight.ticket in self._lent

    def started(self, inflight: InFlight) -> float | None:
        """Return when the attempt began to run; None if it still waits for a worker."""
        return self.executors[inflight.executor].started(inflight.ticket)

    # -- time and limits -------------------------------------------------------------------------

    def later(self, seconds: float, worker: Worker, call: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        """Call something of *worker* after *seconds*."""
        return self.loop.call_later(max(0.0, seconds), self.guard, worker, call, *args)

    def table(self, plan: Plan, rules: tuple[Any, ...]) -> PolicyTable:
        """
        Return what *rules* say of the nodes of *plan*; worked out once for all runs that share both.

        Raises:
            InvalidPolicy: a policy that this runner cannot keep.
        """
        known = self._tables.get(plan)
        if known is None or known[0] is not rules:
            known = self._tables[plan] = (rules, PolicyTable(plan.nodes.values(), rules, partial(self._check_in, plan)))
        return known[1]

    def _check_in(self, plan: Plan, component: str, policy: Policy) -> None:
        self.check(plan.nodes[component], policy)

    def check(self, node: Node, policy: Policy, executor: str | None = None) -> None:
        """
        Refuse what this runner cannot keep; *executor* is where plain functions run if the policy does not say.

        Raises:
            InvalidPolicy: the policy of *node* asks for it.
        """
        component, where = node.name, policy.executor or executor
        is_plain = not (node.is_async or node.is_test or node.is_fan)
        if policy.execution_mode == "external":
            raise InvalidPolicy(
                f"the policy of {component!r} says execution_mode='external', which needs an inbox for what comes from "
                "outside, and this runner has none"
            )
        if policy.executor is not None and policy.executor not in self.executors:
            known = ", ".join(map(repr, self.executors))
            raise InvalidPolicy(
                f"the policy of {component!r} says executor={policy.executor!r}; this runner has {known}"
            )
        if is_plain and where == "async":
            raise InvalidPolicy(
                f"the policy of {component!r} says executor='async', where a plain function would hold up all runs; "
                "make it a coroutine function, or use 'thread'"
            )
        if is_plain and policy.heartbeat is not None and where == "inline":
            raise InvalidPolicy(
                f"the policy of {component!r} wants heartbeats from executor 'inline', where nobody can listen; "
                "use timeout=, or executor='thread'"
            )


class ExecutorQueue:
    """
    Where flights wait for one executor: by priority, then in order.

    What an executor holds can no longer be overtaken, so it is given only as much as its workers need to be busy for
    a moment: many short steps, whose hand-over is cheapest in numbers, or one long step each.
    """

    __slots__ = ("_mean_ns", "_workers", "aloft", "executor", "is_used", "line")

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.line: list[tuple[int, int, Worker, InFlight, Attempt | None]] = []
        """A heap."""
        self.aloft = 0
        self.is_used = False
        self._workers: int | None = getattr(executor, "max_workers", None)
        self._mean_ns = 1e9  # long, until the first ones have shown otherwise

    def has_room(self) -> bool:
        """Whether another one may be handed over."""
        if self.executor.free <= 0:
            return False
        workers = self._workers
        return workers is None or self.aloft < workers + int(workers * _MOMENT_NS / self._mean_ns)

    def lend(self, ticket: int) -> None:
        """What has *ticket* waits for another run."""
        self.aloft -= 1
        if isinstance(self.executor, LendingExecutor):
            self.executor.lend(ticket)

    def reclaim(self, ticket: int) -> None:
        """It goes on."""
        self.aloft += 1
        if isinstance(self.executor, LendingExecutor):
            self.executor.reclaim(ticket)

    def landed(self, duration_ns: int) -> None:
        """One that took so long has ended."""
        self.aloft -= 1
        self._mean_ns += 0.1 * (max(duration_ns, 1) - self._mean_ns)


_MOMENT_NS = 2_000_000
"""For how long the workers of an executor should have work without the loop."""
