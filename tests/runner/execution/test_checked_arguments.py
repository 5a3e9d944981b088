"""With check_arguments an attempt that changes an argument fails, by name and with the place of the change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from weft import Policy, Runner, Workflow, accumulator, condition, context, step
from weft.errors import ChangedArgument
from weft.testing import run_checked


@dataclass
class Order:
    """A value with parts that can be changed."""

    items: list[dict[str, int]]


def grow(order: Order) -> int:
    """Change an argument deep inside."""
    order.items[1]["n"] += 1
    return len(order.items)


def read(order: Order) -> int:
    """Change nothing."""
    return sum(item["n"] for item in order.items)


@pytest.fixture(params=["thread", "inline"])
def runner(request: pytest.FixtureRequest) -> Any:
    with Runner(executor=request.param, check_arguments=True) as opened:
        yield opened


def order() -> Order:
    return Order([{"n": 1}, {"n": 2}])


def test_the_component_and_the_path_are_named(runner: Runner) -> None:
    run = runner.start(Workflow("w", step(grow), step(read)), order()).wait()

    error = run.failures["grow"].__cause__
    assert isinstance(error, ChangedArgument)
    assert (error.component, error.path) == ("grow", "order.items[1]['n']")
    assert "change a copy" in str(error)


def test_neither_a_sibling_nor_the_log_sees_the_change(runner: Runner) -> None:
    run = runner.start(Workflow("w", step(grow), step(read)), order()).wait()

    assert run.value("read") == 3
    assert run.log()[1].value == order()


def test_a_coroutine_is_checked_when_it_has_ended(runner: Runner) -> None:
    async def later(rows: list[int]) -> int:
        rows.append(1)
        return 0

    run = runner.start(Workflow("w", step(later)), [5]).wait()

    assert isinstance(run.failures["later"].__cause__, ChangedArgument)


def test_a_state_that_is_changed_in_place_is_found(runner: Runner) -> None:
    def collect(rows: list[int], x: int) -> list[int]:
        rows.append(x)
        return rows

    run = runner.start(Workflow("w", accumulator(collect, init=list, name="all")), 5).wait()

    assert "rows" in str(run.failures["all"].__cause__)


def test_a_condition_is_checked_too(runner: Runner) -> None:
    def pops(rows: list[int]) -> bool:
        return bool(rows.pop())

    run = runner.start(Workflow("w", condition(pops) >> step(len, name="then")), [5]).wait()

    assert isinstance(run.failures["pops"].__cause__, ChangedArgument)


def test_a_step_that_fails_for_another_reason_says_both(runner: Runner) -> None:
    def torn(rows: list[int]) -> None:
        rows.clear()
        raise OSError("down")

    run = runner.start(Workflow("w", step(torn)), [5]).wait()

    error = run.failures["torn"].__cause__
    assert isinstance(error, OSError)
    assert "has changed its argument at rows" in error.__notes__[0]


def test_every_attempt_gets_the_arguments_as_they_were(runner: Runner) -> None:
    seen: list[list[int]] = []

    def greedy(rows: list[int]) -> None:
        seen.append(list(rows))
        rows.clear()

    workflow = Workflow("w", step(greedy)).with_policies([("greedy", Policy(max_retries=1))])
    runner.start(workflow, [5]).wait()

    assert seen == [[5], [5]]


def test_the_context_and_what_is_not_data_are_left_alone(runner: Runner) -> None:
    cache: dict[int, int] = {}

    def remember(x: int, cache: dict[int, int] = context("cache")) -> int:
        cache[x] = x
        return x

    assert runner.start(Workflow("w", step(remember)), 5, context={"cache": cache}).result() == 5
    assert cache == {5: 5}


def test_a_step_that_returns_its_argument_or_a_changed_copy_passes(runner: Runner) -> None:
    workflow = Workflow("w", step(lambda rows: rows, name="same") >> step(lambda rows: [*rows, 1], name="more"))

    assert runner.start(workflow, [5]).result() == [5, 1]


def test_without_the_option_nothing_is_copied() -> None:
    given: list[Any] = []
    value = [5]

    with Runner() as runner:
        runner.start(Workflow("w", step(lambda rows: given.append(rows), name="take")), value).wait()  # noqa: PLW0108

    assert given[0] is value


def test_a_test_raises_what_a_step_has_changed_whatever_its_policy_says() -> None:
    workflow = Workflow("w", step(grow)).with_policies([("grow", Policy(on_failure="dead_letter", max_retries=1))])

    with pytest.raises(ChangedArgument, match=r"order\.items\[1\]\['n'\]"):
        run_checked(workflow, order())


def test_a_test_gets_the_run_if_nothing_was_changed() -> None:
    run = run_checked(Workflow("w", accumulator(lambda total, x: total + x, init=0, name="total")), 1, 2, 3)

    assert run.state_of("total") == 6
