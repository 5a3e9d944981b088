"""
Shows a run in a notebook: a picture that is replaced in place while the run goes on.

A handle at the end of a cell is shown so.  It needs IPython, which every notebook has; nothing else in Weft does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from importlib import import_module
from typing import Any, Final, Protocol
from uuid import uuid4

from weft.core.run.run import Run
from weft.errors import WeftError
from weft.ports.store import FINISHED

_SHORTEST_PAUSE: Final = 0.2
"""How many seconds there are between two pictures, at least."""

Following = Coroutine[Any, Any, None]


class Reading(Protocol):
    """The part of a runner or a client that a picture needs."""

    async def get(self, run: Any) -> Run:
        """Return *run* as it is now."""
        ...

    async def wait_until(self, run: Any, predicate: Callable[[Run], bool]) -> Run:
        """Wait until *predicate* holds for *run*."""
        ...


class Blocking:
    """A runner that blocks, read from a thread that may wait."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    async def get(self, run: Any) -> Run:
        """Return *run* as it is now."""
        found: Run = self._runner.get(run)
        return found

    async def wait_until(self, run: Any, predicate: Callable[[Run], bool]) -> Run:
        """Wait until *predicate* holds for *run*."""
        found: Run = self._runner.wait_until(run, predicate)
        return found


def on_a_thread(following: Following) -> None:
    """Run *following* on another thread, which does not delay the exit of the process."""
    threading.Thread(target=lambda: asyncio.run(following), name="weft-notebook", daemon=True).start()


def in_the_loop(following: Following) -> None:
    """Run *following* in the event loop of the caller."""
    task = asyncio.ensure_future(following)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


_tasks: Final[set[asyncio.Future[None]]] = set()
"""The tasks that follow runs: an event loop keeps no reference to them."""


def show(handle: Any, runner: Reading, start: Callable[[Following], object]) -> None:
    """Display *handle*, and *start* to follow its run until it has finished; in a terminal, display its text."""
    ipython, display = import_module("IPython"), import_module("IPython.display")
    text = {"text/plain": repr(handle)}
    if getattr(ipython.get_ipython(), "kernel", None) is None:  # a terminal cannot replace what it has shown
        display.display(text, raw=True)
        return
    place = uuid4().hex
    display.display(text, raw=True, display_id=place)

    def put(svg: str) -> None:
        display.update_display({"image/svg+xml": svg, **text}, raw=True, display_id=place)

    start(follow(handle, runner, put))


async def follow(handle: Any, runner: Reading, put: Callable[[str], None]) -> None:
    """Pass a picture of the run of *handle* to *put* now, and whenever it has changed, until it has finished."""
    try:
        async for run in _states(handle, runner):
            put(await asyncio.to_thread(run.to_svg))  # a large one takes a moment
    except WeftError:  # the runner was closed, or the run was deleted: the last picture stays
        return


async def _states(handle: Any, runner: Reading) -> AsyncGenerator[Run, None]:
    """Yield the run as it is now, and whenever it has changed, until it has finished or is parked."""
    run = await runner.get(handle)
    yield run
    while run.status not in FINISHED and run.status != "parked":
        seen = _mark(run)
        await asyncio.sleep(_SHORTEST_PAUSE)
        await runner.wait_until(handle, lambda run, seen=seen: _mark(run) != seen)  # type: ignore[misc]
        run = await runner.get(handle)
        yield run


def _mark(run: Run) -> tuple[int, str]:
    """Return something that is another one after every change of *run*."""
    return len(run.memory.log), run.status
