"""Answers that took long are kept for a while."""

from __future__ import annotations

import asyncio

import pytest

from weft.web.slow_answers import SlowAnswers


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def asked(seconds: float, later: float) -> int:
    """Return how often a question is asked that takes *seconds*, and is asked again so much *later*."""
    clock, calls = Clock(), 0
    answers = SlowAnswers(clock)

    async def ask() -> int:
        nonlocal calls
        calls += 1
        clock.now += seconds
        return calls

    async def main() -> None:
        await answers.get("q", ask)
        clock.now += later
        await answers.get("q", ask)

    asyncio.run(main())
    return calls


@pytest.mark.parametrize(
    ("seconds", "later", "calls"),
    [(0.01, 0.0, 2), (1.0, 19.0, 1), (1.0, 21.0, 2), (10.0, 59.0, 1), (10.0, 61.0, 2)],
)
def test_an_answer_is_kept_in_proportion_to_what_it_cost(seconds: float, later: float, calls: int) -> None:
    assert asked(seconds, later) == calls


def test_callers_at_once_share_one_question_and_a_failure_is_not_kept() -> None:
    answers, calls = SlowAnswers(), 0

    async def ask() -> int:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        if calls == 1:
            raise OSError("away")
        return calls

    async def main() -> list[object]:
        first = await asyncio.gather(*(answers.get("q", ask) for _ in range(3)), return_exceptions=True)
        return [*map(type, first), await answers.get("q", ask)]

    assert asyncio.run(main()) == [OSError, OSError, OSError, 2]
