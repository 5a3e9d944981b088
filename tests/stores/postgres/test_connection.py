"""A connection that many callers use in turn: what each of them waits for, and what is left when one goes away."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from weft.errors import StoreError, StoreUnavailable
from weft.stores.postgres.connection import Connection


class Database:
    """A connection of the driver, to a server that answers when it is told to."""

    def __init__(self) -> None:
        self.prepared = 0
        """How many statements were prepared."""
        self.executed: list[tuple[Any, ...]] = []
        """The values of statements that were prepared and executed."""
        self.reached, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.problem: Exception | None = None
        self.status = "INSERT 0 1"
        self.is_terminated = False

    def is_closed(self) -> bool:
        return self.is_terminated

    async def close(self, *, timeout: float) -> None:
        pass

    def terminate(self) -> None:
        self.is_terminated, self.problem = True, ConnectionResetError("it was closed")
        self.gate.set()

    async def execute(self, statement: str) -> str:
        return statement

    async def prepare(self, _: str) -> Database:
        self.prepared += 1
        return self

    async def fetch(self, *values: Any, timeout: object) -> list[Any]:
        self.executed.append(values)
        self.reached.set()
        await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        return []

    def get_statusmsg(self) -> str:
        return self.status


def refused_by_the_server(code: str) -> Exception:
    error = Exception("no")
    error.sqlstate = code  # type: ignore[attr-defined]
    return error


def inside(act: Callable[[Connection], Awaitable[Any]], *, is_prepared: bool = True, timeout: float = 60.0) -> Any:
    """Do something with an open connection, and see that the loop has nothing to complain of."""
    complaints: list[dict[str, Any]] = []

    async def connect() -> Database:
        return Database()

    async def main() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        connection = Connection(connect, "the store", is_prepared=is_prepared, timeout=timeout)
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


# -- one statement of a lone run -----------------------------------------------------------------


async def database_of(connection: Connection) -> Database:
    """Return the connection of the driver, once it is there."""

    async def found(db: Database) -> Database:
        return db

    return await connection.call(found)


def test_the_caller_sends_a_statement_itself() -> None:
    async def act(connection: Connection) -> None:
        db = await database_of(connection)
        tasks = asyncio.all_tasks()

        db.gate.clear()
        caller = asyncio.create_task(connection.insert("insert", (1, 2)))
        await db.reached.wait()

        assert asyncio.all_tasks() - tasks == {caller}
        db.gate.set()
        assert await caller
        assert await connection.insert("insert", (3, 4))
        assert db.executed == [(1, 2), (3, 4)]
        assert db.prepared == 1

    inside(act)


def test_a_statement_that_inserts_nothing_says_so() -> None:
    async def act(connection: Connection) -> None:
        db = await database_of(connection)
        db.status = "INSERT 0 0"

        assert not await connection.insert("insert", ())

    inside(act)


@pytest.mark.parametrize("is_prepared", [True, False])
def test_without_a_connection_that_keeps_statements_nothing_is_sent(is_prepared: bool) -> None:
    async def act(connection: Connection) -> None:
        assert not await connection.insert("insert", ())

    inside(act, is_prepared=is_prepared)


@pytest.mark.parametrize("code", ["40001", "40P01", "22021", "26000"])
def test_what_the_server_refuses_is_left_to_the_general_way_and_prepared_again(code: str) -> None:
    async def act(connection: Connection) -> None:
        db = await database_of(connection)
        db.problem = refused_by_the_server(code)
        assert not await connection.insert("insert", ())
        db.problem = None

        assert await connection.insert("insert", ())
        assert db.prepared == 2

    inside(act)


@pytest.mark.parametrize("problem", [ConnectionResetError("gone"), refused_by_the_server("57P01")])
def test_a_lost_connection_leaves_it_in_doubt_whether_the_row_is_there(problem: Exception) -> None:
    async def act(connection: Connection) -> None:
        db = await database_of(connection)
        db.problem = problem

        with pytest.raises(StoreUnavailable):
            await connection.insert("insert", ())

        assert db.is_terminated
        assert await database_of(connection) is not db
        assert await connection.insert("insert", ())

    inside(act)


def test_another_error_is_raised() -> None:
    async def act(connection: Connection) -> None:
        (await database_of(connection)).problem = RuntimeError("the driver is wrong")

        with pytest.raises(StoreError, match="the driver is wrong"):
            await connection.insert("insert", ())

    inside(act)


def test_a_caller_that_goes_away_makes_room_for_the_next_one() -> None:
    async def act(connection: Connection) -> None:
        db = await database_of(connection)
        db.gate.clear()
        leaving, waiting = (asyncio.create_task(connection.insert("insert", (number,))) for number in (1, 2))
        await db.reached.wait()

        leaving.cancel()
        await asyncio.wait([leaving])
        db.gate.set()

        assert leaving.cancelled()
        assert await waiting
        assert db.executed == [(1,), (2,)]

    inside(act)


def test_a_statement_that_is_not_answered_in_time_is_in_doubt() -> None:
    async def act(connection: Connection) -> None:
        db = await database_of(connection)
        db.gate.clear()

        with pytest.raises(StoreUnavailable, match=r"no answer for 0\.01 s"):
            await connection.insert("insert", ())

        assert db.is_terminated

    inside(act, timeout=0.01)


def test_a_connection_that_is_closed_does_not_wait_for_ever_for_a_statement() -> None:
    async def act(connection: Connection) -> None:
        db = await database_of(connection)
        db.gate.clear()
        caller = asyncio.create_task(connection.insert("insert", ()))
        await db.reached.wait()

        await connection.close(0.0)
        db.terminate()  # what the driver does when it is closed in the middle of a statement

        with pytest.raises(StoreUnavailable):
            await caller

    inside(act)
