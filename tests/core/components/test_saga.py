"""Sagas: transactions one after another, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from booking import Booking, kinds

from weft import Policy, Run, Saga, SagaOutcome, Workflow, context, each, join, latest, reduce, state_of, step
from weft.core.events import ReactionOccurred, RunnableFailed
from weft.testing import VirtualClock

# -- ends ------------------------------------------------------------------------------------------


def test_a_saga_completes() -> None:
    """E56."""
    booking = Booking("a", "b", on_complete=lambda outcome: outcome.status, on_abort=lambda: "never")
    run = Workflow("w", booking.saga).plan()
    before = run.state_of("trip")

    run.run("r")

    assert before == SagaOutcome("pending")
    assert run.state_of("trip") == SagaOutcome("completed", {"a": "a of r", "b": "b of r"})
    assert run.values("trip.on_complete") == ["completed"]
    assert run.values("trip.on_abort") == []
    assert run.is_complete("trip")


def test_a_saga_aborts() -> None:
    """E57: what failed is not compensated, and the run has not failed."""
    booking = Booking("a", "b", "c", fails="b", on_abort=lambda outcome: outcome.failed_step, on_complete=lambda: 1)

    run = booking.run()

    assert booking.calls == ["a", "b", "undo a"]
    assert run.state_of("trip") == SagaOutcome("aborted", {"a": "a of r"}, "b", "ValueError: b failed", ["a"])
    assert run.values("trip.on_abort") == ["b"]
    assert run.values("trip.on_complete") == []
    assert (run.failed, run.failures, run.status) == (False, {}, "idle")
    assert run.is_complete("trip")


def test_compensation_is_in_reverse_order_of_completion() -> None:
    """E58: whatever the names."""
    booking = Booking("zeta", "alpha", "mid", "last", fails="last")

    run = booking.run()

    assert booking.calls[4:] == ["undo mid", "undo alpha", "undo zeta"]
    assert run.state_of("trip").compensated == ["mid", "alpha", "zeta"]


def test_a_first_transaction_that_fails_leaves_nothing_to_undo() -> None:
    booking = Booking("a", "b", fails="a", on_abort=lambda: "aborted")

    run = booking.run()

    assert booking.calls == ["a"]
    assert run.state_of("trip") == SagaOutcome("aborted", {}, "a", "ValueError: a failed")
    assert run.value("trip.on_abort") == "aborted"


def test_every_part_is_a_runnable_with_a_log_entry() -> None:
    run = Booking("a", "b", "c", fails="c").run()

    assert kinds(run) == [
        ("ReactionOccurred", "trip.a"),
        ("ReactionOccurred", "trip.b"),
        ("RunnableFailed", "trip.c"),
        ("ReactionOccurred", "trip.undo_b"),
        ("ReactionOccurred", "trip.undo_a"),
        ("ReactionOccurred", "trip"),
    ]
    assert run.value("trip.undo_a") == "undone a of r"


def test_a_transaction_gets_the_request_and_the_results_so_far() -> None:
    trip = Saga("trip")

    @trip.transaction(compensate=None)
    def first(request: int, results: dict[str, Any]) -> Any:
        return request, dict(results)

    @trip.transaction(compensate=None)
    def second(request: int, results: dict[str, Any]) -> Any:
        results["spoiled"] = True
        return request, dict(results)

    run = Workflow("w", trip).run(5)

    assert run.value("trip.second") == (5, {"first": (5, {}), "spoiled": True})
    assert set(run.state_of("trip").results) == {"first", "second"}
    assert first(1, {}) == (1, {})


def test_what_has_nothing_to_undo_is_passed_by_on_the_way_back() -> None:
    booking = Booking("a", fails="c")
    booking.saga.transaction(lambda request, results: "b", name="b", compensate=None)
    booking.saga.transaction(booking._do("c"), name="c", compensate=None)

    run = booking.run()

    assert booking.calls == ["a", "c", "undo a"]
    assert run.state_of("trip").compensated == ["a"]
    assert run.state_of("trip").results == {"a": "a of r", "b": "b"}


def test_none_is_a_result_like_any_other() -> None:
    undone: list[Any] = []
    trip = Saga("trip")
    trip.transaction(lambda q, r: None, name="a", compensate=lambda q, r: undone.append(r))
    trip.transaction(lambda q, r: 1 / 0, name="b", compensate=None)

    run = Workflow("w", trip).run(1)

    assert undone == [{"a": None}]
    assert run.state_of("trip").compensated == ["a"]
    assert run.values("trip.a.undo") == [None]


# -- policies --------------------------------------------------------------------------------------


def test_every_part_has_a_policy_of_its_own() -> None:
    booking = Booking("a", "b", fails="b", undo_fails="a")
    retried = [("trip.b", Policy(max_retries=2)), ("trip.undo_a", Policy(max_retries=1))]

    run = booking.run(policies=retried, clock=VirtualClock())

    assert booking.calls == ["a", "b", "b", "b", "undo a", "undo a"]
    assert run.state_of("trip").status == "stuck"


def test_a_transaction_that_a_policy_skips_is_left_out_and_not_undone() -> None:
    booking = Booking("a", "b", "c", fails="a c")

    run = booking.run(policies=[("trip.a", Policy(on_failure="skip"))])

    assert booking.calls == ["a", "b", "c", "undo b"]
    assert run.state_of("trip").results == {"b": "b of r"}
    assert run.state_of("trip").compensated == ["b"]
    assert run.state_of("trip").status == "aborted"


def test_a_saga_whose_last_transaction_is_skipped_completes() -> None:
    run = Booking("a", "b", fails="b").run(policies=[("trip.b", Policy(on_failure="skip"))])

    assert run.state_of("trip") == SagaOutcome("completed", {"a": "a of r"})


def test_a_compensation_that_a_policy_skips_is_not_counted() -> None:
    booking = Booking("a", "b", "c", fails="c", undo_fails="b")

    run = booking.run(policies=[("trip.undo_b", Policy(on_failure="skip"))])

    assert booking.calls[3:] == ["undo b", "undo a"]
    assert run.state_of("trip").compensated == ["a"]
    assert run.state_of("trip").status == "aborted"


def test_a_deadline_stops_the_transactions_and_not_the_way_back() -> None:
    clock = VirtualClock()
    booking = Booking("a")
    booking.saga.transaction(lambda q, r: clock.sleep(60), name="slow", compensate=booking._undo("slow"))
    booking.saga.transaction(booking._do("late"), name="late", compensate=None)

    run = booking.run(deadline=10, clock=clock)

    assert booking.calls == ["a", "undo slow", "undo a"]
    assert "deadline" in run.state_of("trip").error


# -- among others ----------------------------------------------------------------------------------


def test_what_follows_gets_the_outcome() -> None:
    shown = step(lambda outcome: outcome.status, name="shown")

    assert Workflow("w", Booking("a").saga >> shown).run(1).output == "completed"
    assert Workflow("w", Booking("a", fails="a").saga >> shown).run(1).output == "aborted"


def test_requests_in_flight_do_not_mix(finish: Callable[[Run], Run]) -> None:
    trip = Saga("trip")
    trip.transaction(lambda q, r: q * 10, name="a", compensate=lambda q, r: (q, r["a"]))
    trip.transaction(lambda q, r: 1 / (q % 2), name="b", compensate=None)
    run = Workflow("w", step(lambda x: x, name="root") >> trip).plan()
    for request in range(1, 6):
        run.plan(request)

    finish(run)

    ends = [outcome.status for outcome in run.values("trip")]
    assert sorted(ends) == ["aborted"] * 2 + ["completed"] * 3
    assert sorted(run.values("trip.a.undo")) == [(2, 20), (4, 40)]
    assert Run.from_log(run.log()) == run


def test_several_requests_of_one_input_do_not_mix(finish: Callable[[Run], Run]) -> None:
    trip = Saga("trip")
    trip.transaction(lambda q, r: 10 // q, name="a", compensate=lambda q, r: r["a"])
    trip.transaction(lambda q, r: 1 // (q - 2), name="b", compensate=None)
    parents = [step(lambda x, n=n: n, name=f"n{n}") for n in range(4)]
    pair = step(lambda x, outcome: outcome.results, name="pair")
    echo = step(lambda x: x, name="echo")
    workflow = Workflow("w", *(parent >> trip for parent in parents), [echo, trip] >> pair)

    run = finish(workflow.plan("go"))

    assert sorted((o.status, str(o.results)) for o in run.values("trip")) == [
        ("aborted", "{'a': 5}"),
        ("aborted", "{}"),
        ("completed", "{'a': 10, 'b': -1}"),
        ("completed", "{'a': 3, 'b': 1}"),
    ]
    assert run.values("pair") == [{}]


def test_it_stands_inside_an_each_and_inside_a_workflow(finish: Callable[[Run], Run]) -> None:
    booking = Booking("a", "b", fails="b")
    statuses = reduce(lambda acc, outcome: [*acc, outcome.status], init=list, name="statuses")
    outer = Workflow("outer", each(Workflow("inner", booking.saga)) >> statuses)

    run = finish(outer.plan([1, 2]))

    assert run.value("statuses") == ["aborted", "aborted"]
    assert len(run.values("inner.trip.undo_a")) == 2


def test_a_join_takes_its_outcome(finish: Callable[[Run], Run]) -> None:
    echo = step(lambda x: x, name="echo")
    both = step(lambda x, outcome: (x, outcome.status), name="both")
    saga = Booking("a", "b", "c", fails="c").saga

    run = finish(Workflow("w", join(echo, saga, wait="all_done") >> both).plan(1))

    assert run.value("both") == (1, "aborted")


def test_others_read_its_outcome() -> None:
    read: Any = step(lambda x, trip=state_of("trip"), last=latest("trip"): (trip.status, last.status), name="read")

    run = Workflow("w", read, Booking("a", fails="a").saga).run(1)

    assert run.value("read") == ("aborted", "aborted")


def test_its_functions_read_context_and_other_components() -> None:
    card: Any = context("card")
    trip = Saga("trip")
    trip.transaction(lambda q, r, card=card: card, name="pay", compensate=lambda q, r, card=card: f"refund {card}")
    trip.transaction(lambda q, r, n=latest("size"): 1 // (n - 2), name="fly", compensate=None)
    workflow = Workflow("w", trip, step(len, name="size"))

    run = workflow.run("xx", context={"trip.card": "gold"})

    assert run.value("trip.pay.undo") == "refund gold"


def test_async_transactions_and_compensations_are_awaited() -> None:
    trip = Saga("trip")

    @trip.transaction
    async def a(request: int, results: dict[str, Any]) -> int:
        return request

    @a.compensate
    async def undo_a(request: int, results: dict[str, Any]) -> str:
        return f"undone {results['a']}"

    @trip.transaction(compensate=None)
    async def b(request: int, results: dict[str, Any]) -> None:
        raise ValueError

    run = Workflow("w", trip).run(7)

    assert run.value("trip.undo_a") == "undone 7"
    assert run.state_of("trip").error == "ValueError"


def test_it_is_told_how_far_it_is() -> None:
    run = Workflow("w", Booking("a", "b", "c", fails="c").saga).plan("r")
    told: list[tuple[str, list[str]]] = []

    while run.is_runnable:
        run.react()
        told.append((run.state_of("trip").status, run.state_of("trip").remaining))

    assert told == [
        ("running", []),
        ("running", []),
        ("compensating", ["b", "a"]),
        ("compensating", ["a"]),
        ("compensating", []),
        ("aborted", []),
    ]


def test_the_cause_of_an_outcome_is_everything_that_was_done() -> None:
    run = Booking("a", "b", fails="b").run()

    parents = [fact.producer for fact in run.fact("trip").parents]

    assert parents == [None, "trip.a", "trip.b", "trip.undo_a"]


def test_it_can_be_added_to_a_live_run() -> None:
    run = Workflow("w", step(lambda x: x, name="a")).run(1)

    run.add(Booking("x", "y", fails="y").saga, to="a")
    run.run(2)

    assert run.state_of("trip").status == "aborted"
    assert Run.from_log(run.log()) == run


# -- crashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", ["", "a", "b", "c"])
def test_a_crash_anywhere_resumes_there_and_repeats_nothing(fails: str) -> None:
    whole = Booking("a", "b", "c", fails=fails).run(id="same")

    for cut in range(2, len(whole.log())):
        booking = Booking("a", "b", "c", fails=fails)
        log = Workflow("w", booking.saga).run("r", id="same").log()
        booking.calls.clear()
        resumed = Run.from_log(log[:cut]).react_until_satisfied()

        assert resumed.state_of("trip") == whole.state_of("trip")
        assert kinds(resumed) == kinds(whole)
        ended = [e for e in log[cut:] if isinstance(e, ReactionOccurred | RunnableFailed) and e.component != "trip"]
        assert len(booking.calls) == len(ended)


def test_an_idempotency_key_is_the_same_after_a_crash() -> None:
    run = Workflow("w", Booking("a", "b").saga).plan("r", id="same")
    run.react()

    [before] = run.prepare()
    [after] = Run.from_log(run.log()).prepare()

    assert before.component == "trip.b"
    assert before.idempotency_key == after.idempotency_key
