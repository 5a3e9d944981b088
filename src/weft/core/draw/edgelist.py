"""The flow as pairs of names, for other programs that read graphs."""

from __future__ import annotations

from weft.core.draw.picture import INPUT_ID, Picture


def to_edgelist(picture: Picture) -> list[tuple[str, str]]:
    """Return the edges along which facts go, in the order of the flow; without the input, questions and reads."""
    owners = {box.id: box.part_of or box.id for box in picture.boxes}
    pairs = [
        (owners[edge.source], owners[edge.target])
        for edge in picture.edges
        if (edge.is_flow or edge.kind == "error") and edge.source != INPUT_ID
    ]
    return list(dict.fromkeys(pair for pair in pairs if pair[0] != pair[1]))
