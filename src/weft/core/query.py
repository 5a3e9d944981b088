"""
What one may ask a run: values, facts, results, where a value came from.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from weft.core.explain import Explanation
from weft.core.fact import Fact
from weft.core.identity import fact_hash
from weft.core.references import MISSING
from weft.errors import DefinitionError, NothingProduced, UnknownComponent

if TYPE_CHECKING:
    from weft.core.memory import Memory


class Queries:
    """The questions; all of them are answered from memory and change nothing."""

    __slots__ = ("_index", "_indexed", "memory")

    memory: Memory
    _index: dict[str, list[Fact]] | None
    _indexed: int

    def _by_component(self) -> dict[str, list[Fact]]:
        """Return the productions by component.  Made when first asked for, and extended since."""
        if self._index is None:
            self._index, self._indexed = {}, 0
        index, productions = self._index, self.memory.productions
        for fact in islice(productions, self._indexed, None):
            index.setdefault(str(fact.producer), []).append(fact)
        self._indexed = len(productions)
        return index

    def _facts(self, which: object) -> tuple[str, list[Fact]]:
        """Return the name of *which* component, and its facts."""
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
        return name, found.get(name) or memory.produced.get(name, [])

    def productions(self, which: object = None) -> list[Fact]:
        """Return the facts that were produced, in order: all of them, or those of *which* component."""
        if which is None:
            return list(self.memory.productions)
        return list(self._facts(which)[1])

    def facts(self, which: object = None) -> list[Fact]:
        """Return the facts of *which* component in order; without one, all facts, inputs included."""
        if which is not None:
            return self.productions(which)
        return sorted([*self.memory.inputs, *self.memory.productions], key=lambda fact: fact.address)  # pyright: ignore[reportArgumentType, reportUnknownLambdaType, reportUnknownMemberType]

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
        return facts[-1]

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
        Return one value per leaf that has produced: its latest.

        A leaf inside an ``each`` gives a list: what it made of the elements of the latest collection, in their order.
        """
        memory = self.memory
        found: dict[str, Any] = {}
        index = self._by_component()
        for name in memory.workflow.leaves:
            facts = index.get(name)
            if facts:
                wiring = memory.workflow.wiring
                maps = wiring.enclosing(wiring.regions[name])[:-1]
                found[name] = _of_last_batch(facts, maps) if maps else facts[-1].value
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
        return facts[-1].value if facts else node.initial.make()

    def lineage(self, fact: Fact) -> list[Fact]:
        """Return everything that *fact* came from, the input first, *fact* last."""
        return fact.ancestry()

    def explain(self, which: object) -> Explanation:
        """Return the causal tree of *which*, a fact or the latest of a component: as data, and as text by ``str``."""
        return Explanation(which if isinstance(which, Fact) else self.fact(which))

    def hash_of(self, fact: Fact) -> str:
        """Return the content hash of *fact*: value and ancestry, the same in every process."""
        return fact_hash(fact, {}).hex()

    def _why_nothing(self, name: str) -> str:
        memory = self.memory
        if memory.failures and name in memory.failures:
            return f"it failed ({memory.failures[name].error.message})"
        if any(key[0] == name for key in memory.ready):
            return "it is ready and has not run yet"
        if not memory.inputs:
            return "the run has had no input"
        return "nothing that it takes has reached it, or what feeds it failed or was gated off"


def _of_last_batch(facts: list[Fact], maps: list[str | None]) -> list[Any]:
    """Return the values of those *facts*, made inside *maps*, that share the last one's collection, in its order."""
    placed = [(_place(fact, maps), fact) for fact in facts]
    batch = placed[-1][0][0][0]
    same = [(place, fact) for place, fact in placed if place[0][0] == batch]
    return [fact.value for _, fact in sorted(same, key=lambda item: [index for _, index in item[0]])]


def _place(fact: Fact, maps: list[str | None]) -> list[tuple[int, int]]:
    """Return the addresses of the elements of *maps* that *fact* came from, outermost first."""
    found: list[tuple[int, int]] = []
    while len(found) < len(maps):
        if isinstance(fact.address, tuple) and fact.producer in maps:
            found.append(fact.address)
        fact = fact.parents[0]
    return found[::-1]
