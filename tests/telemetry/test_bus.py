"""Handlers receive the events that they asked for, and disturb nothing else."""

from __future__ import annotations

import functools
import logging
import sys
import threading
from typing import Any

import pytest

from weft import telemetry
from weft.errors import DuplicateHandler, TelemetryError, UnknownTelemetryEvent
from weft.telemetry.bus import Bus
from weft.telemetry.catalogue import CATALOGUE, EVENTS, RUNNABLE_START, RUNNABLE_STOP, STORE_STOP, Entry


class Listener:
    """Remembers the events that it received."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any], dict[str, Any]]] = []

    def __call__(self, event: str, measurements: dict[str, Any], metadata: dict[str, Any]) -> None:
        self.heard.append((event, measurements, metadata))


def failing(event: str, measurements: dict[str, Any], metadata: dict[str, Any]) -> None:
    raise RuntimeError("a handler that fails")


def test_a_handler_hears_what_it_asked_for_and_nothing_else() -> None:
    bus, listener = Bus(), Listener()
    bus.attach("l", [RUNNABLE_STOP], listener)

    bus.emit(RUNNABLE_START, {"time": 1.0}, {})
    bus.emit(RUNNABLE_STOP, {"duration": 0.5}, {"component": "charge"})

    assert listener.heard == [(RUNNABLE_STOP, {"duration": 0.5}, {"component": "charge"})]


def test_one_name_need_not_be_a_list() -> None:
    bus, listener = Bus(), Listener()
    bus.attach("l", RUNNABLE_STOP, listener)

    bus.emit(RUNNABLE_STOP, {}, {})

    assert len(listener.heard) == 1


def test_a_name_given_twice_is_heard_once() -> None:
    bus, listener = Bus(), Listener()
    bus.attach("l", [RUNNABLE_STOP, RUNNABLE_STOP], listener)

    bus.emit(RUNNABLE_STOP, {}, {})

    assert len(listener.heard) == 1


@pytest.mark.parametrize("entry", CATALOGUE, ids=EVENTS)
def test_every_event_has_an_attribute_that_says_whether_it_has_handlers(entry: Entry) -> None:
    bus = Bus()

    before = getattr(bus, entry.slot)
    bus.attach("l", EVENTS, Listener())
    during = getattr(bus, entry.slot)
    bus.detach("l")
    after = getattr(bus, entry.slot)

    assert (before, len(during), after) == ((), 1, ())
    assert entry.slot in Bus.__annotations__


def test_detached_it_hears_nothing() -> None:
    bus, listener = Bus(), Listener()
    bus.attach("l", EVENTS, listener)
    bus.attach("other", EVENTS, other := Listener())

    was_there = bus.detach("l")
    bus.emit(STORE_STOP, {}, {})
    was_still_there = bus.detach("l")

    assert (was_there, was_still_there) == (True, False)
    assert (len(listener.heard), len(other.heard)) == (0, 1)


def test_an_id_stands_for_one_handler() -> None:
    bus = Bus()
    bus.attach("l", EVENTS, Listener())

    with pytest.raises(DuplicateHandler, match=r"detach\('l'\) first"):
        bus.attach("l", EVENTS, Listener())

    assert len(bus.handlers()) == len(bus.runnable_stop) == 1


def test_an_unknown_event_is_refused_and_nothing_is_attached() -> None:
    bus = Bus()

    with pytest.raises(UnknownTelemetryEvent, match=r"weft\.runner\.runnable\.stopp.*telemetry\.EVENTS"):
        bus.attach("l", [RUNNABLE_STOP, "weft.runner.runnable.stopp"], Listener())
    with pytest.raises(UnknownTelemetryEvent):
        bus.emit("weft.runner.runnable.stopp", {}, {})

    assert bus.handlers() == []
    assert bus.runnable_stop == ()


async def waits(event: str, measurements: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Would have to be awaited."""


class Waits:
    """So would calling this."""

    async def __call__(self, event: str, measurements: dict[str, Any], metadata: dict[str, Any]) -> None: ...


@pytest.mark.parametrize("handler", [waits, functools.partial(waits), Waits(), Waits().__call__])
def test_a_coroutine_function_is_refused(handler: Any) -> None:
    with pytest.raises(TelemetryError, match="plain function"):
        Bus().attach("l", EVENTS, handler)


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit(1)])
def test_a_handler_that_fails_disturbs_nothing_else(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    def failing(*_: object) -> None:
        raise error

    bus, listener = Bus(), Listener()
    bus.attach("bad", EVENTS, failing)
    bus.attach("good", EVENTS, listener)

    bus.emit(RUNNABLE_STOP, {}, {})

    assert len(listener.heard) == 1
    assert "'bad' failed on weft.runner.runnable.stop" in caplog.text


def test_failures_are_logged_once_and_counted_and_the_handler_stays(caplog: pytest.LogCaptureFixture) -> None:
    bus = Bus()
    bus.attach("bad", EVENTS, failing)

    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            bus.emit(RUNNABLE_STOP, {}, {})

    [record] = caplog.records
    [handler] = bus.handlers()
    assert record.exc_info is not None
    assert (handler.id, handler.failures) == ("bad", 3)


def test_what_one_handler_changes_the_next_does_not_see() -> None:
    def greedy(event: str, measurements: dict[str, Any], metadata: dict[str, Any]) -> None:
        measurements.clear()
        metadata["component"] = "mine"

    bus, listener = Bus(), Listener()
    bus.attach("greedy", EVENTS, greedy)
    bus.attach("l", EVENTS, listener)

    bus.emit(RUNNABLE_STOP, {"duration": 1}, {"component": "charge"})

    assert listener.heard == [(RUNNABLE_STOP, {"duration": 1}, {"component": "charge"})]


def test_a_handler_may_detach_itself() -> None:
    bus, heard = Bus(), []

    def once(*_: object) -> None:
        heard.append(bus.detach("once"))

    bus.attach("once", EVENTS, once)

    bus.emit(RUNNABLE_STOP, {}, {})
    bus.emit(RUNNABLE_STOP, {}, {})

    assert heard == [True]


def test_many_threads_attach_and_detach_at_once() -> None:
    """A handler that was lost between two threads, or stayed, is what a missing lock would show."""
    bus, kept = Bus(), 8
    barrier = threading.Barrier(kept, timeout=60)

    def busy(number: int) -> None:
        barrier.wait()
        for turn in range(50):
            bus.attach(f"{number}-{turn}", EVENTS, Listener())
            bus.detach(f"{number}-{turn}")
        bus.attach(str(number), EVENTS, Listener())

    threads = [threading.Thread(target=busy, args=(number,)) for number in range(kept)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)

    expected = {str(number) for number in range(kept)}
    assert {handler.id for handler in bus.handlers()} == expected
    for entry in CATALOGUE:
        assert {handler.id for handler in getattr(bus, entry.slot)} == expected


def test_the_library_has_one_bus() -> None:
    listener = Listener()
    telemetry.attach("l", telemetry.EVENTS, listener)
    try:
        telemetry.bus.emit(RUNNABLE_STOP, {}, {})
        telemetry.emit(STORE_STOP, {}, {})
    finally:
        telemetry.detach("l")

    assert [event for event, _, _ in listener.heard] == [RUNNABLE_STOP, STORE_STOP]
