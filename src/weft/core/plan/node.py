"""
The vertices that components expand to.  Internal: users see components.

Four kinds run a function (``WORK``, ``TEST``, ``FAN``, ``STATE``); the others are part of the fold: a ``GATE``
decides over conditions, a ``JOIN`` and a ``COLLECT`` wait for several facts, an ``EXIT`` knows when all elements of
an ``each`` are through with a node, an ``EMIT`` hands on what a change of state emitted, a ``LOOP`` begins a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from weft.core.compose.questions import Questions
from weft.core.functions.function import Function
from weft.core.functions.initial import Initial
from weft.core.functions.references import Context, Read
from weft.core.plan.arrival_order import ArrivalOrder
from weft.typing import Wait


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
    """Hands on the facts that a state change emitted."""
    LOOP = 9
    """Opens a scope for a turn of a loop."""


class Reading:
    """One parameter that reads another component: which, how, and whether it must wait."""

    __slots__ = ("levels", "parameter", "read", "target", "unit")

    def __init__(self, parameter: str, read: Read, target: Node, unit: Node | None, levels: int) -> None:
        self.parameter, self.read, self.target = parameter, read, target
        self.unit = unit
        """The node that must have settled first; None where the version before this input is read."""
        self.levels = levels
        """How many regions the reader's scope lies inside the scope in which *unit* settles."""


class Hot:
    """Attributes that every step looks at, side by side in memory: a plan may have more nodes than a cache holds."""

    __slots__ = ("bare", "call", "easy", "is_test", "name", "simple")


class Node(Hot):
    """One vertex of a plan.  Complete, and never changed, once the plan is."""

    __slots__ = (
        "again",
        "arrival_order",
        "arrivals",
        "at_most",
        "begin",
        "blind",
        "by_key",
        "by_keyword",
        "carries",
        "closes",
        "collects",
        "component",
        "contexts",
        "deduplicates",
        "dependents",
        "emits",
        "exits",
        "fires",
        "fixed",
        "folds",
        "following",
        "follows_log",
        "gathers",
        "gives_last",
        "handed",
        "holds",
        "initial",
        "inlets",
        "is_async",
        "is_fan",
        "is_inner",
        "is_runnable",
        "keeps",
        "keyed",
        "kind",
        "lone",
        "multi",
        "needed",
        "opened",
        "owner",
        "parents",
        "passes_on",
        "plain",
        "questions",
        "readings",
        "records",
        "region",
        "reopens",
        "rescues",
        "routes",
        "sees_states",
        "shared",
        "sources",
        "spared",
        "spread",
        "stateful",
        "tests",
        "tracked",
        "undoes",
        "upstream",
        "wait",
    )

    def __init__(self, name: str, owner: str, kind: Kind, region: str | None) -> None:
        self.name, self.owner, self.kind, self.region = name, owner, kind, region
        self.component: Any = None
        """The component that it belongs to; policies match it."""
        self.is_test, self.is_fan = kind is Kind.TEST, kind is Kind.FAN
        self.is_runnable = kind in (Kind.WORK, Kind.TEST, Kind.FAN, Kind.STATE)
        self.passes_on = kind in (Kind.TEST, Kind.GATE)
        """Whether it makes no fact, but lets facts through."""
        # What runs.
        self.call: Callable[..., Any] = _nothing
        self.is_async = False
        self.fixed: Mapping[str, Any] | None = None
        self.by_keyword: tuple[str, ...] = ()
        self.contexts: tuple[tuple[str, Context], ...] = ()
        self.readings: tuple[Reading, ...] = ()
        self.blind = False
        """Whether the function takes no values: it is only triggered."""
        self.spread = 0
        """Over how many parameters one collection is spread; -1 is any number, 0 is not at all."""
        self.simple = True
        """Whether it is called with the values of its facts and nothing else."""
        self.folds = False
        """Whether it is called with its state, the value of one fact, and nothing else."""
        self.stateful = False
        self.initial: Initial | None = None
        self.begin: Callable[[], Any] = _nothing
        """Makes the initial state."""
        self.by_key = False
        """Whether it keeps a state per key."""
        self.sees_states = False
        """Whether it is given all its states, and which of them are complete, in place of one."""
        self.follows_log = False
        """Whether its facts are in the order of the log by nature: its states, or what was emitted with them."""
        self.emits: Node | None = None
        """Of a state: what hands on the facts that its changes emit."""
        self.fires: dict[str, Node] = {}
        """Of a state: by part, what may run after a change of it."""
        # Where facts go.
        self.bare = False
        """Whether there is nothing to do when it completes but to deliver its fact along *easy*."""
        self.routes: tuple[tuple[Node, int], ...] = ()
        self.rescues: tuple[Rescue, ...] = ()
        """Where its failures go."""
        self.easy: tuple[Node, ...] = ()
        """The targets of all routes, if all of them are plain."""
        self.plain = False
        """Whether an arriving fact is ready to run at once."""
        self.inlets = 0
        self.multi = False
        """Whether it may run more than once in one scope."""
        self.arrival_order: ArrivalOrder | None = None
        """The order of facts that can come by several ways; None where there is only one."""
        self.arrivals: ArrivalOrder | None = None
        """Of a gate: the ways by which facts can come."""
        self.handed: Mapping[int, ArrivalOrder | None] = {}
        """By parent of a join or collect: the same, of what a condition hands on to it."""
        self.carries = False
        """Whether it hands on everything that it was given, together with what it made."""
        self.undoes = False
        """Whether it makes up for a failure: no deadline stops it, and if it fails it is kept as a dead letter."""
        self.deduplicates = False
        """Whether the same fact may arrive by several ways, and must run only once."""
        # Loops.
        self.following: Node | None = None
        """The next node in the turn of a loop."""
        self.again: Node | None = None
        """Of the test of a loop: what is run again where it does not hold.  Of a node of a turn: where it began."""
        self.at_most = 0
        """How many turns the loop of this test may make; 0 if it is none."""
        self.reopens: Node | None = None
        """Of the test of a loop over a graph: what opens a scope for the next turn."""
        self.holds: tuple[Node, ...] = ()
        """Of such a test: the exits of its region, which stay open as long as another turn may come."""
        self.gives_last = False
        """Whether a loop that made all its turns goes on with its last value, rather than fail."""
        # Gates, joins, batches.
        self.questions: Questions = ()
        """The questions of a gate."""
        self.tests: Mapping[str | int, Node] = {}
        self.shared = False
        """Whether several gates may ask this test about one fact."""
        self.parents: tuple[str, ...] = ()
        self.wait: Wait = "all"
        self.needed = 0
        self.closes = False
        """Whether something happens when it settles."""
        self.is_inner = False
        """Whether a collect takes facts of an inner region."""
        self.gathers: tuple[Node, int] | None = None
        """The only route, if it leads to a collect."""
        self.collects: tuple[tuple[Node, int], ...] = ()
        """The collects that close the region this fan opens."""
        # Settling.
        self.tracked = False
        self.sources = 0
        """How many nodes must settle before this one can."""
        self.upstream: list[Node] = []
        self.dependents: tuple[Node, ...] = ()
        self.spared: frozenset[Node] = frozenset()
        """Those of its dependents that take its failures alone, and so do not suffer from them."""
        self.exits: tuple[Node, ...] = ()
        self.lone = False
        """Whether its settling is of interest to nothing but its exit."""
        self.records: tuple[int, ...] = ()
        """In which scopes, counted outward, readers look for what this node made."""
        self.opened: tuple[Node, ...] = ()
        """The exits of the region that this fan opens."""
        self.keeps = False
        """Whether the fold itself looks its facts up: it is stateful, or read by another component."""
        self.keyed = False
        """Whether its values are read in the order of their places, not of the log: it may run often for one input."""

    def runs(self, function: Function, call: Callable[..., Any] | None, *, spread: bool) -> None:
        """Make this node run *function*, or *call* in its place."""
        self.call = call or function.call
        self.is_async = function.is_async
        self.fixed = dict(function.constants) or None
        self.by_keyword = function.required if function.by_keyword else ()
        self.contexts = tuple(function.contexts.items())
        self.blind = not function.required and not function.variadic
        if spread:
            self.spread = -1 if function.variadic else len(function.required)

    def __repr__(self) -> str:
        return f"Node({self.name!r}, {self.kind.name})"


Rescue = tuple[tuple[str, ...], Node, int]
"""The names of exceptions, and the node and inlet to which failures with one of them go."""


def _nothing(*_: Any, **__: Any) -> None:
    raise AssertionError("a node that is part of the fold was run")
