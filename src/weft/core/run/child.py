"""
Runs that a step starts, as the step sees them: what a runner offers to code that runs inside of it.
"""

from __future__ import annotations

from typing import Any, Protocol


class Child(Protocol):
    """
    A run that a step has started.

    From ``start_child`` the methods block; from ``astart_child`` they give awaitables.
    """

    @property
    def id(self) -> str:
        """The name of the run."""
        ...

    def result(self, timeout: float | None = None) -> Any:
        """Wait until it has nothing left to do; give its output, or raise what failed."""
        ...

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until it has nothing left to do; give the run."""
        ...

    def send(self, value: Any, *, key: str | None = None, deadline: float | None = None) -> Any:
        """Give it a further input."""
        ...

    def results(self) -> Any:
        """Give what its leaves have made so far."""
        ...

    def status(self) -> Any:
        """Give its state."""
        ...

    def log(self) -> Any:
        """Give everything that has happened in it."""
        ...

    def cancel(self, reason: str = "") -> Any:
        """Close it."""
        ...


class Family(Protocol):
    """Starts runs on behalf of steps."""

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
