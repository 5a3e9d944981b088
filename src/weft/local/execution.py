"""
One runnable, executed: what it raises becomes part of the outcome.

Whatever a step raises becomes its outcome, except what is not a step's to decide: ``KeyboardInterrupt``,
``SystemExit`` and the cancellation of the task that runs it propagate, and the runnable stays ready.
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

from weft.core.current import announce, announced
from weft.core.runnable import Outcome, Runnable

T = TypeVar("T")


def execute(runnable: Runnable) -> Outcome:
    """Run *runnable* here and now; a coroutine gets an event loop of its own."""
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


PROPAGATES = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What is not a step's to decide: it ends the loop that runs it, and the step has neither failed nor completed."""


def is_cancelled(error: BaseException) -> bool:
    """Whether *error* says that the running task is cancelled, and not something that it waited for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def completed(runnable: Runnable, value: Any, started: int) -> Outcome:
    """Return the outcome of a *runnable* that returned *value*; of a condition, its truth."""
    value = bool(value) if runnable.is_condition else whole(value)
    duration = perf_counter_ns() - started
    return Outcome(
        *runnable.key,
        "completed",
        value,
        None,
        runnable.attempt,
        duration,
        run_id=runnable.run_id,
        added=runnable.added,
    )


def whole(value: Any) -> Any:
    """Return *value*; an iterator, which could be read only once, as the list of what it gives."""
    kind: Any = value.__class__
    once = READ_ONCE.get(kind)
    if once is None:
        once = READ_ONCE[kind] = issubclass(kind, Iterator) and not issubclass(kind, IOBase)
    return list(value) if once else value


READ_ONCE: dict[type, bool] = {}
"""By class: whether its instances are iterators; files are handles, and stay what they are."""


def failed(runnable: Runnable, error: BaseException, started: int) -> Outcome:
    """Return the outcome of a *runnable* that raised."""
    duration = perf_counter_ns() - started
    return Outcome(*runnable.key, "failed", None, error, runnable.attempt, duration, run_id=runnable.run_id)


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run *coroutine* to its end, also where an event loop is already running: then on a thread of its own."""
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
