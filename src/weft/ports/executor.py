"""
The protocol of executors, which run runnables.

An executor only runs.  It decides nothing and knows nothing about policies, retries or logs: it receives a runnable
under a ticket, and returns the outcome under that ticket.  The states of a ticket:

    submit ──► waiting ──► running ──► ended ──► collected
                  │           │          │
                  └───────────┴──────────┴──► cancelled, or abandoned by close

Invariants:

1. Every ticket ends once: its outcome is collected, or it is cancelled, or ``close`` returns it.
2. An exception of any kind is a failed outcome.  No step ends a worker, a thread, a loop or the process.
3. At most ``capacity`` tickets are inside; one leaves when it is collected or cancelled.  Nothing queues beyond.
4. ``wake`` is called whenever there is something to collect or a slot has become free, and then not again before
   ``collect``.
5. No step sees the context variables that another one has set; within this process, all see those of the caller
   of ``open``.
6. The ``entries`` of a runnable are called right before its function, where it runs and in the same context.
   ``runnable.call()`` does that; an executor that sends the function elsewhere sends them too, if they can be pickled.

An executor that calls functions in this process can say so, with an attribute ``in_process = True``: then a scheduler
may group runnables for it, and the runner hands it the group as one runnable, whose outcomes it reads in memory.

All methods are called from one thread, that of the event loop in which the executor was opened; ``wake`` is
called from any thread.  Tickets are never used twice.

To write an executor, implement :class:`Executor` without subclassing it, then run
``weft.testing.contracts.executor.ExecutorContract`` against it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from weft.core.run.runnable import Outcome, Runnable

Ticket = int
"""The number by which the owner knows a piece of work; never used twice with one executor."""


class Executor(Protocol):
    """Runs a bounded number of runnables, and returns their outcomes."""

    @property
    def free(self) -> int:
        """How many more tickets it accepts now; 0 once it is closed."""
        ...

    def open(self, wake: Callable[[], None]) -> None:
        """
        Open it, inside the event loop that will own this executor; an executor is opened once.

        Args:
            wake: called from any thread when there is something to collect or a slot is free again; returns at once,
                and raises nothing.

        Raises:
            ExecutorClosed: it was open before.
        """
        ...

    def submit(self, ticket: Ticket, runnable: Runnable) -> None:
        """
        Run *runnable* as soon as a worker is free.

        Raises:
            ExecutorFull: ``free`` is 0; collect first.
            ExecutorClosed: it is not open.
            ThreadsExhausted: every thread it may start hangs in a step that was cancelled.
        """
        ...

    def started(self, ticket: Ticket) -> float | None:
        """
        Return when *ticket* began to run, by ``time.monotonic``; None while it waits, and after it has ended.

        If it runs elsewhere, this is when this process learnt of it.

        A timeout counts from here: time spent waiting for a worker does not count.
        """
        ...

    def collect(self) -> list[tuple[Ticket, Outcome]]:
        """Return the outcomes since the last call, in the order in which they ended; may be empty."""
        ...

    def cancel(self, ticket: Ticket) -> None:
        """
        Drop *ticket*: it will not be collected, even if it has already ended.

        A waiting ticket is not started.  A running coroutine is cancelled, a process is killed, and a thread, which
        cannot be stopped, is abandoned.  A ticket that is not inside is ignored.
        """
        ...

    async def close(self, grace: float) -> list[Ticket]:
        """
        Start nothing more, wait up to *grace* seconds for running tickets, cancel the rest, and return those.

        Tickets that end meanwhile can still be collected, and those that are cancelled meanwhile are not waited for.
        Work that cannot be stopped never delays the exit of the process.  Closing again does nothing.
        """
        ...


@runtime_checkable
class ImmediateExecutor(Executor, Protocol):
    """An executor that can also run something while its owner waits, without a ticket."""

    def run(self, runnable: Runnable) -> Outcome:
        """
        Run *runnable*, and return its outcome; invariants 2 and 5 hold, and no ticket is used.

        Raises:
            ExecutorClosed: it is not open.
        """
        ...


@runtime_checkable
class LendingExecutor(Executor, Protocol):
    """
    An executor whose attempts can lend their slot while they wait for another run, which may need it.

    A ticket whose slot is lent counts neither as a worker nor against ``capacity``; otherwise it is like any other.
    """

    def lend(self, ticket: Ticket) -> None:
        """Lend the slot of *ticket*, which is running, until it is reclaimed; ignored if it is not running."""
        ...

    def reclaim(self, ticket: Ticket) -> None:
        """Count *ticket* again: it continues at once, if necessary as one more than there are slots."""
        ...


@runtime_checkable
class LeavingExecutor(Executor, Protocol):
    """
    An executor that another process can take over from: it keeps its work where other processes find it.

    Its outcomes have a receipt; the log keeps an outcome and ends the receipt in one transaction.
    """

    def leave(self, ticket: Ticket) -> None:
        """
        Forget *ticket*, which goes on: the next owner of its run submits the same runnable, and gets its outcome.

        A ticket that is not inside is ignored.
        """
        ...
