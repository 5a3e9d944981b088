"""
Executes one runnable: an exception becomes part of the outcome.

There are two ways to treat what is not an ``Exception``.  In a loop that the caller drives (``execute``,
``aexecute``) a keyboard interrupt, ``SystemExit`` or the cancellation of the task propagates, and the runnable stays
ready.  On a worker that serves many runs (``attempt``, ``aattempt``) one step must not end the others: all of these
fail its attempt, except a real Ctrl-C, which only the main thread receives.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine, Iterator
from io import IOBase
from time import perf_counter_ns
from types import CoroutineType
from typing import Any, TypeVar, cast

from weft.core.failure import PROPAGATES, sound
from weft.core.functions.current import announce, announced
from weft.core.run.runnable import Outcome, Runnable

__all__ = ["PROPAGATES", "READ_ONCE", "aexecute", "execute", "is_cancelled", "is_ctrl_c", "run_blocking", "whole"]

T = TypeVar("T")


def execute(runnable: Runnable) -> Outcome:
    """Run *runnable* in this thread; a coroutine gets its own event loop."""
    outer, started = announced(), perf_counter_ns()
    try:
        value: Any = runnable.call()
        if type(value) is CoroutineType:
            value = run_blocking(cast("Coroutine[Any, Any, Any]", value))
        return completed(runnable, value, started)
    except PROPAGATES:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever else a step raises is its outcome
        return failed(runnable, error, started)
    finally:
        announce(outer)


async def aexecute(runnable: Runnable) -> Outcome:
    """Run *runnable* in the running event loop."""
    outer, started = announced(), perf_counter_ns()
    try:
        value: Any = runnable.call()
        if type(value) is CoroutineType:
            value = await cast("Coroutine[Any, Any, Any]", value)
        return completed(runnable, value, started)
    except PROPAGATES:
        raise
    except BaseException as error:
        if is_cancelled(error):
            raise
        return failed(runnable, error, started)
    finally:
        announce(outer)


def is_cancelled(error: BaseException) -> bool:
    """Return whether *error* is the cancellation of the running task, and not of something that it awaited."""
    task = asyncio.current_task()
    return issubclass(type(error), asyncio.CancelledError) and task is not None and task.cancelling() > 0


def attempt(runnable: Runnable) -> Outcome:
    """
    Run *runnable* on a worker: even ``SystemExit`` and the like are only the outcome of this attempt.

    It is called in a separate context that ends with the call, so the outer runnable need not be announced again.
    """
    started = perf_counter_ns()
    try:
        value: Any = runnable.call()
        if type(value) is CoroutineType:
            value = run_blocking(cast("Coroutine[Any, Any, Any]", value))
        return completed(runnable, value, started)
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        return failed(runnable, error, started)


async def aattempt(runnable: Runnable) -> Outcome:
    """Run *runnable* as a separate task: an exception is the outcome, unless the task itself was cancelled."""
    started = perf_counter_ns()
    try:
        return await aexecute(runnable)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        return failed(runnable, error, started)


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether *error* is a real Ctrl-C; on any thread but the main one a step has raised it."""
    return issubclass(type(error), KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def completed(runnable: Runnable, value: Any, started: int) -> Outcome:
    """Return the outcome of a *runnable* that returned *value*; for a condition, a bool."""
    node = runnable.node
    if node.is_test:
        value = bool(value)
    elif READ_ONCE.get(value.__class__) is not False:
        value = whole(value)
    duration, added = perf_counter_ns() - started, runnable.added
    return Outcome(
        node.name,
        runnable.inputs,
        "completed",
        value,
        None,
        runnable.attempt,
        duration,
        (),
        "halt",
        runnable.run_id,
        added,
    )


def whole(value: Any) -> Any:
    """Return *value*; an iterator, which could be read only once, as the list of its items."""
    kind: Any = value.__class__
    once = READ_ONCE.get(kind)
    if once is None:
        once = READ_ONCE[kind] = issubclass(kind, Iterator) and not issubclass(kind, IOBase)
    return list(value) if once else value


READ_ONCE: dict[type, bool] = {}
"""Whether the instances of a class are iterators, by class; files are handles, and stay as they are."""


def failed(runnable: Runnable, error: BaseException, started: int) -> Outcome:
    """Return the outcome of a *runnable* that raised."""
    duration = perf_counter_ns() - started
    return Outcome(*runnable.key, "failed", None, sound(error), runnable.attempt, duration, run_id=runnable.run_id)


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run *coroutine* to its end; if an event loop is already running here, on a separate thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    found: list[T] = []
    raised: list[BaseException] = []

    def target() -> None:
        try:
            found.append(asyncio.run(coroutine))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            raised.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(target,), name="weft-loop")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]
