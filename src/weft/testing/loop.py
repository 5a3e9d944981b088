"""
An event loop on virtual time: nothing really waits, and the same program takes the same turns every time.

When all tasks wait, time jumps to the next timer.  When there is no timer either, all tasks wait forever: that is
an error, which lists them.

    >>> async def main():
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> run_virtually(main())
    3600.0

There are no sockets, no signals and no threads: code that needs one gets an error.  Only a call passed to
:meth:`in_thread` runs on a thread, synchronised with the turns of the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from heapq import heapify
from typing import Any, Final, TypeVar

from weft.errors import Stuck
from weft.testing.threads import Stepper

_forget = asyncio._unregister_task  # noqa: SLF001 - meant for implementers of loops; otherwise dead loops would be kept

T = TypeVar("T")

LONGEST: Final = 200_000
"""How many turns a program may take before it counts as one that never ends."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Starts at *start*, in seconds; *before_turn* is called with the number of every turn and may end the loop."""

    _ready: deque[Any]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, start: float = 0.0, *, before_turn: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self._now = start
        self._clock_resolution = 1e-6  # far above the rounding of seconds since the epoch
        self._selector = self
        self._before_turn = before_turn
        self.turns = 0
        """How many turns it has taken."""
        self.problems: list[dict[str, Any]] = []
        """The exceptions that callbacks raised and nothing caught."""
        self._steppers: dict[int | None, Stepper[Any]] = {}
        """The threads that run between turns, by their number."""
        self.set_exception_handler(lambda _, problem: self._note(problem))
        self._is_killed = False

    def time(self) -> float:
        """Return the virtual time."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Advance by *seconds*."""
        self._now += seconds

    def next_timer(self) -> float | None:
        """Return when the next timer fires; None if there is none."""
        self._scheduled[:] = [timer for timer in self._scheduled if not timer.cancelled()]
        heapify(self._scheduled)
        return self._scheduled[0].when() if self._scheduled else None

    async def quiet(self) -> None:
        """Wait until nothing more can happen without time passing."""
        while True:
            await asyncio.sleep(0)
            due = self.next_timer() if not self._ready else 0.0
            if not self._ready and (due is None or due > self._now + self._clock_resolution):
                return

    def kill(self) -> None:
        """
        Die: everything in flight is dropped where it is, and cannot report or write anything.

        Coroutines are closed, as the interpreter would; what they do then must have no effect, so everything that
        they could still reach has to be dead before.
        """
        self._is_killed = True
        for stepper in self._steppers.values():
            stepper.drop()
        for task in asyncio.all_tasks(self):
            setattr(task, "_log_destroy_pending", False)  # noqa: B010 - deliberate
            coroutine: Any = task.get_coro()
            with suppress(BaseException):  # exceptions during the death are ignored
                coroutine.close()
            _forget(task)
        self._ready.clear()
        self._scheduled.clear()
        self.close()
        for stepper in self._steppers.values():
            stepper.kill()
        self._steppers.clear()

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """Refuse: threads do not work in virtual time."""
        raise NotImplementedError(
            f"{func!r} would run on a thread, which does not work in virtual time; use a coroutine"
        )

    def in_thread(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run *call*, which must not raise, on a thread that may wait for this loop; return its result."""
        stepper = Stepper(call)
        self._steppers[stepper.ident] = stepper
        return stepper.ended

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        """Call soon; a thread that is synchronised with this loop has to stand still for that."""
        stepper = self._steppers.get(threading.get_ident())
        if stepper is None:
            return super().call_soon_threadsafe(callback, *args, context=context)
        stepper.ask(callback)
        return asyncio.Handle(callback, args, self)

    # -- the parts of a loop ---------------------------------------------------------------------

    def select(self, timeout: float | None) -> list[Any]:
        """Advance by *timeout* seconds: there is nothing else to wait for."""
        if timeout is None:
            raise Stuck(f"all tasks wait forever: {self._waiting()}")
        if timeout > 0:
            # To the timer itself, not to now + timeout: rounding could leave it slightly short, forever.
            self._now = max(self._now, self._scheduled[0].when())
        return []

    def _run_once(self) -> None:
        self.turns += 1
        if self.turns > LONGEST:
            raise Stuck(f"{LONGEST:,} turns and no end; awaited by {self._waiting()}")
        if self._before_turn is not None:
            self._before_turn(self.turns)
        super()._run_once()  # type: ignore[misc]
        if self._steppers:
            over = [ident for ident, stepper in list(self._steppers.items()) if stepper.step(self)]
            for ident in over:
                del self._steppers[ident]

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        """Close an async generator that was left in the middle; one that is dropped by a kill stays where it is."""
        if not self._is_killed:
            super()._asyncgen_finalizer_hook(agen)  # type: ignore[misc]

    def _note(self, problem: dict[str, Any]) -> None:
        """Note a problem, unless it is an error that was on its way to a task that a kill has dropped."""
        if not self._is_killed:
            self.problems.append(problem)

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: there are no events."""

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps."""

    def _waiting(self) -> str:
        """Return which tasks wait, and where."""
        return "; ".join(sorted(_where(task) for task in asyncio.all_tasks(self) if not task.done())) or "none"


def _where(task: asyncio.Task[Any]) -> str:
    stack = task.get_stack()
    place = f"{stack[-1].f_code.co_qualname}:{stack[-1].f_lineno}" if stack else "its start"
    return f"{task.get_name()} at {place}"


def run_virtually(main: Coroutine[Any, Any, T], *, start: float = 0.0) -> T:
    """
    Run *main* in a new loop, on virtual time.

    Raises:
        Stuck: all tasks wait forever.
    """
    loop = VirtualLoop(start)
    try:
        return loop.run_until_complete(main)
    finally:
        loop.kill()
