"""
What one may ask a run: values, facts, results, where a value came from.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from weft.core.events import InputReceived, ReactionOccurred
from weft.core.explain import Explanation
from weft.core.fact import Fact
from weft.core.node import Node
from weft.core.references import MISSING
from weft.core.scope import Order
from weft.errors import DefinitionError, NothingProduced, UnknownComponent
from weft.typing import Address

if TYPE_CHECKING:
    from weft.core.memory import Memory


class Queries:
    """The questions; all of them are answered from memory and change nothing."""

    __slots__ = ("_index", "_indexed", "memory")

    memory: Memory
    _index: dict[str, list[Address]] | None
    _indexed: int

    def _by_component(self) -> dict[str, list[Address]]:
        """Return where the facts of each component stand.  Made when first asked for, and extended since."""
        if self._index is None:
            self._index, self._indexed = {}, 0
        index, nodes = self._index, self.memory.plan.nodes
        for event in islice(self.memory.log, self._indexed, None):
            if isinstance(event, ReactionOccurred):
                found = index.setdefault(event.component, [])
                if event.component in nodes and nodes[event.component].is_fan:
                    found.extend((event.seq, i) for i in range(len(event.value)))
                else:
                    found.append(event.seq)
        self._indexed = len(self.memory.log)
        return index

    def _facts(self, which: object) -> tuple[str, list[Address]]:
        """Return the name of *which* component, and where its facts stand."""
        memory = self.memory
        found = self._by_component()
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
        lineage, nodes = self.memory.lineage, self.memory.plan.nodes
        return [
            lineage.fact(event.seq)
            for event in self.memory.log
            if isinstance(event, InputReceived)
            or (isinstance(event, ReactionOccurred) and not _takes_apart(nodes.get(event.component)))
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

        A leaf inside an ``each`` gives a list: what it made of the elements of the latest collection, in their order.
        """
        memory, wiring = self.memory, self.memory.workflow.wiring
        index, cell = self._by_component(), self.memory.lineage.cell
        found: dict[str, Any] = {}
        for name in memory.workflow.leaves:
            facts = index.get(name)
            if facts:
                maps = wiring.enclosing(wiring.regions[name])[:-1]
                places = (memory.keyed or {}).get(name)
                if places is not None:
                    facts = _of_last_input(facts, places)
                elif maps:
                    facts = self._of_last_batch(facts, maps)
                found[name] = [cell(address).value for address in facts] if maps else cell(facts[-1]).value
        return found

    @property
    def output(self) -> Any:
        """The value of the only leaf; of several, the results by name."""
        leaves = self.memory.workflow.leaves
        results = self.results()
        return results.get(leaves[0]) if len(leaves) == 1 else results

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

    def _why_nothing(self, name: str) -> str:
        memory = self.memory
        if memory.failures and name in memory.failures:
            return f"it failed ({memory.failures[name].error.message})"
        if any(key[0] == name for key in memory.ready):
            return "it is ready and has not run yet"
        if not memory.received:
            return "the run has had no input"
        return "nothing that it takes has reached it, or what feeds it failed or was gated off"

    def _of_last_batch(self, facts: list[Address], maps: list[str | None]) -> list[Address]:
        """Return those of *facts*, made inside *maps*, that share the last one's collection, in its order."""
        placed = [(self._place(address, maps), address) for address in facts]
        batch = placed[-1][0][0][0]
        same = [(place, address) for place, address in placed if place[0][0] == batch]
        same.sort(key=lambda item: [index for _, index in item[0]])
        return [address for _, address in same]

    def _place(self, address: Address, maps: list[str | None]) -> list[tuple[int, int]]:
        """Return the elements of *maps* that the fact at *address* came from, outermost first."""
        lineage = self.memory.lineage
        found: list[tuple[int, int]] = []
        while len(found) < len(maps):
            if isinstance(address, tuple) and lineage.fact(address).producer in maps:
                found.append(address)
            address = lineage.parents(address)[0]
        return found[::-1]

    def _results_of_last_input(self) -> list[Fact]:
        """Return what the leaves have made of the last input."""
        memory = self.memory
        last = max((event.seq for event in memory.log if isinstance(event, InputReceived)), default=0)
        reached = {last}
        for event in islice(memory.log, last, None):
            if isinstance(event, ReactionOccurred):
                sources = (at if isinstance(at, int) else at[0] for at in memory.lineage.parents(event.seq))
                if any(source in reached for source in sources):
                    reached.add(event.seq)
        leaves = set(memory.workflow.leaves)
        return [fact for fact in self.facts() if fact.producer in leaves and fact.address in reached]


def _of_last_input(facts: list[Address], places: list[Order]) -> list[Address]:
    """Return those of *facts* that came of the same input as the last one, in the order of their *places*."""
    ordinal = places[-1][0]
    same = [(place, address) for (of, place), address in zip(places, facts, strict=True) if of == ordinal]
    return [address for _, address in sorted(same, key=lambda item: item[0])]


def _takes_apart(node: Node | None) -> bool:
    return node is not None and node.is_fan
