"""Where runs are, for any ids and any history of databases."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import ShardsChanged
from weft.fleet.placement import ALONE, JOINING, Generations, agreed

shard_ids = st.text("abcdef0123456789", min_size=1, max_size=4)
joins = st.lists(st.sets(shard_ids, min_size=1, max_size=5), min_size=1, max_size=5)


def history(joined: list[set[str]]) -> list[Generations]:
    """Return the generations one after the other, as sets of shards join."""
    known, found, shards = Generations(), [], set[str]()
    for new in joined:
        shards |= new
        known = known.grown(shards)
        found.append(known)
    return found


@given(joins, st.text())
def test_the_places_in_all_generations_are_homes(joined: list[set[str]], id: str) -> None:
    generations = history(joined)

    homes = generations[-1].homes(id)

    assert {each.homes(id)[0] for each in generations} <= set(homes)
    assert len(set(homes)) == len(homes) <= generations[-1].newest


@given(joins, st.text())
def test_a_key_stays_where_it_is_or_moves_to_a_new_shard(joined: list[set[str]], id: str) -> None:
    generations = history(joined)

    for before, after in pairwise(generations):
        moved = after.homes(id)[0]
        assert moved == before.homes(id)[0] or moved not in before.shards


@given(joins, st.text(), st.data())
def test_a_shard_that_had_runs_is_a_home_of_every_key(joined: list[set[str]], id: str, data: st.DataObject) -> None:
    shards = set[str]().union(*joined)
    had_runs = data.draw(st.sets(st.sampled_from(sorted(shards))))

    known = Generations().grown(shards, had_runs)

    assert set(known.homes(id)) == had_runs | {Generations().grown(shards).homes(id)[0]}
    assert known.homes(id)[0] == Generations().grown(shards).homes(id)[0]


@given(joins)
def test_every_list_has_another_fence_and_extends_those_before(joined: list[set[str]]) -> None:
    generations = [Generations(), *history(joined)]
    different = {each.fence: each for each in generations}

    assert len(different) == len({frozenset(each.shards) for each in generations})
    assert JOINING not in different
    assert different[ALONE] == Generations()
    assert all(later.extends(each) for place, later in enumerate(generations) for each in generations[: place + 1])
    assert agreed(generations) == generations[-1]


@given(joins, st.data())
def test_a_list_that_lacks_a_shard_is_refused(joined: list[set[str]], data: st.DataObject) -> None:
    known = history(joined)[-1]
    missing = data.draw(st.sampled_from(sorted(known.shards)))

    with pytest.raises(ShardsChanged, match=f"1 of the {len(known.shards)} databases"):
        known.grown(known.shards.keys() - {missing})


def test_lists_that_were_decided_apart_do_not_agree() -> None:
    one = Generations().grown({"a", "b"})

    with pytest.raises(ShardsChanged, match="different fleets"):
        agreed([one.grown({"a", "b", "c"}), one.grown({"a", "b", "d"})])
    with pytest.raises(ShardsChanged, match="different fleets"):
        agreed([one, Generations().grown({"b", "c"})])


def test_keys_are_spread_evenly() -> None:
    known = Generations().grown({f"shard {i}" for i in range(10)})

    found = Counter(known.homes(f"order-{i}")[0] for i in range(20_000))

    assert 1800 < min(found.values()) <= max(found.values()) < 2200


def test_places_are_the_same_in_every_process() -> None:
    """They are stored facts: a run that was placed by one version has to be found by the next."""
    program = (
        "from weft.fleet.placement import Generations\n"
        "known = Generations().grown({'a', 'b', 'c'}).grown({'a', 'b', 'c', 'd'})\n"
        "print(known.fence, *(' '.join(known.homes(f'order-{i}')) for i in range(8)), sep='\\n')"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert said.split("\n") == [
        "2:39faef548119adcc9584c1cbe9320f52",
        *("d c", "c", "d a", "a", "a", "b", "a", "b"),
        "",
    ]
