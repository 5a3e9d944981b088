"""A workflow of one step and two that follow it, and components to add to it, for tests of how a run goes."""

from __future__ import annotations

from weft import Run, Workflow, accumulator, step

root = step(lambda x: x + 1, name="root")
plus_two = step(lambda x: x + 2, name="plus_two")
plus_four = step(lambda x: x + 4, name="plus_four")
double = step(lambda x: x * 2, name="double")
broken = step(lambda x: x / 0, name="broken")
pair = step(lambda a, b: (a, b), name="pair")
total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")
fork = Workflow("fork", root >> [plus_two, plus_four])


def components(run: Run) -> list[str]:
    """Return what could run now."""
    return [runnable.component for runnable in run.prepare()]
