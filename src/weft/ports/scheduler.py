"""
The protocol of schedulers, which group runnables.

A scheduler is asked one question, when a runnable is about to be handed to its executor: how many of the components
that would follow it go out with it, in one hand-over.  The runner asks only where that makes no difference to results,
isolation or durability (``docs/adr/0039-schedulers-group.md``); a scheduler decides what is worth it.

Invariants, which hold whatever a scheduler answers:

1. Every component runs as often as without it, on the same values, in an order that could have happened without it.
2. An answer below 1 counts as 1, and one above the number of components as all of them.
3. A scheduler that raises counts as one that answers 1.

To write one, implement :class:`Scheduler` without subclassing it, then run
``weft.testing.SchedulerContract`` against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Scheduler(Protocol):
    """Says how many runnables go to an executor together."""

    def group(self, components: Sequence[str]) -> int:
        """
        Return how many of *components* go out together, counted from the first.

        It is called in the event loop of the runner, for many runs, and must return at once; the same question should
        get the same answer.

        Args:
            components: the names of two or more components, the first of which is ready; each of the others runs on
                the value of the one before, and on nothing else.
        """
        ...
