"""A connection that many callers use in turn: what each of them waits for, and what is left when one goes away."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from weft.errors import StoreUnavailable
from weft.stores.postgres.connection import Connection


class Database:
    """A connection of the driver, of which only the ends matter here."""

    def is_closed(self) -> bool:
        return False

    async def close(self, *, timeout: float) -> None:
        pass

    def terminate(self) -> None:
        pass


def inside(act: Callable[[Connection], Awaitable[Any]]) -> Any:
    """Do something with an open connection, and see that the loop has nothing to complain of."""
    complaints: list[dict[str, Any]] = []

    async def connect() -> Database:
        return Database()

    async def main() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        connection = Connection(connect, "the store", is_prepared=True)
        answer = await act(connection)
        await connection.close(5.0)
        return answer

    answer = asyncio.run(main())
    gc.collect()
    assert complaints == []
    return answer


def test_a_caller_goes_on_in_the_round_after_its_work_has_ended() -> None:
    rounds = ended = 0

    async def count() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    async def work(_: Any) -> str:
        nonlocal ended
        await asyncio.sleep(0)
        ended = rounds
        return "done"

    async def act(connection: Connection) -> str:
        counting = asyncio.create_task(count())
        answer = await connection.call(work)
        counting.cancel()
        return answer

    assert inside(act) == "done"
    assert rounds - ended <= 1  # every step of a lone run waits for this


def test_work_goes_on_without_the_caller_that_has_gone_away() -> None:
    async def act(connection: Connection) -> None:
        reached, gate, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def work(_: Any) -> None:
            reached.set()
            await gate.wait()
            ended.set()

        async def fail(_: Any) -> None:
            raise OSError("the network is gone")

        caller, other = asyncio.create_task(connection.call(work)), asyncio.create_task(connection.call(fail))
        await reached.wait()
        caller.cancel()
        other.cancel()  # it waits for its turn, and fails later
        assert [type(each) for each in await asyncio.gather(caller, other, return_exceptions=True)] == (
            [asyncio.CancelledError] * 2
        )
        gate.set()
        await ended.wait()

    inside(act)


def test_a_caller_gets_the_error_of_its_work() -> None:
    async def act(connection: Connection) -> None:
        async def fail(_: Any) -> None:
            raise OSError("the network is gone")

        with pytest.raises(StoreUnavailable, match="the network is gone"):
            await connection.call(fail)

    inside(act)


def test_a_caller_is_cancelled_if_everything_is() -> None:
    async def act(connection: Connection) -> None:
        async def work(_: Any) -> None:
            await asyncio.Event().wait()

        caller = asyncio.create_task(connection.call(work))
        await asyncio.sleep(0)
        for task in connection._tasks:
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller

    inside(act)
