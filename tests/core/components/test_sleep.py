"""Sleeps: what arrives goes on later."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

import pytest

from weft import Run, Workflow, condition, context, each, events, join, reduce, repeat, sleep, step, workflow
from weft.core.components.sleep import Sleep
from weft.errors import InvalidComponent, InvalidJoin, InvalidWait, PortMismatch, WrongArity
from weft.testing import VirtualClock

double = step(lambda x: x * 2, name="double")
nap = sleep(10, name="nap")


def slept(flow: object, value: object = 1, start: float = 1000.0) -> tuple[Run, list[float]]:
    """Run *flow* on a clock that stands at *start*; return the run, and how long it slept."""
    clock = VirtualClock(start)
    return Workflow("w", flow).run(value, clock=clock), clock.slept


# -- how long ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (sleep(3), 3),
        (sleep(0.5), 0.5),
        (sleep(minutes=2, seconds=1), 121),
        (sleep(hours=1), 3600),
        (sleep(days=30), 2_592_000),
        (sleep(dt.timedelta(hours=2)), 7200),
        (sleep(lambda x: x + 4), 5),
        (sleep(lambda x: dt.timedelta(minutes=x), hours=1), 3660),
        (sleep(until=1030.0), 30),
        (sleep(until=dt.datetime(1970, 1, 1, 0, 20, tzinfo=dt.UTC)), 200),
        (sleep(until=lambda x: 1000 + x), 1),
        (sleep(until=lambda x: dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(minutes=x)))), 2540),
    ],
)
def test_it_lasts_as_long_as_it_says(given: Sleep, seconds: float) -> None:
    run, pauses = slept(given >> double)

    assert run.output == 2
    assert pauses == [seconds]


@pytest.mark.parametrize("given", [sleep(0), sleep(lambda x: -x), sleep(until=5.0), sleep(until=lambda x: x)])
def test_a_time_in_the_past_is_now(given: Sleep) -> None:
    run, pauses = slept(given >> double)

    assert run.output == 2
    assert sum(pauses) == 0


def test_it_passes_on_what_arrived_as_its_own_fact() -> None:
    run, _ = slept(double >> nap, 4)

    assert run.value("nap") == 8
    assert [fact.producer for fact in run.fact("nap").ancestry()] == [None, "double", "nap"]
    assert run.fact("nap").depth == 2


def test_the_log_says_when_it_began_and_ended() -> None:
    run, _ = slept(nap)

    assert run.log()[2:] == [
        events.TimerStarted(3, "nap", (2,), due=1010.0, at=1000.0),
        events.TimerFired(4, "nap", (2,), 1, at=1010.0),
    ]


def test_a_time_of_day_is_marked_as_one() -> None:
    run, _ = slept(sleep(until=1030.0, name="nap"))

    started = run.log()[2]
    assert isinstance(started, events.TimerStarted)
    assert (started.due, started.is_relative) == (1030.0, False)


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sleep("5"), "seconds='5'"),
        (lambda: sleep(True), "seconds=True"),
        (lambda: sleep(math.nan), "seconds=nan"),
        (lambda: sleep(days=math.inf), "days=inf"),
        (lambda: sleep(until=dt.datetime(2030, 1, 1)), "tzinfo=timezone.utc"),  # noqa: DTZ001 - which is the point
        (lambda: sleep(until="tomorrow"), "until='tomorrow'"),
        (lambda: sleep(5, until=10.0), "not both"),
        (lambda: sleep(lambda x: x, until=10.0), "not both"),
        (lambda: sleep(lambda: 5), r"is called with one value"),
        (lambda: sleep(lambda x, y: 5), r"is called with one value"),
        (lambda: sleep(lambda x, pause=context("pause"): pause), "reads the run"),
        (lambda: nap.before(print), "cannot have hooks"),
        (lambda: nap.after(print), "cannot have hooks"),
    ],
)
def test_what_is_not_a_time_is_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidComponent, match=said):
        make()


def test_a_coroutine_function_is_refused() -> None:
    async def pause(x: int) -> int:
        return x

    with pytest.raises(InvalidComponent, match="coroutine"):
        sleep(pause)


def test_a_join_is_refused() -> None:
    with pytest.raises(InvalidJoin):
        Workflow("w", [double, double.named("other")] >> nap)


def test_two_values_that_a_condition_passes_on_are_refused() -> None:
    both = condition(lambda x, y: x < y, name="both")

    with pytest.raises(WrongArity, match="'nap' passes on one value"):
        Workflow("w", [double, double.named("other")] >> both >> nap)


def no(x: Any) -> float:
    raise LookupError("no such order")


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (sleep(no, name="nap"), LookupError, "no such order"),
        (sleep(until=no, name="nap"), LookupError, "no such order"),
        (sleep(lambda x: "soon", name="nap"), InvalidWait, "'soon'; return a number"),
        (sleep(lambda x: math.inf, name="nap"), InvalidWait, "inf; return a number"),
        (sleep(until=lambda x: dt.datetime(2030, 1, 1), name="nap"), InvalidWait, "time zone"),  # noqa: DTZ001
        (sleep(until=lambda x: None, name="nap"), InvalidWait, "None; return a datetime"),
    ],
)
def test_a_function_that_does_not_say_a_time_fails_the_sleep(given: Sleep, error: type[Exception], said: str) -> None:
    run, pauses = slept([given >> double, double.named("beside")])

    cause = run.failures["nap"].__cause__
    assert isinstance(cause, error)
    assert said in str(cause)
    assert run.results() == {"beside": 2}
    assert pauses == []


def test_such_a_failure_takes_an_error_route() -> None:
    handle = step(lambda failure: failure.type, name="handle")

    run, _ = slept(sleep(no, name="nap").on_error(LookupError, then=handle))

    assert not run.failed
    assert run.value("handle") == "LookupError"


# -- where it can stand --------------------------------------------------------------------------


def test_it_stands_in_an_each() -> None:
    run, pauses = slept(each(sleep(lambda x: x) >> double) >> reduce(lambda acc, x: [*acc, x], init=list), [30, 10, 20])

    assert run.output == [60, 20, 40]
    assert pauses == [10, 10, 10]
    assert run.values("double") == [20, 40, 60]


def test_it_stands_behind_a_condition_and_before_a_join() -> None:
    is_big = condition(lambda x: x > 5, name="is_big")
    flow = [is_big >> nap, double] >> step(lambda x, y: (x, y), name="both")

    assert slept(flow, 7)[0].output == (7, 14)
    run, pauses = slept(flow, 3)
    assert (run.values("both"), pauses) == ([], [])


def test_it_stands_in_a_loop() -> None:
    loop = repeat(double >> nap, until=lambda x: x > 20, at_most=9, name="grow")

    run, pauses = slept(loop, 3)

    assert run.output == 24
    assert pauses == [10, 10, 10]


def test_it_stands_in_a_nested_workflow() -> None:
    inner = Workflow("inner", double >> nap)

    run, pauses = slept(inner >> double.named("last"), 3)

    assert (run.output, run.value("inner.nap"), pauses) == (12, 6, [10])


def test_it_is_drawn_inside_a_traced_workflow() -> None:
    @workflow
    def order(x: int) -> int:
        return double(nap(double(x)))

    assert order.run(1, clock=VirtualClock()).output == 4


def test_readers_wait_for_it_to_settle() -> None:
    done = join(nap, double, wait="all_done") >> step(lambda x, y: (x, y), name="done")

    assert slept(done)[0].output == (1, 2)


def test_types_pass_through_it() -> None:
    def size(text: str) -> int:
        return len(text)

    def shout(text: str) -> str:
        return text.upper()

    def pause(text: str) -> float:
        return len(text)

    with pytest.raises(PortMismatch, match="'nap' produces int, and 'shout'"):
        Workflow("w", step(size) >> nap >> step(shout))
    with pytest.raises(PortMismatch, match=r"'size' produces int, and 'nap\.seconds'"):
        Workflow("w", step(size) >> sleep(pause, name="nap"))
    assert slept(step(shout) >> sleep(pause) >> step(size), "abc")[0].output == 3


def test_its_length_belongs_to_its_identity() -> None:
    hashes = {
        Workflow("w", each).hash
        for each in (nap, sleep(11, name="nap"), sleep(until=10.0, name="nap"), sleep(lambda x: x, name="nap"))
    }

    assert len(hashes) == 4
    assert Workflow("w", nap).version == Workflow("w", sleep(11, name="nap")).version


def test_a_sleep_that_was_not_told_how_long_is_refused() -> None:
    with pytest.raises(InvalidComponent, match="needs a length"):
        sleep()


@pytest.mark.parametrize("given", [{"seconds": -5}, {"minutes": 1, "days": -1}])
def test_a_length_below_zero_is_refused_where_it_is_written(given: dict[str, float]) -> None:
    with pytest.raises(InvalidComponent, match="not below zero"):
        sleep(**given)
