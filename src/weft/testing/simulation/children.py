"""
Families of simulated runs, as the store has them: a run, the runs that its steps have started, and so on.

Cancelling a run also cancels the children that are cancelled with their parent, and their children, except those that
have finished before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from weft.core.run.run import Run
from weft.log import decode_segments, references, verify
from weft.ports.store import RunRecord
from weft.testing.simulation.committed import Removed
from weft.testing.simulation.outcomes import REACHED
from weft.testing.simulation.scenario import UNWANTED, Trial
from weft.testing.wrapping import FullStore


class Stored(msgspec.Struct, frozen=True, eq=False):
    """A run as the store has it."""

    record: RunRecord
    run: Run

    @property
    def is_closed(self) -> bool:
        """Whether it was cancelled itself, and not because its parent was."""
        return self.run.memory.cancelled == UNWANTED


Family = Mapping[str, Stored]
"""By id, a run and its children and their children, parents first."""


async def read(store: FullStore, name: str, trial: Trial, removed: Removed | None) -> Stored:
    """Return the run *name*, which is a run of *trial* or a child run, with what was *removed* from its log."""
    loaded, removed = await store.load_since(name, 0), removed or Removed()
    stored = loaded.record
    workflow = trial.children.get(stored.workflow, trial.workflow)
    left = [segment.body for segment in loaded.segments]
    bodies = [*(segment.body for segment in removed.segments), *left]
    definitions = await store.load_definitions(references(bodies).definitions)
    facts = await store.load_facts(name, references(left).facts)
    verify_log = partial(verify, definitions=definitions, head=stored.chain, position=stored.head)
    verify_log(left, facts=facts, first=stored.first, link=loaded.link)
    facts = {**removed.facts, **facts}
    verify_log(bodies, facts=facts)
    events = decode_segments(bodies, definitions=definitions, facts=facts, workflow=workflow)
    return Stored(stored, Run.from_log(events, context=trial.context))


async def family(store: FullStore, root: str, trial: Trial, removed: Mapping[str, Removed]) -> dict[str, Stored]:
    """Return the run *root*, and all existing runs that it has started, and so on."""
    found: dict[str, Stored] = {root: await read(store, root, trial, removed.get(root))}
    line = [root]
    for name in line:
        for child in found[name].run.memory.children or ():
            if child not in found and await store.exists(child):
                found[child] = await read(store, child, trial, removed.get(child))
                line.append(child)
    return found


def doomed(members: Family, root: str, *, is_cancelled: bool, with_root: bool = False) -> set[str]:
    """Return which of *members* have to be cancelled; *with_root*: those that are cancelled together with *root*."""
    closed = {root} if is_cancelled else set[str]()
    for name, member in members.items():
        if member.is_closed and not with_root:
            closed.add(name)
        if name != root and member.record.status in REACHED:
            closed.discard(name)
        if name in closed:
            children = member.run.memory.children or {}
            closed.update(child for child, started in children.items() if started.with_parent)
    return closed
