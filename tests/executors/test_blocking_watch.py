"""A step that blocks the event loop is logged, with the component and the place; one that only takes long is not."""

from __future__ import annotations

import gc
import logging
import sys
import threading
from collections.abc import Iterator
from contextvars import copy_context
from types import FrameType

import pytest

from weft import Runner, Workflow, step
from weft.calling import attempt
from weft.errors import InvalidOption
from weft.executors.blocking_watch import BlockingWatch, frame_of


class Noticed(logging.Handler):
    """Sets an event when something is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.event, self.text = threading.Event(), ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage() + "\n"
        self.event.set()


@pytest.fixture
def noticed() -> Iterator[Noticed]:
    handler = Noticed()
    logger = logging.getLogger("weft.runner")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_a_coroutine_that_blocks_is_logged_with_the_component_and_the_place(noticed: Noticed) -> None:
    def waits_here() -> bool:
        return noticed.event.wait(20)

    async def fetch(x: int) -> bool:
        return waits_here()

    with Runner(blocking_threshold=0.01) as runner:
        was_noticed = runner.start(Workflow("w", step(fetch)), 1, id="a").result(30)

    assert was_noticed
    assert "'fetch' of run 'a' blocks the event loop" in noticed.text
    assert "in waits_here" in noticed.text
    assert "return noticed.event.wait(20)" in noticed.text


@pytest.mark.parametrize("threshold", [0, -1, True, "soon", float("inf"), float("nan")])
def test_a_threshold_that_makes_no_sense_is_refused(threshold: float) -> None:
    with pytest.raises(InvalidOption, match="blocking_threshold"):
        Runner(blocking_threshold=threshold)


# -- by hand -------------------------------------------------------------------------------------


def stacks(*names: str) -> dict[str, FrameType]:
    """Return the innermost frame of each of these components, from when it ran."""
    seen: dict[str, FrameType] = {}

    def here(name: str) -> None:
        seen[name] = sys._getframe()

    for name in names:
        [runnable] = Workflow("w", step(here, name=name)).plan(name).prepare()
        copy_context().run(attempt, runnable)  # as an executor does: it leaves the runnable announced
    return seen


def look(*looks: tuple[FrameType | None, float, bool]) -> None:
    """Look at these frames at these times; the loop answers after a look if it says so."""
    watch = BlockingWatch(1.0, lambda: True)
    for frame, now, answers in looks:
        watch.look(frame, now)
        if answers:
            watch.answer()


def test_what_blocks_is_logged_once(noticed: Noticed) -> None:
    one = stacks("one")["one"]

    look((one, 0.0, False), (one, 0.9, False))
    too_early = noticed.text
    look((one, 0.0, False), (one, 1.0, False), (one, 2.0, False))

    assert too_early == ""
    assert noticed.text.count("blocks the event loop") == 1


def test_a_coroutine_that_yields_is_not_blamed(noticed: Noticed) -> None:
    one = stacks("one")["one"]

    look((one, 0.0, True), (one, 1.0, True), (one, 2.0, True))

    assert noticed.text == ""


def test_many_short_steps_are_not_blamed(noticed: Noticed) -> None:
    seen = stacks("one", "two", "three")

    look((seen["one"], 0.0, False), (seen["two"], 1.0, False), (seen["three"], 2.0, False))

    assert noticed.text == ""


def test_work_that_is_not_a_step_is_not_blamed(noticed: Noticed) -> None:
    here = sys._getframe()

    look((here, 0.0, False), (here, 5.0, False), (None, 10.0, False), (None, 15.0, False))

    assert noticed.text == ""


def test_no_garbage_is_collected_while_the_frames_of_threads_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    collecting: list[bool] = []
    frames = sys._current_frames

    def read() -> dict[int, FrameType]:
        collecting.append(gc.isenabled())
        return frames()

    monkeypatch.setattr(sys, "_current_frames", read)

    assert frame_of(threading.get_ident()) is not None
    assert (collecting, gc.isenabled()) == ([False], True)
