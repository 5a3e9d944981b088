"""
Shows the progress of the runs that are being resumed: a moving line on a terminal, plain lines elsewhere.

It goes to the error stream; the results of the runs go to the standard output.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.status import Status
from rich.text import Text

from weft.cli.screen import Screen
from weft.views.text import count, plain


class Progress:
    """Shows the progress of *runs* runs; *is_silent*, only what a person should know."""

    def __init__(self, screen: Screen, runs: int, *, is_silent: bool = False) -> None:
        self._screen, self._runs = screen, runs
        self._ended = self._steps = self._failures = 0
        self._status: Status | None = screen.status() if screen.shows_progress and not is_silent else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def begun(self, run: str, changed: tuple[str, ...]) -> None:
        """Note that *run* is about to continue, and which of its components have changed code."""
        if self._status is None:
            self._screen.note(f"{run}: resumed")
        if changed:
            self._screen.note(f"{run}: the code of {', '.join(changed)} has changed; pending work runs the new code")

    def step(self, run: str, component: str) -> None:
        """Note that a component has completed."""
        self._steps += 1
        self._show(run, component)

    def failed(self, run: str, component: str, error: BaseException) -> None:
        """Note that a component has failed for good."""
        self._failures += 1
        if self._status is None:
            self._screen.note(f"{run}: {component} failed: {type(error).__name__}: {error}")
        self._show(run, component)

    def ended(self) -> None:
        """Note that a run has nothing left to do."""
        self._ended += 1
        self._show("", "")

    def _show(self, run: str, component: str) -> None:
        if self._status is not None:
            done = f"{self._ended} of {count(self._runs, 'run')}, {count(self._steps, 'component')} done"
            failures = f", {self._failures} failed" if self._failures else ""
            last = f"  {run}: {component}" if run else ""
            self._status.update(Text(plain(f"{done}{failures}{last}")))
