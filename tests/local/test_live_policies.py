"""Policies that change while a run goes on."""

from __future__ import annotations

import pytest

from weft import Run, Workflow, step
from weft.core.events import PolicyChanged
from weft.errors import InvalidPolicy
from weft.policy import DEFAULT, Policy
from weft.testing import VirtualClock


def failing(x: int) -> int:
    raise OSError("always")


work = Workflow("w", step(failing))


def test_a_change_is_an_event_and_survives_a_restore() -> None:
    run = work.plan(1).set_policies([("failing", Policy(max_retries=2))])

    restored = Run.from_log(run.log()).react_until_satisfied()

    assert isinstance(run.log()[-1], PolicyChanged)
    assert restored.failures["failing"].attempts == 3


def test_policies_that_a_run_was_given_survive_a_restore() -> None:
    run = work.plan(1).under([("failing", Policy(max_retries=1))])

    assert Run.from_log(run.log()).react_until_satisfied().failures["failing"].attempts == 2


def test_a_change_that_was_made_elsewhere_takes_effect() -> None:
    run = work.with_policies([("failing", Policy(max_retries=1))]).run(1)
    elsewhere = Run.from_log(run.log()).set_policies([("failing", Policy(max_retries=2))])

    run.record(elsewhere.log()[-1:]).run(2)

    assert run.failures["failing"].attempts == 3


def test_new_rules_replace_those_in_force_or_go_in_front() -> None:
    ruled = work.with_policies([("failing", Policy(max_retries=3))])

    replaced = ruled.plan(1).set_policies([(DEFAULT, Policy())]).react_until_satisfied()
    merged = ruled.plan(1).set_policies([("other", Policy())], mode="merge").react_until_satisfied()

    assert replaced.failures["failing"].attempts == 1
    assert merged.failures["failing"].attempts == 4


@pytest.mark.parametrize("parallel", [None, 2])
def test_a_change_takes_effect_at_the_next_decision(parallel: int | None) -> None:
    """The step itself changes the policies of its run, while it is being retried."""
    runs: list[Run] = []
    attempts: list[int] = []

    def gives_up(x: int) -> int:
        attempts.append(x)
        if len(attempts) == 2:
            runs[0].set_policies([("gives_up", Policy(max_retries=3, on_failure="skip"))])
        raise OSError("always")

    run = Workflow("w", step(gives_up)).plan(1).under([("gives_up", Policy(max_retries=10))], clock=VirtualClock())
    runs.append(run)

    run.react_until_satisfied(parallel=parallel)

    assert len(attempts) == 4
    assert run.skipped == ["gives_up"]


def test_a_preview_tells_which_pending_work_a_change_touches_and_changes_nothing() -> None:
    fine = step(lambda x: x, name="fine")
    run = Workflow("w", step(failing), fine).plan(1)

    effects = run.preview([("failing", Policy(timeout=3.0))])

    assert [(effect.component, effect.inputs) for effect in effects] == [("failing", (2,))]
    assert (effects[0].before.policy, effects[0].after.policy.timeout) == (Policy(), 3.0)
    assert "timeout=3.0" in str(effects[0])
    assert run.policies is None


def test_a_preview_knows_dead_letters() -> None:
    run = work.run(1, policies=[(DEFAULT, Policy(on_failure="dead_letter"))])

    assert [effect.component for effect in run.preview([])] == ["failing"]
    assert run.react_until_satisfied().preview([(DEFAULT, Policy(on_failure="dead_letter"))]) == []


def test_a_policy_that_cannot_be_kept_is_refused_and_the_old_ones_hold() -> None:
    run = work.plan(1).set_policies([("failing", Policy(max_retries=2))])

    with pytest.raises(InvalidPolicy, match="heartbeat"):
        run.set_policies([("failing", Policy(heartbeat=1.0))])

    assert run.react_until_satisfied().failures["failing"].attempts == 3
