"""Work that goes on when its callers are cancelled, and whose errors reach those that still wait."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from weft.shield import shielded


class Told:
    """The reports to the loop of errors that are not handled, which it would log."""

    def __init__(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._tell)
        self.messages: list[str] = []

    def _tell(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.messages.append(context["message"])


async def result_of(work: asyncio.Future[int]) -> int:
    return await shielded(work)


async def cancelled_caller(work: asyncio.Future[int]) -> None:
    caller = asyncio.create_task(result_of(work))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled()


def test_a_caller_gets_the_result_whether_the_work_is_done_or_not() -> None:
    async def main() -> None:
        work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        caller = asyncio.create_task(result_of(work))
        await asyncio.sleep(0)
        work.set_result(7)

        assert (await caller, await result_of(work)) == (7, 7)

    asyncio.run(main())


def test_cancelling_a_caller_leaves_the_work_alone() -> None:
    async def main() -> None:
        work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        await cancelled_caller(work)

        assert not work.done()
        work.set_result(7)
        assert await result_of(work) == 7

    asyncio.run(main())


def test_an_error_reaches_the_caller_that_still_waits_and_the_loop_hears_nothing() -> None:
    async def main() -> None:
        told = Told()
        work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        patient = asyncio.create_task(result_of(work))
        await cancelled_caller(work)
        work.set_exception(ValueError("no"))

        with pytest.raises(ValueError, match="no"):
            await patient
        assert told.messages == []

    asyncio.run(main())


def test_an_error_that_reaches_no_caller_is_reported_to_the_loop() -> None:
    async def main() -> None:
        told = Told()
        work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        await cancelled_caller(work)
        work.set_exception(ValueError("no"))
        del work
        gc.collect()

        assert told.messages == ["Future exception was never retrieved"]

    asyncio.run(main())


def test_work_that_is_cancelled_cancels_its_callers() -> None:
    async def main() -> None:
        work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        caller = asyncio.create_task(result_of(work))
        await asyncio.sleep(0)
        work.cancel()

        with pytest.raises(asyncio.CancelledError):
            await caller

    asyncio.run(main())
