"""
Drafts of nodes, which the compiler fills until the plan is complete.

Nodes refer to each other in cycles, so there are two passes: a draft has an empty node from the start, to which other
drafts can refer; when everything is known, :meth:`Draft.freeze` fills it, once.  Data that only the compiler needs
(how many inlets, which nodes must settle before) stays in the draft and is dropped with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from weft.core.compose.questions import Questions
from weft.core.plan import node as nodes
from weft.core.plan.arrival_order import ArrivalOrder
from weft.core.plan.node import Kept, Kind, Settling
from weft.typing import Wait

N = TypeVar("N", bound=nodes.Node)


class Draft(Generic[N]):
    """A node that is not complete: where its facts go, and which nodes must settle before it."""

    kind: Kind
    made_of: type[Any]
    """The class of the node."""
    stateful: bool = False
    """Whether its function is called with its last value first."""
    passes_on: bool = False
    """Whether it makes no fact, but lets facts through."""
    # Where facts come from and go.
    error_routes: tuple[tuple[tuple[str, ...], AnyDraft, int], ...] = ()
    inlets: int = 0
    may_repeat: bool = False
    """Whether it may run more than once in one scope."""
    arrival_order: ArrivalOrder | None = None
    arrivals: ArrivalOrder | None = None
    """Of what passes facts on: the ways by which these can come."""
    deduplicates: bool = False
    # Settling.
    is_tracked: bool = False
    sources: int = 0
    """How many nodes must settle before this one can."""
    rescuers: tuple[AnyDraft, ...] = ()
    """Dependents that receive its failures, once for each way."""
    exit: ExitDraft | None = None
    # Facts that are looked up later.
    levels: tuple[int, ...] = ()
    """In which scopes, counted outward, readers look for what this node made."""
    by_place: bool = False
    follows_log: bool = False
    """Whether its facts are in the order of the log by nature: its states, or what was emitted with them."""

    def __init__(self, name: str, owner: str, region: str | None) -> None:
        self.name, self.owner, self.region = name, owner, region
        self.node: N = object.__new__(self.made_of)
        """The node, empty until :meth:`freeze`."""
        self.routes: list[tuple[AnyDraft, int]] = []
        self.upstream: list[AnyDraft] = []
        self.dependents: list[AnyDraft] = []

    @property
    def is_kept(self) -> bool:
        """Whether the fold keeps its facts to look them up."""
        return self.stateful or self.by_place or bool(self.levels)

    @property
    def is_ready_on_arrival(self) -> bool:
        """Whether it can run on a fact as soon as that arrives, without a look at anything else."""
        return False

    def _plain_targets(self) -> tuple[nodes.FunctionNode, ...]:
        found: list[nodes.FunctionNode] = []
        for target, _ in self.routes:
            if not target.is_ready_on_arrival:
                return ()
            found.append(target.node)
        return tuple(found)

    @property
    def tracked_dependents(self) -> tuple[nodes.Node, ...]:
        """The dependents whose settling is counted."""
        return tuple(dependent.node for dependent in self.dependents if dependent.is_tracked)

    @property
    def exits_opened(self) -> tuple[nodes.ExitNode, ...]:
        """The exits of the region that it opens."""
        return tuple(each.node for each in self.dependents if each.is_tracked and isinstance(each, ExitDraft))

    def freeze(self) -> N:
        """Fill the node, and return it."""
        self.made_of.__init__(self.node, **self.fields())
        return self.node

    def fields(self) -> dict[str, Any]:
        """Return the fields of the node, by name."""
        fields: dict[str, Any] = {"name": self.name, "owner": self.owner, "kind": self.kind, "region": self.region}
        if self.routes:
            fields["routes"] = tuple([(to.node, port) for to, port in self.routes if not isinstance(to, EmitDraft)])
            fields["plain_targets"] = self._plain_targets()
        if self.is_tracked:
            fields["settling"] = self._settling()
        if self.is_kept:
            fields["kept"] = self._kept()
        return fields

    @property
    def held_exits(self) -> tuple[nodes.ExitNode, ...]:
        """The exits that stay open as long as it may begin another turn."""
        return ()

    def _settling(self) -> Settling:
        dependents = self.tracked_dependents
        ways = self.dependents.count  # those that take its values too suffer when it fails
        unaffected = frozenset(each.node for each in self.rescuers if ways(each) == self.rescuers.count(each))
        exit_ = self.exit.node if self.exit is not None and self.exit.is_tracked else None
        held = self.held_exits
        # A join absorbs failures, which the short way for a lone exit does not ask about.
        is_lone = not (dependents or held or self.kind in (Kind.JOIN, Kind.COLLECT))
        upstream = tuple([each.node for each in self.upstream])
        return Settling(
            upstream=upstream,
            dependents=dependents,
            unaffected=unaffected,
            exit=exit_,
            lone_exit=exit_ if is_lone else None,
            held_exits=held,
        )

    def _kept(self) -> Kept:
        is_placed = bool(self.levels) or self.by_place
        return Kept(is_placed=is_placed, levels=self.levels, by_place=self.by_place, follows_log=self.follows_log)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


AnyDraft = Draft[Any]


class ReceiverDraft(Draft[N]):
    """A node that runs or decides on facts as they arrive."""

    def fields(self) -> dict[str, Any]:
        """Return the fields of the node, by name."""
        fields = super().fields()
        fields["passes_on"], fields["has_one_inlet"] = self.passes_on, self.inlets == 1
        fields["arrival_order"], fields["deduplicates"] = self.arrival_order, self.deduplicates
        return fields


# -- nodes of the fold ---------------------------------------------------------------------------


class GateDraft(ReceiverDraft[nodes.GateNode]):
    """A gate over conditions."""

    kind, made_of, passes_on = Kind.GATE, nodes.GateNode, True

    def __init__(
        self,
        name: str,
        owner: str,
        region: str | None,
        questions: Questions,
        tests: Mapping[str | int, Draft[nodes.FunctionNode]],
    ) -> None:
        super().__init__(name, owner, region)
        self.questions, self.tests = questions, tests

    def fields(self) -> dict[str, Any]:
        """Return the fields of the node, by name."""
        tests = {name: test.node for name, test in self.tests.items()}
        return {**super().fields(), "questions": self.questions, "tests": tests, "arrivals": self.arrivals}


class LoopDraft(ReceiverDraft[nodes.LoopNode]):
    """The beginning of a loop over a graph."""

    kind, made_of = Kind.LOOP, nodes.LoopNode

    def fields(self) -> dict[str, Any]:
        """Return the fields of the node, by name."""
        return {**super().fields(), "exits": self.exits_opened}


class WaitingDraft(Draft[N]):
    """A node that keeps facts until those it waits for have arrived."""

    def __init__(self, name: str, owner: str, region: str | None) -> None:
        super().__init__(name, owner, region)
        self.arrival_orders: dict[int, ArrivalOrder | None] = {}
        """By inlet: the order of the facts that a condition passes on to it in several ways."""

    @property
    def fires_when_settled(self) -> bool:
        """Whether it has to wait until nothing more can come."""
        return True

    def fields(self) -> dict[str, Any]:
        """Return the fields of the node, by name."""
        ports = range(max(self.arrival_orders, default=-1) + 1)
        return {**super().fields(), "arrival_orders": tuple([self.arrival_orders.get(port) for port in ports])}


class JoinDraft(WaitingDraft[nodes.JoinNode]):
    """A join of several parents."""

    kind, made_of = Kind.JOIN, nodes.JoinNode

    def __init__(self, name: str, owner: str, region: str | None, parents: tuple[str, ...], wait: Wait) -> None:
        super().__init__(name, owner, region)
        self.parents, self.wait = parents, wait
        self.is_race = wait not in ("all", "all_done")

    @property
    def needed(self) -> int:
        """How many parents must have sent a fact."""
        if not self.is_race:
            return len(self.parents)
        return 1 if self.wait == "any" else int(self.wait)

    @property
    def fires_when_settled(self) -> bool:
        """Whether it has to wait until nothing more can come."""
        return self.wait == "all_done" or (self.wait == "all" and self.may_repeat)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the node, by name."""
        own = {"parents": self.parents, "wait": self.wait, "needed": self.needed}
        return {**super().fields(), **own, "fires_when_settled": self.fires_when_settled}


class CollectDraft(WaitingDraft[nodes.CollectNode]):
    """A collect, which gathers a batch."""

    kind, made_of = Kind.COLLECT, nodes.CollectNode

    def __init__(self, name: str, owner: str, region: str | None) -> None:
        super().__init__(name, owner, region)
        self.closes_region = False

    def fields(self) -> dict[str, Any]:
        """Return the fields of the node, by name."""
        reduce = self.routes[0][0].node
        return {**super().fields(), "reduce": reduce, "closes_region": self.closes_region}


class ExitDraft(Draft[nodes.ExitNode]):
    """The exit of a node from an inner region."""

    kind, made_of = Kind.EXIT, nodes.ExitNode


class EmitDraft(Draft[nodes.EmitNode]):
    """A node that passes on the facts of a state change."""

    kind, made_of, follows_log = Kind.EMIT, nodes.EmitNode, True


class EntryDraft(Draft[nodes.EntryNode]):
    """The beginning of a scope."""

    kind, made_of = Kind.ENTRY, nodes.EntryNode
