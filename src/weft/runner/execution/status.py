"""
The status of a run in a runner: whether it is done, whether on_complete has to be called, whether it is stuck.

There are four levels of being done, and each requires the one before:

1. not *runnable* (``memory.is_runnable``): nothing is ready.  A run in memory is done then.
2. *idle* (``worker.is_idle``): nothing is ready, and nothing is in flight.
3. *settled* (``worker.is_settled``): idle or parked, and all events are as durable as the strategy requires.
4. *done* (:func:`is_done`): settled, and on_complete was called.  Callers wait for this.

The next input can end each of them.  A run that accepts no more input is *over* when it is done: it leaves the runner.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from weft.core import events as ev
from weft.core.lineage.history import PagedLog
from weft.core.run.run import Run
from weft.ports.store import FINISHED, RunStatus
from weft.runner.durability.takeover import Takeover

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker

_NAMED: Final = 3
"""How many components a reason names."""
_CALLED_BACK: Final = frozenset({"idle", "completed", "failed"})
"""The states that on_complete is called for."""


def is_done(worker: Worker) -> bool:
    """
    Whether the run of *worker* is done: nothing more happens in it until there is more to do.

    Nothing is ready or in flight, or the run is parked or cancelled; all of its events are as durable as its strategy
    requires; and on_complete was called, which is durable too.  A run with failures or dead letters can be done.
    """
    return worker.is_settled and not is_to_call_back(worker)


def is_to_call_back(worker: Worker) -> bool:
    """Whether on_complete is to be called once *worker* is settled, or is being called: the run has done something."""
    return worker.owes_notice and worker.lost is None and worker.state in _CALLED_BACK


def status_to_store(worker: Worker) -> RunStatus:
    """Return the status to store: ``running`` or ``waiting`` as long as the run needs a runner to continue."""
    if worker.state == "cancelled":
        return "running" if worker.orphans else "cancelled"
    if worker.state == "parked":  # a process that resumes runs by itself has to tell the children
        return "running" if worker.orphans and not worker.has_told_children else "parked"
    if worker.only_waits:
        return "waiting"
    if not worker.is_idle or worker.owes_notice:
        return "running"
    return worker.state if worker.state in FINISHED else "idle"


def reason_to_store(worker: Worker) -> str:
    """Return the reason to store: what a run waits for that was cancelled, and is undone except for its children."""
    if worker.state != "cancelled" or not worker.orphans or worker.run.memory.undo is None:
        return worker.reason
    children = ", ".join(map(repr, worker.orphans[:_NAMED])) + ", …" * (len(worker.orphans) > _NAMED)
    return f"{text_of_undoing(worker.run)}; it waits for its children {children}"


def text_of_undoing(run: Run) -> str:
    """Return why *run* is still running, or waits, after it was cancelled; empty if it was not."""
    undo = run.memory.undo
    if undo is None:
        return ""
    by = f" by {undo.by}" if undo.by else ""
    return f"undoing, since it was cancelled{by}: {undo.reason or 'no reason given'}"


def has_news(run: Run) -> bool:
    """Whether *run* has done something since on_complete was last called."""
    memory, log = run.memory, cast("Sequence[ev.AnyEvent]", run.memory.log)
    if isinstance(log, PagedLog):
        if memory.notified < log.cold:  # something has happened since; to call it once more does no harm
            return bool(memory.received)
        since = islice(log.tail, memory.notified - log.cold, None)
    else:
        since = islice(log, memory.notified, None)
    silent = (ev.PolicyChanged, ev.RunTakenOver, ev.CodeChanged)
    return bool(memory.received) and any(not isinstance(event, silent) for event in since)


def stuck(run: Run) -> str:
    """Return why *run* needs a person; empty if it does not."""
    if not run.memory.letters:
        return ""
    letters = [letter for letter in run.memory.letters.values() if letter.activation.node.undoes]
    if not letters:
        return ""
    event = letters[0].event
    failed = ", ".join(repr(letter.event.component) for letter in letters)
    return (
        f"a saga cannot be undone: {failed} failed for good, {event.error.type}: {event.error.message}; "
        "retry() goes on from there, discard() goes on without it"
    )


def text_of_poison(run: Run, takeover: Takeover) -> str:
    """Return why *run*, whose owners keep dying, is parked: what they may have died of, and what to do about it."""
    names = list(dict.fromkeys(repr(activation.node.name) for activation in run.memory.ready.values()))
    more = f" or {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    suspects = " or ".join(names[:_NAMED]) + more or "on_complete"
    remedy = "fix it"
    if names:
        remedy += ", or resume the run with executor='process', where a crash fails one attempt"
    return f"its process has died {takeover.deaths} times without progress while {suspects} was in flight; {remedy}"


def text_of_failures(run: Run) -> str:
    """Return why *run* has failed, in one line: its first failure, and how many there are."""
    failures = list((run.memory.failures or {}).values())
    first = failures[0]
    more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
    return f"{first.component!r} failed: {first.error.type}: {first.error.message:.200}{more}"


def orphans(run: Run) -> tuple[str, ...]:
    """Return the children that are cancelled with *run*; none as long as it is not."""
    return () if run.memory.cancelled is None else children_with(run)


def children_with(run: Run) -> tuple[str, ...]:
    """Return the children that would be cancelled with *run*."""
    return tuple(child for child, event in (run.memory.children or {}).items() if event.with_parent)
