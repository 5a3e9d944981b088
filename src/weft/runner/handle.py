"""
Handles: how a caller refers to one run, or to many that were started together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

R = TypeVar("R")


class Handle(Generic[R]):
    """
    A run of a runner.

    The methods block in a handle of a ``Runner``, and return awaitables in one of an ``AsyncRunner``.
    """

    __slots__ = ("_runner", "_via", "id")

    def __init__(self, runner: R, run_id: str, via: Callable[[Any], Any] | None = None) -> None:
        """Refer to the run *run_id*; *via* converts what a method of *runner* returns."""
        self._runner: Any = runner
        self._via = via
        self.id = run_id

    def _given(self, got: Any) -> Any:
        return got if self._via is None else self._via(got)

    def send(self, input: Any, *, key: str | None = None, deadline: float | None = None) -> Any:  # noqa: A002
        """Send the run a further input."""
        return self._given(self._runner.send(self.id, input, key=key, deadline=deadline))

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until there is nothing left to do; return the run."""
        return self._given(self._runner.wait(self.id, timeout))

    def result(self, timeout: float | None = None) -> Any:
        """Wait until there is nothing left to do; return the output, or raise what failed."""
        return self._given(self._runner.result(self.id, timeout))

    def results(self) -> Any:
        """Return the values that the leaves have produced so far."""
        return self._given(self._runner.results(self.id))

    def status(self) -> Any:
        """Return the state of the run."""
        return self._given(self._runner.status(self.id))

    def log(self) -> Any:
        """Return everything that has happened, in order."""
        return self._given(self._runner.log(self.id))

    def cancel(self, reason: str = "") -> Any:
        """Close the run; attempts in flight are cancelled or abandoned."""
        return self._given(self._runner.cancel(self.id, reason))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and self.id == other.id and self._runner is other._runner

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Handle({self.id!r})"


class Handles(Sequence[Handle[R]]):
    """
    Runs of a runner that were started together, in the order of their inputs.

    :meth:`gather` blocks in the handles of a ``Runner``, and returns an awaitable in those of an ``AsyncRunner``.
    """

    __slots__ = ("_runner", "ids")

    def __init__(self, runner: R, ids: Sequence[str]) -> None:
        """Refer to the runs with these *ids*."""
        self._runner = runner
        self.ids = ids

    def gather(self, timeout: float | None = None, *, return_exceptions: bool = False) -> Any:
        """Wait until all runs have nothing left to do; return their outputs in order, or raise the first error."""
        runner: Any = self._runner
        return runner.gather(self.ids, timeout, return_exceptions=return_exceptions)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Handle[R]: ...

    @overload
    def __getitem__(self, index: slice) -> Handles[R]: ...

    def __getitem__(self, index: int | slice) -> Handle[R] | Handles[R]:
        if isinstance(index, slice):
            return Handles(self._runner, self.ids[index])
        return Handle(self._runner, self.ids[index])

    def __iter__(self) -> Iterator[Handle[R]]:
        return (Handle(self._runner, run) for run in self.ids)

    def __repr__(self) -> str:
        return f"Handles({list(self.ids)!r})"
