"""Failures as facts: who gets them, what they hold, and what counts as a failure of the run."""

from __future__ import annotations

import pytest

from weft import INPUT, Failure, Run, Workflow, condition, each, join, reduce, rule, step
from weft.errors import BatchFailed, InvalidComponent, InvalidJoin, MixedRegions
from weft.policy import Policy


@step
def fetch(x: int) -> int:
    if x == 2:
        raise ValueError("two")
    if x == 3:
        raise KeyError("three")
    return x * 10


handle = step(lambda failure: failure, name="handle")
other = step(lambda failure: f"other: {failure.message}", name="other")
total = reduce(lambda so_far, x: so_far + x, init=0, name="total")


def test_a_failure_reaches_its_handler_as_a_fact() -> None:
    run = Workflow("w", fetch.on_error(ValueError, then=handle)).run(2)

    failure = run.value("handle")
    assert isinstance(failure, Failure)
    assert (failure.component, failure.type, failure.message) == ("fetch", "ValueError", "two")
    assert (failure.attempts, failure.input) == (1, 2)
    assert failure.is_a(ValueError)
    assert failure.is_a(Exception)
    assert not failure.is_a(KeyError)
    assert 'raise ValueError("two")' in failure.traceback


def test_a_handled_failure_is_not_a_failure_of_the_run() -> None:
    run = Workflow("w", fetch.on_error(ValueError, then=handle)).run(2, raise_on_failure=True)

    assert not run.failed
    assert run.failures == {}
    assert list(run.results()) == ["handle"]


def test_a_failure_that_no_route_names_fails_the_run() -> None:
    run = Workflow("w", fetch.on_error(ValueError, then=handle)).run(3)

    assert list(run.failures) == ["fetch"]
    assert run.values("handle") == []


def test_what_succeeds_goes_its_own_way() -> None:
    after = step(lambda x: x + 1, name="after")

    run = Workflow("w", fetch.on_error(then=handle) >> after).run(1)

    assert run.results() == {"after": 11}


def test_the_nearest_class_is_taken_in_whatever_order_the_routes_are_written() -> None:
    first = Workflow("w", fetch.on_error(ValueError, then=handle), fetch.on_error(Exception, then=other))
    second = Workflow("w", fetch.on_error(Exception, then=other), fetch.on_error(ValueError, then=handle))

    assert [list(first.run(x).results()) for x in (2, 3)] == [["handle"], ["other"]]
    assert [list(second.run(x).results()) for x in (2, 3)] == [["handle"], ["other"]]


def test_two_routes_for_the_same_class_are_both_taken() -> None:
    run = Workflow("w", fetch.on_error(ValueError, then=[handle, other])).run(2)

    assert set(run.results()) == {"handle", "other"}


def test_a_subclass_of_the_named_class_is_handled() -> None:
    run = Workflow("w", fetch.on_error(LookupError, then=handle)).run(3)

    assert run.value("handle").type == "KeyError"


def test_the_handler_gets_the_failure_after_the_last_retry() -> None:
    workflow = Workflow("w", fetch.on_error(ValueError, then=handle))

    run = workflow.run(2, policies=[("fetch", Policy(max_retries=2))])

    assert run.value("handle").attempts == 3


def test_a_skipped_component_has_no_failure_to_handle() -> None:
    workflow = Workflow("w", fetch.on_error(ValueError, then=handle))

    run = workflow.run(2, policies=[("fetch", Policy(on_failure="skip"))])

    assert run.results() == {}
    assert run.skipped == ["fetch"]


def test_a_handler_can_take_the_place_of_what_failed() -> None:
    after = step(lambda x: x + 1, name="after")
    default = step(lambda failure: -failure.input, name="default")
    workflow = Workflow("w", fetch >> after, fetch.on_error(then=default >> after))

    assert [workflow.run(x).value("after") for x in (1, 2)] == [11, -1]


def test_the_handler_of_a_join_sees_all_that_was_joined() -> None:
    a, b = step(lambda x: x, name="a"), step(lambda x: x + 1, name="b")
    divide = step(lambda x, y: x // (y - 1), name="divide")

    run = Workflow("w", [a, b] >> divide, divide.on_error(ZeroDivisionError, then=handle)).run(0)

    assert run.value("handle").input == (0, 1)


def test_a_failing_condition_can_be_handled() -> None:
    positive = condition(lambda x: x > 0, name="positive")
    workflow = Workflow("w", positive >> step(lambda x: x, name="same"), positive.on_error(TypeError, then=handle))

    run = workflow.run("no number")

    assert run.value("handle").component == "positive"
    assert not run.failed


def test_a_rule_whose_own_condition_fails_can_be_handled() -> None:
    double = rule(when=lambda x: x > 0, then=lambda x: x * 2, name="double")

    run = Workflow("w", double.on_error(TypeError, then=handle)).run("no number")

    assert run.value("handle").component == "double.when"


def test_a_condition_that_is_only_asked_has_no_place_from_which_a_failure_could_go() -> None:
    positive = condition(lambda x: x > 0, name="positive")
    double = rule(when=positive, then=lambda x: x * 2, name="double")

    with pytest.raises(InvalidComponent, match="only asked"):
        Workflow("w", double, positive.on_error(TypeError, then=handle))


def test_a_handler_that_fails_is_a_failure() -> None:
    broken = step(lambda failure: failure.no_such_field, name="broken")

    run = Workflow("w", fetch.on_error(then=broken)).run(2)

    assert list(run.failures) == ["broken"]


def test_a_handler_can_be_handled() -> None:
    broken = step(lambda failure: failure.no_such_field, name="broken")

    run = Workflow("w", fetch.on_error(then=broken), broken.on_error(AttributeError, then=handle)).run(2)

    assert run.value("handle").component == "broken"
    assert run.value("handle").input.component == "fetch"


def test_an_element_whose_failure_is_handled_is_left_out_of_the_reduce() -> None:
    workflow = Workflow("w", each(fetch) >> total, fetch.on_error(then=handle))

    run = workflow.run([1, 2, 3, 4])

    assert run.value("total") == 50
    assert [failure.input for failure in run.values("handle")] == [2, 3]


def test_failures_of_elements_can_be_reduced_in_their_order() -> None:
    failed = reduce(lambda so_far, failure: [*so_far, failure.message], init=list, name="failed")
    workflow = Workflow("w", each(fetch) >> total, fetch.on_error(ValueError, KeyError, then=failed))

    run = workflow.run([3, 1, 2])

    assert run.results() == {"total": 10, "failed": ["three", "two"]}


def test_a_failure_that_is_not_handled_does_not_spoil_the_reduce_of_those_that_are() -> None:
    failed = reduce(lambda so_far, failure: [*so_far, failure.message], init=list, name="failed")
    workflow = Workflow("w", each(fetch) >> total, fetch.on_error(ValueError, then=failed))

    run = workflow.run([1, 2, 3])

    assert run.results() == {"failed": ["two"]}
    assert set(run.failures) == {"fetch", "total"}


def test_a_collection_that_cannot_be_taken_apart_spoils_the_reduce_it_was_meant_for() -> None:
    one, other = each(fetch, name="one"), each(fetch.named("get"), name="other")
    whole = step(lambda x: [x], name="whole")

    run = Workflow("w", one >> total, whole >> other >> total).run(1)

    assert run.values("total") == []
    assert set(run.failures) == {"one", "total"}


def test_a_batch_that_cannot_be_reduced_can_be_handled() -> None:
    workflow = Workflow("w", each(fetch) >> total, total.on_error(BatchFailed, then=handle))

    run = workflow.run([1, 2])

    assert run.value("handle").component == "total"
    assert run.value("handle").input == [1, 2]
    assert list(run.failures) == ["fetch"]


def test_a_join_for_all_done_learns_that_the_component_failed() -> None:
    merge = step(lambda a, b: (a, b), name="merge")
    workflow = Workflow("w", join(fetch, handle, wait="all_done") >> merge, fetch.on_error(then=handle))

    handled, fine = workflow.run(2).value("merge"), workflow.run(1).value("merge")

    assert (handled[0].reason, handled[1].message) == ("failed", "two")
    assert (fine[0], fine[1].reason) == (10, "gated")


def test_the_collection_that_a_map_cannot_take_apart_can_be_handled() -> None:
    spread = each(fetch, name="spread")
    workflow = Workflow("w", spread >> total, spread.on_error(then=handle))

    assert workflow.run(5).value("handle").component == "spread"


def test_a_run_with_a_handled_failure_is_the_fold_of_its_log() -> None:
    run = Workflow("w", fetch.on_error(then=handle)).run(2)

    for length in range(2, len(run.log()) + 1):
        restored = Run.from_log(run.log()[:length]).react_until_satisfied()
        assert restored.value("handle").message == "two"
    assert Run.from_log(run.log()) == run


def test_the_failure_is_part_of_what_explains_the_value() -> None:
    run = Workflow("w", fetch.on_error(then=other)).run(2)

    assert [fact.producer for fact in run.lineage(run.fact("other"))] == [None, "fetch", "other"]
    assert "Failure('fetch', ValueError: two)" in str(run.explain("other"))


def test_routes_are_part_of_the_identity() -> None:
    plain = Workflow("w", fetch, handle)
    routed = Workflow("w", fetch.on_error(ValueError, then=handle))
    wider = Workflow("w", fetch.on_error(ValueError, KeyError, then=handle))
    same = Workflow("w", fetch.on_error(KeyError, ValueError, then=handle))

    assert len({plain.hash, routed.hash, wider.hash}) == 3
    assert wider.hash == same.hash
    assert routed.edges() == {("fetch", "handle")}
    assert routed.leaves == ("fetch", "handle")


def test_routes_survive_nesting_merging_and_renaming() -> None:
    inner = Workflow("inner", fetch.on_error(then=handle))
    merged = Workflow("w", step(lambda x: x, name="same")).merge(Workflow("w", fetch.on_error(then=handle)))
    replaced = Workflow("w", fetch.on_error(then=handle)).replace("fetch", fetch.named("get"))

    assert Workflow("outer", inner).run(2).value("inner.handle").component == "inner.fetch"
    assert merged.run(2).value("handle").component == "fetch"
    assert replaced.run(2).value("handle").component == "get"


def test_removing_what_failed_leaves_its_handler_without_work() -> None:
    workflow = Workflow("w", fetch.on_error(then=handle), step(lambda x: x, name="same")).remove("fetch")

    assert workflow.run(2).results() == {"same": 2}


def test_a_route_can_be_added_to_a_live_run() -> None:
    run = Workflow("w", fetch).plan(2)

    run.add(fetch.on_error(then=handle)).react_until_satisfied()

    assert run.value("handle").message == "two"


@pytest.mark.parametrize("wrong", ["ValueError", 5, int])
def test_only_classes_of_exceptions_can_be_handled(wrong: type[BaseException]) -> None:
    with pytest.raises(InvalidComponent, match="classes of exceptions"):
        fetch.on_error(wrong, then=handle)


def test_a_failure_cannot_enter_a_join() -> None:
    pair = step(lambda a, b: (a, b), name="pair")
    inner = Workflow("inner", [INPUT, step(lambda x: x, name="same")] >> pair)

    with pytest.raises(InvalidJoin, match="no failure can be routed"):
        fetch.on_error(then=inner)


def test_a_failure_inside_a_map_stays_inside() -> None:
    with pytest.raises(MixedRegions):
        Workflow("w", each(fetch), fetch.on_error(then=handle), [INPUT] >> handle)
