"""A log with the right checksums and the wrong content is refused, and the error says where and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from damage import damaged
from flows import WORKFLOWS, double, later
from msgspec.structs import replace

from weft import Policy, Run, Workflow, each, reduce, step
from weft.core import events as ev
from weft.core.fold.fold import fold, record
from weft.core.fold.memory import Memory
from weft.errors import InvalidEvent, WeftError
from weft.log import decode, encode


def broken(x: int) -> int:
    """Fail."""
    raise OSError(x)


def eventful() -> Run:
    """Return a run with everything in its log that does not come of running alone."""
    fragile = step(broken)
    flow = Workflow("eventful", double >> fragile, each(later) >> reduce(lambda a, b: a + b, init=0, name="sum"))
    run = Run(flow, id="eventful").under([("broken", Policy(on_failure="dead_letter", max_retries=1, backoff="none"))])
    run.run([1], key="first")
    run.retry(input=[2]).react_until_satisfied()
    run.discard()
    run.add(step(lambda x: x, name="more"), to="double").run([3])
    run.remove("more").plan([4], deadline=60.0)
    for runnable in run.prepare():
        run.record_dispatch(runnable)
        event = ev.ChildStarted(len(run.log()) + 1, *runnable.key, f"child of {runnable.component}")
        record(run.memory, event)
    record(run.memory, ev.RunCancelled(len(run.log()) + 1, "enough"))
    return run


RUNS: dict[str, Callable[[], Run]] = {
    **{name: lambda flow=flow, value=value: flow.run(value, id="r") for name, (flow, value) in WORKFLOWS.items()},
    "eventful": eventful,
}


def steps_of(events: list[Any]) -> Iterator[Any]:
    """Yield *events*, and fail where the fold should long have ended."""
    for count, event in enumerate(events):
        assert count < 10_000
        yield event


@pytest.mark.parametrize("name", RUNS)
def test_a_log_with_the_wrong_content_is_refused_in_our_own_words(name: str) -> None:
    log, escaped = RUNS[name]().log(), []
    refused = 0

    for wrong, events in damaged(log):
        try:
            Run.from_log(steps_of(events))
        except WeftError:
            refused += 1
        except Exception as error:  # noqa: BLE001 - this is what must not be
            escaped.append((wrong, repr(error)))

    assert escaped == []
    assert refused > len(log)


@pytest.mark.parametrize("name", RUNS)
def test_what_a_store_could_hold_and_is_not_refused_can_be_read(name: str) -> None:
    for wrong, events in islice(damaged(RUNS[name]().log()), 0, None, 5):  # decoding takes most of the time
        try:
            stored = decode(encode(events), workflow=events[0].workflow)
            run = Run.from_log(stored)
        except (WeftError, AttributeError, TypeError):  # it cannot be written, or is refused
            continue
        try:
            run.values(), run.to_mermaid(), run.prepare(), repr(run)
        except Exception as error:
            raise AssertionError(wrong) from error


def test_the_error_names_the_run_the_event_and_what_to_do() -> None:
    log = Workflow("w", double).run(1, id="order-7").log()
    wrong: list[Any] = [*log[:2], ev.StateChanged(3, "double", (2,), 0, fired=("nothing",)), *log[3:]]

    with pytest.raises(InvalidEvent) as caught:
        Run.from_log(wrong)

    assert (caught.value.run_id, caught.value.position, caught.value.kind) == ("order-7", 3, "StateChanged")
    assert "event 3 of run 'order-7', StateChanged, cannot have happened" in str(caught.value)
    assert "restore the store from a copy, or delete the run" in str(caught.value)
    assert caught.value.story == tuple(log[:2])


def test_a_raw_error_of_the_fold_is_the_cause_of_ours() -> None:
    log = WORKFLOWS["process_manager"][0].run(4, id="r").log()
    at = next(place for place, event in enumerate(log) if isinstance(event, ev.StateChanged))

    with pytest.raises(InvalidEvent, match=r"does not fit what was there \(TypeError") as caught:
        Run.from_log([*log[:at], replace(log[at], emitted=5), *log[at + 1 :]])

    assert isinstance(caught.value.__cause__, TypeError)
    assert caught.value.position == at + 1


def test_the_ordinals_of_inputs_are_those_that_were_given() -> None:
    log = Workflow("w", double).run(1, id="r").run(2).log()
    inputs = [place for place, event in enumerate(log) if isinstance(event, ev.InputReceived)]

    with pytest.raises(InvalidEvent, match="expected input 2, got input 1"):
        Run.from_log([*log[: inputs[1]], replace(log[inputs[1]], ordinal=1)])


def test_a_log_that_is_folded_in_slices_is_refused_at_the_same_place() -> None:
    log = RUNS["map"]().log()
    wrong: list[Any] = [*log[:4], replace(log[4], inputs=((1, 99),)), *log[5:]]
    memory = Memory()
    fold(memory, wrong[:2])
    fold(memory, wrong[2:4])

    with pytest.raises(InvalidEvent) as caught:
        fold(memory, wrong[4:])

    assert (caught.value.run_id, caught.value.position) == ("r", 5)


def test_what_the_source_of_the_events_raises_is_not_taken_for_a_damaged_log() -> None:
    log = RUNS["map"]().log()

    def source() -> Iterator[Any]:
        yield from log[:3]
        raise ConnectionResetError("the store is gone")

    with pytest.raises(ConnectionResetError):
        Run.from_log(source())


def test_values_that_cannot_be_shown_do_not_hide_what_is_wrong() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("not me")

    log = Workflow("w", double).plan(Shy(), id="r").log()

    with pytest.raises(InvalidEvent, match=r"ReactionOccurred that cannot be shown \(RuntimeError\)"):
        Run.from_log([*log, ev.ReactionOccurred(3, "unknown", (2,), Shy())])


def test_large_values_do_not_make_a_large_error() -> None:
    log = Workflow("w", double).plan("x" * 1_000_000, id="r").log()

    with pytest.raises(InvalidEvent) as caught:
        Run.from_log([*log, ev.ReactionOccurred(3, "unknown", (2,), "y" * 1_000_000)])

    assert len(str(caught.value)) < 5_000
