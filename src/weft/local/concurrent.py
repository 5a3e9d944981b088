"""
The concurrent loop: up to *n* runnables at once, applied as each one ends.

One event loop for both: coroutines are tasks in it, plain functions go to a pool of threads if more than
one may run at once, and conditions run inline.  What becomes ready is dispatched at once: a slow branch
delays nobody but those who wait for it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from types import CoroutineType
from typing import Any, cast

from weft.core.node import Kind
from weft.core.run import Run
from weft.core.runnable import Outcome, bind
from weft.core.scope import Activation
from weft.errors import AlreadyRunning
from weft.local.execution import aexecute, execute, run_blocking
from weft.local.policies import policies_of
from weft.policy.policy import Policy

MOST_TASKS = 256
"""How many coroutines run at once where the caller does not say."""
_TURN = 0.001
"""For how many seconds plain functions run before the event loop gets a turn."""


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
    """Refuse to drive a *run* that is being driven: a step that waits for its own run waits for ever."""
    if run.is_driven:
        raise AlreadyRunning(run.id)
    run.is_driven = True


class _Loop:
    """One run being driven."""

    def __init__(
        self, run: Run, parallel: int | None, checkpoint: Callable[[Run], None] | None, *, off_loop: bool = False
    ) -> None:
        if parallel is not None and parallel < 1:
            raise ValueError(f"parallel={parallel!r}: use a number of at least 1")
        self.run, self.checkpoint = run, checkpoint
        self.limit = parallel or MOST_TASKS
        self.threads = parallel or 1
        self.off_loop = off_loop
        """Whether plain functions must not find themselves inside an event loop, since the caller has none."""
        self.waiting: deque[Activation] = deque()
        self.ended: deque[Outcome | BaseException] = deque()
        self.under_way: set[asyncio.Future[Outcome]] = set()
        self.wake = asyncio.Event()

    async def go(self) -> None:
        """Dispatch and apply until nothing is ready and nothing is under way."""
        run = self.run
        run.check_context()
        enter(run)
        run.memory.fresh[:] = run.memory.offered()
        pooled = self.threads > 1 or self.off_loop
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="weft") if pooled else None
        try:
            while True:
                self.waiting.extend(run.memory.fresh)
                run.memory.fresh.clear()
                self._dispatch(pool)
                if not self.ended and not self.under_way:
                    self.waiting.extend(run.memory.offered())  # a callback may have looked at what became ready
                    if not self.waiting:
                        return
                    continue
                if self.waiting and not self.ended and len(self.under_way) < self.limit:
                    await asyncio.sleep(0)
                    continue
                if not self.ended:
                    await self.wake.wait()
                self.wake.clear()
                self._apply()
                if self.checkpoint is not None:
                    answer: Any = self.checkpoint(run)
                    if type(answer) is CoroutineType:
                        await cast("Coroutine[Any, Any, Any]", answer)
                await asyncio.sleep(0)  # whoever shares this loop gets a turn, however many plain steps there are
        finally:
            run.is_driven = False
            await self._abandon()
            if pool is not None:
                pool.shutdown(wait=True)

    def _dispatch(self, pool: ThreadPoolExecutor | None) -> None:
        """Start what waits, up to the limit; what runs inline has ended when this returns."""
        memory = self.run.memory
        until = monotonic() + _TURN
        while self.waiting and len(self.under_way) < self.limit and monotonic() < until:
            activation = self.waiting.popleft()
            if memory.ready.get(activation.key) is not activation:
                continue
            runnable = bind(activation, memory, self.run.context)
            policy, driver, current = self._policy(activation)
            if policy is not None and policy.execution_mode == "durable":
                self.run.record_dispatch(runnable, policy)
            if activation.node.is_async:
                work = aexecute(runnable) if policy is None else driver.aexecute(runnable, policy, current=current)
                self._watch(asyncio.ensure_future(work))
            elif pool is not None and activation.node.kind is not Kind.TEST:
                context = contextvars.copy_context()
                call = execute if policy is None else partial(driver.execute, policy=policy, current=current)
                self._watch(asyncio.wrap_future(pool.submit(context.run, call, runnable)))
            else:
                outcome = execute(runnable) if policy is None else driver.execute(runnable, policy, current=current)
                self.ended.append(outcome)

    def _policy(self, activation: Activation) -> tuple[Policy | None, Any, Any]:
        """Return the policy of *activation*, the driver that keeps it, and what tells a later one; or nothing."""
        policies = policies_of(self.run)
        if policies is None:
            return None, None, None
        return policies.of(self.run, activation)[0], policies.driver, policies.teller(self.run, activation)

    def _watch(self, future: asyncio.Future[Outcome]) -> None:
        self.under_way.add(future)
        future.add_done_callback(self._finish)

    def _finish(self, future: asyncio.Future[Outcome]) -> None:
        self.under_way.discard(future)
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
        """Cancel what is still under way, and wait until it has ended."""
        for future in list(self.under_way):
            future.cancel()
        if self.under_way:
            await asyncio.wait(list(self.under_way))
