"""A saga with a table of the steps that fail, which records the calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import Run, Saga, Workflow


class Booking:
    """A saga of steps with a script, and a record of the calls."""

    def __init__(self, *steps: str, fails: str = "", undo_fails: str = "", **options: Any) -> None:
        self.calls: list[str] = []
        self.fails, self.undo_fails = set(fails.split()), set(undo_fails.split())
        self.saga = Saga("trip", **options)
        for name in steps:
            self.saga.transaction(self._do(name), name=name, compensate=self._undo(name))

    def _do(self, name: str) -> Callable[..., Any]:
        def do(request: Any, results: dict[str, Any]) -> Any:
            self.calls.append(name)
            if name in self.fails:
                raise ValueError(f"{name} failed")
            return f"{name} of {request}"

        return do

    def _undo(self, name: str) -> Callable[..., Any]:
        def undo(request: Any, results: dict[str, Any]) -> str:
            self.calls.append(f"undo {name}")
            if name in self.undo_fails:
                raise OSError(f"cannot undo {name}")
            return f"undone {results[name]}"

        undo.__name__ = f"undo_{name}"
        return undo

    def run(self, request: Any = "r", **options: Any) -> Run:
        return Workflow("w", self.saga).run(request, **options)


def kinds(run: Run) -> list[tuple[str, str]]:
    return [(type(event).__name__, event.component) for event in run.log()[2:]]


def stuck() -> tuple[Booking, Run]:
    booking = Booking("a", "b", "c", fails="c", undo_fails="b")
    return booking, booking.run()
