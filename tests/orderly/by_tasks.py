"""
Tasks that use one asynchronous runner at once and cancel every call within milliseconds, also stopping and closing it.

A case has a few lives: a runner is opened on the file, used, and closed while it is used; the next one goes on with
what is stored.  Closing has all the time that it needs, so nothing is executed again in the next life.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from traffic import DEADLINE, LONG, Call, Caller, Ledger, examine, orders, print_tasks

from weft import AsyncRunner
from weft.errors import StoreUnavailable
from weft.stores import SQLiteStore
from weft.testing.wrapping import WrappedStore

T = TypeVar("T")

CALLERS = 30
_STEADY = frozenset({"open", "close", "exists", "find", "list", "delete", "purge"})
"""Calls that are answered at once: nothing waits for a store that cannot answer them."""


class Moody(WrappedStore):
    """A store that is slow, fails, and sometimes does what it says it did not."""

    def __init__(self, inner: SQLiteStore, dice: random.Random, faults: float) -> None:
        super().__init__(inner)
        self._dice, self._faults = dice, faults

    async def around(self, call: str, act: Callable[[], Awaitable[T]]) -> T:
        """Do it, or not."""
        if call in _STEADY:
            return await act()
        dice = self._dice
        await asyncio.sleep(dice.choice((0.0, 0.0, 0.001, 0.005)))
        if dice.random() < self._faults:
            raise StoreUnavailable("the moody store", "not now")
        result = await act()
        await asyncio.sleep(dice.choice((0.0, 0.0, 0.001, 0.005)))
        if dice.random() < self._faults:
            raise StoreUnavailable("the moody store", "it did it all the same")
        return result


class _Case:
    def __init__(self, seed: int, path: Path, calls: int, *, is_moody: bool) -> None:
        self.dice = random.Random(f"{seed} tasks")  # noqa: S311 - it should be the same every time
        self.path, self.calls, self.is_moody = path, calls, is_moody
        self.ledger = Ledger()
        self.ledger.is_moody = is_moody
        self.workflow = orders(self.ledger)
        self.callers = [Caller(seed, f"k{number}", self.workflow) for number in range(CALLERS)]
        self.hanging: list[str] = []

    async def live(self) -> None:
        """Open a runner, use it, and close it."""
        sqlite = SQLiteStore(self.path, synchronous="normal")
        store: Any = Moody(sqlite, self.dice, 0.04) if self.is_moody else sqlite
        self.ledger.is_closing = False
        runner = await AsyncRunner(store, grace=LONG).open()
        runner.register(self.workflow)
        enough, left = asyncio.Event(), [len(self.callers) * self.calls]
        tasks = [asyncio.create_task(self._use(runner, caller, enough, left)) for caller in self.callers]
        tasks += [asyncio.create_task(self._close(runner, enough)) for _ in range(2)]
        _, pending = await asyncio.wait(tasks, timeout=DEADLINE)
        if pending:
            print_tasks(asyncio.all_tasks())
            self.hanging += [task.get_name() for task in pending]
        for task in tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _use(self, runner: AsyncRunner, caller: Caller, enough: asyncio.Event, left: list[int]) -> None:
        for _ in range(self.calls):
            left[0] -= 1
            if left[0] < 0.1 * len(self.callers) * self.calls:
                enough.set()
            call = caller.next()
            if await self._made(runner, caller.dice, call):
                caller.done(call)
            await asyncio.sleep(caller.dice.choice((0.0, 0.001)))

    async def _made(self, runner: AsyncRunner, dice: random.Random, call: Call) -> bool:
        """Make a call and cancel it soon; return whether it has returned."""
        try:
            await _impatiently(call.of(runner), dice)
        except (TimeoutError, asyncio.CancelledError) as error:
            if isinstance(error, TimeoutError) and type(error) is not TimeoutError:  # one of Weft's
                self.ledger.raised(call, error)
            return False
        except BaseException as error:  # noqa: BLE001 - the ledger says whether it may
            self.ledger.raised(call, error)
            return False
        self.ledger.returned(call)
        return True

    async def _close(self, runner: AsyncRunner, enough: asyncio.Event) -> None:
        """Close the runner, and cancel that as soon, until it has returned."""
        await enough.wait()
        self.ledger.is_closing = True
        closing = Call("close", None, (), {})
        for _ in range(20):
            if await self._made(runner, self.dice, closing):
                return
        await runner.close()


async def _impatiently(work: Awaitable[T], dice: random.Random) -> T:
    """Await *work* for a few milliseconds, if at all; most callers set a timeout, some cancel, few wait for ever."""
    patience, way = dice.uniform(0.0, 0.01), dice.random()
    if way < 0.6:
        async with asyncio.timeout(patience):
            return await work
    task = asyncio.ensure_future(work)
    if way < 0.85:
        asyncio.get_running_loop().call_later(patience, task.cancel)
    return await task


def problems_of_tasks(seed: int, path: Path, *, calls: int = 10, lives: int = 2) -> tuple[list[str], Ledger]:
    """Return what is wrong after some tasks have made *calls* each in every life; and what happened."""
    case = _Case(seed, path, calls, is_moody=seed % 2 == 1)

    async def main() -> list[str]:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
        for _ in range(lives):
            await case.live()
            if case.hanging:
                return [*case.ledger.problems, f"these hang: {case.hanging}"]
        found = await asyncio.wait_for(examine(path, case.ledger, case.workflow), DEADLINE)
        return [*found, *(f"told to the loop: {problem}" for problem in problems)]

    return asyncio.run(main()), case.ledger
