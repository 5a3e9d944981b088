"""Prints the outcome of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.cli.screen import Screen
from weft.ports.store import FINISHED
from weft.views.text import count, shown

if TYPE_CHECKING:
    from weft.core.run.run import Run


def report(screen: Screen, run: Run, *, as_json: bool = False) -> None:
    """Print the results of *run*."""
    if as_json:
        screen.json(outcome_data(run))
        return
    is_open = run.status not in FINISHED
    outcome = "has nothing left to do" if is_open else f"has {run.status}"
    if run.status == "cancelled":
        outcome = "was cancelled"
    if run.failed and is_open:
        outcome = "has failed in part" if run.results() else "has failed"
    screen.line(f"{run.id}: {outcome}, {count(len(run.memory.log), 'event')}")
    for name, value in run.results().items():
        screen.line(f"  {name} = {shown(value)}")
    for failure in run.failures.values():
        screen.line(f"  {first_line(failure)}", style="red")
    letters = len(run.dead_letters)
    if letters:
        screen.line(f"  {count(letters, 'dead letter')}: weft show lists them")


def outcome_data(run: Run) -> dict[str, Any]:
    """Return the outcome of *run* for JSON."""
    return {
        "run": run.id,
        "status": run.status,
        "events": len(run.memory.log),
        "results": run.results(),
        "failures": {name: first_line(error) for name, error in run.failures.items()},
    }


def first_line(error: BaseException) -> str:
    """Return the first line of the message of *error*."""
    return (str(error).splitlines() or [type(error).__name__])[0]
