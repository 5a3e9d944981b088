"""
The outcome of a saga, read from the values of its transactions and compensations.

A transaction passes on its inputs together with its result: the request, the results so far, the failure that
aborted the saga, and the compensations since.  So every decision follows from the arguments of a runnable alone.

    >>> names = {"book": "trip.book", "pay": "trip.pay"}
    >>> retrace(names, {"book"}, ("Rome", "booked")).given()
    ('Rome', {'book': 'booked'})
    >>> failure = Failure("trip.pay", "ValueError", (), "declined")
    >>> retrace(names, {"book"}, ("Rome", "booked", failure)).outcome(over=False).remaining
    ['book']
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Literal

import msgspec

from weft.core.components.join import Absent
from weft.core.components.state_change import call_with
from weft.core.failure import Failure
from weft.core.functions.function import Function

Standing = Literal["pending", "running", "compensating", "stuck", "completed", "aborted"]


class SagaOutcome(msgspec.Struct, frozen=True):
    """How a saga ended, or how far it is."""

    status: Standing
    """``completed`` and ``aborted`` are ends; ``stuck`` waits until the dead letter is retried or discarded."""
    results: dict[str, Any] = {}
    """By transaction that was done: what it returned."""
    failed_step: str | None = None
    """The transaction that failed."""
    error: str | None = None
    """Its error."""
    compensated: list[str] = []
    """The transactions that were undone, in the order it happened."""
    remaining: list[str] = []
    """The transactions that are still to be undone, the next one first."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come."""
        return self.status in ("completed", "aborted")


class History(msgspec.Struct):
    """The progress of a saga for one request."""

    request: Any
    results: dict[str, Any]
    failed_step: str | None = None
    failure: Failure | None = None
    compensated: list[str] = []
    remaining: list[str] = []

    def given(self) -> tuple[Any, dict[str, Any]]:
        """Return the arguments of transactions and compensations."""
        return self.request, self.results

    def outcome(self, *, stuck: bool = False, over: bool = True) -> SagaOutcome:
        """Return this history as an outcome, of a saga that is *over*, *stuck* or in flight."""
        if self.failure is None:
            return SagaOutcome("completed" if over else "running", self.results)
        status: Standing = "aborted" if over else "stuck" if stuck else "compensating"
        kind = self.failure.type.rpartition(".")[2]
        error = f"{kind}: {self.failure.message}" if self.failure.message else kind
        return SagaOutcome(status, self.results, self.failed_step, error, self.compensated, self.remaining)


def retrace(names: Mapping[str, str], undos: Container[str], values: Sequence[Any]) -> History:
    """
    Return the history in *values*: the request, then the result of each transaction and compensation.

    Args:
        names: the transactions in their order, each with the name of its node.
        undos: those that have a compensation.
        values: a result, or what stands for one that was skipped, or the failure that turned the saga around.
    """
    request, *made = values
    history = History(request, {})
    for (name, node), value in zip(names.items(), made, strict=False):
        if isinstance(value, Failure) and value.component == node:
            history.failed_step, history.failure = name, value
            break
        if not _is_absent(value, node):
            history.results[name] = value
    else:
        return history
    before = list(names)[: list(names).index(str(history.failed_step))]
    back = [name for name in reversed(before) if name in undos]
    undone = made[len(before) + 1 :]
    history.compensated = [
        name
        for name, value in zip(back, undone, strict=False)
        if name in history.results and not isinstance(value, Absent)
    ]
    history.remaining = [name for name in back[len(undone) :] if name in history.results]
    return history


def _is_absent(value: object, node: str) -> bool:
    return isinstance(value, Absent) and value.component == node


class HistoryReader:
    """Reads the history of one saga from values.  Not a closure, so that it can be sent to another process."""

    def __init__(self, names: Mapping[str, str], undos: Container[str]) -> None:
        self._names, self._undos = names, undos

    def history(self, *values: Any) -> History:
        """Return the history in *values*."""
        return retrace(self._names, self._undos, values)

    def given(self, *values: Any) -> tuple[Any, ...]:
        """Return the arguments of a transaction."""
        return self.history(*values).given()

    def outcome(self, *values: Any) -> SagaOutcome:
        """Return the outcome of a saga that is over."""
        return self.history(*values).outcome()

    def ended(self, *values: Any) -> tuple[SagaOutcome]:
        """Return the arguments of the functions that follow the outcome."""
        return (self.outcome(*values),)


class Undo:
    """The compensation of one transaction; it does nothing for a transaction that a policy has skipped."""

    def __init__(self, reader: HistoryReader, step: str, undo: Function) -> None:
        self._reader, self._step, self._undo = reader, step, undo

    def function(self) -> Function:
        """Return the function that runs in its place."""
        undo = self._undo
        call = self.waiting if undo.is_async else self
        return Function(call, (), variadic=True, references=undo.references, is_async=undo.is_async)

    def __call__(self, *values: Any, **given: Any) -> Any:
        """Undo what was done, if it was."""
        history = self._reader.history(*values)
        return call_with(self._undo, history.given(), given) if self._step in history.results else None

    async def waiting(self, *values: Any, **given: Any) -> Any:
        """Undo what was done, if it was; for a coroutine function."""
        undoing = self(*values, **given)
        return undoing if undoing is None else await undoing
