"""
The picture of a state machine: states are boxes, and events lead from one to the next.

    >>> picture = diagram("light", "red", ["red", "green"], [], [("red", "green", "timer"), ("green", "red", "timer")])
    >>> [(edge.source, edge.label, edge.target) for edge in picture.edges]
    [('start', '', 'red'), ('red', 'timer', 'green'), ('green', 'timer', 'red')]

An event that leads to no other state is written into the box.  A final state has a double frame.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from weft.core.draw.picture import Box, Edge, Picture

Way = tuple[str, str | None, str]
"""The state, the next one if there is one, and the event."""


def diagram(name: str, initial: str, states: Sequence[str], final: Collection[str], ways: Iterable[Way]) -> Picture:
    """Return the picture of the state machine *name*; several *ways* between two states are one edge."""
    edges: dict[tuple[str, str], list[str]] = {}
    notes: dict[str, list[str]] = {}
    for state, following, event in ways:
        if following is None or following == state:
            notes.setdefault(state, []).append(f"{event} ↺" if following == state else event)
        else:
            edges.setdefault((state, following), []).append(event)
    start = "start"
    while start in states:
        start += "'"
    order = [initial, *(state for state in states if state != initial)]
    boxes = [
        Box(state, "final" if state in final else "state", state, ", ".join(notes.get(state, ()))) for state in order
    ]
    led = [
        Edge(*pair, label=", ".join(dict.fromkeys(events)), inlet=place)  # each has its own way in, and its own label
        for place, (pair, events) in enumerate(edges.items(), 1)
    ]
    return Picture(name, (Box(start, "input", "start"), *boxes), (), (Edge(start, initial), *led))
