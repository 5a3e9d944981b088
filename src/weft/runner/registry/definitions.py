"""
The live definitions of a runner: where the runs that it loads find functions that cannot be found by name.

The application registers some, which stay; others come with the runs that are started here, and stay as long as a run
or the application holds them.  A workflow that is passed for a run comes before both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal
from weakref import WeakValueDictionary

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import AnotherGraph
from weft.ports.store import RunRecord

_log = logging.getLogger("weft.runner")

Graph = Literal["the same", "its own", "any"]
"""
The graph that a workflow passed for a stored run may have: the one that the run follows; another one, of which only
functions are used, which is logged; or any, because the run is only read, or is about to be upgraded.
"""


class Definitions:
    """The workflows that one runner knows, by name and version."""

    def __init__(self) -> None:
        self._registered: dict[tuple[str, str], Workflow] = {}
        """Definitions registered by the application."""
        self._followed: WeakValueDictionary[tuple[str, str], Workflow] = WeakValueDictionary()
        """Definitions of runs started here, for as long as a run or the application refers to them."""

    def register(self, workflow: Workflow) -> None:
        """Make *workflow* known for as long as the runner exists."""
        self._registered[workflow.name, workflow.version] = workflow

    def follow(self, workflow: Workflow) -> bool:
        """
        Note that a run here follows *workflow*: other runs of it find its functions, for as long as something holds it.

        Returns:
            Whether it was another one, or none, until now.
        """
        key = (workflow.name, workflow.version)
        if self._followed.get(key) is workflow:  # a weak reference costs more than a look
            return False
        self._followed[key] = workflow
        return True

    def all(self) -> list[Workflow]:
        """Return all of them; one that is registered and followed occurs twice."""
        return [*self._registered.values(), *self._followed.values()]

    def finder(self, given: Workflow | None, graph: Graph = "the same") -> Callable[[RunRecord], Workflow | None]:
        """Return a function that finds the live definition of a stored run: the *given* one if it fits, or a known."""

        def find(stored: RunRecord) -> Workflow | None:
            key = (stored.workflow, stored.version)
            if given is not None and given.name == stored.workflow:
                check_graph(stored.id, given, stored.version, graph)
                return given
            return self._registered.get(key) or self._followed.get(key)

        return find


def check_graph(run: str, workflow: Workflow, version: str, graph: Graph) -> None:
    """
    Refuse a *workflow* for *run*, which follows *version*, if it has another graph and *graph* does not allow that.

    Raises:
        AnotherGraph: it is not allowed.
    """
    if version in ("", workflow.version) or graph == "any":  # a store need not know the version
        return
    if graph == "the same":
        raise AnotherGraph(run, workflow.name)
    _log.warning(
        "run %r keeps its graph: that of the workflow %r which was passed is another one, and only its functions are "
        "used; upgrade() moves the run to it",
        *(run, workflow.name),
    )


def note_changed_code(run: Run) -> None:
    """Record that the code of components of *run* has changed since it was written, once for each change."""
    changed = tuple(run.workflow.changed)
    if changed:
        memory = run.memory
        record(memory, ev.CodeChanged(len(memory.log) + 1, changed, run.workflow))
        _log.info("run %r continues with changed code of %s", run.id, ", ".join(map(repr, changed)))
