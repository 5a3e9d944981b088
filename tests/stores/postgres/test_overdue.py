"""The timer that many statements share: an answer is given up when its time is over, no sooner and no later."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from weft.stores.postgres.overdue import Overdue
from weft.testing.loop import run_virtually

SECONDS = 60.0


def given_up(statements: list[tuple[float, float]]) -> float | None:
    """Execute *statements*, each after a pause and for a while; return when one was given up, None if none was."""

    async def main() -> float | None:
        loop = asyncio.get_running_loop()
        over: asyncio.Future[float] = loop.create_future()
        overdue = Overdue(SECONDS, lambda: over.set_result(loop.time()))
        for pause, duration in statements:
            await asyncio.sleep(pause)
            overdue.begin(overdue.now())
            await asyncio.wait([over], timeout=duration)
            assert overdue.is_over == over.done()
            if over.done():
                return over.result()
            overdue.end()
        await asyncio.sleep(3 * SECONDS)  # a timer that is left over has no effect
        overdue.stop()
        return over.result() if over.done() else None

    return run_virtually(main())


seconds = st.integers(0, 100).map(lambda tenths: 7.0 * tenths / 10)


@given(st.lists(st.tuples(seconds, seconds.filter(lambda each: each != SECONDS)), max_size=12))
def test_a_statement_is_given_up_exactly_when_its_own_time_is_over(statements: list[tuple[float, float]]) -> None:
    now, expected = 0.0, None
    for pause, duration in statements:
        now += pause
        if duration > SECONDS:
            expected = now + SECONDS
            break
        now += duration

    found = given_up(statements)

    assert (found is None) == (expected is None)
    assert found is None or expected is None or abs(found - expected) < 1e-6


def test_the_last_statement_of_a_store_leaves_no_timer() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        overdue = Overdue(SECONDS, lambda: None)
        overdue.begin(overdue.now())
        overdue.end()
        overdue.stop()
        overdue.stop()
        await asyncio.sleep(0)
        return loop.time()

    assert run_virtually(main()) == 0.0
