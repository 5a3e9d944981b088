"""
A picture as data: what a drawing shows, in any format.

A picture has boxes, groups around them, and edges.  Renderers know nothing of workflows and runs: they turn a picture
into text, each in its own format, so a new format is one file and sees what all the others see.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from weft.core.draw.progress import Progress

EdgeKind = Literal["flow", "join", "ask", "read", "error"]
"""A fact that is passed on; a fact that waits for others; a condition; a value that is read; a failure."""

GroupKind = Literal["map", "loop", "workflow", "parts"]

INPUT_ID: Final = "INPUT"
"""The id of the box that stands for the input.  It is not a component, so a list of edges leaves it out."""


class Box(msgspec.Struct, frozen=True):
    """A component, a part of one, or the input."""

    id: str
    """The name of the component; no two boxes share one."""
    kind: str
    label: str
    """The name, without that of the nested workflow around it."""
    note: str = ""
    """A remark about the definition, in a few words."""
    group: str | None = None
    keeps_state: bool = False
    progress: Progress | None = None
    """Its progress in a run; None in the picture of a definition."""
    part_of: str | None = None
    """The component that it is a part of."""


class Group(msgspec.Struct, frozen=True):
    """Boxes that belong together: the body of a map or a loop, a nested workflow, the parts of a component."""

    id: str
    kind: GroupKind
    label: str
    parent: str | None = None


class Edge(msgspec.Struct, frozen=True):
    """An arrow from one box to another."""

    source: str
    target: str
    kind: EdgeKind = "flow"
    label: str = ""
    inlet: int = 0
    """The way into the target; the edges of one join share it."""
    is_back: bool = False
    """Whether it leads against the flow: it reads what an earlier input has left, or is the way back of a loop."""

    @property
    def is_flow(self) -> bool:
        """Whether facts go along it."""
        return self.kind in ("flow", "join")


class Picture(msgspec.Struct, frozen=True):
    """Boxes, groups and edges.  Boxes are in the order of the flow, parents first; groups before those inside them."""

    name: str
    boxes: tuple[Box, ...]
    groups: tuple[Group, ...]
    edges: tuple[Edge, ...]
