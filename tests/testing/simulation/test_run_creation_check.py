"""Tests that each run is created once, and a child only when a stored log has named it."""

from __future__ import annotations

from typing import Any

from weft.ports.store import FIRST_EPOCH, Append
from weft.testing.simulation.run_creation_check import RunCreationCheck


def append(run: str, body: bytes = b"begins", *, create: bool = True, chain: bytes = b"1") -> Append:
    """Return what begins a run, or goes on with it."""
    given: dict[str, Any] = {
        "run": run,
        "body": body,
        "chain": chain,
        "create": create,
        "workflow": "w" if create else None,
    }
    return Append(expected=0, epoch=FIRST_EPOCH, count=1, at=0.0, **given)


def creations(*batches: list[Append], cancelled: tuple[str, ...] = ()) -> list[str]:
    """Return what is wrong when these *batches* are stored, of a client who wants the run ``a``."""
    watched = RunCreationCheck(["a"], cancelled)
    for batch in batches:
        watched.committed(batch, [None for _ in batch])
    return watched.problems


def test_a_child_that_a_stored_log_names_may_be() -> None:
    assert creations([append("a", b"a starts a/child")], [append("a/child")]) == []


def test_a_child_that_no_log_names_is_seen() -> None:
    assert creations([append("a")], [append("a/child")]) == ["a/child was created, and no stored log names it"]


def test_a_child_that_is_named_at_the_same_time_is_seen() -> None:
    problems = creations([append("a", b"a starts a/child"), append("a/child")])

    assert problems == ["a/child was created, and no stored log names it"]


def test_a_child_that_comes_to_be_when_its_parent_is_cancelled_is_seen() -> None:
    problems = creations([append("a", b"a starts a/child")], [append("a/child")], cancelled=("a/child",))

    assert problems == ["a/child was created after it was cancelled with its parent"]


def test_a_run_that_begins_twice_is_seen_unless_it_only_says_so_again() -> None:
    assert creations([append("a")], [append("a")]) == []
    assert creations([append("a")], [append("a", chain=b"2")]) == ["a was created twice"]
