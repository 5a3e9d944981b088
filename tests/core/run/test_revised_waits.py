"""Retries, forks and upgrades of runs that sleep or wait for signals."""

from __future__ import annotations

from typing import Any

import pytest

from weft import INPUT, Policy, Run, Workflow, diff, each, events, join, reduce, sleep, step, wait_for
from weft.core.run.waits import begin_waits, fire_timer, next_due, receive_signal, timers
from weft.errors import InvalidArgument

price = step(lambda x: x * 10, name="price")
approval = wait_for("approved", timeout=60, name="approval")
ship = step(lambda x: f"shipped {x}", name="ship")
ORDER = Workflow("order", price >> approval >> ship)
NAP = Workflow("nap", sleep(30, name="nap") >> step(lambda x: x + 1, name="after"))


def same(run: Run) -> Run:
    """Return *run*, which is the fold of its log."""
    twin = Run.from_log(run.log())
    assert twin == run
    assert (twin.status, twin.waiting_for, twin.results()) == (run.status, run.waiting_for, run.results())
    assert timers(twin.memory) == timers(run.memory)
    return run


def at_work(run: Run, now: float = 0.0) -> Run:
    """Run what can run, and begin what waits."""
    while runnables := run.prepare():
        run.apply(runnables[0].execute())
        begin_waits(run, now)
    begin_waits(run, now)
    return same(run)


def approved(value: Any = "yes", *, key: str | None = None) -> Run:
    """Return a run of the order whose approval has come."""
    run = at_work(ORDER.plan(5))
    assert receive_signal(run, "approved", value, at=1.0, key=key)
    return at_work(run)


def kinds(run: Run) -> list[str]:
    return [type(event).__name__ for event in run.memory.lineage.standing()]


# -- forks ---------------------------------------------------------------------------------------


def test_a_fork_at_a_fact_upstream_of_a_wait_waits_anew() -> None:
    run = approved()

    fork = at_work(run.fork(at="price", value=7), now=100.0)

    assert (fork.status, fork.waiting_for) == ("waiting", ["approval"])
    assert next_due(fork.memory) == 160.0
    assert fork.memory.signals is None, "the signal was sent for another price"
    assert run.value("ship") == "shipped yes"
    receive_signal(fork, "approved", "again", at=101.0)
    assert at_work(fork).value("ship") == "shipped again"


def test_a_fork_downstream_of_a_wait_keeps_what_it_took() -> None:
    fork = at_work(approved().fork(at="ship"))

    assert (fork.value("approval"), fork.value("ship")) == ("yes", "shipped yes")


def test_a_fork_at_a_wait_has_another_answer_or_asks_again() -> None:
    run = approved()

    assert at_work(run.fork(at="approval", value="no")).value("ship") == "shipped no"
    assert at_work(run.fork(at=run.facts("approval")[0], value="no")).value("ship") == "shipped no"
    again = at_work(run.fork(at="approval"))
    assert again.waiting_for == ["approval"]
    assert again.value("price") == 50


def test_a_fork_at_a_signal_is_one_at_the_wait_that_took_it() -> None:
    run = approved()
    signal = next(event.seq for event in run.log() if isinstance(event, events.SignalReceived))

    assert at_work(run.fork(at=run.memory.lineage.fact(signal), value="no")).value("ship") == "shipped no"
    assert at_work(run.fork(at=run.memory.lineage.fact(signal))).waiting_for == ["approval"]


def test_a_signal_that_no_wait_has_taken_cannot_be_edited() -> None:
    run = ORDER.plan(5)
    receive_signal(run, "approved", "early", at=0.0)
    signal = next(event.seq for event in run.log() if isinstance(event, events.SignalReceived))

    with pytest.raises(InvalidArgument, match=r"no wait has taken the signal 'approved' .*; send the fork another one"):
        run.fork(at=signal, value="no")
    assert at_work(run.fork(at=signal)).value("ship") == "shipped early", "it came before that event"


def test_the_key_of_a_signal_that_is_void_does_not_count_in_a_fork() -> None:
    fork = at_work(approved(key="click 1").fork(at="price", value=7))

    assert receive_signal(fork, "approved", "again", at=2.0, key="click 1")


def test_the_key_of_a_signal_that_is_void_still_counts_in_the_run() -> None:
    run = at_work(ORDER.plan(5))
    receive_signal(run, "approved", "yes", at=1.0, key="click 1")
    at_work(run.upgrade(Workflow("order", step(lambda x: x, name="first") >> price >> approval >> ship)))
    assert run.waiting_for == ["approval"]

    assert not receive_signal(run, "approved", "yes", at=2.0, key="click 1"), "it is a late repetition"
    assert same(run).waiting_for == ["approval"]


def test_a_fork_as_the_run_was_then_has_the_time_that_was_set_then() -> None:
    run = at_work(NAP.plan(1), now=10.0)
    assert fire_timer(run, timers(run.memory)[0][0], 40.0)
    at_work(run)
    started = next(event.seq for event in run.log() if isinstance(event, events.TimerStarted))

    fork = same(run.fork(at=started))

    assert (fork.status, next_due(fork.memory)) == ("waiting", 40.0)
    begin_waits(fork, 50.0)
    assert next_due(fork.memory) == 40.0
    assert run.value("after") == 2


def test_a_sleep_that_is_over_is_edited_or_begins_again() -> None:
    run = at_work(NAP.plan(1), now=10.0)
    fire_timer(run, timers(run.memory)[0][0], 40.0)
    at_work(run)

    assert at_work(run.fork(at="nap", value=8)).value("after") == 9
    again = at_work(run.fork(at="nap"), now=100.0)
    assert next_due(again.memory) == 130.0


def test_a_wait_that_timed_out_has_an_edited_answer_in_a_fork() -> None:
    run = at_work(ORDER.plan(5))
    fire_timer(run, timers(run.memory)[0][0], 60.0)
    assert run.failures

    fork = at_work(run.fork(at="approval", value="after all"))

    assert fork.value("ship") == "shipped after all"
    assert not fork.failures


def test_a_cancelled_run_that_waited_waits_on_in_a_fork() -> None:
    run = at_work(ORDER.plan(5))
    run.record([events.RunCancelled(len(run.log()) + 1)])
    assert run.waiting_for == []

    fork = same(run.fork())

    assert (fork.status, next_due(fork.memory)) == ("waiting", 60.0)


def test_the_preview_says_what_waits() -> None:
    run = approved()

    asked = run.fork(at="price", value=7, preview=True)
    assert (asked.runs, asked.waits) == ({"ship": 1}, {"approval": 1})
    assert "waits: approval" in str(asked)
    assert run.fork(at="ship", preview=True).waits == {}


def test_runs_that_got_different_signals_differ() -> None:
    one, other = approved("yes"), approved("no")

    found = diff(one, other)

    assert [each.component for each in found.differences] == ["approval", "ship"]
    assert diff(one, at_work(ORDER.plan(5))).only_in_first == {"approval": 1, "ship": 1}


# -- retries -------------------------------------------------------------------------------------


def test_a_wait_that_timed_out_is_retried_with_its_whole_time() -> None:
    run = at_work(ORDER.plan(5))
    fire_timer(run, timers(run.memory)[0][0], 60.0)
    assert run.failed

    at_work(run.retry(), now=1000.0)

    assert (run.status, next_due(run.memory), run.failed) == ("waiting", 1060.0, False)
    receive_signal(run, "approved", "late", at=1001.0)
    assert at_work(run).value("ship") == "shipped late"


def test_a_retry_leaves_other_waits_and_what_they_took_alone() -> None:
    bad = {5}

    def picky(x: int) -> int:
        if x in bad:
            raise ValueError(f"no {x}")
        return x

    flow = Workflow("w", [step(picky), approval, sleep(30, name="nap")] >> step(lambda *all: all, name="met"))
    run = at_work(flow.plan(5))
    receive_signal(run, "approved", "yes", at=1.0)
    waiting = run.memory.waiting
    assert waiting is not None
    nap = waiting["nap", (2,)].activation

    bad.clear()
    run.retry()

    assert run.memory.newly_waiting == []
    assert (run.memory.waiting or {})["nap", (2,)].activation is nap
    assert next_due(at_work(run).memory) == 30.0
    fire_timer(run, ("nap", (2,)), 30.0)
    assert at_work(run).value("met") == (5, "yes", 5)


def test_a_wait_behind_what_failed_asks_again() -> None:
    bad = {5}

    def picky(x: int) -> int:
        if x in bad:
            raise ValueError(f"no {x}")
        return x

    told = step(lambda a, b: f"{a} {b}", name="told")
    flow = Workflow("w", join(INPUT >> price, step(picky), wait="all_done") >> told >> approval >> ship)
    run = at_work(flow.plan(5))
    receive_signal(run, "approved", "without it", at=1.0)
    assert at_work(run).value("ship") == "shipped without it"

    bad.clear()
    at_work(run.retry())

    assert run.waiting_for == ["approval"]
    assert run.memory.signals is None
    receive_signal(run, "approved", "with it", at=2.0)
    assert at_work(run).values("ship") == ["shipped with it"]


def test_a_dead_letter_of_a_wait_is_retried_as_before() -> None:
    run = at_work(Workflow("w", approval).with_policies([("approval", Policy(on_failure="dead_letter"))]).plan(5))
    fire_timer(run, timers(run.memory)[0][0], 60.0)
    assert run.dead_letters

    at_work(run.retry(), now=70.0)

    assert next_due(run.memory) == 130.0


# -- upgrades ------------------------------------------------------------------------------------


def test_a_wait_goes_on_in_the_new_graph() -> None:
    run = at_work(ORDER.plan(5))
    later = Workflow("order", price >> approval >> ship >> step(str.upper, name="shout"))

    preview = run.upgrade(later, preview=True)
    at_work(run.upgrade(later), now=50.0)

    assert (preview.waits, preview.runs, preview.stands) == ({"approval": 1}, {}, {"price": 1})
    assert (run.waiting_for, next_due(run.memory)) == (["approval"], 60.0)
    receive_signal(run, "approved", "yes", at=51.0)
    assert at_work(run).value("shout") == "SHIPPED YES"


def test_a_wait_with_another_time_begins_anew() -> None:
    run = at_work(ORDER.plan(5))
    patient = Workflow("order", price >> wait_for("approved", timeout=600, name="approval") >> ship)

    at_work(run.upgrade(patient), now=50.0)

    assert next_due(run.memory) == 650.0
    assert kinds(run).count("TimerStarted") == 1


def test_a_wait_for_another_signal_asks_again() -> None:
    run = approved()
    run.plan(6)
    at_work(run)
    receive_signal(run, "approved", "second", at=2.0)  # taken, and then there is nothing left to do
    run.plan(7)
    at_work(run)
    other = Workflow("order", price >> wait_for("paid", name="approval") >> ship)

    at_work(run.upgrade(other, again=["approval"]))

    assert run.memory.awaited_signals == {"paid"}
    receive_signal(run, "paid", "at last", at=3.0)
    assert at_work(run).value("ship") == "shipped at last"


def test_a_step_becomes_a_wait_and_a_wait_a_step() -> None:
    old = Workflow("w", step(lambda x: x, name="a") >> wait_for("go", name="b") >> sleep(30, name="c"))
    run = at_work(old.plan(1))
    receive_signal(run, "go", 2, at=1.0)
    at_work(run)
    new = Workflow("w", wait_for("go", name="a") >> step(lambda x: x * 2, name="b") >> sleep(30, name="c"))

    at_work(run.upgrade(new))

    assert run.waiting_for == ["a"]
    receive_signal(run, "go", 4, at=2.0)
    assert at_work(run, now=5.0).value("b") == 8
    assert next_due(run.memory) == 35.0


def test_a_wait_per_element_stands_for_the_elements_that_are_not_edited() -> None:
    flow = Workflow("w", each(approval) >> reduce(lambda acc, x: [*acc, x], init=list[str], name="all"))
    run = at_work(flow.plan([1, 2]))
    receive_signal(run, "approved", "one", at=1.0)
    receive_signal(run, "approved", "two", at=1.0)
    assert at_work(run).value("all") == ["one", "two"]
    fanned = next(event.seq for event in run.log() if isinstance(event, events.FannedOut))

    fork = at_work(run.fork(at=fanned, value=[1, 9]))

    assert (fork.values("approval"), fork.waiting_for) == (["one"], ["approval"])
    receive_signal(fork, "approved", "nine", at=2.0)
    assert at_work(fork).value("all") == ["one", "nine"]
