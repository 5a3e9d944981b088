"""
The expansion of a component into the nodes of a plan, as the component sees it.

A component requests nodes and says how they are linked; it never looks inside a node.  :meth:`Expansion.feed` connects
a node to the inlets of the component.  The last node that produces facts feeds the children of the component.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from weft.core.compose.expression import Expression
from weft.core.functions.function import Function
from weft.core.functions.initial import Initial

NodeHandle: TypeAlias = Any
"""A node that a component has requested.  Components only pass it back to the expansion."""


class Expansion(Protocol):
    """One component while it expands."""

    name: str
    """The name of the component."""

    @property
    def closes_map(self) -> bool:
        """Whether this component reduces the elements of an ``each``."""
        ...

    @property
    def is_asked_only(self) -> bool:
        """Whether this condition is only used in the expressions of other components."""
        ...

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
    ) -> NodeHandle:
        """
        Add a node that runs *function*.

        Args:
            call: what to run in its place, on the same arguments.
            spread: spread one collection over the parameters.
            initial: make it stateful: it gets its last value first, and runs one at a time.
            pending: its state before it has run, for queries alone: it is not called with it.
            fans_out: take its value apart, and open a region for the elements.
            part: what to call it, below the component; the component itself if empty.
        """
        ...

    def state(
        self,
        function: Function,
        initial: Initial,
        *,
        several: bool,
        by_key: bool = False,
        sees_states: bool = False,
    ) -> NodeHandle:
        """
        Add the node that decides over the component's state, fed by its parents, and one that emits its facts.

        Args:
            function: takes the state and one value, and returns a StateChange or Ignored.
            several: whether one change may emit more than one fact.
            by_key: keep one state per key, which each change names.
            sees_states: call it with all its states in place of one.
        """
        ...

    def wait(self, waits: Any) -> NodeHandle:
        """Add a node that runs nothing, but waits for what *waits*, a record of ``components.waits``, says."""
        ...

    def reaction(self, state: NodeHandle, function: Function, part: str) -> None:
        """Let a change of *state* fire *part*, which runs *function* on the new state and on what changed it."""
        ...

    def relay(self, function: Function, *, part: str, undoes: bool = False) -> NodeHandle:
        """
        Add a node that passes on its inputs together with its result.

        Args:
            undoes: it compensates for a failure: no deadline stops it, and if it fails it is kept as a dead letter.
        """
        ...

    def test(
        self,
        function: Function,
        *,
        call: Callable[..., Any] | None = None,
        spread: bool = False,
        part: str = "",
        region: str | None = None,
    ) -> NodeHandle:
        """
        Add a node that asks whether *function* holds, in *region*, which is by default that of the component.

        Args:
            call: what to run in its place, on the same arguments.
        """
        ...

    def gate(
        self, expression: Expression, *, part: str = "", first: tuple[str, NodeHandle] | None = None
    ) -> NodeHandle:
        """
        Add a gate over conditions of other components.

        Args:
            first: a part and its node, a test of the component's own, that is asked before the others.
        """
        ...

    def take(self, owner: str, part: str) -> None:
        """Use the values of *part* of the component *owner*, which feeds this one, as the values of this component."""
        ...

    def feed(self, node: NodeHandle) -> None:
        """Let the component's parents feed *node*."""
        ...

    def begin(self, node: NodeHandle) -> None:
        """Let the component's parents feed *node*, and its ``before`` hooks run before it: it is not the main one."""
        ...

    def collect(self, node: NodeHandle) -> None:
        """Let *node* run once on everything that the component's parents make in a scope."""
        ...

    def link(self, first: NodeHandle, then: NodeHandle) -> None:
        """Let *first* feed *then*."""
        ...

    def link_failure(self, first: NodeHandle, then: NodeHandle) -> None:
        """Let the failures of *first* feed *then*."""
        ...

    def loop(self, turn: list[NodeHandle], until: NodeHandle, *, at_most: int, gives_last: bool) -> None:
        """Let *turn*, a chain of nodes that *until* follows, run again until it holds."""
        ...

    def opening(self) -> NodeHandle:
        """Add a node that opens a scope for each turn of a loop."""
        ...

    def reopen(self, until: NodeHandle, start: str, *, at_most: int, gives_last: bool) -> None:
        """Let *until* end the turns that the component *start* opens, and open the next one."""
        ...
