"""Tests of the workers that look at the queue after a call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.ports.calls import BACKUP_DELAY, HOPS, Call

draws = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 50), st.integers(1, 100), draws)
def test_as_many_workers_look_as_there_are_runs_and_one_backup(size: int, count: int, draw: float) -> None:
    answers = [Call(count, draw).answered_after(rank, size) for rank in range(size)]

    assert answers.count(0.0) == min(size, count)
    assert answers.count(BACKUP_DELAY) == min(1, max(0, size - count))


@given(st.integers(2, 50), st.integers(1, 100), draws, st.integers(0, 49))
def test_if_one_worker_is_dead_another_one_looks(size: int, count: int, draw: float, dead: int) -> None:
    answers = [Call(count, draw).answered_after(rank, size) for rank in range(size) if rank != dead % size]

    assert any(answer is not None for answer in answers)


@given(st.integers(1, 20))
def test_every_worker_is_meant_by_some_call(size: int) -> None:
    meant = {
        rank
        for place in range(size)
        for rank in range(size)
        if Call(1, (place + 0.5) / size).answered_after(rank, size) == 0.0
    }

    assert meant == set(range(size))


@given(st.integers(0, 10_000), draws, st.integers(0, HOPS), st.text())
def test_a_call_comes_back_as_it_was_sent(count: int, draw: float, hops: int, queue: str) -> None:
    call = Call(count, draw, hops, queue)

    assert Call.read(call.text) == call


@given(st.none() | st.text())
def test_any_other_text_is_for_all_or_a_call(text: str | None) -> None:
    call = Call.read(text)

    assert call is None or call.answered_after(0, 1) is not None or call.count < 1


def test_a_call_is_passed_on_a_few_times() -> None:
    call: Call | None = Call(5, 0.0, queue="q")
    passed = 0
    while (call := None if call is None else call.passed_on(0.5)) is not None:
        passed += 1
        assert (call.count, call.queue) == (1, "q")

    assert passed == HOPS
