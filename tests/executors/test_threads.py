"""Execution on threads."""

from __future__ import annotations

import asyncio
import contextvars
import random
import subprocess
import sys
import threading
from textwrap import dedent

import pytest

from weft.errors import ThreadsExhausted
from weft.executors import ThreadExecutor
from weft.testing.contracts.executor import ConcurrentExecutorContract
from weft.testing.contracts.gate import Gate, knock
from weft.testing.contracts.lending import LendingExecutorContract
from weft.testing.contracts.owner import Owner, in_a_loop
from weft.testing.contracts.steps import double

colour = contextvars.ContextVar("colour", default="none")


class TestThreadExecutor(ConcurrentExecutorContract):
    """The contract."""

    stops = False

    @pytest.fixture
    def executor(self) -> ThreadExecutor:
        return ThreadExecutor(3, capacity=20)


class TestLending(LendingExecutorContract):
    """The contract of places that are lent."""

    @pytest.fixture
    def executor(self) -> ThreadExecutor:
        return ThreadExecutor(2, capacity=2)


@in_a_loop
async def test_no_more_threads_stay_than_there_were_before_some_waited() -> None:
    executor = ThreadExecutor(1)
    owner = Owner(executor)
    async with Gate() as gate:
        for ticket in range(4):
            owner.submit(ticket, knock, gate.address)
            await gate.until(lambda: gate.came == ticket + 1)  # noqa: B023 - it is over before the next one
            executor.lend(ticket)
        for ticket in range(4):
            executor.reclaim(ticket)
        gate.open()
        await owner.until(lambda: len(owner.outcomes) == 4)
    threads = list(executor._threads)  # pyright: ignore[reportPrivateUsage]
    owner.submit(5, lambda x: threading.current_thread(), 1)
    last = await owner.result(5)
    for thread in threads:
        if thread is not last.result:
            await asyncio.to_thread(thread.join, 10)

    assert [thread for thread in threads if thread.is_alive()] == [last.result]
    await owner.close()


@in_a_loop
async def test_a_coroutine_is_run_to_its_end_in_a_loop_of_its_own() -> None:
    async def loop(x: object) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    owner = Owner(ThreadExecutor())

    owner.submit(1, loop, 1)
    outcome = await owner.result(1)
    await owner.close()

    assert isinstance(outcome.result, asyncio.AbstractEventLoop)
    assert outcome.result is not asyncio.get_running_loop()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_what_is_not_an_exception_fails_the_attempt_and_spares_the_thread(kind: type[BaseException]) -> None:
    def raising(x: object) -> None:
        raise kind

    async def main() -> None:
        owner = Owner(ThreadExecutor(1))

        owner.submit(1, raising, 1)
        outcome = await owner.result(1)
        owner.submit(2, lambda x: threading.current_thread().name, 1)
        after = await owner.result(2)
        await owner.close()

        assert type(outcome.error) is kind
        assert after.result.startswith("weft-worker-")

    asyncio.run(main())


@in_a_loop
async def test_steps_see_the_context_in_which_it_was_opened() -> None:
    colour.set("green")
    owner = Owner(ThreadExecutor())
    colour.set("blue")

    owner.submit(1, lambda x: colour.get(), 1)
    outcome = await owner.result(1)
    await owner.close()

    assert outcome.result == "green"


@in_a_loop
async def test_threads_are_started_when_there_is_work_for_them() -> None:
    owner = Owner(ThreadExecutor(3))
    names = set()

    for ticket in range(10):
        owner.submit(ticket, lambda x: threading.current_thread().name, 1)
        names.add((await owner.result(ticket)).result)
    await owner.close()

    assert len(names) == 1


@in_a_loop
async def test_no_more_run_at_once_than_there_are_workers() -> None:
    executor = ThreadExecutor(2, capacity=5)
    owner = Owner(executor)
    async with Gate() as gate:
        for ticket in range(5):
            owner.submit(ticket, knock, gate.address)

        await gate.until(lambda: gate.came == 2)
        running = [ticket for ticket in range(5) if executor.started(ticket) is not None]
        gate.open()
        await owner.until(lambda: len(owner.outcomes) == 5)
    await owner.close()

    assert running == [0, 1]


@in_a_loop
async def test_what_is_cancelled_while_it_waits_never_runs() -> None:
    executor = ThreadExecutor(1, capacity=3)
    owner, ran = Owner(executor), []
    async with Gate() as gate:
        owner.submit(1, knock, gate.address)
        owner.submit(2, ran.append, "cancelled")
        owner.submit(3, ran.append, "kept")
        await gate.until(lambda: gate.came == 1)

        executor.cancel(2)
        waiting = executor.started(3)
        queued = executor.free
        gate.open()
        await owner.until(lambda: executor.free == 3)
    await owner.close()

    assert ran == ["kept"]
    assert waiting is None
    assert queued == 0, "what still stands in the queue takes its place"
    assert owner.order == [1, 3]


@in_a_loop
async def test_a_thread_that_is_left_behind_is_replaced() -> None:
    executor = ThreadExecutor(1)
    owner = Owner(executor)
    async with Gate() as gate:
        owner.submit(1, knock, gate.address)
        owner.submit(2, double, 2)
        await gate.until(lambda: gate.came == 1)

        executor.cancel(1)
        outcome = await owner.result(2)
        left = executor.left_behind
        gate.open()
        await owner.until(lambda: executor.left_behind == 0)
    await owner.close()

    assert (outcome.result, left) == (4, 1)
    assert list(owner.outcomes) == [2]


@in_a_loop
async def test_with_too_many_left_behind_it_refuses_and_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    executor = ThreadExecutor(1, max_left=1)
    owner = Owner(executor)
    async with Gate() as gate:
        for ticket in (1, 2):
            owner.submit(ticket, knock, gate.address)
            await gate.until(lambda ticket=ticket: gate.came == ticket)
            if ticket == 2:
                owner.submit(3, double, 3)
            executor.cancel(ticket)

        is_full = executor.free == 0
        with pytest.raises(ThreadsExhausted, match="process executor"):
            owner.submit(4, double, 4)
        gate.open()
        waiting = await owner.result(3)
        await owner.until(lambda: executor.left_behind == 0)
        owner.submit(5, double, 5)
        recovered = await owner.result(5)
        free = executor.free
    await owner.close()

    assert is_full
    assert waiting.result == 6, "what waited has not failed for it"
    assert "continue when one of them ends" in caplog.text
    assert recovered.result == 10
    assert free == executor.capacity


@in_a_loop
async def test_closing_names_what_never_began() -> None:
    executor = ThreadExecutor(1)
    owner = Owner(executor)
    async with Gate() as gate:
        owner.submit(1, knock, gate.address)
        owner.submit(2, double, 2)
        await gate.until(lambda: gate.came == 1)

        closing = asyncio.ensure_future(owner.close())
        await asyncio.sleep(0)
        gate.open()
        given_up = await closing
        owner.collect()

    assert given_up == [2]
    assert list(owner.outcomes) == [1]


@pytest.mark.parametrize("seed", range(5))
def test_every_ticket_ends_once_however_cancelling_and_ending_meet(seed: int) -> None:
    """Threads are switched as often as possible; half of the tickets are cancelled at some moment of their lives."""
    draw = random.Random(seed)  # noqa: S311
    executor = ThreadExecutor(3, capacity=30, max_left=200)

    async def main() -> tuple[Owner, set[int]]:
        owner, cancelled = Owner(executor), set[int]()
        inside: list[int] = []
        for ticket in range(1000):
            if executor.free == 0:
                await owner.until(lambda: executor.free > 0)
            owner.submit(ticket, double, ticket)
            inside.append(ticket)
            if draw.random() < 0.5:
                victim = inside.pop(draw.randrange(len(inside)))
                if victim not in owner.outcomes:
                    executor.cancel(victim)
                    cancelled.add(victim)
            if draw.random() < 0.1:
                await asyncio.sleep(0)
        await owner.until(lambda: executor.free == 30 and executor.left_behind == 0)
        await owner.close()
        return owner, cancelled

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        owner, cancelled = asyncio.run(main())
    finally:
        sys.setswitchinterval(before)

    assert owner.outcomes.keys() & cancelled == set()
    assert owner.outcomes.keys() | cancelled == set(range(1000))
    assert all(outcome.result == 2 * ticket for ticket, outcome in owner.outcomes.items())


def test_a_hanging_thread_does_not_delay_the_exit() -> None:
    program = dedent("""
        import asyncio, threading
        from weft.executors import ThreadExecutor
        from weft.testing.contracts.owner import Owner

        begun = threading.Event()

        def hang(x):
            begun.set()
            threading.Event().wait()

        async def main():
            owner = Owner(ThreadExecutor())
            owner.submit(1, hang, 1)
            await asyncio.to_thread(begun.wait)
            print(await owner.close(0))

        asyncio.run(main())
    """)

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "[1]\n", "")


def test_a_late_result_after_the_loop_is_gone_disturbs_nothing() -> None:
    begun, go = threading.Event(), threading.Event()
    threads = []

    def late(x: object) -> None:
        threads.append(threading.current_thread())
        begun.set()
        go.wait(60)

    async def main() -> None:
        owner = Owner(ThreadExecutor())
        owner.submit(1, late, 1)
        await asyncio.to_thread(begun.wait)
        await owner.close(0)

    asyncio.run(main())
    go.set()
    threads[0].join(60)

    assert not threads[0].is_alive()


@pytest.mark.parametrize("wrong", [{"max_workers": 0}, {"capacity": 0}, {"max_left": -1}])
def test_a_bound_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ThreadExecutor(**wrong)
