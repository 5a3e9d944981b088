"""
The signature of a workflow: its input ports, its output ports, and what a run of it returns.

    >>> from weft import step, workflow
    >>> @step
    ... def double(x: int) -> int:
    ...     return x * 2
    >>> @workflow
    ... def twice(x: int) -> int:
    ...     return double(double(x))
    >>> twice.inputs, twice.outputs
    ({'x': <class 'int'>}, {'double_2': <class 'int'>})
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

from weft.core.compose.inlet import INPUT_NAME
from weft.core.functions.annotations import ANY
from weft.core.graph.outputs import Output, Template, port_names
from weft.core.graph.port import Port
from weft.core.graph.port_types import Ports, Validate, listed
from weft.core.graph.wiring import Wiring


class Drawn(Protocol):
    """How a workflow was drawn by ``@workflow``: what it takes, and how it fits the arguments of a call."""

    @property
    def ports(self) -> Mapping[str, Any]:
        """The types of the inputs, by name."""
        ...

    def fitted(self, workflow: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return *workflow* as a call with these arguments needs it, and the values for its inputs, by name."""
        ...


class Signature:
    """A workflow, seen from outside."""

    wiring: Wiring
    ports: Ports
    validate: Validate
    returned: Template | None = None
    """The value that the function of a traced workflow returned; not part of the identity."""
    traced: Drawn | None = None
    """How it was drawn, if it was and has not been changed since."""
    declared: tuple[Mapping[str, Port], Mapping[str, Port]] = ({}, {})
    """The inputs and outputs that were declared; neither stored nor part of the identity."""

    @property
    def leaves(self) -> tuple[str, ...]:
        """The components that make values which nothing else takes."""
        return self._leaves

    @cached_property
    def _leaves(self) -> tuple[str, ...]:
        return tuple(
            name
            for name, component in self.wiring.components.items()
            if component.makes_facts and component.is_leaf and self.wiring.is_last(name)
        )

    @property
    def roots(self) -> tuple[str, ...]:
        """The components that the input feeds."""
        wiring = self.wiring
        return tuple(
            name
            for name in wiring.order
            if any(INPUT_NAME in inlet.parents for inlet in wiring.fed_by(name))
            and not (wiring.is_asked_only(name) and name not in wiring.inlets)
        )

    @property
    def returns(self) -> Template:
        """The structure of the output of a run: what was returned, else the only leaf, else all leaves by name."""
        return self._made if self.returned is None else self.returned

    @cached_property
    def _made(self) -> Template:
        """The only leaf, else all leaves by name."""
        leaves = self.leaves
        return Output(leaves[0]) if len(leaves) == 1 else {name: Output(name) for name in leaves}

    @property
    def inputs(self) -> dict[str, Any]:
        """The input ports and their types: those declared, or traced; else the components that the input feeds."""
        return {name: port.type for name, port in self.input_ports.items()}

    @property
    def input_ports(self) -> dict[str, Port]:
        """The input ports, with their types and documentation."""
        if self.traced is not None:
            return {name: Port(kind) for name, kind in self.traced.ports.items()}
        return dict(self.declared[0]) or {name: Port(self.ports.takes(name)) for name in self.roots}

    @property
    def outputs(self) -> dict[str, Any]:
        """The output ports and their types: the keys of a dict that is returned, else names of components."""
        return {name: port.type for name, port in self.output_ports.items()}

    @property
    def output_ports(self) -> dict[str, Port]:
        """The output ports, with their types, their documentation, and the components that they are of."""
        found: dict[str, Port] = {}
        for port, name in port_names(self.returns):
            is_inside = self.wiring.regions[name] is not None
            made = listed(self.ports.made_by(name)) if is_inside else self.ports.made_by(name)
            known = self.declared[1].get(port, Port())
            found[port] = Port(made if known.type is ANY else known.type, known.doc, name)
        return found
