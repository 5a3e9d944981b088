"""G70, G71: which policy for which component."""

from __future__ import annotations

import re
from typing import Any

import pytest

from weft import Policy, Rule, Step, Workflow, repeat, rule, step
from weft.errors import InvalidPolicy, UnknownComponent
from weft.policy import DEFAULT, kind, matching, tag
from weft.policy.matching import as_rules, combine

fetch = step(lambda x: x, name="fetch").tagged("net")
large = rule(when=lambda x: x > 1, then=lambda x: x, name="large")
workflow = Workflow("w", fetch, large)


@pytest.mark.parametrize(
    "matcher",
    [
        "fetch",
        matching("^fe"),
        re.compile("tch$"),
        kind(Step),
        kind(Rule, Step),
        Step,
        tag("net"),
        DEFAULT,
        lambda target: target.kind == "step",
    ],
)
def test_every_kind_of_matcher_finds_the_component(matcher: object) -> None:
    ruled = workflow.with_policies([("nobody", Policy(timeout=9.0)), (matcher, Policy(max_retries=7))])

    assert ruled.policy_for("fetch").max_retries == 7


def test_the_first_rule_that_matches_wins_and_nothing_cascades() -> None:
    ruled = workflow.with_policies([("fetch", Policy(max_retries=1)), (DEFAULT, Policy(timeout=5.0))])

    assert ruled.policy_for("fetch") == Policy(max_retries=1)
    assert ruled.policy_for("large") == Policy(timeout=5.0)


def test_no_rule_means_the_defaults() -> None:
    assert workflow.policy_for("fetch") == Policy()


def test_a_part_is_matched_by_its_own_name_and_by_its_owners() -> None:
    ruled = workflow.with_policies([("large.when", Policy(timeout=1.0)), ("large", Policy(timeout=2.0))])

    assert ruled.policy_for("large.when").timeout == 1.0
    assert ruled.policy_for("large").timeout == 2.0


def test_it_can_be_explained_which_rule_won() -> None:
    ruled = workflow.with_policies([("large", Policy()), (kind(Step), Policy(timeout=3.0))])

    assert str(ruled.explain_policy("fetch")).startswith("fetch: rule 2 of 2")
    assert "timeout=3.0" in str(ruled.explain_policy("fetch"))
    assert str(workflow.explain_policy("fetch")) == "fetch: there are no rules, so the defaults hold"
    elsewhere = workflow.with_policies([("large", Policy()), ("large", Policy(timeout=1.0))])
    assert str(elsewhere.explain_policy("fetch")) == "fetch: none of 2 rules matches, so the defaults hold"


def test_run_time_rules_go_in_front_or_in_place() -> None:
    base = workflow.add_policy("fetch", Policy(max_retries=1)).policies
    extra = [("fetch", Policy(max_retries=2))]

    assert [policy.max_retries for _, policy in combine(base, extra, "merge")] == [2, 1]
    assert [policy.max_retries for _, policy in combine(base, extra, "replace")] == [2]
    assert combine(base, [], "replace") == ()
    assert combine(base, None, "merge") == base


def test_policies_are_not_part_of_identity_and_survive_changes_of_the_graph() -> None:
    ruled = workflow.add_policy("fetch", Policy(max_retries=1))

    assert ruled.hash == workflow.hash
    assert ruled.add(step(lambda x: x, name="more")).policy_for("fetch").max_retries == 1
    assert ruled.remove("large").policy_for("fetch").max_retries == 1
    assert workflow.merge(ruled).policy_for("fetch").max_retries == 1


@pytest.mark.parametrize("wrong", [[("fetch", 5)], [5], [(5, Policy())], [("fetch",)]])
def test_what_is_not_a_rule_is_refused(wrong: list[object]) -> None:
    with pytest.raises(InvalidPolicy):
        workflow.with_policies(wrong)


def test_a_policy_for_no_component_is_an_error() -> None:
    with pytest.raises(UnknownComponent):
        workflow.policy_for("nobody")


def test_a_nested_workflow_brings_its_policies_along() -> None:
    inner = Workflow("inner", step(lambda x: x, name="s"), rule(when=bool, then=lambda x: x, name="r"))
    inner = inner.with_policies([("s", Policy(max_retries=1)), ("r", Policy(max_retries=2)), (DEFAULT, Policy())])
    middle = Workflow("middle", inner, step(lambda x: x, name="s"))

    outer = Workflow("outer", middle, step(lambda x: x, name="s"))

    assert outer.policy_for("middle.inner.s").max_retries == 1
    assert outer.policy_for("middle.inner.r.when").max_retries == 2
    assert outer.explain_policy("middle.s").rule is None
    assert outer.explain_policy("s").rule is None
    assert outer.hash == Workflow("outer", middle.with_policies([]), step(lambda x: x, name="s")).hash


def test_the_rules_around_a_nested_workflow_come_first() -> None:
    inner = Workflow("inner", step(lambda x: x, name="s")).add_policy("s", Policy(max_retries=1))
    outer = Workflow("outer", inner)

    assert outer.add_policy("inner.s", Policy(max_retries=5)).policy_for("inner.s").max_retries == 5
    assert outer.with_policies([]).policy_for("inner.s").max_retries == 0
    assert outer.add(step(lambda x: x, name="t")).policy_for("inner.s").max_retries == 1
    assert Workflow("o").add(inner).policy_for("inner.s").max_retries == 1


def test_a_workflow_that_is_nested_again_under_other_policies_has_those() -> None:
    inner = Workflow("inner", step(lambda x: x, name="s")).add_policy("s", Policy(max_retries=1))
    assert Workflow("outer", inner).policy_for("inner.s").max_retries == 1

    changed = inner.add_policy("s", Policy(max_retries=2))

    assert Workflow("outer", changed).policy_for("inner.s").max_retries == 2


def test_what_a_live_run_adds_brings_its_policies_along() -> None:
    def failing(x: int) -> int:
        raise ValueError("no")

    nested = Workflow("nested", step(failing)).add_policy("failing", Policy(on_failure="skip"))
    run = Workflow("w", step(lambda x: x, name="s")).plan().add(nested)

    assert run.run(1).skipped == ["nested.failing"]


def test_a_rule_that_is_appended_decides_only_where_no_other_does() -> None:
    workflow = Workflow("w", step(lambda x: x, name="fetch"), step(lambda x: x, name="store"))
    ruled = workflow.add_policy("fetch", Policy(max_retries=1))

    appended = ruled.append_policy(DEFAULT, Policy(max_retries=9))

    assert (appended.policy_for("fetch").max_retries, appended.policy_for("store").max_retries) == (1, 9)
    assert [matcher for matcher, _ in appended.policies] == ["fetch", DEFAULT]
    assert len(ruled.policies) == 1, "the workflow that it was appended to is what it was"
    assert appended.hash == workflow.hash


def test_a_rule_is_checked_when_it_is_appended() -> None:
    workflow = Workflow("w", step(lambda x: x, name="fetch"))

    with pytest.raises(InvalidPolicy):
        workflow.append_policy("fetch", "often")


def test_a_run_obeys_a_rule_that_was_appended() -> None:
    def failing(x: int) -> int:
        raise ConnectionError("down")

    workflow = Workflow("w", step(failing)).append_policy("failing", Policy(on_failure="skip"))

    run = workflow.run(1)

    assert (run.skipped, run.failed) == (["failing"], False)


# -- components as matchers ----------------------------------------------------------------------


def test_a_component_stands_for_its_name_and_is_not_called() -> None:
    called: list[object] = []
    fetch = step(called.append, name="fetch")
    loop = repeat(step(lambda x: x + 1, name="a") >> step(lambda x: x, name="b"), until=bool, at_most=1, name="loop")

    assert [matcher for matcher, _ in as_rules([(fetch, Policy()), (loop, Policy())])] == ["fetch", "loop"]
    flow = Workflow("w", fetch).with_policies([(fetch, Policy(max_retries=2))])
    assert flow.policy_for("fetch").max_retries == 2
    assert called == []


def test_a_workflow_and_what_has_no_name_yet_are_refused_as_matchers() -> None:
    with pytest.raises(InvalidPolicy, match="is a workflow"):
        as_rules([(Workflow("inner", step(lambda x: x, name="f")), Policy())])
    with pytest.raises(InvalidPolicy, match="has no name yet"):
        as_rules([(step(lambda x: x), Policy())])
    with pytest.raises(InvalidPolicy, match="several components: write one rule for each"):
        as_rules([(fetch >> step(lambda x: x, name="f"), Policy())])


@pytest.mark.parametrize(
    ("matcher", "written"),
    [
        (kind(Step, Rule), "kind(Step, Rule)"),
        (Step, "kind(Step)"),
        (tag("net"), "tag('net')"),
        (matching("^a"), "matching('^a')"),
        (DEFAULT, "DEFAULT"),
    ],
)
def test_a_matcher_is_shown_as_it_is_written(matcher: Any, written: str) -> None:
    [(shown, _)] = as_rules([(matcher, Policy())])

    assert repr(shown) == written


def test_a_workflow_can_be_made_with_its_rules() -> None:
    inner = Workflow("inner", fetch, policies=[("fetch", Policy(max_retries=1))])
    rules = [(matching("^inner"), Policy(max_retries=2)), (DEFAULT, Policy(timeout=1.0))]

    outer = Workflow("outer", inner, policies=iter(rules))

    assert inner.policies == Workflow("inner", fetch).with_policies([("fetch", Policy(max_retries=1))]).policies
    assert outer.policy_for("inner.fetch").max_retries == 2
    assert len(outer.policies) == 3
    assert outer.hash == Workflow("outer", inner).hash
    with pytest.raises(InvalidPolicy, match="is not a rule"):
        Workflow("w", fetch, policies=["fetch"])


# -- policies that are declared with a function --------------------------------------------------


@step(max_retries=3, timeout=5)
def load(x: int) -> int:
    return x


def test_a_policy_that_is_declared_with_a_function_holds_where_no_rule_of_the_workflow_does() -> None:
    flow = Workflow("w", load)

    assert flow.policy_for(load) == Policy(max_retries=3, timeout=5)
    assert str(flow.explain_policy("load")) == "load: rule 1 of 1, @step of 'load', says max_retries=3, timeout=5"
    assert flow.hash == Workflow("w", step(load.function.call)).hash


def test_a_declared_policy_is_behind_the_rules_of_the_workflow_and_before_the_default() -> None:
    default = (DEFAULT, Policy(timeout=9.0))
    other = step(lambda x: x, name="other")

    assert Workflow("w", load, policies=[default]).policy_for("load").max_retries == 3
    assert Workflow("w", load, other, policies=[default]).policy_for("other").timeout == 9.0
    assert (
        Workflow("w", load).with_policies([(kind(Step), Policy(priority=1)), default]).policy_for("load").priority == 1
    )
    assert Workflow("w", load).with_policies([default]).add(other).policy_for("load").max_retries == 3
    assert Workflow("a", other, policies=[default]).merge(Workflow("b", load)).policy_for("load").max_retries == 3


def test_a_declared_policy_follows_its_step_into_names_loops_and_nested_workflows() -> None:
    loop = repeat(load, until=lambda x: True, at_most=2)
    outer = Workflow("outer", Workflow("inner", load), load.named("again"), loop.named("loop"))

    assert [outer.policy_for(name).max_retries for name in ("inner.load", "again", "loop.turn", "loop.until")] == [
        3,
        3,
        3,
        0,
    ]
    assert outer.check() == []


def test_a_declared_policy_is_stored_with_the_definition() -> None:
    read = Workflow.from_dict(Workflow("w", load, policies=[(DEFAULT, Policy())]).to_dict())

    assert read.policy_for("load") == Policy(max_retries=3, timeout=5)


def test_a_declared_policy_retries() -> None:
    calls: list[int] = []

    @step(max_retries=2)
    def flaky(x: int) -> int:
        calls.append(x)
        if len(calls) < 3:
            raise OSError("not yet")
        return x

    assert Workflow("w", flaky).run(1).output == 1


def test_a_field_that_no_policy_has_is_refused_where_it_is_declared() -> None:
    wrong: Any = {"max_retires": 3}
    with pytest.raises(InvalidPolicy, match="max_retires"):
        step(lambda x: x, name="f", **wrong)
    with pytest.raises(InvalidPolicy, match="max_retries=-1"):
        step(lambda x: x, name="f", max_retries=-1)
