"""
The runner for scripts and threads: the methods of :class:`AsyncRunner`, but blocking.

It owns a thread with an event loop, in which an :class:`AsyncRunner` runs.  All methods can be called from any
thread, even inside a running event loop, which they block.

    >>> from weft import Workflow, step
    >>> with Runner() as runner:
    ...     runner.start(Workflow("double", step(lambda x: x * 2, name="double")), 21).result()
    42
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Literal, Self, TypeVar, cast, overload

from weft.core.diff import RunDiff
from weft.core.events import AnyEvent
from weft.core.functions.references import MISSING
from weft.core.functions.reports import Progress
from weft.core.run.preview import Preview
from weft.core.run.run import Run
from weft.core.run.runnable import RunnableRef
from weft.core.workflow import Workflow
from weft.errors import Interrupted, RunnerClosed
from weft.log.redaction import Redact
from weft.ports.clock import Clock
from weft.ports.counters import Counters
from weft.ports.deadlines import Endangered
from weft.ports.executor import Executor
from weft.ports.scheduler import Scheduler
from weft.ports.store import FINISHED, LogStore, RunRecord, RunStatus, Store
from weft.runner import termination
from weft.runner.checkpoints import Checkpoints
from weft.runner.collector import Thresholds
from weft.runner.durability.residency import Evicted
from weft.runner.execution.streams import StreamItem
from weft.runner.handle import Handle, Handles
from weft.runner.option_checks import Time, check_grace
from weft.runner.options import IfExists, OnComplete, Rehydration, WorkerHooks
from weft.runner.registry.bulk_start import checked_inputs
from weft.runner.registry.sleepers import RESIDENT
from weft.runner.runner import AsyncRunner
from weft.runner.schedules.blocking import BlockingScheduleCommands
from weft.runner.schedules.decision import Overlap
from weft.runner.schedules.rows import ScheduleStatus
from weft.typing import In, Out, PoliciesMode

T = TypeVar("T")

CLEANUP_SECONDS = 1.0
"""How many seconds the tasks that are left in the loop of a closed runner get for cleanup."""

_log = logging.getLogger("weft.runner")


class Runner(BlockingScheduleCommands):
    """Runs workflows on a background thread.  The arguments are those of :class:`AsyncRunner`."""

    def __init__(
        self,
        store: Store | str | Path | None = None,
        *,
        executor: str = "thread",
        max_concurrency: int = 16,
        checkpoint: str | Checkpoints = "every_cycle",
        context: Mapping[str, Any] | None = None,
        grace: float = 10.0,
        threads: int | None = None,
        processes: int | None = None,
        executors: Mapping[str, Executor] | None = None,
        clock: Clock | None = None,
        counters: Counters | None = None,
        modules: Iterable[ModuleType] = (),
        collector: Literal["auto", "unchanged", "seldom"] | Thresholds = "auto",
        blocking_threshold: float | None = 0.5,
        check_arguments: bool = False,
        resident: int = RESIDENT,
        memory_budget: int | str | None = None,
        snapshot_every: int | None = None,
        continue_after: int | None = None,
        keep_values_for: float | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        self._inner = AsyncRunner(
            store,
            executor=executor,
            max_concurrency=max_concurrency,
            checkpoint=checkpoint,
            context=context,
            grace=grace,
            threads=threads,
            processes=processes,
            executors=executors,
            clock=clock,
            counters=counters,
            modules=modules,
            collector=collector,
            blocking_threshold=blocking_threshold,
            check_arguments=check_arguments,
            resident=resident,
            memory_budget=memory_budget,
            snapshot_every=snapshot_every,
            continue_after=continue_after,
            keep_values_for=keep_values_for,
            scheduler=scheduler,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()
        self._opening = threading.Lock()
        """Held while it is opened or closed."""
        self._is_closing = False
        """Whether some thread is closing it."""
        self._handing_over = threading.Lock()
        """Held while something is handed to the loop, and while the loop is closed for that."""

    # -- opening and closing ---------------------------------------------------------------------

    def open(self) -> Self:
        """
        Open the store and get ready.

        Raises:
            StoreError: the store cannot be used.
        """
        self._check_thread()
        with self._opening:
            if self._loop is None:
                loop, self._is_over = asyncio.new_event_loop(), threading.Event()
                self._thread = threading.Thread(
                    target=_live, args=(loop, self._is_over), name="weft-runner", daemon=True
                )
                self._thread.start()
                self._loop = loop
                try:
                    self._do(self._inner.open())
                except BaseException:
                    try:
                        self._do(self._inner.close(grace=0.0))  # it may be open, or about to be
                    finally:
                        self._end()
                    raise
        termination.watch(self)
        return self

    def close(self, *, grace: float | None = None) -> None:
        """
        Start nothing more, let steps in flight end, write everything, and release all runs.

        A second caller joins the first; the shorter *grace* applies to both.  Callers that wait for something else get
        ``RunnerClosed``.  A Ctrl-C ends the grace time: steps in flight are abandoned, and everything is still written.

        Raises:
            UnwrittenEvents: the store stayed unavailable; the runner is closed nevertheless.
        """
        self._check_thread()
        if grace is not None:
            check_grace(grace)
        with termination.closing(self):
            if self._is_closing:
                with suppress(RunnerClosed):  # the other thread was faster
                    self._close(grace)
            with self._opening:
                if self._loop is None:
                    return
                self._is_closing = True
                try:
                    self._close(grace)
                finally:
                    self._end()
                    self._is_closing = False

    def _close(self, grace: float | None) -> None:
        try:
            self._do(self._inner.close(grace=grace))
        except KeyboardInterrupt:  # the caller is impatient, and still wants everything written
            self._do(self._inner.close(grace=0.0))
            raise

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end(self) -> None:
        with self._handing_over:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            self._is_over.set()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            self._thread = None

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a blocking Runner was called from inside its own loop, by a hook or a coroutine step, and would wait "
                "for itself: call it on another thread, as on_complete= does, or use AsyncRunner"
            )

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* in the event loop of the runner, and wait for it."""
        future = self._handed(work)
        try:
            return termination.result_of(future)
        except CancelledError as error:
            if self._loop is None or self._is_over.is_set():  # the runner was closed meanwhile
                raise RunnerClosed(again=True) from None
            raise Interrupted from error
        except BaseException:
            future.cancel()
            raise

    def _handed(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._handing_over:
            thread = self._thread
            is_here = thread is not None and thread.is_alive()  # a forked process has no such thread
            if self._loop is not None and is_here and threading.current_thread() is not thread:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        self._check_thread()
        raise RunnerClosed(again=self._is_over.is_set(), blocking=True)

    @property
    def store(self) -> LogStore:
        """The store that it reads and writes; its methods belong to the event loop of this runner."""
        return self._inner.store

    @property
    def _schedule_commands(self) -> AsyncRunner:
        return self._inner

    # -- the same methods ------------------------------------------------------------------------

    def start(
        self,
        workflow: Workflow[In, Out],
        input: In = MISSING,  # noqa: A002 - what one would say
        *,
        id: str | None = None,
        open: bool = False,  # noqa: A002 - what one would say
        if_exists: IfExists = "same",
        unique: str | None = None,
        portable: bool = False,
        max_concurrency: int | None = None,
        checkpoint: str | Checkpoints | None = None,
        snapshot_every: int | None = None,
        continue_after: int | None = None,
        keep_values_for: float | None = None,
        executor: str | None = None,
        context: Mapping[str, Any] | None = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        deadline: float | None = None,
        on_complete: OnComplete | None = None,
        on_complete_args: tuple[Any, ...] | None = None,
        hooks: WorkerHooks | None = None,
        by: str | None = None,
    ) -> Handle[Out]:
        """Start a run of *workflow*; see :meth:`AsyncRunner.start`."""
        started = self._do(
            self._inner.start(
                workflow,
                input,
                id=id,
                open=open,
                if_exists=if_exists,
                unique=unique,
                portable=portable,
                max_concurrency=max_concurrency,
                checkpoint=checkpoint,
                snapshot_every=snapshot_every,
                continue_after=continue_after,
                keep_values_for=keep_values_for,
                executor=executor,
                context=context,
                policies=policies,
                policies_mode=policies_mode,
                deadline=deadline,
                on_complete=on_complete,
                on_complete_args=on_complete_args,
                hooks=hooks,
                by=by,
            )
        )
        return Handle(self, started.ref)

    def start_many(
        self,
        workflow: Workflow[In, Out],
        inputs: Iterable[In],
        *,
        ids: Iterable[str] | None = None,
        open: bool = False,  # noqa: A002 - what one would say
        if_exists: IfExists = "same",
        unique: Iterable[str] | None = None,
        portable: bool = False,
        max_concurrency: int | None = None,
        checkpoint: str | Checkpoints | None = None,
        snapshot_every: int | None = None,
        keep_values_for: float | None = None,
        executor: str | None = None,
        context: Mapping[str, Any] | None = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        deadline: float | None = None,
        on_complete: OnComplete | None = None,
        on_complete_args: tuple[Any, ...] | None = None,
        hooks: WorkerHooks | None = None,
        by: str | None = None,
    ) -> Handles[Out]:
        """Start a run for each of *inputs*, which the calling thread reads; see :meth:`AsyncRunner.start_many`."""
        started = self._do(
            self._inner.start_many(
                workflow,
                list(checked_inputs(inputs)),
                ids=ids if ids is None or isinstance(ids, str) else list(ids),
                open=open,
                if_exists=if_exists,
                unique=unique,
                portable=portable,
                max_concurrency=max_concurrency,
                checkpoint=checkpoint,
                snapshot_every=snapshot_every,
                keep_values_for=keep_values_for,
                executor=executor,
                context=context,
                policies=policies,
                policies_mode=policies_mode,
                deadline=deadline,
                on_complete=on_complete,
                on_complete_args=on_complete_args,
                hooks=hooks,
                by=by,
            )
        )
        return Handles(self, started.refs)

    def register(
        self,
        *offered: Workflow | ModuleType | type,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
    ) -> None:
        """Offer workflows, modules or classes to stored runs; see :meth:`AsyncRunner.register`."""
        self._inner.register(*offered, encode=encode, decode=decode)

    def schedule(
        self,
        name: str,
        workflow: Workflow[Any, Any],
        *,
        cron: str | None = None,
        timezone: str = "UTC",
        every: float | timedelta | None = None,
        at: Time | None = None,
        input: Any = MISSING,  # noqa: A002 - what one would say
        jitter: float = 0.0,
        catch_up: int = 1,
        tolerance: float = 60.0,
        overlap: Overlap = "skip",
    ) -> ScheduleStatus:
        """Start a run of *workflow* at each time that a rule names; see :meth:`AsyncRunner.schedule`."""
        return self._do(
            self._inner.schedule(
                name,
                workflow,
                cron=cron,
                timezone=timezone,
                every=every,
                at=at,
                input=input,
                jitter=jitter,
                catch_up=catch_up,
                tolerance=tolerance,
                overlap=overlap,
            )
        )

    def send(
        self,
        id: str | Handle[Any],
        input: Any,  # noqa: A002 - what one would say
        *,
        key: str | None = None,
        deadline: float | None = None,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        by: str | None = None,
    ) -> Handle:
        """Send the run *id* an input, and return a handle of that input; see :meth:`AsyncRunner.send`."""
        sent = self._do(
            self._inner.send(
                id, input, key=key, deadline=deadline, policies=policies, policies_mode=policies_mode, by=by
            )
        )
        return Handle(self, sent.ref)

    def events(self, run: str | Handle[Any], from_: int = 1) -> Iterator[AnyEvent]:
        """Iterate over the events of *run* as they become durable; see :meth:`AsyncRunner.events`."""
        return self._iterated(self._inner.events(run, from_))

    def stream(self, run: str | Handle[Any], name: str, from_: int = 0) -> Iterator[StreamItem]:
        """Iterate over the items of a stream of *run* as they become durable; see :meth:`AsyncRunner.stream`."""
        return self._iterated(self._inner.stream(run, name, from_))

    def _iterated(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Iterate over *items* in the loop of the runner, one call each."""
        end: Any = object()

        async def following() -> T:
            return await anext(items, end)

        try:
            while (item := self._do(following())) is not end:
                yield item
        finally:
            with suppress(RunnerClosed):
                self._do(_closed(items))

    def progress(self, run: str | Handle[Any]) -> list[Progress]:
        """Return how far the steps of *run* have come; see :meth:`AsyncRunner.progress`."""
        return self._do(self._inner.progress(run))

    def complete(self, token: str, value: Any = None, *, by: str | None = None) -> None:
        """Complete the external step that *token* is for; see :meth:`AsyncRunner.complete`."""
        self._do(self._inner.complete(token, value, by=by))

    def fail(self, token: str, error: BaseException | str, *, by: str | None = None) -> None:
        """Fail the attempt of the external step that *token* is for; see :meth:`AsyncRunner.fail`."""
        self._do(self._inner.fail(token, error, by=by))

    def signal(
        self,
        id: str | Handle[Any],
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
        by: str | None = None,
    ) -> None:
        """Send the run *id* the signal *name*; see :meth:`AsyncRunner.signal`."""
        self._do(self._inner.signal(id, name, value, key=key, by=by))

    def truncate(self, id: str | Handle[Any]) -> int:
        """Remove the events of the run *id* before its last snapshot; see :meth:`AsyncRunner.truncate`."""
        return self._do(self._inner.truncate(id))

    def compact(self, id: str | Handle[Any]) -> int:
        """Store the old events of the run *id* in less space; see :meth:`AsyncRunner.compact`."""
        return self._do(self._inner.compact(id))

    def continue_as_new(self, id: str | Handle[Any], new_id: str | None = None, *, by: str | None = None) -> Handle:
        """Start another run from the state of the run *id*; see :meth:`AsyncRunner.continue_as_new`."""
        return Handle(self, self._do(self._inner.continue_as_new(id, new_id, by=by)).ref)

    def finish(self, id: str | Handle[Any], *, by: str | None = None) -> None:
        """Let the run *id* accept no more input, and finish; see :meth:`AsyncRunner.finish`."""
        self._do(self._inner.finish(id, by=by))

    def wait(self, run: str | Handle[Out], timeout: float | None = None) -> Run[Out]:
        """Wait until *run*, an id or a handle, has nothing left to do; see :meth:`AsyncRunner.wait`."""
        return self._do(self._inner.wait(run, timeout))

    def wait_until(
        self, run: str | Handle[Out], predicate: Callable[[Run[Out]], bool], timeout: float | None = None
    ) -> Run[Out]:
        """Wait until *predicate* holds for *run*; it is called in the loop of the runner."""
        return self._do(self._inner.wait_until(run, predicate, timeout))

    def result(self, run: str | Handle[Out], timeout: float | None = None) -> Out:
        """Wait until *run* has nothing left to do, and return its output; see :meth:`AsyncRunner.result`."""
        return self._do(self._inner.result(run, timeout))

    @overload
    def gather(
        self,
        runs: Iterable[str | Handle[Out]],
        timeout: float | None = None,
        *,
        return_exceptions: Literal[False] = False,
    ) -> list[Out]: ...
    @overload
    def gather(
        self, runs: Iterable[str | Handle[Out]], timeout: float | None = None, *, return_exceptions: bool
    ) -> list[Out | Exception]: ...
    def gather(
        self, runs: Iterable[str | Handle[Any]], timeout: float | None = None, *, return_exceptions: bool = False
    ) -> list[Any]:
        """Wait until all of *runs* have had nothing left to do; see :meth:`AsyncRunner.gather`."""
        is_read = isinstance(runs, str | Handle | Handles)
        given = cast("Iterable[str | Handle[Any]]", runs if is_read or not hasattr(runs, "__iter__") else list(runs))
        return self._do(self._inner.gather(given, timeout, return_exceptions=return_exceptions))

    def results(self, run: str | Handle[Any]) -> dict[str, Any]:
        """Return the latest values that the leaves of *run* have produced; see :meth:`AsyncRunner.results`."""
        return self._do(self._inner.results(run))

    def get(self, run: str | Handle[Out]) -> Run[Out]:
        """Return *run*, an id or a handle, as it is now."""
        return self._do(self._inner.get(run))

    def log(self, run: str | Handle[Any]) -> list[AnyEvent]:
        """Return everything that has happened in *run*, an id or a handle."""
        return self._do(self._inner.log(run))

    def unread(self, run: str | Handle[Any]) -> list[AnyEvent]:
        """Return the messages in the inbox of *run*, an id or a handle, that it has not taken in, in order."""
        return self._do(self._inner.unread(run))

    def status(self, run: str | Handle[Any]) -> RunStatus:
        """Return the status of *run*, an id or a handle."""
        return self._do(self._inner.status(run))

    def __contains__(self, id: object) -> bool:
        return id in self._inner

    @property
    def held(self) -> list[str]:
        """The ids of the runs that this runner drives."""
        return self._inner.held

    def find(self, id: str) -> RunRecord:
        """Return the record of the run *id*; see :meth:`AsyncRunner.find`."""
        return self._do(self._inner.find(id))

    def runs(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: Time | None = None,
        limit: int = 100,
        after: RunRecord | None = None,
    ) -> list[RunRecord]:
        """Return the records of stored runs, newest first; see :meth:`AsyncRunner.runs`."""
        return self._do(
            self._inner.runs(status=status, workflow=workflow, failed=failed, since=since, limit=limit, after=after)
        )

    def waiting_runs(
        self,
        *,
        workflow: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int = 100,
        after: RunRecord | None = None,
    ) -> list[RunRecord]:
        """Return the records of waiting runs, the next one to be woken first; see :meth:`AsyncRunner.waiting_runs`."""
        return self._do(self._inner.waiting_runs(workflow=workflow, since=since, until=until, limit=limit, after=after))

    def tally(self) -> dict[tuple[str, RunStatus], int]:
        """Return how many runs are stored, by workflow and status; see :meth:`AsyncRunner.tally`."""
        return self._do(self._inner.tally())

    def count_versions(self, workflow: str) -> dict[str, int]:
        """Return how many runs of a workflow are stored, by version; see :meth:`AsyncRunner.count_versions`."""
        return self._do(self._inner.count_versions(workflow))

    def endangered(self, *, limit: int = 100) -> list[Endangered]:
        """Return the runs whose deadline is in danger or past; see :meth:`AsyncRunner.endangered`."""
        return self._do(self._inner.endangered(limit=limit))

    def histogram(self, *, since: Time, width: float, workflow: str | None = None) -> dict[tuple[int, RunStatus], int]:
        """Return how many runs were created when; see :meth:`AsyncRunner.histogram`."""
        return self._do(self._inner.histogram(since=since, width=width, workflow=workflow))

    def count(
        self,
        *,
        status: RunStatus | Collection[RunStatus] | None = None,
        workflow: str | None = None,
        failed: bool | None = None,
        since: Time | None = None,
    ) -> int:
        """Return how many runs the store has; see :meth:`AsyncRunner.count`."""
        return self._do(self._inner.count(status=status, workflow=workflow, failed=failed, since=since))

    def delete(self, id: str | Handle[Any]) -> None:
        """Delete the stored run *id*; see :meth:`AsyncRunner.delete`."""
        self._do(self._inner.delete(id))

    def purge(
        self,
        *,
        before: Time,
        statuses: RunStatus | Collection[RunStatus] = FINISHED,
        limit: int | None = None,
    ) -> int:
        """Delete closed runs that were last written *before* a time; see :meth:`AsyncRunner.purge`."""
        return self._do(self._inner.purge(before=before, statuses=statuses, limit=limit))

    def checkpoint(self, id: str | Handle[Any]) -> None:
        """Write everything that has happened in the run *id*."""
        self._do(self._inner.checkpoint(id))

    def stop(self, id: str | Handle[Any], *, persist: bool = True, grace: float | None = None) -> None:
        """Release the run *id*; see :meth:`AsyncRunner.stop`."""
        self._do(self._inner.stop(id, persist=persist, grace=grace))

    def resume(
        self,
        id: str | Handle[Any],
        *,
        workflow: Workflow | None = None,
        strict: bool = False,
        rehydration: Rehydration | None = None,
        max_concurrency: int | None = None,
        checkpoint: str | Checkpoints | None = None,
        snapshot_every: int | None = None,
        keep_values_for: float | None = None,
        executor: str | None = None,
        context: Mapping[str, Any] | None = None,
        on_complete: OnComplete | None = None,
        on_complete_args: tuple[Any, ...] | None = None,
        hooks: WorkerHooks | None = None,
    ) -> Handle:
        """Load the stored run *id*, and continue it; see :meth:`AsyncRunner.resume`."""
        resumed = self._do(
            self._inner.resume(
                id,
                workflow=workflow,
                strict=strict,
                rehydration=rehydration,
                max_concurrency=max_concurrency,
                checkpoint=checkpoint,
                snapshot_every=snapshot_every,
                keep_values_for=keep_values_for,
                executor=executor,
                context=context,
                on_complete=on_complete,
                on_complete_args=on_complete_args,
                hooks=hooks,
            )
        )
        return Handle(self, resumed.ref)

    def resume_all(
        self,
        *,
        parked: bool = False,
        max_concurrency: int | None = None,
        checkpoint: str | Checkpoints | None = None,
        snapshot_every: int | None = None,
        keep_values_for: float | None = None,
        executor: str | None = None,
        context: Mapping[str, Any] | None = None,
        on_complete: OnComplete | None = None,
        on_complete_args: tuple[Any, ...] | None = None,
        hooks: WorkerHooks | None = None,
    ) -> list[Handle]:
        """Resume every stored run that has something to do and is free; see :meth:`AsyncRunner.resume_all`."""
        resumed = self._do(
            self._inner.resume_all(
                parked=parked,
                max_concurrency=max_concurrency,
                checkpoint=checkpoint,
                snapshot_every=snapshot_every,
                keep_values_for=keep_values_for,
                executor=executor,
                context=context,
                on_complete=on_complete,
                on_complete_args=on_complete_args,
                hooks=hooks,
            )
        )
        return [Handle(self, handle.ref) for handle in resumed]

    def evict(self, id: str | Handle[Any] | None = None) -> Evicted:
        """Let the values that nothing needs leave memory; see :meth:`AsyncRunner.evict`."""
        return self._do(self._inner.evict(id))

    def cancel(
        self,
        id: str | Handle[Any],
        reason: str = "",
        *,
        component: str | RunnableRef | None = None,
        undo: bool = True,
        by: str | None = None,
    ) -> None:
        """Close the run *id*, and undo what it has done, or cancel one component; see :meth:`AsyncRunner.cancel`."""
        self._do(self._inner.cancel(id, reason, component=component, undo=undo, by=by))

    def set_policies(
        self, id: str | Handle[Any], policies: Iterable[Any], *, mode: PoliciesMode = "replace", by: str | None = None
    ) -> None:
        """Put *policies* in force for the run *id*, from the next decision on."""
        self._do(self._inner.set_policies(id, policies, mode=mode, by=by))

    def add(self, id: str | Handle[Any], fragment: object, *, to: object = None, by: str | None = None) -> None:
        """Add to the workflow of the run *id* alone; see :meth:`AsyncRunner.add`."""
        self._do(self._inner.add(id, fragment, to=to, by=by))

    def remove(self, id: str | Handle[Any], which: object, *, by: str | None = None) -> None:
        """Remove a component from the workflow of the run *id* alone; see :meth:`AsyncRunner.remove`."""
        self._do(self._inner.remove(id, which, by=by))

    def preview(self, id: str | Handle[Any], policies: Iterable[Any], *, mode: PoliciesMode = "replace") -> list[Any]:
        """Return what ``set_policies`` would change for pending work of the run *id*."""
        return self._do(self._inner.preview(id, policies, mode=mode))

    def retry(
        self,
        id: str | Handle[Any],
        which: object = None,
        *,
        policy: Any = None,
        input: Any = MISSING,  # noqa: A002 - what one would say
        context: Mapping[str, Any] | None = None,
        by: str | None = None,
    ) -> Handle:
        """Run again what failed in the run *id*; see :meth:`AsyncRunner.retry`."""
        retried = self._inner.retry(id, which, policy=policy, input=input, context=context, by=by)
        return Handle(self, self._do(retried).ref)

    def discard(
        self,
        id: str | Handle[Any],
        which: object = None,
        *,
        context: Mapping[str, Any] | None = None,
        by: str | None = None,
    ) -> Handle:
        """Discard dead letters of the run *id*; see :meth:`AsyncRunner.discard`."""
        return Handle(self, self._do(self._inner.discard(id, which, context=context, by=by)).ref)

    @overload
    def fork(
        self,
        id: str | Handle[Any],
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        context: Mapping[str, Any] | None = None,
        preview: Literal[False] = False,
        by: str | None = None,
    ) -> Handle: ...
    @overload
    def fork(
        self,
        id: str | Handle[Any],
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        context: Mapping[str, Any] | None = None,
        preview: Literal[True],
        by: str | None = None,
    ) -> Preview: ...
    def fork(
        self,
        id: str | Handle[Any],
        new_id: str | None = None,
        *,
        at: object = None,
        value: Any = MISSING,
        policies: Iterable[Any] | None = None,
        policies_mode: PoliciesMode = "merge",
        context: Mapping[str, Any] | None = None,
        preview: bool = False,
        by: str | None = None,
    ) -> Handle | Preview:
        """Start another run with the history of the run *id* and an edit; see :meth:`AsyncRunner.fork`."""
        if preview:
            return self._do(self._inner.fork(id, at=at, value=value, preview=True))
        forked = self._inner.fork(
            id, new_id, at=at, value=value, policies=policies, policies_mode=policies_mode, context=context, by=by
        )
        return Handle(self, self._do(forked).ref)

    def diff(self, one: str | Handle[Any], other: str | Handle[Any]) -> RunDiff:
        """Return the differences of two runs; see :meth:`AsyncRunner.diff`."""
        return self._do(self._inner.diff(one, other))

    def export(self, id: str | Handle[Any], path: str | Path, *, redact: Redact | None = None) -> None:
        """Write the run *id* to one file; see :meth:`AsyncRunner.export`."""
        self._do(self._inner.export(id, path, redact=redact))

    def import_run(self, path: str | Path, id: str | None = None, *, by: str | None = None) -> Handle:
        """Store the run in the file at *path*; see :meth:`AsyncRunner.import_run`."""
        return Handle(self, self._do(self._inner.import_run(path, id, by=by)).ref)

    @overload
    def upgrade(
        self,
        id: str | Handle[Any],
        workflow: Workflow,
        *,
        again: Collection[object] = (),
        preview: Literal[False] = False,
        by: str | None = None,
    ) -> Handle: ...
    @overload
    def upgrade(
        self,
        id: str | Handle[Any],
        workflow: Workflow,
        *,
        again: Collection[object] = (),
        preview: Literal[True],
        by: str | None = None,
    ) -> Preview: ...
    def upgrade(
        self,
        id: str | Handle[Any],
        workflow: Workflow,
        *,
        again: Collection[object] = (),
        preview: bool = False,
        by: str | None = None,
    ) -> Handle | Preview:
        """Let the run *id* follow another version of its workflow; see :meth:`AsyncRunner.upgrade`."""
        if preview:
            return self._do(self._inner.upgrade(id, workflow, again=again, preview=True))
        return Handle(self, self._do(self._inner.upgrade(id, workflow, again=again, by=by)).ref)


def _live(loop: asyncio.AbstractEventLoop, is_over: threading.Event) -> None:
    """Run the event loop of a runner on this thread, until the loop is stopped."""
    asyncio.set_event_loop(loop)
    try:
        while not is_over.is_set():
            try:
                loop.run_forever()
            except (KeyboardInterrupt, SystemExit):  # no person's: those come to the main thread
                _log.exception("something in the loop of a runner wants to end the program; the runner goes on")
        loop.run_until_complete(_cancel_left_tasks())
    finally:
        loop.close()


async def _closed(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()


async def _cancel_left_tasks() -> None:
    """Cancel the remaining tasks of the loop, so that their callers get an error; abandon those that do not end."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=CLEANUP_SECONDS)
