"""Nothing happens that the static check rules out, on generated workflows."""

from __future__ import annotations

from cases import Case, budget, cases
from driving import drive
from hypothesis import given
from strategies import Schedule, schedules


@budget(0.5)
@given(cases(count=2), schedules())
def test_what_is_said_to_be_unreachable_never_makes_anything(case: Case, schedule: Schedule) -> None:
    run = case.plan()
    never = [f.component for f in run.workflow.check() if f.kind in ("unreachable", "join_never_fires")]

    drive(run, schedule)

    assert [name for name in never if run.workflow.component(name).makes_facts and run.values(name)] == []
