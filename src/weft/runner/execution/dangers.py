"""
Reports deadlines that are in danger, each once (docs/adr/0057-a-deadline-in-danger-is-told.md).

    the store has a deadline ──its time has come──► reported ──► (the row goes when the input is done)
                  └── a step starts that usually takes longer than what is left ──► reported

The deadlines of inputs are rows of the store, so one timer of this runner is enough for all: when it fires, the store
says which were not reported, and when the next one is due.  The deadline of a policy has a separate timer.

Invariant: an input's deadline is reported by the process that has changed its row, and by no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from weft.core.fold.scope import Key
from weft.core.run.danger import danger_at, usual_after
from weft.errors import StoreClosed, StoreError
from weft.ports.deadlines import DeadlineStore, Endangered
from weft.ports.store import NEVER
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.timers import EARLY
from weft.telemetry import bus, catalogue

if TYPE_CHECKING:
    from weft.runner.execution.dispatcher import Dispatcher
    from weft.runner.execution.worker import Worker

_log = logging.getLogger("weft.runner")

AGAIN: Final = 5.0
"""Seconds before a store that was not available is asked again."""
LIMIT: Final = 100
"""Dangers that are reported at once."""
_MOST: Final = 10_000
"""The number of components whose usual duration is remembered."""
_KEY: Key = ("", ())
_WHERE: Final = {
    "queued": "is queued",
    "waiting": "waits for its next attempt or for a limit",
    "executing": "is executed",
    "calling_policy": "has failed, and its policy is asked",
    "encoding": "is being stored",
    "committing": "is being stored",
}


class Dangers:
    """The dangers of all runs of one runner."""

    def __init__(self, dispatcher: Dispatcher, store: object, worker_of: Callable[[str], Worker | None]) -> None:
        """Look for deadlines in *store*; *worker_of* returns the worker of a run, if the run is here."""
        self._dispatcher, self._worker_of = dispatcher, worker_of
        self._store = store if isinstance(store, DeadlineStore) else None
        self._next: float | None = None
        """When the store is asked, in seconds since the epoch."""
        self._usual: dict[tuple[str, str], float] = {}
        """By workflow and component: how many seconds an attempt usually takes; of those that have deadlines."""
        self._tasks: set[asyncio.Task[None]] = set()

    # -- deadlines of inputs -----------------------------------------------------------------------

    def due_changed(self, due: tuple[float, float]) -> None:
        """The store knows when the deadline of a run here is in danger, and when it is past."""
        if self._store is not None and due[0] != NEVER:
            self._ask_at(due[0])

    def look(self) -> None:
        """A run with deadlines was loaded: ask the store for them."""
        if self._store is not None:
            self._ask_at(0.0)

    def _ask_at(self, at: float) -> None:
        at = max(at, self._dispatcher.clock.time())
        if self._next is None or at < self._next:
            self._next = at
            self._dispatcher.timers.add(self, _KEY, at, is_relative=True)

    def has_timer(self, key: Key) -> bool:  # noqa: ARG002 - as the timers call it
        """Whether something may be in danger."""
        return self._next is not None

    def time_is_up(self, key: Key, due: float) -> None:  # noqa: ARG002 - as the timers call it
        """Ask the store, unless an earlier timer has done so."""
        if self._next is not None and due >= self._next:
            self._next = None
            self._begin(self._tell_all())

    async def _tell_all(self) -> None:
        assert self._store is not None  # noqa: S101
        try:
            # The timer may be this early.  The store would name the same time again, and be asked without a pause.
            now = self._dispatcher.clock.time() + EARLY
            told, following = await self._store.tell_dangers(now, limit=LIMIT)
        except StoreClosed:
            return
        except StoreError as error:
            _log.debug("the store does not say which deadlines are in danger, it is asked again: %s", error)
            self._ask_at(self._dispatcher.clock.time() + AGAIN)
            return
        for each in told:
            self.tell(each)
        if following is not None:
            self._ask_at(following)

    async def _tell_one(self, run: str, deadline: float) -> None:
        assert self._store is not None  # noqa: S101
        try:
            found = await self._store.tell_danger(run, deadline, self._dispatcher.clock.time())
        except StoreError as error:
            _log.debug("a deadline of run %r is in danger, and the store does not take that: %s", run, error)
            return
        if found is not None:
            self.tell(found)

    def tell(self, found: Endangered) -> None:
        """Send what was *found* to the handlers of telemetry; it was marked as reported before."""
        if bus.deadline_danger:
            component, reason = _standing(self._worker_of(found.run), found)
            self._emit(found.run, found.workflow, component, found.deadline, reason)

    # -- steps ---------------------------------------------------------------------------------------

    def starts(self, worker: Worker, inflight: InFlight, began: float, own: float | None) -> None:
        """
        The policy driver of *inflight* starts: report it if the step usually takes longer than its deadline allows.

        Args:
            began: when its first attempt began.
            own: the deadline of its policy.
        """
        node, now = inflight.activation.node, self._dispatcher.clock.time()
        usual = self._usual.get((worker.run.workflow.name, node.name))
        given = inflight.activation.scope.root.deadline
        if usual is not None and given is not None and self._store is not None and now < given < now + usual:
            self._begin(self._tell_one(worker.id, given))
        if own is not None and now < own:
            at = max(now, danger_at(began, own, usual))
            self._dispatcher.timers.add(_StepDanger(self, worker, inflight, own), _KEY, at, is_relative=True)

    def took(self, worker: Worker, inflight: InFlight, seconds: float) -> None:
        """An attempt that had a deadline has succeeded."""
        key = worker.run.workflow.name, inflight.activation.node.name
        if key in self._usual or len(self._usual) < _MOST:
            self._usual[key] = usual_after(self._usual.get(key), seconds)

    def tell_step(self, worker: Worker, inflight: InFlight, deadline: float) -> None:
        """Report that *inflight*, which is not done, is likely to miss the *deadline* of its policy."""
        if bus.deadline_danger:
            name = inflight.activation.node.name
            self._emit(worker.id, worker.run.workflow.name, name, deadline, f"{name!r} {_WHERE[inflight.state]}")

    # -- both ----------------------------------------------------------------------------------------

    def _emit(self, run: str, workflow: str, component: str | None, deadline: float, reason: str) -> None:
        remaining = deadline - self._dispatcher.clock.time()
        about = {"workflow_id": run, "workflow": workflow, "component": component, "reason": reason}
        bus.emit(catalogue.DEADLINE_DANGER, {"remaining": remaining, "deadline": deadline}, about)

    def _begin(self, telling: Coroutine[Any, Any, None]) -> None:
        task = self._dispatcher.loop.create_task(telling, name="weft-dangers")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Report nothing more."""
        self._next = None
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))


class _StepDanger:
    """The timer of the deadline of a policy."""

    __slots__ = ("_dangers", "_deadline", "_inflight", "_worker")

    def __init__(self, dangers: Dangers, worker: Worker, inflight: InFlight, deadline: float) -> None:
        self._dangers, self._worker, self._inflight, self._deadline = dangers, worker, inflight, deadline

    def has_timer(self, key: Key) -> bool:  # noqa: ARG002 - as the timers call it
        return self._inflight.state != "done"

    def time_is_up(self, key: Key, due: float) -> None:  # noqa: ARG002 - as the timers call it
        self._dangers.tell_step(self._worker, self._inflight, self._deadline)


def _standing(worker: Worker | None, found: Endangered) -> tuple[str | None, str]:
    """Return the component that is to be done next, if it is known, and how the run stands, in words."""
    if worker is None:
        return None, f"the run is {found.status}{'' if found.is_held else ', and no process has it'}"
    for inflight in worker.queue.by_key.values():
        name = inflight.activation.node.name
        return name, f"{name!r} {_WHERE[inflight.state]}"
    for name, _ in worker.run.memory.waiting or ():
        return name, f"{name!r} waits for time or a signal"
    return None, f"the run is {worker.state}"
