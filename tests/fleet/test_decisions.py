"""The decisions of a worker, for any numbers and on virtual time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.fleet import decisions
from weft.ports.workers import Load

times = st.floats(0, 1e10)


@given(st.integers(0, 10_000), st.integers(1, 10_000), st.booleans())
def test_a_claim_never_takes_more_than_there_is_room_for(active: int, concurrency: int, is_asked: bool) -> None:
    taken = decisions.room(active, concurrency, is_asked=is_asked)

    assert 0 <= taken <= decisions.BATCH
    assert active + taken <= max(active, concurrency)
    if is_asked:
        assert (taken > 0) == (active < concurrency)


@given(st.integers(1, 500), st.lists(st.integers(1, 40), max_size=60))
def test_a_worker_whose_runs_end_is_filled_again_without_a_statement_for_each(
    concurrency: int, ended: list[int]
) -> None:
    active, claims, over = concurrency, 0, 0
    for count in ended:
        over += min(count, active)
        active -= min(count, active)
        taken = decisions.room(active, concurrency, is_asked=False)
        claims += taken > 0
        active += taken
        assert concurrency - active <= max(concurrency // 4, concurrency - decisions.BATCH, 0)
    assert claims <= 1 + 4 * over / concurrency + over / decisions.BATCH


@given(times, st.none() | times)
def test_a_run_that_waits_leaves_at_once_or_later_or_is_due_soon(since: float, wake_at: float | None) -> None:
    at = decisions.leaves_at(since, wake_at)

    if at is None:
        assert wake_at is not None
        assert wake_at - since <= decisions.SHORT
    else:
        assert at >= since
        assert wake_at is None or at <= wake_at


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_a_pause_grows_and_has_a_bound(failures: int, draw: float) -> None:
    assert 0 < decisions.backoff(failures, draw) <= 10
    assert decisions.backoff(failures, draw) <= decisions.backoff(failures + 1, draw)


@given(st.floats(0.1, 3600))
def test_an_idle_worker_makes_at_most_a_statement_a_second_with_the_usual_lease(lease: float) -> None:
    assert 0 < decisions.poll(lease) <= min(decisions.POLL, lease)
    polls, renewals, plans = 1 / decisions.poll(10.0), 3 / 10.0, 1 / 5.0
    assert polls + renewals + plans <= 1


loads = st.lists(st.builds(Load, st.integers(0, 500), st.integers(1, 500)), min_size=1, max_size=12)


@given(loads)
def test_no_worker_lets_go_below_its_share_and_a_lone_one_lets_nothing_go(fleet: list[Load]) -> None:
    for place, mine in enumerate(fleet):
        others = [*fleet[:place], *fleet[place + 1 :]]
        count = decisions.surplus(mine, others)

        assert 0 <= count <= decisions.LET_GO
        assert not count or mine.active - count > decisions.share(mine, others)
    assert decisions.surplus(fleet[0], []) == 0


@given(st.lists(st.integers(0, 250), min_size=2, max_size=8))
def test_a_fleet_evens_out_and_then_nothing_moves(active: list[int]) -> None:
    capacity = 256
    for _ in range(500):
        fleet = [Load(each, capacity) for each in active]
        moved = [decisions.surplus(mine, [*fleet[:i], *fleet[i + 1 :]]) for i, mine in enumerate(fleet)]
        if not any(moved):
            break
        spread = max(active) - min(active)
        active = [each - count for each, count in zip(active, moved, strict=True)]
        for _ in range(sum(moved)):  # workers with room take them, the emptiest first
            active[active.index(min(active))] += 1
        assert max(active) - min(active) <= spread
    else:
        raise AssertionError("runs move for ever")
    mean = sum(active) / len(active)
    assert max(active) <= mean + max(decisions.SLACK, mean / 4)


@given(st.integers(1, 1000), st.lists(st.integers(0, 2000), min_size=1, max_size=10))
def test_the_databases_of_a_process_share_its_places_and_each_has_a_part(concurrency: int, actives: list[int]) -> None:
    shards = len(actives)
    most = [decisions.most_of_one(concurrency, sum(actives) - each, shards) for each in actives]

    assert all(max(1, concurrency // shards) <= each <= concurrency for each in most)
    if sum(actives) >= concurrency and min(actives) >= concurrency // shards:
        assert all(each <= max(mine, 1) for each, mine in zip(most, actives, strict=True))
