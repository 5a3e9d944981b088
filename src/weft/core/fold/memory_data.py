"""
The data of a run, which its events change, and everything that is derived from it alone.

Nothing here moves a fact to another node; that is in ``weft.core.fold.delivery``.  No user function is called.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from weft.core import events as ev
from weft.core.fold.external import ExternalAttempts
from weft.core.fold.scope import Activation, Attempts, Key, Letter, Opening, Order, Waiting
from weft.core.lineage.lineage import Cell, Lineage
from weft.core.plan.node import FunctionNode, Node
from weft.core.plan.plan import Plan
from weft.errors import InvalidEvent, shown
from weft.typing import Status

if TYPE_CHECKING:
    from weft.core.plan.compiled_workflow import CompiledWorkflow

STORY = 8
"""How many events an error shows of what happened before."""


class MemoryData:
    """The data of one run; ``Memory`` is this and the ways in which it changes."""

    __slots__ = (
        "_peak",
        "_waits_ended",
        "adding",
        "attempts",
        "blocked",
        "cancelled",
        "children",
        "dispatched",
        "external",
        "failures",
        "has_deadlines",
        "is_ending",
        "keyed",
        "keys",
        "letters",
        "lineage",
        "log",
        "needs_context",
        "newly_ready",
        "newly_waiting",
        "notified",
        "page",
        "partitions",
        "plan",
        "produced",
        "ready",
        "received",
        "redacted",
        "retried",
        "rules",
        "run_id",
        "signal_keys",
        "signals",
        "skipped",
        "state_queues",
        "successor",
        "undo",
        "unopened",
        "waiting",
        "workflow",
    )

    workflow: CompiledWorkflow
    plan: Plan
    run_id: str

    def __init__(self) -> None:
        self.log: list[ev.AnyEvent] = []
        self.lineage = Lineage(self.log)
        self.has_deadlines = False
        """Whether some input came with a deadline."""
        self.needs_context: tuple[tuple[str, str, str], ...] = ()
        """The context keys that components require, those that inputs in flight still use included."""
        self.adding: tuple[Any, ...] = ()
        """Additions to the workflow by the component that runs inside the loop, so far."""
        self.redacted: tuple[str, ...] = ()
        """The values that were replaced before the run was imported, in words."""
        self.received = 0
        """How many inputs there were."""
        self.produced: dict[str, list[Cell]] = {}
        """By component that keeps state or is read by others: what it has made."""
        self.partitions: dict[str, dict[Any, ev.StateChanged | ev.StateCarried]] | None = None
        """By component that keeps a state per key: the last change of each."""
        # Dicts used as ordered sets: insertion order is dispatch order.
        self.ready: dict[Key, Activation] = {}
        self.newly_ready: list[Activation] = []
        """The activations that became ready since the loop that drives the run last emptied this list."""
        self.waiting: dict[Key, Waiting] | None = None
        """The activations that wait for time or a signal, in the order in which they began to."""
        self.newly_waiting: list[Activation] | None = None
        """The activations that wait since the driver of the run last took this list; some may have ended."""
        self.signals: dict[str, list[ev.SignalReceived]] | None = None
        """By name: the signals that no wait has taken, in order."""
        self.signal_keys: dict[tuple[str, str], int] | None = None
        """Names and idempotency keys of signals, and where they stand."""
        self.page: int | None = None
        """How many elements of a collection become ready at once, where that is a runner's concern; None for all."""
        self.unopened: list[Opening] | None = None
        """Collections of which some elements are not in *ready* yet; while there are any, *ready* is not empty."""
        self.blocked: dict[Key, Activation] | None = None
        """The activations that wait for the settling of something they read, or for a stateful node that is busy."""
        self.state_queues: dict[str, deque[Activation]] | None = None
        """By stateful node that is busy: what it runs on next."""
        self.keyed: dict[str, list[Order]] | None = None
        self.keys: dict[str, int] | None = None
        """Idempotency keys of inputs, and their ordinals."""
        self.failures: dict[Key, ev.RunnableFailed] | None = None
        """The failures that nothing has handled, by activation."""
        self.skipped: dict[str, None] | None = None
        self.letters: dict[Key, Letter] | None = None
        """The activations that failed for good and are kept to be retried; nodes that wait for them keep waiting."""
        self.cancelled: str | None = None
        """Why the run was cancelled, if it was; it may be undone still."""
        self.undo: ev.RunCancelled | None = None
        """The cancellation after which nothing but compensations runs; None if there was none."""
        self.successor: str | None = None
        """The run that continues from the state of this one, if there is one."""
        self.is_ending = False
        """Whether no more input comes, so that the run finishes when nothing is left to do."""
        self.children: dict[str, ev.ChildStarted] | None = None
        """Runs that steps of this one have started, by id."""
        self.notified = 0
        """The event that says that the callback for a run with nothing left to do was called."""
        self.rules: tuple[Any, ...] | None = None
        """The policies in force, if they are not the workflow's own."""
        self.retried: dict[Key, Any] | None = None
        """Policies of dead letters that are tried again, which win over all rules."""
        self.attempts: dict[Key, Attempts] | None = None
        """The activations that failed and will be tried again, or have to wait before they are tried at all."""
        self.dispatched: dict[Key, int] | None = None
        """The activations that were handed out and have not come back, with their attempt."""
        self.external: ExternalAttempts | None = None
        """The present attempts of external steps."""
        self._peak = 0
        self._waits_ended = 0

    @property
    def is_runnable(self) -> bool:
        """Whether something can be done."""
        return bool(self.ready)

    @property
    def status(self) -> Status:
        """The status of the run, as far as its log says it."""
        if self.cancelled is not None and not self.is_undoing:
            return "cancelled"
        if self.successor is not None:
            return "completed"
        if self.is_runnable:
            return "running"
        if self.letters and any(letter.activation.node.undoes for letter in self.letters.values()):
            return "parked"
        if self.waiting:
            return "waiting"
        if not self.is_ending:
            return "idle"
        return "failed" if self.failures else "completed"

    @property
    def is_undoing(self) -> bool:
        """Whether the run was cancelled, and something of it is still to be undone."""
        return self.undo is not None and bool(self.ready or self.letters)

    @property
    def waiting_for(self) -> list[str]:
        """The components that wait for time or a signal, in order: then those that are tried again later."""
        waiting = [name for name, _ in self.waiting or ()]
        dispatched = self.dispatched or {}
        waiting += [name for name, inputs in self.attempts or () if (name, inputs) not in dispatched]
        return list(dict.fromkeys(waiting))

    @property
    def awaited_signals(self) -> frozenset[str]:
        """The signals that components of the workflow wait for, those that were removed meanwhile included."""
        waits = [each.activation.node.wait for each in (self.waiting or {}).values()]
        return frozenset((*self.plan.signals, *(wait.signal for wait in waits if wait is not None and wait.signal)))

    def fail(self, event: ev.RunnableFailed) -> None:
        """Keep the failure that *event* tells of: nothing has handled it."""
        if self.failures is None:
            self.failures = {}
        self.failures[event.component, event.inputs] = event

    @property
    def dead_letters(self) -> list[ev.RunnableFailed]:
        """The failures that are kept to be tried again, in order."""
        return [letter.event for letter in (self.letters or {}).values()]

    @property
    def tokens(self) -> dict[str, Key]:
        """The tokens of external steps that are in force, and what they are for, in the order of their issue."""
        return {} if self.external is None else self.external.tokens()

    def offered(self) -> list[Activation]:
        """Return the activations that may run now, in the order they became ready."""
        self.open_all()
        return self.opened()

    def opened(self) -> list[Activation]:
        """Return the activations that may run now, except for elements of large collections that are not opened yet."""
        ready = self.ready
        count = len(ready)
        if count > self._peak:
            self._peak = count
        elif self._peak > 64 and count * 8 < self._peak:  # iterating a dict visits deleted entries too
            self.ready = ready = dict(ready.items())
            self._peak = count
        return list(ready.values())

    def at(self, key: Key) -> Activation | None:
        """Return the ready activation at *key*, even if its element of a collection is not in *ready* yet."""
        found = self.ready.get(key)
        if found is None and self.unopened is not None and isinstance(address := key[1][0], tuple):
            seq, index = address
            for opening in self.unopened:
                if opening.event.seq == seq and index >= opening.following:
                    self._open(opening, max(index + 1 - opening.following, self.page or 0))
                    return self.ready.get(key)
        return found

    def take_in_pages(self, opening: Opening) -> None:
        """Let the first elements of a large collection become ready now, and the others later."""
        self.unopened = [*(self.unopened or ()), opening]
        self._open(opening, self.page or len(opening.event.value))

    def open_more(self) -> None:
        """Let the next elements of a large collection become ready."""
        if self.unopened is not None:
            self._open(self.unopened[0], self.page or len(self.unopened[0].event.value))

    def open_all(self) -> dict[Key, Activation]:
        """Let the elements of all collections become ready, and return all ready activations."""
        while self.unopened is not None:
            self._open(self.unopened[0], len(self.unopened[0].event.value))
        return self.ready

    def _open(self, opening: Opening, most: int) -> None:
        ready, newly_ready = self.ready, self.newly_ready
        for activation in opening.page(most):
            ready[activation.key] = activation
            newly_ready.append(activation)
        if opening.is_done and self.unopened is not None:
            self.unopened.remove(opening)
            self.unopened = self.unopened or None

    def story(self, event: ev.Activated) -> InvalidEvent:
        """Return an error that says what happened before *event*, which should not have happened."""
        return InvalidEvent(
            f"{event.component!r} has nothing ready at {event.inputs} for {shown(event)}", self.log[-STORY:]
        )

    def keep_state(self, node: FunctionNode, event: ev.StateChanged) -> None:
        """Keep the new state of *node*."""
        if node.state is None or not node.state.by_key:
            self.produced.setdefault(node.name, []).append(event)
            return
        if self.partitions is None:
            self.partitions = {}
        self.partitions.setdefault(node.name, {})[event.key] = event

    def carry(self, node: Node, event: ev.StateCarried) -> None:
        """Begin with a state, or the last value, of *node* that another run had."""
        if isinstance(node, FunctionNode) and node.state is not None and node.state.by_key:
            if self.partitions is None:
                self.partitions = {}
            self.partitions.setdefault(node.name, {})[event.key] = event
        else:
            self.produced.setdefault(node.name, []).append(event)
            if node.kept is not None and node.kept.by_place:  # it comes before whatever is made here
                self.keyed = self.keyed or {}
                self.keyed.setdefault(node.name, []).append((0, (event.seq,)))

    def state_changes(self, node: FunctionNode) -> dict[Any, Any]:
        """Return the last state change of *node*, or of each of its keys."""
        if node.state is not None and node.state.by_key:
            return (self.partitions or {}).get(node.name, {})
        return dict.fromkeys([None], self.produced[node.name][-1]) if node.name in self.produced else {}

    # -- activations and signals that are kept ---------------------------------------------------

    def keep_waiting(self, waiting: Waiting) -> None:
        """Keep an activation that waits for time, a signal or its completion from outside."""
        activation = waiting.activation
        if self.waiting is None:
            self.waiting = {}
        self.waiting[activation.key] = waiting
        if self.newly_waiting is None:
            self.newly_waiting = []
        self.newly_waiting.append(activation)

    def block(self, activation: Activation) -> None:
        """Keep *activation* until it can be offered."""
        if self.blocked is None:
            self.blocked = {}
        self.blocked[activation.key] = activation

    def active(self, key: Key) -> Activation | None:
        """Return the activation at *key* that is ready, or waits for time, a signal or its completion."""
        found = self.at(key)
        if found is None and self.waiting is not None and key in self.waiting:
            return self.waiting[key].activation
        return found

    def pending(self, key: Key) -> Activation | None:
        """Return the activation at *key* that has not ended, wherever it waits."""
        found = self.ready.get(key) or (self.blocked or {}).get(key)
        if found is None and self.waiting and key in self.waiting:
            return self.waiting[key].activation
        if found is None and self.letters and key in self.letters:
            return self.letters[key].activation
        return found

    def note_signal_key(self, event: ev.SignalReceived | ev.SignalRefused) -> None:
        """Note the key of a signal: another one with the same name and key is ignored."""
        if event.key is not None:
            if self.signal_keys is None:
                self.signal_keys = {}
            self.signal_keys.setdefault((event.name, event.key), event.seq)

    def take_signal(self, name: str, seq: int) -> bool:
        """Remove the kept signal *name* that came at the position *seq*; return whether it was there."""
        kept = (self.signals or {}).get(name, [])
        place = next((place for place, each in enumerate(kept) if each.seq == seq), None)
        if self.signals is None or place is None:
            return False
        del kept[place]
        if not kept:
            del self.signals[name]
            self.signals = self.signals or None
        return True
