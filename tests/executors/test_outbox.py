"""Outcomes that were not collected yet."""

from __future__ import annotations

import sys
import threading

import pytest

from weft.executors.outbox import Outbox


def test_the_owner_is_woken_again_after_it_has_taken() -> None:
    woken: list[int] = []
    outbox: Outbox[int] = Outbox(lambda: woken.append(1))

    outbox.put(1)
    outbox.put(2)
    first = outbox.take()
    outbox.put(3)
    second = outbox.take()

    assert (first, second, len(woken)) == ([1, 2], [3], 2)


def test_many_threads_lose_nothing_and_no_wake_up_is_missing() -> None:
    """An owner that only looks when woken gets everything: a missing wake-up would leave it waiting."""
    woken = threading.Semaphore(0)
    outbox: Outbox[int] = Outbox(woken.release)
    found: list[int] = []

    def put(start: int) -> None:
        for number in range(start, start + 500):
            outbox.put(number)

    threads = [threading.Thread(target=put, args=(start,)) for start in range(0, 4000, 500)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        while len(found) < 4000:
            assert woken.acquire(timeout=60)
            found += outbox.take()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)

    assert sorted(found) == list(range(4000))


def test_muted_it_does_not_wake_its_owner_and_keeps_what_comes() -> None:
    def wake() -> None:
        raise RuntimeError("the loop is gone")

    outbox: Outbox[int] = Outbox(wake)

    with pytest.raises(RuntimeError):
        outbox.put(1)
    outbox.take()
    outbox.mute()
    outbox.put(2)

    assert outbox.take() == [2]
