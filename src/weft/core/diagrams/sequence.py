"""
A run as a sequence diagram for Mermaid: what caused what, from top to bottom.

Every arrow is a fact, from the component that produced it to one that received it.  Several facts between the same two
components for one input, as in a map, are one arrow with their number.  The parts of a component, except those of a
rule, are separate participants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.core import events as ev
from weft.core.compose.inlet import INPUT_NAME
from weft.core.diagrams.compound import UNDIVIDED
from weft.core.draw.mermaid import escaped, ids
from weft.core.draw.text_width import visible
from weft.core.lineage.explain import shown
from weft.core.lineage.lineage import Cell, Element
from weft.core.plan.node import FunctionNode
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.fold.memory import Memory

INPUTS: Final = 20
"""How many inputs a diagram shows, the latest."""
_LONG: Final = 40
_SIGNALS: Final = "\0signals"
"""The participant that signals come from."""
_NO_ARROWS: Final = (ev.RunnableDispatched, ev.RunnableDelayed, ev.TimerStarted, *ev.OUTSIDE)
"""Events that bring no fact anywhere."""


class Arrow(NamedTuple):
    """The facts of one input that went from one component to another."""

    ordinal: int
    source: str
    target: str
    sign: str
    """How Mermaid draws it."""


def to_sequence(memory: Memory) -> str:
    """Return the causes in the run of *memory* as a sequence diagram, of the latest inputs if there were many."""
    arrows = _arrows(memory)
    first = max(1, memory.received - INPUTS + 1)
    shown_arrows = {arrow: texts for arrow, texts in arrows.items() if arrow.ordinal >= first}
    used = dict.fromkeys(name for arrow in shown_arrows for name in (arrow.source, arrow.target))
    parts: dict[str, list[str]] = {}
    for node in memory.plan.nodes.values():
        parts.setdefault(node.owner, []).append(node.name)
    known = [name for owner in memory.workflow.wiring.order for name in parts.get(owner, ()) if name in used]
    names = list(dict.fromkeys([INPUT_NAME, *known, *used]))
    short = ids(names)
    lines = ["sequenceDiagram"]
    for name in names:
        label = {INPUT_NAME: "input", _SIGNALS: "signals"}.get(name, name)
        lines.append(f"  participant {short[name]} as {_plain(label)}")
    if first > 1:
        lines.append(f"  Note over {short[INPUT_NAME]}: {first - 1:,} earlier inputs are not shown")
    ordinal = 0
    for arrow, texts in shown_arrows.items():
        if memory.received > 1 and arrow.ordinal != ordinal:
            ordinal = arrow.ordinal
            lines.append(f"  Note over {short[INPUT_NAME]}: input {ordinal}")
        said = texts[0]
        if len(texts) > 1:
            said = f"{said if arrow.sign == '-x' else ''} {len(texts):,} times"
        lines.append(f"  {short[arrow.source]}{arrow.sign}{short[arrow.target]}: {_plain(said)}")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    text = visible(text)
    return escaped(text if len(text) <= _LONG else f"{text[: _LONG - 1]}…")


def _arrows(memory: Memory) -> dict[Arrow, list[str]]:
    """Return all arrows, in the order of the log, with the facts of each."""
    lineage = memory.lineage
    ordinals: dict[int, int] = {}
    found: dict[Arrow, list[str]] = {}

    def ordinal_of(address: Address) -> int:
        while isinstance(address, int) and address < 0:  # what a join did not get came from what it would have come of
            address = lineage.parents(address)[0]
        return ordinals.get(address[0] if isinstance(address, tuple) else address, 0)

    for event in memory.lineage.standing():
        if isinstance(event, ev.InputReceived):
            ordinals[event.seq] = event.ordinal
        elif isinstance(event, ev.Activated) and not isinstance(event, _NO_ARROWS):
            ordinal = max((ordinal_of(address) for address in event.inputs), default=0)
            ordinals[event.seq] = ordinal
            node = memory.plan.nodes.get(event.component)
            is_rule = node is not None and memory.workflow.components[node.owner].kind in UNDIVIDED
            target = node.owner if node is not None and is_rule else event.component
            if isinstance(event, ev.ConditionEvaluated) and event.holds and target != event.component:
                continue  # a rule whose condition holds: what it makes comes next
            for source, sign, text in _causes(memory, event):
                found.setdefault(Arrow(ordinal, source, target, sign), []).append(text)
    return dict(sorted(found.items(), key=lambda item: item[0].ordinal))


def _causes(memory: Memory, event: ev.Activated) -> Iterator[tuple[str, str, str]]:
    """Yield where the facts of *event* came from, how that is drawn, and what is written on it."""
    lineage = memory.lineage
    match event:
        case ev.RunnableFailed(error=error):
            sign, said = "-x", f"✗ {error.type}: {error.message}"
        case ev.RunnableSkipped(reason=reason):
            sign, said = "-x", f"↷ {reason}" if reason else "↷ skipped"
        case ev.ConditionEvaluated(holds=holds):
            sign, said = "->>", "✓ yes" if holds else "⊘ no"
        case _:
            sign, said = "->>", ""
    made = isinstance(event, (*ev.PRODUCTIONS, ev.FannedOut))
    parents = lineage.parents(event.seq) if made else event.inputs
    for address in _nearest(memory, event.component, parents):
        cell = lineage.cell(address)
        signal = f"{cell.name}: " if isinstance(cell, ev.SignalReceived) else ""
        yield _maker(cell), sign, said or f"{signal}{shown(cell.value)}"
    for address in lineage.reads(event.seq) if made else ():
        cell = lineage.cell(address)
        if _maker(cell) != event.component:  # its own state is not a cause from outside
            yield _maker(cell), "-->>", f"reads {shown(cell.value)}"


def _nearest(memory: Memory, component: str, parents: Sequence[Address]) -> Sequence[Address]:
    """Return those of *parents* that *component* was run for: others came along with them."""
    nodes = memory.plan.nodes
    node = nodes.get(component)
    makers = [nodes.get(_maker(memory.lineage.cell(address))) for address in parents]
    for address, maker in zip(reversed(parents), reversed(makers), strict=True):
        if node is not None and isinstance(maker, FunctionNode) and maker.owner == node.owner:
            fires = maker.state is not None and bool(maker.state.fires)
            if maker.is_relay or fires:
                return (address,)
    return parents


def _maker(cell: Cell) -> str:
    if isinstance(cell, ev.InputReceived):
        return INPUT_NAME
    if isinstance(cell, ev.SignalReceived):
        return _SIGNALS
    return cell.producer if isinstance(cell, Element) else cell.component
