"""
Base of a workflow and a run: every format they can be drawn in, and how a notebook shows them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from weft.core.draw import cytoscape, dot, edgelist, mermaid, svg
from weft.core.draw.picture import Picture


class Drawable:
    """Something that can be drawn.  All formats show the same picture."""

    __slots__ = ()

    @abstractmethod
    def picture(self) -> Picture:
        """Return what a drawing shows, as data."""

    def to_mermaid(self, direction: str = "TD") -> str:
        """
        Return a flowchart for Mermaid, which GitHub and many others draw.

        Raises:
            InvalidDrawing: *direction* is none of ``TD``, ``TB``, ``BT``, ``LR`` and ``RL``.
        """
        return mermaid.to_mermaid(self.picture(), direction)

    def to_dot(self, direction: str = "TD") -> str:
        """
        Return a digraph for Graphviz.

        Raises:
            InvalidDrawing: *direction* is none of ``TD``, ``TB``, ``BT``, ``LR`` and ``RL``.
        """
        return dot.to_dot(self.picture(), direction)

    def to_cytoscape(self) -> dict[str, list[dict[str, Any]]]:
        """Return nodes and edges for Cytoscape.js, as data that JSON can hold."""
        return cytoscape.to_cytoscape(self.picture())

    def to_edgelist(self) -> list[tuple[str, str]]:
        """Return the flow between components as pairs of names, in its order; the input is not among them."""
        return edgelist.to_edgelist(self.picture())

    def to_svg(self) -> str:
        """Return a picture that every browser shows, laid out by Weft alone."""
        return svg.to_svg(self.picture())

    def _repr_svg_(self) -> str:
        """Draw it where a notebook shows it."""
        return self.to_svg()
