"""
A workflow compiled once into nodes that know where their facts go.

Besides routes, a plan holds what settling needs: a node has *settled* in a scope when it can make nothing
more there, because nothing is pending and all that feeds it has settled.  Reduces, ``all_done`` joins and
readers of state wait for that.  It is counted only for nodes upstream of one that waits (*tracked*);
a plan in which none waits pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.core.components.condition import Condition
from weft.core.components.loop_ends import TurnEnd
from weft.core.compose.expression import Expression, Leaf, expand
from weft.core.compose.inlet import INPUT_NAME, Inlet
from weft.core.functions.function import Function
from weft.core.functions.hooks import Hooks
from weft.core.functions.references import AllValues, Latest, StateOf
from weft.core.graph.wiring import Wiring
from weft.core.plan.arrival_order import ArrivalOrder, SingleFact, any_inlet, failing, joined, missing
from weft.core.plan.expansion import PlanExpansion
from weft.core.plan.node import Kind, Node, Reading, Rescue
from weft.errors import DuplicateName


class Plan:
    """The tables that runs of one definition share."""

    __slots__ = ("__weakref__", "entries", "has_async", "nodes", "openings", "released", "required_context", "stateful")

    def __init__(self, wiring: Wiring) -> None:
        compiler = Compiler(wiring)
        compiler.compile()
        self.nodes: dict[str, Node] = compiler.nodes
        self.entries: dict[str | None, Node] = compiler.entries
        """By region: a node whose routes lead to what an input, or an element, is given to."""
        self.openings: dict[str | None, dict[str, int]] = {}
        """By region: how many sources each tracked node waits for in a new scope."""
        self.released: dict[str | None, tuple[Node, ...]] = {}
        """By region: the tracked nodes that are fed directly by an input or an element."""
        for node in self.nodes.values():
            if node.tracked:
                self.openings.setdefault(node.region, {})[node.name] = node.sources
        for region, entry in self.entries.items():
            # A plain node that the entry feeds is active instead of waiting for it: its count stays the same.
            self.released[region] = () if entry.easy else entry.dependents
        self.stateful = frozenset(node.name for node in self.nodes.values() if node.stateful)
        self.has_async = any(node.is_async for node in self.nodes.values())
        self.required_context = tuple(
            (node.owner, ref.key) for node in self.nodes.values() for _, ref in node.contexts if ref.is_required
        )


class Compiler:
    """Builds the nodes of a plan, component by component, parents first."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.nodes: dict[str, Node] = {}
        self.outputs: dict[str, Node] = {}
        """By component: the node that its children are fed from."""
        self.states: dict[str, Node] = {}
        """By component whose state is not what it hands on: the node that keeps the state."""
        self.untils: dict[str, Node] = {}
        """By component that begins the turns of a loop: the test that ends them."""
        self.entries: dict[str | None, Node] = {None: Node(INPUT_NAME, INPUT_NAME, Kind.FAN, None)}
        self._entry_nodes = set(self.entries.values())
        self._routes: dict[Node, list[tuple[Node, int]]] = {}
        self._sources: dict[Node, list[Node]] = {}
        self._dependents: dict[Node, list[Node]] = {}
        self._rescues: dict[Node, list[Rescue]] = {}
        self._tainted: dict[Node, set[Node]] = {}
        """By node: those of its dependents that take its values, and so suffer when it fails."""
        self._parts: dict[str, list[Node]] = {}
        """By component: its nodes that run a function."""
        self._joins: dict[Inlet, Node] = {}
        self._orders: dict[Node, ArrivalOrder] = {}
        """By node that hands on what it has not made: the ways by which that can reach it."""
        self._spelled: dict[str, Expression] = {}
        """By condition that is an expression over others: the expression in full."""
        self._reads: list[tuple[Node, Function]] = []
        self._askers: dict[Node, int] = {}
        """Tests, and how many gates ask them."""
        self._exits: dict[Node, Node] = {}
        self._collects: dict[Node, list[tuple[Node, int]]] = {}

    def compile(self) -> None:
        """Expand every component, then work out what must be tracked."""
        for name in self.wiring.order:
            component = self.wiring.components[name]
            if component.opens_region:
                self.entries[name] = Node(name, name, Kind.FAN, name)
                self._entry_nodes.add(self.entries[name])
            if isinstance(component, Condition) and component.expression is not None:
                self._spelled[name] = self.spelled_out(component.expression)  # those it names stand before it
            component.expand(PlanExpansion(self, name, self.wiring.regions[name]))
            if component.hooks:
                self._hook(name, component.hooks)
        for node, function in self._reads:
            node.readings = tuple(self._readings(node.owner, function))
        self._track()
        self._finish()

    def _hook(self, component: str, hooks: Hooks) -> None:
        """Put *hooks* around what the component runs: its main node, or all its parts if it has none."""
        parts = self._parts.get(component, [])
        for node in [part for part in parts if part.name == component] or parts:
            node.call = hooks.around(node.call, is_async=node.is_async, component=component)

    # -- what expansions ask for -----------------------------------------------------------------

    def node(self, name: str, owner: str, kind: Kind, region: str | None) -> Node:
        """Add a node under a name that no other node has."""
        if name in self.nodes:
            raise DuplicateName(name, f"one of them is a part of {owner!r}")
        self.nodes[name] = node = Node(name, owner, kind, region)
        if node.is_runnable:
            self._parts.setdefault(owner, []).append(node)
            node.component = self.wiring.components.get(owner)
        return node

    def asked(self, condition: str) -> Node:
        """Return the node of another component's *condition*, for a gate that asks it."""
        node = self.outputs[condition]
        self._askers[node] = self._askers.get(node, 0) + 1
        return node

    def spelled_out(self, expression: Expression) -> Expression:
        """Return *expression* with conditions that are expressions themselves in full."""

        return expand(expression, lambda name: self._spelled.get(name) or Leaf(name))

    def add_reads(self, node: Node, function: Function) -> None:
        """Remember that *node* reads other components; resolved when all are there."""
        if function.reads:
            self._reads.append((node, function))

    def feed(self, node: Node, component: str) -> None:
        """Connect the inlets of *component* to *node*."""
        if self.wiring.is_asked_only(component) and component not in self.wiring.inlets:
            return
        inlets = self.wiring.fed_by(component)
        ways: list[ArrivalOrder] = []
        hands_on = False
        for port, inlet in enumerate(inlets):
            if inlet.errors:
                parts = self._failing(inlet.parents[0])
                for part in parts:
                    self.connect(part, node, port, errors=inlet.errors)
                ways.append(SingleFact([failing(part.name) for part in parts]))
            else:
                source = self._joined(inlet, node.region)
                self.connect(source, node, port)
                ways.append(self._order_of(source))
                hands_on = hands_on or source in self._orders or source in self._entry_nodes
        if node.passes_on and ways:
            self._orders[node] = node.arrivals = any_inlet(ways)
        if len(inlets) > 1 and node.kind is not Kind.COLLECT:
            node.multi = True
            node.deduplicates = hands_on
            if node.deduplicates or node.passes_on:
                node.arrival_order = any_inlet(ways)

    def _failing(self, component: str) -> list[Node]:
        """Return the nodes whose failures are those of *component*: of a loop, also what runs in a turn."""
        found = self._parts[component]
        if not isinstance(end := self.wiring.components[component], TurnEnd):
            return found
        regions = self.wiring.regions
        inside = [name for name in self.wiring.order if end.start in self.wiring.enclosing(regions[name])]
        return [*found, *(part for name in inside for part in self._parts.get(name, ()))]

    def connect(self, source: Node, target: Node, port: int, *, errors: tuple[str, ...] = ()) -> None:
        """Let *source* feed *target*, with its failures if *errors* names some, and *target* settle only after it."""
        if errors:
            self._rescues.setdefault(source, []).append((errors, target, port))
        else:
            self._routes.setdefault(source, []).append((target, port))
            self._sources.setdefault(target, []).append(source)
        target.inlets += 1
        inner = target.kind is Kind.COLLECT and source.region != target.region
        if inner:
            target.is_inner = True
            self._collects.setdefault(self._closed(source.region, target.region), []).append((target, port))
        if not inner:
            before = self._outward(source, target.region)
        elif source in self._entry_nodes:  # the elements themselves: all of them are there when the fan is done
            before = self.outputs[str(source.region)]
        else:
            before = self._outward(source, target.region)
        self._dependents.setdefault(before, []).append(target)
        if not errors:
            self._tainted.setdefault(before, set()).add(target)
        target.sources += 1
        if before not in self._entry_nodes:
            target.upstream.append(before)
        if target.kind in (Kind.JOIN, Kind.COLLECT):
            hands_on = source.passes_on and not errors
            target.handed = {**target.handed, port: source.arrival_order if hands_on else None}
        elif source.passes_on and target.arrival_order is None and not errors:
            target.arrival_order = source.arrival_order  # what comes by one way here came by several there
        if target.kind is not Kind.COLLECT:
            target.multi = target.multi or source.multi

    # -- inlets ----------------------------------------------------------------------------------

    def _source(self, parent: str) -> Node:
        if parent == INPUT_NAME:
            return self.entries[None]
        return self.entries[parent] if parent in self.entries else self.outputs[parent]

    def _joined(self, inlet: Inlet, region: str | None) -> Node:
        return self._join(inlet, region) if inlet.is_join else self._source(inlet.parents[0])

    def _order_of(self, source: Node) -> ArrivalOrder:
        """Return the ways by which facts come from *source*: one, if it makes them itself."""
        maker = source.owner if source.kind is Kind.EMIT else source.name
        return self._orders.get(source) or SingleFact(["" if source is self.entries[None] else maker])

    def _join(self, inlet: Inlet, region: str | None) -> Node:
        known = self._joins.get(inlet)
        if known is not None:
            return known
        node = self.node(f"\0join {inlet.parents!r} {inlet.wait!r}", "", Kind.JOIN, region)
        self._joins[inlet] = node
        node.parents, node.wait = inlet.parents, inlet.wait
        sources = [self._source(parent) for parent in inlet.parents]
        for port, source in enumerate(sources):
            self.connect(source, node, port)
        columns = [self._order_of(source) for source in sources]
        if inlet.wait == "all_done":
            columns = [
                any_inlet([ways, SingleFact([missing(name)])])
                for ways, name in zip(columns, inlet.parents, strict=True)
            ]
        if inlet.wait in ("all", "all_done"):
            node.needed = len(sources)
            node.closes = inlet.wait == "all_done" or node.multi
        else:
            node.needed = 1 if inlet.wait == "any" else int(inlet.wait)
            node.multi = False
        self._orders[node] = joined(columns, node.needed)
        return node

    def _closed(self, region: str | None, outer: str | None) -> Node:
        """Return what opens the region that lies directly in *outer*, around *region*."""
        around = self.wiring.enclosing(region)
        return self.outputs[str(around[around.index(outer) - 1])]

    def _outward(self, node: Node, region: str | None) -> Node:
        """Return what settles in *region* when *node*, there or further in, has."""
        while node.region != region:
            node = self._exit(node)
        return node

    def _exit(self, inner: Node) -> Node:
        """Return the node that settles, one region further out, when *inner* has for every element, or turn."""
        known = self._exits.get(inner)
        if known is not None:
            return known
        fan = self.outputs[str(inner.region)]
        node = self.node(f"\0exit of {inner.name}", inner.owner, Kind.EXIT, fan.region)
        self._exits[inner] = node
        self._dependents.setdefault(fan, []).append(node)
        self._tainted.setdefault(fan, set()).add(node)
        node.sources = 1
        node.upstream = [fan, inner]
        if inner.region in self.untils:
            node.upstream.append(self.untils[inner.region])
        return node

    # -- reads -----------------------------------------------------------------------------------

    def _readings(self, component: str, function: Function) -> Iterable[Reading]:
        around = self.wiring.enclosing(self.wiring.regions[component])
        for parameter, read in function.reads.items():
            target = unit = self.outputs[read.target]
            if isinstance(read, StateOf):
                target = unit = self.states.get(read.target, target)
            outward = self.wiring.enclosing(target.region)
            # A version is looked for where reader and target meet; what counts the run so far, in the whole input.
            one = isinstance(read, StateOf | Latest)
            common = next(region for region in outward if region in around) if one else None
            distance = outward.index(common)
            target.records = tuple(sorted({*target.records, distance}))
            if isinstance(read, AllValues) and not (target.stateful or target.kind is Kind.EMIT):
                target.keyed = target.keyed or target.multi or target.region is not None
            is_circular = not one and (component, read.target) in self.wiring.circles
            if self.wiring.waits[component, read.target] and not is_circular:
                for _ in range(distance):
                    unit = self._exit(unit)
                yield Reading(parameter, read, target, unit, around.index(common))
            else:
                yield Reading(parameter, read, target, None, around.index(common))

    # -- settling --------------------------------------------------------------------------------

    def _track(self) -> None:
        stack = [node for node in self.nodes.values() if node.kind is Kind.COLLECT or node.closes]
        stack += [r.unit for node in self.nodes.values() for r in node.readings if r.unit is not None]
        while stack:
            node = stack.pop()
            if not node.tracked:
                node.tracked = True
                stack.extend(node.upstream)

    def _repeats(self, node: Node) -> bool:
        """Whether *node* may run more than once for one input, besides once per element."""
        around = self.wiring.enclosing(node.region)[:-1]
        return node.multi or any(name in self.untils or self.outputs[str(name)].multi for name in around)

    def _finish(self) -> None:
        collecting = {
            target for node in self.nodes.values() if node.kind is Kind.COLLECT for target, _ in self._routes[node]
        }
        for node in self.nodes.values():
            node.closes = node.closes or node.kind is Kind.COLLECT
            node.shared = self._askers.get(node, 0) + (node.inlets > 0) > 1
            ordered = not node.stateful or node.region is not None  # a state at the top is the last in the log
            if node.kind is Kind.WORK and ordered and node not in self._routes and self._repeats(node):
                node.keyed = True  # a result: which of several is the latest must not depend on which finished last
            node.follows_log = node.stateful or node.kind is Kind.EMIT
            node.keeps = node.stateful or bool(node.records) or node.keyed
            given = node.fixed or node.contexts or node.readings or node.by_keyword or node.sees_states
            node.folds = node.stateful and not given
            node.simple = not (
                node.blind
                or node.spread
                or node.fixed
                or node.by_keyword
                or node.contexts
                or node.readings
                or node.initial
            )
            node.plain = (
                node.kind in (Kind.WORK, Kind.TEST)
                and not node.stateful
                and not node.readings
                and not node.shared
                and not node.deduplicates
                and node.arrival_order is None
                and node.inlets == 1
            )
        for node in [*self.nodes.values(), *self.entries.values()]:
            node.routes = tuple(self._routes.get(node, ()))
            node.rescues = tuple(self._rescues.get(node, ()))
            if all(target.plain for target, _ in node.routes):
                node.easy = tuple(target for target, _ in node.routes)
            if len(node.routes) == 1 and node.routes[0][0].kind is Kind.COLLECT and node.kind is Kind.WORK:
                node.gathers = node.routes[0]
            node.bare = (
                node.kind is Kind.WORK
                and not (
                    node.keeps
                    or node.stateful
                    or node.carries
                    or node.tracked
                    or node.readings
                    or node.following
                    or node in collecting
                )
                and len(node.easy) == len(node.routes)
            )
            node.dependents = tuple(d for d in self._dependents.get(node, ()) if d.tracked)
            node.spared = frozenset(node.dependents) - self._tainted.get(node, set())
            exit_ = self._exits.get(node)
            node.exits = (exit_,) if exit_ is not None and exit_.tracked else ()
            node.lone = bool(node.exits) and not node.dependents and not node.closes and node.kind is not Kind.JOIN
            node.opened = tuple(d for d in node.dependents if d.kind is Kind.EXIT)
        for until in self.untils.values():
            assert until.reopens is not None  # noqa: S101
            until.holds, until.lone = until.reopens.opened, False
        for fan, collects in self._collects.items():
            fan.collects = tuple({target: (target, port) for target, port in reversed(collects)}.values())
