"""Events in words: the details that a table shows, and sentences for a page."""

from __future__ import annotations

from typing import get_args

import pytest

from weft import Workflow, each, step
from weft.core import events as ev
from weft.log import UnknownEvent
from weft.views.event_text import WORDS, details, sentence


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ev.SignalReceived(3, "paid", 5, 1.0, "k", "Ada"), "paid = 5, key k, by Ada"),
        (ev.SignalRefused(3, "paid", "Expected `int`", by="Ada"), "paid: Expected `int`, by Ada"),
        (ev.SignalTaken(4, "paid", (2,), 5, 3), "= 5 (signal 3)"),
        (ev.TimerFired(4, "nap", (2,), "x", 1.0), "= 'x'"),
    ],
)
def test_signals_and_timers_are_told(event: ev.AnyEvent, words: str) -> None:
    assert details(event) == words


def test_every_event_has_words() -> None:
    assert set(get_args(ev.AnyEvent)) | {UnknownEvent} == set(WORDS)


def test_an_event_of_a_newer_version_is_said_so() -> None:
    assert details(UnknownEvent(7, "teleported", b"")) == "'teleported', written by a newer Weft"


def test_a_collection_is_told_with_its_size() -> None:
    run = Workflow("w", each(step(abs))).run([1, 2, 3])

    [fanned] = [event for event in run.log() if isinstance(event, ev.FannedOut)]

    assert details(fanned).startswith("3 elements: [1, 2, 3]")


def test_a_change_of_state_says_what_it_came_to_and_what_it_emitted() -> None:
    plain = ev.StateChanged(3, "light", (2,), "green")
    keyed = ev.StateChanged(4, "order", (3,), {"paid": True}, (("ship", 7),), done=True, key=7)

    assert details(plain) == "state = 'green'"
    assert details(keyed) == "state of 7 = {'paid': True}, emitted (('ship', 7),), complete"


def test_a_run_that_was_told_to_finish_says_so_and_by_which_caller() -> None:
    assert details(ev.RunFinished(7, "ops")) == "no more input, by ops"
    assert details(ev.InputReceived(2, 5, 1, last=True)) == "input 1 = 5, the last one"


def test_a_run_that_was_taken_over_says_how_often_its_owners_have_died() -> None:
    assert details(ev.RunTakenOver(7, 1, 3, "crash")) == "its owner died"
    assert details(ev.RunTakenOver(7, 2, 3, "crash")) == "its owners died 2 times without progress"
    assert details(ev.RunTakenOver(7, 0, 3, "crash")) == "a person resumed it after it was parked"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ev.RunCancelled(9, ""), "cancelled"),
        (ev.RunCancelled(9, "", by="Ada"), "cancelled: by Ada"),
        (ev.RunCancelled(9, "too late", by="Ada"), "cancelled: too late, by Ada"),
        (ev.RunnableSkipped(9, "charge", (2,), "no stock"), "skipped: no stock"),
        (ev.Notified(9), "on_complete was called"),
        (UnknownEvent(7, "teleported", b""), "unknown event 'teleported', written by a newer Weft"),
    ],
)
def test_a_sentence_needs_no_name_of_the_event(event: ev.AnyEvent, words: str) -> None:
    assert sentence(event) == words


def test_values_are_hidden_from_those_who_may_not_see_them() -> None:
    run = Workflow("w", each(step(abs))).run([-918273645, -192837465])  # no time or hash has these digits

    said = [sentence(event, show=lambda _: "hidden") for event in run.log()]

    assert not any("918273645" in line or "192837465" in line for line in said)
    assert sum("hidden" in line for line in said) >= 3
