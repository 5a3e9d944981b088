"""
The concurrent loop: up to *n* runnables at once, applied as each one ends.

One event loop drives all of them: coroutines are tasks in it, plain functions go to a pool of threads if more than
one may run at once, and conditions run inline.  A runnable is dispatched as soon as it is ready: a slow branch
delays only the components that wait for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from types import CoroutineType
from typing import Any, cast

from weft.calling import aexecute, execute, run_blocking
from weft.core.events import AttemptFailed
from weft.core.fold.scope import Activation
from weft.core.plan.node import Kind
from weft.core.run.external import failure_outside
from weft.core.run.run import Run
from weft.core.run.runnable import Outcome, Runnable, bind
from weft.core.run.undoing import end_unstarted
from weft.errors import AlreadyRunning
from weft.local.policies import current_policy, dispatch, note_failed, policies_of, policy_of
from weft.local.policy_driver import PolicyDriver
from weft.local.timers import Timers
from weft.policy.policy import Policy

MOST_TASKS = 256
"""How many coroutines run at once by default."""
MOST_THREADS = 32
"""How many plain functions run in parallel because their policy says so."""
_SLICE = 0.001
"""Seconds for which plain functions run before other tasks of the event loop get a turn."""


def drive_concurrently(run: Run, *, parallel: int | None, checkpoint: Callable[[Run], None] | None) -> None:
    """Run *run* until there is nothing to do, and block until then."""
    run_blocking(_Loop(run, parallel, checkpoint, off_loop=True).go())


async def adrive(
    run: Run,
    *,
    parallel: int | None = None,
    checkpoint: Callable[[Run], None] | None = None,
    raise_on_failure: bool = False,
) -> None:
    """Run *run* in the running event loop until there is nothing to do."""
    since = len(run.memory.log)
    await _Loop(run, parallel, checkpoint).go()
    if raise_on_failure:
        raise_first(run, since)


def raise_first(run: Run, since: int) -> None:
    """Raise the first failure of *run* that was recorded after event *since*, if there is one."""
    failed = [event for event in (run.memory.failures or {}).values() if event.seq > since]
    if failed:
        raise run.failures[min(failed, key=lambda event: event.seq).component]


def enter(run: Run) -> None:
    """Refuse to drive a *run* that is being driven: a step that waits for its own run would wait forever."""
    if run.is_driven:
        raise AlreadyRunning(run.id)
    run.is_driven = True


class _Line:
    """The activations that wait to be started: by priority, then in order of arrival."""

    def __init__(self) -> None:
        self._lines: dict[int, deque[Activation]] = {0: deque()}

    def extend(self, activations: Iterable[Activation], priorities: Mapping[str, int]) -> None:
        """Add *activations*, each with the priority of its component."""
        if not priorities:
            self._lines[0].extend(activations)
            return
        for activation in activations:
            priority = priorities.get(activation.node.name, 0)
            if priority not in self._lines:
                self._lines = dict(sorted({**self._lines, priority: deque[Activation]()}.items(), reverse=True))
            self._lines[priority].append(activation)

    def pop(self) -> Activation:
        """Remove and return the next activation."""
        return next(line for line in self._lines.values() if line).popleft()

    def __bool__(self) -> bool:
        return any(self._lines.values())


class _Loop:
    """One run being driven."""

    def __init__(
        self, run: Run, parallel: int | None, checkpoint: Callable[[Run], None] | None, *, off_loop: bool = False
    ) -> None:
        given: Any = parallel
        if given is not None and (not isinstance(given, int) or given < 1):
            raise ValueError(f"parallel={parallel!r}: use a number of at least 1")
        self.run, self.checkpoint = run, checkpoint
        self.limit = parallel or MOST_TASKS
        self.threads = parallel or 1
        self.off_loop = off_loop
        """Whether plain functions must not see an event loop, since the caller has none."""
        self.waiting = _Line()
        self.places = asyncio.Semaphore(self.threads)
        """Held by plain functions that have to wait for something, where there is no pool of threads."""
        self.pool: ThreadPoolExecutor | None = None
        self.extra_pool: ThreadPoolExecutor | None = None
        self.stop = threading.Event()
        self.ended: deque[Outcome | BaseException] = deque()
        self.in_flight: set[asyncio.Future[Outcome]] = set()
        self.wake = asyncio.Event()
        self.timers: Timers | None = None
        self.alarm: asyncio.Future[float] | None = None
        """Ends when the next timer is due, with how long it slept."""

    async def go(self) -> None:
        """Dispatch and apply until nothing is ready and nothing is in flight."""
        run = self.run
        run.check_context()
        if run.memory.undo is not None:
            end_unstarted(run)
        enter(run)
        run.memory.newly_ready[:] = run.memory.offered()
        if self.threads > 1 or self.off_loop:
            self.pool = ThreadPoolExecutor(self.threads, thread_name_prefix="weft")
        try:
            self._look_at_timers()
            while True:
                self._line_up(run.memory.newly_ready)
                run.memory.newly_ready.clear()
                self._dispatch()
                if not self.ended and not self.in_flight:
                    if not self.waiting:  # waiting activations are offered too, and must not be started twice
                        self._line_up(run.memory.offered())  # a callback may have looked at what became ready
                    if self.waiting:
                        continue
                    if self._pause() is None:
                        return
                if self.waiting and not self.ended and len(self.in_flight) < self.limit:
                    await asyncio.sleep(0)
                    continue
                if not self.ended:
                    self._set_alarm()
                    await self.wake.wait()
                self.wake.clear()
                self._apply()
                self._look_at_timers()
                if self.checkpoint is not None:
                    answer: Any = self.checkpoint(run)
                    if type(answer) is CoroutineType:
                        await cast("Coroutine[Any, Any, Any]", answer)
                await asyncio.sleep(0)  # other tasks of this loop get a turn, however many plain steps there are
        finally:
            run.is_driven = False
            self.stop.set()
            if self.alarm is not None:
                self.alarm.cancel()
            await self._abandon()
            for pool in (self.pool, self.extra_pool):
                if pool is not None:
                    pool.shutdown(wait=True)

    def _look_at_timers(self) -> None:
        """Begin what waits, and end what is due."""
        if self.alarm is not None and self.alarm.done():
            seconds, self.alarm = self.alarm.result(), None
            if self.timers is not None:
                self.timers.slept(seconds)
        if self.run.memory.waiting is not None:
            self.timers = self.timers or Timers(self.run)
            self.timers.look()

    def _pause(self) -> float | None:
        """Return for how long something sleeps; None if nothing does."""
        return None if self.timers is None or self.run.memory.waiting is None else self.timers.pause

    def _set_alarm(self) -> None:
        """Wake the loop when the next timer is due, if something sleeps."""
        pause = self._pause()
        if self.alarm is not None:  # a timer that began since may be due before
            self.alarm.cancel()
            self.alarm = None
        if pause is not None:
            self.alarm = asyncio.ensure_future(self._sleep(pause))
            self.alarm.add_done_callback(self._ring)

    async def _sleep(self, seconds: float) -> float:
        if self.timers is not None:
            await self.timers.clock.asleep(seconds)
        return seconds

    def _ring(self, alarm: asyncio.Future[float]) -> None:
        if not alarm.cancelled():
            self.wake.set()

    def _line_up(self, activations: list[Activation]) -> None:
        if activations:
            policies = policies_of(self.run)
            table = None if policies is None else policies.table(self.run.workflow, self.run.memory.plan)
            self.waiting.extend(activations, table.priorities if table is not None else {})

    def _dispatch(self) -> None:
        """Start waiting activations, up to the limit; those that run inline have ended when this returns."""
        memory = self.run.memory
        until = monotonic() + _SLICE
        while self.waiting and len(self.in_flight) < self.limit and monotonic() < until:
            activation = self.waiting.pop()
            if memory.ready.get(activation.key) is not activation:
                continue
            runnable = bind(activation, memory, self.run.context)
            policy, driver, told = self._policy(activation)
            if policy is not None:
                dispatch(self.run, runnable, policy, told["begun"])
            pool = self._pool_for(activation, policy)
            if activation.node.is_async:
                work = aexecute(runnable) if policy is None else driver.aexecute(runnable, policy, **told)
                self._watch(asyncio.ensure_future(work))
            elif pool is not None:
                context = contextvars.copy_context()
                call = execute
                if policy is not None:
                    told["note"] = self._note_in(asyncio.get_running_loop())
                    call = partial(driver.execute, policy=policy, stop=self.stop, **told)
                self._watch(asyncio.wrap_future(pool.submit(context.run, call, runnable)))
            elif self._perform_here(activation, runnable, policy, driver, told):
                break  # it has begun as a task, which must start before the next one

    def _perform_here(
        self, activation: Activation, runnable: Runnable, policy: Policy | None, driver: Any, told: dict[str, Any]
    ) -> bool:
        """Run a plain function in this loop: at once if it never waits, else as a task; return whether as a task."""
        failed = told.pop("failed", None)
        is_plain = policy is None or (policy.is_reactive and runnable.deadline is None and told["begun"] is None)
        if is_plain and not self.places.locked():
            outcome = execute(runnable)
            if policy is None or outcome.status == "completed":
                self.ended.append(outcome)
                return False
            runnable, failed = bind(activation, self.run.memory, self.run.context), outcome.error
        work = aexecute(runnable) if policy is None else driver.aexecute(runnable, policy, failed=failed, **told)
        self._watch(asyncio.ensure_future(self._one_at_a_time(work)))
        return True

    async def _one_at_a_time(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Do the *work* of a plain function that may have to wait: others like it wait too, but not the loop."""
        try:
            async with self.places:
                return await work
        finally:
            work.close()

    def _pool_for(self, activation: Activation, policy: Policy | None) -> ThreadPoolExecutor | None:
        """Return the pool of threads for *activation*; None if it runs in the loop."""
        if activation.node.is_async or (activation.node.kind is Kind.TEST and policy is None):
            return None
        if policy is None or policy.execution_mode != "async":
            return self.pool
        if self.extra_pool is None:
            self.extra_pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="weft-aside")
        return self.extra_pool

    def _policy(self, activation: Activation) -> tuple[Policy | None, Any, dict[str, Any]]:
        """Return the policy of *activation*, if it has one, its driver, and what the driver needs to know."""
        policies = policies_of(self.run)
        if policies is None:
            return None, None, {}
        policy, _ = policy_of(self.run, policies, activation)
        told: dict[str, Any] = {
            "current": current_policy(policies, activation),
            "begun": policies.begun(activation.key),
            "note": self._note,
        }
        if self.run.memory.external is not None:
            told["failed"] = failure_outside(self.run.memory, activation.key)
        return policy, PolicyDriver(clock=policies.clock), told

    def _note(self, failed: AttemptFailed) -> None:
        """Record an attempt that has *failed*; one on a thread that outlives this loop counts for nothing."""
        if not self.stop.is_set():
            note_failed(self.run, failed)

    def _note_in(self, loop: asyncio.AbstractEventLoop) -> Callable[[AttemptFailed], object]:
        """Return a function for threads, which lets *loop* record an attempt that has failed."""
        return lambda failed: loop.call_soon_threadsafe(self._note, failed)

    def _watch(self, future: asyncio.Future[Outcome]) -> None:
        self.in_flight.add(future)
        future.add_done_callback(self._finish)

    def _finish(self, future: asyncio.Future[Outcome]) -> None:
        self.in_flight.discard(future)
        if future.cancelled():
            self.ended.append(asyncio.CancelledError())
        else:
            self.ended.append(future.exception() or future.result())
        self.wake.set()

    def _apply(self) -> None:
        run = self.run
        while self.ended:
            outcome = self.ended.popleft()
            if isinstance(outcome, BaseException):
                raise outcome
            run.apply(outcome)

    async def _abandon(self) -> None:
        """Cancel everything that is still in flight, and wait until it has ended."""
        for future in list(self.in_flight):
            future.cancel()
        if self.in_flight:
            await asyncio.wait(list(self.in_flight))
