"""
Reports the progress of a run to telemetry handlers, hooks and ``logging``.

Without listeners a report only checks an empty tuple.  An exception of a listener is logged and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, copy_context
from time import monotonic
from typing import Any, Literal, Protocol, TypeVar

from msgspec.structs import replace

from weft.calling import is_ctrl_c
from weft.core.events import AttemptFailed, ErrorDetail
from weft.core.failure import describe, described
from weft.core.fold.error_routes import rescuers
from weft.core.run.run import Run
from weft.core.run.runnable import Outcome, Runnable
from weft.ports.clock import Clock
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.observed import ObservedAttempt
from weft.runner.options import WorkerHooks
from weft.telemetry import bus, catalogue

T = TypeVar("T")
_log = logging.getLogger("weft.runner")
_TRACEBACK: Any = vars(BaseException)["__traceback__"]
FailedAttempt = Literal["retried", "fell_back", "skipped", "failed"]
"""The decision about a failed attempt; nothing follows one that has *failed*."""
MOST_SAID = 300
"""How many characters of a handled error a line of the log has."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Runner(Protocol):
    """The dispatcher, as a reporter sees it."""

    number: int
    clock: Clock


class Reporter:
    """Reports what happens in the run of one worker."""

    __slots__ = ("_busy_since", "_caller", "_carrier", "_hooks", "_run")

    def __init__(self, run: Run, hooks: WorkerHooks | None) -> None:
        self._run, self._hooks = run, hooks
        self._busy_since = 0.0
        """When the present busy period began, on the monotonic clock; 0 if the run has nothing to do."""
        self._caller: Context | None = None
        """The context of the caller that starts the run, until that is reported."""
        self._carrier: dict[str, str] | None = None
        """The text that handlers have noted about the caller of the last input."""

    # -- the run ---------------------------------------------------------------------------------

    def called(self) -> None:
        """A caller starts the run: handlers are called in the context of that caller, once the run is stored."""
        self._caller = copy_context()

    def begun(self, time: Callable[[], float]) -> None:
        """The run is stored for the first time: it is started."""
        caller, self._caller = self._caller or copy_context(), None
        caller.run(bus.emit, catalogue.WORKFLOW_START, {"time": time()}, {**self._carried(), "is_resumed": False})

    def exists(self) -> None:
        """Another run has this id, so that this one has never begun: nothing is reported of it."""
        self._busy_since, self._caller = 0.0, None

    def resumed(self, time: Callable[[], float]) -> None:
        """The run was loaded from the store, and continues."""
        if self._run.is_runnable:
            self.busy()
        if bus.workflow_start:
            pending = next(iter(self._run.memory.ready.values()), None)
            self._carrier = None if pending is None else pending.scope.root.carrier
            bus.emit(catalogue.WORKFLOW_START, {"time": time()}, {**self._carried(), "is_resumed": True})

    def receives(self, time: Callable[[], float], *, is_new: bool) -> dict[str, str] | None:
        """A caller sends the run an input; return the text that handlers note about the caller, None if nothing."""
        noted: dict[Any, Any] = {}
        told = {**self._whose(), "carrier": noted, "ordinal": self._run.memory.received + 1, "is_new": is_new}
        bus.emit(catalogue.INPUT_RECEIVE, {"time": time()}, told)
        self._carrier = {name: text for name, text in noted.items() if type(name) is type(text) is str} or None
        if self._carrier != (noted or None):
            _log.warning("a telemetry handler noted %r about an input: only text is stored", noted)
        return self._carrier

    def busy(self) -> None:
        """The run was given something to do, or is being closed: a busy period begins, unless there is one."""
        if not self._busy_since:
            self._busy_since = monotonic()

    def settled(self, status: str) -> None:
        """There is nothing left to do; nothing is reported unless there was something."""
        since, self._busy_since = self._busy_since, 0.0
        if not since:
            return
        hooks = self._hooks
        if hooks is not None and hooks.on_idle is not None and status != "cancelled":
            self._call("on_idle", hooks.on_idle, self._run.frozen_copy())
        if bus.workflow_stop:
            spent = monotonic() - since
            bus.emit(catalogue.WORKFLOW_STOP, {"duration": spent}, {**self._carried(), "status": status})

    def lost(self, error: Exception) -> None:
        """The run cannot be written any more."""
        _log.error(
            "run %r was released: %s; the store has it up to its last checkpoint",
            self._run.id,
            error,
            extra={"run_id": self._run.id},
        )
        self.failed(error)

    def failed(self, error: BaseException) -> None:
        """The run has failed with *error*; :meth:`settled` follows."""
        if bus.workflow_exception:
            spent = monotonic() - self._busy_since if self._busy_since else 0.0
            bus.emit(catalogue.WORKFLOW_EXCEPTION, {"duration": spent}, {**self._carried(), "error": error})

    def restarted(self, error: BaseException, restarts: int) -> None:
        """The worker crashed, and is rebuilt from the store."""
        id = self._run.id
        said = "the worker of run %r crashed and is rebuilt from the store"
        _log.error(said, id, exc_info=error, extra={"run_id": id})
        if bus.worker_restart:
            bus.emit(catalogue.WORKER_RESTART, {"restarts": restarts}, {**self._whose(), "error": error})

    def evicted(self) -> None:
        """The run only waits, and leaves memory."""
        if bus.worker_evicted:
            bus.emit(catalogue.WORKER_EVICTED, {}, self._whose())

    def values_evicted(self, facts: int, size: int) -> None:
        """Values of the run have left memory."""
        if bus.values_evicted:
            bus.emit(catalogue.VALUES_EVICTED, {"facts": facts, "bytes": size}, self._whose())

    def parked(self, reason: str) -> None:
        """The run was set aside."""
        _log.error("run %r is parked: %s", self._run.id, reason, extra={"run_id": self._run.id})
        if bus.worker_parked:
            bus.emit(catalogue.WORKER_PARKED, {}, {**self._whose(), "reason": reason})

    def batch_begun(self, inflight: InFlight, runnables: int, time: float) -> None:
        """*runnables*, the first of which is *inflight*, are about to be handed over together."""
        about = {**self._whose(), "component": inflight.activation.node.name, "executor": inflight.executor}
        bus.emit(catalogue.BATCH_START, {"time": time, "runnables": runnables}, about)

    def batch_ended(self, inflight: InFlight, component: str, runnables: int, spent: float) -> None:
        """A batch that began with *component* is over; *runnables* is how many of it have ended."""
        about = {**self._whose(), "component": component, "executor": inflight.executor}
        bus.emit(catalogue.BATCH_STOP, {"duration": spent, "runnables": runnables}, about)

    # -- attempts --------------------------------------------------------------------------------

    def started(self, inflight: InFlight, runner: Runner) -> None:
        """An attempt is about to start, in *runner*."""
        hooks = self._hooks
        if hooks is not None and hooks.on_dispatch is not None and inflight.runnable is not None:
            self._call("on_dispatch", hooks.on_dispatch, inflight.runnable)
        if bus.runnable_start:
            runnable = inflight.runnable
            handle = inflight.handle = ObservedAttempt((runner.number, self._run.id), inflight.activation, runnable)
            bus.emit(catalogue.RUNNABLE_START, {"time": runner.clock.time()}, self._handled(inflight))
            if runnable is not None:
                runnable.entries = handle.entries

    def ended(self, inflight: InFlight, outcome: Outcome) -> None:
        """An attempt has returned a value."""
        if bus.runnable_stop:
            bus.emit(catalogue.RUNNABLE_STOP, {"duration": outcome.duration_ns / 1e9}, self._handled(inflight))
        inflight.handle = None

    def attempt_failed(self, inflight: InFlight, outcome: FailedAttempt) -> None:
        """The last attempt has failed, and it is decided what follows."""
        failed, inflight.failed = inflight.failed, None
        if failed is not None and bus.runnable_exception:
            told = {"error": failed.error, "is_final": outcome == "failed", "outcome": outcome}
            measured = {"duration": failed.duration_ns / 1e9}
            bus.emit(catalogue.RUNNABLE_EXCEPTION, measured, {**self._handled(inflight), **told})
        inflight.handle = None

    def abandoned(self, inflight: InFlight, now: float) -> None:
        """An attempt was given up: its run was cancelled, stopped or has crashed.  *now* is a monotonic time."""
        if bus.runnable_abandon:
            spent = now - inflight.started if inflight.started else 0.0
            bus.emit(catalogue.RUNNABLE_ABANDON, {"duration": spent}, self._handled(inflight))
        inflight.handle = None

    def gave_up(self, inflight: InFlight, outcome: Outcome) -> None:
        """A runnable is skipped, or has failed for good: that is logged, with its traceback if nothing handles it."""
        is_final = outcome.status == "failed"
        if is_final:  # its fallback has failed after the attempt, or a limit has refused one: that counts
            failed = inflight.failed
            inflight.failed = outcome if failed is None else replace(failed, error=outcome.error)
        self.attempt_failed(inflight, "failed" if is_final else "skipped")
        if not is_final and outcome.error is not None and _log.isEnabledFor(logging.INFO):
            self._log_handled(inflight, outcome.attempt, describe(outcome.error), "it is skipped", logging.INFO)
        if is_final and (bus.runnable_dead_letter or _log.isEnabledFor(logging.WARNING)):
            error = outcome.error or RuntimeError("failed without an error")
            self._failed_for_good(inflight, outcome, error)

    def _failed_for_good(self, inflight: InFlight, outcome: Outcome, error: BaseException) -> None:
        """Log the failure, and report a dead letter."""
        node, detail = inflight.activation.node, describe(error)
        handlers = rescuers(node, detail) if node.error_routes else []
        if handlers:
            names = ", ".join(dict.fromkeys(f"{target.owner or target.name!r}" for target, _ in handlers))
            self._log_handled(inflight, outcome.attempt, detail, f"{names} handles it", logging.WARNING)
        else:
            self._log_unhandled(inflight, outcome, error, detail)
        is_letter = (outcome.on_failure == "dead_letter" or node.undoes) and not handlers
        if is_letter and bus.runnable_dead_letter:
            bus.emit(catalogue.RUNNABLE_DEAD_LETTER, {}, {**self._attempt(inflight), "error": error})

    def _log_unhandled(self, inflight: InFlight, outcome: Outcome, error: BaseException, detail: ErrorDetail) -> None:
        """Log the exception; its text is taken from its description, since its own code may raise anything."""
        said = (*self._said(inflight, outcome.attempt), detail.type, detail.message)
        raised = (type(error), error, _TRACEBACK.__get__(error))
        self._log(inflight, outcome.attempt, logging.ERROR, "%r of run %r has failed%s: %s: %s", said, raised, detail)

    def _log_handled(self, inflight: InFlight, attempt: int, detail: ErrorDetail, follows: str, level: int) -> None:
        """Log in one line what has failed, and what follows; the traceback is in the log of the run."""
        message = " ".join(detail.message.split())
        text = f"{detail.type}: {message}" if message else detail.type
        said = (*self._said(inflight, attempt), text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}…", follows)
        self._log(inflight, attempt, level, "%r of run %r has failed%s: %s; %s", said)

    def _said(self, inflight: InFlight, attempt: int) -> tuple[str, str, str]:
        return inflight.activation.node.name, self._run.id, "" if attempt == 1 else f" after {attempt} attempts"

    def _log(
        self,
        inflight: InFlight,
        attempt: int,
        level: int,
        form: str,
        said: tuple[str, ...],
        raised: Any = None,
        detail: ErrorDetail | None = None,
    ) -> None:
        record = _log.makeRecord(_log.name, level, __file__, 0, form, said, raised, "gave_up")
        if detail is not None:
            record.exc_text = detail.traceback.rstrip()
        record.run_id, record.component, record.attempt = self._run.id, inflight.activation.node.name, attempt
        if _log.isEnabledFor(level):
            _log.handle(record)

    def timed_out(self, inflight: InFlight, spent: float, error: BaseException) -> None:
        """An attempt was stopped."""
        if bus.runnable_timeout:
            measured = {"duration": spent, "timeout": getattr(error, "seconds", spent)}
            bus.emit(catalogue.RUNNABLE_TIMEOUT, measured, self._handled(inflight))

    def retrying(self, inflight: InFlight, after: AttemptFailed, now: float) -> None:
        """Another attempt follows."""
        failed = inflight.failed
        self.attempt_failed(inflight, "retried")
        if bus.runnable_retry:
            error = described(after.error) if failed is None else failed.error
            told = {**self._attempt(inflight), "attempt": after.attempt, "error": error}
            bus.emit(catalogue.RUNNABLE_RETRY, {"delay": max(0.0, after.retry_at - now)}, told)

    def falling_back(self, inflight: InFlight, error: BaseException) -> None:
        """The fallback is about to be asked."""
        if _log.isEnabledFor(logging.INFO):
            attempt = 1 if inflight.failed is None else inflight.failed.attempt
            self._log_handled(inflight, attempt, describe(error), "its fallback is asked", logging.INFO)
        self.attempt_failed(inflight, "fell_back")
        if bus.runnable_fallback:
            bus.emit(catalogue.RUNNABLE_FALLBACK, {}, {**self._attempt(inflight), "error": error})

    def finished(self, inflight: InFlight, outcome: Outcome) -> None:
        """A runnable has its outcome."""
        hooks, runnable, policy = self._hooks, inflight.runnable, inflight.policy
        if hooks is not None and runnable is not None:
            if outcome.status == "completed" and hooks.on_complete is not None:
                self._call("on_complete", hooks.on_complete, runnable, inflight.spent_ns / 1e9)
            elif outcome.status == "failed" and hooks.on_failed is not None:
                self._call("on_failed", hooks.on_failed, runnable, outcome.error)
        if outcome.status == "skipped" and bus.runnable_skip:
            bus.emit(catalogue.RUNNABLE_SKIP, {}, {**self._attempt(inflight), "error": outcome.error})
        if policy is not None and policy.log_level is not None:
            how = f"{outcome.status} after {inflight.spent_ns / 1e6:.1f} ms, attempt {outcome.attempt}"
            name = f"{policy.telemetry_prefix or 'weft.runner'}"
            level = _LEVELS[policy.log_level]
            logging.getLogger(name).log(level, "%s of run %r %s", inflight.activation.node.name, self._run.id, how)

    def transformed(self, runnables: list[Runnable]) -> list[Runnable]:
        """Return *runnables* as the ``transform`` hook returns them, or unchanged if it fails."""
        hooks = self._hooks
        if hooks is None or hooks.transform is None:
            return runnables
        transform = hooks.transform
        wanted = self._call("transform", lambda: _checked(runnables, transform(list(runnables))))
        return runnables if wanted is None else wanted

    def _call(self, name: str, hook: Callable[..., T], *args: object) -> T | None:
        """Call a *hook*, and return the value that it returns; None if it fails, which is logged."""
        try:
            return hook(*args)
        except BaseException as error:
            if is_ctrl_c(error):
                raise
            _log.exception("the hook %s of run %r failed; nothing is changed by that", name, self._run.id)
            return None

    def _whose(self) -> dict[str, Any]:
        return {"workflow_id": self._run.id, "workflow": self._run.workflow.name}

    def _carried(self) -> dict[str, Any]:
        return {**self._whose(), "carrier": dict(self._carrier or {})}

    def _handled(self, inflight: InFlight) -> dict[str, Any]:
        """Return the metadata of an attempt with its handle; one that was never started gets its handle here."""
        handle = inflight.handle or ObservedAttempt((0, self._run.id), inflight.activation, inflight.runnable)
        return {**self._attempt(inflight), "executor": inflight.executor, "handle": handle}

    def _attempt(self, inflight: InFlight) -> dict[str, Any]:
        attempt = 1 if inflight.attempt is None else inflight.attempt.runnable.attempt
        told = {**self._whose(), "component": inflight.activation.node.name, "attempt": attempt}
        policy = inflight.policy
        if policy is not None and policy.telemetry_prefix is not None:
            told["prefix"] = policy.telemetry_prefix
        if policy is not None and policy.metadata is not None:
            told["metadata"] = dict(policy.metadata)
        return told


def _checked(offered: Sequence[Runnable], wanted: Iterable[object]) -> list[Runnable]:
    """
    Return what the ``transform`` hook *wanted* as a list.

    Raises:
        TypeError: it has returned something else than runnables that it was *offered*.
    """
    keys, found = {runnable.key for runnable in offered}, list[Runnable]()
    if not isinstance(wanted, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"transform returned {wanted!r:.80}; return a list of the runnables that it was given")
    for each in wanted:
        if not isinstance(each, Runnable) or each.key not in keys:
            raise TypeError(
                f"transform returned {each!r:.80}, which is not one of the {len(keys)} runnables that it was given; "
                "return these in another order, or some of them"
            )
        found.append(each)
    return found
