"""
Draws the inside of a compound component, which runs several functions.

Its parts are boxes, and so is the component itself, which stands for the facts that it passes on.  Facts enter at the
part that takes them: for a saga its first transaction, for a loop the first step of a turn.  Nodes that only exist in a
plan are not drawn, nor are parts that can never run: the compensation of the last transaction of a saga.  A part that
gets the same fact as the component passes on (``trip.on_complete``) is drawn below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from weft.core.draw.picture import Box, Edge
from weft.core.draw.progress import Progress
from weft.core.graph.topology import topological
from weft.core.plan.node import FunctionNode, Node, successors

if TYPE_CHECKING:
    from weft.core.plan.compiled_workflow import CompiledWorkflow

UNDIVIDED: Final = frozenset({"rule"})
"""The kinds that are one box although they run several functions."""


class Inside:
    """The parts of one component, parents first, and the edges between them."""

    def __init__(self, owner: str, nodes: Mapping[str, Node]) -> None:
        self.owner = owner
        self.edges = tuple(_edges(owner, nodes))
        forward = [edge for edge in self.edges if not edge.is_back]
        successors = {name: [edge.target for edge in forward if edge.source == name] for name in nodes}
        linked = {owner, *(end for edge in self.edges for end in (edge.source, edge.target))}
        order = [name for name in topological(successors) or nodes if name in linked]
        self.entry = order[0]
        """Where what arrives comes in."""
        self._nodes = {name: nodes[name] for name in order}

    @classmethod
    def of(cls, workflow: CompiledWorkflow, name: str) -> Inside | None:
        """Return the inside of the component *name*; None if it is drawn as one box."""
        component = workflow.wiring.components[name]
        if component.kind in UNDIVIDED or len(component.functions()) < 2:
            return None
        mine = {n: node for n, node in workflow.compiled.nodes.items() if node.owner == name and "\0" not in n}
        return cls(name, mine) if len(mine) > 1 else None

    @property
    def note(self) -> str:
        """The part of the component among its own, if it is not where they begin."""
        return "" if self.entry == self.owner else "outcome"

    def boxes(self, own: Box, done: Mapping[str, Progress]) -> Iterator[Box]:
        """Yield a box for every part, and *own* at the place of the component among them."""
        for name, node in self._nodes.items():
            if name == self.owner:
                yield own
                continue
            runs = node if isinstance(node, FunctionNode) else None
            kind = "condition" if runs is not None and runs.is_test else "part"
            label = name.removeprefix(f"{self.owner}.")
            ends = None if runs is None else runs.loop_test
            note = "" if ends is None else f"at most {ends.at_most:,} turn{'s' if ends.at_most > 1 else ''}"
            stateful = runs is not None and runs.stateful
            yield Box(name, kind, label, note, own.group, stateful, done.get(name), part_of=self.owner)


def _edges(owner: str, nodes: Mapping[str, Node]) -> Iterator[Edge]:
    """Yield what leads from one part to another."""
    flows = [(name, target) for name, node in nodes.items() for target in _next(node, successors(node))]
    errors = [
        (name, target)
        for name, node in nodes.items()
        if isinstance(node, FunctionNode)
        for target in _next(node, [target for _, target, _ in node.error_routes])
    ]
    sources: dict[str, set[str]] = {name: set() for name in nodes}
    for source, target in (*flows, *errors):
        sources[target].add(source)
    ending = nodes.keys() - {source for source, _ in flows} - {owner}
    below = [name for name in nodes if name in ending and sources[name] and sources[name] <= sources[owner]]
    yield from (Edge(source, target) for source, target in flows if target not in below)
    yield from (Edge(source, target, "error") for source, target in errors if target not in below)
    yield from (Edge(owner, name) for name in below)
    for name, node in nodes.items():
        if isinstance(node, FunctionNode) and node.loop_test is not None and node.turn is not None:
            yield Edge(name, node.turn.first.name, label="again", is_back=True)


def _next(node: Node, targets: Iterable[Node]) -> dict[str, None]:
    """Return the parts of the same component that *targets* lead to, whatever the plan has put between."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    stack = [*targets][::-1]
    while stack:
        target = stack.pop()
        if target.owner == node.owner and target.name not in seen and target is not node:
            seen.add(target.name)
            if "\0" in target.name:
                stack.extend(successors(target))
            else:
                found[target.name] = None
    return found
