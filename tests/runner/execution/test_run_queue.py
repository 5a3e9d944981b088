"""The queue of a run: states change as the table says, and slots are counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.fold.scope import Activation
from weft.runner.execution.inflight import TRANSITIONS, InFlight, State
from weft.runner.execution.run_queue import RunQueue

RECORD = Path(__file__).parents[3] / "docs" / "adr" / "0020-one-state-per-runnable.md"
STATES = cast("tuple[State, ...]", get_args(State))
SLOTTED = {"executing", "calling_policy", "encoding", "committing"}


class _Node:
    name = "step"


class _Activation:
    """A part of an activation: as much as the queue needs."""

    def __init__(self, number: int) -> None:
        self.key: Any = ("step", (number,))
        self.node = _Node()


def inflight(number: int = 0) -> InFlight:
    return InFlight(cast("Activation", _Activation(number)), is_spread=number % 3 == 0)


def check(queue: RunQueue, known: list[InFlight]) -> None:
    """The invariants of the header of run_queue.py."""
    alive = [each for each in known if each.state != "done"]
    assert list(queue.by_key.values()) == alive
    assert sorted(map(id, queue.line)) == sorted(id(each) for each in alive if each.state == "queued")
    assert queue.slots_used == sum(each.state in SLOTTED for each in alive)
    assert queue.spread == sum(each.state in SLOTTED for each in alive if each.is_spread)


def test_the_table_is_complete_and_counts_slots() -> None:
    assert set(TRANSITIONS) == set(STATES)
    for before, following in TRANSITIONS.items():
        for after, slots in following.items():
            assert slots == (after in SLOTTED) - (before in SLOTTED)


def rows_of(text: str, first: str) -> list[list[str]]:
    """Return the rows of the table whose header begins with *first*, the header included."""
    _, found, rest = text.partition(f"| {first}")
    assert found, first
    lines = f"{found}{rest}".partition("\n\n")[0].splitlines()
    return [[cell.strip().strip("`*") for cell in line.strip("|").split("|")] for line in lines if "---" not in line]


def test_the_decision_shows_the_same_table() -> None:
    header, (new, *created), *rows = rows_of(RECORD.read_text(encoding="utf-8"), "from ↓ to →")

    shown = {
        row[0]: {after: int(cell.partition(":")[0]) for after, cell in zip(header[1:], row[1:], strict=True) if cell}
        for row in rows
    }

    assert shown == TRANSITIONS
    assert (new, [cell.partition(":")[0] for cell in created if cell]) == ("(new)", ["0", "+1"])
    assert all(
        re.match(r"[+-]?[01]: \w", cell) for row in [created, *(row[1:] for row in rows)] for cell in row if cell
    )


def test_the_decision_says_which_states_have_a_slot() -> None:
    text = RECORD.read_text(encoding="utf-8")
    _, *rows = rows_of(text, "State |")
    invariant = re.search(r"^1\. The number of used slots is .+?\.", text, re.MULTILINE)

    assert [state for state, *_ in rows] == list(STATES)
    assert {state for state, slot, _ in rows if slot == "yes"} == SLOTTED
    assert {slot for _, slot, _ in rows} == {"yes", "no"}
    assert invariant is not None
    assert set(re.findall(r"`(\w+)`", invariant[0])) == SLOTTED


def test_every_state_can_be_reached_and_left() -> None:
    reached = {"queued"}
    for _ in STATES:
        reached |= {after for before in reached for after in TRANSITIONS[cast("State", before)]}
    assert reached == set(STATES)
    assert all("done" in following for state, following in TRANSITIONS.items() if state != "done")


@given(st.data())
def test_any_way_through_the_table_keeps_the_counts(data: st.DataObject) -> None:
    queue, known = RunQueue(), list[InFlight]()
    for number in range(data.draw(st.integers(1, 30))):
        alive = [each for each in known if each.state != "done"]
        what = data.draw(st.sampled_from(["add", "start", "move", "move", "move", "drop"] if alive else ["add"]))
        if what == "add":
            known.append(inflight(number))
            queue.add(known[-1])
        elif what == "start":
            if queue.line:
                queue.start_first()
        elif what == "move":
            each = data.draw(st.sampled_from(alive))
            queue.move(each, data.draw(st.sampled_from(sorted(TRANSITIONS[each.state]))))
        else:
            kept = {each for each in alive if data.draw(st.booleans())}
            line = [each for each in queue.line if each in kept]
            assert queue.drop(kept) == [each for each in reversed(alive) if each not in kept]
            assert list(queue.line) == line
        check(queue, known)


@pytest.mark.parametrize(("before", "after"), [(a, b) for a in STATES for b in STATES if b not in TRANSITIONS[a]])
def test_any_other_transition_is_a_bug_and_changes_nothing(before: State, after: State) -> None:
    queue, one = RunQueue(), inflight()
    queue.add(one)
    for state in {"queued": (), "done": ("done",)}.get(before, ("executing", before)):
        queue.move(one, cast("State", state))

    with pytest.raises(RuntimeError, match=f"cannot be {after} after it was {before}"):
        queue.move(one, after)

    assert one.state == before
    check(queue, [one])


def test_what_is_held_goes_on_once_that_is_durable() -> None:
    queue = RunQueue()
    queue.hold(7)
    queue.stored(6)
    assert queue.barrier == 7
    queue.stored(7)
    assert queue.barrier == 0


def test_a_queue_that_rests_can_be_used_again() -> None:
    queue = RunQueue()
    queue.rest()
    for number in range(2):
        one = inflight(number)
        queue.add(one)
        queue.rest()  # which it is not to do yet
        check(queue, [one])
        queue.start_first()
        queue.move(one, "done")
        queue.rest()
        check(queue, [one])
