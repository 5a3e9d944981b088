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
from weft.runner.execution.inflight import Flight
from weft.runner.execution.limit_queue import Turnstiles
from weft.telemetry import bus

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker

_log = logging.getLogger("weft.runner")


class Office:
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
        self._aloft: dict[int, tuple[Worker, Flight]] = {}
        """By ticket: what is with an executor."""
        self._desks = {name: _Desk(executor) for name, executor in executors.items()}
        self._at_once = {name: each.run for name, each in executors.items() if isinstance(each, ImmediateExecutor)}
        self._lent: dict[int, int] = {}
        """By ticket whose place others have: for how many waits."""
        self._used: list[_Desk] = []
        """Those that have ever had something to do: there is nothing to collect from the others."""
        self.turnstiles = Turnstiles(self)
        self._is_awake = self._is_due = False
        """Whether something has ended, and whether the loop will come round to it."""
        journal.afterwards = self.turn
        self._tables: WeakKeyDictionary[Plan, tuple[Any, PolicyTable]] = WeakKeyDictionary()

    @property
    def is_busy(self) -> bool:
        """Whether an executor has something, or something stands in line for one."""
        waiting = (flight for desk in self._desks.values() for _, _, _, flight, _ in desk.line)
        return bool(self._aloft) or any(not flight.is_over for flight in waiting)

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
        for desk in self._used:
            for ticket, outcome in desk.executor.collect():
                found = self._aloft.pop(ticket, None)
                if found is not None:
                    worker, flight = found
                    touched[worker] = None
                    if self._lent and self._lent.pop(ticket, None) is not None:  # it has not waited for its wait to end
                        desk.aloft += 1
                    desk.landed(outcome.duration_ns)
                    try:
                        worker.pilot.landed(flight, outcome)
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

    def submit(self, worker: Worker, flight: Flight) -> None:
        """Start *flight*, or let it stand in line until its executor has a place."""
        desk = self._desks[flight.executor]
        if not desk.is_used:
            desk.is_used = True
            self._used.append(desk)
        if not desk.line and desk.has_room():
            self._start(desk, worker, flight, flight.attempt)
        else:
            heapq.heappush(desk.line, (-flight.priority, next(self._order), worker, flight, flight.attempt))
            self._serve(desk)

    def run_at_once(self, worker: Worker, flight: Flight, runnable: Runnable) -> Outcome | None:
        """
        Return what came of *flight*, which no policy is about, if it is to run here and now: it needs no ticket.

        Nobody who stands in line for the executor is overtaken.
        """
        node = runnable.node
        executor = "inline" if node.is_test or node.is_fan else worker.options.executor
        run = self._at_once.get(executor)
        if run is None or node.is_async or self._desks[executor].line:
            return None
        runnable.family, flight.executor, flight.is_aloft = self.family, executor, True
        if bus.runnable_start or worker.options.hooks is not None:
            worker.report.started(flight, self.clock.time)
            if flight.is_over:  # somebody who was told of it has cancelled its run
                return None
        return run(runnable)

    def _start_waiting(self) -> None:
        for desk in self._used:
            if desk.line:
                self._serve(desk)

    def _serve(self, desk: _Desk) -> None:
        line = desk.line
        while line and desk.has_room():
            _, _, worker, flight, attempt = heapq.heappop(line)
            self._start(desk, worker, flight, attempt)

    def _start(self, desk: _Desk, worker: Worker, flight: Flight, attempt: Attempt | None) -> None:
        if flight.is_over or attempt is None or flight.attempt is not attempt:  # it has waited too long
            return
        if worker.is_held:
            worker.send_back(flight)
            return
        try:
            ticket = flight.ticket = next(self._tickets)
            self._aloft[ticket] = (worker, flight)
            desk.aloft += 1
            worker.pilot.taking_off(flight)
            if not flight.is_over:  # else somebody who was told of it has cancelled its run
                desk.executor.submit(ticket, attempt.runnable)
        except BaseException as error:  # noqa: BLE001 - as in guard(), without a call for each of many
            self.blame(worker, error)

    def abandon(self, flight: Flight) -> None:
        """Lose interest in *flight*."""
        flight.is_over = True
        self.withdraw(flight)

    def withdraw(self, flight: Flight) -> None:
        """Lose interest in the attempt that is under way."""
        flight.disarm()
        if self._aloft.pop(flight.ticket, None) is not None:
            desk = self._desks[flight.executor]
            if self._lent.pop(flight.ticket, None) is None:
                desk.aloft -= 1
            desk.executor.cancel(flight.ticket)
            if desk.line and not self.is_closing:  # somebody else may have the place
                self._awake()

    def lend(self, flight: Flight) -> int:
        """Let others have the place of *flight*, which waits for another run; return what to :meth:`reclaim`."""
        ticket, desk = flight.ticket, self._desks[flight.executor]
        flight.last_sign = self.monotonic()
        if ticket in self._aloft:
            waits = self._lent[ticket] = self._lent.get(ticket, 0) + 1
            if waits == 1:
                desk.lend(ticket)
                self._awake()
        return ticket

    def reclaim(self, flight: Flight, ticket: int) -> None:
        """One of the waits of *flight* is over; nothing happens if the attempt is."""
        waits = self._lent.pop(ticket, 0)
        if waits > 1:
            self._lent[ticket] = waits - 1
        elif waits:
            flight.last_sign = self.monotonic()
            self._desks[flight.executor].reclaim(ticket)

    def is_lent(self, flight: Flight) -> bool:
        """Whether *flight* only waits for another run."""
        return flight.ticket in self._lent

    def is_started(self, flight: Flight) -> bool:
        """Whether an executor has *flight*, with a ticket or at once."""
        return flight.ticket in self._aloft or (flight.is_aloft and flight.attempt is None)

    def started(self, flight: Flight) -> float | None:
        """Return when the attempt began to run; None if it still waits for a worker."""
        return self.executors[flight.executor].started(flight.ticket)

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


class _Desk:
    """
    Where flights wait for one executor: by priority, then in order.

    What an executor holds can no longer be overtaken, so it is given only as much as its workers need to be busy for
    a moment: many short steps, whose hand-over is cheapest in numbers, or one long step each.
    """

    __slots__ = ("_mean_ns", "_workers", "aloft", "executor", "is_used", "line")

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.line: list[tuple[int, int, Worker, Flight, Attempt | None]] = []
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
