"""Threads on virtual time: they run in between turns, wait for the loop, and take the same turns every time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from weft.testing import VirtualLoop, run_virtually
from weft.testing.faults import Crash


def asking(loop: asyncio.AbstractEventLoop, name: str, seen: list[Any], *seconds: float) -> Any:
    """Return a function that has the loop sleep, again and again, and notes when it goes on."""

    async def sleep(duration: float) -> float:
        await asyncio.sleep(duration)
        return loop.time()

    def call() -> str:
        for duration in seconds:
            now = asyncio.run_coroutine_threadsafe(sleep(duration), loop).result()
            seen.append((name, now))
        return name

    return call


def test_a_function_on_a_thread_waits_for_the_loop_in_virtual_time() -> None:
    seen: list[Any] = []

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        calls = asking(loop, "a", seen, 3600.0, 1.0), asking(loop, "b", seen, 3600.5)
        return await asyncio.gather(*(loop.in_thread(call) for call in calls))

    given = run_virtually(main())

    assert given == ["a", "b"]
    assert seen == [("a", 3600.0), ("b", 3600.5), ("a", 3601.0)]


def test_threads_that_go_on_at_once_always_do_so_in_the_same_order() -> None:
    stories: list[list[Any]] = []

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        seen: list[Any] = []
        stories.append(seen)
        await asyncio.gather(*(loop.in_thread(asking(loop, name, seen, 1.0, 0.0, 1.0)) for name in "abcde"))
        seen.append(loop.turns)

    for _ in range(20):
        run_virtually(main())

    assert all(story == stories[0] for story in stories)


def test_a_thread_whose_process_dies_gets_no_further() -> None:
    seen: list[Any] = []
    threads: list[threading.Thread] = []

    def before_turn(number: int) -> None:
        if number == 6:
            raise Crash

    loop = VirtualLoop(before_turn=before_turn)

    def call() -> None:
        threads.append(threading.current_thread())
        with pytest.raises(Crash):
            asking(loop, "a", seen, 1e9)()
        with pytest.raises(Crash):
            asking(loop, "a", seen, 0.0)()

    async def main() -> None:
        await loop.in_thread(call)

    with pytest.raises(Crash):
        loop.run_until_complete(main())
    loop.kill()

    assert seen == []
    assert not threads[0].is_alive()


def test_a_thread_that_had_no_turn_when_its_process_died_never_runs() -> None:
    called: list[int] = []
    loop = VirtualLoop()

    async def main() -> None:
        loop.in_thread(lambda: called.append(1))
        raise SystemExit  # which no turn survives

    with pytest.raises(SystemExit):
        loop.run_until_complete(main())
    loop.kill()

    assert called == []
