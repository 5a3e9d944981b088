"""
A runner for tests: the same code as in production, on virtual time.

    >>> from weft import Workflow, sleep, step
    >>> remind = Workflow("remind", step(lambda x: x, name="ask") >> sleep(days=30) >> step(str, name="nag"))
    >>> with TestRunner() as runner:
    ...     handle = runner.start(remind, 5)
    ...     runner.status(handle)
    ...     runner.advance(days=30)
    ...     handle.result()
    'waiting'
    '5'

Every call returns when nothing more can happen without time passing, and only :meth:`TestRunner.advance` lets time
pass.  Plain functions run inline and coroutine functions in the virtual loop, one after the other, so that the same
test takes the same turns every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Self, TypeVar

from weft.errors import InvalidOption, RunnerClosed, Stuck
from weft.executors import InlineExecutor
from weft.local.counters import LocalCounters
from weft.ports.executor import Executor
from weft.ports.store import Store
from weft.runner.blocking import Runner
from weft.runner.waiting.diagnosis import diagnose
from weft.stores import SQLiteStore
from weft.testing.loop import VirtualLoop

T = TypeVar("T")

START: Final = 1_767_225_600.0
"""When virtual time begins: at the beginning of 2026, in UTC."""


class LoopClock:
    """The time of day of a virtual *loop*, which begins at *start*."""

    def __init__(self, loop: VirtualLoop, start: float) -> None:
        self._loop, self._start = loop, start

    def time(self) -> float:
        """Return the virtual time, in seconds since the epoch."""
        return self._start + self._loop.time()

    def sleep(self, seconds: float) -> None:
        """Refuse: a test that blocks would wait for itself."""
        raise RuntimeError(f"sleep({seconds:g}) would block a test on virtual time; call runner.advance()")

    async def asleep(self, seconds: float) -> None:
        """Suspend until the virtual time has advanced by *seconds*."""
        await asyncio.sleep(seconds)


class InlineLoop(VirtualLoop):
    """A virtual loop that calls at once what would run on a thread, such as writing a file: no time passes."""

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override] # noqa: ARG002
        """Call *func* here and now; return a future that is done."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            future.set_exception(error)
        return future


class TestRunner(Runner):
    """A blocking runner on virtual time.  The other options are those of :class:`weft.Runner`."""

    __test__ = False  # pytest collects classes of this name

    def __init__(self, store: Store | None = None, *, start: float = START, **options: Any) -> None:
        """
        Make a runner; ``with`` opens it.

        Args:
            store: a store in memory, to look into or to use again; a new one if not given.
            start: when virtual time begins, in seconds since the epoch.

        Raises:
            InvalidOption: the store has threads, which do not know virtual time.
        """
        if isinstance(store, SQLiteStore | str):
            raise InvalidOption("TestRunner runs on virtual time, which a file does not know; use MemoryStore()")
        self._virtual = self._new_loop()
        inline: Mapping[str, Executor] = {name: InlineExecutor() for name in ("inline", "thread", "process")}
        options = {"blocking_threshold": None, "counters": LocalCounters(), **options}  # they begin again, like time
        options["executors"] = {**inline, **(options.get("executors") or {})}
        super().__init__(store, clock=LoopClock(self._virtual, start), **options)
        self._start = start

    def _new_loop(self) -> VirtualLoop:
        """Return the loop of this runner, at the beginning of its time."""
        return InlineLoop()

    @property
    def now(self) -> float:
        """The virtual time, in seconds since the epoch."""
        return self._start + self._virtual.time()

    def open(self) -> Self:
        """Get ready."""
        if self._loop is None:
            self._loop = self._virtual
            self._do(self._inner.open())
        return self

    def close(self, *, grace: float | None = None) -> None:
        """Write everything, release all runs, and end the loop; steps in flight get no time, since none passes."""
        if self._loop is None:
            return
        try:
            self._do(self._inner.close(grace=0.0 if grace is None else grace))
        finally:
            self._loop = None
            self._virtual.kill()

    def advance(self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0) -> None:
        """Let time pass: everything that becomes due happens, in its order and at its time."""
        self._check_open()
        until = self._virtual.time() + seconds + 60 * minutes + 3600 * hours + 86400 * days
        self._run(self._virtual.quiet())
        while (due := self._virtual.next_timer()) is not None and due <= until:
            self._virtual.advance(max(0.0, due - self._virtual.time()))
            self._run(self._virtual.quiet())
        self._virtual.advance(max(0.0, until - self._virtual.time()))
        self._run(self._virtual.quiet())

    # --------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._loop is None:
            raise RunnerClosed

    def _check_thread(self) -> None:
        """Nothing to check: there is no other thread."""

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """
        Run *work*, and everything else that can happen without time passing.

        Raises:
            Stuck: the work can only end with time.
        """
        if self._loop is None:
            work.close()
            raise RunnerClosed
        return self._run(self._finished(work))

    async def _finished(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        await self._quiet()
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            raise Stuck(
                f"this can only end with time, or with a signal: {self._waiting_for()}", "call advance() or signal()"
            )
        return task.result()

    async def _quiet(self) -> None:
        """Wait until nothing more can happen without time passing."""
        await self._virtual.quiet()

    def _waiting_for(self) -> str:
        """Return what the runs wait for."""
        registry = self._inner._runtime.registry  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - a test may look inside
        told = [f"run {worker.id!r} is {worker.state}: {diagnose(worker)}" for worker in registry]
        return "; ".join(told[:3]) or "no run is in memory"

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        self._virtual.turns = 0
        return self._virtual.run_until_complete(work)
