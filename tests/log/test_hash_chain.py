"""Events that were altered, dropped, reordered or cut off are found, and where."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pytest
from flows import WORKFLOWS
from msgspec.structs import replace

from weft.errors import CorruptLog
from weft.log import Encoder, Segment, chain, verify
from weft.log.hash_chain import GENESIS, may_refer, references

LOG = WORKFLOWS["pipeline"][0].run(12, id="r").run(13).run("x" * 4000).log()


def stored(size: int = 2) -> tuple[list[Segment], bytes]:
    """The log in batches, and its head."""
    encoder = Encoder()
    segments = [encoder.segment(LOG[start : start + size]) for start in range(0, len(LOG), size)]
    head = GENESIS
    for segment in segments:
        head = chain(head, segment.body)
    return segments, head


def check(bodies: list[bytes], head: bytes, *, facts: Any = None, definitions: Any = None) -> int:
    """Verify *bodies* with all that belongs to them."""
    segments, _ = stored()
    return verify(
        bodies,
        facts={k: v for s in segments for k, v in s.facts.items()} if facts is None else facts,
        definitions={k: v for s in segments for k, v in s.definitions.items()} if definitions is None else definitions,
        head=head,
        position=len(LOG),
    )


def test_what_was_written_is_accepted() -> None:
    segments, head = stored()

    assert check([segment.body for segment in segments], head) == len(LOG)
    assert len(head) == 32


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_segment_that_cannot_refer_to_anything_does_not(name: str) -> None:
    workflow, value = WORKFLOWS[name]
    run = workflow.run(value).run(value)

    segments = [Encoder().segment([event]) for event in run.log()]

    assert may_refer(segments[0].body)
    for segment in segments:
        found = references([segment.body])
        assert may_refer(segment.body) or not (found.facts or found.definitions)


def test_most_segments_refer_to_nothing() -> None:
    segments, _ = stored(1)

    is_referring = [bool(segment.facts or segment.definitions) for segment in segments]

    assert [may_refer(segment.body) for segment in segments] == is_referring
    assert 1 < sum(is_referring) < len(segments)


def test_every_byte_of_every_segment_counts() -> None:
    segments, head = stored()
    bodies = [segment.body for segment in segments]

    for place, body in enumerate(bodies):
        for index in range(len(body)):
            altered = body[:index] + bytes([body[index] ^ 1]) + body[index + 1 :]
            with pytest.raises(CorruptLog) as caught:
                check([*bodies[:place], altered, *bodies[place + 1 :]], head)
            assert caught.value.position == 2 * place + 1, "it says where"


@pytest.mark.parametrize(
    ("change", "position"),
    [
        (lambda bodies: bodies[1:], 1),
        (lambda bodies: [*bodies[:2], *bodies[3:]], 5),
        (lambda bodies: [bodies[0], bodies[2], bodies[1], *bodies[3:]], 3),
        (lambda bodies: [*bodies[:2], bodies[1], *bodies[2:]], 5),
        (lambda bodies: bodies[:-1], None),
        (lambda bodies: [], 1),
    ],
    ids=["first dropped", "dropped", "reordered", "repeated", "cut off", "all gone"],
)
def test_a_segment_that_is_not_where_it_was_is_found(
    change: Callable[[list[bytes]], list[bytes]], position: int | None
) -> None:
    segments, head = stored()
    bodies = change([segment.body for segment in segments])

    with pytest.raises(CorruptLog) as caught:
        check(bodies, head)

    expected = position or 2 * (len(segments) - 1) + 1
    assert caught.value.position == expected
    assert ("cut off" in str(caught.value)) == (bodies == [s.body for s in segments][: len(bodies)])


def test_a_segment_that_was_rewritten_with_care_does_not_fit_the_head() -> None:
    segments, head = stored()
    bodies = [segment.body for segment in segments]
    first, second = LOG[2:4]
    forged = Encoder().segment([first, replace(second, attempt=second.attempt + 1)]).body
    assert forged != bodies[1]

    with pytest.raises(CorruptLog, match="head"):
        check([bodies[0], forged, *bodies[2:]], head)


def test_facts_and_definitions_are_part_of_it() -> None:
    segments, head = stored()
    bodies = [segment.body for segment in segments]
    facts = {k: v for s in segments for k, v in s.facts.items()}
    definitions = {k: v for s in segments for k, v in s.definitions.items()}
    assert facts
    large = next(event.seq for event in LOG if getattr(event, "value", None) == "x" * 4000)

    for spoilt in ({}, {key: body + b"x" for key, body in facts.items()}):
        with pytest.raises(CorruptLog) as caught:
            check(bodies, head, facts=spoilt)
        assert caught.value.position == large
        with pytest.raises(CorruptLog) as caught:
            check(bodies, head, definitions=spoilt and {key: body + b"x" for key, body in definitions.items()})
        assert caught.value.position == 1


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 64])
def test_a_link_is_the_hash_of_the_length_of_the_one_before_it_that_one_and_the_body(length: int) -> None:
    previous = bytes(range(length))

    expected = blake2b(bytes([length]) + previous + b"body", digest_size=32, person=b"weft.chain.1").digest()

    assert chain(previous, b"body") == expected


def test_a_link_depends_on_all_before_it() -> None:
    assert chain(b"", b"ab") != chain(b"a", b"b")
    assert chain(chain(b"", b"a"), b"b") != chain(chain(b"", b"b"), b"b")


def test_a_log_that_no_longer_reaches_a_link_that_was_kept_apart_was_cut_off() -> None:
    segments, head = stored()
    bodies = [segment.body for segment in segments]
    links = [chain(b"", bodies[0])]
    for body in bodies[1:]:
        links.append(chain(links[-1], body))
    facts = {k: v for s in segments for k, v in s.facts.items()}
    definitions = {k: v for s in segments for k, v in s.definitions.items()}

    assert verify(bodies, facts=facts, definitions=definitions, head=head, known=links[-2]) == len(LOG)
    with pytest.raises(CorruptLog, match="cut off") as caught:
        verify(bodies[:-2], facts=facts, definitions=definitions, head=links[-3], known=links[-2])

    assert caught.value.position == 2 * (len(segments) - 2) + 1


def test_a_log_that_ends_elsewhere_than_it_should_is_found() -> None:
    segments, head = stored()
    bodies = [segment.body for segment in segments]
    facts = {k: v for s in segments for k, v in s.facts.items()}
    definitions = {k: v for s in segments for k, v in s.definitions.items()}

    for position, wrong in ((len(LOG) + 1, len(LOG) + 1), (len(LOG) - 1, len(LOG))):
        with pytest.raises(CorruptLog) as caught:
            verify(bodies, facts=facts, definitions=definitions, head=head, position=position)
        assert caught.value.position == wrong
