"""
A preview of a revision: which components would run, which stand, and what cannot be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from weft.core import events as ev
from weft.core.fold.memory import Memory
from weft.core.fold.refold import is_same_kind
from weft.core.fold.revision import Consequences
from weft.core.fold.scope import Key
from weft.core.plan.node import FunctionNode


class Preview(msgspec.Struct, frozen=True):
    """
    The effect of a fork or an upgrade that was not made; ``str`` of it is text.

    Components that follow from those that run are not in it: that depends on the values that these make.
    """

    runs: Mapping[str, int]
    """By component: how often it runs, as far as that is known: what is ready, and what ran before and is void."""
    stands: Mapping[str, int]
    """By component: how many of its outcomes stand."""
    waits: Mapping[str, int] = {}
    """By component: how often it waits, for time, a signal or its completion: what goes on, and what begins again."""
    void: tuple[int, ...] = ()
    """The positions of the events that no longer count."""
    new: tuple[str, ...] = ()
    """Of an upgrade: components that the run did not have."""
    lost: tuple[str, ...] = ()
    """Of an upgrade: what cannot be kept, in words."""

    def __str__(self) -> str:
        lines = [
            f"runs: {_listed(self.runs) or 'nothing'}",
            f"stands: {_listed(self.stands) or 'nothing'}",
        ]
        if self.waits:
            lines.append(f"waits: {_listed(self.waits)}")
        if self.new:
            lines.append(f"new: {', '.join(self.new)}")
        lines += [f"lost: {what}" for what in self.lost]
        return "\n".join(lines)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in counts.items())


def preview_of(revised: Consequences, log: Sequence[ev.AnyEvent]) -> Preview:
    """Return what *revised* says about *log*."""
    after = revised.memory
    runs: dict[Key, None] = {}
    stands: Counter[str] = Counter()
    for event in log:
        if isinstance(event, ev.ENDINGS):
            if event.seq in revised.void or event.seq in after.lineage.void:
                if event.seq in revised.void:
                    runs[event.component, event.inputs] = None
            else:
                stands[event.component] += 1
    for key in (*after.open_all(), *(after.blocked or ())):
        runs[key] = None
    waiting = after.waiting or {}
    return Preview(
        _counted(name for name, inputs in runs if (name, inputs) not in waiting),
        dict(stands),
        _counted(name for name, _ in waiting),
        tuple(sorted(revised.void)),
    )


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(Counter(names))


def preview_of_upgrade(revised: Consequences, before: Memory, draft: ev.RunUpgraded) -> Preview:
    """Return what the upgrade *draft* would do to the run of *before*."""
    plain, workflow = preview_of(revised, before.log), draft.workflow
    gone = [name for name in before.workflow.components if name not in workflow.components]
    known = before.plan.nodes.keys() | gone
    runs = {name: count for name, count in plain.runs.items() if name in workflow.compiled.nodes}
    return msgspec.structs.replace(
        plain,
        runs=runs,
        new=tuple(name for name in workflow.components if name not in known),
        lost=(*_lost_facts(plain, gone, before), *_lost_states(before, workflow)),
    )


def _lost_facts(plain: Preview, gone: Sequence[str], before: Memory) -> Iterable[str]:
    void = set(plain.void)
    for name in gone:
        made = sum(
            1 for event in before.log if event.seq in void and isinstance(event, ev.ENDINGS) and event.component == name
        )
        what = f"; {made} outcomes of it no longer count" if made else ""
        yield f"{name!r} is gone{what}"


def _lost_states(before: Memory, workflow: Any) -> Iterable[str]:
    for name, node in before.plan.nodes.items():
        if not isinstance(node, FunctionNode) or not node.stateful or not before.state_changes(node):
            continue
        now = workflow.compiled.nodes.get(name)
        if now is None or not is_same_kind(node, now):
            yield f"the state of {name!r}, which {'is gone' if now is None else 'keeps another kind of state now'}"
