"""
The components of a run as lines of a tree: how far each is, and what it waits for.

    >>> from weft import Runner, Workflow, each, step
    >>> with Runner() as runner:
    ...     run = runner.start(Workflow("w", step(list, name="split") >> each(step(str.upper, name="up"))), "ab").wait()
    >>> [(line.depth, line.component, line.state, line.done, line.of) for line in component_tree(run, now=0.0)]
    [(0, 'split', 'done', 1, None), (0, 'map_1', 'done', 2, 2), (1, 'up', 'done', 2, 2)]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from weft.core.diagrams.run_status import progress_of
from weft.core.draw.progress import State
from weft.views.attention import notes
from weft.views.order import in_order

if TYPE_CHECKING:
    from weft.core.run.run import Run


class TreeLine(msgspec.Struct, frozen=True):
    """One component."""

    component: str
    depth: int
    """How many maps and loops it is in."""
    state: State
    done: int = 0
    failed: int = 0
    of: int | None = None
    """How many elements there are, for a component in a map."""
    attempts: int = 0
    seconds: float = 0.0
    note: str = ""
    """Why it failed, or what it waits for."""


def component_tree(run: Run, *, now: float) -> list[TreeLine]:
    """
    Return a line for each component of *run*, each after those that feed it.

    Args:
        now: the present, in seconds since the epoch.
    """
    workflow = run.memory.workflow
    progress = progress_of(run.memory)
    noted = notes(run, progress, now=now)
    regions = workflow.wiring.regions

    def depth(name: str) -> int:
        region = regions.get(name)
        return 0 if region is None or region == name else 1 + depth(region)

    lines: list[TreeLine] = []
    for name in in_order(workflow):
        found = progress[name]
        lines.append(
            TreeLine(
                name,
                depth(name),
                found.state,
                found.done,
                found.failed,
                found.of,
                found.attempts,
                found.seconds,
                noted.get(name, ""),
            )
        )
    return lines
