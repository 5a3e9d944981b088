"""The appends of a store: whether one has only events is asked in one place."""

from __future__ import annotations

from typing import Any

import pytest

from weft.ports.store import NEVER, NO_DEADLINE, Append

EVENTS = {"run", "expected", "count", "body", "chain", "at", "epoch", "previous"}

# field: a value with which an append writes more than events
MORE: dict[str, Any] = {
    "status": "idle",
    "wake_at": NEVER,
    "due": NO_DEADLINE,
    "taken": (7,),
    "tasks": ((1, 2),),
    "create": True,
    "workflow": "w",
    "version": "v2",
    "release": True,
    "facts": {b"f": b"large"},
    "definitions": {b"d": b"workflow"},
    "snapshot": b"snapshot",
}

# These belong to one of the fields above, or say how the append is written, not what.
OTHERS = {"reason", "failures", "dead_letters", "outcome", "unique", "again", "group", "continues", "only_events"}


def append(**fields: Any) -> Append:
    given = {"run": "r", "expected": 0, "count": 1, "body": b"1", "chain": b"c", "at": 0.0} | fields
    return Append(**given)


def test_every_field_of_an_append_is_in_one_of_these_tables() -> None:
    assert sorted([*EVENTS, *MORE, *OTHERS]) == sorted(Append.__struct_fields__)


@pytest.mark.parametrize("fields", [{}, {"previous": b"c"}, {"again": True}, {"epoch": 3}, {"only_events": True}])
def test_an_append_of_events_has_only_events_whether_or_not_its_maker_says_so(fields: dict[str, Any]) -> None:
    assert append(**fields).has_only_events


@pytest.mark.parametrize("field", MORE)
def test_an_append_that_writes_anything_else_has_not(field: str) -> None:
    needed = {"workflow": "w"} if field == "create" else {}

    assert not append(**{field: MORE[field]}, **needed).has_only_events


def test_an_append_without_events_has_not() -> None:
    assert not append(count=0, body=b"", status="idle").has_only_events
    assert not append(count=0, body=b"").has_only_events
