"""
The effect of each kind of message on its run; the mailbox moves the messages here.

A message is applied at most once: a worker knows the number of the last one that it has applied.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from weft.core import events as ev
from weft.core.fold.scope import Key
from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.core.run.runnable import RunnableRef
from weft.errors import (
    InvalidSignal,
    NoSuchLetter,
    RunClosed,
    RunParked,
    WeftError,
)
from weft.log.messages import decode_message
from weft.ports.store import FINISHED, Message
from weft.runner.execution.cancelling import cancel_steps
from weft.runner.execution.commands import finish, refuse_signal, set_policies, take_input, take_signal
from weft.runner.execution.commands import revise as revise_run
from weft.runner.execution.external import complete_step, fail_step
from weft.runner.execution.worker import Worker

_log = logging.getLogger("weft.runner")


def deliver(worker: Worker, messages: Iterable[Message]) -> None:
    """Let the run of *worker* have the *messages* that it has not had, in order."""
    for message in messages:
        if message.number <= worker.heard:
            continue
        if not worker.takes_messages or (worker.state == "parked" and message.kind not in _FOR_PARKED):
            return
        if message.kind == PROGRESS:
            reporter = worker.dispatcher.step_runner.reporter
            if reporter is not None:
                reporter.answer(worker.id, message.body)
            worker.take_message(message.number)
            continue
        try:
            event = decode_message(message.body, worker.run.workflow)
            _APPLY[type(event)](worker, event, message.kind)
        except RunParked:
            return
        except RunClosed as closed:
            _log.warning("a message (%s) for run %r came too late: %s", message.kind, worker.id, closed)
            if worker.state in FINISHED:  # it stays in the inbox, where its sender finds that it was not read
                worker.heard = message.number
                continue
        except WeftError as error:
            _refused(worker, message, error)
        except KeyError:
            _log.error("a message (%s) for run %r is of a kind that is not known here", message.kind, worker.id)
        worker.take_message(message.number)


def _refused(worker: Worker, message: Message, error: WeftError) -> None:
    """Note that the run has refused *message*; the sender may have gone, or reads it in the log."""
    _log.warning("run %r has refused a message (%s): %s", worker.id, message.kind, error)
    try:
        event = decode_message(message.body)
    except WeftError:
        return
    if isinstance(event, ev.SignalReceived):
        reason = error.reason if isinstance(error, InvalidSignal) else str(error)
        refuse_signal(worker, event.name, reason, key=event.key, by=event.by)


def _signal(worker: Worker, event: ev.SignalReceived, _: str) -> None:
    take_signal(worker, event.name, event.value, key=event.key, by=event.by)


def _input(worker: Worker, event: ev.InputReceived, _: str) -> None:
    left = None if event.deadline is None else event.deadline - worker.dispatcher.clock.time()
    take_input(worker, event.value, key=event.key, deadline=left, by=event.by)


def _complete(worker: Worker, event: ev.CompletionReceived, _: str) -> None:
    complete_step(worker, event.token, event.value, event.by)


def _fail(worker: Worker, event: ev.FailureReceived, _: str) -> None:
    fail_step(worker, event.token, event.error, event.by)


def _cancel(worker: Worker, event: ev.RunCancelled, _: str) -> None:
    worker.cancel(event.reason, event.by, undo=event.undo)


def _cancel_steps(worker: Worker, event: ev.RunnableCancelled, _: str) -> None:
    which = RunnableRef(event.component, event.inputs) if event.inputs else event.component
    cancel_steps(worker, which, event.reason, event.by)


def _finish(worker: Worker, event: ev.RunFinished, _: str) -> None:
    finish(worker, event.by)


def _policies(worker: Worker, event: ev.PolicyChanged, kind: str) -> None:
    set_policies(worker, event.rules, "merge" if kind == MERGE_POLICIES else "replace", event.by)


def named_failure(run: Run, which: object) -> Key:
    """Return *which*, a failure of *run*, a component, or None for all, as a message says it."""
    if isinstance(which, ev.RunnableFailed):
        return which.component, which.inputs
    return "" if which is None else run.workflow.name_of(which), ()


def _revise(worker: Worker, event: ev.RunnableRetried | ev.RunnableSkipped, _: str) -> None:
    revise_run(worker, partial(revise, event))


def revise(event: ev.RunnableRetried | ev.RunnableSkipped, run: Run) -> None:
    """
    Retry or discard in *run* what *event*, of a message, says: what had failed when it was sent, each failure once.

    Raises:
        NoSuchLetter: there is no such failure; perhaps the same message came before.
    """
    until = event.seq or None
    which: object = event.component or None
    if event.inputs:
        which = (run.memory.failures or {}).get((event.component, event.inputs))
        if which is None:
            raise NoSuchLetter(event.component, [each.component for each in run.dead_letters])
    if isinstance(event, ev.RunnableSkipped):
        run.discard(which, until=until, by=event.by)
    else:
        value = MISSING if event.values is None else event.values[0]
        run.retry(which, policy=event.policy, input=value, until=until, by=event.by)


def revise_at_rest(messages: Iterable[Message], worker: Worker) -> None:
    """Let the run of *worker*, which does nothing yet, have those of *messages* that revise it."""
    for message in messages:
        if message.kind not in FOR_FAILED:
            continue
        try:
            event = decode_message(message.body, worker.run.workflow)
            if isinstance(event, ev.RunnableRetried | ev.RunnableSkipped):
                revise(event, worker.run)
        except WeftError as error:
            _log.warning("run %r has refused a message (%s): %s", worker.id, message.kind, error)
        worker.take_message(message.number)


MERGE_POLICIES: Final = "policies+merge"
"""The kind of a message whose rules go in front of those in force."""

PROGRESS: Final = "progress"
"""The kind of a message that asks how far the steps of a run have come; its body is in the answer."""

_FOR_PARKED: Final = frozenset({"cancel", "retry", "discard", PROGRESS})
"""The kinds of messages that a run takes while it is parked."""
FOR_FAILED: Final = frozenset({"retry", "discard"})
"""The kinds of messages that a run takes when it has failed."""

_APPLY: Final[Mapping[type[Any], Callable[[Worker, Any, str], None]]] = {
    ev.SignalReceived: _signal,
    ev.InputReceived: _input,
    ev.CompletionReceived: _complete,
    ev.FailureReceived: _fail,
    ev.RunCancelled: _cancel,
    ev.RunnableCancelled: _cancel_steps,
    ev.RunFinished: _finish,
    ev.PolicyChanged: _policies,
    ev.RunnableRetried: _revise,
    ev.RunnableSkipped: _revise,
}
