"""
Handles: how a caller refers to one run, or to many that were started together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

import msgspec

R = TypeVar("R")


class RunRef(msgspec.Struct, frozen=True):
    """A run that a caller refers to."""

    id: str
    input: int | None = None
    """The number of an input, if the caller refers to one."""
    worker: Any = None
    """The worker of the run, as it was when the caller got its handle: it keeps a finished run in memory."""
    key: str | None = None
    """The key of an input that was left in the inbox of the run, and has no number yet."""
    is_named: bool = False
    """Whether the caller has named the run by its id: then its last input is meant."""

    @property
    def is_clear(self) -> bool:
        """Whether it is known which input is meant: the one with a number, or the last one."""
        return self.input is not None or self.is_named


class Handle(Generic[R]):
    """
    A run of a runner, or one of its inputs.

    The methods block in a handle of a ``Runner``, and return awaitables in one of an ``AsyncRunner``.  A handle that
    ``start`` or ``send`` returned belongs to that input: :meth:`result` and :meth:`results` are what came of it.
    """

    __slots__ = ("_ref", "_runner", "_via")

    def __init__(self, runner: R, ref: RunRef, via: Callable[[Any], Any] | None = None) -> None:
        """Refer to the run *ref*; *via* converts what a method of *runner* returns."""
        self._runner: Any = runner
        self._ref, self._via = ref, via

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._ref.id

    @property
    def ref(self) -> RunRef:
        """The run and the input that it refers to."""
        return self._ref

    def _given(self, got: Any) -> Any:
        return got if self._via is None else self._via(got)

    def send(
        self,
        input: Any,  # noqa: A002 - what one would say
        *,
        key: str | None = None,
        deadline: float | None = None,
        by: str | None = None,
    ) -> Any:
        """Send the run a further input; return a handle of that input."""
        return self._given(self._runner.send(self.id, input, key=key, deadline=deadline, by=by))

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until there is nothing left to do; return the run."""
        return self._given(self._runner.wait(self, timeout))

    def result(self, timeout: float | None = None) -> Any:
        """
        Wait until there is nothing left to do; return the output.

        Raises:
            RunFailed: something failed, and nothing has handled it.
            NothingProduced: nothing was produced; the error says why.
            NoInput: the handle belongs to no input, and the run is open or has had several.
        """
        return self._given(self._runner.result(self, timeout))

    def results(self) -> Any:
        """Return the values that the leaves have produced so far."""
        return self._given(self._runner.results(self))

    def status(self) -> Any:
        """Return the status of the run."""
        return self._given(self._runner.status(self))

    def log(self) -> Any:
        """Return everything that has happened in the run, in order."""
        return self._given(self._runner.log(self))

    def signal(self, name: str, value: Any = None, *, key: str | None = None, by: str | None = None) -> Any:
        """Send the run the signal *name*."""
        return self._given(self._runner.signal(self.id, name, value, key=key, by=by))

    def finish(self, *, by: str | None = None) -> Any:
        """Let the run accept no more input, and finish when nothing is left to do."""
        return self._given(self._runner.finish(self.id, by=by))

    def cancel(self, reason: str = "", *, by: str | None = None) -> Any:
        """Close the run; attempts in flight are cancelled or abandoned."""
        return self._given(self._runner.cancel(self.id, reason, by=by))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Handle)
            and (self.id, self._ref.input) == (other.id, other._ref.input)
            and self._runner is other._runner
        )

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        number = self._ref.input
        return f"Handle({self.id!r})" if number is None or number == 1 else f"Handle({self.id!r}, input {number})"


def as_ref(run: str | Handle[Any]) -> RunRef:
    """Return the run that a caller refers to by an id or a handle."""
    return run.ref if isinstance(run, Handle) else RunRef(run, is_named=True)


class Handles(Sequence[Handle[R]]):
    """
    Runs of a runner that were started together, in the order of their inputs.

    :meth:`gather` blocks in the handles of a ``Runner``, and returns an awaitable in those of an ``AsyncRunner``.
    """

    __slots__ = ("_refs", "_runner")

    def __init__(self, runner: R, refs: Sequence[RunRef]) -> None:
        """Refer to the runs *refs*."""
        self._runner, self._refs = runner, refs

    @property
    def ids(self) -> list[str]:
        """The ids of the runs."""
        return [ref.id for ref in self._refs]

    @property
    def refs(self) -> Sequence[RunRef]:
        """The runs that they refer to."""
        return self._refs

    def gather(self, timeout: float | None = None, *, return_exceptions: bool = False) -> Any:
        """Wait until all runs have nothing left to do; return their outputs in order, or raise the first error."""
        runner: Any = self._runner
        return runner.gather(self, timeout, return_exceptions=return_exceptions)

    def __len__(self) -> int:
        return len(self._refs)

    @overload
    def __getitem__(self, index: int) -> Handle[R]: ...

    @overload
    def __getitem__(self, index: slice) -> Handles[R]: ...

    def __getitem__(self, index: int | slice) -> Handle[R] | Handles[R]:
        if isinstance(index, slice):
            return Handles(self._runner, self._refs[index])
        return Handle(self._runner, self._refs[index])

    def __iter__(self) -> Iterator[Handle[R]]:
        return (Handle(self._runner, ref) for ref in self._refs)

    def __repr__(self) -> str:
        return f"Handles({self.ids!r})"
