"""
Elements for Cytoscape.js, and for anything else that reads nodes and edges from JSON.

A group is a node of the kind ``group``; the nodes inside it name it as their ``parent``.
"""

from __future__ import annotations

from typing import Any

from weft.core.draw.picture import Box, Group, Picture
from weft.core.draw.progress import Progress


def to_cytoscape(picture: Picture) -> dict[str, list[dict[str, Any]]]:
    """Return *picture* as ``{"nodes": [...], "edges": [...]}``; the id of a node is the name of its component."""
    taken = {box.id for box in picture.boxes} | {group.id for group in picture.groups}
    edges: list[dict[str, Any]] = []
    for edge in picture.edges:
        name = f"{edge.source} {edge.kind} {edge.target}"
        while name in taken:
            name += "'"
        taken.add(name)
        data: dict[str, Any] = {"id": name, "source": edge.source, "target": edge.target, "kind": edge.kind}
        if edge.label:
            data["label"] = edge.label
        if edge.is_back:
            data["back"] = True
        edges.append({"data": data})
    nodes = [_group(group) for group in picture.groups] + [_node(box) for box in picture.boxes]
    return {"nodes": nodes, "edges": edges}


def _group(group: Group) -> dict[str, Any]:
    data: dict[str, Any] = {"id": group.id, "label": group.label, "kind": "group", "of": group.kind}
    return {"data": data if group.parent is None else data | {"parent": group.parent}}


def _node(box: Box) -> dict[str, Any]:
    data: dict[str, Any] = {"id": box.id, "label": box.label, "kind": box.kind}
    if box.note:
        data["note"] = box.note
    if box.group is not None:
        data["parent"] = box.group
    return {"data": data if box.progress is None else data | _progress(box.progress)}


def _progress(progress: Progress) -> dict[str, Any]:
    data: dict[str, Any] = {
        "state": progress.state,
        "done": progress.done,
        "failed": progress.failed,
        "skipped": progress.skipped,
        "refused": progress.refused,
        "attempts": progress.attempts,
        "seconds": progress.seconds,
    }
    if progress.of is not None:
        data["of"] = progress.of
    if progress.at:
        data["at"] = progress.at
    if progress.error:
        data["error"] = progress.error
    if progress.letters:
        data["dead_letters"] = progress.letters
    if progress.children:
        data["children"] = progress.children
    return data
