"""The thresholds of the garbage collector, while runners are open."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from small_flows import chain

from weft import Runner
from weft.errors import InvalidOption, StoreUnavailable
from weft.runner import collector
from weft.runner.collector import FEW, MANY, SELDOM
from weft.stores import MemoryStore

MINE = (700, 10, 10)


@pytest.fixture(autouse=True)
def mine() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*MINE)
    yield
    gc.set_threshold(*before)


def test_a_runner_with_few_runs_leaves_the_collector_as_it_is() -> None:
    with Runner() as runner:
        runner.start_many(chain, range(FEW)).gather(timeout=10)
        assert gc.get_threshold() == MINE


def test_many_live_runs_make_full_collections_rare_until_there_are_few_again() -> None:
    with Runner() as runner:
        runs = runner.start_many(chain, range(MANY), open=True)
        assert gc.get_threshold() == SELDOM

        for run in list(runs)[: MANY - FEW]:
            run.finish()
            run.wait(timeout=10)
        assert gc.get_threshold() == SELDOM

        last = list(runs)[-1]
        last.finish()
        last.wait(timeout=10)
        assert gc.get_threshold() == MINE


def test_a_runner_that_is_closed_with_many_runs_restores_what_it_found() -> None:
    with Runner() as runner:
        runner.start_many(chain, range(MANY), open=True)
        assert gc.get_threshold() == SELDOM

    assert gc.get_threshold() == MINE


def test_many_live_runs_change_nothing_if_the_runner_was_told_so() -> None:
    with Runner(collector="unchanged") as runner:
        runner.start_many(chain, range(MANY), open=True)
        assert gc.get_threshold() == MINE


def test_thresholds_are_in_force_while_the_runner_is_open() -> None:
    runner = Runner(collector="seldom")
    assert gc.get_threshold() == MINE

    with runner:
        assert gc.get_threshold() == SELDOM
        assert runner.start(chain, 1).result(timeout=10) == 3

    assert gc.get_threshold() == MINE


def test_of_two_runners_the_rarer_collections_are_in_force_and_the_last_one_restores_what_it_found() -> None:
    with Runner(collector=(5_000, 40, 10)):
        with Runner(collector=(9_000, 20, 30)):
            assert gc.get_threshold() == (9_000, 20, 30)
        with Runner(collector=(800, 10, 10)):
            assert gc.get_threshold() == (5_000, 40, 10)
        assert gc.get_threshold() == (5_000, 40, 10)
    assert gc.get_threshold() == MINE


def test_runners_can_be_closed_in_any_order() -> None:
    one, two = Runner(collector=(5_000, 40, 10)).open(), Runner(collector=(9_000, 20, 30)).open()
    one.close()
    assert gc.get_threshold() == (9_000, 20, 30)
    two.close()
    assert gc.get_threshold() == MINE


def test_larger_thresholds_of_the_application_stay() -> None:
    gc.set_threshold(100_000, 50, 50)
    with Runner(collector="seldom"):
        assert gc.get_threshold() == (100_000, 50, 50)
    assert gc.get_threshold() == (100_000, 50, 50)


def test_what_the_application_sets_meanwhile_stays() -> None:
    with Runner(collector="seldom"):
        gc.set_threshold(1_234, 5, 6)
    assert gc.get_threshold() == (1_234, 5, 6)


def test_what_the_application_sets_between_two_runners_is_what_is_restored() -> None:
    with Runner(collector=(5_000, 40, 10)):
        gc.set_threshold(1_234, 5, 6)
        with Runner(collector=(9_000, 20, 30)):
            assert gc.get_threshold() == (9_000, 20, 30)
    assert gc.get_threshold() == (1_234, 5, 6)


def test_a_collector_that_is_switched_off_stays_off() -> None:
    gc.set_threshold(0, 10, 10)
    with Runner(collector="seldom"):
        assert gc.get_threshold() == (0, 10, 10)
    assert gc.get_threshold() == (0, 10, 10)


def test_a_runner_that_cannot_be_opened_changes_nothing() -> None:
    class Away(MemoryStore):
        async def open(self) -> None:
            raise StoreUnavailable("the store", "a test says so")

    with pytest.raises(StoreUnavailable):
        Runner(Away(), collector="seldom").open()
    assert gc.get_threshold() == MINE


@pytest.mark.parametrize("given", ["often", (1, 2), (1, 2, 0), (1.5, 2, 3), (1 << 31, 5, 5), 700, None])
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(InvalidOption, match="collector="):
        Runner(collector=given)


def test_releasing_twice_is_an_error() -> None:
    collector.hold((900, 9, 9))
    collector.release((900, 9, 9))
    with pytest.raises(ValueError, match="not in list"):
        collector.release((900, 9, 9))
