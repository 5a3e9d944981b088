"""
Executes the instructions of ``weft.policy.driver``, blocking or in an event loop.

A thread cannot be killed: a plain function that overruns its timeout is abandoned on a separate thread, which never
delays the exit of the process, and its result is dropped.  A coroutine is cancelled.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

from weft.calling import aexecute, execute, run_blocking
from weft.core.events import AttemptFailed
from weft.core.run.runnable import Outcome, Runnable
from weft.errors import StepTimeout
from weft.local.clock import SystemClock
from weft.local.counters import COUNTERS
from weft.policy.decision import given_back
from weft.policy.driver import (
    FRESH,
    Attempt,
    Await,
    AwaitTurn,
    Begun,
    CallPolicy,
    Conditions,
    Instruction,
    Overtaken,
    Pause,
    Raised,
    Reply,
    Returned,
    conduct,
)
from weft.policy.matching import Target, as_rules, winner
from weft.policy.policy import Policy, check_in_memory
from weft.ports.clock import Clock
from weft.ports.counters import CounterKey, Counters


class PolicyDriver:
    """
    Runs one runnable under one policy, for programs that schedule runnables themselves.

    >>> from weft import Workflow, step
    >>> [runnable] = Workflow("w", step(lambda x: x + 1, name="next")).plan(1).prepare()
    >>> PolicyDriver().execute(runnable, Policy(max_retries=2)).result
    2
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        counters: Counters | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self._monotonic = time.monotonic if isinstance(self.clock, SystemClock) else self.clock.time
        self.counters: Counters = counters or COUNTERS
        self.draw = draw

    def execute(
        self,
        runnable: Runnable,
        policy: Policy,
        *,
        failed: BaseException | None = None,
        current: Callable[[], Policy] | None = None,
        begun: Begun | None = None,
        note: Callable[[AttemptFailed], object] | None = None,
        stop: threading.Event | None = None,
    ) -> Outcome:
        """
        Drive *runnable* to its outcome, blocking; a coroutine runs in a separate event loop.

        Args:
            failed: the exception of a first attempt, if one was made already.
            current: returns the present policy, called at every decision.
            begun: its progress before, of which the attempts count on.
            note: called with every attempt that has failed and that another one follows.
            stop: set to give up: waits end, and no further attempt is made.

        Raises:
            InvalidPolicy: the policy needs a runner.
            CancelledError: *stop* was set.
        """
        if runnable.node.is_async:
            return run_blocking(self.aexecute(runnable, policy, failed=failed, current=current, begun=begun, note=note))
        given = self._conditions(runnable, policy, current)
        instructions = conduct(runnable, policy, given, failed, begun=begun or FRESH)
        reply: Reply = None
        try:
            while True:
                instruction = instructions.send(reply)
                _tell(note, instruction)
                reply = self._do(instruction, stop)
                if stop is not None and stop.is_set():
                    raise CancelledError(f"{runnable.component!r} was stopped")
        except StopIteration as end:
            return cast("Outcome", end.value)
        finally:
            instructions.close()

    async def aexecute(
        self,
        runnable: Runnable,
        policy: Policy,
        *,
        failed: BaseException | None = None,
        current: Callable[[], Policy] | None = None,
        begun: Begun | None = None,
        note: Callable[[AttemptFailed], object] | None = None,
    ) -> Outcome:
        """Drive *runnable* to its outcome in the running event loop; cancelling it cancels a running coroutine."""
        given = self._conditions(runnable, policy, current)
        instructions = conduct(runnable, policy, given, failed, begun=begun or FRESH)
        reply: Reply = None
        try:
            while True:
                instruction = instructions.send(reply)
                _tell(note, instruction)
                reply = await self._ado(instruction)
        except StopIteration as end:
            return cast("Outcome", end.value)
        finally:
            instructions.close()

    def _conditions(self, runnable: Runnable, policy: Policy, current: Callable[[], Policy] | None) -> Conditions:
        check_in_memory(runnable.component, policy)
        return Conditions(
            self.clock.time, self.counters, self.draw, runnable.deadline, current, monotonic=self._monotonic
        )

    # -- blocking --------------------------------------------------------------------------------

    def _do(self, instruction: Instruction, stop: threading.Event | None) -> Reply:
        match instruction:
            case Attempt(runnable, timeout):
                return _attempt(runnable, timeout) if _may_begin(instruction) else Overtaken()
            case CallPolicy():
                return self._call_policy(instruction)
            case Pause(seconds):
                self._sleep(seconds, stop)
            case AwaitTurn(_, wait, seconds):
                self._sleep(_least(wait(), seconds), stop)
            case Await(key, seconds):
                self._wait(key, seconds)
        return None

    def _call_policy(self, instruction: CallPolicy) -> Reply:
        """Call a function of the policy; on a thread that is abandoned when its time is up, if it has an end."""
        if instruction.until is None:
            return instruction.answered()
        return _on_a_thread(instruction.answered, "policy", instruction.until - self.clock.time())

    def _sleep(self, seconds: float, stop: threading.Event | None) -> None:
        if stop is not None and isinstance(self.clock, SystemClock):
            stop.wait(seconds)
        elif seconds > 0:
            self.clock.sleep(seconds)

    def _wait(self, key: CounterKey, seconds: float | None) -> None:
        changed, before = threading.Event(), self.clock.time()
        forget = self.counters.on_change(key, changed.set)
        try:
            changed.wait(_POLL if seconds is None else min(seconds, _POLL))
        finally:
            forget()
        if seconds is not None and not changed.is_set() and self.clock.time() == before:
            self.clock.sleep(seconds)  # this clock moves only while a caller sleeps on it

    # -- in an event loop ------------------------------------------------------------------------

    async def _ado(self, instruction: Instruction) -> Reply:
        match instruction:
            case Attempt(runnable, timeout):
                return await _aattempt(runnable, timeout) if _may_begin(instruction) else Overtaken()
            case CallPolicy():
                return await self._acall_policy(instruction)
            case Pause(seconds):
                if seconds > 0:
                    await self.clock.asleep(seconds)
            case AwaitTurn(key, wait, seconds):
                await self._await_turn(key, wait, seconds)
            case Await(key, seconds):
                await self._await(key, seconds)
        return None

    async def _acall_policy(self, instruction: CallPolicy) -> Reply:
        if instruction.until is None:
            return instruction.answered()
        return await _aon_a_thread(instruction.answered, "policy", instruction.until - self.clock.time())

    async def _await_turn(self, key: CounterKey, wait: Callable[[], float], seconds: float | None) -> None:
        """Wait for a turn in the order of arrival: only the first one waits for the time, and the others for it."""
        until = None if seconds is None else self.clock.time() + seconds
        async with _turn_lock(key):
            left = None if until is None else until - self.clock.time()
            if (pause := _least(wait(), left)) > 0:
                await self.clock.asleep(pause)

    async def _await(self, key: CounterKey, seconds: float | None) -> None:
        changed, before = asyncio.Event(), self.clock.time()
        forget = self.counters.on_change(key, _waker(changed))
        try:
            async with asyncio.timeout(_POLL if seconds is None else min(seconds, _POLL)):
                await changed.wait()
        except TimeoutError:
            pass
        finally:
            forget()
        if seconds is not None and not changed.is_set() and self.clock.time() == before:
            await self.clock.asleep(seconds)  # this clock moves only while a caller sleeps on it


def _tell(note: Callable[[AttemptFailed], object] | None, instruction: Instruction) -> None:
    """Call *note* with the attempt that has failed, if the *instruction* is to wait for the next one."""
    if note is not None and isinstance(instruction, Pause) and instruction.after is not None:
        note(instruction.after)


def _waker(event: asyncio.Event) -> Callable[[], None]:
    """Return a function that sets *event* from any thread, and does nothing once the running loop is closed."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # closed: nothing waits there any more, and the caller need not know
            loop.call_soon_threadsafe(event.set)

    return wake


_POLL = 0.05
"""How long to wait for a change before checking again: one may have come just before the wait began."""


_turn_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[CounterKey, asyncio.Lock]] = (
    WeakKeyDictionary()
)
"""By event loop and rate limit: held while its holder waits for the next turn."""


def _turn_lock(key: CounterKey) -> asyncio.Lock:
    locks = _turn_locks.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    lock = locks.get(key)
    if lock is None:
        lock = locks[key] = asyncio.Lock()
    return lock


def _least(seconds: float, most: float | None) -> float:
    return seconds if most is None else min(seconds, most)


def _may_begin(attempt: Attempt) -> bool:
    return attempt.begins is None or attempt.begins()


def _attempt(runnable: Runnable, timeout: float | None) -> Reply:
    if timeout is None:
        return _reply(execute(runnable))
    return _on_a_thread(lambda: _reply(execute(runnable)), runnable.component, timeout) or _overran(runnable, timeout)


def _reply(outcome: Outcome) -> Reply:
    """Return the *outcome* of an attempt as the driver of the policies takes it."""
    if outcome.error is not None:
        return Raised(outcome.error, outcome.duration_ns)
    return Returned(outcome.result, outcome.added, outcome.duration_ns)


class _ThreadCall:
    """A call on a separate thread, which may be abandoned."""

    def __init__(self, call: Callable[[], Reply], name: str, finished: Callable[[], None]) -> None:
        self.call, self.finished = call, finished
        self._reply: Reply = None
        self._fatal: BaseException | None = None
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._run,), name=f"weft-{name}", daemon=True).start()

    def _run(self) -> None:
        try:
            self._reply = self.call()
        except BaseException as error:  # noqa: BLE001 - raised again where the run is driven
            self._fatal = error
        finally:
            self.finished()

    def reply(self) -> Reply:
        """Return its reply, once it has finished."""
        if self._fatal is not None:
            raise self._fatal
        return self._reply


def _on_a_thread(call: Callable[[], Reply], name: str, timeout: float) -> Reply:
    """Return the reply of *call*; None if it takes longer than *timeout*."""
    done = threading.Event()
    begun = _ThreadCall(call, name, done.set)
    return begun.reply() if done.wait(timeout) else None


async def _aon_a_thread(call: Callable[[], Reply], name: str, timeout: float) -> Reply:
    """Return the reply of *call*; None if it takes longer than *timeout*."""
    done = asyncio.Event()
    begun = _ThreadCall(call, name, _waker(done))
    try:
        async with asyncio.timeout(None) as limit:
            with _ending(limit, timeout):
                await done.wait()
    except TimeoutError:
        return None
    return begun.reply()


def _overran(runnable: Runnable, timeout: float) -> Raised:
    return Raised(StepTimeout(runnable.component, timeout), int(timeout * 1e9))


async def _aattempt(runnable: Runnable, seconds: float | None) -> Reply:
    if seconds is not None and not _is_coroutine(runnable):
        name = runnable.component
        reply = await _aon_a_thread(lambda: _reply(execute(runnable)), name, seconds)
        return reply or _overran(runnable, seconds)
    if seconds is None:
        return _reply(await aexecute(runnable))
    try:
        async with asyncio.timeout(None) as limit:
            with _ending(limit, seconds):
                outcome = await aexecute(runnable)
    except TimeoutError:
        return _overran(runnable, seconds)
    # One that ignores its cancellation is too late all the same; another error that it raises then says more.
    is_late = limit.expired() and (outcome.error is None or issubclass(type(outcome.error), TimeoutError))
    return _overran(runnable, seconds) if is_late else _reply(outcome)


@contextmanager
def _ending(limit: asyncio.Timeout, seconds: float) -> Generator[None, None, None]:
    """Let *limit* expire after *seconds*; later, if other code blocks the loop then."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def look(due: float, timeout: float, given: float) -> None:
        now = loop.time()
        more = given_back(now - due, timeout=timeout, given=given)
        if more:
            timers[:] = [loop.call_at(now + more, look, now + more, timeout, given + more)]
        else:
            limit.reschedule(now)

    timers.append(loop.call_later(seconds, look, loop.time() + seconds, seconds, 0.0))
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


def _is_coroutine(runnable: Runnable) -> bool:
    return runnable.node.is_async if runnable.override is None else runnable.override.is_async


def execute_with_policies(
    runnable: Runnable, policies: Iterable[Any], *, clock: Clock | None = None, counters: Counters | None = None
) -> Outcome:
    """
    Run *runnable* under the first of *policies*, pairs of a matcher and a policy, that matches its component.

    This is for programs that schedule runnables themselves; pass the outcome to ``run.apply``.
    """
    return PolicyDriver(clock=clock, counters=counters).execute(runnable, _chosen(runnable, policies))


async def aexecute_with_policies(
    runnable: Runnable, policies: Iterable[Any], *, clock: Clock | None = None, counters: Counters | None = None
) -> Outcome:
    """Run *runnable* in the running event loop; as :func:`execute_with_policies`."""
    return await PolicyDriver(clock=clock, counters=counters).aexecute(runnable, _chosen(runnable, policies))


def _chosen(runnable: Runnable, policies: Iterable[Any]) -> Policy:
    return winner(as_rules(policies), Target(runnable.component, runnable.node.component)).policy
