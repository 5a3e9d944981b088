"""A history that is read in blocks: few of them are kept, and they are short where values are large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from weft import Workflow, step
from weft.core import events as ev
from weft.core.lineage.history import BLOCK, KEPT, KEPT_BYTES, History, PagedLog
from weft.core.lineage.sizes import EVENT, size_of, size_of_value
from weft.errors import InvalidArgument


class Stored:
    """A log in a store, which remembers what was read of it."""

    def __init__(self, count: int, size: int) -> None:
        self.events = [ev.ReactionOccurred(seq, "grow", (), b"x" * size) for seq in range(1, count + 1)]
        self.reads: list[tuple[int, int]] = []

    def __call__(self, first: int, last: int) -> Sequence[Any]:
        self.reads.append((first, last))
        return self.events[first - 1 : last]


def history(stored: Stored) -> History:
    """Return the history of what is *stored*."""
    return History(len(stored.events), stored, list)


@pytest.mark.parametrize("size", [1, 1_000, 100_000])
def test_every_event_is_read_once_in_order_and_few_are_kept(size: int) -> None:
    stored = Stored(3_000 if size < 100_000 else 300, size)
    log = PagedLog(history(stored), {})

    assert [event.seq for event in log] == [event.seq for event in stored.events]

    read = [seq for first, last in stored.reads for seq in range(first, last + 1)]
    assert sorted(set(read)) == [event.seq for event in stored.events]
    assert len(read) <= len(set(read)) + 2 * BLOCK, "some are read again where the length of the blocks changes"
    assert log.resident * (size + EVENT) <= KEPT_BYTES + max(BLOCK, size) * KEPT * 2


def test_blocks_are_short_where_values_are_large_and_long_where_they_are_small() -> None:
    small, large = Stored(5_000, 1), Stored(500, 100_000)

    for stored in (small, large):
        for _ in history(stored).each(1, len(stored.events)):
            pass

    assert max(last - first + 1 for first, last in small.reads) == BLOCK
    assert max(last - first + 1 for first, last in large.reads[4:]) <= KEPT_BYTES // KEPT // 100_000


def test_reading_backwards_reads_no_more() -> None:
    stored = Stored(2_000, 10)

    assert [event.seq for event in reversed(PagedLog(history(stored), {}))] == list(range(2_000, 0, -1))

    assert sum(last - first + 1 for first, last in stored.reads) <= 2_000 + BLOCK


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        (b"x" * 1_000, 1_000, 1_100),
        ([b"x" * 1_000] * 1_000, 1_000_000, 1_100_000),
        ({"a": ["x" * 5_000, 1, None]}, 5_000, 6_000),
        (list(range(100_000)), 2_000_000, 4_000_000),
    ],
)
def test_the_size_of_a_value_is_about_what_python_holds(value: object, least: int, most: int) -> None:
    assert least <= size_of_value(value) <= most


def test_a_class_that_cannot_say_its_size_is_counted_all_the_same() -> None:
    class Odd:
        def __sizeof__(self) -> int:
            raise ValueError("no")

    assert size_of(ev.ReactionOccurred(1, "odd", (), Odd())) >= EVENT


def test_causes_can_be_followed_to_a_depth() -> None:
    names = [f"s{number}" for number in range(5)]
    flow = step(lambda x: x + 1, name="s0")
    for name in names[1:]:
        flow = flow >> step(lambda x: x + 1, name=name)
    run = Workflow("w", flow).run(0)
    last = run.fact("s4")

    assert [fact.value for fact in run.lineage(last)] == [0, 1, 2, 3, 4, 5]
    assert [fact.value for fact in run.lineage(last, depth=2)] == [3, 4, 5]
    assert [fact.value for fact in run.lineage(last, depth=0)] == [5]
    assert str(run.explain("s4", depth=1)).splitlines() == [
        "s4 = 5",
        "└─ s3 = 4",
        "   └─ ... older causes, more than 1 steps back",
    ]
    assert run.explain("s4", depth=1).root.causes[0].causes == ()
    assert str(run.explain("s4", depth=9)) == str(run.explain("s4"))
    with pytest.raises(InvalidArgument, match="depth"):
        run.explain("s4", depth=-1)
