"""
A workflow compiled once into nodes that know where their facts go.

Besides routes, a plan holds the data for settling: a node has *settled* in a scope when it can produce nothing
more there, because nothing is pending and every node that feeds it has settled.  Reduces, ``all_done`` joins and
readers of state wait for that.  Only nodes upstream of a node that waits are counted (*tracked*);
a plan in which no node waits pays nothing for settling.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast

from weft.core.components.condition import Condition
from weft.core.components.loop_ends import TurnEnd
from weft.core.components.state_change import facts_made, state_made
from weft.core.components.waits import Waits
from weft.core.compose.expression import Expression, Leaf, expand
from weft.core.compose.inlet import INPUT_NAME, Inlet
from weft.core.functions.function import Function
from weft.core.functions.hooks import Hooks
from weft.core.functions.references import AllValues, Latest, StateOf
from weft.core.graph.wiring import Wiring
from weft.core.plan.arrival_order import ArrivalOrder, SingleFact, any_inlet, failing, joined, missing
from weft.core.plan.draft import AnyDraft, CollectDraft, EmitDraft, EntryDraft, ExitDraft, JoinDraft, WaitingDraft
from weft.core.plan.expansion import PlanExpansion
from weft.core.plan.function_draft import FunctionDraft, ReadingDraft
from weft.core.plan.node import CollectNode, EntryNode, FunctionNode, Kind, Node
from weft.errors import DuplicateName

D = TypeVar("D", bound=AnyDraft)


class Plan:
    """The tables that runs of one definition share."""

    __slots__ = (
        "__weakref__",
        "entries",
        "has_async",
        "has_waits",
        "nodes",
        "noted",
        "openings",
        "released",
        "required_context",
        "signals",
        "stateful",
        "transactional",
    )

    def __init__(self, wiring: Wiring) -> None:
        compiler = Compiler(wiring)
        compiler.compile()
        self.nodes: dict[str, Node] = {name: draft.freeze() for name, draft in compiler.drafts.items()}
        self.entries: dict[str | None, EntryNode] = {}
        """By region: a node whose routes lead to what an input, or an element, is given to."""
        self.openings: dict[str | None, dict[str, int]] = {}
        """By region: how many sources each tracked node waits for in a new scope."""
        self.released: dict[str | None, tuple[Node, ...]] = {}
        """By region: the tracked nodes that are fed directly by an input or an element."""
        for draft in compiler.drafts.values():
            if draft.is_tracked:
                self.openings.setdefault(draft.region, {})[draft.name] = draft.sources
        for region, entry in compiler.entries.items():
            self.entries[region] = frozen = entry.freeze()
            # A plain node that the entry feeds is active instead of waiting for it: its count stays the same.
            self.released[region] = () if frozen.plain_targets else entry.tracked_dependents
        functions = [node for node in self.nodes.values() if isinstance(node, FunctionNode)]
        self.stateful = frozenset(node.name for node in functions if node.stateful)
        collects = [node for node in self.nodes.values() if isinstance(node, CollectNode)]
        self.noted = frozenset(
            (*(node.name for node in functions if node.readings), *(node.reduce.name for node in collects))
        )
        """The components of whose facts the fold notes what they were made of: those that read others, or gather."""
        self.signals = _signals(functions)
        """By signal: what its components say of their waits for it."""
        self.has_waits = any(node.wait is not None for node in functions)
        self.has_async = any(node.is_async for node in functions)
        self.transactional = tuple(node.name for node in functions if node.transaction)
        """The nodes whose completion is stored in a transaction that their functions write in."""
        self.required_context = tuple(
            (node.name, node.owner, ref.key)
            for node in functions
            if node.arguments is not None
            for _, ref in node.arguments.contexts
            if ref.is_required
        )


def _signals(functions: Iterable[FunctionNode]) -> dict[str, tuple[Waits, ...]]:
    found: dict[str, tuple[Waits, ...]] = {}
    for node in functions:
        if node.wait is not None and node.wait.signal is not None:
            found[node.wait.signal] = (*found.get(node.wait.signal, ()), node.wait)
    return found


class Compiler:
    """Drafts the nodes of a plan, component by component, parents first."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.drafts: dict[str, AnyDraft] = {}
        self.outputs: dict[str, AnyDraft] = {}
        """By component: the node that its children are fed from."""
        self.taken: dict[str, FunctionDraft] = {}
        """By component that is a part of another: the node whose values are its own."""
        self.states: dict[str, FunctionDraft] = {}
        """By component whose facts are not its states: the node that keeps the state."""
        self.beginnings: dict[str, FunctionDraft] = {}
        """By component that begins with another node than its main one: that node, which ``before`` hooks precede."""
        self.untils: dict[str, FunctionDraft] = {}
        """By component that begins the turns of a loop: the test that ends them."""
        self.entries: dict[str | None, EntryDraft] = {None: EntryDraft(INPUT_NAME, INPUT_NAME, None)}
        self._parts: dict[str, list[FunctionDraft]] = {}
        """By component: its nodes that run a function."""
        self._joins: dict[Inlet, JoinDraft] = {}
        self._orders: dict[AnyDraft, ArrivalOrder] = {}
        """By node that passes on facts of others: the ways by which these can reach it."""
        self._spelled: dict[str, Expression] = {}
        """By condition that is an expression over others: the expression in full."""

    def compile(self) -> None:
        """Expand every component, then find the nodes that must be tracked."""
        for name in self.wiring.order:
            component = self.wiring.components[name]
            if component.opens_region:
                self.entries[name] = EntryDraft(name, name, name)
            if isinstance(component, Condition) and component.expression is not None:
                self._spelled[name] = self.spelled_out(component.expression)  # those it names come before it
            component.expand(PlanExpansion(self, name, self.wiring.regions[name]))
            if component.hooks:
                self._hook(name, component.hooks)
        for parts in self._parts.values():
            for draft in parts:
                if draft.function.references:
                    draft.readings = list(self._readings(draft.owner, draft.function))
        self._track()
        self._order_results()

    def _hook(self, component: str, hooks: Hooks) -> None:
        """Put *hooks* around the main node of the component, or around all its parts if it has none."""
        parts = self._parts.get(component, [])
        main = [part for part in parts if part.name == component] or parts if hooks.before or hooks.after else []
        own = Hooks(before=hooks.before, after=hooks.after)
        first = self.beginnings.get(component)
        if first is None:
            for draft in main:
                self._surround(draft, own)
        else:
            self._surround(first, Hooks(before=hooks.before))
            for draft in main:
                self._surround(draft, Hooks(after=hooks.after))
        for part, inner in hooks.parts:
            for draft in parts:
                if draft.name == f"{component}.{part}":
                    self._surround(draft, inner)

    def _surround(self, draft: FunctionDraft, hooks: Hooks) -> None:
        if hooks:
            produced = None if draft.emits is None else facts_made if draft.emits.may_repeat else state_made
            is_async = draft.function.is_async
            draft.call = hooks.around(draft.call, is_async=is_async, component=draft.name, produced=produced)

    # -- what expansions ask for -----------------------------------------------------------------

    def add(self, draft: D) -> D:
        """Add a node under a name that no other node has."""
        if draft.name in self.drafts:
            raise DuplicateName(draft.name, f"one of them is a part of {draft.owner!r}")
        self.drafts[draft.name] = draft
        if isinstance(draft, FunctionDraft):
            self._parts.setdefault(draft.owner, []).append(draft)
            draft.component = self.wiring.components.get(draft.owner)
        return draft

    def asked(self, condition: str) -> FunctionDraft:
        """Return the node of another component's *condition*, for a gate that asks it."""
        test = cast("FunctionDraft", self.outputs[condition])
        test.askers += 1
        return test

    def spelled_out(self, expression: Expression) -> Expression:
        """Return *expression* with named conditions replaced by their expressions."""

        return expand(expression, lambda name: self._spelled.get(name) or Leaf(name))

    def feed(self, draft: AnyDraft, component: str) -> None:
        """Connect the inlets of *component* to *draft*."""
        if self.wiring.is_asked_only(component) and component not in self.wiring.inlets:
            return
        inlets = self.wiring.fed_by(component)
        ways: list[ArrivalOrder] = []
        hands_on = False
        for port, inlet in enumerate(inlets):
            if inlet.errors:
                parts = self._failing(inlet.parents[0])
                for part in parts:
                    self.connect(part, draft, port, errors=inlet.errors)
                ways.append(SingleFact([failing(part.name) for part in parts]))
            else:
                source = self._joined(inlet, draft.region)
                self.connect(source, draft, port)
                ways.append(self._order_of(source))
                hands_on = hands_on or source in self._orders or isinstance(source, EntryDraft)
        if draft.passes_on and ways:
            self._orders[draft] = draft.arrivals = any_inlet(ways)
        if len(inlets) > 1 and not isinstance(draft, CollectDraft):
            draft.may_repeat = True
            draft.deduplicates = hands_on
            if draft.deduplicates or draft.passes_on:
                draft.arrival_order = any_inlet(ways)

    def _failing(self, component: str) -> list[FunctionDraft]:
        """Return the nodes whose failures are those of *component*; for a loop, also the nodes of a turn."""
        found = self._parts[component]
        if not isinstance(end := self.wiring.components[component], TurnEnd):
            return found
        regions = self.wiring.regions
        inside = [name for name in self.wiring.order if end.start in self.wiring.enclosing(regions[name])]
        return [*found, *(part for name in inside for part in self._parts.get(name, ()))]

    def connect(self, source: AnyDraft, target: AnyDraft, port: int, *, errors: tuple[str, ...] = ()) -> None:
        """Let *source* feed *target*, with its failures if *errors* names some, and *target* settle only after it."""
        if errors:
            source.error_routes = (*source.error_routes, (errors, target, port))
        else:
            source.routes.append((target, port))
        target.inlets += 1
        before = self._closes(source, target, port) or self._outward(source, target.region)
        before.dependents.append(target)
        if errors:
            before.rescuers = (*before.rescuers, target)
        target.sources += 1
        if not isinstance(before, EntryDraft):
            target.upstream.append(before)
        hands_on = source.passes_on and not errors
        if isinstance(target, WaitingDraft):
            target.arrival_orders[port] = source.arrival_order if hands_on else None
        elif hands_on and target.arrival_order is None:
            target.arrival_order = source.arrival_order  # what comes by one way here came by several there
        if isinstance(source, CollectDraft) and isinstance(target, FunctionDraft):
            target.reduces = True
        if not isinstance(target, CollectDraft):
            target.may_repeat = target.may_repeat or source.may_repeat

    def _closes(self, source: AnyDraft, target: AnyDraft, port: int) -> AnyDraft | None:
        """Record that *target* closes the region of *source*, if it does; return the node that has to settle first."""
        if not isinstance(target, CollectDraft) or source.region == target.region:
            return None
        target.closes_region = True
        around = self.wiring.enclosing(source.region)
        opener = self.outputs[str(around[around.index(target.region) - 1])]
        if isinstance(opener, FunctionDraft):
            opener.collects = {target: port, **opener.collects}
        return self.outputs[str(source.region)] if isinstance(source, EntryDraft) else None

    # -- inlets ----------------------------------------------------------------------------------

    def _source(self, parent: str) -> AnyDraft:
        if parent == INPUT_NAME:
            return self.entries[None]
        return self.entries[parent] if parent in self.entries else self.outputs[parent]

    def _joined(self, inlet: Inlet, region: str | None) -> AnyDraft:
        return self._join(inlet, region) if inlet.is_join else self._source(inlet.parents[0])

    def _order_of(self, source: AnyDraft) -> ArrivalOrder:
        """Return the ways by which facts come from *source*: one, if it produces them itself."""
        maker = source.owner if isinstance(source, EmitDraft) else source.name
        return self._orders.get(source) or SingleFact(["" if source is self.entries[None] else maker])

    def _join(self, inlet: Inlet, region: str | None) -> JoinDraft:
        known = self._joins.get(inlet)
        if known is not None:
            return known
        name = f"\0join {inlet.parents!r} {inlet.wait!r}"
        draft = self._joins[inlet] = self.add(JoinDraft(name, "", region, inlet.parents, inlet.wait))
        sources = [self._source(parent) for parent in inlet.parents]
        for port, source in enumerate(sources):
            self.connect(source, draft, port)
        columns = [self._order_of(source) for source in sources]
        if inlet.wait == "all_done":
            columns = [
                any_inlet([ways, SingleFact([missing(name)])])
                for ways, name in zip(columns, inlet.parents, strict=True)
            ]
        if draft.is_race:
            draft.may_repeat = False
        self._orders[draft] = joined(columns, draft.needed)
        return draft

    def _outward(self, draft: AnyDraft, region: str | None) -> AnyDraft:
        """Return the node that settles in *region* when *draft*, there or further in, has settled."""
        while draft.region != region:
            draft = self._exit(draft)
        return draft

    def _exit(self, inner: AnyDraft) -> ExitDraft:
        """Return the node that settles, one region further out, when *inner* has settled for every element or turn."""
        if inner.exit is not None:
            return inner.exit
        opener = self.outputs[str(inner.region)]
        draft = inner.exit = self.add(ExitDraft(f"\0exit of {inner.name}", inner.owner, opener.region))
        opener.dependents.append(draft)
        draft.sources = 1
        draft.upstream = [opener, inner]
        if inner.region in self.untils:
            draft.upstream.append(self.untils[inner.region])
        return draft

    # -- reads -----------------------------------------------------------------------------------

    def _readings(self, component: str, function: Function) -> Iterable[ReadingDraft]:
        around = self.wiring.enclosing(self.wiring.regions[component])
        for parameter, read in function.reads.items():
            target = unit = self.taken.get(read.target) or self.outputs[read.target]
            if isinstance(read, StateOf):
                target = unit = self.states.get(read.target, target)
            outward = self.wiring.enclosing(target.region)
            # A version is looked for where reader and target meet; what counts the run so far, in the whole input.
            one = isinstance(read, StateOf | Latest)
            common = next(region for region in outward if region in around) if one else None
            distance = outward.index(common)
            target.levels = tuple(sorted({*target.levels, distance}))
            if isinstance(read, AllValues) and not target.follows_log:
                target.by_place = target.by_place or target.may_repeat or target.region is not None
            is_circular = not one and (component, read.target) in self.wiring.circles
            if self.wiring.waits[component, read.target] and not is_circular:
                for _ in range(distance):
                    unit = self._exit(unit)
                yield ReadingDraft(parameter, read, target, unit, around.index(common))
            else:
                yield ReadingDraft(parameter, read, target, None, around.index(common))

    # -- settling --------------------------------------------------------------------------------

    def _track(self) -> None:
        """Mark the nodes that another node waits for, directly or not."""
        stack: list[AnyDraft] = [
            draft for draft in self.drafts.values() if isinstance(draft, WaitingDraft) and draft.fires_when_settled
        ]
        for parts in self._parts.values():
            stack += [reading.unit for part in parts for reading in part.readings if reading.unit is not None]
        while stack:
            draft = stack.pop()
            if not draft.is_tracked:
                draft.is_tracked = True
                stack.extend(draft.upstream)

    def _order_results(self) -> None:
        """Order results by place: which of several is the latest must not depend on which finished last."""
        for parts in self._parts.values():
            for draft in parts:
                is_ordered = draft.stateful and draft.region is None  # a state at the top is the last in the log
                if draft.kind is Kind.WORK and not draft.routes and not is_ordered and self._repeats(draft):
                    draft.by_place = True

    def _repeats(self, draft: AnyDraft) -> bool:
        """Whether *draft* may run more than once for one input, besides once per element."""
        around = self.wiring.enclosing(draft.region)[:-1]
        return draft.may_repeat or any(name in self.untils or self.outputs[str(name)].may_repeat for name in around)
