"""Retries of halted failures, forks and upgrades of a run in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft import (
    INPUT,
    Absent,
    Policy,
    Run,
    Workflow,
    accumulator,
    all_values,
    collect,
    condition,
    each,
    events,
    fact_count,
    join,
    latest,
    reduce,
    repeat,
    step,
)
from weft.errors import InvalidArgument, NoSuchLetter, NotACollection, UnknownComponent, WrongArity


class Broken:
    """A function that fails on some values until it is fixed, and counts its calls."""

    def __init__(self, *bad: Any, work: Callable[[Any], Any] = lambda x: x) -> None:
        self.bad, self.work, self.calls = set(bad), work, list[Any]()

    def __call__(self, x: Any) -> Any:
        self.calls.append(x)
        if x in self.bad:
            raise ValueError(f"no {x}")
        return self.work(x)

    def mend(self) -> None:
        self.bad.clear()


def same(run: Run) -> Run:
    """Return *run*, which is the fold of its log."""
    twin = Run.from_log(run.log())
    assert twin == run
    assert twin.results() == run.results()
    assert set(twin.failures) == set(run.failures)
    assert twin.memory.lineage.void == run.memory.lineage.void
    return run


double = step(lambda x: x * 2, name="double")
add_one = step(lambda x: x + 1, name="add_one")
pair = step(lambda a, b: (a, b), name="pair")
both = Workflow("both", double, add_one, [double, add_one] >> pair)


# -- retry ---------------------------------------------------------------------------------------


def test_what_halted_runs_again_and_what_completed_stands() -> None:
    charge, fine = Broken(5), Broken()
    run = Workflow("w", step(charge, name="charge") >> double, step(fine, name="fine")).run(5)
    assert set(run.failures) == {"charge"}

    charge.mend()
    same(run.retry(by="ann")).react_until_satisfied()

    assert same(run).results() == {"double": 10, "fine": 5}
    assert not run.failures
    assert (charge.calls, fine.calls) == ([5, 5], [5])
    retried = [event for event in run.log() if isinstance(event, events.RunRetried)]
    assert [(event.failed, event.by) for event in retried] == [((3,), "ann")]


def test_a_batch_that_was_given_up_waits_for_the_element_that_is_retried() -> None:
    score = Broken(3)
    total = reduce(lambda a, b: a + b, init=0, name="total")
    run = Workflow("w", step(lambda n: list(range(n)), name="items") >> each(step(score, name="score")) >> total).run(6)
    assert set(run.failures) == {"score", "total"}

    score.mend()
    run.retry().react_until_satisfied()

    assert same(run).value("total") == 15
    assert score.calls.count(3) == 2
    assert len(score.calls) == 7


def test_the_elements_of_a_batch_are_retried_by_the_name_of_its_reduce() -> None:
    score, other = Broken(3), Broken(7)
    total = reduce(lambda a, b: a + b, init=0, name="total")
    items = step(lambda n: list(range(n)), name="items")
    flow = Workflow("w", items >> each(step(score, name="score")) >> total, step(other, name="other"))
    run = flow.run(7)

    score.mend()
    other.mend()
    run.retry("total").react_until_satisfied()

    assert same(run).value("total") == 21
    assert set(run.failures) == {"other"}


def test_a_join_that_went_on_without_a_value_runs_again_with_it() -> None:
    left = Broken(1)
    meet = step(lambda a, b: ("absent" if isinstance(a, Absent) else a, b), name="meet")
    first = step(left, name="left")
    run = Workflow("w", first, double, join(first, double, wait="all_done") >> meet).run(1)
    assert run.value("meet") == ("absent", 2)

    left.mend()
    run.retry().react_until_satisfied()

    assert same(run).values("meet") == [(1, 2)]
    [void, stands] = [event.seq for event in run.log() if getattr(event, "component", "") == "meet"]
    assert void in run.memory.lineage.void
    assert stands not in run.memory.lineage.void


def test_the_absent_of_another_input_keeps_its_address() -> None:
    left = Broken(1, 2)
    seen = Broken(work=lambda x: x)
    meet = step(lambda a, b: seen((isinstance(a, Absent), b)), name="meet")
    first = step(left, name="left")
    run = Workflow("w", first, double, join(first, double, wait="all_done") >> meet).run(1).run(2)
    one, two = (event for event in run.log() if isinstance(event, events.RunnableFailed))

    left.mend()
    run.retry(one).react_until_satisfied()

    assert same(run).values("meet") == [(True, 4), (False, 2)]
    assert seen.calls == [(True, 2), (True, 4), (False, 2)], "that of the second input stands"
    run.retry(two).react_until_satisfied()
    assert same(run).values("meet") == [(False, 2), (False, 4)]


def test_a_reader_of_the_version_before_reads_what_the_retry_makes() -> None:
    source = Broken(2)
    read = step(lambda x, last=latest("source"): (x, last), name="read")
    run = Workflow("w", step(source, name="source"), read).run(1).run(2)
    assert run.values("read") == [(1, 1), (2, 1)]

    source.mend()
    run.retry().react_until_satisfied()

    assert same(run).values("read") == [(1, 1), (2, 2)]


def test_a_state_folds_in_what_failed_when_it_is_retried() -> None:
    bad = {2}

    def add(total: int, x: int) -> int:
        if x in bad:
            raise ValueError("no")
        return total + x

    run = Workflow("w", accumulator(add, init=0, name="total")).run(1)
    run.run(2).run(3)
    assert run.values("total") == [1, 4]

    bad.clear()
    run.retry().react_until_satisfied()

    assert same(run).values("total") == [1, 4, 6]


def test_a_loop_that_used_up_its_turns_begins_again() -> None:
    enough, calls = [100], list[int]()

    def grow(x: int) -> int:
        calls.append(x)
        return x + 1

    loop = repeat(step(grow, name="grow"), until=lambda x: x >= enough[0], at_most=3).named("loop")
    run = Workflow("w", loop).run(0)
    assert set(run.failures) == {"loop"}

    enough[0] = 2
    run.retry("loop").react_until_satisfied()

    assert same(run).results() == {"loop": 2}
    assert calls == [0, 1, 2, 0, 1]
    assert not run.failures


def test_a_failure_that_depended_on_another_one_is_not_retried_but_run_for_the_first_time() -> None:
    first, second = Broken(1), Broken(None)
    read = step(lambda x, last=latest("first", default=None): second(last), name="second")
    run = Workflow("w", step(first, name="first"), read).run(1)
    assert set(run.failures) == {"first", "second"}

    first.mend()
    run.retry().react_until_satisfied()

    assert same(run).value("second") == 1
    assert not run.failures


def test_one_of_several_failures_is_retried_alone() -> None:
    work = Broken(1, 2)
    run = Workflow("w", step(work, name="work")).run(1).run(2)
    first = next(event for event in run.log() if isinstance(event, events.RunnableFailed))

    work.mend()
    run.retry(first).react_until_satisfied()

    assert same(run).values("work") == [1]
    assert run.failed


def test_a_halted_failure_is_retried_with_another_input_and_policy() -> None:
    work = Broken(5, 6)
    run = Workflow("w", step(work, name="work") >> double).run(5)

    with pytest.raises(WrongArity):
        Workflow("p", [double, add_one] >> step(lambda a, b: 1 // 0, name="never")).run(1).retry(input=3)
    run.retry("work", input=6, policy=Policy(on_failure="dead_letter")).react_until_satisfied()
    assert [letter.component for letter in run.dead_letters] == ["work"]
    run.retry(input=7).react_until_satisfied()

    assert same(run).value("double") == 14


def test_a_retry_that_is_refused_has_changed_nothing() -> None:
    work = Broken(5)
    run = Workflow("w", step(work, name="work")).run(5)
    before = run.log()

    with pytest.raises(WrongArity):
        Workflow("w", [double, add_one] >> step(lambda a, b: 1 // 0, name="never")).run(1).retry(input=(1, 2, 3))
    with pytest.raises(NoSuchLetter):
        run.retry("nothing")

    assert run.log() == before


def test_the_attempts_of_a_retry_begin_from_one() -> None:
    work = Broken(5)
    flow = Workflow("w", step(work, name="work")).with_policies([("work", Policy(max_retries=2))])
    run = flow.run(5)
    assert len(work.calls) == 3

    run.retry().react_until_satisfied()

    assert len(work.calls) == 6
    assert same(run).failed


def test_the_idempotency_key_of_a_retry_is_the_same() -> None:
    work = Broken(5)
    run = Workflow("w", step(work, name="work")).plan(5)
    [first] = run.prepare()
    run.react_until_satisfied().retry()
    [again] = run.prepare()

    assert again.idempotency_key == first.idempotency_key


def test_a_run_can_be_retried_again_and_again() -> None:
    work = Broken(1, 2, 3)
    total = reduce(lambda a, b: a + b, init=0, name="total")
    run = Workflow("w", step(lambda n: list(range(n)), name="items") >> each(step(work, name="work")) >> total).run(4)

    for mended in (1, 2, 3):
        work.bad.discard(mended)
        same(run.retry().react_until_satisfied())

    assert run.results() == {"total": 6}
    assert work.calls.count(0) == 1


def test_a_frozen_copy_from_before_a_retry_shows_what_was() -> None:
    work = Broken(5)
    run = Workflow("w", step(work, name="work")).run(5)
    before = run.frozen_copy()

    work.mend()
    run.retry().react_until_satisfied()

    assert before.failed
    assert before.status == "idle"
    after = run.frozen_copy()
    assert after.value("work") == 5
    assert after.prepare() == []


# -- fork ----------------------------------------------------------------------------------------


def test_only_what_depends_on_the_edit_runs_again() -> None:
    calls = list[str]()
    flow = Workflow(
        "w",
        one := step(lambda x: (calls.append("one"), x)[1], name="one"),
        two := step(lambda x: (calls.append("two"), x)[1], name="two"),
        [one, two] >> step(lambda a, b: (calls.append("pair"), a + b)[1], name="pair"),
    )
    run = flow.run(1)
    before = run.log()
    calls.clear()

    fork = same(run.fork(at="one", value=10, by="ann")).react_until_satisfied()

    assert same(fork).results() == {"pair": 11}
    assert calls == ["pair"]
    assert run.log() == before
    assert fork.id != run.id
    [event] = [event for event in fork.log() if isinstance(event, events.RunForked)]
    assert (event.origin, event.head, event.edited, event.by) == (run.id, len(before), (3,), "ann")
    assert [fact.value for fact in fork.lineage(fork.fact("pair"))] == [1, 10, 1, 11]


@pytest.mark.parametrize(
    ("at", "value", "expected"),
    [
        (INPUT, 7, (14, 8)),
        ("INPUT", 7, (14, 8)),
        (2, 7, (14, 8)),
        ("double", 7, (7, 4)),
        (double, 7, (7, 4)),
        (3, 7, (7, 4)),
    ],
)
def test_a_run_is_forked_at_an_input_a_component_or_an_event(at: Any, value: Any, expected: Any) -> None:
    assert same(both.run(3).fork(at=at, value=value).react_until_satisfied()).value("pair") == expected


def test_a_run_is_forked_at_a_fact() -> None:
    run = both.run(3)
    fork = run.fork(at=run.fact("add_one"), value=0).react_until_satisfied()
    assert fork.value("pair") == (6, 0)


def test_a_component_without_a_value_runs_again() -> None:
    work = Broken()
    run = Workflow("w", step(work, name="work") >> double, add_one).run(1)

    run.fork(at="work").react_until_satisfied()

    assert work.calls == [1, 1]


def test_a_fork_at_an_event_has_the_history_up_to_it() -> None:
    run = both.run(3).run(4)
    fork = run.fork(at=3)

    assert [runnable.component for runnable in fork.prepare()] == ["add_one"]
    assert same(fork.react_until_satisfied()).values("pair") == [(6, 4)]


def test_a_fork_with_another_outcome_of_a_condition_goes_the_other_way() -> None:
    flow = Workflow("w", condition(lambda x: x > 3, name="large") >> double, add_one)
    run = flow.run(5)

    fork = run.fork(at="large", value=False).react_until_satisfied()

    assert same(fork).results() == {"add_one": 6}
    assert flow.run(1).fork(at="large", value=True).react_until_satisfied().results() == {"double": 2, "add_one": 2}


def test_a_fork_with_a_value_in_place_of_a_failure() -> None:
    work = Broken(5)
    run = Workflow("w", step(work, name="work") >> double).run(5)

    fork = run.fork(at="work", value=8).react_until_satisfied()

    assert same(fork).results() == {"double": 16}
    assert not fork.failures
    assert run.failed
    assert work.calls == [5]


def test_only_the_edited_elements_of_a_collection_run_again() -> None:
    work = Broken()
    total = reduce(lambda a, b: a + b, init=0, name="total")
    run = Workflow("w", each(step(work, name="work")) >> total).run([1, 2, 3])
    element = next(fact for fact in run.lineage(run.fact("total")) if fact.value == 2)
    work.calls.clear()

    fork = run.fork(at=element, value=20).react_until_satisfied()

    assert same(fork).value("total") == 24
    assert work.calls == [20]
    longer = run.fork(at="map_1", value=[1, 2, 3, 4]).react_until_satisfied()
    assert same(longer).value("total") == 10
    assert work.calls == [20, 4]
    with pytest.raises(NotACollection):
        run.fork(at="map_1", value=5)


def test_a_component_of_many_elements_is_edited_by_a_fact() -> None:
    run = Workflow("w", each(double)).run([1, 2])

    with pytest.raises(InvalidArgument, match=r"it has run 2 times for input 1; give the fact to edit"):
        run.fork(at="double", value=1)
    fork = run.fork(at=run.facts("double")[0], value=100)
    assert same(fork).values("double") == [100, 4]


def test_an_edited_state_voids_what_the_component_made_later() -> None:
    run = Workflow("w", accumulator(lambda total, x: total + x, init=0, name="total") >> double).run(1).run(2).run(3)

    fork = run.fork(at=run.facts("total")[1], value=100).react_until_satisfied()

    assert same(fork).values("total") == [1, 100, 103]
    assert fork.values("double") == [2, 200, 206]


def test_readers_of_an_edited_fact_run_again() -> None:
    flow = Workflow(
        "w",
        double,
        step(lambda x, seen=all_values("double"): seen, name="seen"),
        step(lambda x, count=fact_count("double"): count, name="count"),
    )
    run = flow.run(1).run(2)

    fork = run.fork(at=run.facts("double")[0], value=50)

    assert {runnable.component for runnable in fork.prepare()} == {"seen"}
    assert same(fork.react_until_satisfied()).values("seen") == [[50], [50, 4]]


def test_a_cancelled_run_is_forked_and_goes_on() -> None:
    run = both.plan(3)
    run.react()
    from weft.core.fold.fold import record

    record(run.memory, events.RunCancelled(len(run.log()) + 1, "enough"))
    assert run.status == "cancelled"

    fork = run.fork().react_until_satisfied()

    assert same(fork).results() == {"pair": (6, 4)}
    assert fork.status == "idle"


def test_a_fork_has_other_idempotency_keys_and_the_policies_it_is_given() -> None:
    run = both.plan(3)
    fork = run.fork(id="other", policies=[("double", Policy(max_retries=3))])

    assert fork.id == "other"
    assert {r.idempotency_key for r in fork.prepare()}.isdisjoint(r.idempotency_key for r in run.prepare())
    assert any(isinstance(event, events.PolicyChanged) for event in fork.log())
    assert not any(isinstance(event, events.PolicyChanged) for event in run.log())


def test_a_fork_of_a_fork_and_of_a_retried_run() -> None:
    work = Broken(5)
    run = Workflow("w", step(work, name="work") >> double >> add_one).run(5)
    work.mend()
    run.retry().react_until_satisfied()

    fork = same(run.fork(at="double", value=1).react_until_satisfied())
    again = same(fork.fork(at=INPUT, value=3).react_until_satisfied())

    assert (run.value("add_one"), fork.value("add_one"), again.value("add_one")) == (11, 2, 7)


def test_a_preview_says_what_would_run_and_what_stands() -> None:
    run = both.run(3)
    before = run.log()

    preview = run.fork(at="double", value=0, preview=True)

    assert (dict(preview.runs), dict(preview.stands)) == ({"pair": 1}, {"double": 1, "add_one": 1})
    assert str(preview) == "runs: pair\nstands: double, add_one"
    assert run.log() == before


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"value": 1}, InvalidArgument, "say what with at="),
        ({"at": 99}, InvalidArgument, "the log has the events 1 to 5"),
        ({"at": 0, "value": 1}, InvalidArgument, "the log has the events 1 to 5"),
        ({"at": 1, "value": 1}, InvalidArgument, "WorkflowDefined is not the outcome of a component"),
        ({"at": "nothing"}, UnknownComponent, "no component 'nothing'"),
    ],
)
def test_a_fork_of_nothing_is_refused(given: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        both.run(3).fork(**given)


def test_a_component_that_has_not_run_cannot_be_forked_at() -> None:
    with pytest.raises(InvalidArgument, match=r"fork\(at='pair'\): it has not run"):
        both.plan(3).fork(at="pair")


# -- upgrade -------------------------------------------------------------------------------------


def test_what_completed_stands_in_the_new_graph_and_the_rest_of_it_runs() -> None:
    work = Broken()
    first = step(work, name="first")
    old = Workflow("w", first >> double)
    run = old.plan(5)
    run.react()
    new = Workflow("w", first >> step(lambda x: x + 100, name="between") >> double)

    preview = run.upgrade(new, preview=True)
    same(run.upgrade(new, by="ann")).react_until_satisfied()

    assert (dict(preview.runs), dict(preview.stands), preview.new) == ({"between": 1}, {"first": 1}, ("between",))
    assert same(run).results() == {"double": 210}
    assert work.calls == [5]
    assert run.workflow is new


def test_what_has_another_input_in_the_new_graph_runs_again() -> None:
    new = Workflow("both", double, add_one, [double, add_one] >> pair >> step(sum, name="sum"))
    run = both.plan(3)
    run.react()
    run.react()
    assert not run.is_runnable
    done = same(run.upgrade(new))
    assert not done.is_runnable, "an input that is done stays as it was"

    run = both.plan(3)
    run.react()
    other = Workflow("both", double >> add_one, [double, add_one] >> pair)
    same(run.upgrade(other)).react_until_satisfied()
    assert run.values("add_one") == [7]
    assert run.value("pair") == (6, 7)


def test_a_failure_stands_until_it_is_retried_in_the_new_graph() -> None:
    def broken(x: int) -> int:
        raise ValueError("no")

    run = Workflow("w", step(broken, name="work") >> double).run(5)
    mended = Workflow("w", step(lambda x: x + 1, name="work") >> double)

    run.upgrade(mended)
    assert same(run).failed
    run.retry().react_until_satisfied()

    assert same(run).results() == {"double": 12}


def test_components_run_again_where_that_is_asked_for() -> None:
    old = Workflow("w", step(lambda x: x + 1, name="price") >> double >> pair_up())
    run = old.plan(5)
    run.react()
    run.react()
    new = Workflow("w", step(lambda x: x + 10, name="price") >> double >> pair_up())

    run.upgrade(new, again=["price"]).react_until_satisfied()

    assert same(run).results() == {"pair_up": (30, 30)}
    with pytest.raises(UnknownComponent):
        run.upgrade(new, again=["nothing"])


def pair_up() -> Any:
    return step(lambda x: (x, x), name="pair_up")


def test_what_is_gone_is_lost_and_said() -> None:
    total = accumulator(lambda a, x: a + x, init=0, name="total")
    run = Workflow("w", total >> double, step(lambda x: x, name="other") >> step(lambda x: -x, name="last")).plan(5)
    run.react()
    new = Workflow("w", step(lambda x: x, name="other") >> step(lambda x: -x, name="last"))

    preview = run.upgrade(new, preview=True)
    run.upgrade(new).react_until_satisfied()

    assert "the state of 'total', which is gone" in preview.lost
    assert any(text.startswith("'total' is gone; 1 outcomes") for text in preview.lost)
    assert same(run).results() == {"last": -5}


def test_a_new_reader_reads_what_inputs_before_it_have_made() -> None:
    old = Workflow("w", double, step(lambda x: x, name="slow") >> step(lambda x: x, name="end"))
    run = old.run(1)
    run.plan(2)
    run.react()
    history = step(lambda x, seen=all_values("double"): seen, name="history")
    new = Workflow("w", double, step(lambda x: x, name="slow") >> step(lambda x: x, name="end"), history)

    run.upgrade(new).react_until_satisfied()

    assert same(run).values("history") == [[2, 4]]


def test_an_upgrade_to_another_workflow_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"another version of 'both'.*got the workflow 'w'"):
        both.run(1).upgrade(Workflow("w", double))


def test_later_inputs_follow_the_new_graph() -> None:
    run = both.run(1)
    run.upgrade(Workflow("both", double, add_one, [double, add_one] >> pair >> collect(name="all")))
    run.run(2)

    assert same(run).values("pair") == [(2, 2), (4, 3)]


def test_the_state_of_a_component_that_is_kept_is_kept() -> None:
    total = accumulator(lambda a, x: a + x, init=0, name="total")
    run = Workflow("w", total).run(1).run(2)
    run.upgrade(Workflow("w", total >> double)).run(3)

    assert same(run).values("total") == [1, 3, 6]
    assert run.values("double") == [12]


def test_code_that_changed_is_an_event_and_what_is_pending_runs_the_new_code() -> None:
    from weft.core.fold.fold import record

    run = Workflow("w", double >> step(lambda x: x, name="end")).plan(1)
    run.react()
    new = Workflow("w", double >> step(lambda x: -x, name="end"))

    record(run.memory, events.CodeChanged(len(run.log()) + 1, ("end",), new))
    run.react_until_satisfied()

    assert same(run).results() == {"end": -2}
