"""Merging two advances of one run."""

from __future__ import annotations

import itertools

import pytest
from forking import components, double, fork, pair, plus_four, plus_two, root, total

from weft import (
    INPUT,
    Run,
    Workflow,
    each,
    reduce,
    sleep,
    step,
    wait_for,
)
from weft.errors import (
    InvalidEvent,
)


def parted(run: Run) -> tuple[Run, Run]:
    """Two copies of *run* that go their own ways."""
    return Run.from_log(run.log()), Run.from_log(run.log())


def advance(run: Run, *names: str) -> Run:
    """Run everything that is ready now and belongs to *names*."""
    for runnable in run.prepare():
        if runnable.component in names:
            run.apply(runnable.execute())
    return run


def test_merging_two_advances_unites_their_facts() -> None:
    """J100f."""
    one, other = parted(Workflow("w", root >> [plus_two, plus_four] >> pair).plan(1).react())
    advance(one, "plus_two")
    advance(other, "plus_four")

    one.merge(other)

    assert sorted(one.values()) == [2, 4, 6]
    assert components(one) == ["pair"]
    assert one.react().output == (4, 6)
    assert one.status == "idle"


def test_merging_two_finished_halves_leaves_nothing_pending() -> None:
    """J100f."""
    one, other = parted(fork.plan(1).react())
    advance(one, "plus_two")
    advance(other, "plus_four")

    one.merge(other)

    assert one.status == "idle"
    assert one.results() == {"plus_two": 4, "plus_four": 6}


def test_merging_a_run_with_itself_changes_nothing() -> None:
    """J100f."""
    run = fork.run(1)
    log = run.log()

    run.merge(run)
    run.merge(Run.from_log(log))

    assert run.log() == log


def test_what_both_have_done_counts_once() -> None:
    """J100f."""
    one, other = parted(fork.plan(1))

    one.react_until_satisfied().merge(other.react_until_satisfied())

    assert sorted(one.values()) == [2, 4, 6]
    assert one.status == "idle"


def test_a_reduce_of_elements_that_two_workers_did_fires_once() -> None:
    """C33: the batch survives the merge."""
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
    one, other = parted(Workflow("w", each(double) >> collect).plan([1, 2, 3, 4]).react())
    for run, share in ((one, slice(0, None, 2)), (other, slice(1, None, 2))):
        for runnable in run.prepare()[share]:
            run.apply(runnable.execute())

    one.merge(other).react_until_satisfied()

    assert one.values("collect") == [[2, 4, 6, 8]]
    assert one.status == "idle"


@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_a_reduce_that_one_worker_has_made_is_not_made_again(done: int) -> None:
    """C33."""
    collect = reduce(lambda acc, x: [*acc, x], init=list, name="collect")
    one, other = parted(Workflow("w", each(double) >> collect).plan([1, 2, 3]).react())
    for runnable in one.prepare()[:done]:
        one.apply(runnable.execute())

    one.merge(other.react_until_satisfied()).react_until_satisfied()

    assert one.values("collect") == [[2, 4, 6]]
    assert len(one.values("double")) == 3


def test_inputs_of_both_become_inputs_of_one() -> None:
    one, other = parted(Workflow("w", root >> double).plan())
    one.run(1)
    other.run(10)

    one.merge(other)

    assert one.values("double") == [4, 22]
    assert [fact.index for fact in one.facts() if fact.is_input] == [1, 2]
    assert one.status == "idle"


def test_an_input_with_a_key_that_both_have_is_one_input() -> None:
    one, other = parted(Workflow("w", root >> double).plan())
    one.run(1, key="a")
    other.run(1, key="a")

    one.merge(other).react_until_satisfied()

    assert one.values("double") == [4]


def test_merging_loses_no_update_of_a_state() -> None:
    one, other = parted(Workflow("w", total).run(1))
    one.run(10)
    other.run(100)

    one.merge(other).react_until_satisfied()

    assert one.state_of("total") == 111
    assert len(one.values("total")) == 3


def test_work_that_the_other_run_dispatched_and_completed_is_taken_over() -> None:
    one, other = parted(Workflow("w", root >> double).plan(1))
    [runnable] = other.prepare()
    other.record_dispatch(runnable).apply(runnable.execute())

    one.merge(other.react_until_satisfied())

    assert one.values() == [2, 4]
    assert one.status == "idle"


def test_a_failure_that_is_taken_over_brings_its_own_cause() -> None:
    def refuse(x: int) -> None:
        raise (ValueError if x == 1 else LookupError)(f"on {x}")

    one, other = parted(Workflow("w", step(refuse)).plan())
    one.run(1)
    other.run(2)

    one.merge(other)

    failure = one.failures["refuse"]
    assert "on 2" in str(failure)
    assert isinstance(failure.__cause__, LookupError)


def test_a_merged_run_can_be_rebuilt() -> None:
    one, other = parted(Workflow("w", root >> [plus_two, plus_four] >> pair).plan(1).plan(5))
    advance(one, "root")
    advance(other.react(), "plus_two")
    one.merge(other)

    rebuilt = Run.from_log(one.log())

    assert rebuilt == one
    assert sorted(rebuilt.react_until_satisfied().values("pair")) == [(4, 6), (8, 10)]


def test_merging_in_any_order_gives_the_same_values() -> None:
    """J100f: of three advances."""
    branches = [step(lambda x, k=k: x * k, name=f"times_{k}") for k in (2, 3, 5)]
    begun = Workflow("w", root >> branches >> step(lambda *xs: xs, name="all")).plan(1).react()
    advances = [advance(Run.from_log(begun.log()), branch.name) for branch in branches]

    merged = [
        Run.from_log(first.log()).merge(second).merge(third).react_until_satisfied()
        for first, second, third in itertools.permutations(advances)
    ]

    assert {tuple(run.values("all")) for run in merged} == {((4, 6, 10),)}


def test_runs_without_a_common_beginning_cannot_be_merged() -> None:
    with pytest.raises(InvalidEvent, match="different runs"):
        fork.run(1).merge(fork.run(1))


def test_a_run_that_was_changed_since_cannot_be_merged() -> None:
    one, other = parted(fork.plan(1))

    with pytest.raises(InvalidEvent, match="changed since they parted"):
        one.merge(other.add(double, to=INPUT))


# -- what waits ----------------------------------------------------------------------------------

approved = wait_for("approved", timeout=60)


def waiting() -> tuple[Run, Run]:
    """Two copies of a run that sleeps, and waits for a signal twice."""
    flow = Workflow("w", sleep(10, name="nap") >> double, approved.named("first"), approved.named("second"))
    return parted(flow.plan(1).fire_timers(100.0))


def test_signals_and_timers_of_both_are_united() -> None:
    one, other = waiting()
    one.signal("approved", "here")
    other.fire_timers(110.0)

    one.merge(other)

    assert (one.values("first"), one.values("nap"), one.waiting_for) == (["here"], [1], ["second"])
    assert Run.from_log(one.log()) == one


def test_a_signal_that_both_have_received_under_one_key_counts_once() -> None:
    one, other = waiting()
    one.signal("approved", "a", key="k")
    other.signal("approved", "a", key="k").signal("approved", "b", key="l")

    one.merge(other)

    assert (one.values("first"), one.values("second"), one.waiting_for) == (["a"], ["b"], ["nap"])
    assert one.memory.signals is None


def test_a_wait_that_both_have_ended_ends_once_and_no_signal_is_lost() -> None:
    one, other = waiting()
    one.signal("approved", "a")
    other.signal("approved", "b")

    one.merge(other).fire_timers(105.0)

    assert (one.values("first"), one.values("second")) == (["a"], ["b"])
    assert one.waiting_for == ["nap"]
    assert Run.from_log(one.log()) == one


def test_timers_that_both_have_started_stay_as_they_were_here() -> None:
    one, other = parted(Workflow("w", sleep(10, name="nap")).plan(1))
    one.fire_timers(100.0)
    other.fire_timers(200.0).fire_timers(210.0)

    one.merge(other)

    assert one.output == 1
    assert [type(event).__name__ for event in one.log()[2:]] == ["TimerStarted", "TimerFired"]


def test_a_timeout_elsewhere_is_taken_over_unless_the_signal_came_here() -> None:
    late = other_late = None
    for signalled in (False, True):
        one, other = waiting()
        other.fire_timers(160.0)
        if signalled:
            one.signal("approved", "here")
        one.merge(other)
        late, other_late = one.failures.keys(), late
        assert Run.from_log(one.log()) == one

    assert (other_late, late) == ({"first", "second"}, {"second"})
