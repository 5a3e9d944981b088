"""Rules that hold for every layout: nothing overlaps, lines lead down and cross no box, no title and no words."""

from __future__ import annotations

from collections.abc import Iterator

from weft.core.draw.anchors import attach
from weft.core.draw.edge_labels import way_in, words
from weft.core.draw.layout import Layout, Line, Rect
from weft.core.draw.picture import Picture
from weft.core.draw.svg import label, measured

STEPS = 16
"""At how many points of a bend a line is looked at."""


def laid_out(picture: Picture) -> Layout:
    """Lay out *picture* as its SVG would."""
    layout = Layout(picture, *measured(picture))
    attach(layout.lines, layout.boxes)
    return layout


def overlap(a: Rect, b: Rect, by: float = 0.01) -> bool:
    """Whether two rectangles share more than an edge."""
    across = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
    down = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
    return across > by and down > by


def contains(outer: Rect, inner: Rect) -> bool:
    """Whether *inner* is inside *outer*."""
    return (
        outer.x <= inner.x + 0.01
        and outer.y <= inner.y + 0.01
        and inner.x + inner.width <= outer.x + outer.width + 0.01
        and inner.y + inner.height <= outer.y + outer.height + 0.01
    )


def points(line: Line) -> Iterator[Rect]:
    """Yield places along *line*: its straight parts, and points of its bend."""
    yield Rect(line.x1 - 0.1, line.top, 0.2, line.start - line.top)
    for step in range(STEPS + 1):
        t = step / STEPS
        # Both ends of the curve are vertical, so its way across is 3t² - 2t³ of the whole.
        x = line.x1 + (line.x2 - line.x1) * (3 * t**2 - 2 * t**3)
        half = (line.start + line.end) / 2
        y = line.start * (1 - t) ** 3 + 3 * half * (1 - t) * t + line.end * t**3
        yield Rect(x - 0.1, y - 0.1, 0.2, 0.2)
    yield Rect(line.x2 - 0.1, line.end, 0.2, line.bottom - line.end)


def mistakes(picture: Picture) -> list[str]:
    """Everything that is wrong with the layout of *picture*."""
    layout = laid_out(picture)
    boxes = list(layout.boxes.items())
    whole = Rect(0, 0, layout.width, layout.height)
    found = [
        f"{a} and {b} overlap" for i, (a, one) in enumerate(boxes) for b, other in boxes[:i] if overlap(one, other)
    ]
    found += [f"{name} is outside of the picture" for name, rect in boxes if not contains(whole, rect)]
    parents = {box.id: box.group for box in picture.boxes} | {group.id: group.parent for group in picture.groups}
    everything = layout.boxes | layout.groups
    for name, group in parents.items():
        if group is not None and not contains(layout.groups[group], everything[name]):
            found.append(f"{name} is outside of {group}")
    inside: dict[str, set[str | None]] = {}
    for name in layout.boxes:
        inside[name], at = set(), parents[name]
        while at is not None:
            inside[name].add(at)
            at = parents[at]
    for group, frame in layout.groups.items():
        found += [
            f"{name} stands in {group}" for name, rect in boxes if group not in inside[name] and overlap(frame, rect)
        ]
    for line in layout.lines:
        if not line.top - 0.01 <= line.start <= line.end <= line.bottom + 0.01:
            found.append(f"{line} does not lead down")
        way = Rect(min(line.x1, line.x2) - 1, line.top, abs(line.x1 - line.x2) + 2, line.bottom - line.top)
        others = [(name, rect) for name, rect in boxes if name not in (line.upper, line.lower) and overlap(rect, way)]
        for name, rect in others:
            if any(overlap(rect, point) for point in points(line)):
                found.append(f"a line of {line.net} crosses {name}")
    return found + mistaken_words(picture, layout)


def written(picture: Picture, layout: Layout) -> dict[str, Rect]:
    """Where something is written outside of boxes: at the ways into them, and on frames."""
    found = {f"the title of {group}": Rect(at.x, at.y, layout.titles[group], 17) for group, at in layout.groups.items()}
    for line in layout.lines:
        if line.lower is not None and (text := words(line.edge)):
            found[f"{text!r} at {line.lower} {way_in(line.net, line.edge)}"] = label(text, line)
    return found


def mistaken_words(picture: Picture, layout: Layout) -> list[str]:
    """Everything that is wrong with what is written outside of boxes."""
    texts = list(written(picture, layout).items())
    whole = Rect(0, 0, layout.width, layout.height)
    found = [f"{name} is outside of the picture" for name, rect in texts if not contains(whole, rect)]
    found += [
        f"{a} and {b} overlap" for i, (a, one) in enumerate(texts) for b, other in texts[:i] if overlap(one, other)
    ]
    found += [
        f"{name} is hidden by {box}" for name, rect in texts for box, at in layout.boxes.items() if overlap(rect, at)
    ]
    for line in layout.lines:
        found += [
            f"a line of {line.net} to {line.lower} runs through {name}"
            for name, rect in texts
            if any(overlap(rect, point) for point in points(line))
        ]
    return found
