"""
The values that a workflow must make of one input, worked out without Weft.

A recursion over the description of a graph: what a part makes in a scope follows from what its parents make
there.  There is no log, no plan and no order of events, so whatever order Weft takes must lead to the same.

    >>> from description import Code, Graph, Inlet, Step
    >>> graph = Graph((Step("s1", (Inlet(("INPUT",)),), code=Code(k=1)), Step("s2", (Inlet(("s1",)),))))
    >>> evaluate(graph, 5).values
    {'s1': [11], 's2': [22]}

Two things do depend on the order: which parents win a race, and the states that an accumulator goes through
when it folds several values.  What that can show in is listed as *racy*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, combinations, product, zip_longest
from typing import Any

import msgspec
from description import (
    INPUT,
    Accumulator,
    And,
    Code,
    Condition,
    Expression,
    Gate,
    Graph,
    Inlet,
    Map,
    Not,
    Or,
    Part,
    Read,
    Reduce,
    Rule,
    Step,
)
from doubts import Doubt, doubt

import weft


class Expected(msgspec.Struct):
    """The end that a run of one input must come to."""

    values: dict[str, list[Any]]
    """By part: what it makes, in the order of collections and inlets."""
    failed: set[str]
    """The functions that fail at least once, and the reduces whose batch is broken."""
    calls: Counter[str]
    """How often each function is called; a condition once per fact, however many ask."""
    results: dict[str, Any]
    folded: dict[str, list[Any]]
    """By accumulator: the values that reach it."""
    states: dict[str, Any]
    """By accumulator: the state in the end."""
    racy: Doubt
    """The parts that depend on the order of events."""
    untold: Doubt
    """That, and what depends on the place of a fact that could have come by several ways."""


class Item(msgspec.Struct, frozen=True):
    """A fact: its value, and what tells it from all others."""

    value: Any
    key: tuple[Any, ...]


Row = tuple[Item, ...]
"""Facts that arrive together."""


class Made(msgspec.Struct):
    """The values that a part hands on in a scope, and whether something failed on the way to it."""

    rows: list[Row]
    broken: bool = False


class Scope(msgspec.Struct, frozen=True):
    """One input, or one element of a collection inside another scope."""

    region: str | None
    path: tuple[int, ...]
    item: Item
    outer: Scope | None = None


def evaluate(graph: Graph, value: Any) -> Expected:
    """Return what a fresh run of *graph* must make of *value*."""
    return _Evaluation(graph, value).expected()


class _Failure(Exception):
    """A function of the workflow has failed."""


class _Evaluation:
    def __init__(self, graph: Graph, value: Any) -> None:
        self.graph = graph
        self.root = Scope(None, (), Item(value, (INPUT,)))
        self.known: dict[tuple[str, str | None, tuple[int, ...]], Made] = {}
        self.answers: dict[tuple[str, tuple[Any, ...]], bool | None] = {}
        self.failed: set[str] = set()
        self.calls: Counter[str] = Counter()
        accumulators = [part for part in graph.parts if isinstance(part, Accumulator)]
        self.states: dict[str, Any] = {part.name: part.init for part in accumulators}
        self.folded: dict[str, list[Any]] = {part.name: [] for part in accumulators}
        self.races: set[str] = set()
        """The parts at which it shows who won a race."""
        self.crossings: set[str] = set()
        """The parts that facts reach which could have come by more than one way."""
        self.finishes: set[str] = set()
        """The parts at which one of several won a race, even if their values are equal."""

    def expected(self) -> Expected:
        graph = self.graph
        for part in graph.parts:
            for scope in self.scopes(part.region):
                self.made(part, scope)
        makers = [part for part in graph.parts if part.makes_facts]
        leaves = [part for part in makers if part.name in graph.leaves and self.has_result(part)]
        return Expected(
            {part.name: [item.value for item in self.facts(part, self.root)] for part in makers},
            self.failed,
            self.calls,
            {part.name: self.result(part) for part in leaves},
            self.folded,
            self.states,
            self.doubt(self.races),
            self.doubt(self.races | self.crossings),
        )

    def doubt(self, sources: set[str]) -> Doubt:
        several = {name for name, values in self.folded.items() if len(values) > 1}
        return doubt(self.graph, sources, several, self.finishes)

    def has_result(self, part: Part) -> bool:
        """Whether *part* has made something, or a collection has reached the map in which it stands."""
        outermost = self.graph.around(part.region)[-2:][0]
        return bool(self.facts(part, self.root) if outermost is None else self.fans(outermost))

    def fans(self, name: str) -> list[Row]:
        """Return the collections that an outermost map takes apart."""
        return self.made(self.graph.by_name[name], self.root).rows

    def result(self, part: Part) -> Any:
        """Return the last value; inside an each, the values of all elements."""
        facts = self.facts(part, self.root)
        return facts[-1].value if part.region is None else [item.value for item in facts]

    # -- scopes ----------------------------------------------------------------------------------

    def scopes(self, region: str | None, within: Scope | None = None) -> Iterator[Scope]:
        """Yield every scope of *region*, in order, or those *within* one."""
        within = within or self.root
        if within.region == region:
            yield within
            return
        assert region is not None
        around = self.graph.around(region)
        for outer in self.scopes(around[1], within):
            yield from self.elements(self.graph.by_name[region], outer)

    def elements(self, part: Part, scope: Scope) -> Iterator[Scope]:
        """Yield a scope for every element that the map *part* takes apart in *scope*."""
        for fan, (item,) in enumerate(self.made(part, scope).rows):
            for index, value in enumerate(item.value):
                path = (*scope.path, fan, index)
                yield Scope(part.name, path, Item(value, (part.name, *path)), scope)

    def facts(self, part: Part, within: Scope) -> list[Item]:
        """Return all that *part* makes in the scopes *within* one, in order."""
        return [item for scope in self.scopes(part.region, within) for (item,) in self.made(part, scope).rows]

    # -- what arrives ----------------------------------------------------------------------------

    def wire(self, parent: str, scope: Scope) -> Made:
        if parent in (INPUT, scope.region):
            return Made([(scope.item,)])
        return self.made(self.graph.by_name[parent], scope)

    def arrivals(self, part: Part, scope: Scope) -> Made:
        """Return what reaches *part*; facts that come by several ways are taken once."""
        found = [self.inlet(part, inlet, scope) for inlet in part.inlets]
        rows: dict[tuple[Any, ...], Row] = {}
        for row in chain.from_iterable(made.rows for made in found):
            rows.setdefault(tuple(item.key for item in row), row)
        ways = [self.makers(inlet) for inlet in part.inlets]
        if len(rows) > 1 and any(one & other for one, other in combinations(ways, 2)):
            self.crossings.add(part.name)
        return Made(list(rows.values()), any(made.broken for made in found))

    def makers(self, inlet: Inlet) -> set[tuple[str, ...]]:
        """Return who can have made what comes by *inlet*; conditions pass on what others have made."""
        columns: list[set[tuple[str, ...]]] = []
        for parent in inlet.parents:
            part = self.graph.by_name.get(parent)
            known = [self.makers(way) for way in part.inlets] if isinstance(part, Condition | Gate) else [{(parent,)}]
            columns.append({makers for ways in known for makers in ways})
        if inlet.wait in ("all", "all_done"):
            return {tuple(chain(*row)) for row in product(*columns)}
        needed = 1 if inlet.wait == "any" else int(inlet.wait)
        return {tuple(chain(*row)) for chosen in combinations(columns, needed) for row in product(*chosen)}

    def inlet(self, part: Part, inlet: Inlet, scope: Scope) -> Made:
        sources = [self.wire(parent, scope) for parent in inlet.parents]
        broken = any(source.broken for source in sources)
        if len(sources) == 1:
            return sources[0]
        columns = [source.rows for source in sources]
        if inlet.wait == "all":
            return Made([tuple(chain(*row)) for row in zip(*columns, strict=False)], broken)
        if inlet.wait == "all_done":
            absent = [self.absent(*pair, scope) for pair in zip(inlet.parents, sources, strict=True)]
            rows = list(zip_longest(*columns)) or [(None,) * len(columns)]
            return Made([tuple(c[0] if c else a for c, a in zip(row, absent, strict=True)) for row in rows])
        return self.race(part, inlet, columns, broken=broken)

    def absent(self, parent: str, source: Made, scope: Scope) -> Item:
        reason = weft.Absent(parent, "failed" if source.broken else "gated")
        return Item(reason, (parent, "absent", *scope.item.key))

    def race(self, part: Part, inlet: Inlet, columns: list[list[Row]], *, broken: bool) -> Made:
        needed = 1 if inlet.wait == "any" else int(inlet.wait)
        present = [rows for rows in columns if rows]
        if len(present) < needed:
            return Made([], broken)
        runners = [item for rows in present for (item,) in rows]
        if len(runners) > needed:
            self.finishes.add(part.name)
            passes_on = len(part.inlets) > 1 or isinstance(part, Condition | Gate)
            if passes_on or any(item.value != runners[0].value for item in runners):
                self.races.add(part.name)
        return Made([tuple(chain.from_iterable(rows[0] for rows in present[:needed]))])

    # -- what is made of it ----------------------------------------------------------------------

    def made(self, part: Part, scope: Scope) -> Made:
        """Return what *part* hands on in *scope*."""
        key = (part.name, scope.region, scope.path)
        if key not in self.known:
            match part:
                case Accumulator():
                    self.accumulate(part)
                case Reduce():
                    self.known[key] = self.reduce(part, scope)
                case _:
                    self.known[key] = self.react(part, scope)
        return self.known[key]

    def react(self, part: Part, scope: Scope) -> Made:
        """Return what *part* makes of each arrival."""
        arrived = self.arrivals(part, scope)
        made = Made([], arrived.broken)
        for row in arrived.rows:
            try:
                if isinstance(part, Condition | Gate):
                    if self.ask(part.name, row, scope):
                        made.rows.append(row)
                elif not isinstance(part, Rule) or self.holds(part, row, scope):
                    made.rows.append(self.item(part, self.value(part, row, scope), scope, len(made.rows)))
            except _Failure:
                made.broken = True
        return made

    @staticmethod
    def item(part: Part, value: Any, scope: Scope, number: int) -> Row:
        return (Item(value, (part.name, *scope.path, number)),)

    def value(self, part: Part, row: Row, scope: Scope) -> Any:
        args = tuple(item.value for item in row)
        match part:
            case Map():
                return self.collection(part, args[0])
            case Step(code=code) | Rule(code=code):
                if code.takes == "spread":
                    args = tuple(self.collection(part, args[0]))
                return self.call(part, part.name, code.work, args, scope)
        raise TypeError(f"{part!r} makes no value of a row")

    def collection(self, part: Part, value: Any) -> list[Any]:
        if not isinstance(value, list):
            self.failed.add(part.name)
            raise _Failure
        return value

    def call(self, part: Part, name: str, work: Any, args: tuple[Any, ...], scope: Scope) -> Any:
        """Call a function of *part*; what it raises is its failure."""
        self.calls[name] += 1
        code = part.codes[name]
        seen = tuple(self.read(part, read, scope) for read in code.reads)
        try:
            return work(args, seen, code.k)
        except ValueError as error:
            self.failed.add(name)
            raise _Failure from error

    # -- conditions ------------------------------------------------------------------------------

    def holds(self, rule: Rule, row: Row, scope: Scope) -> bool:
        if rule.when is None:
            return True
        if isinstance(rule.when, Code):
            args = tuple(item.value for item in row)
            return bool(self.call(rule, f"{rule.name}.when", rule.when.test, args, scope))
        return self.decide(rule.when, row, scope)

    def decide(self, expression: Expression, row: Row, scope: Scope) -> bool:
        match expression:
            case str():
                return self.ask(expression, row, scope)
            case Not(of):
                return not self.decide(of, row, scope)
            case And(left, right):
                return self.decide(left, row, scope) and self.decide(right, row, scope)
            case Or(left, right):
                return self.decide(left, row, scope) or self.decide(right, row, scope)

    def ask(self, name: str, row: Row, scope: Scope) -> bool:
        """Return what the condition *name* says; it is asked once per fact."""
        part = self.graph.by_name[name]
        if isinstance(part, Gate):
            return self.decide(part.when, row, scope)
        assert isinstance(part, Condition)
        key = (name, tuple(item.key for item in row))
        if key not in self.answers:
            self.answers[key] = None
            args = tuple(item.value for item in row)
            self.answers[key] = bool(self.call(part, name, part.code.test, args, scope))
        answer = self.answers[key]
        if answer is None:
            raise _Failure
        return answer

    # -- folds -----------------------------------------------------------------------------------

    def reduce(self, part: Reduce, scope: Scope) -> Made:
        """Return the one value that *part* makes of everything that its parents make in *scope*."""
        closes = self.graph.closes(part)
        found = [self.elements_of(part, parent, scope) for inlet in part.inlets for parent in inlet.parents]
        broken = any(made.broken for made, _ in found)
        if not any(count for _, count in found):
            return Made([], broken)
        if broken:
            self.failed.add(part.name)
            return Made([], broken)
        values = [item.value for made, _ in found for (item,) in made.rows]
        try:
            elements = values if closes else [e for value in values for e in self.collection(part, value)]
            acc = self.fold(part, elements, scope)
        except _Failure:
            return Made([], broken=True)
        return Made([self.item(part, acc, scope, 0)])

    def elements_of(self, part: Reduce, parent: str, scope: Scope) -> tuple[Made, int]:
        """Return what *parent* adds to the batch of *part*, and of how many collections."""
        if not self.graph.closes(part):
            made = self.wire(parent, scope)
            return made, len(made.rows)
        inner = self.graph.by_name[parent]
        fan = self.made(self.graph.by_name[str(inner.region)], scope)
        parts = [self.made(inner, within) for within in self.scopes(inner.region, scope)]
        rows = [row for made in parts for row in made.rows]
        return Made(rows, fan.broken or any(made.broken for made in parts)), len(fan.rows)

    def fold(self, part: Reduce, elements: list[Any], scope: Scope) -> Any:
        acc: Any = part.init
        for element in elements:
            acc = self.call(part, part.name, part.fold, (acc, element), scope)
            if isinstance(acc, weft.Stop):
                return acc.value
        return acc

    def accumulate(self, part: Accumulator) -> None:
        """Fold all that reaches *part* in any scope, in the order of scopes, since that of the log is open."""
        state = self.states[part.name]
        folded = self.folded[part.name]
        for scope in self.scopes(part.region):
            arrived = self.arrivals(part, scope)
            made = self.known[part.name, scope.region, scope.path] = Made([], arrived.broken)
            for (item,) in arrived.rows:
                folded.append(item.value)
                try:
                    state = self.call(part, part.name, part.fold, (state, item.value), scope)
                except _Failure:
                    made.broken = True
                else:
                    made.rows.append(self.item(part, state, scope, len(made.rows)))
        self.states[part.name] = state

    # -- reading ---------------------------------------------------------------------------------

    def read(self, part: Part, read: Read, scope: Scope) -> Any:
        """Return what a parameter of *part* reads in *scope*."""
        if read.how == "context":
            return self.graph.given(part.name, read.target)
        made = [item.value for item in self.readable(part, read, scope)]
        match read.how:
            case "state_of":
                target = self.graph.by_name[read.target]
                assert isinstance(target, Accumulator)
                return made[-1] if made else target.init
            case "latest":
                return made[-1] if made else None
            case "all_values":
                return made
            case "step_ran":
                return bool(made)
            case _:
                return len(made)

    def readable(self, part: Part, read: Read, scope: Scope) -> list[Item]:
        """
        Return the facts that *read* of *part* covers in *scope*: those of this input.

        The last value is that of the same element, where both stand in one map; lists and counts cover all
        elements.  Of what comes after the reader there is only the version before this input.
        """
        if not self.graph.waits(part.name, read.target):
            return []
        common = self.graph.common(part.name, read.target) if read.how in ("state_of", "latest") else None
        while scope.region != common:
            assert scope.outer is not None
            scope = scope.outer
        return self.facts(self.graph.by_name[read.target], scope)
