"""
Labelled adjacency: order, reachability and cycles of a graph given as a dict of successors.

    >>> topological({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []})
    ['a', 'b', 'c', 'd']
    >>> sorted(reachable("b", {"a": ["b"], "b": ["d"], "d": []}))
    ['d']
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

N = TypeVar("N", bound=Hashable)
Successors = Mapping[N, Sequence[N]]


def topological(successors: Successors[N]) -> list[N] | None:
    """Return the nodes, parents first, in the order given where that is free; None if there is a cycle."""
    waiting = dict.fromkeys(successors, 0)
    for children in successors.values():
        for child in children:
            waiting[child] += 1
    queue = deque(node for node, count in waiting.items() if count == 0)
    order: list[N] = []
    while queue:
        node = queue.popleft()
        order.append(node)
        for child in successors[node]:
            waiting[child] -= 1
            if waiting[child] == 0:
                queue.append(child)
    return order if len(order) == len(waiting) else None


def reachable(start: N, successors: Successors[N]) -> set[N]:
    """Return every node that can be reached from *start*, itself only if it lies on a cycle."""
    seen: set[N] = set()
    stack = list(successors[start])
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(successors[node])
    return seen


def find_cycle(successors: Successors[N]) -> list[N]:
    """
    Return the nodes of a cycle, in order.

    Raises:
        ValueError: there is none.
    """
    state: dict[N, bool] = {}  # False while a node is on the path, True when it is done
    for root in successors:
        if root in state:
            continue
        path: list[N] = [root]
        iterators = [iter(successors[root])]
        state[root] = False
        while path:
            child = next(iterators[-1], None)
            if child is None:
                state[path.pop()] = True
                iterators.pop()
            elif child not in state:
                state[child] = False
                path.append(child)
                iterators.append(iter(successors[child]))
            elif not state[child]:
                return path[path.index(child) :]
    raise ValueError("the graph has no cycle")
