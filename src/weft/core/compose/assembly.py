"""
The assembly of a workflow: flows become named components and their inlets.

Names come from the components; a component without one is named after its kind, with a number.  Adding is
by name: the same name with the same code is the same component, with other code it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, MutableMapping
from typing import Any, TypeVar

from weft.core.compose.component import Component, refers
from weft.core.compose.flow import ENTRY, INPUT, Flow, Link
from weft.core.compose.growing_dict import over
from weft.core.compose.inlet import ROOT, Inlet
from weft.core.compose.part import Part, part_called
from weft.errors import DuplicateName, InvalidJoin, MixedRegions, an

_NUMBERED = re.compile(r"(?P<kind>.+)_\d+")


K = TypeVar("K")
V = TypeVar("V")


def _begun(given: Mapping[K, V] | None) -> MutableMapping[K, V]:
    """Return a table that begins with *given* and can be written to; *given* stays as it is."""
    return over(given) if given else {}


class Assembly:
    """The parts of a workflow while they are put together."""

    def __init__(
        self,
        components: Mapping[str, Component] | None = None,
        inlets: Mapping[str, tuple[Inlet, ...]] | None = None,
        homes: Mapping[str, str] | None = None,
        names: Mapping[Component, str] | None = None,
    ) -> None:
        self.components: MutableMapping[str, Component] = _begun(components)
        self.inlets: MutableMapping[str, tuple[Inlet, ...]] = _begun(inlets)
        self.homes: MutableMapping[str, str] = _begun(homes)
        self.names: MutableMapping[Component, str] = _begun(names)
        self.added: dict[str, None] = {}
        """The components that were not there before."""
        self.touched: set[str] = set()
        """The components that are fed in a new way."""
        self.repeated: set[str] = set()
        """The components that were written more than once in one of the flows."""
        self.rules: tuple[Any, ...] = ()
        """The policies that nested workflows bring along."""
        self.context: dict[str, Any] = {}
        """The defaults for context keys that they bring along."""
        self._numbers: dict[str, int] = {}

    def take(self, *flows: Flow) -> None:
        """Add the components and links of *flows*."""
        links: list[Link] = []
        inside: list[tuple[Component, Component]] = []
        for flow in flows:
            seen: set[Component] = set()
            for part, homes in flow.walk():
                for component in (*part.supports, *part.components):
                    self.register(component)
                self.repeated.update(self.names[component] for component in part.components if component in seen)
                seen.update(part.components)
                if homes:
                    inside.extend((component, homes[-1]) for component in part.components)
                links.extend(part.links)
                self.rules += part.rules
                if part.context:
                    self.context.update(part.context)
            links.extend(entry.fed_by((INPUT,), "all") for entry in flow.entries if not entry.implicit)
        for component, home in inside:
            self._put_home(self.names[component], self.names[home])
        links.sort(key=lambda link: link.place)  # what feeds a nested workflow is said after what is inside of it
        self._connect(
            (self.names[link.child], Inlet(tuple(self._named(p) for p in link.parents), link.wait, link.errors))
            for link in links
        )

    def _connect(self, links: Iterable[tuple[str, Inlet]]) -> None:
        """Feed each child by its inlet, once."""
        growing: dict[str, dict[Inlet, None]] = {}
        for child, inlet in links:
            if child not in growing:
                growing[child] = dict.fromkeys(self.inlets.get(child, ()))
            growing[child][inlet] = None
        for child, inlets in growing.items():
            if len(inlets) > len(self.inlets.get(child, ())):
                self.inlets[child] = tuple(inlets)
                self.touched.add(child)

    def merge(self, other: Assembly) -> None:
        """Add the components and wiring of *other*; a number that it gave to a component may change."""
        same = {name: self.names[component] for component, name in other.names.items() if component in self.names}
        moved: dict[str, str] = {}
        for name, component in other.components.items():
            if isinstance(component, Part):
                moved[name] = f"{moved[component.owner]}.{component.which}"
            else:
                moved[name] = same.get(name) or self._free(component, name, other)
        changed = {name: new for name, new in moved.items() if name != new}
        for name, component in other.components.items():
            if name not in same:
                self._put(moved[name], component.renamed(changed) if changed else component)
        self._connect((moved[name], inlet.renamed(moved)) for name, fed in other.inlets.items() for inlet in fed)
        for name, home in other.homes.items():
            self._put_home(moved[name], moved[home])
        self.names.update({component: moved[name] for component, name in other.names.items()})

    def add_part(self, owner: str, part: str) -> Part:
        """Put the *part* of the component *owner* among the components, fed by it, if it is not there; return it."""
        name = f"{owner}.{part}"
        if name not in self.components:
            self.register(Part(name, owner, part))
            self._connect([(name, Inlet((owner,)))])
        found = self.components[name]
        assert isinstance(found, Part)  # noqa: S101
        return found

    def add_parts_read(self, names: Iterable[str]) -> None:
        """Put the parts among the components that the components *names* read."""
        for name in list(names):
            for function in self.components[name].functions().values():
                for read in function.reads.values():
                    if read.target not in self.components:
                        found = part_called(read.target, self.components)
                        if found is not None:
                            self.add_part(*found)

    def remove(self, name: str, *, fed_by: Iterable[Inlet], feeds: Iterable[str]) -> None:
        """Take the component *name* out: the parents in *fed_by* feed the components that it *feeds* instead."""
        for child in feeds:
            self.inlets.setdefault(child, ROOT)
        self.inlets = _without(name, self.inlets, fed_by)
        del self.components[name]
        self.homes = {c: home for c, home in self.homes.items() if name not in (c, home)}
        self.names = {c: n for c, n in self.names.items() if n != name}

    def replace(self, old: str, component: Component) -> None:
        """Put *component* in the place of the one called *old*; under its own name, if it has one."""
        new = component.name or old
        for support in component.supports():
            self.register(support)
        placed, swap = component.placed(new, self.names), {old: new}
        self.components = {
            swap.get(n, n): placed if n == old else c.renamed(swap) if refers(c, old) and new != old else c
            for n, c in self.components.items()
        }
        self.inlets = {
            swap.get(n, n): tuple(inlet.renamed(swap) for inlet in inlets) for n, inlets in self.inlets.items()
        }
        self.homes = {swap.get(n, n): swap.get(home, home) for n, home in self.homes.items()}
        self.names = {c: n for c, n in self.names.items() if n != old} | {component: new, placed: new}

    def _named(self, parent: Any) -> str:
        if parent is INPUT or parent is ENTRY:
            return INPUT.name
        return self.names[parent]

    def register(self, component: Component) -> None:
        """Give *component* its name and its place among the others."""
        if component not in self.names:
            name = component.name or self._number(component.kind)
            self._put(name, component.placed(name, self.names))
            self.names[component] = name
            self.names[self.components[name]] = name

    def _number(self, kind: str, taken: Container[str] = ()) -> str:
        number = self._numbers.get(kind, 0) + 1
        while f"{kind}_{number}" in self.components or f"{kind}_{number}" in taken:
            number += 1
        self._numbers[kind] = number
        return f"{kind}_{number}"

    def _put(self, name: str, component: Component) -> None:
        known = self.components.get(name)
        if known is None:
            self.components[name] = component
            self.added[name] = None
            return
        if known.kind != component.kind:
            raise DuplicateName(name, f"{an(known.kind)} and {an(component.kind)}")
        if known.identity != component.identity:
            raise DuplicateName(name, f"two {known.kind}s with different code or constants")
        if not known.is_interchangeable_with(component):
            raise DuplicateName(name, f"two {known.kind}s of the same code that hold different objects")

    def _put_home(self, name: str, home: str) -> None:
        known = self.homes.setdefault(name, home)
        if known != home:
            raise MixedRegions(
                f"{name!r} stands in the bodies of two maps, {known!r} and {home!r}; "
                f"use {name}.named('other') in one of them"
            )

    def _free(self, component: Component, name: str, other: Assembly) -> str:
        """Return a name for *component* of *other*: a new number, if it has only a number and that is taken."""
        numbered = _NUMBERED.fullmatch(name)
        if name in self.components and numbered and numbered["kind"] == component.kind:
            return self._number(component.kind, other.components)
        return name


def _without(
    name: str, inlets: Mapping[str, tuple[Inlet, ...]], fed_by: Iterable[Inlet]
) -> dict[str, tuple[Inlet, ...]]:
    """Return *inlets* with *name* taken out, its parents feeding its children instead."""
    result: dict[str, tuple[Inlet, ...]] = {}
    for child, known in inlets.items():
        if child == name:
            continue
        new: dict[Inlet, None] = {}
        for inlet in known:
            if name not in inlet.parents:
                new[inlet] = None
                continue
            for before in fed_by if not inlet.errors else ():  # what handled its failures has nothing left to handle
                if inlet.is_join and before.errors:
                    raise InvalidJoin(f"cannot remove {name!r}: {child!r} would join failures of {before.parents[0]!r}")
                parents = tuple(
                    p for parent in inlet.parents for p in (before.parents if parent == name else (parent,))
                )
                new[Inlet(parents, inlet.wait if inlet.is_join else before.wait, before.errors)] = None
        result[child] = tuple(new)
    return result
