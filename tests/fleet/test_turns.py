"""The turns of keys: the decision that the store makes by SQL, as a function, over any starts and claims."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from weft.fleet.decisions import first_turn

keys = st.sampled_from("abc")
acts = st.lists(st.one_of(st.tuples(keys, st.integers(1, 50)), st.integers(1, 20)), max_size=40)


class Queue:
    """Runs that wait, as the queue of the store orders them."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, str]] = []
        self.number = 0

    def start(self, key: str, count: int) -> None:
        last = max((turn for turn, _, each in self.rows if each == key), default=None)
        head = min((turn for turn, *_ in self.rows), default=None)
        turn = first_turn(last, head)
        for place in range(count):
            self.number += 1
            self.rows.append((turn + place, self.number, key))

    def claim(self, count: int) -> list[str]:
        self.rows.sort()
        got, self.rows = self.rows[:count], self.rows[count:]
        return [key for *_, key in got]


@given(acts)
def test_keys_that_wait_get_the_same_but_for_the_ends_of_a_claim(acts: list[tuple[str, int] | int]) -> None:
    queue = Queue()
    for act in acts:
        if isinstance(act, tuple):
            queue.start(*act)
            continue
        before = Counter(key for *_, key in queue.rows)
        got = Counter(queue.claim(act))
        for key in "abc":
            waits = before[key] - got[key] > 0
            for other in "abc":
                if waits and before[other]:
                    assert got[other] <= got[key] + 2


@given(st.integers(1, 10_000), st.integers(1, 5))
def test_the_first_run_of_a_key_waits_for_one_of_each_other(flood: int, others: int) -> None:
    queue = Queue()
    queue.start("flood", flood)
    for number in range(others):
        queue.start(f"other {number}", 1)

    got = queue.claim(others + 1)
    assert len(set(got)) == min(others + 1, len(got))
