"""
A workflow as its runs see it: checked and compiled, with its components by name.

Runs, their queries and their drawings need nothing more; the other methods of a workflow are built on top of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from weft.core.compose.component import Component
from weft.core.graph.outputs import Template
from weft.core.graph.wiring import Wiring
from weft.core.plan.plan import Plan


class CompiledWorkflow(Protocol):
    """The part of a workflow that its runs use."""

    name: str
    wiring: Wiring
    policies: tuple[Any, ...]
    """Pairs of a matcher and a policy."""
    context: Mapping[str, Any]
    """Defaults for context keys."""

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
        """The components whose values no other component takes."""
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
