"""
Where runnables are executed.

An executor only runs.  It decides nothing and knows no policy, no retry, no log: it is given a runnable under a
ticket, and gives back the outcome under that ticket.  The life of a ticket:

    submit ──► waiting ──► running ──► ended ──► collected
                  │           │          │
                  └───────────┴──────────┴──► cancelled, or given up by close

What always holds:

1. Every ticket ends once: its outcome is collected, or it was cancelled, or ``close`` names it.
2. Whatever a step raises is a failed outcome.  No step ends a worker, a thread, a loop or the process.
3. At most ``capacity`` tickets are inside; one leaves when it is collected or cancelled.  Nothing queues beyond.
4. ``wake`` follows whenever there is something to collect or a place has become free, and is then not called
   again before ``collect``.
5. No step sees the context variables that another one has set; within this process, all see those of whoever
   opened the executor.

All methods are called from one thread, that of the event loop in which the executor was opened; ``wake`` is
called from any.  Tickets are never used twice.

Implementing one?  Subclass nothing.  Match :class:`Executor`, then run
``weft.testing.contracts.executor.ExecutorContract`` against it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from weft.core.run.runnable import Outcome, Runnable

Ticket = int
"""What the owner calls a piece of work; never used twice with one executor."""


class Executor(Protocol):
    """Runs what it is given, up to a bound, and says what came of it."""

    @property
    def free(self) -> int:
        """How many more tickets it takes now; none once it was closed."""
        ...

    def open(self, wake: Callable[[], None]) -> None:
        """
        Get ready, inside the event loop that will own this executor; an executor is opened once.

        Args:
            wake: called from any thread when there is something to collect or room again; returns at once, and
                raises nothing.

        Raises:
            ExecutorClosed: it was open before.
        """
        ...

    def submit(self, ticket: Ticket, runnable: Runnable) -> None:
        """
        Run *runnable* as soon as there is a worker for it.

        Raises:
            ExecutorFull: ``free`` is 0; collect first.
            ExecutorClosed: it is not open.
            ThreadsExhausted: every thread it may start hangs in a step that was cancelled.
        """
        ...

    def started(self, ticket: Ticket) -> float | None:
        """
        Return when *ticket* began to run, by ``time.monotonic``; None while it waits, and after it has ended.

        A timeout counts from here: time spent waiting for a worker is not the step's.
        """
        ...

    def collect(self) -> list[tuple[Ticket, Outcome]]:
        """Return what has ended since last asked, in the order in which it ended; may be empty."""
        ...

    def cancel(self, ticket: Ticket) -> None:
        """
        Lose interest in *ticket*: it will not be collected, also if it has ended already.

        What waits is not started.  Of what runs, a coroutine is cancelled, a process killed, and a thread,
        which nothing can stop, left behind.  A ticket that is not inside is ignored.
        """
        ...

    async def close(self, grace: float) -> list[Ticket]:
        """
        Start nothing more, wait up to *grace* seconds for what runs, then cancel it; return what did not end.

        What has ended meanwhile can still be collected, and what is cancelled meanwhile is not waited for.  What could
        not be stopped never delays the exit of the process.  Closing again does nothing.
        """
        ...


@runtime_checkable
class ImmediateExecutor(Executor, Protocol):
    """An executor that can also run something while its owner waits: what needs no ticket is spared one."""

    def run(self, runnable: Runnable) -> Outcome:
        """
        Run *runnable*, and return what came of it; invariants 2 and 5 hold, no ticket is inside.

        Raises:
            ExecutorClosed: it is not open.
        """
        ...


@runtime_checkable
class LendingExecutor(Executor, Protocol):
    """
    An executor that knows of attempts that only wait, for another run that may need their place.

    What is lent counts neither as a worker nor against ``capacity``; all else that can become of a ticket can become
    of one whose place is lent.
    """

    def lend(self, ticket: Ticket) -> None:
        """Let others have the place of *ticket*, which runs, until it is reclaimed; ignored if it does not run."""
        ...

    def reclaim(self, ticket: Ticket) -> None:
        """Count *ticket* again: it goes on, at once, if need be as one more than there are places."""
        ...
