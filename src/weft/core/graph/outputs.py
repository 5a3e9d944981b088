"""
The outputs of a traced workflow: names of components, in the structure that was returned.

    >>> template = {"title": Output("title"), "both": (Output("a"), Output("b"))}
    >>> [output.component for output in outputs_in(template)]
    ['title', 'a', 'b']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from weft.errors import NothingProduced


class Output(msgspec.Struct, frozen=True):
    """Marks the place at which a value of *component* was returned."""

    component: str


Template: TypeAlias = Any
"""An :class:`Output`, or a tuple, list or dict of templates."""


def outputs_in(template: Template) -> Iterator[Output]:
    """Yield the outputs inside *template*, in the order written."""
    if isinstance(template, Output):
        yield template
        return
    items = cast("Any", template.values() if isinstance(template, dict) else template)
    for item in items:
        yield from outputs_in(item)


def fill(template: Template, leaf: Callable[[Any], Any]) -> Any:
    """Return *template* with every leaf replaced; in a dict, what has produced nothing is left out."""
    if isinstance(template, dict):
        found: dict[Any, Any] = {}
        for key, inner in cast("Mapping[Any, Any]", template).items():
            try:
                found[key] = fill(inner, leaf)
            except NothingProduced:
                continue
        return found
    if type(template) in (tuple, list):
        return type(template)([fill(inner, leaf) for inner in template])
    return leaf(template)


def renamed(template: Template, names: Mapping[str, str]) -> Template:
    """Return *template* for a place where components go by other *names*."""
    return fill(template, lambda output: Output(names.get(output.component, output.component)))


def kept(template: Template | None, known: Mapping[str, object]) -> Template | None:
    """Return *template* if all its components are *known*, else None."""
    if template is None or any(output.component not in known for output in outputs_in(template)):
        return None
    return template


def port_names(template: Template) -> list[tuple[str, str]]:
    """Return the ports of *template* as pairs of port and component: by key of a dict, else by component."""
    if isinstance(template, dict):
        pairs = cast("Mapping[Any, Any]", template).items()
        return [(str(key), inner.component) for key, inner in pairs if isinstance(inner, Output)] + [
            (f"{key}.{port}", name)
            for key, inner in pairs
            if not isinstance(inner, Output)
            for port, name in port_names(inner)
        ]
    return [(output.component, output.component) for output in outputs_in(template)]
