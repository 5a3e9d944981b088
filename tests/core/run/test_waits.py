"""The interface for drivers: beginning waits, taking signals in, firing timers."""

from __future__ import annotations

import pytest

from weft import Policy, Run, Workflow, condition, each, events, reduce, sleep, step, wait_for
from weft.core.fold.scope import Key
from weft.core.run.waits import begin_waits, fire_timer, next_due, receive_signal, timers
from weft.errors import DeadlineExceeded, InvalidSignal, RunClosed, SignalTimeout, StepFailed, UnknownSignal
from weft.log import decode, encode
from weft.testing import VirtualClock

double = step(lambda x: x * 2, name="double")
nap = sleep(10, name="nap")
approved = wait_for("approved", timeout=60)


def planned(flow: object, *values: object, start: float = 100.0) -> Run:
    """Plan *values*, and begin what waits, at *start*."""
    run = Workflow("w", flow).plan().under(clock=VirtualClock(start))
    for value in values or (1,):
        run.plan(value, at=start)
    begin_waits(run, start)
    return run


def restored(run: Run) -> Run:
    return Run.from_log(decode(encode(run.log()), workflow=run.workflow))


def names(run: Run) -> list[str]:
    return [type(event).__name__ for event in run.log()]


# -- beginning -----------------------------------------------------------------------------------


def test_beginning_starts_a_timer_once_and_says_what_waits_for_time() -> None:
    run = Workflow("w", nap, approved, wait_for("paid")).plan(1)

    timed = begin_waits(run, 100.0)

    assert timed == [("nap", (2,)), ("approved", (2,))]
    assert begin_waits(run, 200.0) == []
    assert timers(run.memory) == [(("nap", (2,)), 110.0, True), (("approved", (2,)), 160.0, True)]
    assert next_due(run.memory) == 110.0
    assert run.waiting_for == ["nap", "approved", "paid"]


def test_without_timers_nothing_is_due() -> None:
    run = planned(wait_for("paid"))

    assert (timers(run.memory), next_due(run.memory), run.status) == ([], None, "waiting")


def test_a_restored_run_begins_again_and_starts_no_second_timer() -> None:
    run = planned([nap, approved])

    again = restored(run)

    assert begin_waits(again, 105.0) == [("nap", (2,)), ("approved", (2,))]
    assert again == run
    assert timers(again.memory) == timers(run.memory)


def test_a_run_that_was_cut_off_before_its_timer_started_starts_it() -> None:
    run = planned(nap)
    cut = Run.from_log(run.log()[:2])

    assert begin_waits(cut, 500.0) == [("nap", (2,))]
    assert next_due(cut.memory) == 510.0


# -- timers --------------------------------------------------------------------------------------


def test_a_timer_fires_when_it_is_due_and_not_before() -> None:
    run = planned(nap >> double)
    key: Key = ("nap", (2,))

    assert not fire_timer(run, key, 109.999)
    assert fire_timer(run, key, 110.0)
    assert not fire_timer(run, key, 111.0)

    assert run.react().output == 2
    assert restored(run) == run


def test_a_timer_of_something_that_never_waited_does_nothing() -> None:
    run = planned(double)

    assert not fire_timer(run, ("double", (2,)), 1e9)


def test_a_timeout_fails_the_wait_with_its_signal_and_seconds() -> None:
    run = planned(approved)

    assert fire_timer(run, ("approved", (2,)), 160.0)

    for each_run in (run, restored(run)):
        failure = each_run.failures["approved"]
        cause = failure.__cause__
        assert isinstance(failure, StepFailed)
        assert isinstance(cause, SignalTimeout)
        assert (cause.component, cause.signal, cause.seconds) == ("approved", "approved", 60.0)
    assert run.status == "idle"


def test_what_is_due_first_is_listed_first_and_waits_keep_their_order() -> None:
    run = planned([sleep(30, name="long"), sleep(10, name="short"), wait_for("x", timeout=20)])

    assert [key[0] for key, _, _ in timers(run.memory)] == ["short", "x", "long"]
    assert run.waiting_for == ["long", "short", "x"]


@pytest.mark.parametrize("flow", [wait_for("x"), wait_for("x", timeout=60), sleep(60, name="x")])
def test_the_deadline_of_an_input_ends_what_waits_for_it(flow: object) -> None:
    run = Workflow("w", flow).plan().plan(1, at=100.0, deadline=5.0)

    assert begin_waits(run, 100.0) == [("x", (2,))]
    assert next_due(run.memory) == 105.0
    assert timers(run.memory)[0][2] is False
    assert fire_timer(run, ("x", (2,)), 1000.0)

    assert isinstance(run.failures["x"].__cause__, DeadlineExceeded)


def test_a_timer_that_is_due_before_the_deadline_fires() -> None:
    run = Workflow("w", nap).plan().plan(1, at=100.0, deadline=50.0)
    begin_waits(run, 100.0)

    assert fire_timer(run, ("nap", (2,)), 1000.0)

    assert run.output == 1


# -- signals -------------------------------------------------------------------------------------


def test_a_signal_goes_to_the_wait_that_has_waited_longest() -> None:
    run = planned(approved, "first", "second")

    receive_signal(run, "approved", "a", at=101.0)
    receive_signal(run, "approved", "b", at=102.0)

    taken = [event for event in run.log() if isinstance(event, events.SignalTaken)]
    assert [(event.inputs, event.value) for event in taken] == [((2,), "a"), ((3,), "b")]


def test_a_signal_that_comes_early_is_kept_and_the_oldest_is_taken_first() -> None:
    run = planned(step(lambda x: x, name="later") >> approved)

    receive_signal(run, "approved", "a", at=101.0)
    receive_signal(run, "approved", "b", at=102.0)
    run = restored(run).react()
    assert begin_waits(run, 110.0) == []

    assert run.output == "a"
    assert names(run)[-1] == "SignalTaken"
    assert [signal.value for signal in (run.memory.signals or {})["approved"]] == ["b"]


def test_a_wait_that_has_not_begun_takes_what_was_kept_before_what_comes() -> None:
    run = planned(step(lambda x: x, name="later") >> approved)
    receive_signal(run, "approved", "early", at=101.0)
    run.react()

    receive_signal(run, "approved", "late", at=102.0)
    begin_waits(run, 103.0)

    assert run.output == "early"


def test_kept_signals_are_passed_over_by_waits_they_are_not_for() -> None:
    even = wait_for("n", match=lambda n: n % 2 == 0)
    run = planned(double >> even)
    for value in (1, 3, 4, 6):
        receive_signal(run, "n", value, at=101.0)

    begin_waits(run.react(), 102.0)

    assert run.output == 4
    assert [signal.value for signal in (run.memory.signals or {})["n"]] == [1, 3, 6]


def test_a_key_that_was_seen_is_ignored_also_after_a_restart() -> None:
    run = planned(approved.named("a") >> approved.named("b"))

    assert receive_signal(run, "approved", 1, at=101.0, key="k")
    assert not receive_signal(run, "approved", 2, at=102.0, key="k")
    again = restored(run)
    assert not receive_signal(again, "approved", 3, at=103.0, key="k")

    assert again.waiting_for == ["b"]
    assert receive_signal(again, "approved", 4, at=104.0, key="other")


def test_keys_of_signals_are_their_own_by_name_and_apart_from_those_of_inputs() -> None:
    run = Workflow("w", wait_for("a"), wait_for("b")).plan().plan(1, key="k")

    assert receive_signal(run, "a", 1, at=1.0, key="k")
    assert receive_signal(run, "b", 1, at=1.0, key="k")


def test_the_key_of_a_refused_signal_was_seen() -> None:
    run = planned(approved)

    run.record([events.SignalRefused(len(run.log()) + 1, "approved", "no", key="k")])

    assert not receive_signal(run, "approved", 1, at=101.0, key="k")
    assert run.waiting_for == ["approved"]


def test_an_unknown_signal_is_refused_with_the_names_there_are() -> None:
    run = planned([approved, wait_for("paid")])

    with pytest.raises(UnknownSignal, match="'aproved'; it waits for 'approved', 'paid'"):
        receive_signal(run, "aproved", 1, at=1.0)
    with pytest.raises(UnknownSignal, match="no component of it waits"):
        receive_signal(planned(double), "approved", 1, at=1.0)


def test_a_value_that_fits_one_of_several_schemas_goes_to_that_one() -> None:
    run = planned([wait_for("n", schema=int, name="number"), wait_for("n", schema=str, name="text")])

    receive_signal(run, "n", "x", at=101.0)

    assert (run.values("number"), run.values("text")) == ([], ["x"])
    with pytest.raises(InvalidSignal, match="Expected `int`, got `array`"):
        receive_signal(run, "n", [], at=102.0)


def test_a_match_that_raises_refuses_the_signal_and_harms_nothing() -> None:
    run = planned([wait_for("n", match=lambda n: n["a"] == 1, name="first"), wait_for("n", name="second")])
    log = run.log()

    with pytest.raises(InvalidSignal, match=r"match of 'first' raised KeyError: a") as caught:
        receive_signal(run, "n", {}, at=101.0)

    assert isinstance(caught.value.__cause__, KeyError)
    assert run.log() == log


def test_a_match_that_raises_on_a_kept_signal_fails_the_wait() -> None:
    run = planned(double >> wait_for("n", match=lambda n: n["a"] == 1))
    receive_signal(run, "n", {}, at=101.0)

    begin_waits(run.react(), 102.0)

    assert isinstance(run.failures["n"].__cause__, KeyError)
    assert run.memory.signals is not None


def test_the_first_in_the_log_wins_against_the_other() -> None:
    early, late = planned(approved), planned(approved)
    key: Key = ("approved", (2,))

    receive_signal(early, "approved", 1, at=200.0)
    assert not fire_timer(early, key, 200.0)
    assert fire_timer(late, key, 200.0)
    receive_signal(late, "approved", 1, at=200.0)

    assert (early.output, early.failed) == (1, False)
    assert late.failed
    assert len((late.memory.signals or {})["approved"]) == 1


# -- policies ------------------------------------------------------------------------------------


def timed_out(policy: Policy) -> Run:
    run = planned(approved >> double)
    run.set_policies([("approved", policy)])
    assert fire_timer(run, ("approved", (2,)), 160.0)
    return run


def test_a_timeout_can_be_skipped() -> None:
    run = timed_out(Policy(on_failure="skip"))

    assert (run.failed, run.skipped, run.status) == (False, ["approved"], "idle")
    assert restored(run) == run


def test_a_timeout_can_be_kept_as_a_dead_letter_and_waits_anew() -> None:
    run = timed_out(Policy(on_failure="dead_letter"))
    assert [letter.component for letter in run.dead_letters] == ["approved"]

    run.retry("approved")
    begin_waits(run, 500.0)

    assert (run.waiting_for, next_due(run.memory), run.failed) == (["approved"], 560.0, False)
    receive_signal(run, "approved", 4, at=501.0)
    assert run.react().output == 8
    assert restored(run) == run


@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy(on_failure="fallback", fallback=print), Policy(on_failure="compensate", compensation=print)],
)
def test_otherwise_it_fails_for_good(policy: Policy) -> None:
    run = timed_out(policy)

    assert run.failed
    assert run.dead_letters == []


# -- what waits, and everything else -------------------------------------------------------------


def test_a_run_that_waits_is_not_finished_with_its_last_input() -> None:
    run = Workflow("w", nap >> double).plan().plan(1, at=100.0, last=True)
    begin_waits(run, 100.0)
    assert run.status == "waiting"

    fire_timer(run, ("nap", (2,)), 110.0)
    assert run.react().status == "completed"


def test_a_run_that_has_finished_takes_no_signal() -> None:
    run = Workflow("w", double, wait_for("paid", match=lambda paid: paid)).plan().plan(1, last=True)
    run.signal("paid", True).react()
    assert run.status == "completed"

    with pytest.raises(RunClosed, match="has completed"):
        run.signal("paid", True)

    run = planned(approved)
    run.record([events.RunCancelled(len(run.log()) + 1, "not wanted")])
    with pytest.raises(RunClosed, match="not wanted"):
        run.signal("approved", True)


def test_the_results_of_an_input_are_those_of_its_own_signal() -> None:
    run = planned(approved >> double, "first", "second")

    receive_signal(run, "approved", 1, at=101.0)
    receive_signal(run, "approved", 2, at=102.0)
    run.react()

    assert [run.lineage(fact)[0].value for fact in run.facts("double")] == ["first", "second"]
    assert run.results(all=True) == {"double": [2, 4]}


def test_what_can_run_goes_before_what_waits() -> None:
    run = planned([nap, double])

    assert run.status == "running"
    assert run.react().status == "waiting"


def test_cancelling_ends_every_wait() -> None:
    run = planned([nap, approved])
    receive_signal(run, "approved", 1, at=101.0)
    receive_signal(run, "approved", 2, at=101.0)

    run.record([events.RunCancelled(len(run.log()) + 1, "not wanted")])

    assert (run.status, run.waiting_for, run.memory.signals) == ("cancelled", [], None)
    assert not fire_timer(run, ("nap", (2,)), 1e9)
    assert restored(run) == run


def test_a_reduce_waits_for_the_waits_of_all_elements() -> None:
    run = planned(each(sleep(lambda x: x, name="nap")) >> reduce(lambda a, b: a + b, init=0, name="sum"), [5, 9])
    run.react()
    begin_waits(run, 100.0)

    for key, due, _ in timers(run.memory):
        assert run.values("sum") == []
        assert fire_timer(run, key, due)

    assert run.react().output == 14


def test_what_nothing_was_produced_of_says_what_it_waits_for() -> None:
    is_big = condition(lambda x: x > 5, name="is_big")
    run = planned([nap, approved, is_big >> approved.named("big")])

    assert run.nothing_produced("nap").reason == "it sleeps"
    assert run.nothing_produced("approved").reason == "it waits for the signal 'approved'"
    assert "did not hold" in run.react().nothing_produced("big").reason


def test_a_copy_says_what_the_run_waited_for_then() -> None:
    run = planned([nap, approved])
    copy = run.frozen_copy()

    fire_timer(run, ("nap", (2,)), 110.0)
    receive_signal(run, "approved", 1, at=111.0)

    assert (copy.status, copy.waiting_for, copy.values()) == ("waiting", ["nap", "approved"], [])
    assert (run.status, run.waiting_for) == ("idle", [])
    assert copy == Run.from_log(run.log()[: len(copy.log())])


def test_components_that_are_added_leave_waits_alone() -> None:
    run = planned([nap >> double, approved])

    run.add(step(lambda x: -x, name="negate"), to="approved").add(wait_for("more"), to="nap")
    receive_signal(run, "approved", 4, at=101.0)
    fire_timer(run, ("nap", (2,)), 110.0)
    begin_waits(run.react(), 110.0)

    assert run.results() == {"double": 2, "negate": -4}
    assert run.waiting_for == ["more"]
    assert restored(run) == run


def test_a_wait_that_was_removed_still_takes_its_signal() -> None:
    run = planned([approved >> double, wait_for("paid")])

    run.remove("approved")

    assert receive_signal(run, "approved", 4, at=101.0)
    assert run.values("approved") == [4]
    with pytest.raises(UnknownSignal):
        receive_signal(run, "approved", 5, at=102.0)


def test_many_waits_end_in_the_order_in_which_they_began() -> None:
    run = planned(each(wait_for("n")), list(range(500)))
    run.react()
    begin_waits(run, 100.0)

    for number in range(500):
        receive_signal(run, "n", number, at=101.0)

    assert run.values("n") == list(range(500))
    assert run.status == "idle"
