"""
Continues a run as a new one: its history has grown long, and its state is all that the future needs.

    old: idle ──────────────────────┐                 ┌──► completed, its record names the new run
                                    ├─ one transaction┤
    new: (not there) ───────────────┘                 └──► idle or waiting, with the states, the waits, the policies,
                                                           the seen keys, the kept signals and the inbox

Invariants: both runs are written together or not at all; nothing is in flight in the old run, and it accepts nothing
from the first check to the end, so nothing can fall between the two.  A timer that is due meanwhile ends its wait in
the new run, or in the old one if that is not continued after all.  A message for the old run, posted before or after,
goes to the new run.  What the new run begins with is decided in :mod:`weft.core.run.continuation`.

A run with ``continue_after=n`` is continued when it is quiet and has *n* events, and twice as many as it began with or
had when that was last refused: so a run that carries many events is not continued again at once.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.core.run.continuation import CannotCarry, begun_from
from weft.errors import (
    HistoryNotLoaded,
    RunBusy,
    RunClosed,
    RunExists,
    RunnerClosed,
    RunNotHeld,
    RunParked,
    WeftError,
)
from weft.ports.store import Append
from weft.runner.durability.ownership import Ownership
from weft.runner.execution.dispatcher import Dispatcher
from weft.runner.execution.worker import Worker
from weft.runner.option_checks import check_text
from weft.runner.registry.registry import RunRegistry
from weft.runner.waiting.waiters import Waiters
from weft.shield import shielded

T = TypeVar("T")

_log = logging.getLogger("weft.runner")

_MOST = 4096
"""How many runs are remembered before those that have left are forgotten."""


class Continuation:
    """Continues the runs of one runner as new ones."""

    def __init__(self, registry: RunRegistry, ownership: Ownership, waiters: Waiters, dispatcher: Dispatcher) -> None:
        self._registry, self._ownership, self._waiters, self._dispatcher = registry, ownership, waiters, dispatcher
        self._runs: set[str] = set()
        """Runs that are being continued."""
        self._tasks: dict[str, asyncio.Task[Worker]] = {}
        """By run that is being continued, or about to be: what does it."""
        self._began: dict[str, int] = {}
        """How many events a run began with, or had when it could not be continued."""

    def __contains__(self, run: object) -> bool:
        """Whether *run* is being continued."""
        return run in self._runs

    def look_at(self, worker: Worker) -> None:
        """Continue the run of *worker*, which is quiet, if it is due to be."""
        if is_due(worker, self._began.get(worker.id, 0)) and worker.id not in self._runs:
            self._registry.shielded.start(self._continue(worker))

    async def _continue(self, worker: Worker) -> None:
        try:
            await self.begin(worker.id, next_id(worker.id), None)
        except RunBusy as error:  # it is not quiet any more, or what waits cannot be carried
            _log.debug("run %r is not continued as a new one yet: %s", worker.id, error)
        except (RunNotHeld, RunClosed, RunParked, RunnerClosed):  # it has left
            return
        except WeftError as error:
            _log.warning("run %r is not continued as a new one: %s", worker.id, error)
        else:
            return
        self._note(worker)

    def _note(self, worker: Worker) -> None:
        """Note how many events the run of *worker* has now; it is continued when there are twice as many."""
        if worker.options.continue_after is not None:
            if len(self._began) > _MOST:
                self._began = {run: events for run, events in self._began.items() if run in self._registry}
            self._began[worker.id] = len(worker.run.memory.log)

    async def begin(self, run: str, new_id: str, by: str | None) -> Worker:
        """
        End *run*, which is here, and start *new_id* from its state, in one transaction; return the new worker.

        Raises:
            RunBusy: something is left to do in it.
            RunClosed: it was continued at this moment.
            RunExists: a run with the new id exists.
        """
        check_text("new_id", new_id)
        if new_id == run:
            raise RunExists(new_id, "and is the one that ends with this")
        await self._let_begin(run)
        lock = self._registry.try_lock(new_id)  # without waiting: two runs might wait for each other
        if lock is None:
            raise RunExists(new_id, "or is being created")
        task = self._registry.change(run, partial(self._begin, run, new_id, by))
        lock.release_after(task)
        self._tasks[run] = task
        task.add_done_callback(lambda _: self._tasks.pop(run, None))
        return await shielded(task)

    async def _let_begin(self, run: str) -> None:
        """
        Wait until *run* is not being continued any more, by another caller or by itself.

        Raises:
            RunClosed: it was continued.
        """
        old = self._registry.get(run)
        while (task := self._tasks.get(run)) is not None:
            await asyncio.wait([task])
            if old is not None and run not in self._registry:
                raise RunClosed(run, old.reason, status=old.state)

    async def _begin(self, run: str, new_id: str, by: str | None) -> Worker:
        old = self._registry.get(run)
        if old is None or new_id in self._registry:
            raise RunNotHeld(run) if old is None else RunExists(new_id)
        check_continuable(old)
        old.begin_leaving()
        self._runs.add(run)
        try:
            await self._waiters.all_stored(old)
            check_continuable(old)  # a turn that was scheduled before may have begun something
            event, at = ev.ContinuedAsNew(len(old.run.memory.log) + 1, new_id, by), self._dispatcher.clock.time()
            begun = await self._with_history(old, partial(begun_from, old.run, new_id, by))
            event = replace(event, inputs=begun.inputs)
            last = await self._with_history(old, partial(old.unsaved.last_append, event, at))
            new = Worker(self._dispatcher, begun.run, old.options, self._registry)
            group = f"{run} {new_id}"
            appends = [replace(last, group=group), replace(_first_append(new, at), group=group, continues=run)]
            await self._ownership.append_together(appends)
        except CannotCarry as error:
            old.stay()
            raise RunBusy(run, f"{error}; send it what it waits for first") from error
        except BaseException:
            old.stay()
            raise
        finally:
            self._runs.discard(run)
        self._began.pop(run, None)
        self._note(new)
        _end(old, event, appends[0])
        self._registry.put(new)
        self._registry.over(old)
        new.committed(appends[1])
        return new

    async def _with_history(self, worker: Worker, call: Callable[[], T]) -> T:
        """Return the result of *call*, for which the history of the run of *worker* is loaded if it is needed."""
        try:
            return call()
        except HistoryNotLoaded:
            await self._ownership.again(worker.run.load)
            return call()


def is_due(worker: Worker, began: int) -> bool:
    """Whether the run of *worker*, which *began* with so many events, is to be continued as a new one."""
    after, memory = worker.options.continue_after, worker.run.memory
    if after is None or len(memory.log) < max(after, 2 * began):
        return False
    return worker.state in ("idle", "waiting") and not memory.is_ending and memory.cancelled is None


def check_continuable(worker: Worker) -> None:
    """
    Refuse to end the run of *worker*, for another one to continue, while something is left to do in it.

    Raises:
        RunBusy: there is.
        RunClosed, RunParked: as ``Worker.check_open``.
    """
    worker.check_takes_more()
    memory = worker.run.memory
    if worker.state == "parked":
        raise RunParked(worker.id, worker.reason)
    outside = {name: None for (name, _), each in (memory.waiting or {}).items() if each.attempt}
    if outside:
        named = ", ".join(outside)
        raise RunBusy(worker.id, f"{named} waits to be completed from outside; complete() or fail() it first")
    if worker.queue.by_key or memory.ready or worker.upcoming is not None or worker.owes_notice:
        raise RunBusy(worker.id, "something is in flight; wait() for it first")
    if memory.letters:
        raise RunBusy(worker.id, "it has dead letters; retry() or discard() them first")


def _first_append(new: Worker, at: float) -> Append:
    """Return the append that creates the run of *new*, which has no input, with everything that it begins with."""
    memory = new.run.memory
    append = new.unsaved.append("waiting" if memory.waiting else "idle", "", at, most=len(memory.log) + 1)
    assert append is not None  # noqa: S101
    return append


def _end(old: Worker, event: ev.ContinuedAsNew, append: Append) -> None:
    """The run of *old* has ended with *event*, which is stored."""
    record(old.run.memory, event)
    old.state, old.reason = "completed", append.reason
    old.unsaved.stored(append)


def next_id(run: str) -> str:
    """
    Return the id of the run that continues *run*, if no other is given.

    >>> next_id("w"), next_id("w~2"), next_id("w~9")
    ('w~2', 'w~3', 'w~10')
    """
    found = re.fullmatch(r"(.*)~(\d+)", run, re.DOTALL)
    return f"{run}~2" if found is None else f"{found[1]}~{int(found[2]) + 1}"
