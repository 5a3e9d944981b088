"""
A workflow as a picture: components are boxes; facts, conditions and reads are edges.

Nodes that only exist in a plan (gates, joins, exits) are not shown.  A join is shown by edges that share an inlet.
These are groups: a map with all components that run per element, a loop with all that run per turn, a nested workflow
(``crawl.title``), and a component that runs several functions, with its parts (``weft.core.diagrams.compound``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from weft.core.components.loop_ends import TurnEnd
from weft.core.components.pattern import shown
from weft.core.components.rule import Rule
from weft.core.components.sleep import Sleep
from weft.core.components.wait_for import WaitFor
from weft.core.compose.component import Component, abridged
from weft.core.compose.expression import text
from weft.core.compose.inlet import INPUT_NAME, Inlet
from weft.core.compose.part import Part
from weft.core.diagrams.compound import Inside
from weft.core.draw.picture import INPUT_ID, Box, Edge, EdgeKind, Group, GroupKind, Picture
from weft.core.draw.progress import Progress
from weft.core.failure import EVERYTHING
from weft.core.functions.function import Function
from weft.core.graph.wiring import Wiring

if TYPE_CHECKING:
    from weft.core.plan.compiled_workflow import CompiledWorkflow

DEEPEST: Final = 12
"""How many nested workflows are drawn as frames inside each other."""

Frame = tuple[GroupKind, str]
"""One group on the way from the outside to a box."""


def sketch(workflow: CompiledWorkflow, progress: Mapping[str, Progress] | None = None) -> Picture:
    """Return the picture of *workflow*; with *progress*, by component, of a run of it."""
    wiring = workflow.wiring
    divided = {name: inside for name in wiring.order if (inside := Inside.of(workflow, name)) is not None}
    frames = _frames(wiring)
    for owner in divided:
        frames[owner] = (*frames[owner], ("parts", owner))
    groups = _groups(frames.values(), wiring.components)
    done = progress or {}
    boxes: list[Box] = []
    edges = [*_flows(wiring, divided), *_ways_back(wiring), *_asks(wiring), *_reads(wiring)]
    if any(edge.source == INPUT_NAME for edge in edges):
        boxes.append(Box(INPUT_ID, "input", "input"))
    for name in wiring.order:
        component = wiring.components[name]
        if _is_inside(component, divided):
            continue
        group = groups[frames[name]].id if frames[name] else None
        label = _label(name, frames[name])
        inside = divided.get(name)
        note = _note(component) if inside is None else inside.note
        own = Box(name, component.kind, label, note, group, component.keeps_state, done.get(name))
        boxes.extend([own] if inside is None else inside.boxes(own, done))
        edges.extend(() if inside is None else inside.edges)
    return Picture(workflow.name, tuple(boxes), tuple(groups.values()), tuple(edges))


def _note(component: Component) -> str:
    """Return what a component waits for; what a rule is given, and under which condition it fires or a loop ends."""
    if isinstance(component, Sleep | WaitFor):
        return component.note
    if isinstance(component, TurnEnd):
        ends = f"until {component.until.name} · " if component.until.name else ""
        return f"{ends}at most {component.at_most:,} turn{'s' if component.at_most > 1 else ''}"
    if not isinstance(component, Rule):
        return ""
    given, when = component.given, component.when
    name = None if when is None else when.name if isinstance(when, Function) else text(when)
    said = [f"given {abridged(shown(given))}"] if given is not None else []
    return " · ".join([*said, *([f"when {name}"] if name else [])])


# -- edges ---------------------------------------------------------------------------------------


def _flows(wiring: Wiring, divided: Mapping[str, Inside]) -> Iterator[Edge]:
    """Yield the edges of facts; one into a component with parts leads to the part that takes the facts."""
    for name in wiring.order:
        if wiring.is_asked_only(name) and name not in wiring.inlets:
            continue
        if _is_inside(wiring.components[name], divided):
            continue
        inlets = wiring.fed_by(name)
        target = divided[name].entry if name in divided else name
        drawn: set[str] = set()
        # A parent that comes by several ways has one edge; a join says more than a single way.
        for place, inlet in sorted(enumerate(inlets), key=lambda item: (not item[1].is_join, item[0])):
            if inlet.errors:
                yield Edge(inlet.parents[0], target, "error", _handles(inlet.errors), place)
                continue
            kind: EdgeKind = "join" if inlet.is_join else "flow"
            for parent in inlet.parents:
                if parent not in drawn:
                    drawn.add(parent)
                    yield Edge(parent, target, kind, _waits_for(inlet, alone=len(inlets) == 1), place)


def _is_inside(component: Component, divided: Mapping[str, Inside]) -> bool:
    """Whether *component* is a part that is drawn inside the component it belongs to."""
    return isinstance(component, Part) and component.owner in divided


def _handles(errors: tuple[str, ...]) -> str:
    """Return the label of an error route: the classes that it handles."""
    return "any error" if errors == EVERYTHING else ", ".join(error.rpartition(".")[2] for error in errors)


def _waits_for(inlet: Inlet, *, alone: bool) -> str:
    """Return the label of an edge of *inlet*; empty where it would add nothing."""
    if not inlet.is_join:
        return "" if alone else "or"
    if inlet.wait == "all":
        return "" if alone else "all"
    return f"{inlet.wait} of {len(inlet.parents)}" if isinstance(inlet.wait, int) else inlet.wait.replace("_", " ")


def _ways_back(wiring: Wiring) -> Iterator[Edge]:
    """Yield the way from the end of each turn to the beginning of the next."""
    for name in wiring.order:
        if isinstance(end := wiring.components[name], TurnEnd):
            yield Edge(name, end.start, label="again", is_back=True)


def _asks(wiring: Wiring) -> Iterator[Edge]:
    for asked, users in wiring.users.items():
        yield from (Edge(asked, user, "ask") for user in dict.fromkeys(users))


def _reads(wiring: Wiring) -> Iterator[Edge]:
    for name in wiring.order:
        words: dict[str, dict[str, None]] = {}
        for function in wiring.components[name].functions().values():
            for read in function.reads.values():
                words.setdefault(read.target, {})[read.word] = None
        for target, said in words.items():
            yield Edge(target, name, "read", ", ".join(said), is_back=not wiring.waits[name, target])


# -- groups --------------------------------------------------------------------------------------


def _prefixes(wiring: Wiring) -> dict[str, tuple[str, ...]]:
    """Return, by component, the nested workflows it is in, outermost first: those with at least two components."""
    found: dict[str, list[str]] = {}
    for name in wiring.order:
        words = name.split(".")
        paths = (".".join(words[:count]) for count in range(1, min(len(words), DEEPEST + 1)))
        found[name] = [path for path in paths if path.strip(".") and path not in wiring.components]
    members = Counter(path for paths in found.values() for path in paths)
    return {name: tuple(path for path in paths if members[path] > 1) for name, paths in found.items()}


def _shared(wiring: Wiring, prefixes: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return, by map or loop, the nested workflows that it and all of its components are in."""
    shared: dict[str, tuple[str, ...]] = {}
    for name, mine in prefixes.items():
        for region in _maps(wiring, name):
            known = shared.get(region, mine)
            count = next((i for i, (a, b) in enumerate(zip(known, mine, strict=False)) if a != b), len(mine))
            shared[region] = known[:count]
    return shared


def _maps(wiring: Wiring, name: str) -> list[str]:
    """Return the maps and loops around *name*, outermost first; a map, and the ends of a loop, are in theirs."""
    component = wiring.components[name]
    innermost = name if component.opens_region else wiring.regions[name]
    innermost = component.start if isinstance(component, TurnEnd) else innermost
    return [str(region) for region in wiring.enclosing(innermost)[-2::-1]]


def _frames(wiring: Wiring) -> dict[str, tuple[Frame, ...]]:
    """Return the groups around each component, outermost first; a workflow is around a map that is all in it."""
    prefixes = _prefixes(wiring)
    shared = _shared(wiring, prefixes)
    ends = {end.start: name for name, end in wiring.components.items() if isinstance(end, TurnEnd)}
    found: dict[str, tuple[Frame, ...]] = {}
    for name, mine in prefixes.items():
        frames: list[Frame] = []
        depth = 0
        for region in _maps(wiring, name):
            frames.extend(("workflow", path) for path in mine[depth : len(shared[region])])
            depth = max(depth, len(shared[region]))
            frames.append(("loop", ends[region]) if region in ends else ("map", region))
        found[name] = (*frames, *(("workflow", path) for path in mine[depth:]))
    return found


def _groups(frames: Iterable[tuple[Frame, ...]], taken: Mapping[str, Component]) -> dict[tuple[Frame, ...], Group]:
    """Return a group for every way to a box, and for all that this way leads through."""
    found: dict[tuple[Frame, ...], Group] = {}
    ids = {INPUT_NAME, *taken}
    for way in frames:
        for depth in range(1, len(way) + 1):
            path = way[:depth]
            if path not in found:
                kind, name = path[-1]
                parent = found[path[:-1]].id if depth > 1 else None
                own = f"{kind} {name}"
                while own in ids:
                    own += "'"
                ids.add(own)
                label = "for each" if kind == "map" else _label(name, path[:-1])
                found[path] = Group(own, kind, label, parent)
    return found


def _label(name: str, frames: tuple[Frame, ...]) -> str:
    """Return *name* without that of the nested workflow or loop it is in."""
    around = next((path for kind, path in reversed(frames) if kind in ("workflow", "loop") and path != name), None)
    return name if around is None else name.removeprefix(f"{around}.")
