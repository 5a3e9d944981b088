"""
What a workflow takes and gives: its ports, what a run of it returns, and what a call of it does.

    >>> from weft import step, workflow
    >>> @step
    ... def double(x: int) -> int:
    ...     return x * 2
    >>> @workflow
    ... def twice(x: int) -> int:
    ...     return double(double(x))
    >>> twice.inputs, twice.outputs, twice(10)
    ({'x': <class 'int'>}, {'double_2': <class 'int'>}, 40)
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from weft.core.graph.outputs import Output, Template, port_names
from weft.core.graph.port_types import Ports, Validate, listed
from weft.core.graph.wiring import Wiring

if TYPE_CHECKING:
    from weft.core.workflow import Workflow


class Signature:
    """A workflow, seen from outside."""

    wiring: Wiring
    ports: Ports
    validate: Validate
    returned: Template | None = None
    """What the function of a traced workflow returned; no part of the identity."""
    traced: Any = None
    """How it was drawn, if it was and has not been changed since."""

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The components that make values which nothing else takes."""
        return tuple(
            name
            for name, component in self.wiring.components.items()
            if component.makes_facts and self.wiring.is_last(name)
        )

    @property
    def returns(self) -> Template:
        """What a run gives as its output, in its structure: what was returned, else the only leaf, else all of them."""
        if self.returned is not None:
            return self.returned
        leaves = self.leaves
        return Output(leaves[0]) if len(leaves) == 1 else {name: Output(name) for name in leaves}

    @property
    def inputs(self) -> dict[str, Any]:
        """The input ports and their types: the parameters of a traced workflow, else the components the input feeds."""
        if self.traced is not None:
            return dict(self.traced.ports)
        return {name: self.ports.takes(name) for name in cast("Workflow", self).roots}

    @property
    def outputs(self) -> dict[str, Any]:
        """The output ports and their types: the keys of a dict that is returned, else names of components."""
        found: dict[str, Any] = {}
        for port, name in port_names(self.returns):
            is_inside = self.wiring.regions[name] is not None
            found[port] = listed(self.ports.made_by(name)) if is_inside else self.ports.made_by(name)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it on one input and return the output, or raise what failed; inside ``@workflow``, draw it as a part."""
        from weft.core.trace.trace import call

        return call(cast("Workflow", self), args, kwargs)
