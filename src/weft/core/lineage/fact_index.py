"""
Where the facts of each component stand in a log: most runs are never asked, so it is made with the first question.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.core import events as ev
from weft.typing import Address


class FactIndex:
    """The positions of the facts of each component, among the events after the first *begins*."""

    __slots__ = ("begins", "ends", "facts", "state_changes")

    def __init__(self, begins: int) -> None:
        self.begins = begins
        """How many events stand before the first that is in it."""
        self.ends = begins
        """The position of the last event that is in it."""
        self.facts: dict[str, list[Address]] = {}
        """By component."""
        self.state_changes: dict[tuple[str, Any], list[int]] = {}
        """By component that decides over its state, and key."""

    def extend(self, events: Iterable[ev.AnyEvent], void: frozenset[int], ends: int) -> None:
        """Add *events*, those after the last, except for those that no longer count; *ends* is the last position."""
        facts = self.facts
        for event in events:
            if void and event.seq in void:
                continue
            if isinstance(event, ev.PRODUCTIONS):
                facts.setdefault(event.component, []).append(event.seq)
            elif isinstance(event, ev.FannedOut):
                elements = facts.setdefault(event.component, [])
                elements.extend((event.seq, i) for i in range(len(event.value)))
            elif isinstance(event, ev.StateChanged):
                self.state_changes.setdefault((event.component, event.key), []).append(event.seq)
                emitted = facts.setdefault(event.component, [])
                emitted.extend((event.seq, i) for i in range(len(event.emitted)))
        self.ends = ends
