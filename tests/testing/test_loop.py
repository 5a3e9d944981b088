"""The loop on virtual time: nothing waits really, the order is always the same, and waiting forever is an error."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator

import pytest

from weft.errors import Stuck
from weft.testing import VirtualLoop, run_virtually
from weft.testing.faults import Crash


def test_time_jumps_to_the_next_timer_and_no_further() -> None:
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, asyncio.get_running_loop().time()))

    async def main() -> None:
        await asyncio.gather(sleeper("late", 86_400.0), sleeper("early", 0.25), sleeper("never", 86_400.0))

    run_virtually(main(), start=10.0)

    assert seen == [("early", 10.25), ("late", 86_410.0), ("never", 86_410.0)]


def test_time_stands_still_while_something_can_be_done() -> None:
    async def main() -> float:
        for _ in range(1_000):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run_virtually(main()) == 0.0


def test_timeouts_are_virtual() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3_600):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtually(main()) == 3_600.0


def test_a_time_since_the_epoch_is_not_an_endless_wait() -> None:
    """Rounding must not leave a timer a hair in the future, forever."""

    async def main() -> float:
        for wait in (0.001, 1e-7, 0.1, 1 / 3):
            await asyncio.sleep(wait)
        return asyncio.get_running_loop().time()

    assert run_virtually(main(), start=1_700_000_000.0) == pytest.approx(1_700_000_000.434, abs=0.001)


def test_waiting_for_ever_is_an_error_that_names_what_waits() -> None:
    async def patient() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        other = asyncio.get_running_loop().create_task(patient(), name="somebody else")
        await other

    with pytest.raises(Stuck, match=r"main.*somebody else at .*patient") as stuck:
        run_virtually(main())

    assert "find out what should have woken them" in str(stuck.value)


def test_threads_are_refused() -> None:
    async def main() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(NotImplementedError, match="does not work in virtual time"):
        run_virtually(main())


def test_a_killed_loop_lets_nobody_speak() -> None:
    said: list[str] = []

    async def main() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0)
            said.append("a last word")

    def before_turn(number: int) -> None:
        if number == 3:
            raise Crash

    loop = VirtualLoop(before_turn=before_turn)
    with pytest.raises(Crash):
        loop.run_until_complete(main())
    loop.kill()

    assert said == []
    assert loop.is_closed()


def test_an_async_generator_that_a_kill_drops_is_left_where_it_is_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    ends: list[str] = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            ends.append("numbers")

    async def main() -> None:
        async for _ in numbers():
            await asyncio.Event().wait()

    loop = VirtualLoop()
    task = loop.create_task(main())
    loop.run_until_complete(loop.quiet())
    loop.kill()
    del task
    gc.collect()

    assert ends == []
    assert [str(warning.message) for warning in recwarn] == []


def test_an_error_that_was_on_its_way_to_a_task_that_a_kill_drops_is_no_problem() -> None:
    async def fail() -> None:
        raise ValueError("on its way")

    async def main() -> None:
        failing = asyncio.ensure_future(fail())
        await asyncio.wait([failing])
        await asyncio.Event().wait()
        failing.result()

    loop = VirtualLoop()
    task = loop.create_task(main())
    loop.run_until_complete(loop.quiet())
    loop.kill()
    del task
    gc.collect()

    assert loop.problems == []
