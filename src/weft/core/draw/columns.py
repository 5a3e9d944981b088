"""
Computes the horizontal position of each item in its layer.

The best position of an item makes its links straight, but the items of a layer must keep their order and their
distance.  The nearest allowed positions, by least squares, are found in one pass that pools neighbours that would
overlap.  Doing this layer by layer, alternately downward and upward, straightens long lines and centres parents above
their children, and costs the same for every item however large the graph is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor
from typing import Final

from weft.core.draw.layers import Item

ROUNDS: Final = 12
STILL: Final = 0.5
"""When nothing moves by more than this in a round, more rounds would make no visible difference."""
BETWEEN: Final = 30.0
"""The least distance between two boxes."""
BESIDE: Final = 14.0
"""The least distance between a line and what is beside it."""


def spread(layers: Sequence[Sequence[Item]]) -> None:
    """Set ``x``, the centre of every item; the leftmost edge is at 0."""
    for layer in layers:
        _separate(layer, [0.0] * len(layer), [1.0] * len(layer))
    for _ in range(ROUNDS):
        moved = max((_settle(layer, _above) for layer in layers[1:]), default=0.0)
        if max((_settle(layer, _below) for layer in layers[-2::-1]), default=0.0) + moved < STILL:
            break
    for _ in range(ROUNDS // 3):
        moved = max((_settle(layer, _around) for layer in layers), default=0.0)
        if max((_settle(layer, _around) for layer in reversed(layers)), default=0.0) + moved < STILL:
            break
    _straighten(layers)
    _gather(layers)
    for layer in layers:
        for item in layer:  # halves are enough, and are the same however a version of Python adds numbers up
            item.x = floor(2 * item.x + 0.5 + 1e-6) / 2
    left = min((item.x - item.width / 2 for layer in layers for item in layer), default=0.0)
    for layer in layers:
        for item in layer:
            item.x -= left


Pulls = Callable[[Item], list[tuple[float, float]]]


def _above(item: Item) -> list[tuple[float, float]]:
    return [(link.upper.x + link.at - link.to, link.weight) for link in item.ups]


def _below(item: Item) -> list[tuple[float, float]]:
    return [(link.lower.x + link.to - link.at, link.weight) for link in item.downs]


def _around(item: Item) -> list[tuple[float, float]]:
    return _above(item) + _below(item)


def _settle(layer: Sequence[Item], pulls: Pulls) -> float:
    """Move the items of *layer* to where they are pulled, and return how far the one that moved most has moved."""
    before = [item.x for item in layer]
    wanted: list[float] = []
    weights: list[float] = []
    for item in layer:
        found = pulls(item)
        total = sum(weight for _, weight in found)
        wanted.append(sum(x * weight for x, weight in found) / total if found else item.x)
        weights.append(total if found else 0.1)
    _separate(layer, wanted, weights)
    return max(abs(item.x - x) for item, x in zip(layer, before, strict=True))


def _gather(layers: Sequence[Sequence[Item]]) -> None:
    """Put what has no links, and so is pulled nowhere, right beside its neighbours at either end of a layer."""
    for layer in layers:
        linked = [place for place, item in enumerate(layer) if item.ups or item.downs]
        if linked:
            for place in range(linked[-1] + 1, len(layer)):
                layer[place].x = layer[place - 1].x + _distance(layer[place - 1], layer[place])
            for place in range(linked[0] - 1, -1, -1):
                layer[place].x = layer[place + 1].x - _distance(layer[place], layer[place + 1])


def _straighten(layers: Sequence[Sequence[Item]]) -> None:
    """Give the bends of one line the same place, as far down as there is room for it in all their layers."""
    done: set[Item] = set()
    for layer in layers:
        for item in layer:
            run: list[Item] = []
            low, high = float("-inf"), float("inf")
            at: Item | None = item if item.is_thin and item not in done else None
            while at is not None:
                left, right = _room(layers[at.rank], at)
                if max(low, left) > min(high, right):
                    break
                low, high = max(low, left), min(high, right)
                run.append(at)
                done.add(at)
                at = next((link.lower for link in at.downs if link.lower.is_thin and link.edge is None), None)
            if len(run) > 1:
                mean = sum(bend.x for bend in run) / len(run)
                for bend in run:
                    bend.x = min(max(mean, low), high)


def _room(layer: Sequence[Item], item: Item) -> tuple[float, float]:
    """Return from where to where *item* could be moved without its neighbours."""
    before = layer[item.place - 1] if item.place else None
    after = layer[item.place + 1] if item.place + 1 < len(layer) else None
    half = item.width / 2 + BESIDE
    left = float("-inf") if before is None else before.x + before.width / 2 + half
    right = float("inf") if after is None else after.x - after.width / 2 - half
    return left, right


def _distance(item: Item, after: Item) -> float:
    """Return how far apart the centres of two neighbours are at least."""
    return (item.width + after.width) / 2 + (BESIDE if item.is_thin or after.is_thin else BETWEEN)


def _separate(layer: Sequence[Item], wanted: Sequence[float], weights: Sequence[float]) -> None:
    """Put the items of *layer* as near to where they are *wanted* as their order and sizes allow."""
    offsets: list[float] = []
    offset = 0.0
    for place, item in enumerate(layer):
        if place:
            offset += _distance(layer[place - 1], item)
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for want, shift, weight in zip(wanted, offsets, weights, strict=True):
        mean, total, count = want - shift, weight, 1
        while pools and pools[-1][0] > mean:
            other, heavy, many = pools.pop()
            mean = (mean * total + other * heavy) / (total + heavy)
            total, count = total + heavy, count + many
        pools.append((mean, total, count))
    place = 0
    for mean, _, count in pools:
        for _ in range(count):
            layer[place].x = mean + offsets[place]
            place += 1
