"""Long logs and large values, a slice at a time: the same as in one piece."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Generator
from typing import Any

import pytest

from weft.core.events import AnyEvent, InputReceived, ReactionOccurred
from weft.errors import UnencodableValue
from weft.log import Decoder, Encoder, encode_once, encode_segment, needs_encoding, references
from weft.log.event_codec import AT_ONCE as EVENTS
from weft.log.ext_types import HASHED, content_hash, hash_in_slices
from weft.log.hash_chain import survey
from weft.log.value_encoder import AT_ONCE, encode_in_slices, encode_small, encode_value

MANY = 4 * AT_ONCE


def finished(slices: Generator[None, None, Any]) -> tuple[Any, int]:
    """Return what comes at the end of *slices*, and how many stops there were."""
    stops = 0
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value, stops
        stops += 1


def cyclic() -> list[Any]:
    value: list[Any] = [0] * MANY
    value.append(value)
    return value


LARGE: dict[str, Any] = {
    "numbers": list(range(MANY)),
    "dicts": [{"id": i, "name": "a"} for i in range(MANY)],
    "a tuple": tuple(range(MANY)),
    "one deep inside": {"of": {"rows": [[i, (i, None)] for i in range(MANY)]}},
    "numbers beyond 64 bits": [2**70 + i for i in range(MANY)],
    "one number beyond 64 bits": [*range(MANY), -(2**70), *range(MANY)],
    "lone surrogates": ["\ud800"] * MANY,
    "a key with a lone surrogate": {("\ud800" if i == 7 else str(i)): i for i in range(MANY)},
    "keys that are not text": {i: str(i) for i in range(MANY)},
    "a wide dict": {str(i): [i] * 5 for i in range(MANY)},
    "dates": [dt.date(2026, 1, 31)] * MANY,
    "wide rows": [list(range(AT_ONCE // 3)) for _ in range(20)],
    "rows that are too wide": [list(range(2 * AT_ONCE)) for _ in range(3)],
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_value_is_encoded_to_the_same_bytes_with_stops_in_between(name: str) -> None:
    data, stops = finished(encode_in_slices(LARGE[name]))

    assert data == encode_value(LARGE[name])
    assert stops >= 2
    assert encode_small(LARGE[name]) is None


@pytest.mark.parametrize(
    "value", [None, 5, "text", [], [1, {"a": (2, {3})}], {"b": deque([1])}, {1: 2}, 2**70, "\ud800"]
)
def test_a_small_value_is_encoded_without_a_stop(value: Any) -> None:
    assert encode_small(value) == encode_value(value)
    assert finished(encode_in_slices(value)) == (encode_value(value), 0)


def test_what_cannot_be_taken_apart_is_encoded_in_one_go() -> None:
    value = [set(range(MANY)), deque(range(MANY))]

    assert finished(encode_in_slices(value))[0] == encode_value(value)


@pytest.mark.parametrize(
    "value",
    [
        [*range(MANY), object()],
        {"rows": [*({"x": i} for i in range(MANY)), {"y": [object()]}]},
        cyclic(),
        {i: (i if i < MANY - 1 else object()) for i in range(MANY)},
        {**{i: i for i in range(MANY)}, object: 1},
    ],
    ids=["a list", "inside", "itself", "a value of a dict", "a key"],
)
def test_a_large_value_that_is_not_data_is_refused_with_the_same_words(value: Any) -> None:
    with pytest.raises(UnencodableValue) as at_once:
        encode_value(value)
    with pytest.raises(UnencodableValue) as in_slices:
        finished(encode_in_slices(value))

    assert str(in_slices.value) == str(at_once.value)


@pytest.mark.parametrize("value", [{str(i): i for i in range(MANY)}, {i: i for i in range(MANY)}, list(range(MANY))])
def test_a_large_value_that_changes_between_two_stops_is_still_a_value(value: Any) -> None:
    before = encode_value(value)
    slices = encode_in_slices(value)
    next(slices)
    value.clear()

    assert finished(slices)[0] == before


@pytest.mark.parametrize(("size", "stops"), [(0, 0), (HASHED, 0), (HASHED + 1, 1), (3 * HASHED, 2)])
def test_many_bytes_are_hashed_to_the_same_hash(size: int, stops: int) -> None:
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    assert finished(hash_in_slices(data)) == (content_hash(data), stops)


def test_only_what_takes_time_is_encoded_before_it_is_written() -> None:
    assert not any(map(needs_encoding, [None, 5, 1.5, True, "text", b"bytes"]))
    assert all(map(needs_encoding, [[], {}, (), "x" * (HASHED + 1), b"x" * (HASHED + 1)]))


def test_a_value_that_was_encoded_before_is_written_as_it_was_then() -> None:
    value = [1, 2]
    encoded, _ = finished(encode_once(value, "a"))
    value.append(3)
    event = ReactionOccurred(1, "a", (1,), value)

    assert Encoder().segment([event], {1: encoded}) == encode_segment([ReactionOccurred(1, "a", (1,), [1, 2])])
    assert Encoder().segment([event], {2: encoded}) == encode_segment([event])


def test_bytes_of_another_value_are_not_written_in_its_place() -> None:
    encoded, _ = finished(encode_once([1], "a"))
    event = ReactionOccurred(1, "a", (1,), [2])

    assert Encoder().segment([event], {1: encoded}) == encode_segment([event])


# -- logs ----------------------------------------------------------------------------------------


def events(count: int, first: int = 1) -> list[AnyEvent]:
    """Return events of which every tenth has a large value."""
    return [
        InputReceived(seq, ["x" * 2_000, seq] if seq % 10 == 0 else seq, seq) for seq in range(first, first + count)
    ]


@pytest.mark.parametrize("sizes", [[3 * EVENTS + 1], [1, EVENTS, 2 * EVENTS], [7] * 300])
def test_a_long_log_is_read_in_batches(sizes: list[int]) -> None:
    log = events(sum(sizes))
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    segments = [encode_segment(log[start : start + size]) for start, size in zip(starts, sizes, strict=True)]
    bodies = [segment.body for segment in segments]
    facts = {key: data for segment in segments for key, data in segment.facts.items()}

    batches = list(Decoder().batches(bodies, definitions={}, facts=facts))
    outlines = list(survey(bodies))

    assert [event for batch in batches for event in batch] == log
    assert max(map(len, batches)) < 2 * EVENTS
    assert sum(count for count, _ in outlines) == len(log)
    assert max(count for count, _ in outlines) <= EVENTS
    assert references(bodies).facts == facts.keys()


def test_logs_that_are_read_in_turns_have_large_values_of_their_own() -> None:
    logs = [events(3 * EVENTS), events(3 * EVENTS, first=7)]
    segments = [encode_segment(log) for log in logs]
    decoder = Decoder()

    turns = zip(*(decoder.batches([each.body], definitions={}, facts=each.facts) for each in segments), strict=True)
    read = [[event for batch in batches for event in batch] for batches in zip(*turns, strict=True)]

    assert read == logs
