"""
A workflow as its runs see it: checked, compiled, and open to questions about its components.

Runs, their queries and drawings of them need no more; what else a workflow can do is built on top of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from weft.core.compose.component import Component
from weft.core.graph.outputs import Template
from weft.core.graph.wiring import Wiring
from weft.core.plan.plan import Plan


class CompiledWorkflow(Protocol):
    """A workflow, as far as its runs look at it."""

    name: str
    wiring: Wiring
    policies: tuple[Any, ...]
    """Pairs of a matcher and a policy."""

    @property
    def components(self) -> Mapping[str, Component]:
        """The components, by name."""
        ...

    @property
    def compiled(self) -> Plan:
        """The compiled form that runs use."""
        ...

    @property
    def version(self) -> str:
        """The identity of names, kinds and wiring alone."""
        ...

    @property
    def leaves(self) -> tuple[str, ...]:
        """The components that make values which nothing else takes."""
        ...

    @property
    def returns(self) -> Template:
        """The structure of the output of a run."""
        ...

    def __contains__(self, which: object) -> bool: ...

    def name_of(self, which: object) -> str:
        """Return the name under which *which*, a name or a component, is known here."""
        ...

    def policy_for(self, which: object) -> Any:
        """Return the policy that holds for *which*."""
        ...

    def add(self, fragment: object, *, to: object = None) -> CompiledWorkflow:
        """Return this workflow with *fragment* added, fed by *to*."""
        ...

    def remove(self, which: object) -> CompiledWorkflow:
        """Return this workflow without *which*."""
        ...
