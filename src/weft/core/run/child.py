"""
The protocols of child runs, as a step sees them.  A runner implements them.
"""

from __future__ import annotations

from typing import Any, Protocol

from weft.core.functions.reports import Reporter


class Child(Protocol):
    """
    A run that a step has started.

    From ``start_child`` the methods block; from ``astart_child`` they return awaitables.
    """

    @property
    def id(self) -> str:
        """The id of the run."""
        ...

    def result(self, timeout: float | None = None) -> Any:
        """Wait until it has nothing left to do; return its output, or raise what failed."""
        ...

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until it has nothing left to do; return the run."""
        ...

    def send(self, input: Any, *, key: str | None = None, deadline: float | None = None) -> Any:  # noqa: A002
        """Send it a further input."""
        ...

    def results(self) -> Any:
        """Return what its leaves have made so far."""
        ...

    def status(self) -> Any:
        """Return its state."""
        ...

    def log(self) -> Any:
        """Return everything that has happened in it."""
        ...

    def cancel(self, reason: str = "", *, undo: bool = True) -> Any:
        """Close it, and undo what it has done unless *undo* is False."""
        ...


class StepRunner(Protocol):
    """The runner, as a step sees it: starts runs on its behalf, and takes what it reports."""

    @property
    def reporter(self) -> Reporter | None:
        """Takes the progress and the streams of steps."""
        ...

    def start(
        self, parent: Any, workflow: Any, value: Any, *, id: str | None, with_parent: bool, **options: Any
    ) -> Child:
        """Start a child from a plain function."""
        ...

    async def astart(
        self, parent: Any, workflow: Any, value: Any, *, id: str | None, with_parent: bool, **options: Any
    ) -> Child:
        """Start a child from a coroutine function."""
        ...
