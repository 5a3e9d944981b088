"""The outcome of a run in its record: what comes back, and when the log has to be read instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import Run, Workflow, step
from weft.core.functions.references import MISSING
from weft.errors import CorruptLog
from weft.log import class_registry, register
from weft.log.class_registry import name_of
from weft.log.outcome import LARGEST, RunOutcome, decode_outcome, encode_outcome, outcome_of
from weft.log.value_encoder import encode_value


def inverse(x: int) -> float:
    """Fail for 0."""
    return 10 / x


two_leaves = Workflow("two_leaves", step(inverse)).add(step(lambda x: x + 1, name="successor"))

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text(max_size=5), values, max_size=3), values | st.just(MISSING))
def test_an_outcome_comes_back_as_it_was(results: dict[str, Any], output: Any) -> None:
    outcome = RunOutcome(3, results, None, output, ("leaf", "why") if output is MISSING else None)

    assert decode_outcome(encode_outcome(outcome)) == outcome


def test_failures_come_back_with_what_their_errors_said() -> None:
    found = outcome_of(two_leaves.run(0), 1)

    back = decode_outcome(encode_outcome(found))

    assert back is not None
    assert (back.results, back.output, back.ordinal) == ({"successor": 1}, {"successor": 1}, 1)
    assert [(each.component, each.error, each.attempts, each.seq) for each in back.failures] == [
        (each.component, each.error, each.attempts, each.seq) for each in found.failures
    ]


def test_the_output_of_one_leaf_is_written_once() -> None:
    run = Workflow("w", step(lambda x: "y" * x, name="make")).run(1000)

    body = encode_outcome(outcome_of(run, 1))

    assert len(body) < 1100


@pytest.mark.parametrize(
    "made", ["x" * (LARGEST + 1), [b"x" * 1000] * 66, list(range(LARGEST))], ids=["text", "list", "numbers"]
)
def test_what_is_too_large_for_a_record_is_not_written_there(made: Any) -> None:
    assert encode_outcome(RunOutcome(1, {"make": made}, "make", made)) == b""


def test_what_fits_into_a_record_is_written_there() -> None:
    made = "x" * (LARGEST - 100)

    assert 0 < len(encode_outcome(RunOutcome(1, {"make": made}, "make", made))) <= LARGEST


def test_what_cannot_be_written_at_all_is_not_written() -> None:
    assert encode_outcome(RunOutcome(1, {"make": object()}, "make", None)) == b""


def test_a_record_without_an_outcome_leaves_it_to_the_log() -> None:
    assert decode_outcome(b"") is None


def test_an_outcome_with_a_class_that_is_not_known_here_is_left_to_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    @register(name="tests.Point")
    @dataclass(frozen=True)
    class Point:
        x: int

    body = encode_outcome(RunOutcome(1, {"make": [Point(3)]}, "make", [Point(3)]))
    known = decode_outcome(body)
    monkeypatch.delitem(class_registry._registered, name_of(Point))

    assert known is not None
    assert known.output == [Point(3)]
    assert decode_outcome(body) is None


def test_an_outcome_of_a_later_version_is_left_to_the_log() -> None:
    assert decode_outcome(encode_value([99, 1, {}, None, False, None, None, []])) is None


@pytest.mark.parametrize(
    "body", [b"\xc1", b"junk", encode_value([1, 2]), encode_value([1, 1, {}, "gone", False, None, None, []])]
)
def test_bytes_that_are_not_an_outcome_are_refused(body: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode_outcome(body)


def test_a_run_without_input_has_an_empty_outcome() -> None:
    assert outcome_of(Run(two_leaves), 0) == outcome_of(Run(two_leaves), 1) == RunOutcome(0, {})
