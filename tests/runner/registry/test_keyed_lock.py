"""Runs on their way into a runner: one at a time each, in order, also if one of them gives up."""

from __future__ import annotations

import asyncio

import pytest

from weft.runner.registry.keyed_lock import KeyedLock


class Visits:
    """The names of those that were in, in order, and how many at once at most."""

    def __init__(self) -> None:
        self.locks = KeyedLock()
        self.order: list[str] = []
        self.inside = self.most = 0
        self.door = asyncio.Event()

    async def visit(self, name: str, run: str = "r") -> None:
        async with self.locks.lock(run):
            self.order.append(name)
            self.inside += 1
            self.most = max(self.most, self.inside)
            try:
                await self.door.wait()
            finally:
                self.inside -= 1


async def settled() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_those_that_want_the_same_run_come_one_by_one_and_in_order() -> None:
    async def main() -> Visits:
        visits = Visits()
        tasks = [asyncio.create_task(visits.visit(name)) for name in "abcd"]
        await settled()
        visits.door.set()
        await asyncio.gather(*tasks)
        return visits

    visits = asyncio.run(main())

    assert visits.order == list("abcd")
    assert visits.most == 1


def test_those_that_want_different_runs_do_not_wait_for_each_other() -> None:
    async def main() -> Visits:
        visits = Visits()
        tasks = [asyncio.create_task(visits.visit(name, run=name)) for name in "abc"]
        await settled()
        visits.door.set()
        await asyncio.gather(*tasks)
        return visits

    assert asyncio.run(main()).most == 3


def test_a_holder_that_fails_lets_the_next_one_in() -> None:
    async def main() -> list[str]:
        visits = Visits()
        with pytest.raises(ZeroDivisionError):
            async with visits.locks.lock("r"):
                raise ZeroDivisionError
        visits.door.set()
        await visits.visit("after")
        return visits.order

    assert asyncio.run(main()) == ["after"]


@pytest.mark.parametrize("is_let_in", [False, True], ids=["while waiting", "when it was its turn"])
def test_a_task_that_is_cancelled_is_passed_over(is_let_in: bool) -> None:
    async def main() -> list[str]:
        visits = Visits()
        tasks = [asyncio.create_task(visits.visit(name)) for name in "abc"]
        await settled()
        if is_let_in:
            tasks[0].cancel()
            await asyncio.sleep(0)
            assert not visits.inside  # a has left: b may come in, and does not know it yet
        tasks[1].cancel()
        await settled()
        visits.door.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        return visits.order

    assert asyncio.run(main()) == ["a", "c"]


def test_nothing_is_kept_of_those_that_have_arrived() -> None:
    async def main() -> Visits:
        visits = Visits()
        tasks = [asyncio.create_task(visits.visit(name)) for name in "ab"]
        await settled()
        tasks[1].cancel()
        visits.door.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        return visits

    assert asyncio.run(main()).locks._lines == {}
