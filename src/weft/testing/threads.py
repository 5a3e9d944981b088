"""
Real threads in virtual time, for plain functions that wait for the loop: one runs at a time, and only between turns.

A thread runs until it asks the loop for something, or ends; then it stands still until there is an answer and the loop
lets it continue.  So the same program takes the same turns every time.

    loop     ── turn ── turn ──╮           ╭── turn ── turn ──╮          ╭── turn ──
                               ▼           │ asks, waits      ▼          │ ends
    thread                     ╰── runs ───╯                  ╰── runs ──╯
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from inspect import CORO_CREATED, getclosurevars, getcoroutinelocals, getcoroutinestate, iscoroutine
from types import CoroutineType
from typing import Any, Generic, TypeVar

from weft.testing.faults import Crash

T = TypeVar("T")


class Stepper(Generic[T]):
    """A thread that calls *call*, synchronised with a loop."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        """The result of *call*, which must not raise."""
        self._given: T | None = None
        self._is_over = self._is_dead = False
        self._asked: tuple[Callable[[], object], Context] | None = None
        self._answer: Future[Any] | None = None
        """The future that it waits for."""
        self._work: CoroutineType[Any, Any, Any] | None = None
        """The last coroutine that it passed to the loop."""
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run, call), name="weft-step", daemon=True
        )
        self._thread.start()

    # -- in the thread ---------------------------------------------------------------------------

    def _run(self, call: Callable[[], T]) -> None:
        self._go.acquire()
        if not self._is_dead:
            self._given = call()
            self._is_over = True
            self._back.release()

    def ask(self, callback: Callable[[], object]) -> None:
        """Run something in the loop, and stand still until it is done; called in the thread."""
        asked = getclosurevars(callback).nonlocals  # of asyncio.run_coroutine_threadsafe
        self._work = asked["coro"]
        if self._is_dead:
            self.drop()
            raise Crash("this process is dead")
        self._asked, self._answer = (callback, copy_context()), asked["future"]
        self._back.release()
        self._go.acquire()

    @property
    def ident(self) -> int | None:
        """The number of the thread."""
        return self._thread.ident

    # -- in the loop -----------------------------------------------------------------------------

    def step(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Let it continue, if it has what it waits for; return whether it is over."""
        if self._answer is not None and not self._answer.done():
            return False
        self._go.release()
        self._back.acquire()
        if self._is_over:
            if not self.ended.done():
                self.ended.set_result(self._given)  # type: ignore[arg-type]
            return True
        assert self._asked is not None  # noqa: S101
        callback, context = self._asked
        loop.call_soon(callback, context=context)
        return False

    def drop(self) -> None:
        """Close a coroutine that was passed and never begun, and those that it would have awaited."""
        if self._work is not None and getcoroutinestate(self._work) == CORO_CREATED:
            for given in getcoroutinelocals(self._work).values():
                if iscoroutine(given):
                    given.close()
            self._work.close()

    def kill(self) -> None:
        """Note that its process has died: nothing that it does counts any more."""
        self._is_dead = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Crash("this process is dead"))
        self._go.release()
        self._thread.join()
