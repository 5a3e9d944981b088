"""How many runnables are sent to a worker of a cluster together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.executors.cluster.parcels import LASTS, MOST, Times

components = st.lists(st.sampled_from("abc"), min_size=1, max_size=600)
means = st.dictionaries(st.sampled_from("abc"), st.floats(1e-6, 10.0))


@given(components, means, st.integers(1, 64))
def test_a_parcel_is_never_empty_and_takes_no_more_than_its_share(
    waiting: list[str], known: dict[str, float], workers: int
) -> None:
    times = Times()
    for component, seconds in known.items():
        times.note(component, seconds)

    size = times.parcel(waiting, workers=workers)

    assert 1 <= size <= min(len(waiting), MOST)
    assert size <= -(-len(waiting) // workers)
    assert size == 1 or sum(known[component] for component in waiting[:size]) <= LASTS


@given(components, st.integers(1, 64))
def test_what_is_not_known_yet_is_sent_alone(waiting: list[str], workers: int) -> None:
    assert Times().parcel(waiting, workers=workers) == 1


def test_a_component_that_has_become_slow_is_sent_alone_soon() -> None:
    times = Times()
    times.note("a", 0.0001)
    together = times.parcel(["a"] * 1_000, workers=2)

    times.note("a", 1.0)

    assert (together, times.parcel(["a"] * 1_000, workers=2)) == (MOST, 1)
