"""
The vertices that components expand to.  Internal: users see components.

Four kinds run a function (``WORK``, ``TEST``, ``FAN``, ``STATE``); the others are part of the fold: a ``GATE``
evaluates conditions, a ``JOIN`` and a ``COLLECT`` wait for several facts, an ``EXIT`` settles when a node has settled
for all elements of an ``each``, an ``EMIT`` passes on the facts of a state change, a ``LOOP`` begins a turn, and an
``ENTRY`` passes on the first fact of a scope.

Each kind of the fold has its own class, and the kinds that run a function share one: all steps of a run pass through
the same few lines, where Python reads a slot quickly as long as the class is always the same (ADR 21).  Fields that
only some nodes have are a separate record, or None.  Drafts (``weft.core.plan.draft``) create the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeAlias, TypeVar, dataclass_transform, final

from weft.core.components.waits import Waits
from weft.core.compose.questions import Questions
from weft.core.functions.initial import Initial
from weft.core.functions.references import Context, Read
from weft.core.plan.arrival_order import ArrivalOrder
from weft.typing import Wait

T = TypeVar("T")


class Kind(IntEnum):
    """The kinds of nodes."""

    WORK = 0
    """Runs a function and makes a fact."""
    TEST = 1
    """Runs a function whose result is true or false."""
    FAN = 2
    """Runs to take a collection apart, and opens a region for its elements."""
    GATE = 3
    """Lets through what an expression over tests holds for."""
    JOIN = 4
    """Waits for facts of several parents."""
    COLLECT = 5
    """Waits for the elements of a batch."""
    EXIT = 6
    """Settles when a node of an inner region has settled for every element."""
    STATE = 7
    """Runs a function that decides over a state, and emits facts."""
    EMIT = 8
    """Passes on the facts that a state change emitted."""
    LOOP = 9
    """Opens a scope for a turn of a loop."""
    ENTRY = 10
    """Passes on the first fact of a scope: an input, an element, or the fact that begins a turn."""


@dataclass_transform(eq_default=False, kw_only_default=True, frozen_default=True)
def _frozen(cls: type[T]) -> type[T]:
    """
    Make *cls* a record that type checkers do not let anyone change.

    To have Python check it as well makes each store a call, and there are thirty in a node: compiling a plan would take
    a third more instructions.
    """
    return dataclass(slots=True, eq=False, kw_only=True, repr=False)(cls)


@_frozen
class Settling:
    """The consequences when a node settles.  Only nodes that something waits for, directly or not, have one."""

    upstream: tuple[Node, ...]
    """The nodes that must settle first; of an exit, what opens the region, and what settles inside of it."""
    dependents: tuple[Node, ...]
    """The nodes of the same region that cannot settle before this one."""
    unaffected: frozenset[Node]
    """Dependents that only receive failures, so that a failure does not affect them."""
    exit: ExitNode | None
    """The node that waits, one region further out, for this one to settle in every scope."""
    lone_exit: ExitNode | None
    """The same, if nothing else happens when this node settles."""
    held_exits: tuple[ExitNode, ...]
    """Of the test of a loop over a graph: the exits of its region, which stay open while another turn may come."""


@_frozen
class Kept:
    """How the fold keeps the facts of a node that it looks up itself."""

    is_placed: bool
    """Whether it is noted where its facts were made: it is read, or makes several results."""
    levels: tuple[int, ...]
    """In which scopes, counted outward, readers look for what this node made."""
    by_place: bool
    """Whether its values are read in the order of their places, not of the log: it may run often for one input."""
    follows_log: bool
    """Whether its facts are in the order of the log by nature: its states, or what was emitted with them."""


@_frozen
class Node:
    """One vertex of a plan, as every delivery sees it.  Never changed once the plan is there."""

    name: str
    owner: str
    """The name of the component that it belongs to."""
    kind: Kind
    region: str | None
    routes: tuple[Route, ...] = ()
    """Where its facts go: nodes, and the inlets by which they arrive there."""
    plain_targets: tuple[FunctionNode, ...] = ()
    """The targets of all routes, if each of them can run as soon as a fact arrives."""
    settling: Settling | None = None
    """The consequences when it settles; None where that is not tracked, since nothing waits for it."""
    kept: Kept | None = None
    """How the fold keeps its facts; None if it does not look them up."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.kind.name})"


@_frozen
class Receiver(Node):
    """A node that runs or decides on facts as they arrive."""

    passes_on: bool = False
    """Whether it makes no fact, but lets facts through."""
    has_one_inlet: bool = True
    arrival_order: ArrivalOrder | None = None
    """The order of facts that can come by several ways; None where there is only one."""
    deduplicates: bool = False
    """Whether the same fact may arrive by several ways, and must run only once."""


# -- nodes that run a function -------------------------------------------------------------------


@_frozen
class Arguments:
    """The arguments of a function, where these are not just the values of its facts."""

    takes_no_values: bool
    """Whether it has no parameters for values: it is only triggered."""
    spread: int
    """Over how many parameters one collection is spread; -1 is any number, 0 is not at all."""
    by_keyword: tuple[str, ...]
    """The names under which it takes its values, if it takes them by keyword."""
    constants: Mapping[str, Any]
    contexts: tuple[tuple[str, Context], ...]


@_frozen
class Reading:
    """One parameter that reads another component: which, how, and whether it must wait."""

    parameter: str
    read: Read
    target: Node
    initial: Initial | None
    """The initial state of *target*, if it keeps one."""
    unit: Node | None
    """The node that must have settled first; None where the version before this input is read."""
    levels: int
    """How many regions the reader's scope lies inside the scope in which *unit* settles."""


@_frozen
class NodeState:
    """The state of a node: how it begins, and what a change of it leads to."""

    initial: Initial
    by_key: bool
    """Whether there is one per key."""
    sees_states: bool
    """Whether the function is given all states, and which of them are complete, in place of one."""
    emits: EmitNode | None
    """The node that passes on the facts of a change; None if the state itself is the fact."""
    fires: Mapping[str, FunctionNode]
    """By part, what may run after a change."""


@_frozen
class Turn:
    """The place of a node in the turns of a loop over a chain of steps."""

    first: FunctionNode
    """Where a turn begins."""
    following: FunctionNode | None
    """The next node in the turn; None of the test that ends it."""


@_frozen
class LoopTest:
    """The rules of the test at the end of a turn."""

    at_most: int
    """How many turns the loop may make."""
    gives_last: bool
    """Whether a loop that has used all its turns returns its last value, rather than fail."""
    opening: LoopNode | None
    """Of a loop over a graph: the node that opens a scope for the next turn."""
    may_repeat: bool
    """Whether a turn may end more than once."""


@_frozen
class OpenedRegion:
    """The region that a fan opens for the elements of its collection."""

    exits: tuple[ExitNode, ...]
    collects: tuple[tuple[CollectNode, int], ...]
    """The collects that close it, and by which inlet the elements come."""


APART: Final = 0
WITH_ITS_RUN: Final = 1
IN_THE_LOOP: Final = 2
"""Where a function runs: in its own way, since it is a coroutine or has a transaction; as its run says; or at once."""


@final
@_frozen
class FunctionNode(Receiver):
    """A node that runs a function: work, a test, a fan, or a decision over a state."""

    call: Callable[..., Any]
    is_async: bool = False
    component: Any = None
    """The component that it belongs to; policies match it."""
    is_test: bool = False
    is_fan: bool = False
    place: int = APART
    """Where it runs unless a policy says otherwise: *APART*, *WITH_ITS_RUN* or *IN_THE_LOOP*."""
    changes_state: bool = False
    """Whether it decides over a state: its result is a change, or that nothing changes."""
    # The arguments.
    wait: Waits | None = None
    """The wait of a node that does not run its function, but waits for time or a signal."""
    arguments: Arguments | None = None
    """How it is called; None if that is with the values of its facts and nothing else."""
    readings: tuple[Reading, ...] = ()
    transaction: str = ""
    """The parameter that takes the transaction in which its completion is stored; empty if it has none."""
    stateful: bool = False
    """Whether it is called with its last value first, and so runs one at a time."""
    folds_plainly: bool = False
    """Whether it is called with its state, the value of one fact, and nothing else."""
    state: NodeState | None = None
    # What happens with the result.
    only_delivers: bool = False
    """Whether there is nothing to do when it completes but to deliver its fact to *plain_targets*."""
    collect_route: tuple[CollectNode, int] | None = None
    """The only route, if it leads to a collect."""
    error_routes: tuple[ErrorRoute, ...] = ()
    is_relay: bool = False
    """Whether it passes on its inputs together with its result."""
    undoes: bool = False
    """Whether it makes up for a failure: no deadline stops it, and if it fails it is kept as a dead letter."""
    taken: EmitNode | None = None
    """Of a part of a saga or a loop: the node that passes its values on to other components, if there are some."""
    shares_answers: bool = False
    """Of a test: whether several gates may ask it about one fact."""
    # Loops and regions.
    turn: Turn | None = None
    loop_test: LoopTest | None = None
    opens: OpenedRegion | None = None


# -- nodes of the fold ---------------------------------------------------------------------------


@final
@_frozen
class GateNode(Receiver):
    """Lets facts through if its expression over conditions holds."""

    questions: Questions
    tests: Mapping[str | int, FunctionNode]
    """By name of a condition: the node that evaluates it."""
    arrivals: ArrivalOrder | None
    """The ways by which facts can come."""


@final
@_frozen
class LoopNode(Receiver):
    """Opens a scope for each turn of a loop over a graph."""

    exits: tuple[ExitNode, ...]
    """The exits of the region that it opens."""


@final
@_frozen
class JoinNode(Node):
    """Waits for facts of several parents."""

    parents: tuple[str, ...]
    wait: Wait
    needed: int
    """How many parents must have sent a fact."""
    fires_when_settled: bool
    """Whether it has to wait until nothing more can come."""
    arrival_orders: tuple[ArrivalOrder | None, ...]
    """By parent: the order of the facts that a condition passes on to it in several ways."""


@final
@_frozen
class CollectNode(Node):
    """Waits until nothing more can come, and then lets *reduce* run once on everything."""

    reduce: FunctionNode
    closes_region: bool
    """Whether it takes facts of an inner region."""
    arrival_orders: tuple[ArrivalOrder | None, ...]
    """By inlet: the order of the facts that a condition passes on to it in several ways."""


@final
@_frozen
class ExitNode(Node):
    """Settles when a node of an inner region has settled for every element, or in every turn."""


@final
@_frozen
class EmitNode(Node):
    """Passes on the facts that a state change emitted."""


@final
@_frozen
class EntryNode(Node):
    """Passes on the first fact of a scope; it is not in the table of nodes."""


Target: TypeAlias = FunctionNode | GateNode | LoopNode | JoinNode | CollectNode
"""A node that facts are sent to."""
Route: TypeAlias = tuple[Target, int]
"""A node, and the inlet by which facts arrive there."""
ErrorRoute: TypeAlias = tuple[tuple[str, ...], Target, int]
"""The names of exceptions, and the node and inlet to which failures with one of them go."""


def successors(node: Node) -> Iterator[Node]:
    """Yield the nodes that the facts of *node* are delivered to."""
    if isinstance(node, FunctionNode) and node.state is not None and node.state.emits is not None:
        yield node.state.emits
    for target, _ in node.routes:
        yield target
