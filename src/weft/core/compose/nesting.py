"""
Nesting: a graph as a part of another one, where its components have longer names.

A workflow that is an operand of ``>>``, and the body of a loop, become part of the graph: their components are called
``name.component``, those that were fed by the input become its entries, and those that produce its output its tails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from weft.core.compose.assembly import Assembly
from weft.core.compose.component import Component
from weft.core.compose.flow import ENTRY, Flow, Link
from weft.core.compose.inlet import INPUT_NAME
from weft.typing import Wait


def nested(
    name: str,
    assembly: Assembly,
    tails: Iterable[str],
    *,
    wait: Wait = "all",
    order: Iterable[str] | None = None,
    rules: tuple[Any, ...] = (),
    context: Mapping[str, Any] | None = None,
) -> Flow:
    """
    Return *assembly* as a flow whose components are called ``name.component``.

    Args:
        tails: the components that what follows is fed from.
        wait: what a join of the tails waits for.
        order: in which order the components are taken; the one in which they were written if not given.
        rules: how they run.
        context: their defaults for context keys.
    """
    assembly.add_parts_read(assembly.components)
    names = {known: f"{name}.{known}" for known in assembly.components}
    inner = {known: component.renamed(names) for known, component in assembly.components.items()}
    links: list[Link] = []
    entries: list[Link] = []
    asked_only = _asked_only(assembly)
    for known, component in inner.items():
        if known not in assembly.inlets:
            if known not in asked_only:
                entries.append(Link((ENTRY,), component, implicit=True))
            continue
        for place, inlet in enumerate(assembly.inlets[known]):
            parents = tuple(ENTRY if p == INPUT_NAME else inner[p] for p in inlet.parents)
            link = Link(parents, component, inlet.wait, errors=inlet.errors, place=place)
            (entries if ENTRY in parents else links).append(link)
    bodies = [Flow(components=(inner[known],), home=inner[home]) for known, home in assembly.homes.items()]
    plain = tuple(inner[known] for known in order or inner if known not in assembly.homes)
    return Flow(
        entries=tuple(entries),
        tails=tuple(inner[tail] for tail in tails),
        wait=wait,
        parts=(Flow(components=plain), *bodies),
        links=tuple(links),
        rules=rules,
        context=tuple((context or {}).items()),
    )


def _asked_only(assembly: Assembly) -> set[str]:
    """Return the conditions that nothing follows: they run when a rule asks, not on arrival."""
    components: Mapping[str, Component] = assembly.components
    followed = {p for inlets in assembly.inlets.values() for i in inlets if not i.errors for p in i.parents}
    return {name for name, c in components.items() if c.can_be_asked and name not in followed}
