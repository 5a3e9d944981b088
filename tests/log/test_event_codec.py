"""Bytes that were written once are read for ever: ``wire/`` holds them, ``pinned.py`` adds new ones."""

from __future__ import annotations

from typing import Any

import pytest
from flows import WORKFLOWS
from kept import CLASSES, VALUES, same
from pinned import EVENTS, WORKFLOW, cancelled_log, current, pinned

from weft import Run, Workflow
from weft.core import events as ev
from weft.core.events import AnyEvent, Event
from weft.log import decode, decode_segments, encode, encode_segment
from weft.log.class_registry import name_of
from weft.log.event_codec import WIRES
from weft.log.value_decoder import Values
from weft.log.value_encoder import encode_value

KNOWN = {name_of(kind): kind for kind in CLASSES}


@pytest.mark.parametrize("name", pinned("values"))
def test_a_value_that_was_written_once_is_read(name: str) -> None:
    data = bytes.fromhex(pinned("values")[name])

    assert same(Values(KNOWN).decode(data), VALUES[name])
    assert encode_value(VALUES[name]) == data, (
        "the wire format has changed; old bytes must still be read: add a new kind"
    )


@pytest.mark.parametrize("name", pinned("events"))
def test_an_event_that_was_written_once_is_read(name: str) -> None:
    stored = pinned("events")[name]
    held = {
        kind: {bytes.fromhex(key): bytes.fromhex(body) for key, body in stored[kind].items()}
        for kind in ("definitions", "facts")
    }

    (event,) = decode_segments([bytes.fromhex(stored["body"])], **held)

    assert event == EVENTS[name]
    if not stored["definitions"]:  # these name the version of Python
        assert encode_segment([EVENTS[name]]).body.hex() == stored["body"]


@pytest.mark.parametrize("name", pinned("definitions"))
def test_a_definition_that_was_written_once_is_read(name: str) -> None:
    workflow, value = WORKFLOWS[name]

    again = Workflow.from_dict(pinned("definitions")[name])

    assert again == workflow
    assert again.policies == workflow.policies
    assert again.run(value).results() == workflow.run(value).results()


def logged(name: str) -> Run:
    """Return the run of a log that was written once."""
    return Run.from_log(decode(bytes.fromhex(pinned("logs")[name])))


def test_a_log_that_was_written_once_is_a_run() -> None:
    run = logged("finished")

    assert run.workflow == WORKFLOW
    assert run.values("absolute") == [5]


def test_a_run_that_was_cancelled_before_runs_were_undone_stays_as_it_was() -> None:
    run = logged("cancelled")

    assert (run.status, run.is_runnable, run.memory.undo) == ("cancelled", False, None)
    assert run.log()[-1] == ev.RunCancelled(4, "no time", "ann")
    assert encode(run.log()[1:]) == encode(cancelled_log(undo=False)[1:])
    assert run.react_until_satisfied().log() == logged("cancelled").log()


def test_a_run_that_was_being_undone_goes_on_with_that() -> None:
    run = logged("undoing")

    assert (run.status, list(run.memory.ready)) == ("running", [("trip.pay", (2, 3))])
    run.record([ev.RunnableFailed(5, "trip.pay", (2, 3), ev.ErrorDetail("StepCancelled", (), "no time"))])
    assert list(run.memory.ready) == [("trip.eq", (2, 3, 5))]
    assert run.react_until_satisfied().status == "cancelled"


def test_everything_that_can_be_written_is_pinned() -> None:
    made = current()

    assert {name: set(kind) - set(pinned(name)) for name, kind in made.items()} == {
        "values": set(),
        "events": set(),
        "definitions": set(),
        "logs": set(),
        "snapshots": set(),
    }


def test_there_is_a_fixture_for_every_event() -> None:
    tags = {str(kind.__struct_config__.tag) for kind in WIRES}

    assert {tag for tag in tags if not any(name.startswith(tag) for name in EVENTS)} == set()


def test_every_event_of_a_log_has_a_wire_form() -> None:
    kinds: Any = AnyEvent

    assert set(kinds.__args__) <= set(WIRES)
    assert all(issubclass(kind, Event) for kind in WIRES)
