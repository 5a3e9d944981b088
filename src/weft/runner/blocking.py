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
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from types import ModuleType, TracebackType
from typing import Any, Self, TypeVar

from weft.core.events import AnyEvent
from weft.core.functions.references import MISSING
from weft.core.run.run import Run
from weft.core.workflow import Workflow
from weft.errors import Interrupted, RunnerClosed
from weft.ports.store import RunRecord, Store
from weft.runner import termination
from weft.runner.handle import Handle, Handles
from weft.runner.runner import AsyncRunner
from weft.typing import PoliciesMode

T = TypeVar("T")

LAST_WORDS = 1.0
"""For how many seconds what is still in the loop of a closed runner may tidy up."""

_log = logging.getLogger("weft.runner")


class Runner:
    """Runs workflows on a background thread.  The arguments are those of :class:`AsyncRunner`."""

    def __init__(self, store: Store | None = None, **options: Any) -> None:
        self._inner = AsyncRunner(store, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()
        self._door = threading.Lock()
        """Held to open and to close."""
        self._is_closing = False
        """Whether some thread is closing it."""
        self._gate = threading.Lock()
        """Held to hand something to the loop, and to say that it takes nothing more."""

    # -- opening and closing ---------------------------------------------------------------------

    def open(self) -> Self:
        """
        Open the store and get ready.

        Raises:
            StoreError: the store cannot be used.
        """
        self._check_thread()
        with self._door:
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
        with termination.closing(self):
            if self._is_closing:
                with suppress(RunnerClosed):  # the other thread was faster
                    self._close(grace)
            with self._door:
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
        with self._gate:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            self._is_over.set()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            self._thread = None

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking Runner was called from inside its own loop; use AsyncRunner there")

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* in the loop of the runner, and wait for it."""
        future = self._handed(work)
        try:
            return future.result()
        except CancelledError as error:
            if self._loop is None or self._is_over.is_set():  # the runner was closed meanwhile
                raise RunnerClosed from None
            raise Interrupted from error
        except BaseException:
            future.cancel()
            raise

    def _handed(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._gate:
            thread = self._thread
            is_here = thread is not None and thread.is_alive()  # a forked process has no such thread
            if self._loop is not None and is_here and threading.current_thread() is not thread:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        self._check_thread()
        raise RunnerClosed

    # -- the same methods ------------------------------------------------------------------------

    def start(self, workflow: Workflow, value: Any = MISSING, *, id: str | None = None, **options: Any) -> Handle[Self]:
        """Start a run with *value* as its input; see :meth:`AsyncRunner.start`."""
        return Handle(self, self._do(self._inner.start(workflow, value, id=id, **options)).id)

    def start_many(
        self, workflow: Workflow, inputs: Iterable[Any], *, ids: Iterable[str] | None = None, **options: Any
    ) -> Handles[Self]:
        """Start a run for each of *inputs*, which the calling thread reads; see :meth:`AsyncRunner.start_many`."""
        names = ids if ids is None or isinstance(ids, str) else list(ids)
        return Handles(self, self._do(self._inner.start_many(workflow, list(inputs), ids=names, **options)).ids)

    def start_workflow(self, id: str, workflow: Workflow, **options: Any) -> Handle[Self]:
        """Create a run that has had no input yet; see :meth:`AsyncRunner.start_workflow`."""
        self._do(self._inner.start_workflow(id, workflow, **options))
        return Handle(self, id)

    def register(self, *offered: Workflow | ModuleType | type) -> None:
        """Offer workflows, modules or classes to stored runs; see :meth:`AsyncRunner.register`."""
        self._inner.register(*offered)

    def run(self, id: str, value: Any, **options: Any) -> None:
        """Send the run *id* an input; see :meth:`AsyncRunner.run`."""
        self._do(self._inner.run(id, value, **options))

    def wait(self, id: str, timeout: float | None = None) -> Run:
        """Wait until the run *id* has nothing left to do; see :meth:`AsyncRunner.wait`."""
        return self._do(self._inner.wait(id, timeout))

    def wait_until(self, id: str, predicate: Callable[[Run], bool], timeout: float | None = None) -> Run:
        """Wait until *predicate* holds for the run *id*; it is called in the loop of the runner."""
        return self._do(self._inner.wait_until(id, predicate, timeout))

    def result(self, id: str, timeout: float | None = None) -> Any:
        """Wait until the run *id* has nothing left to do, and return its output."""
        return self._do(self._inner.result(id, timeout))

    def gather(
        self, runs: Iterable[str | Handle[Any]], timeout: float | None = None, *, return_exceptions: bool = False
    ) -> list[Any]:
        """Wait until all of *runs* have had nothing left to do; see :meth:`AsyncRunner.gather`."""
        given = runs if isinstance(runs, str | Handle) else list(runs)
        return self._do(self._inner.gather(given, timeout, return_exceptions=return_exceptions))

    def get_results(self, id: str) -> dict[str, Any]:
        """Return the values that the leaves of the run *id* have produced so far."""
        return self._do(self._inner.get_results(id))

    def get_workflow(self, id: str) -> Run:
        """Return the run *id* as it is now."""
        return self._do(self._inner.get_workflow(id))

    def log(self, id: str) -> list[AnyEvent]:
        """Return everything that has happened in the run *id*."""
        return self._do(self._inner.log(id))

    def status(self, id: str) -> str:
        """Return the state of the run *id*."""
        return self._do(self._inner.status(id))

    def lookup(self, id: str) -> Handle[Self] | None:
        """Return a handle of the run *id*, or None if it is not in this runner."""
        return None if self._do(self._inner.lookup(id)) is None else Handle(self, id)

    def list_workflows(self) -> list[str]:
        """Return the ids of the runs in this runner."""
        return self._do(self._inner.list_workflows())

    def stored(self, **filters: Any) -> list[str]:
        """Return the ids of all runs in the store, oldest first."""
        return self._do(self._inner.stored(**filters))

    def records(self, **filters: Any) -> list[RunRecord]:
        """Return the records of the runs in the store, oldest first."""
        return self._do(self._inner.records(**filters))

    def count(self, **filters: Any) -> int:
        """Return how many runs the store has; see :meth:`AsyncRunner.count`."""
        return self._do(self._inner.count(**filters))

    def delete(self, id: str) -> None:
        """Delete the stored run *id*; see :meth:`AsyncRunner.delete`."""
        self._do(self._inner.delete(id))

    def purge(self, *, before: float, **filters: Any) -> int:
        """Delete closed runs that were last written *before* a time; see :meth:`AsyncRunner.purge`."""
        return self._do(self._inner.purge(before=before, **filters))

    def checkpoint(self, id: str) -> None:
        """Write everything that has happened in the run *id*."""
        self._do(self._inner.checkpoint(id))

    def stop(self, id: str, *, persist: bool = True, grace: float | None = None) -> None:
        """Release the run *id*; see :meth:`AsyncRunner.stop`."""
        self._do(self._inner.stop(id, persist=persist, grace=grace))

    def resume(self, id: str, **options: Any) -> Handle[Self]:
        """Load the stored run *id*, and continue it; see :meth:`AsyncRunner.resume`."""
        self._do(self._inner.resume(id, **options))
        return Handle(self, id)

    def resume_all(self, *, parked: bool = False, **options: Any) -> list[Handle[Self]]:
        """Resume every stored run that has something to do and is free; see :meth:`AsyncRunner.resume_all`."""
        return [Handle(self, handle.id) for handle in self._do(self._inner.resume_all(parked=parked, **options))]

    def cancel(self, id: str, reason: str = "") -> None:
        """Close the run *id*."""
        self._do(self._inner.cancel(id, reason))

    def set_policies(self, id: str, policies: Iterable[Any], *, mode: PoliciesMode = "replace") -> None:
        """Put *policies* in force for the run *id*, from the next decision on."""
        self._do(self._inner.set_policies(id, policies, mode=mode))

    def preview(self, id: str, policies: Iterable[Any], *, mode: PoliciesMode = "replace") -> list[Any]:
        """Return what ``set_policies`` would change for pending work of the run *id*."""
        return self._do(self._inner.preview(id, policies, mode=mode))

    def retry(self, id: str, which: object = None, *, policy: Any = None, input: Any = MISSING) -> None:  # noqa: A002
        """Retry dead letters of the run *id*."""
        self._do(self._inner.retry(id, which, policy=policy, input=input))

    def discard(self, id: str, which: object = None) -> None:
        """Discard dead letters of the run *id*."""
        self._do(self._inner.discard(id, which))


def _live(loop: asyncio.AbstractEventLoop, is_over: threading.Event) -> None:
    """Run the event loop of a runner on this thread, until the loop is stopped."""
    asyncio.set_event_loop(loop)
    try:
        while not is_over.is_set():
            try:
                loop.run_forever()
            except (KeyboardInterrupt, SystemExit):  # no person's: those come to the main thread
                _log.exception("something in the loop of a runner wants to end the program; the runner goes on")
        loop.run_until_complete(_last_words())
    finally:
        loop.close()


async def _last_words() -> None:
    """Cancel the remaining tasks of the loop, so that their callers get an error; abandon those that do not end."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=LAST_WORDS)
