"""Rules that match nothing, and fields that cannot matter."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from weft import Policy, Rule, Runner, Sleep, WaitFor, Workflow, each, sleep, step, wait_for
from weft.policy import DEFAULT, kind, matching, tag
from weft.policy.advice import unused_fields

FETCH = step(lambda x: x, name="fetch")


def under(*rules: Any) -> Workflow:
    return Workflow("pages", FETCH).with_policies(rules)


def findings(workflow: Workflow) -> list[tuple[str, str]]:
    return [(finding.kind, finding.component) for finding in workflow.check()]


def test_a_field_that_cannot_matter_for_what_only_waits_is_found() -> None:
    flow = Workflow("pages", FETCH >> sleep(5, name="nap") >> wait_for("approved"))
    waits = kind(Sleep, WaitFor)

    def unused(matcher: Any, **fields: Any) -> list[str]:
        return [found.message.split()[0] for found in flow.with_policies([(matcher, Policy(**fields))]).check()]

    assert unused("approved", on_failure="skip", metadata={"team": "sales"}) == []
    assert unused("approved", timeout=5.0, max_retries=2) == ["max_retries", "timeout"]
    assert unused(waits, on_failure="fallback", fallback=print) == ["on_failure", "fallback"]
    assert unused(DEFAULT, timeout=5.0) == unused(matching("."), timeout=5.0) == []


@pytest.mark.parametrize(
    "matcher",
    ["fetsh", matching("^llm_"), kind(Rule), tag("net"), lambda target: False],
    ids=["name", "pattern", "kind", "tag", "function"],
)
def test_a_rule_that_matches_nothing_is_found(matcher: Any) -> None:
    assert findings(under(("fetch", Policy(timeout=1.0)), (matcher, Policy()))) == [("unmatched_rule", "policy rule 2")]


def test_rules_that_match_something_are_in_order() -> None:
    nested = Workflow("outer", FETCH.named("first") >> under(("fetch", Policy(timeout=1.0))))
    wide = Workflow("wide", each(FETCH)).with_policies([("fetch", Policy(timeout=1.0))])

    assert under(("fetch", Policy()), (matching("^f"), Policy()), (DEFAULT, Policy())).check() == []
    assert nested.check() == wide.check() == []


@pytest.mark.parametrize(
    ("policy", "unused"),
    [
        (Policy(base_delay=2.0), ["base_delay"]),
        (Policy(backoff="linear"), ["backoff"]),
        (Policy(max_retries=1, base_delay=2.0, max_delay=3.0), ["base_delay", "max_delay"]),
        (Policy(max_retries=1, backoff=float, base_delay=2.0, max_delay=3.0), ["base_delay"]),
        (Policy(non_retryable=(ValueError,), retryable=(OSError,)), ["retryable", "non_retryable"]),
        (Policy(max_retries=1, backoff="linear", base_delay=2.0, retryable=(OSError,)), []),
        (Policy(), []),
        (Policy(max_retries=0, backoff="none"), []),
        (Policy.llm(), []),
        (Policy.io(), []),
        (Policy.fast_fail(), []),
    ],
)
def test_a_field_that_cannot_matter_is_found(policy: Policy, unused: list[str]) -> None:
    assert [found.field for found in unused_fields(policy)] == unused
    assert findings(under(("fetch", policy))) == [("unused_field", "policy rule 1")] * len(unused)


def in_memory(workflow: Workflow) -> None:
    workflow.run(1)


def in_a_runner(workflow: Workflow) -> None:
    with Runner() as runner:
        for _ in range(3):
            runner.start(workflow, 1).wait()


@pytest.mark.parametrize(("go", "logger"), [(in_memory, "weft.local"), (in_a_runner, "weft.runner")])
def test_a_rule_for_an_unknown_name_is_a_warning_once_per_definition(
    go: Any, logger: str, caplog: pytest.LogCaptureFixture
) -> None:
    workflow = under(("fetsh", Policy(timeout=1.0)), ("fetch", Policy()))

    with caplog.at_level(logging.WARNING, logger=logger):
        go(workflow)

    told = [record.getMessage() for record in caplog.records if record.name == logger]
    [message] = told
    assert "workflow 'pages' has a policy rule for 'fetsh', and no component of this name" in message
    assert "perhaps 'fetch' was meant" in message


def test_a_rule_for_the_name_of_a_nested_workflow_says_what_to_use(caplog: pytest.LogCaptureFixture) -> None:
    outer = Workflow("outer", FETCH.named("first") >> Workflow("pages", FETCH))

    outer.with_policies([("pages", Policy(timeout=1.0))]).run(1)

    assert r"matching(r'^pages\.')" in caplog.text


def test_rules_that_have_an_effect_are_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    big = Workflow("w", FETCH, step(lambda x: x, name="other"))

    in_a_runner(
        big.with_policies([("fetch", Policy(timeout=1.0)), (matching("^nothing"), Policy()), (DEFAULT, Policy())])
    )

    assert caplog.records == []
