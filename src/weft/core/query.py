"""
What one may ask a run: values, facts, results, where a value came from, what it looks like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.core.draw.drawable import Drawable
from weft.core.draw.picture import Picture
from weft.core.draw.progress import progress_of
from weft.core.draw.sequence import to_sequence
from weft.core.draw.sketch import sketch
from weft.core.events import FannedOut, InputReceived, ReactionOccurred
from weft.core.explain import Explanation
from weft.core.fact import Fact
from weft.core.references import MISSING
from weft.core.scope import Order
from weft.errors import DefinitionError, InvalidDrawing, NothingProduced, UnknownComponent
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.memory import Memory


class Queries(Drawable):
    """The questions; all of them are answered from memory and change nothing."""

    __slots__ = ("memory",)

    memory: Memory

    def _facts(self, which: object) -> tuple[str, list[Address]]:
        """Return the name of *which* component, and where its facts stand."""
        memory = self.memory
        found = self.memory.lineage.index()
        if isinstance(which, str) and which in found:
            return which, found[which]
        try:
            name = memory.workflow.name_of(which)
        except UnknownComponent:
            if not (isinstance(which, str) and which in memory.plan.nodes):
                raise
            name = which
        return name, found.get(name, [])

    def productions(self, which: object = None) -> list[Fact]:
        """Return the facts that were produced, in order: all of them, or those of *which* component."""
        if which is None:
            return [fact for fact in self.facts() if not fact.is_input]
        return [self.memory.lineage.fact(address) for address in self._facts(which)[1]]

    def facts(self, which: object = None) -> list[Fact]:
        """Return the facts of *which* component in order; without one, all inputs and productions."""
        if which is not None:
            return self.productions(which)
        lineage = self.memory.lineage
        return [
            lineage.fact(event.seq) for event in self.memory.log if isinstance(event, InputReceived | ReactionOccurred)
        ]

    def values(self, which: object = None) -> list[Any]:
        """Return the values that were produced, in order: all of them, or those of *which* component."""
        return [fact.value for fact in self.productions(which)]

    def fact(self, which: object) -> Fact:
        """
        Return the latest fact of *which* component.

        Raises:
            NothingProduced: there is none.
            UnknownComponent: nothing has this name.
        """
        name, facts = self._facts(which)
        if not facts:
            raise NothingProduced(name, self._why_nothing(name))
        return self.memory.lineage.fact(facts[-1])

    def value(self, which: object, default: Any = MISSING) -> Any:
        """
        Return the latest value of *which* component, or *default* if it has made none.

        Raises:
            NothingProduced: there is none, and no default.
            UnknownComponent: nothing has this name.
        """
        if default is not MISSING and not self._facts(which)[1]:
            return default
        return self.fact(which).value

    def results(self) -> dict[str, Any]:
        """
        Return one value per leaf that has produced: its latest, of several of one input the last in the order written.

        A leaf inside an ``each`` gives a list: what it made of all elements of the latest input, in their order.
        """
        memory, wiring = self.memory, self.memory.workflow.wiring
        index, cell = memory.lineage.index(), memory.lineage.cell
        found: dict[str, Any] = {}
        for name in memory.workflow.leaves:
            facts = index.get(name, [])
            places = (memory.keyed or {}).get(name)
            if places is not None and len(places) != len(facts):  # the graph has changed since: the log is the order
                places = None
            maps = wiring.enclosing(wiring.regions[name])[:-1]
            if maps:
                batch = self._last_batch(str(maps[-1]))
                if batch is not None and places is not None:
                    found[name] = [cell(at).value for at in _of_input(facts, places, self._ordinal(batch))]
                elif batch is not None:
                    found[name] = [cell(at).value for at in self._of_batch(facts, maps, batch)]
            elif facts:
                found[name] = cell((facts if places is None else _of_input(facts, places, places[-1][0]))[-1]).value
        return found

    @property
    def output(self) -> Any:
        """
        The value of the only leaf; of several, the results by name.

        Raises:
            NothingProduced: there is one leaf, and it has made nothing; the error says why.
        """
        leaves = self.memory.workflow.leaves
        results = self.results()
        if len(leaves) != 1:
            return results
        return results[leaves[0]] if leaves[0] in results else self.value(leaves[0])

    def state_of(self, which: object) -> Any:
        """Return the state of *which* stateful component: its latest value, or its initial one."""
        name, facts = self._facts(which)
        node = self.memory.plan.nodes.get(name)
        if node is None or node.initial is None:
            raise DefinitionError(f"{name!r} keeps no state; ask for value({name!r})")
        return self.memory.lineage.cell(facts[-1]).value if facts else node.initial.make()

    def lineage(self, fact: Fact) -> list[Fact]:
        """Return everything that *fact* came from, the input first, *fact* last."""
        return fact.ancestry()

    def explain(self, which: object) -> Explanation:
        """Return the causal tree of *which*, a fact or the latest of a component: as data, and as text by ``str``."""
        return Explanation(which if isinstance(which, Fact) else self.fact(which))

    def hash_of(self, fact: Fact) -> str:
        """Return the content hash of *fact*: value and ancestry, the same in every process."""
        return fact.hash

    def picture(self) -> Picture:
        """Return what a drawing of this run shows, as data: its workflow, and what has become of each component."""
        return sketch(self.memory.workflow, progress_of(self.memory))

    def to_mermaid(self, direction: str = "TD", *, kind: str = "flowchart") -> str:
        """
        Return this run for Mermaid: its graph, or with ``kind="sequence"`` what caused what, in order.

        Raises:
            InvalidDrawing: another *kind*, or a *direction* that there is not.
        """
        if kind == "sequence":
            return to_sequence(self.memory)
        if kind != "flowchart":
            raise InvalidDrawing("kind", kind, ("flowchart", "sequence"))
        return super().to_mermaid(direction)

    def _why_nothing(self, name: str) -> str:
        memory = self.memory
        component = memory.workflow.components.get(name)
        if component is not None and not component.makes_facts:
            return f"a {component.kind} makes no values"
        if memory.failures and name in memory.failures:
            error = memory.failures[name].error
            return f"it failed ({error.type}: {error.message})"
        if any(key[0] == name for key in memory.ready):
            return "it is ready and has not run yet"
        if not memory.received:
            return "the run has had no input"
        return "nothing that it takes has reached it, or what feeds it failed or was gated off"

    def _last_batch(self, outermost: str) -> int | None:
        """Return the event that last took a collection apart for the map *outermost*."""
        for event in reversed(self.memory.log):
            if isinstance(event, FannedOut) and event.component == outermost:
                return event.seq
        return None

    def _ordinal(self, address: Address) -> int:
        """Return the ordinal of the input that the fact at *address* came from."""
        lineage = self.memory.lineage
        while not isinstance(cell := lineage.cell(address), InputReceived):
            address = lineage.parents(address)[0]
        return cell.ordinal

    def _of_batch(self, facts: list[Address], maps: list[str | None], batch: int) -> list[Address]:
        """Return those of *facts*, made inside *maps*, that came of the collection of *batch*, in its order."""
        placed = [(self._elements(address, maps), address) for address in facts]
        same = [(elements, address) for elements, address in placed if elements and elements[0][0] == batch]
        same.sort(key=lambda item: [index for _, index in item[0]])
        return [address for _, address in same]

    def _elements(self, address: Address, maps: list[str | None]) -> list[tuple[int, int]]:
        """Return the elements of *maps* that the fact at *address* came from, outermost first; none if it did not."""
        lineage = self.memory.lineage
        found: list[tuple[int, int]] = []
        while len(found) < len(maps):
            if isinstance(address, tuple) and lineage.fact(address).producer in maps:
                found.append(address)
            parents = lineage.parents(address)
            if not parents:
                return []
            address = parents[0]
        return found[::-1]

    def _results_of_last_input(self) -> list[Fact]:
        """Return what the leaves have made of the last input."""
        memory = self.memory
        last = next((event.seq for event in reversed(memory.log) if isinstance(event, InputReceived)), 0)
        reached = {last}
        for event in memory.log[last:]:
            if isinstance(event, ReactionOccurred | FannedOut):
                sources = (at if isinstance(at, int) else at[0] for at in memory.lineage.parents(event.seq))
                if any(source in reached for source in sources):
                    reached.add(event.seq)
        leaves = set(memory.workflow.leaves)
        facts = (memory.lineage.fact(seq) for seq in sorted(reached - {last}))
        return [fact for fact in facts if fact.producer in leaves]


def _of_input(facts: list[Address], places: list[Order], ordinal: int) -> list[Address]:
    """Return those of *facts* that came of the input *ordinal*, in the order of their *places*."""
    same = [(place, address) for (of, place), address in zip(places, facts, strict=True) if of == ordinal]
    return [address for _, address in sorted(same, key=lambda item: item[0])]
