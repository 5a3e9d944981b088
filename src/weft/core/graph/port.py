"""
Declared ports: the input and the outputs of a workflow, by name, with types and documentation.

    >>> from weft import Port, Workflow, step
    >>> def price(order: dict) -> float: ...
    >>> shop = Workflow(
    ...     "shop",
    ...     step(price),
    ...     inputs={"order": Port(dict, doc="what the customer sent")},
    ...     outputs={"total": Port(float, of="price")},
    ... )
    >>> shop.inputs, shop.outputs
    ({'order': <class 'dict'>}, {'total': <class 'float'>})
    >>> shop.input_ports["order"].doc
    'what the customer sent'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from weft.core.functions.annotations import ANY
from weft.errors import DefinitionError, InvalidArgument


class Port(msgspec.Struct, frozen=True):
    """One input or output of a workflow."""

    type: Any = ANY
    """The type of its values."""
    doc: str = ""
    """A description, for people."""
    of: Any = None
    """Of an output: the component whose values it has, or its name; the name of the port if not given."""


def declared_input(workflow: str, inputs: Mapping[str, Any] | None) -> dict[str, Port]:
    """
    Return the input that is declared: a name, and a type or a port.

    Raises:
        DefinitionError: there is more than one; what is written with ``>>`` takes one value.
    """
    ports = {name: _port(given) for name, given in _pairs("inputs", inputs).items()}
    if len(ports) > 1:
        raise DefinitionError(
            f"workflow {workflow!r} declares the inputs {', '.join(ports)}; what is written with >> takes one value, "
            "which all its roots get: declare one, or draw it with @workflow, where every parameter is an input"
        )
    return ports


def declared_outputs(outputs: Mapping[str, Any] | None) -> dict[str, Port]:
    """Return the outputs that are declared, each with a type, a port, or the component that it is of."""
    found: dict[str, Port] = {}
    for name, given in _pairs("outputs", outputs).items():
        is_component = isinstance(given, str) or hasattr(given, "makes_facts")
        port = Port(of=given) if is_component else _port(given)
        found[name] = port if port.of is not None else Port(port.type, port.doc, name)
    return found


def _port(given: Any) -> Port:
    return given if isinstance(given, Port) else Port(given)


def _pairs(word: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping | None):
        raise InvalidArgument(f"{word}={given!r:.80}: use a mapping of names to types or ports: {{'order': Port(...)}}")
    return {} if given is None else dict(cast("Mapping[str, Any]", given))
