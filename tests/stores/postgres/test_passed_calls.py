"""Calls for workers in a busy fleet: each reaches one that has room, whatever the others know of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from weft.ports.calls import Call
from weft.stores.postgres.presence import Presence, WorkerReport
from weft.stores.postgres.queue_watch import BETWEEN, FOR_ALL, QueueWatch
from weft.testing import run_virtually

SIZE = 10


class Fleet:
    """
    Workers of which some are *full*; they receive what each of them sends, as from PostgreSQL.

    Args:
        known: which of them all believe to be full.
        dead: which of them receive nothing.
    """

    def __init__(self, full: set[int], known: set[int], dead: frozenset[int] = frozenset()) -> None:
        self.full, self.dead, self.sent = full, dead, list[str]()
        self.looked: set[int] = set()
        self.watches = [self._watch(rank, known) for rank in range(SIZE)]

    def _watch(self, rank: int, known: set[int]) -> QueueWatch:
        presence = Presence()
        presence.report = WorkerReport(worker=f"w{rank}", state="working")
        others = [place for place in range(SIZE) if place != rank]
        presence.receive("", 1, [int(place in known) for place in others], [1] * (SIZE - 1), rank)
        told: Callable[[], object] = lambda: self._tell(rank)  # noqa: E731
        return QueueWatch(presence, told, (), self.send)

    async def send(self, payloads: list[str]) -> None:
        self.sent += payloads
        for payload in payloads:
            for rank, watch in enumerate(self.watches):
                if rank not in self.dead:
                    watch.receive(payload)

    def _tell(self, rank: int) -> None:
        asyncio.get_running_loop().call_soon(self._look, rank)

    def _look(self, rank: int) -> None:
        watch = self.watches[rank]
        if rank in self.full:
            self.passing = asyncio.ensure_future(watch.pass_on())
        else:
            self.looked.add(rank)
            watch.answered()

    def stop(self) -> None:
        for each in self.watches:
            each.stop()


async def turns() -> None:
    """Let all happen that takes no time."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "known", [pytest.param({0, 1, 2, 3}, id="half known"), pytest.param(set(range(SIZE)), id="stale")]
)
def test_a_call_reaches_a_worker_with_room_at_once(known: set[int]) -> None:
    async def main() -> None:
        for draw in range(50):
            fleet = Fleet(full=set(range(SIZE)) - {7}, known=known)
            await fleet.send([Call(1, draw / 50).text])
            await turns()
            fleet.stop()
            assert fleet.looked == {7}

    run_virtually(main())


def test_a_deputy_without_room_passes_the_call_of_a_dead_worker_on() -> None:
    async def main() -> None:
        fleet = Fleet(full={1}, known={0, 1}, dead=frozenset({0}))  # it is not passed back to the dead one
        await fleet.send([Call(1, 0.0).text])
        await asyncio.sleep(1.0)
        fleet.stop()
        assert fleet.looked

    run_virtually(main())


def test_a_worker_without_room_passes_all_calls_on() -> None:
    async def main() -> None:
        fleet = Fleet(full={0}, known={0})
        await fleet.send([Call(1, 0.0).text] * 5)
        await turns()
        fleet.stop()
        passed = [Call.read(each) for each in fleet.sent[5:]]
        assert [each.hops for each in passed if each is not None] == [1] * 5
        assert len(fleet.looked) == 5, "one call each"

    run_virtually(main())


def test_a_fleet_without_room_is_not_flooded_with_calls() -> None:
    async def main() -> None:
        fleet = Fleet(full=set(range(SIZE)), known=set(range(SIZE)))
        for i in range(100):
            await fleet.send([Call(1, i / 100).text])
            await asyncio.sleep(BETWEEN / 100)
        fleet.stop()
        assert fleet.sent.count(FOR_ALL) <= 3
        assert len(fleet.sent) <= 103

    run_virtually(main())
