"""
Encodes a large value once, a slice at a time, so that it does not block the event loop.

Encoding is part of the attempt: it has completed when its value is encoded, and has failed if that cannot be.
An input is encoded before the run receives it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from weft.core.run.runnable import Outcome
from weft.errors import UnencodableValue
from weft.log import Encoded, encode_once
from weft.runner.slices import let_threads_run, pause

if TYPE_CHECKING:
    from weft.runner.execution.inflight import InFlight
    from weft.runner.execution.worker import Worker

T = TypeVar("T")


class PendingResult:
    """The outcome of an attempt that has ended, and whose value is being encoded."""

    __slots__ = ("_slices", "encoded", "outcome")

    def __init__(self, outcome: Outcome, slices: Generator[None, None, Encoded]) -> None:
        self.outcome = outcome
        """Its outcome: a failure, if the value turns out not to be data."""
        self.encoded: Encoded | None = None
        self._slices: Generator[None, None, Encoded] | None = slices

    @property
    def is_done(self) -> bool:
        """Whether all of it is encoded, or cannot be."""
        return self._slices is None

    def go_on(self) -> bool:
        """Encode the next slice, if there is one; return whether all of it is done."""
        if self._slices is not None:
            try:
                next(self._slices)
            except StopIteration as end:
                self.encoded, self._slices = end.value, None
            except UnencodableValue as error:
                self.outcome, self._slices = replace(self.outcome, status="failed", result=None, error=error), None
        return self._slices is None


def encode_result(worker: Worker, inflight: InFlight) -> None:
    """Encode the value of what has ended; if it is a large one, let other runs go on in between."""
    assert inflight.result is not None  # noqa: S101
    if inflight.result.go_on() or not worker.starts:
        encode_rest(worker, inflight)
        return
    if inflight.state != "encoding":
        worker.queue.move(inflight, "encoding")
    worker.dispatcher.loop.call_soon(worker.dispatcher.guard, worker, _encode_more, worker, inflight)


def _encode_more(worker: Worker, inflight: InFlight) -> None:
    result = inflight.result
    if inflight.state != "encoding" or result is None:  # the run was stopped or cancelled
        return
    let_threads_run()
    encode_result(worker, inflight)
    if result.is_done:
        worker.turn()


def encode_rest(worker: Worker, inflight: InFlight) -> None:
    """Encode what is left of a value, and go on with the outcome of the attempt."""
    result = inflight.result
    assert result is not None  # noqa: S101
    while not result.go_on():
        pass
    if inflight.state == "encoding":
        worker.queue.move(inflight, "calling_policy" if inflight.calls_policy else "executing")
    worker.attempts.go_on_with(inflight, result.outcome)


def exhausted(slices: Generator[None, None, T]) -> T:
    """Return the final result of *slices*, without a pause in between."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            value: T = end.value
            return value


async def encoded_input(value: Any) -> Encoded | None:
    """
    Return an input as bytes; if that takes long, other work of the event loop runs in between.

    None if it cannot be encoded: the worker that receives the input then raises the error.
    """
    slices = encode_once(value, "INPUT")
    while True:
        try:
            next(slices)
        except StopIteration as end:
            found: Encoded = end.value
            return found
        except UnencodableValue:
            return None
        await pause()
