"""
A run as it was at one moment: it can be read, and refuses to be changed.

    >>> from weft import Workflow, step
    >>> run = Workflow("w", step(lambda x: x * 2, name="double")).run(21)
    >>> frozen = run.frozen_copy()
    >>> run.run(1).values("double"), frozen.values("double")
    ([42, 2], [42])
    >>> frozen.plan(2)
    Traceback (most recent call last):
    ...
    weft.errors.RunFrozen: plan() would change run ..., which is frozen: ...

Freezing does not copy the history.  The log and the lists of facts only grow, so the frozen run reads the first part of
the same lists.  Open state (activations, scopes, joins, batches) changes in place, so it is not shared: it is folded
again from the log when it is first needed, to prepare or to draw the run.  A log that was truncated cannot be folded:
of such a run the tables of what is open are copied, which costs as much as is open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, Final, NoReturn, TypeVar, cast

from weft.core import events as ev
from weft.core.fold.fold import fold
from weft.core.fold.memory import Memory
from weft.core.fold.scope import Key
from weft.core.lineage.history import Beginning, ColdList, Edited
from weft.core.lineage.lineage import FactRef, Lineage
from weft.core.plan.node import FunctionNode
from weft.core.run.run import Run
from weft.errors import HistoryTruncated, RunFrozen
from weft.typing import Status

T = TypeVar("T")

_FOLDED: Final = (
    *("_peak", "_waits_ended", "blocked", "children", "external", "keys", "letters", "newly_ready", "newly_waiting"),
    *("partitions", "ready", "retried", "signal_keys", "signals", "state_queues"),
)
"""Attributes that a frozen memory does not copy, and folds again from its log when they are read."""


class FrozenMemory(Memory):
    """The memory of a run at one moment."""

    __slots__ = ("_dead_letters", "_is_runnable", "_status", "_tokens")

    def __init__(self, live: Memory, status: Status | None = None) -> None:  # __getattr__ finds what is not set here
        known = live.lineage
        paged, edits = known.paged, known.edits
        log = Beginning(live.log) if paged is None else paged.frozen()
        lineage = self.lineage = Lineage(Edited(log, edits) if edits else log)
        self.log = cast("list[ev.AnyEvent]", log)  # everything that would append to it is refused
        # These are looked up by position alone, and what is added later has later positions.
        lineage.gathered, lineage.read, lineage.absent = known.gathered, known.read, known.absent
        lineage.stateful, lineage.ordinals, lineage.void = known.stateful, known.ordinals, known.void
        lineage.noted, lineage.causes = known.noted, known.causes
        self.workflow, self.plan, self.run_id = live.workflow, live.plan, live.run_id
        self.needs_context, self.has_deadlines, self.adding = live.needs_context, live.has_deadlines, ()
        self.received, self.rules, self.notified = live.received, live.rules, live.notified
        self.cancelled, self.is_ending, self.redacted = live.cancelled, live.is_ending, live.redacted
        self.successor, self.undo = live.successor, live.undo
        self.produced = _beginnings(live.produced, lineage, "produced")
        self.keyed = None if live.keyed is None else _beginnings(live.keyed, lineage, "keyed")
        if isinstance(known.absent, ColdList) and lineage.history is not None:
            lineage.absent = known.absent.frozen(lineage.history.absent, partial(_moved, lineage))
        lineage.absent_since = known.absent_since
        if isinstance(known.absent_since, ColdList) and lineage.history is not None:
            lineage.absent_since = known.absent_since.frozen(lineage.history.absent_since, partial(_moved, lineage))
        self.failures = None if live.failures is None else live.failures.copy()
        self.skipped = None if live.skipped is None else live.skipped.copy()
        # What says what the run waits for: these are open, and few.
        self.attempts = None if live.attempts is None else live.attempts.copy()
        self.dispatched = None if live.dispatched is None else live.dispatched.copy()
        self.waiting = None if live.waiting is None else live.waiting.copy()
        self.page = self.unopened = None  # what is folded again is there as a whole
        self._is_runnable, self._dead_letters, self._tokens = live.is_runnable, live.dead_letters, live.tokens
        self._status: Status = status or live.status
        if paged is not None and paged.removed:  # its log cannot be folded again
            for name in _FOLDED:
                setattr(self, name, copy(getattr(live, name)))

    def __getattr__(self, name: str) -> Any:
        if name not in _FOLDED:
            raise AttributeError(name)
        history = self.lineage.history
        if history is not None and history.removed:  # since this copy was made
            raise HistoryTruncated(self.run_id, history.removed + 1)
        whole = Memory()
        fold(whole, self.log)
        for each in _FOLDED:
            setattr(self, each, getattr(whole, each))
        return getattr(self, name)

    @property
    def is_runnable(self) -> bool:
        """Whether something could be done."""
        return self._is_runnable

    @property
    def status(self) -> Status:
        """The status of the run as it was then."""
        return self._status

    @property
    def is_undoing(self) -> bool:
        """Whether something of the run, which was cancelled, was still to be undone then."""
        return self.undo is not None and self._status != "cancelled"

    @property
    def dead_letters(self) -> list[ev.RunnableFailed]:
        """The failures that were kept, in order."""
        return self._dead_letters.copy()

    @property
    def tokens(self) -> dict[str, Key]:
        """The tokens that were in force, in the order in which they were issued."""
        return self._tokens.copy()

    def state_changes(self, node: FunctionNode) -> dict[Any, Any]:
        """Return the last state change of *node*, or of each of its keys; these are read from the log."""
        if node.state is None or not node.state.by_key:
            return super().state_changes(node)
        standing = self.lineage.standing()
        changes = (event for event in standing if isinstance(event, ev.StateChanged | ev.StateCarried))
        return {event.key: event for event in changes if event.component == node.name}


def _beginnings(lists: dict[str, list[T]], lineage: Lineage, table: str) -> dict[str, list[T]]:
    """Return *lists*, of the *table* of a memory, as they are now."""
    return {name: cast("list[T]", _beginning(items, lineage, table, name)) for name, items in lists.items()}


def _beginning(items: Sequence[T], lineage: Lineage, table: str, name: str) -> Sequence[T]:
    history = lineage.history
    if not isinstance(items, ColdList) or history is None:
        return Beginning(items)
    return items.frozen(partial(history.items, table, name), partial(_moved, lineage))


def _moved(lineage: Lineage, item: Any) -> Any:
    """Return *item* so that it reads from *lineage*: two threads must not read from one log that is not in memory."""
    return item.of(lineage) if isinstance(item, FactRef) else item


_SLOTS: Final = frozenset({"has_transactions", "is_driven", "known_policies", "memory"})
"""Attributes that a run keeps for its own use."""


class Frozen(Run):
    """A run as it was; what would change it is refused."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name in _SLOTS or (name == "context" and not hasattr(self, name)):
            super().__setattr__(name, value)
        else:
            raise RunFrozen(self.id, name, OF_AN_ATTRIBUTE.get(name, _SEND), is_attribute=True)


_SEND: Final = "to give the run an input, call runner.send({id}, value)"
_DRIVE: Final = "its runner runs what is ready; call runner.wait({id}) to wait for it"
_RECORD: Final = "only the runner that drives it adds to its log"
_ADD: Final = "call runner.add({id}, ...)"

INSTEAD: Final[dict[str, str]] = {
    **dict.fromkeys(("arun", "feed_back", "plan", "plan_eagerly", "run"), _SEND),
    **dict.fromkeys(("fire_timers", "react", "react_until_satisfied"), _DRIVE),
    **dict.fromkeys(("apply", "apply_outcome", "merge", "record", "record_dispatch", "record_failure"), _RECORD),
    **dict.fromkeys(("add", "extend"), _ADD),
    "complete": "call runner.complete(token, value)",
    "fail": "call runner.fail(token, error)",
    "discard": "call runner.discard({id}, ...)",
    "remove": "call runner.remove({id}, component)",
    "retry": "call runner.retry({id}, ...)",
    "signal": "call runner.signal({id}, name, value)",
    "set_policies": "call runner.set_policies({id}, rules)",
    "upgrade": "call runner.upgrade({id}, workflow)",
    "under": 'call runner.set_policies({id}, rules, mode="merge")',
}
"""By method that changes a run: what to do instead.  A method that is neither here nor known to read fails a test."""

OF_THE_RUNNER: Final[dict[str, str]] = {
    "cancel": "call runner.cancel({id})",
    "finish": "call runner.finish({id})",
    "send": "call runner.send({id}, value)",
    "stop": "call runner.stop({id})",
}
"""Methods that a run does not have, and that a caller may expect of a run from a runner."""


OF_AN_ATTRIBUTE: Final[dict[str, str]] = {
    "context": "call runner.resume({id}, context=...)",
    "policies": INSTEAD["set_policies"],
    "status": "call runner.finish({id}) or runner.cancel({id})",
    "workflow": f"{INSTEAD['upgrade']}, runner.add or runner.remove",
}
"""By attribute that a caller may want to set: what to do instead."""


def _refusal(name: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: Run, *_: Any, **__: Any) -> NoReturn:
        raise RunFrozen(self.id, name, instead)

    refuse.__name__, refuse.__doc__ = name, f"Raise RunFrozen: {instead.replace('{id}', 'run.id')}."
    return refuse


for _name, _instead in (INSTEAD | OF_THE_RUNNER).items():
    setattr(Frozen, _name, _refusal(_name, _instead))
for _name in ("from_log", "from_memory"):  # what is made of the log of a frozen run is not frozen
    setattr(Frozen, _name, getattr(Run, _name))
