"""Functions that are called before an attempt never affect it."""

from __future__ import annotations

import logging
import pickle

import pytest

from weft.telemetry.attempt import Entry


class FailingEnter:
    def __call__(self) -> None:
        raise SystemExit("no")


class InterruptedEnter:
    def __call__(self) -> None:
        raise KeyboardInterrupt


def test_an_entry_that_fails_is_logged_once_and_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        Entry(FailingEnter())()
        Entry(FailingEnter())()

    assert len(caplog.records) == 1
    assert "failed before an attempt" in caplog.text


def test_a_ctrl_c_passes_through_an_entry() -> None:
    with pytest.raises(KeyboardInterrupt):
        Entry(InterruptedEnter())()


def test_an_entry_is_pickled_with_what_it_calls() -> None:
    again = pickle.loads(pickle.dumps(Entry(print)))  # noqa: S301

    assert again.enter is print
