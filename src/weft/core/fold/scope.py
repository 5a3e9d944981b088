"""
Scopes, in which facts belong together: one per input, per element of an ``each``, per turn of a loop over a graph.

Joins pair facts of one scope; settling is counted per scope.  A scope lives as long as something in it is
in flight.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from weft.core.events import FannedOut, RunnableFailed
from weft.core.lineage.lineage import Cell, Element
from weft.core.plan.node import FunctionNode
from weft.core.plan.plan import Plan
from weft.typing import Address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.core.fold.gates import GateState

T = TypeVar("T")

Order = tuple[Any, ...]
"""A key that puts what one scope makes into an order that does not depend on what finished first."""

Ending = Literal["failed", "handled", "skipped"]
"""Why an activation made nothing; a handled failure is one that went to an error route."""

Key = tuple[str, tuple[Address, ...]]
"""The key that identifies an activation in its run: its node, and the addresses of its inputs."""

ALONE: Final = [(seq,) for seq in range(1024)]
"""
By position, for the first events of a run: the inputs of what takes the fact there, and nothing else.

All runs share them.  The collector looks at a tuple of numbers once, and never at an event that holds this one.
"""

NOTHING: Final[dict[Any, Any]] = {}
"""Stands for a table that nothing has been put into; never written to."""


class Scope(msgspec.Struct, eq=False, gc=False):
    """
    The state of one input, element or turn that is in flight.  The tables are made when they are first needed.

    There may be hundreds of thousands of them, so the garbage collector does not track scopes and activations: what
    waits in a scope is known by its key, since a cycle through the scope would never be freed.
    """

    address: Address
    """The input, the element, or what a turn began with."""
    index: int
    """The ordinal of the input, the index of the element, or the number of the turn."""
    plan: Plan
    """The plan that this input follows to its end, unless components are added meanwhile."""
    open: dict[str, int]
    """By tracked node that has not settled: its unsettled sources and pending activations."""
    parent: Scope | None = None
    region: str | None = None
    order: Order = ()
    """The order of the activation that took the collection apart."""
    borrows: bool = True
    """Whether *open* is still the plan's own table, to be copied before it is changed."""
    slots: dict[str, Any] | None = None
    """By join or collect: the state that it keeps here."""
    waiters: dict[str, list[Key]] | None = None
    """By node: the keys of the activations that wait for it to settle."""
    deadline: float | None = None
    """When everything in the scope of an input must be done."""
    carrier: dict[str, str] | None = None
    """The text that telemetry has noted about the caller that sent an input."""
    made: dict[str, tuple[Order, Cell]] | None = None
    """By node that is read: the latest fact it made here."""
    before: dict[str, int] | None = None
    """By node that is read, in the scope of an input: how many facts it had made before this input."""
    earlier: dict[str, Cell] | None = None
    """By node that is read, in a turn of a loop: the latest fact it made in the turns before."""
    outcomes: dict[Key, bool | Ending] | None = None
    """The answers of shared conditions, or why one has none."""
    endings: dict[str, Ending] | None = None
    """By node: why it made nothing, if not because it was gated off."""
    seen: set[Key] | None = None
    """The arrivals at nodes that the same fact may reach by several ways."""

    @property
    def path(self) -> Order:
        """The place of this element among those of the scope around it."""
        return (self.order, self.index)

    def count(self, node: str, change: int) -> int:
        """Add *change* to what is open of *node*, and return the sum."""
        if self.borrows:
            self.open, self.borrows = self.open.copy(), False
        count = self.open[node] = self.open[node] + change
        return count

    def settle(self, node: str) -> None:
        """Nothing is open of *node* any more."""
        if not self.borrows:
            del self.open[node]
        elif len(self.open) == 1:
            self.open = NOTHING
        else:
            self.open, self.borrows = self.open.copy(), False
            del self.open[node]

    def hold(self, node: str, held: Any) -> None:
        """Keep what *node* holds."""
        if self.slots is None:
            self.slots = {}
        self.slots[node] = held

    def held(self, node: str) -> Any:
        """Return what *node* holds, or None."""
        return None if self.slots is None else self.slots.get(node)

    def outward(self, levels: int) -> Scope:
        """Return the scope that lies *levels* further out."""
        scope = self
        for _ in range(levels):
            assert scope.parent is not None  # noqa: S101
            scope = scope.parent
        return scope

    @property
    def root(self) -> Scope:
        """The scope of the input."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def around(self) -> Iterator[Scope]:
        """Yield this scope and those it lies in, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def end(self, node: str, ending: Ending) -> None:
        """Remember why *node* made nothing here; a failure outweighs a skip."""
        if self.endings is None:
            self.endings = {}
        if self.endings.get(node) != "failed":
            self.endings[node] = ending


class Activation(msgspec.Struct, eq=False, gc=False):
    """A node that has what it needs to run on certain facts, or soon will."""

    node: FunctionNode
    key: Key
    """The name of the node, and the addresses that identify this activation in the log."""
    facts: tuple[Cell, ...]
    scope: Scope
    order: Order = ()
    gathers: bool = False
    """Whether *key* names the collections that were taken apart, and *facts* the results of their elements."""
    pins: tuple[Any, ...] = ()
    """The versions that its readings refer to, chosen when it became ready."""
    missing: int = 0
    """How many nodes that it reads have not settled."""
    flows: bool = True
    """Whether the result of a test gates its own children, or is only for the gates that need it."""
    gates: list[GateState] | None = None
    """The gates that wait for this test."""
    turn: int = 1
    """In a loop: which turn this is."""


_HAS_GENERATIONS: Final = "t" not in getattr(sys, "abiflags", "")
"""Whether the garbage collector can look at new objects alone; if not, a look costs more than it saves."""


def _seen(tuples: list[T]) -> list[T]:
    """
    Return *tuples*, of numbers or of such tuples, after a collection of the youngest objects has looked at them.

    From then on the garbage collector does not track them, nor the events that will hold them: with 200,000 elements,
    full collections take 20 ms instead of 60 ms.
    """
    if _HAS_GENERATIONS and gc.isenabled():
        gc.collect(0)
    return tuples


class Opening(msgspec.Struct, eq=False):
    """
    A collection that was taken apart, and whose elements become ready one page after the other.

    The first nodes take nothing but the element, so it does not matter when they become ready.
    """

    event: FannedOut
    targets: tuple[FunctionNode, ...]
    """The nodes that every element begins with."""
    scope: Scope
    """The scope around the elements."""
    order: Order
    following: int = 0
    """The index of the first element that is not ready yet."""

    def page(self, most: int) -> Iterator[Activation]:
        """Open the next elements, *most* of them at most, and yield what can run on them."""
        event, plan, first = self.event, self.scope.plan, self.following
        seq, name, origin, elements = event.seq, event.component, event.inputs[0], event.value
        opening = plan.openings.get(name, NOTHING)
        self.following = min(first + most, len(elements))
        addresses = _seen([(seq, index) for index in range(first, self.following)])
        for inputs in _seen([(address,) for address in addresses]):
            address = inputs[0]
            index = address[1]
            facts = (Element(address, elements[index], name, origin, index),)
            inner = Scope(address, index, plan, opening, self.scope, name, self.order)
            for target in self.targets:
                yield Activation(target, (target.name, inputs), facts, inner)

    @property
    def is_done(self) -> bool:
        """Whether all elements are ready, or have been."""
        return self.following == len(self.event.value)


class Letter(msgspec.Struct, frozen=True, eq=False):
    """An activation that failed for good, and how."""

    activation: Activation
    event: RunnableFailed


class Waiting(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An activation that waits for time, a signal or its completion from outside, and until when at the latest."""

    activation: Activation
    due: float | None = None
    is_relative: bool = True
    """Whether it waits for a length of time, rather than for a time of day."""
    attempt: int = 0
    """The attempt of an external step that is open, and waits to be completed from outside; 0 for a wait."""

    @property
    def deadline(self) -> float | None:
        """When everything that follows from its input must be done."""
        return self.activation.scope.root.deadline

    @property
    def next_at(self) -> float | None:
        """When something happens to it without a signal: its timer is due, or its deadline is past."""
        due, deadline = self.due, self.deadline
        return deadline if due is None else due if deadline is None else min(due, deadline)


class Attempts(msgspec.Struct, frozen=True):
    """The attempts of an activation: how many failed, the last, when the next one is due, and when the first began."""

    failed: int
    last: int
    retry_at: float
    since: float


class _Mark:
    """Marks a slot that takes nothing more."""


FIRED: Final = _Mark()
"""A race that is over."""
BARRED: Final = _Mark()
"""A join or collect that was added too late to see everything of this scope."""
