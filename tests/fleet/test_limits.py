"""Limits that hold across a fleet: the counters of workers against a real server, and workers that are killed."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import limit_flows as flows
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import workers

from weft import Client
from weft.fleet import decisions
from weft.fleet.limits import SharedCounters
from weft.policy import CircuitBreaker, ConcurrencyLimit, RateLimit
from weft.policy import limits as policy
from weft.stores import PostgresStore

PATIENCE = 60.0
FLOWS = Path(__file__).parent / "limit_flows.py"
DOOR = ConcurrencyLimit("door", 4)


def until(found: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end
        time.sleep(0.01)


class Fleet:
    """Counters of several workers, each with its own store."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.stores: list[PostgresStore] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def counters(self, **options: Any) -> SharedCounters:
        store = PostgresStore(self._dsn)
        await store.open()
        self.stores.append(store)
        made = SharedCounters(store, **options)
        self.tasks.append(asyncio.create_task(made.run()))
        return made

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)
        for store in self.stores:
            await store.close()


def on_fleet(dsn: str, act: Callable[[Fleet], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        fleet = Fleet(dsn)
        async with asyncio.timeout(PATIENCE):
            try:
                await act(fleet)
            finally:
                await fleet.close()

    asyncio.run(main())


async def taken(counters: SharedCounters, limit: ConcurrencyLimit = DOOR) -> None:
    """Wait for a place, as an attempt does."""
    key = ("concurrency_limit", limit.name)
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    stop = counters.on_change(key, lambda: loop.call_soon_threadsafe(changed.set))
    try:
        while not counters.update(key, lambda state: policy.place_asked(limit, state), limit):
            await changed.wait()
            changed.clear()
    finally:
        stop()


def left(counters: SharedCounters, limit: ConcurrencyLimit = DOOR) -> None:
    counters.update(("concurrency_limit", limit.name), lambda state: (policy.place_left(state), None), limit)


def test_workers_together_have_as_many_places_as_the_limit_has(dsn: str) -> None:
    inside = most = done = 0

    async def attempt(counters: SharedCounters) -> None:
        nonlocal inside, most, done
        await taken(counters)
        inside += 1
        most = max(most, inside)
        assert inside <= DOOR.limit
        await asyncio.sleep(0.01)
        inside -= 1
        done += 1
        left(counters)

    async def act(fleet: Fleet) -> None:
        three = [await fleet.counters() for _ in range(3)]
        await asyncio.gather(*(attempt(each) for each in three for _ in range(30)))
        assert done == 90
        assert most == DOOR.limit

    on_fleet(dsn, act)


def test_a_worker_that_wants_a_place_gets_one_although_another_could_use_all(dsn: str) -> None:
    async def act(fleet: Fleet) -> None:
        greedy, modest = await fleet.counters(), await fleet.counters()
        is_over = False

        async def again_and_again() -> None:
            while not is_over:
                await taken(greedy)
                await asyncio.sleep(0.02)
                left(greedy)

        flood = [asyncio.create_task(again_and_again()) for _ in range(12)]
        while greedy.states().get(("concurrency_limit", "door")) != policy.UseState(4):  # noqa: ASYNC110 - another task decides when
            await asyncio.sleep(0.01)
        await taken(modest)
        left(modest)
        is_over = True
        await asyncio.gather(*flood)

    on_fleet(dsn, act)


def test_the_places_of_a_dead_worker_are_free_when_their_time_ends(dsn: str) -> None:
    async def act(fleet: Fleet) -> None:
        dead, living = await fleet.counters(lease=1.0), await fleet.counters()
        for _ in range(DOOR.limit):
            await taken(dead)
        fleet.tasks[0].cancel()

        await taken(living)  # raises TimeoutError if that never comes

        assert not dead.update(("concurrency_limit", "door"), lambda state: policy.place_asked(DOOR, state), DOOR)

    on_fleet(dsn, act)


def test_a_worker_that_is_not_sure_of_its_places_starts_nothing(dsn: str) -> None:
    async def act(fleet: Fleet) -> None:
        clock = time.monotonic()
        counters = await fleet.counters(lease=3600.0, monotonic=lambda: clock)
        await taken(counters)
        left(counters)
        await taken(counters)
        clock += 3500.0

        assert not counters.update(("concurrency_limit", "door"), lambda state: policy.place_asked(DOOR, state), DOOR)

    on_fleet(dsn, act)


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="needs a clock that goes on while the machine sleeps")
def test_places_end_while_the_machine_sleeps(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, slept = time.clock_gettime, 0.0

    async def act(fleet: Fleet) -> None:
        nonlocal slept
        counters = await fleet.counters(lease=3600.0)
        await taken(counters)
        left(counters)
        assert counters.update(("concurrency_limit", "door"), lambda state: policy.place_asked(DOOR, state), DOOR)
        left(counters)
        slept = 3500.0  # other workers may have the places now

        assert not counters.update(("concurrency_limit", "door"), lambda state: policy.place_asked(DOOR, state), DOOR)

    monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) + slept)
    on_fleet(dsn, act)


def looked_at(rate: RateLimit, state: policy.RateState | None, *, now: float) -> tuple[policy.RateState, float]:
    return state or policy.RateState(), policy.rate_wait(rate, state, now=now)


def test_the_turns_of_all_workers_follow_the_rate(dsn: str) -> None:
    rate, starts = RateLimit("pace", 50, per=1.0, burst=3), list[float]()
    key = ("rate_limit", "pace")

    async def act(fleet: Fleet) -> None:
        clocks = [0.0, 3600.0]  # one of them is wrong by an hour
        two = [await fleet.counters(now=lambda shift=shift: time.monotonic() + shift) for shift in clocks]

        async def shifted(counters: SharedCounters, shift: float) -> None:
            while True:
                now = time.monotonic() + shift
                if counters.update(key, partial(policy.rate_taken, rate, now=now), rate):
                    starts.append(now - shift)
                    return
                wait = counters.update(key, partial(looked_at, rate, now=now), rate)
                await asyncio.sleep(min(wait, 0.02) + 0.001)

        await asyncio.gather(*(shifted(two[number % 2], clocks[number % 2]) for number in range(40)))

    on_fleet(dsn, act)
    starts.sort()
    allowed = rate.burst + rate.limit / 10 + 1  # a burst, and the turns of a tenth of a second
    for first, at in enumerate(starts):
        within = sum(1 for each in starts[first:] if each <= at + 0.2)
        assert within <= 0.2 * rate.limit + allowed


def test_a_breaker_that_opens_in_one_worker_is_open_in_the_others(dsn: str) -> None:
    breaker = CircuitBreaker("api", failure_threshold=3, reset_timeout=600.0)
    key = ("circuit_breaker", "api")

    def asked(counters: SharedCounters, now: float) -> str:
        return counters.update(key, lambda state: policy.breaker_asked(breaker, state, now=now), breaker)

    def failed(counters: SharedCounters, now: float) -> None:
        counters.update(key, lambda state: (policy.breaker_settled(breaker, state, ok=False, now=now), None), breaker)

    async def act(fleet: Fleet) -> None:
        shift = 7200.0  # the clock of the second one
        first = await fleet.counters()
        second = await fleet.counters(now=lambda: time.monotonic() + shift)
        assert asked(first, time.monotonic()) == asked(second, time.monotonic() + shift) == "go"
        failed(first, time.monotonic())
        failed(second, time.monotonic() + shift)
        failed(first, time.monotonic())

        while asked(second, time.monotonic() + shift) != "refuse":  # noqa: ASYNC110 - another task decides when
            await asyncio.sleep(0.02)
        while asked(first, time.monotonic()) != "refuse":  # noqa: ASYNC110 - another task decides when
            await asyncio.sleep(0.02)
        third = await fleet.counters()
        while asked(third, time.monotonic()) != "refuse":  # noqa: ASYNC110 - another task decides when
            await asyncio.sleep(0.02)
        assert asked(second, time.monotonic() + shift + 601.0) == "probe"

    on_fleet(dsn, act)


def test_a_limit_holds_while_workers_are_killed(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed worker leaves what it had entered; its places come back when their time ends."""
    monkeypatch.setenv("FLEET_NOTES", str(tmp_path / "notes"))
    with Client(dsn) as client, workers(dsn, tmp_path, FLOWS) as fleet:
        started = [fleet.start("--concurrency", "10", lease=4.0, pause=0.05) for _ in range(2)]
        until(lambda: (tmp_path / "errors").read_text().count("is ready") == 2)
        handles = client.start_many(flows.few, range(24))
        until(lambda: len(fleet.noted("leave")) > 5)
        doomed = next(each for each in started if str(each.pid) == fleet.noted("enter")[-1][0])
        others = [each for each in started if each is not doomed]
        doomed.send_signal(signal.SIGKILL)
        doomed.wait()

        assert handles.gather(timeout=PATIENCE) == list(range(24))

        inside, most = set[tuple[str, str]](), 0
        for process, run, word, _ in fleet.noted():
            if word == "enter":
                inside.add((process, run))
            else:
                inside.discard((process, run))
            living = {each for each in inside if each[0] != str(doomed.pid)}
            most = max(most, len(living))
        assert 1 <= most <= flows.LIMIT
        (shown,) = client.limits()
        assert (shown.kind, shown.name, shown.rule) == ("concurrency_limit", "door", f"{flows.LIMIT} at once")
        for process in others:
            process.terminate()
            assert process.wait(PATIENCE) == 0
        until(lambda: [each.workers for each in client.limits()] == [0])


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 100))
def test_no_more_is_asked_for_than_the_limit_has(used: int, waiting: int, limit: int) -> None:
    asked = decisions.places_to_take(min(used, limit), waiting, limit)

    assert min(used, limit) <= asked <= limit
    assert asked > min(used, limit) or not waiting or used >= limit
