"""
The law of undoing: wherever a run with sagas is cancelled, what they had done is undone once, the last one first.

Each element of the input is another request; a transaction fails on some of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cases import budget
from hypothesis import given
from hypothesis import strategies as st

from weft import Run, Saga, Workflow, each, step
from weft.core import events as ev
from weft.core.fold.fold import record
from weft.log import decode, encode

REASON = "enough"


class Deed(NamedTuple):
    """A transaction: whether it can be undone, and the request that it fails on."""

    is_undoable: bool
    fails_on: int | None


deeds = st.lists(st.builds(Deed, st.booleans(), st.sampled_from([None, None, None, 0, 1])), min_size=1, max_size=4)
requests = st.lists(st.integers(0, 2), min_size=1, max_size=3)


def saga_of(drawn: list[Deed]) -> Workflow:
    def transaction(number: int, deed: Deed) -> Any:
        def do(request: int, results: dict[str, Any]) -> int:
            if request == deed.fails_on:
                raise ValueError(number)
            return number

        return do

    saga = Saga("trip", on_abort=lambda outcome: "aborted")
    for number, deed in enumerate(drawn):
        undo = (lambda request, results: "undone") if deed.is_undoable else None
        if undo is not None:
            undo.__name__ = f"undo_{number}"
        saga.transaction(transaction(number, deed), name=f"do_{number}", compensate=undo)
    return Workflow("travel", each(saga >> step(str, name="told")))


def by_request(log: list[ev.AnyEvent]) -> dict[Any, list[str]]:
    """Return, by request, the transactions and compensations that have completed, in the order of the log."""
    found: dict[Any, list[str]] = {}
    for event in log:
        if isinstance(event, ev.ReactionOccurred) and event.component.startswith(("trip.do_", "trip.undo_")):
            found.setdefault(event.inputs[0], []).append(event.component.removeprefix("trip."))
    return found


@budget(200)
@given(deeds, requests, st.data())
def test_a_run_that_is_cancelled_anywhere_is_undone(drawn: list[Deed], given_: list[int], data: st.DataObject) -> None:
    workflow = saga_of(drawn)
    whole = workflow.run(given_).log()
    cut = data.draw(st.integers(2, len(whole)), label="cut")
    run = Run.from_log(whole[:cut])
    pending = [key for key in run.memory.open_all() if data.draw(st.booleans(), label=f"{key} has begun")]
    stopped = tuple((*key, 1) for key in pending if key[0].startswith("trip.do_"))
    record(run.memory, ev.RunCancelled(cut + 1, REASON, "ada", undo=True, stopped=stopped))

    begun_again = Run.from_log(run.log())
    assert begun_again == run
    run.react_until_satisfied()

    assert run.status == "cancelled"
    assert Run.from_log(decode(encode(run.log()), workflow=workflow)) == run
    started = {event.component for event in run.log()[cut + 1 :] if isinstance(event, ev.ReactionOccurred)}
    assert all(name.startswith("trip.undo_") for name in started)
    for request, done in by_request(run.log()).items():
        forward = [name for name in done if name.startswith("do_")]
        is_complete = len(forward) == len(drawn)
        undoable = [number for number in range(len(forward)) if drawn[number].is_undoable]
        expected = [] if is_complete else [f"undo_{number}" for number in reversed(undoable)]
        assert done == [*forward, *expected], request


@budget(100)
@given(deeds, requests, st.data())
def test_a_cut_anywhere_in_the_undoing_comes_to_the_same(
    drawn: list[Deed], given_: list[int], data: st.DataObject
) -> None:
    whole = saga_of(drawn).run(given_).log()
    cut = data.draw(st.integers(2, len(whole)), label="cut")
    run = Run.from_log(whole[:cut])
    record(run.memory, ev.RunCancelled(cut + 1, REASON, undo=True))
    run.react_until_satisfied()
    log = run.log()
    place = data.draw(st.integers(cut + 1, len(log)), label="place")

    again = Run.from_log(log[:place]).react_until_satisfied()

    assert again.status == "cancelled"
    assert by_request(again.log()) == by_request(log)


@budget(100)
@given(deeds, requests, st.data())
def test_a_second_cancellation_ends_it_anywhere(drawn: list[Deed], given_: list[int], data: st.DataObject) -> None:
    whole = saga_of(drawn).run(given_).log()
    cut = data.draw(st.integers(2, len(whole)), label="cut")
    run = Run.from_log(whole[:cut])
    record(run.memory, ev.RunCancelled(cut + 1, REASON, undo=True))
    for _ in range(data.draw(st.integers(0, 3), label="cycles")):
        if run.memory.ready:
            run.react()
    record(run.memory, ev.RunCancelled(len(run.log()) + 1, "leave it"))

    assert run.status == "cancelled"
    assert not run.is_runnable
    assert Run.from_log(run.log()) == run
