"""Logs as bytes and back; bytes that are not a log are refused, whatever they are."""

from __future__ import annotations

import math
import random
import sys
import zlib
from typing import Any

import flows
import msgspec
import pytest
from cases import Case, budget, cases
from driving import Driver, drive
from flows import WORKFLOWS, Kind, Order
from hypothesis import given
from hypothesis import strategies as st
from kept import CLASSES, same, values
from strategies import Schedule, schedules

from weft import Run, Workflow, condition, step
from weft.core import events as ev
from weft.errors import CorruptLog, InvalidEvent, ResolutionError, UnencodableValue, UnresolvedFunction
from weft.log import Decoder, Encoder, Record, UnknownEvent, decode, decode_segments, encode, encode_segment, register
from weft.log.codec import INLINE
from weft.log.ext_types import content_hash


@budget(0.3)
@given(cases(), schedules(), st.booleans(), st.integers(0, 12))
def test_the_log_of_any_run_comes_back(case: Case, schedule: Schedule, durable: bool, turns: int) -> None:
    run = Driver(case.plan(), schedule, durable=durable).drive(turns)
    log = run.log()

    again = decode(encode(log))

    assert again == log
    twin = Run.from_log(again, context=run.context)
    assert [(r.id, r.idempotency_key) for r in twin.prepare()] == [(r.id, r.idempotency_key) for r in run.prepare()]
    assert twin.values() == run.values()


@budget(0.2)
@given(cases(), schedules(), st.lists(st.integers(1, 5), min_size=1))
def test_a_log_may_be_written_in_batches_of_any_size(case: Case, schedule: Schedule, sizes: list[int]) -> None:
    log = drive(case.plan(), schedule).log()
    encoder = Encoder()
    segments, rest = [], log
    while rest:
        size = sizes[len(segments) % len(sizes)]
        segments.append(encoder.segment(rest[:size]))
        rest = rest[size:]

    definitions = {key: body for segment in segments for key, body in segment.definitions.items()}
    facts = {key: body for segment in segments for key, body in segment.facts.items()}
    again = decode_segments([segment.body for segment in segments], definitions=definitions, facts=facts)

    assert again == log
    assert sum(segment.count for segment in segments) == len(log)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_run_of_every_component_goes_on_from_its_bytes(name: str) -> None:
    workflow, value = WORKFLOWS[name]
    whole = workflow.run(value, id="r")
    started = workflow.react(value, id="r")

    again = Run.from_log(decode(encode(started.log(), portable=True)))

    assert again.log() == started.log()
    assert again.react_until_satisfied().results() == whole.results()


def test_a_class_comes_back_by_the_annotation_of_its_producer() -> None:
    workflow, _ = WORKFLOWS["pipeline"]

    run = Run.from_log(decode(encode(workflow.run(12).log())))

    assert same(run.value("order"), Order(12, Kind.LARGE))


def test_a_class_that_nothing_mentions_comes_back_as_a_record() -> None:
    workflow = Workflow("w", step(lambda x: Order(x, Kind.SMALL), name="silent"))
    data = encode(workflow.run(1).log())

    run = Run.from_log(decode(data))

    assert run.value("silent") == Record("flows.Order", {"amount": 1, "kind": Record("flows.Kind", {"name": "SMALL"})})
    assert encode(run.log()) == data


@pytest.fixture(scope="module")
def known() -> None:
    """Register the classes of the samples, as an application would."""
    for kind in CLASSES:
        register(kind)


@pytest.mark.usefixtures("known")
@given(values())
def test_any_value_comes_back_in_an_event(value: Any) -> None:
    event = ev.InputReceived(2, value, 1)
    segment = encode_segment([event])

    (again,) = decode_segments([segment.body], definitions={}, facts=segment.facts)

    assert same(again.value, value)


def root(x: Any) -> Any:
    """Take anything."""
    return x


ROOT = Workflow("root", step(root))


def test_a_large_value_is_kept_once_beside_the_events() -> None:
    text, rows = "é" * INLINE, [(i, str(i)) for i in range(1000)]
    events = [
        *(ev.ReactionOccurred(i, "a", (1,), text) for i in (3, 4)),
        *(ev.ReactionOccurred(i, "a", (1,), rows) for i in (5, 6)),
        ev.ReactionOccurred(7, "a", (1,), "x" * (INLINE - 3)),
    ]
    encoder = Encoder()

    first = encoder.segment(events)
    again = encoder.segment(events)
    encoder.stored(again)
    second = encoder.segment(events)

    assert len(first.facts) == 2
    assert all(content_hash(body) == key for key, body in first.facts.items())
    assert len(first.body) < INLINE + 500
    assert again == first, "what may not be stored is handed out again"
    assert second == msgspec.structs.replace(first, facts={}), "what is stored is not"
    assert decode_segments([first.body], definitions={}, facts=first.facts) == events


def test_a_definition_is_carried_once_however_often_it_is_named() -> None:
    run = flows.WORKFLOWS["pipeline"][0].run(4)
    run.add(flows.later, to="double").remove("later")

    segment = encode_segment(run.log())

    assert len(segment.definitions) == 2
    again = Run.from_log(decode_segments([segment.body], definitions=segment.definitions, facts=segment.facts))
    assert "later" not in again.workflow
    assert again.run(5).results() == run.run(5).results()


def test_runs_that_are_read_by_one_decoder_share_their_definition() -> None:
    workflow, value = WORKFLOWS["pipeline"]
    segments = [encode_segment(workflow.run(value).log()) for _ in range(2)]
    decoder = Decoder()

    runs = [
        Run.from_log(decoder.segments([segment.body], definitions=segment.definitions, facts=segment.facts))
        for segment in segments
    ]

    assert runs[0].workflow is runs[1].workflow
    assert runs[0].value("order") == runs[1].value("order") == Order(value, Kind.LARGE)


def test_name_policies_and_a_removal_survive() -> None:
    workflow, value = WORKFLOWS["policies"]
    run = workflow.add(flows.later).run(value)
    run.remove("later")

    again = Run.from_log(decode(encode(run.log())))

    assert (again.workflow.name, again.workflow.policies) == (workflow.name, workflow.policies)
    assert "later" not in again.workflow


def test_a_value_that_is_not_data_names_the_component_that_made_it() -> None:
    run = Workflow("w", step(lambda x: {"rows": [x, object()]}, name="fetch")).run(1)

    with pytest.raises(UnencodableValue, match="what 'fetch' made") as caught:
        encode(run.log())

    assert (caught.value.component, caught.value.path) == ("fetch", "value['rows'][1]")


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800", math.inf, 2**64 - 1, "", b""])
def test_a_plain_value_at_the_edge_of_the_format_comes_back(value: Any) -> None:
    events = [ev.ReactionOccurred(3, "a", (1,), held) for held in (1, value, "x")]

    assert decode_segments([encode_segment(events).body], definitions={}, facts={}) == events


def test_a_name_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(UnencodableValue):
        encode_segment([ev.ReactionOccurred(3, "\ud800", (1,), 1)])


def test_what_is_not_an_event_is_refused() -> None:
    with pytest.raises(UnencodableValue, match="not an event"):
        encode_segment([object()])  # type: ignore[list-item]


# -- what a newer version wrote ------------------------------------------------------------------


def body_of(*events: dict[str, Any]) -> bytes:
    """A segment of events that are written by hand."""
    data = msgspec.msgpack.encode(list(events))
    return b"\x01" + zlib.crc32(data).to_bytes(4, "big") + data


def test_an_event_of_an_unknown_kind_survives_a_round_trip() -> None:
    known = {"e": "input_received", "seq": 2, "value": 5, "ordinal": 1}
    body = body_of(known, {"e": "teleported", "seq": 3, "to": [1, {"a": None}]}, {**known, "seq": 4})

    events = decode_segments([body], definitions={}, facts={})

    assert isinstance(events[1], UnknownEvent)
    assert (events[1].tag, events[1].seq) == ("teleported", 3)
    assert encode_segment(events).body == body
    assert events[2] == ev.InputReceived(4, 5, 1)


def test_a_run_does_not_skip_an_unknown_event() -> None:
    log = ROOT.run(1).log()
    unknown = decode_segments([body_of({"e": "teleported", "seq": 4})], definitions={}, facts={})

    with pytest.raises(InvalidEvent, match="teleported"):
        Run.from_log([*log, *unknown])


def test_a_field_that_is_not_known_yet_is_ignored() -> None:
    body = body_of({"e": "input_received", "seq": 2, "value": 5, "ordinal": 1, "weather": "fine"})

    assert decode_segments([body], definitions={}, facts={}) == [ev.InputReceived(2, 5, 1)]


# -- junk ----------------------------------------------------------------------------------------


def sealed(data: bytes) -> bytes:
    """Bytes whose checksums are right, as an attacker would make them."""
    from weft.log import codec

    return codec._MAGIC + b"\x01" + codec._checksum(b"\x01", data) + data


DATA = encode(WORKFLOWS["pipeline"][0].run(12, id="r").log())


def refused(data: bytes) -> None:
    """Nothing but CorruptLog, and no import."""
    before = set(sys.modules)
    try:
        decode(data)
    except CorruptLog:
        pass
    except ResolutionError:
        raise AssertionError("strict was not asked for") from None
    assert set(sys.modules) == before


@given(st.binary(max_size=400))
def test_random_bytes_are_refused(data: bytes) -> None:
    for junk in (data, DATA[:8] + data, DATA[:24] + data):
        with pytest.raises(CorruptLog):
            decode(junk)


@given(st.binary(max_size=400))
def test_random_bytes_with_a_right_checksum_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode(sealed(data))


@given(st.binary(max_size=200))
def test_random_segments_are_refused_or_are_events(data: bytes) -> None:
    body = b"\x01" + zlib.crc32(data).to_bytes(4, "big") + data

    try:
        events = decode_segments([body], definitions={}, facts={})
    except CorruptLog:
        return
    assert isinstance(events, list)


@pytest.mark.parametrize("seed", range(20))
def test_a_log_with_some_bytes_changed_is_refused(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    for _ in range(25):
        data = bytearray(DATA)
        for _ in range(dice.randint(1, 4)):
            data[dice.randrange(len(data))] ^= dice.randint(1, 255)
        with pytest.raises(CorruptLog):
            decode(bytes(data))
        refused(sealed(bytes(data[24:])))  # the harm done under a right checksum


def test_a_log_that_is_cut_off_anywhere_is_refused() -> None:
    for end in range(len(DATA)):
        with pytest.raises(CorruptLog):
            decode(DATA[:end])
        refused(sealed(DATA[24:end]))


BOMBS = {
    "arrays": b"\x91" * 100_000,
    "maps": b"\x81\xa1a" * 100_000,
    "many": b"\xdd\xff\xff\xff\xff",
    "long_text": b"\xdb\xff\xff\xff\xff",
    "long_extension": b"\xc9\xff\xff\xff\xff\x01",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_does_not_go_off(bomb: str) -> None:
    inside = b"\x91\x84\xa1e\xaeinput_received\xa3seq\x02\xa7ordinal\x01\xa5value" + BOMBS[bomb]
    body = b"\x01" + zlib.crc32(inside).to_bytes(4, "big") + inside

    for attempt in (
        lambda: decode(sealed(BOMBS[bomb])),
        lambda: decode_segments([body], definitions={}, facts={}),
        lambda: decode_segments([], definitions={content_hash(BOMBS[bomb]): BOMBS[bomb]}, facts={}),
    ):
        with pytest.raises(CorruptLog):
            attempt()


def test_values_inside_of_values_do_not_go_deeper_than_allowed() -> None:
    data = b"\x01"
    for _ in range(5000):
        data = msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"\x91" + data))
    inside = b"\x91\x84\xa1e\xaeinput_received\xa3seq\x02\xa7ordinal\x01\xa5value" + data
    body = b"\x01" + zlib.crc32(inside).to_bytes(4, "big") + inside

    with pytest.raises(CorruptLog, match="deeper"):
        decode_segments([body], definitions={}, facts={})


def test_a_log_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(CorruptLog, match="longest="):
        decode(DATA, longest=100)


def test_a_log_of_a_newer_format_says_so() -> None:
    with pytest.raises(CorruptLog, match="upgrade"):
        decode(DATA[:7] + b"\x02" + DATA[8:])


def test_facts_and_definitions_that_are_missing_or_altered_are_noticed() -> None:
    segment = encode_segment([*ROOT.run("x" * 5000).log()])
    wrong = {key: body + b"x" for key, body in segment.facts.items()}

    for definitions, facts in (
        (segment.definitions, {}),
        (segment.definitions, wrong),
        ({}, segment.facts),
        ({key: body + b"x" for key, body in segment.definitions.items()}, segment.facts),
    ):
        with pytest.raises(CorruptLog):
            decode_segments([segment.body], definitions=definitions, facts=facts)


# -- what it takes -------------------------------------------------------------------------------


def test_a_step_takes_few_bytes() -> None:
    """The target is 120 for each step of a chain, with realistic durations."""
    events = [ev.ReactionOccurred(1000 + i, f"step_{i}", (999 + i,), None, 1, 123_456) for i in range(100)]
    dispatched = [ev.RunnableDispatched(1000 + i, f"step_{i}", (999 + i,)) for i in range(100)]

    alone, durable = encode_segment(events).body, encode_segment([*events, *dispatched]).body

    assert len(alone) / 100 <= 90
    assert len(encode_segment(events[:1]).body) <= 120
    assert len(durable) / 100 <= 160


def test_nothing_is_called_to_read_a_log() -> None:
    called: list[str] = []

    def loud(x: int) -> int:
        called.append("step")
        return x

    workflow = Workflow("loud", condition(lambda x: bool(called.append("asked")) or x, name="ask") >> step(loud))
    log = workflow.run(1).log()
    called.clear()

    Run.from_log(decode(encode(log), workflow=workflow))

    assert called == []


def test_a_workflow_that_is_not_portable_is_refused_once_it_is_written() -> None:
    encoder = Encoder(portable=True)

    with pytest.raises(UnresolvedFunction):
        encoder.segment(Workflow("w", step(lambda x: x, name="nameless")).run(1).log())


@pytest.mark.parametrize("value", [7, -1.5, True, None, 2**70, "text", [1, 2]])
def test_the_first_segment_of_a_run_is_written_alike_whichever_way_it_takes(value: object) -> None:
    run = Workflow("w", step(abs, name="absolute")).plan(value)
    encoder, events = Encoder(), run.log()

    segment = encoder.segment(events)

    assert segment == encoder._translated(events, None)
    assert decode_segments([segment.body], definitions=segment.definitions, facts=segment.facts) == events


def test_a_decoder_that_has_read_very_many_definitions_still_reads_those_that_it_says_it_knows() -> None:
    decoder = Decoder()
    logs = [Workflow(f"w{n}", step(abs)).run(-n).log() for n in range(70)]
    segments = [encode_segment(log) for log in logs]
    for segment in segments[:65]:
        decoder.segments([segment.body], definitions=segment.definitions, facts={})
    known = segments[64]
    both = [known.body, segments[63].body]
    hashes = [*known.definitions, *segments[63].definitions]

    assert decoder.knows(hashes)
    assert not decoder.knows([*segments[69].definitions])
    assert len(decoder.segments(both, definitions=dict.fromkeys(hashes, b""), facts={})) == 6
