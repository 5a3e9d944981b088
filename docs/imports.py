"""
Draws which part of Weft imports which, read from the source: a part of ``make pictures``.

There is one picture of the packages and one of the rooms of each large package.  An arrow leads from the importer to
the imported.  It is left out where a longer way leads to the same place, so that the layers are visible; an import
that closes a circle is red.  Imports for type checkers, and imports inside functions, are not drawn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from weft.core.draw.picture import Box, Edge, Picture
from weft.core.draw.svg import to_svg

SOURCE = Path(__file__).parents[1] / "src" / "weft"
EVERYWHERE = {"errors", "typing"}  # every package may import these
FOLDER = "explanation/pictures"

Graph = dict[str, set[str]]


def imported(path: Path) -> Iterator[tuple[str, ...]]:
    """Return the modules of Weft that the module at *path* imports when it is imported, as parts of their names."""

    def visit(node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.If(test=ast.Name("TYPE_CHECKING")):
                return
            case _:
                for child in ast.iter_child_nodes(node):
                    yield from visit(child)

    for name in visit(ast.parse(path.read_text(encoding="utf-8"))):
        top, *parts = name.split(".")
        if top == "weft":
            yield tuple(parts)


def rooms(folder: Path) -> list[str]:
    """Return the modules and packages of *folder*, without the folder's own module."""
    found = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    return sorted(found - {"__init__", "__main__"} - EVERYWHERE)


def graph(folder: Path) -> Graph:
    """Return, for every room of *folder*, which of the others it imports."""
    inside = folder.relative_to(SOURCE).parts
    known = rooms(folder)
    arrows: Graph = {}
    for room in known:
        single = folder / f"{room}.py"
        files = [single] if single.exists() else sorted((folder / room).rglob("*.py"))
        found = {parts for path in files for parts in imported(path) if parts[: len(inside)] == inside}
        arrows[room] = {parts[len(inside)] for parts in found if len(parts) > len(inside)} & set(known) - {room}
    return arrows


def layered(arrows: Mapping[str, set[str]]) -> list[str]:
    """Return the rooms, importers before what they import; of a circle, the one with the fewest importers first."""
    left = {room: set(targets) for room, targets in arrows.items()}
    order: list[str] = []
    while left:
        importers = {room: sum(room in targets for targets in left.values()) for room in left}
        room = min(left, key=lambda name: (importers[name], name))
        order.append(room)
        del left[room]
    return order


def shortened(arrows: Mapping[str, set[str]], order: list[str]) -> Iterator[Edge]:
    """Return the arrows that no longer way stands for, and those that lead back."""
    place = {room: index for index, room in enumerate(order)}
    forward = {room: {target for target in arrows[room] if place[target] > place[room]} for room in order}
    below: Graph = {}
    for room in reversed(order):
        below[room] = forward[room].union(*(below[target] for target in forward[room]))
    for room in order:
        implied = set[str]().union(*(below[target] for target in forward[room]))
        yield from (Edge(room, target) for target in sorted(forward[room] - implied, key=place.__getitem__))
        yield from (Edge(room, target, kind="error", is_back=True) for target in sorted(arrows[room] - forward[room]))


def drawn(name: str, arrows: Mapping[str, set[str]], folders: Iterable[str]) -> str:
    """Return the picture of *arrows* as SVG; what is a folder is shown with a slash."""
    order = layered(arrows)
    folders = set(folders)
    boxes = tuple(Box(room, "step", f"{room}/" if room in folders else room) for room in order)
    return to_svg(Picture(name, boxes, (), tuple(shortened(arrows, order))))


def pictures() -> dict[str, str]:
    """Return every picture of the imports by its path in the documentation."""
    return {
        f"{FOLDER}/{name}.svg": drawn(name, graph(folder), (path.parent.name for path in folder.glob("*/__init__.py")))
        for name, folder in (("imports", SOURCE), ("core", SOURCE / "core"), ("runner", SOURCE / "runner"))
    }


if __name__ == "__main__":
    for name in ("", "core", "runner"):
        for room, targets in sorted(graph(SOURCE / name).items()):
            print(f"{name or 'weft'}: {room} imports {', '.join(sorted(targets)) or 'nothing'}")
