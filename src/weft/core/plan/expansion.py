"""
The expansion of a component into nodes, as the compiler carries it out.

Components know it as :class:`weft.core.compose.expansion.Expansion`, which says what each method is for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.core.compose.expansion import Expansion
from weft.core.compose.expression import Expression, leaves
from weft.core.compose.questions import questions_of
from weft.core.failure import EVERYTHING
from weft.core.functions.function import Function
from weft.core.functions.initial import Initial
from weft.core.plan.node import Kind, Node

if TYPE_CHECKING:
    from weft.core.plan.plan import Compiler


class PlanExpansion(Expansion):
    """One component on its way into a plan."""

    __slots__ = ("_compiler", "name", "region")

    def __init__(self, compiler: Compiler, name: str, region: str | None) -> None:
        self._compiler, self.name, self.region = compiler, name, region

    @property
    def closes_map(self) -> bool:
        """Whether this component reduces the elements of an ``each``."""
        return self.name in self._compiler.wiring.closing

    @property
    def is_asked_only(self) -> bool:
        """Whether this component is a condition that stands nowhere in the flow: others ask it."""
        wiring = self._compiler.wiring
        return wiring.is_asked_only(self.name) and self.name not in wiring.inlets

    def work(
        self,
        function: Function,
        *,
        call: Callable[..., Any] | None = None,
        spread: bool = False,
        initial: Initial | None = None,
        pending: Initial | None = None,
        fans_out: bool = False,
        part: str = "",
    ) -> Node:
        """Add a node that runs *function*."""
        node = self._node(Kind.FAN if fans_out else Kind.WORK, part)
        node.runs(function, call, spread=spread)
        if initial is not None:
            node.initial, node.stateful, node.begin = initial, True, initial.make
        elif pending is not None:
            node.initial, node.begin = pending, pending.make
        self._compiler.add_reads(node, function)
        if not part:
            self._compiler.outputs[self.name] = node
        return node

    def state(
        self,
        function: Function,
        initial: Initial,
        *,
        several: bool,
        by_key: bool = False,
        sees_states: bool = False,
    ) -> Node:
        """Add the node that decides over the component's state, fed by its parents, and what hands on its facts."""
        node = self._node(Kind.STATE, "")
        node.runs(function, None, spread=False)
        node.initial, node.stateful, node.begin = initial, True, initial.make
        node.by_key, node.sees_states = by_key, sees_states
        self._compiler.add_reads(node, function)
        self.feed(node)
        node.emits = emits = self._compiler.node(f"\0facts of {self.name}", self.name, Kind.EMIT, self.region)
        emits.multi = several
        self.link(node, emits)
        self._compiler.outputs[self.name] = emits
        self._compiler.states[self.name] = node
        return node

    def reaction(self, state: Node, function: Function, part: str) -> None:
        """Let a change of *state* fire *part*, which runs *function* on the new state and on what changed it."""
        state.fires[part] = node = self.work(function, part=part)
        self.link(state, node)

    def relay(self, function: Function, *, part: str, undoes: bool = False) -> Node:
        """Add a node that hands on everything that it was given, together with what it made."""
        node = self.work(function, part=part)
        node.carries, node.undoes = True, undoes
        return node

    def test(self, function: Function, *, spread: bool = False, part: str = "", region: str | None = None) -> Node:
        """Add a node that asks whether *function* holds, in *region*, which is by default that of the component."""
        node = self._node(Kind.TEST, part, region)
        node.runs(function, None, spread=spread)
        self._compiler.add_reads(node, function)
        if not part:
            self._compiler.outputs[self.name] = node
        return node

    def gate(self, expression: Expression, *, part: str = "") -> Node:
        """Add a gate over conditions of other components."""
        node = self._node(Kind.GATE, part)
        expression = self._compiler.spelled_out(expression)
        node.questions = questions_of(expression)
        node.tests = {name: self._compiler.asked(name) for name in dict.fromkeys(leaves(expression))}
        if not part:
            self._compiler.outputs[self.name] = node
        return node

    def feed(self, node: Node) -> None:
        """Let the component's parents feed *node*."""
        self._compiler.feed(node, self.name)

    def collect(self, node: Node) -> None:
        """Let *node* run once on everything that the component's parents make in a scope."""
        collect = self._compiler.node(f"\0batch of {self.name}", self.name, Kind.COLLECT, self.region)
        self._compiler.feed(collect, self.name)
        self._compiler.connect(collect, node, 0)

    def link(self, first: Node, then: Node) -> None:
        """Let *first* feed *then*."""
        self._compiler.connect(first, then, 0)

    def link_failure(self, first: Node, then: Node) -> None:
        """Let the failures of *first* feed *then*."""
        self._compiler.connect(first, then, 0, errors=EVERYTHING)

    def loop(self, turn: list[Node], until: Node, *, at_most: int, gives_last: bool) -> None:
        """Let *turn*, a chain of nodes that *until* follows, run again until it holds."""
        for node, following in zip(turn, [*turn[1:], until], strict=True):
            node.following, node.again = following, turn[0]
            self.link(node, following)
        until.again, until.at_most, until.gives_last = turn[0], at_most, gives_last

    def opening(self) -> Node:
        """Add a node that opens a scope for each turn of a loop."""
        node = self._compiler.outputs[self.name] = self._node(Kind.LOOP, "")
        return node

    def reopen(self, until: Node, start: str, *, at_most: int, gives_last: bool) -> None:
        """Let *until* end the turns that the component *start* opens, and open the next one."""
        until.reopens, until.at_most, until.gives_last = self._compiler.outputs[start], at_most, gives_last
        self._compiler.untils[start] = until

    def _node(self, kind: Kind, part: str, region: str | None = None) -> Node:
        name = f"{self.name}.{part}" if part else self.name
        return self._compiler.node(name, self.name, kind, region or self.region)
