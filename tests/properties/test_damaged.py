"""Whatever is wrong with a log, folding it raises an error of our own."""

from __future__ import annotations

from typing import Any

from cases import Case, budget, cases
from driving import drive
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from strategies import Schedule, schedules

from weft import Run
from weft.core import events as ev
from weft.errors import WeftError

_CHANGES = ("drop", "repeat", "swap", "component", "inputs", "other inputs", "fanned")


def spoilt(log: list[Any], change: str, at: int, other: int) -> list[Any]:
    """Return *log* with *change* made to the event at *at*, for which *other* lends what is needed."""
    at, other = at % len(log), other % len(log)
    one, two = log[at], log[other]
    made = list(log)
    match change:
        case "drop":
            del made[at]
        case "repeat":
            made.insert(other, one)
        case "swap":
            made[at], made[other] = two, one
        case "component" if isinstance(one, ev.Activated) and isinstance(two, ev.Activated):
            made[at] = replace(one, component=two.component)
        case "inputs" if isinstance(one, ev.Activated):
            made[at] = replace(one, inputs=((at, other), -other, other))
        case "other inputs" if isinstance(one, ev.Activated) and isinstance(two, ev.Activated):
            made[at] = replace(one, inputs=two.inputs)
        case "fanned" if isinstance(one, ev.FannedOut):
            made[at] = replace(one, value=[*one.value, other][other % 3 :])
        case _:
            pass
    return [replace(event, seq=seq) for seq, event in enumerate(made, 1)]


@given(
    case=cases(count=2),
    schedule=schedules(),
    changes=st.lists(st.tuples(st.sampled_from(_CHANGES), st.integers(0, 200), st.integers(0, 200)), min_size=1),
)
@budget(0.5)
def test_a_spoilt_log_is_refused_in_our_own_words_or_is_one_that_could_have_been(
    case: Case, schedule: Schedule, changes: list[tuple[str, int, int]]
) -> None:
    run = case.plan()
    drive(run, schedule)
    log: list[Any] = run.log()
    for change, at, other in changes[:3]:
        log = spoilt(log, change, at, other) if log else log

    try:
        folded = Run.from_log(log, context=case.context)
    except WeftError:
        return

    assert folded.log() == log
