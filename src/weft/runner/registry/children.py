"""
Child runs, which steps start: ``weft.current().start_child(...)``.

A child is a run like any other, whose id is derived from the step that started it.  The log of its parent names it
before it exists, so that a step that is executed again finds its children, and so does cancelling the parent.
An attempt that waits for a child lends its slot, so waiting parents never keep their children from running.
A child of a run with ``checkpoint="manual"`` is written when it has nothing left to do, unless its parent chooses
another strategy: with "manual", the log of the parent could say that a step has completed while its child is stored as
running.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from weft.core import events as ev
from weft.core.fold.fold import record
from weft.core.functions.current import announced
from weft.core.functions.identity import digest
from weft.core.functions.references import MISSING
from weft.core.functions.reports import Reporter
from weft.core.run.runnable import Runnable
from weft.core.workflow import Workflow
from weft.errors import InvalidOption, NoRun, RunnerClosed, RunNotFound, RunOwned, WeftError
from weft.log import check_encodable
from weft.ports.store import FINISHED
from weft.runner.checkpoints import on_complete
from weft.runner.execution.chain_progress import advance
from weft.runner.execution.chains import ChainLink
from weft.runner.execution.inflight import InFlight
from weft.runner.execution.worker import Worker
from weft.runner.handle import AsyncHandle, Handle, RunRef
from weft.runner.option_checks import check_text
from weft.runner.options import RunOptions, StartRequest
from weft.runner.registry.creation import RunCreator
from weft.runner.registry.loading import RunLoader
from weft.runner.registry.mailbox import Mailbox
from weft.runner.registry.registry import RunRegistry
from weft.runner.registry.run_keys import key_of
from weft.runner.waiting.waiters import Waiters

if TYPE_CHECKING:
    from weft.runner.runner import AsyncRunner

T = TypeVar("T")
Given = Callable[[dict[str, Any], RunOptions], tuple[RunOptions, dict[str, Any]]]
"""Splits the options of a child, over the usual ones, into the options of a run and its policies and deadline."""
_log = logging.getLogger("weft.runner")


class OtherDatabases(Protocol):
    """Starts children with a given id, if the runs of a fleet are in several databases."""

    async def is_needed(self) -> bool:
        """Return whether there are other databases."""
        ...

    async def start(self, workflow: Workflow, value: Any, id: str, options: Mapping[str, Any]) -> tuple[Any, RunRef]:
        """Start the child *id*; return the client that can wait for it, and the run."""
        ...

    async def cancel(self, id: str, reason: str, *, undo: bool) -> bool:
        """Tell the child *id* that it is cancelled; return whether it is still to be undone."""
        ...

    async def until_finished(self, id: str) -> None:
        """Wait until the child *id* has finished, or is deleted."""
        ...


class _Told(NamedTuple):
    """A child that was told that it is cancelled."""

    orphans: tuple[str, ...]
    """Its children that are cancelled with it."""
    is_undone: bool
    """Whether nothing of itself is left to undo."""
    is_here: bool = True
    """Whether this runner drives it."""


class ChildRuns:
    """Starts and cancels the child runs of one *runner*; *given* checks the options of new ones."""

    _loop: asyncio.AbstractEventLoop
    _thread: int

    def __init__(
        self,
        runner: AsyncRunner,
        registry: RunRegistry,
        creator: RunCreator,
        loader: RunLoader,
        waiters: Waiters,
        mailbox: Mailbox,
        given: Given,
        reporter: Reporter,
        other_databases: OtherDatabases | None,
        until_finished: Callable[[str], Awaitable[None]],
    ) -> None:
        """
        Start children with *runner*.

        Args:
            reporter: takes the progress and the streams of steps.
            other_databases: starts children that are given an id, in a fleet.
            until_finished: waits until a run has finished, wherever it is, or the process that drove it has died.
        """
        self._runner, self._registry, self._waiters, self._given = runner, registry, waiters, given
        self._creator, self._loader, self._mailbox = creator, loader, mailbox
        self.reporter: Reporter | None = reporter
        """Takes the progress and the streams of steps."""
        self._other_databases, self._until_finished = other_databases, until_finished
        self._cancelling: dict[str, asyncio.Task[None]] = {}
        """By cancelled parent: the task that cancels its children."""
        self._awaiting: dict[str, asyncio.Task[None]] = {}
        """By cancelled parent: the task that waits for its children to be undone."""
        self._written_to: dict[str, bool] = {}
        """By child that another process drives, and was sent that it is cancelled: whether it is to be undone."""
        self._elsewhere: dict[str, bool] = {}
        """The same of children in other databases."""

    def open(self) -> None:
        """Get ready, in the loop of the runner."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def close(self) -> None:
        """Stop cancelling children; that continues when their parents are resumed."""
        for task in (*self._cancelling.values(), *self._awaiting.values()):
            task.cancel()

    # -- starting --------------------------------------------------------------------------------

    def start(
        self, parent: Runnable, workflow: Workflow, value: Any, *, id: str | None, with_parent: bool, **options: Any
    ) -> Handle:
        """Start a child from a plain function, on a thread."""
        if threading.get_ident() == self._thread:
            raise InvalidOption(
                f"{parent.component!r} runs in the event loop, which start_child() blocks: await astart_child() in "
                "a coroutine function, or let the component run on a thread (executor='thread')"
            )
        made = self._in_loop(self._start(parent, workflow, value, id, with_parent, options))

        def wait(work: Coroutine[Any, Any, Any]) -> Any:
            is_step = announced() is parent  # other code waits for itself, and has no place to lend
            return self._in_loop(self._aside_step(parent, work) if is_step else work, work).result()

        has, ref = made.result()
        return Handle(has, ref, wait)

    async def astart(
        self, parent: Runnable, workflow: Workflow, value: Any, *, id: str | None, with_parent: bool, **options: Any
    ) -> AsyncHandle:
        """Start a child from a coroutine function, in whatever loop that runs."""
        starting = self._start(parent, workflow, value, id, with_parent, options)
        if asyncio.get_running_loop() is self._loop:
            has, ref = await starting
            return AsyncHandle(has, ref, lambda work: self._aside(parent, work))
        has, ref = await asyncio.wrap_future(self._in_loop(starting))
        return AsyncHandle(has, ref, lambda work: asyncio.wrap_future(self._in_loop(self._aside(parent, work), work)))

    def _in_loop(self, work: Coroutine[Any, Any, T], inner: Coroutine[Any, Any, Any] | None = None) -> Any:
        if self._loop.is_closed():
            work.close()
            if inner is not None:
                inner.close()
            raise RunnerClosed
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _start(
        self,
        parent: Runnable,
        workflow: Workflow,
        value: Any,
        id: str | None,
        with_parent: bool,
        options: dict[str, Any],
    ) -> tuple[Any, RunRef]:
        """Record the child in the log of its parent, create it, and return it and the runner or client that has it."""
        worker, inflight = self._in_flight(parent)
        _check(workflow, value, with_parent=with_parent)
        others = None if id is None else self._other_databases
        if others is not None and not await others.is_needed():
            others = None
        asked = dict(options)
        if not worker.options.checkpoints.at_idle:  # its parent may be written when it is not
            options.setdefault("checkpoint", on_complete)
        told, given = self._given(options, worker.options)
        known = worker.run.memory.children or {}
        child = _name(parent, inflight, workflow, known) if id is None else id
        check_text("id", child)
        if child == worker.id:
            raise InvalidOption(f"id={child!r}: a run cannot be its own child")
        await self._note(worker, parent, child, with_parent=with_parent)
        self._in_flight(parent)
        if others is not None:
            return await others.start(workflow, value, child, asked)
        made = await self._creator.start(child, workflow, told, StartRequest(value, **given))
        return self._runner, RunRef(child, None if value is MISSING else 1, made)

    async def _note(self, worker: Worker, parent: Runnable, child: str, *, with_parent: bool) -> None:
        memory = worker.run.memory
        known = (memory.children or {}).get(child)
        if known is None:
            known = ev.ChildStarted(len(memory.log) + 1, *parent.key, child, with_parent)
            record(memory, known)
            worker.checkpoint()
        await self._waiters.durable(worker, known.seq)

    def _in_flight(self, parent: Runnable) -> tuple[Worker, InFlight]:
        """
        Return the worker of *parent*, and *parent* in flight.

        Raises:
            NoRun: that attempt is over: it has timed out, or its run was cancelled or stopped.
        """
        worker = self._registry.get(parent.run_id)
        if worker is not None and isinstance(parent, ChainLink) and parent.chain is not None:
            advance(worker, parent.chain.inflight)
        inflight = None if worker is None else worker.queue.by_key.get(parent.key)
        if worker is None or inflight is None or inflight.attempt is None or inflight.attempt.runnable is not parent:
            raise NoRun(f"this attempt of {parent.component!r} is over, and starts no more children")
        return worker, inflight

    # -- waiting ---------------------------------------------------------------------------------

    async def _aside_step(self, parent: Runnable, work: Coroutine[Any, Any, T]) -> T:
        """
        Like :meth:`_aside`, but on the thread of *parent*, which cannot be interrupted after its attempt has ended.

        Raises:
            NoRun: it is over already.
        """
        try:
            self._in_flight(parent)
        except NoRun:
            work.close()
            raise NoRun(f"this attempt of {parent.component!r} is over, and waits for its children no more") from None
        return await self._aside(parent, work)

    async def _aside(self, parent: Runnable, work: Awaitable[T]) -> T:
        """Await *work* on behalf of *parent*, which lends its slot meanwhile."""
        try:
            worker, inflight = self._in_flight(parent)
        except NoRun:  # the handle was passed on to other code, which has no place to lend
            return await work
        task = asyncio.current_task()
        if task is not None and inflight.executor != "async":
            inflight.arm(task)  # a thread that waits is woken when its attempt is given up
        ticket = worker.dispatcher.lend(inflight)
        try:
            return await work
        finally:
            worker.dispatcher.reclaim(inflight, ticket)
            inflight.forget(task)

    # -- cancelling ------------------------------------------------------------------------------

    async def cancel_children(self, parent: Worker) -> None:
        """
        Cancel the children that are cancelled with *parent*, and their children; what is undone is not waited for.

        One that another process drives is sent a message.

        Raises:
            RunOwned: that is so, and the store takes no messages; all others are cancelled.
            RunnerClosed: the runner was closed meanwhile; cancelling continues when the run is resumed.
        """
        if parent.orphans:
            task = self._cancelling.get(parent.id)
            if task is None or task.done():
                task = self._cancelling[parent.id] = self._loop.create_task(self._cancel_all(parent))
                task.add_done_callback(partial(self._ended, parent.id))
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:  # the caller does not wait for the end
                task.add_done_callback(_report)
                raise
            if task.cancelled():
                raise RunnerClosed
            task.result()
            if parent.orphans and not parent.has_told_children:  # another caller has chosen otherwise meanwhile
                await self.cancel_children(parent)

    def _ended(self, parent: str, task: asyncio.Task[None]) -> None:
        if self._cancelling.get(parent) is task:
            del self._cancelling[parent]

    def orphaned(self, parent: Worker) -> None:
        """A cancelled *parent* was brought back, or is undone itself: see how far its children are."""
        task = self._loop.create_task(self.cancel_children(parent))
        task.add_done_callback(_report)

    async def _cancel_all(self, parent: Worker) -> None:
        """
        Cancel all descendants, one by one, since they may form a cycle; then store their status, last one first.

        A run whose children are being undone gets its status when they have theirs.
        """
        await self._waiters.durable(parent, len(parent.run.memory.log))
        undo, undoing = parent.run.memory.undo is not None, dict[str, None]()
        family: dict[str, tuple[str, ...]] = {parent.id: parent.orphans}
        line, failed = deque((child, parent.id) for child in parent.orphans), dict[str, Exception]()
        while line:
            child, whose = line.popleft()
            if child not in family and child not in failed:
                try:
                    told = await self._cancel(child, f"its parent {whose!r} was cancelled", undo=undo)
                    family[child] = told.orphans
                    line.extend((orphan, child) for orphan in told.orphans)
                    if not told.is_undone:
                        undoing[child] = None
                except Exception as error:  # noqa: BLE001 - one that cannot be cancelled must not save the others
                    failed[child] = error
        parent.has_told_children = not failed and undo == (parent.run.memory.undo is not None)
        if parent.state == "parked":  # it is stored as that from now on
            parent.checkpoint()
        unfinished = {*failed, *undoing}
        for run, orphans in reversed(family.items()):
            if unfinished.isdisjoint(orphans):
                await self._finish(run, orphans)
            else:
                unfinished.add(run)
        if undoing:
            self._await_undone(parent.id, undoing)
        for why in failed.values():
            why.add_note(f"run {parent.id!r} is cancelled, and so are all that go with it and can be; try again later")
            raise why

    def _await_undone(self, parent: str, children: Iterable[str]) -> None:
        """Look at *parent* again when *children*, of it or of its children, are undone."""
        if parent not in self._awaiting:
            task = self._awaiting[parent] = self._loop.create_task(self._undone(parent, tuple(children)))
            task.add_done_callback(_report)

    async def _undone(self, parent: str, children: Iterable[str]) -> None:
        try:
            for child in children:
                if child in self._elsewhere and self._other_databases is not None:
                    await self._other_databases.until_finished(child)
                else:
                    await self._until_finished(child)
                self._written_to.pop(child, None)
                self._elsewhere.pop(child, None)
        except RunnerClosed:  # this continues when the parent is resumed
            return
        finally:
            del self._awaiting[parent]
        worker = self._registry.get(parent)
        if worker is not None and worker.accepts:
            await self.cancel_children(worker)

    async def _cancel(self, child: str, reason: str, *, undo: bool) -> _Told:
        """Cancel *child*, and return those of its children that are cancelled with it."""
        try:
            told = await self._loader.visit(child, partial(self._cancelled, reason, undo=undo))
        except RunNotFound:
            return _Told((), is_undone=not await self._cancel_elsewhere(child, reason, undo=undo))
        except RunOwned:
            if not self._mailbox.is_there:
                raise
            if self._written_to.get(child) != undo:
                await self._mailbox.post(child, "cancel", ev.RunCancelled(0, reason, undo=undo))
                self._written_to[child] = undo
            return _Told((), is_undone=False)  # its process cancels its children
        if not told.is_undone and not told.is_here:
            try:
                await self._loader.resume(child, None, RunOptions())
            except WeftError as error:
                _log.error("run %r was cancelled with its parent, and cannot be undone here: %s", child, error)
        return told

    async def _cancel_elsewhere(self, child: str, reason: str, *, undo: bool) -> bool:
        """Cancel *child*, which is not in the store of its parent; return whether it is still to be undone."""
        if self._other_databases is None:
            _log.debug("run %r was never started, or is deleted", child)
            return False
        if self._elsewhere.get(child) != undo:
            if not await self._other_databases.cancel(child, reason, undo=undo):
                return False
            self._elsewhere[child] = undo
        return True

    async def _cancelled(self, reason: str, worker: Worker, *, undo: bool = True) -> _Told:
        is_here = self._registry.get(worker.id) is worker
        if worker.state not in ("completed", "failed"):
            if not is_here and undo:
                worker.stop()  # it only writes
            worker.cancel(reason, undo=undo)
        worker.checkpoint()  # it may have finished, and not be written
        await self._waiters.durable(worker, len(worker.run.memory.log))
        return _Told(worker.orphans, is_undone=worker.state in FINISHED, is_here=is_here)

    async def _finish(self, run: str, orphans: tuple[str, ...]) -> None:
        """Store the status *cancelled* of *run*, now that its *orphans* are cancelled."""
        if orphans:
            await self._loader.visit(run, self._finished)

    async def _finished(self, worker: Worker) -> None:
        worker.orphans = ()
        worker.checkpoint()
        if worker.state == "cancelled":  # else it is undone itself
            await self._waiters.stored(worker, "cancelled")


_LONGEST = 255
"""How many characters the id of a child has at most, unless its parent has given it one."""
_LEGIBLE = 40
"""How many characters of a name stand in an id that was too long."""


def _name(parent: Runnable, inflight: InFlight, workflow: Workflow, known: Container[str]) -> str:
    """
    Return the id of the next child of this attempt: the same one at every attempt.

    If it would be too long, because its parent is a child itself, it consists of the key of the first run and a hash of
    the path from there.  A child that is *known* by a longer id, from before ids were limited, keeps that id.
    """
    if inflight.children is None:
        inflight.children = {}
    number = inflight.children[workflow.name] = inflight.children.get(workflow.name, 0) + 1
    again = "" if number == 1 else f"-{number}"
    key = parent.lineage.idempotency_key(parent.run_id, *parent.key)
    whole = f"{parent.run_id}/{parent.component}/{key[:16]}/{workflow.name}{again}"
    if len(whole) <= _LONGEST or whole in known:
        return whole
    component, name = parent.component[:_LEGIBLE], workflow.name[:_LEGIBLE]
    return f"{key_of(parent.run_id)}/~{digest(b'child', whole.encode()).hex()}/{component}/{name}{again}"


def _check(workflow: object, value: Any, *, with_parent: object) -> None:
    """Refuse a child that could not be started, before the log names it."""
    if not isinstance(workflow, Workflow):
        raise InvalidOption(f"start_child({workflow!r:.60}): a child is started of a Workflow")
    if not isinstance(with_parent, bool):
        raise InvalidOption(f"cancel_with_parent={with_parent!r:.60}: use True or False")
    if value is not MISSING:
        check_encodable(value, "INPUT")


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("children of a cancelled run could not be cancelled: %s", error)
