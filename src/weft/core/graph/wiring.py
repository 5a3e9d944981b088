"""
The wiring of a workflow: the order, regions and widths of its components, and which waits for which.

It is computed once per definition, and refuses a graph that cannot work.  A *region* is the ``each`` whose elements a
component runs on, or None; an ``each`` opens one, a reduce after it closes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping

from weft.core.components.condition import Condition
from weft.core.components.loop_ends import TurnEnd
from weft.core.components.map import Map
from weft.core.compose.component import Component
from weft.core.compose.growing_dict import over
from weft.core.compose.inlet import INPUT_NAME, ROOT, Inlet
from weft.core.compose.part import Part
from weft.core.functions.references import StateOf
from weft.core.graph.topology import find_cycle, reachable, topological
from weft.errors import (
    CyclicWorkflow,
    DuplicateName,
    InvalidComponent,
    InvalidJoin,
    MixedRegions,
    MutualWait,
    UnknownReference,
    WrongArity,
    an,
)


class Wiring:
    """The checked structure of a workflow."""

    __slots__ = (
        "children",
        "circles",
        "closing",
        "components",
        "homes",
        "inlets",
        "order",
        "regions",
        "rescues",
        "users",
        "waits",
        "widths",
    )

    def __init__(
        self,
        workflow: str,
        components: Mapping[str, Component],
        inlets: Mapping[str, tuple[Inlet, ...]],
        homes: Mapping[str, str],
        grown: tuple[Wiring, Collection[str]] | None = None,
    ) -> None:
        """Check the whole graph; of one that has *grown* from another, only what is new where that is enough."""
        self.components, self.inlets, self.homes = components, inlets, homes
        self.children: MutableMapping[str, list[str]] = {}
        self.rescues: set[tuple[str, str]] = set()
        """Edges that carry failures and nothing else."""
        self.users: dict[str, list[str]] = {}
        """Conditions, and the components that ask them."""
        self.closing: set[str] = set()
        """The components that close an ``each``: reduces, and what collects."""
        self.regions: MutableMapping[str, str | None] = {}
        self.widths: MutableMapping[str, int] = {}
        self.waits: dict[tuple[str, str], bool] = {}
        """Reader and what it reads: whether it waits for it, or reads the version before."""
        self.circles: set[tuple[str, str]] = set()
        """Reader and what it reads, in one loop: a reader that would wait for all of the loop waits for itself."""
        self.order: list[str] = []
        if grown is not None and self._grow(workflow, *grown):
            return
        self.children = {name: [] for name in components}
        self._link(self.components)
        self._check_references()
        self.order = self._sort(workflow, self._edges())
        self._check_waits()
        self._assign_regions(self.order)
        self._check_widths(self.order)

    def _grow(self, workflow: str, base: Wiring, new: Collection[str]) -> bool:
        """Take over what *base* knows and check *new* alone, unless they refer to others than their parents."""
        for name in new:
            component = self.components[name]
            reads = any(function.reads for function in component.functions().values())
            if reads or component.refers_to() or isinstance(component, Condition) or "." in name:
                return False
            for inlet in self.inlets.get(name, ()):
                for parent in inlet.parents:
                    if parent != INPUT_NAME and parent not in new and base.is_asked_only(parent):
                        return False
        self.users, self.waits, self.rescues = base.users, base.waits, set(base.rescues)
        self.closing = set(base.closing)
        self.regions, self.widths = over(base.regions), over(base.widths)
        self.children = over(base.children)
        self.children.update({name: [] for name in new})
        for name in new:
            for parent in self._parents(name):
                self.children[parent] = [*self.children[parent], name]
            self._note_rescues(name)
        fresh = self._sort(workflow, {name: self.children[name] for name in new})
        self.order = base.order + fresh
        self._assign_regions(fresh)
        self._check_widths(fresh)
        return True

    def _parents(self, name: str) -> dict[str, None]:
        """Return the components that feed *name*."""
        return {p: None for inlet in self.inlets.get(name, ()) for p in inlet.parents if p != INPUT_NAME}

    def upstream(self, name: str) -> set[str]:
        """Return the components that decide what reaches *name*: those that feed it, its conditions, and theirs."""
        found: set[str] = set()
        line = [name]
        while line:
            one = line.pop()
            above = {*self._parents(one), *(self.components[one].refers_to() if one in self.components else ())}
            line.extend(above - found)
            found |= above
        return found

    def fed_by(self, name: str) -> tuple[Inlet, ...]:
        """Return the ways into *name*; the input, if there is no other."""
        return self.inlets.get(name, ROOT)

    def is_asked_only(self, name: str) -> bool:
        """Whether *name* is a condition that nothing follows: it runs when a rule asks, not on arrival."""
        return isinstance(self.components[name], Condition) and self.is_last(name)

    def is_last(self, name: str) -> bool:
        """Whether nothing takes what *name* makes; a route for its failures does not, nor does a part of it."""
        return all((name, child) in self.rescues or self._is_part(child, name) for child in self.children[name])

    def _is_part(self, child: str, of: str) -> bool:
        component = self.components[child]
        return isinstance(component, Part) and component.owner == of

    def enclosing(self, region: str | None) -> list[str | None]:
        """Return *region* and those around it, innermost first; the last one is None."""
        chain: list[str | None] = [region]
        while region is not None:
            region = self.regions[region]
            chain.append(region)
        return chain

    def _link(self, names: Iterable[str]) -> None:
        for name in names:
            for parent in self._parents(name):
                self.children[parent].append(name)
            self._note_rescues(name)
            for asked in self.components[name].refers_to():
                self.users.setdefault(asked, []).append(name)

    def _note_rescues(self, name: str) -> None:
        inlets = self.inlets.get(name, ())
        flows = {parent for inlet in inlets if not inlet.errors for parent in inlet.parents}
        self.rescues.update(
            (inlet.parents[0], name) for inlet in inlets if inlet.errors and inlet.parents[0] not in flows
        )

    def _check_references(self) -> None:
        for asked, users in self.users.items():
            target = self.components.get(asked)
            if not isinstance(target, Condition):
                known = [name for name, c in self.components.items() if isinstance(c, Condition)]
                hint = "which is not a condition" if target else f"which is not there; add it first: .add({asked})"
                raise UnknownReference(users[0], "condition", asked, known, hint)
        for failing, handler in self.rescues:
            component = self.components[failing]
            if isinstance(component, Condition) and (self.is_last(failing) or component.function is None):
                raise InvalidComponent(
                    f"no failure of {failing!r} can be routed to {handler!r}: it is a condition that is only asked, "
                    "wherever a rule stands, or a combination of others; put the condition into the flow "
                    f"({failing} >> ...), or give the rule its own function and route the failures of the rule"
                )
        for name, component in self.components.items():
            for part, _ in component.hooks.parts:
                if part not in component.parts():
                    raise component.has_no_part(part)
            if isinstance(component, Part):
                self._check_part(name, component)
            for part, function in component.functions().items():
                if part and f"{name}.{part}" in self.components and not self._is_part(f"{name}.{part}", name):
                    raise DuplicateName(f"{name}.{part}", f"one of them is a part of {name!r}")
                for read in function.reads.values():
                    has: Collection[str] = self.components
                    target = self.components.get(read.target)
                    if target is None:
                        owner = self.components.get(read.target.rpartition(".")[0])
                        hint = f"which is not there; add it first: .add({read.target})"
                        if owner is not None:
                            hint, has = f"which is not a part of {owner.label!r} that produces values", owner.parts()
                    elif isinstance(read, StateOf) and (reason := target.unreadable()) is not None:
                        hint = reason
                    elif not target.makes_facts:
                        hint = f"which is {an(target.kind)} and makes no values"
                    else:
                        continue
                    raise UnknownReference(name, read.word, read.target, has, hint)

    def _check_part(self, name: str, component: Part) -> None:
        owner = self.components.get(component.owner)
        if owner is not None and component.which not in owner.parts():
            raise owner.has_no_part(component.which)
        if self.inlets.get(name) != (Inlet((component.owner,)),):
            raise InvalidComponent(f"{name!r} is a part of {component.owner!r}: nothing else feeds it")

    def _sort(self, workflow: str, edges: Mapping[str, list[str]]) -> list[str]:
        order = topological(edges)
        if order is None:
            raise CyclicWorkflow(workflow, find_cycle(edges))
        return order

    def _edges(self) -> Mapping[str, list[str]]:
        """Return children, where a condition comes before those that ask it."""
        if not self.users:
            return self.children
        return {name: [*self.children[name], *self.users.get(name, ())] for name in self.components}

    def _loops(self) -> dict[str, str]:
        """Return, by component with which the turns of a loop end, the one with which they begin."""
        return {name: end.start for name, end in self.components.items() if isinstance(end, TurnEnd)}

    def _check_waits(self) -> None:
        reads = [
            (name, read.target)
            for name, component in self.components.items()
            for function in component.functions().values()
            for read in function.reads.values()
        ]
        if not reads:
            return
        edges = self._edges()
        upstream: dict[str, list[str]] = {name: [] for name in edges}
        for name, children in edges.items():
            for child in children:
                upstream[child].append(name)
        before = {target: reachable(target, upstream) | {target} for target in {target for _, target in reads}}
        waiting = {name: list(children) for name, children in edges.items()}
        loops: list[tuple[str, set[str], set[str]]] = []
        for end, start in self._loops().items():
            following = reachable(end, edges)
            loops.append((end, reachable(start, edges) - following, reachable(end, upstream)))
        for reader, target in reads:
            waits = reader not in before[target]
            self.waits[reader, target] = waits
            if waits:
                waiting[target].append(reader)
            for end, members, turning in loops:
                if target in members and reader in members:
                    self.circles |= {(reader, target)} if reader in turning else set()
                elif target in members and waits:  # what a loop makes is known when it is over
                    waiting[end].append(reader)
        if topological(waiting) is None:
            raise MutualWait(find_cycle(waiting))

    # -- regions ---------------------------------------------------------------------------------

    def _assign_regions(self, names: list[str]) -> None:
        for name in names:
            if self.is_asked_only(name) and name not in self.inlets:
                continue
            sources = {
                str(inlet) if inlet.errors else parent: self.regions[parent] if inlet.errors else self._opened(parent)
                for inlet in self.fed_by(name)
                for parent in inlet.parents
            }
            component = self.components[name]
            if component.gathers:
                self.regions[name] = self._gathered(name, sources)
            elif isinstance(component, TurnEnd):
                self.regions[name] = self._ended(name, component.start, sources)
            else:
                self.regions[name] = self._agreed(name, sources)
        for asked, users in self.users.items():
            places = {user: self.regions[user] for user in users if user in self.regions}
            if asked in self.regions:
                places[asked] = self.regions[asked]
            if any(function.reads for function in self.components[asked].functions().values()):
                self.regions[asked] = self._agreed(asked, places)
            else:  # it looks at nothing but what it is asked about, so it can be asked anywhere
                self.regions.setdefault(asked, next(iter(places.values()), None))
        for name in names:
            self.regions.setdefault(name, None)

    def _opened(self, parent: str) -> str | None:
        """Return the region of the facts that *parent* passes on."""
        if parent == INPUT_NAME:
            return None
        return parent if self.components[parent].opens_region else self.regions[parent]

    def _agreed(self, name: str, sources: Mapping[str, str | None]) -> str | None:
        if len(set(sources.values())) > 1:
            raise MixedRegions(
                f"{name!r} would run {self._places(sources)}; a component stands either inside an each() or outside "
                f"of it: use {name}.named('other') for the second place, close the each() with a reduce, or "
                "read the other value with latest(...)"
            )
        return next(iter(sources.values()), None)

    def _gathered(self, name: str, sources: Mapping[str, str | None]) -> str | None:
        home = self.homes.get(name)
        closes = {
            region is not None and region != home and isinstance(self.components[region], Map)
            for region in sources.values()
        }
        if len(closes) > 1:
            raise MixedRegions(
                f"{name!r} would {'reduce' if self.components[name].folds else 'gather'} elements of an each() and "
                f"{'a plain collection' if self.components[name].folds else 'plain facts'} at once "
                f"({self._places(sources)}); put each(...) around the plain one"
            )
        if closes != {True}:
            return self._agreed(name, sources)
        self.closing.add(name)
        outer = {parent: self.regions[region] for parent, region in sources.items() if region is not None}
        return self._agreed(name, outer)

    def _ended(self, name: str, start: str, sources: Mapping[str, str | None]) -> str | None:
        if set(sources.values()) != {start}:
            raise MixedRegions(
                f"a turn of the loop {name!r} would end {self._places(sources)}; end it with a component that runs "
                "once per turn: close an each() inside of it with a reduce"
            )
        return self.regions[start]

    def _places(self, sources: Mapping[str, str | None]) -> str:
        def told(region: str | None) -> str:
            if region is None:
                return "once per input"
            return f"per {'element' if isinstance(self.components[region], Map) else 'turn'} of {region!r}"

        return " and ".join(f"{told(region)} (after {parent})" for parent, region in _distinct(sources.items()))

    # -- widths ----------------------------------------------------------------------------------

    def _check_widths(self, names: list[str]) -> None:
        given: dict[str, int] = {}
        for name in names:
            component = self.components[name]
            if self.is_asked_only(name) and name not in self.inlets:
                continue
            for inlet in self.fed_by(name):
                width = self.width(name, inlet)
                component.check_width(width, str(inlet))
                if given.setdefault(name, width) != width and isinstance(component, Condition):
                    raise WrongArity(
                        f"the condition {name!r} gets {given[name]} values here and {width} from {inlet}; "
                        f"use {name}.named('other') for one of them"
                    )
            self.widths[name] = given[name] if isinstance(component, Condition) else 1
        for asked, users in self.users.items():
            for user in users:
                if user in given:
                    self.components[asked].check_width(given[user], f"{user}")

    def width(self, name: str, inlet: Inlet) -> int:
        """Return how many values *name* gets by *inlet*."""
        component = self.components[name]
        if inlet.errors:
            return 1
        widths = [1 if parent == INPUT_NAME else self.widths[parent] for parent in inlet.parents]
        if not inlet.is_join:
            return widths[0]
        if not component.takes_join:
            first, second = inlet.parents[:2]
            several = "fold the elements of several maps" if component.folds else "gather what both make"
            more = (
                f"; to {several} write {first} >> {name}, {second} >> {name}"
                if component.gathers
                else f"; put a step between that takes them: [{', '.join(inlet.parents)}] >> combine >> {name}"
            )
            raise InvalidJoin(f"{name!r} is {an(component.kind)} and takes no join of {', '.join(inlet.parents)}{more}")
        if inlet.wait == "all":
            return sum(widths)
        if set(widths) != {1}:
            raise InvalidJoin(f"a join that waits for {inlet.wait!r} takes one value of each parent, at {name!r}")
        return {"any": 1, "all_done": len(widths)}[inlet.wait] if isinstance(inlet.wait, str) else inlet.wait


def _distinct(items: Iterable[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    seen: dict[str | None, str] = {}
    for parent, region in items:
        seen.setdefault(region, parent)
    return [(parent, region) for region, parent in seen.items()]
