"""
Calls ``on_complete``: a coroutine function in the loop, a plain one on a thread.

The threads are daemons, their number is limited, and they end when there is nothing to call.  A callback that never
returns delays neither the close of its runner nor the exit of the process.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from weft.core.functions.offered import offer
from weft.errors import InvalidOption
from weft.log.functions import named
from weft.log.module_names import modules
from weft.runner.options import OnComplete

T = TypeVar("T")

_names: WeakKeyDictionary[ModuleType, set[str]] = WeakKeyDictionary()
"""By module: the callbacks in it that the application has given by name; a reload leaves other functions there."""

MOST = 32
"""How many plain callbacks of a runner are called at once."""


class Callbacks:
    """The callbacks of one runner."""

    def __init__(self) -> None:
        self._threads = _Threads()

    async def call(self, callback: OnComplete, *args: Any) -> None:
        """Call *callback*, and wait until it has returned; it may raise anything."""
        function = find(callback)
        if inspect.iscoroutinefunction(function):
            await function(*args)
        else:
            call = partial(copy_context().run, function, *args)
            await asyncio.get_running_loop().run_in_executor(self._threads, call)


def given(callback: OnComplete) -> None:
    """
    Offer *callback*, which the application has given: a function, or ``module:name`` of one in an imported module.

    Raises:
        InvalidOption: there is none.
    """
    found = named(callback, unoffered=True) if isinstance(callback, str) else callback
    if not callable(found):
        hint = "there is no such function; import its module first" if found is None else "use a function"
        raise InvalidOption(f"on_complete={callback!r}: {hint}")
    offer(found)
    for module in _modules(callback):
        _names.setdefault(module, set()).add(str(callback))


def find(callback: OnComplete) -> Callable[..., object]:
    """
    Return the function that *callback* is, or names as ``module:name``; only one that this process has offered, or
    that stands now where one was given by its name.

    Raises:
        InvalidOption: there is none.
    """
    if not isinstance(callback, str):
        return callback
    is_given = any(callback in _names.get(module, ()) for module in _modules(callback))
    found: Callable[..., object] | None = named(callback, unoffered=is_given)
    if found is None:
        raise InvalidOption(
            f"on_complete={callback!r}: this process has offered no such function; give on_complete= again, "
            "or name its module: Runner(modules=[...]) or register(module)"
        )
    return found


def _modules(callback: OnComplete) -> list[ModuleType]:
    return modules(callback.partition(":")[0], was_main=False) if isinstance(callback, str) else []


class _Threads(Executor):
    """At most :data:`MOST` threads, each as long as there is something to call."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._lock = threading.Lock()
        """Held to add a call and to see that there is none, so that none is left without a thread."""
        self._count = 0

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call *fn* as soon as there is a thread for it."""
        future: Future[T] = Future()

        def call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except StopIteration as error:  # no future of asyncio can hold one
                    stopped = RuntimeError("the callback raised StopIteration")
                    stopped.__cause__ = error
                    future.set_exception(stopped)
                except BaseException as error:  # noqa: BLE001 - the caller is told
                    future.set_exception(error)

        with self._lock:
            self._calls.put(call)
            if self._count < MOST:
                threading.Thread(target=self._serve, name="weft-callback", daemon=True).start()
                self._count += 1
        return future

    def _serve(self) -> None:
        while True:
            with self._lock:
                try:
                    call = self._calls.get_nowait()
                except Empty:
                    self._count -= 1
                    return
            call()
            del call  # what is called next may take long
