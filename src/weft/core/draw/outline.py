"""The shapes of boxes, as SVG paths: the first is filled, what follows is only drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from weft.core.draw.layout import Rect
from weft.core.draw.theme import Shape


def outline(shape: Shape, rect: Rect) -> tuple[str, ...]:
    """Return the paths of *shape* within *rect*."""
    return _OUTLINES[shape](rect)


def _rounded(rect: Rect, radius: float) -> str:
    x, y, w, h, r = rect.x, rect.y, rect.width, rect.height, radius
    return (
        f"M{x + r:.1f} {y:.1f}h{w - 2 * r:.1f}a{r:g} {r:g} 0 0 1 {r:g} {r:g}v{h - 2 * r:.1f}"
        f"a{r:g} {r:g} 0 0 1 {-r:g} {r:g}h{2 * r - w:.1f}a{r:g} {r:g} 0 0 1 {-r:g} {-r:g}"
        f"v{2 * r - h:.1f}a{r:g} {r:g} 0 0 1 {r:g} {-r:g}z"
    )


def _polygon(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "z"


def _box(rect: Rect) -> tuple[str, ...]:
    return (_rounded(rect, 7.0),)


def _pill(rect: Rect) -> tuple[str, ...]:
    return (_rounded(rect, rect.height / 2),)


def _hexagon(rect: Rect) -> tuple[str, ...]:
    x, y, right, low, middle = rect.x, rect.y, rect.x + rect.width, rect.y + rect.height, rect.y + rect.height / 2
    cut = 13.0
    return (
        _polygon([(x + cut, y), (right - cut, y), (right, middle), (right - cut, low), (x + cut, low), (x, middle)]),
    )


def _octagon(rect: Rect) -> tuple[str, ...]:
    x, y, right, low, cut = rect.x, rect.y, rect.x + rect.width, rect.y + rect.height, 9.0
    corners = [(x + cut, y), (right - cut, y), (right, y + cut), (right, low - cut)]
    return (_polygon([*corners, (right - cut, low), (x + cut, low), (x, low - cut), (x, y + cut)]),)


def _fan_out(rect: Rect) -> tuple[str, ...]:
    x, y, right, low, cut = rect.x, rect.y, rect.x + rect.width, rect.y + rect.height, 15.0
    return (_polygon([(x + cut, y), (right - cut, y), (right, low), (x, low)]),)


def _fan_in(rect: Rect) -> tuple[str, ...]:
    x, y, right, low, cut = rect.x, rect.y, rect.x + rect.width, rect.y + rect.height, 15.0
    return (_polygon([(x, y), (right, y), (right - cut, low), (x + cut, low)]),)


def _store(rect: Rect) -> tuple[str, ...]:
    x, y, w, h, r = rect.x, rect.y, rect.width, rect.height, 5.0
    arc = f"a{w / 2:.1f} {r:g} 0 0"
    body = f"M{x:.1f} {y + r:.1f}{arc} 1 {w:.1f} 0v{h - 2 * r:.1f}{arc} 1 {-w:.1f} 0z"
    return (body, f"M{x:.1f} {y + r:.1f}{arc} 0 {w:.1f} 0")


def _frame(rect: Rect) -> tuple[str, ...]:
    inner = Rect(rect.x + 3, rect.y + 3, rect.width - 6, rect.height - 6)
    return (_rounded(rect, 7.0), _rounded(inner, 4.5))


_OUTLINES: Final[dict[Shape, Callable[[Rect], tuple[str, ...]]]] = {
    "box": _box,
    "pill": _pill,
    "hexagon": _hexagon,
    "octagon": _octagon,
    "fan_out": _fan_out,
    "fan_in": _fan_in,
    "store": _store,
    "frame": _frame,
}
