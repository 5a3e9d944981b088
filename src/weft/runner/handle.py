"""
The handle of one run, which its caller gets and keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

R = TypeVar("R")


class Handle(Generic[R]):
    """
    A run of a runner.

    Of an ``AsyncRunner`` the methods give awaitables; of a ``Runner`` they block.
    """

    __slots__ = ("_runner", "_via", "id")

    def __init__(self, runner: R, run_id: str, via: Callable[[Any], Any] | None = None) -> None:
        """Hold the run *run_id*; *via* makes what the methods give of what those of *runner* give."""
        self._runner: Any = runner
        self._via = via
        self.id = run_id

    def _given(self, got: Any) -> Any:
        return got if self._via is None else self._via(got)

    def send(self, value: Any, *, key: str | None = None, deadline: float | None = None) -> Any:
        """Give the run a further input."""
        return self._given(self._runner.run(self.id, value, key=key, deadline=deadline))

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until there is nothing left to do; give the run."""
        return self._given(self._runner.wait(self.id, timeout))

    def result(self, timeout: float | None = None) -> Any:
        """Wait until there is nothing left to do; give the output, or raise what failed."""
        return self._given(self._runner.result(self.id, timeout))

    def results(self) -> Any:
        """Give what the leaves have made so far."""
        return self._given(self._runner.get_results(self.id))

    def status(self) -> Any:
        """Give the state of the run."""
        return self._given(self._runner.status(self.id))

    def log(self) -> Any:
        """Give everything that has happened."""
        return self._given(self._runner.log(self.id))

    def cancel(self, reason: str = "") -> Any:
        """Close the run; what is in flight is stopped or left behind."""
        return self._given(self._runner.cancel(self.id, reason))

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"
