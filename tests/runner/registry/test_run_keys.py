"""The keys of runs: the same for a run and for everything that Weft derives from its id."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.runner.registry.continuation import next_id
from weft.runner.registry.run_keys import LONGEST, key_of
from weft.runner.schedules.timing import firing_id

ids = st.one_of(
    st.text(),
    st.text("ab/~@019TZ:-.", min_size=1, max_size=130),
    st.from_regex(r"[ab]{90,99}(~\d{1,5}|@2026-03-29T02:30:00Z){0,3}(/[ab]{0,3}){0,2}", fullmatch=True),
)


@given(ids, st.text())
def test_a_child_has_the_key_of_its_parent(id: str, path: str) -> None:
    assert key_of(f"{id}/{path}") == key_of(id)


@given(ids, st.text())
def test_a_child_with_a_shortened_id_has_the_key_of_its_parent(id: str, path: str) -> None:
    assert key_of(f"{key_of(id)}/~{path}") == key_of(id)
    assert len(key_of(id)) <= LONGEST


@given(ids, st.integers(1, 5))
def test_a_continued_run_has_the_key_of_the_first_one(id: str, times: int) -> None:
    following = id
    for _ in range(times):
        following = next_id(following)

    assert key_of(following) == key_of(id)


@given(ids, st.lists(st.floats(0, 1e10), min_size=2, max_size=2))
def test_the_firings_of_a_schedule_have_one_key(name: str, times: list[float]) -> None:
    one, other = (firing_id(name, at) for at in times)

    assert key_of(one) == key_of(other)
    assert key_of(next_id(one)) == key_of(one)
