"""
The commands of a run: the requests of callers and messages while it runs.

Each of them checks that the run accepts it, records it, and lets the worker continue.  Cancelling and completing
single steps are commands too, in :mod:`.cancelling` and :mod:`.external`; what ends or releases the run is in
:mod:`.worker`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from weft.core import events as ev
from weft.core.fold.fold import make_whole, record
from weft.core.run.run import Run
from weft.core.run.texts import check_text_or_none
from weft.core.run.waits import receive_signal
from weft.errors import RunClosed, RunParked
from weft.log import Encoded, encode_once, needs_encoding
from weft.runner.execution.large_values import exhausted
from weft.runner.execution.straight_lane import queue_upcoming
from weft.runner.option_checks import check_text
from weft.telemetry import bus
from weft.typing import PoliciesMode

if TYPE_CHECKING:
    from weft.runner.execution.worker import Worker


def take_input(
    worker: Worker,
    value: Any,
    *,
    key: str | None = None,
    deadline: float | None = None,
    last: bool = False,
    by: str | None = None,
    encoded: Encoded | None = None,
) -> int:
    """
    Add an input to the run, and return its number; if its key is known, that of the first with this key.

    Args:
        last: whether the run accepts no more input after it, and finishes.
        by: the name of the caller.
        encoded: the input as bytes, if it was encoded before.

    Raises:
        UnencodableValue: the value could not be stored.
        RunClosed: the run accepts no more input.
        RunParked: it needs a person.
    """
    known = known_input(worker, key)
    if known is not None:
        return known
    if encoded is None and needs_encoding(value):
        encoded = exhausted(encode_once(value, "INPUT"))
    time, carrier = worker.dispatcher.clock.time, None
    if bus.input_receive:
        carrier = worker.report.receives(time, is_new=not worker.acknowledged)
    worker.run.plan(value, key=key, deadline=deadline, at=time(), last=last, by=by, carrier=carrier)
    if deadline is not None:
        worker.unsaved.due_changed = worker.dispatcher.dangers.due_changed
    worker.untimed_until = worker.monotonic() + ev.PRECISION
    if encoded is not None:
        worker.unsaved.keep(encoded)
    worker.changed()
    return worker.run.memory.received


def known_input(worker: Worker, key: str | None) -> int | None:
    """
    Return the number of the input that the run has had with this *key*; None if it would accept one.

    Raises:
        RunClosed, RunParked: as :func:`take_input`.
        InvalidOption: *key* is not text.
    """
    worker.check_takes_more()
    memory = worker.run.memory
    if key is not None:
        check_text("key", key)
        if memory.keys is not None and key in memory.keys:
            return memory.keys[key]
    if memory.is_ending:
        raise RunClosed(worker.id, status=worker.state)
    if worker.state == "parked":
        raise RunParked(worker.id, worker.reason)
    return None


def finish(worker: Worker, by: str | None) -> None:
    """
    Accept no more input, and finish when nothing is left to do.

    Raises:
        RunClosed, RunParked: as ``Worker.check_open``.
    """
    memory = worker.run.memory
    if memory.cancelled is not None or not memory.is_ending or worker.lost is not None:
        worker.check_takes_more()
    if not memory.is_ending:
        check_text_or_none("by", by)
        record(memory, ev.RunFinished(len(memory.log) + 1, by))
        worker.changed()


def take_signal(worker: Worker, name: str, value: Any, *, key: str | None = None, by: str | None = None) -> None:
    """
    Take a signal in; if its name and key are known, nothing changes.

    Raises:
        UnknownSignal: no component waits for it.
        InvalidSignal: its value does not fit.
        UnencodableValue: the value could not be stored.
        RunClosed, RunParked: as :func:`take_input`.
    """
    worker.check_takes_more()
    if worker.state == "parked":
        raise RunParked(worker.id, worker.reason)
    if needs_encoding(value):
        exhausted(encode_once(value, name))
    if key is not None:
        check_text("key", key)
    if receive_signal(worker.run, name, value, at=worker.dispatcher.clock.time(), key=key, by=by):
        worker.changed()


def refuse_signal(worker: Worker, name: str, reason: str, *, key: str | None = None, by: str | None = None) -> None:
    """Note that a signal was refused, whose sender is elsewhere."""
    memory = worker.run.memory
    record(memory, ev.SignalRefused(len(memory.log) + 1, name, reason, worker.dispatcher.clock.time(), key, by))
    worker.told()


def set_policies(worker: Worker, policies: Iterable[Any], mode: PoliciesMode, by: str | None = None) -> None:
    """
    Put *policies* in force from the next decision on; runnables that wait for time or a limit decide again.

    Raises:
        InvalidPolicy: this runner cannot honour one of them.
        RunClosed, RunParked: as ``Worker.check_open``.
    """
    worker.check_open()
    worker.policies.change(policies, mode, by)
    if worker.starts:
        if worker.upcoming is not None:
            queue_upcoming(worker, worker.upcoming)
        for inflight in list(worker.queue.by_key.values()):
            if not inflight.has_ended:
                worker.attempts.reconsider(inflight)
    worker.told()


def redefine(worker: Worker, change: Callable[[Run], object]) -> None:
    """
    Let *change* change the workflow of the run; inputs in flight finish as they began.

    Raises:
        DefinitionError: it would not work; then nothing has changed.
        RunClosed, RunParked: as ``Worker.check_open``.
    """
    worker.check_takes_more()
    change(worker.run)
    worker.told()


def revise(worker: Worker, change: Callable[[Run], object], context: Mapping[str, Any] | None = None) -> None:
    """
    Let *change* revise the log of the run; runnables in flight whose work is not the same any more are abandoned.

    A run that was restored from a snapshot has its history loaded before.

    Raises:
        WeftError: it was refused; then nothing has changed.
    """
    lineage = worker.run.memory.lineage
    if not (lineage.cut or lineage.removed):  # else a change that needs what was removed says so
        make_whole(worker.run.memory)
    change(worker.run)
    if context:
        worker.give(context)
    worker.revised()
    worker.changed()
