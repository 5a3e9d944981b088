"""
The queue of one executor: attempts wait by priority, then in order, and stay here until their outcome is collected.

More urgent work cannot overtake an attempt that the executor already has.  So the executor gets only enough attempts to
keep its workers busy for a moment: many short steps, which are cheaper to hand over together, or one long step each.

Invariants:

1. An attempt is started only if it is still the current attempt of its runnable, and no policy holds its run.
2. An attempt that only waits for another run lends its slot, so waiting attempts never block the runs they wait for.
3. An error while an attempt is started crashes the worker of its run, and no other.
4. If the last owner of a run has died, the first attempt of the new owner starts when the log names the takeover.  The
   attempt has its place in the executor by then: a run that only waits for a place has not started anything.
5. An attempt under a rate limit takes its turn when a worker of the executor is free for it, and starts at once.
6. A process that is not sure of owning its runs starts nothing; what it would start stays queued.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from weft.core.run.runnable import Outcome, Runnable
from weft.policy.driver import Attempt
from weft.ports.executor import Executor, ImmediateExecutor, LeavingExecutor, LendingExecutor, Ticket
from weft.runner.execution.inflight import InFlight

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker

_MOMENT_NS: Final = 2_000_000
"""Nanoseconds of queued work for each worker of the executor, which keep it busy while the event loop is occupied."""

_tickets = itertools.count(1)


class ExecutorQueue:
    """The runnables that wait for one executor, and those that it has."""

    __slots__ = (
        "_guard",
        "_lent",
        "_mean_ns",
        "_order",
        "_reserved",
        "_running",
        "_workers",
        "executor",
        "is_used",
        "line",
        "may_start",
        "run",
    )

    def __init__(
        self, executor: Executor, guard: Callable[..., None], may_start: Callable[[], bool] | None = None
    ) -> None:
        """
        Create an empty queue.

        Args:
            guard: calls a method of a worker; an exception crashes only that worker.
            may_start: whether anything may be started now; None if nothing but the executor limits that.
        """
        self.executor, self._guard = executor, guard
        self.run = executor.run if isinstance(executor, ImmediateExecutor) else None
        """Executes a runnable while the caller waits, if the executor can; it must not overtake queued attempts."""
        self.line: list[tuple[int, int, Worker, InFlight, Attempt]] = []
        """A heap; an attempt that has waited too long stays in it until it comes first."""
        self.may_start = may_start
        self.is_used = False
        """Whether it has ever had something to do: there is nothing to collect from others."""
        self._order = itertools.count()
        self._running: dict[Ticket, tuple[Worker, InFlight]] = {}
        self._lent: dict[Ticket, int] = {}
        """By ticket whose place others have: for how many waits."""
        self._reserved: set[Ticket] = set()
        """Attempts with a place that start once the log records the takeover of their run."""
        self._workers: int | None = getattr(executor, "max_workers", None)
        self._mean_ns = 1e9  # long, until the first ones have shown otherwise

    @property
    def places_used(self) -> int:
        """How many attempts the executor has, not counting those that only wait for another run."""
        return len(self._running) - len(self._lent)

    @property
    def is_busy(self) -> bool:
        """Whether the executor has an attempt, or one is queued for it."""
        return bool(self._running) or any(not inflight.has_ended for _, _, _, inflight, _ in self.line)

    def submit(self, worker: Worker, inflight: InFlight, attempt: Attempt) -> None:
        """Start the *attempt* of *inflight*, or queue it until there is room."""
        inflight.ticket, self.is_used = 0, True
        if not self.line and self._has_room(attempt):
            self._start(worker, inflight, attempt)
        else:
            heapq.heappush(self.line, (-inflight.priority, next(self._order), worker, inflight, attempt))
            self.serve()

    @property
    def has_room_now(self) -> bool:
        """Whether a plain attempt could start now, and would overtake none."""
        return not self.line and self._has_room()

    def hand_over(self, worker: Worker, inflight: InFlight, runnable: Runnable) -> None:
        """Hand *runnable*, the plain attempt of *inflight*, to the executor, which has room for it."""
        ticket = inflight.ticket = next(_tickets)
        self.is_used, self._running[ticket] = True, (worker, inflight)
        self.executor.submit(ticket, runnable)

    def serve(self) -> None:
        """Start queued attempts while there is room."""
        while self.line and self._has_room(self.line[0][4]):
            _, _, worker, inflight, attempt = heapq.heappop(self.line)
            self._guard(worker, self._start, worker, inflight, attempt)

    def _has_room(self, attempt: Attempt | None = None) -> bool:
        if self.executor.free <= len(self._reserved) or (self.may_start is not None and not self.may_start()):
            return False
        workers = self._workers
        if workers is None:
            return True
        ahead = 0 if attempt is not None and attempt.begins is not None else int(workers * _MOMENT_NS / self._mean_ns)
        return len(self._running) - len(self._lent) < workers + ahead

    def _start(self, worker: Worker, inflight: InFlight, attempt: Attempt) -> None:
        is_due = inflight.state == "executing" or inflight.state == "calling_policy"
        if not is_due or inflight.attempt is not attempt:  # it has waited too long
            return
        barrier = worker.queue.barrier
        if barrier > 0:
            worker.attempts.held(inflight)
            return
        if attempt.begins is not None and not attempt.begins():
            worker.attempts.overtaken(inflight)
            return
        inflight.called = None
        ticket = inflight.ticket = next(_tickets)
        self._running[ticket] = (worker, inflight)
        if barrier:  # it is the first since an owner of the run died
            self._reserved.add(ticket)
            assert worker.taken_over is not None  # noqa: S101 - it has put up the barrier
            name = inflight.activation.node.name
            worker.taken_over.note(name, lambda: self._start_reserved(worker, inflight, attempt))
            return
        worker.attempts.starting(inflight, attempt)
        if inflight.state != "done":  # else a listener has cancelled the run
            self.executor.submit(ticket, inflight.chain or attempt.runnable)

    def _start_reserved(self, worker: Worker, inflight: InFlight, attempt: Attempt) -> None:
        """Start the *attempt*, which has a place, unless it was withdrawn meanwhile."""
        ticket = inflight.ticket
        if ticket not in self._reserved or inflight.attempt is not attempt:
            return
        if not worker.starts:
            worker.attempts.drop(inflight)
            return
        self._reserved.discard(ticket)
        worker.attempts.starting(inflight, attempt)
        if inflight.state != "done":
            self.executor.submit(ticket, inflight.chain or attempt.runnable)

    def pass_on(self, worker: Worker, inflight: InFlight, ticket: Ticket) -> None:
        """Let *inflight*, the link of a chain that runs now, have the *ticket* of the chain."""
        inflight.ticket = ticket
        self._running[ticket] = (worker, inflight)

    def collect(self) -> list[tuple[Worker, InFlight, Outcome]]:
        """Return the attempts that have ended, except those that were withdrawn."""
        found: list[tuple[Worker, InFlight, Outcome]] = []
        for ticket, outcome in self.executor.collect():
            running = self._running.pop(ticket, None)
            if running is not None:
                self._lent.pop(ticket, None)  # it has not waited for its wait to end
                self._mean_ns += 0.1 * (max(outcome.duration_ns, 1) - self._mean_ns)
                found.append((*running, outcome))
        return found

    @property
    def can_leave(self) -> bool:
        """Whether an attempt can be left to the next owner of its run."""
        return isinstance(self.executor, LeavingExecutor)

    def withdraw(self, inflight: InFlight, *, leave: bool = False) -> bool:
        """
        Cancel the attempt of *inflight* if the executor has it; return whether others wait for its slot.

        Args:
            leave: leave it to the next owner of the run, if the executor can do that.
        """
        ticket = inflight.ticket
        if self._running.pop(ticket, None) is None:
            return False
        self._lent.pop(ticket, None)
        if ticket in self._reserved:
            self._reserved.remove(ticket)
        elif leave and isinstance(self.executor, LeavingExecutor):
            self.executor.leave(ticket)
        else:
            self.executor.cancel(ticket)
        return bool(self.line)

    def started(self, inflight: InFlight) -> float | None:
        """Return when the attempt began to run; None if it still waits for a worker."""
        return self.executor.started(inflight.ticket)

    # -- attempts that wait for another run --------------------------------------------------------

    def lend(self, ticket: Ticket) -> bool:
        """Lend the slot of *ticket*, which waits for one more run; return whether that frees a slot."""
        if ticket not in self._running:
            return False
        waits = self._lent[ticket] = self._lent.get(ticket, 0) + 1
        if waits == 1 and isinstance(self.executor, LendingExecutor):
            self.executor.lend(ticket)
        return waits == 1

    def reclaim(self, ticket: Ticket) -> bool:
        """One of the waits of *ticket* is over; return whether it was the last, so that the attempt continues."""
        waits = self._lent.pop(ticket, 0)
        if waits > 1:
            self._lent[ticket] = waits - 1
        elif waits and isinstance(self.executor, LendingExecutor):
            self.executor.reclaim(ticket)
        return waits == 1

    def is_lent(self, inflight: InFlight) -> bool:
        """Whether *inflight* only waits for another run."""
        return inflight.ticket in self._lent
