"""
How a graph is drawn: part by part, parents first, each fed by what is there already.

Which part comes next is not decided here but in ``strategies.compose``, one move at a time; a move is a
method of :class:`Draft`.  Whatever is open is asked of :class:`Choices`: Hypothesis, or a die.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from description import (
    ABSENT_KEY,
    INPUT,
    Accumulator,
    And,
    Code,
    Condition,
    Expression,
    Gate,
    Graph,
    How,
    Inlet,
    Map,
    Not,
    Or,
    Part,
    Read,
    Reduce,
    Rule,
    Step,
    Type,
)

from weft.typing import Wait

T = TypeVar("T")

DEEPEST = 2
"""How many maps may lie in each other."""
LARGEST = 22
"""Inputs and constants are numbers from 0 to this."""

MOVES = {
    "step": 4,
    "rule": 3,
    "condition": 2,
    "gate": 2,
    "map": 3,
    "reduce": 5,
    "accumulator": 3,
    "race": 1,
    "two_maps": 1,
}
"""How often each move is made."""


def in_order(inlets: Iterable[Inlet], region: str | None) -> tuple[Inlet, ...]:
    """Return each of *inlets* once, the element of *region* first."""
    return tuple(dict.fromkeys(sorted(inlets, key=lambda inlet: inlet.parents != (region,))))


class Choices(Protocol):
    """The source of all choices."""

    def number(self, low: int, high: int) -> int:
        """Return a number from *low* to *high*."""
        ...

    def any_of(self, choices: Sequence[T]) -> T:
        """Return one of *choices*."""
        ...


class Wire(NamedTuple):
    """The output of a part: values of a type, and how many at once."""

    name: str
    type: Type
    width: int


class Draft:
    """A graph on its way: every ``add_`` puts something that fits to what is there."""

    def __init__(self, choices: Choices, *, readers: bool, races: bool, failures: bool) -> None:
        self.number, self.any_of = choices.number, choices.any_of
        self.readers, self.races, self.failures = readers, races, failures
        self.parts: list[Part] = []
        self.takes: Type = "list" if self.number(0, 1) else "scalar"
        self.wires: dict[str | None, list[Wire]] = {None: [Wire(INPUT, self.takes, 1)]}

    # -- drawing ---------------------------------------------------------------------------------

    def one_in(self, count: int) -> bool:
        """Return True once in *count* times."""
        return self.number(0, count - 1) == count - 1

    def name(self, letter: str) -> str:
        return f"{letter}{len(self.parts) + 1}"

    def region(self) -> str | None:
        """Return where to add something: more often inside a map than outside, if there is one."""
        return self.any_of([*self.wires, *(region for region in self.wires if region is not None)])

    def code(self, *, makes: Type | None = None, foldable: bool = False) -> Code:
        """Return the code of a function; one that folds always takes what arrives."""
        types: tuple[Type, ...] = ("scalar", "scalar", "list")
        takes: Any = "each" if foldable else self.any_of(("each",) * 8 + ("nothing", "any"))
        return Code(
            k=self.number(0, LARGEST),
            makes=self.any_of(types) if makes is None else makes,
            takes=takes,
            fails=self.failures and self.one_in(7),
            is_async=self.one_in(4),
            reads=self.reads(),
        )

    def reads(self) -> tuple[Read, ...]:
        if not self.one_in(4):
            return ()
        return tuple(self.read() for _ in range(1 + self.one_in(4)))

    def read(self) -> Read:
        makers = [part for part in self.parts if part.makes_facts] if self.readers else []
        targets = [*makers, *(part for part in makers if isinstance(part, Accumulator) for _ in range(3))]
        if not targets or self.one_in(5):
            return Read("context", self.any_of(("limit", ABSENT_KEY)))
        return self.read_of(self.any_of(targets))

    def read_of(self, target: Part) -> Read:
        ways: tuple[How, ...] = ("latest", "all_values", "step_ran", "fact_count")
        if isinstance(target, Accumulator):
            ways = ("state_of", "state_of", "state_of", *ways)
        return Read(self.any_of(ways), target.name)

    def context(self) -> tuple[tuple[str, int], ...]:
        """Return the context of a run: the key that is always given, and perhaps one for a single part."""
        readers = [part.name for part in self.parts for c in part.codes.values() if Read("context", "limit") in c.reads]
        own = [(f"{self.any_of(readers)}.limit", self.number(0, LARGEST))] if readers and self.one_in(2) else []
        return (("limit", self.number(0, LARGEST)), *own)

    # -- inlets ----------------------------------------------------------------------------------

    def inlets(self, region: str | None) -> tuple[Inlet, ...]:
        """Return the ways into a part that takes anything."""
        if not self.one_in(4):
            return (self.inlet(region),)
        return in_order((self.inlet(region), self.inlet(region)), region)

    def inlet(self, region: str | None) -> Inlet:
        style = self.any_of(("one", "one", "one", "join", "wait"))
        wires = [wire for wire in self.wires[region] if wire.name != region]  # an element is not a part of a join
        if style == "join" and wires:
            return Inlet(tuple(self.any_of(wires).name for _ in range(2 + self.one_in(4))))
        single = [wire for wire in wires if wire.width == 1]
        if style == "wait" and single:
            parents = tuple(self.any_of(single).name for _ in range(2 + self.one_in(4)))
            return Inlet(parents, self.wait(len(parents)))
        return Inlet((self.any_of(self.wires[region]).name,))

    def wait(self, count: int) -> Wait:
        if not self.races or self.one_in(2):
            return "all_done"
        return "any" if self.one_in(2) else self.number(1, count)

    def single_inlets(self, wires: Sequence[Wire], region: str | None) -> tuple[Inlet, ...]:
        """Return the ways into a part of *region* that takes one value at a time, from *wires*."""
        count = 1 + self.one_in(4)
        return in_order([Inlet((self.any_of(wires).name,)) for _ in range(count)], region)

    def single(self, region: str | None) -> list[Wire]:
        return [wire for wire in self.wires[region] if wire.width == 1]

    def lists(self, region: str | None) -> list[Wire]:
        return [wire for wire in self.single(region) if wire.type == "list"]

    def width(self, inlet: Inlet, region: str | None) -> int:
        if inlet.wait == "all":
            widths = {wire.name: wire.width for wire in self.wires[region]}
            return sum(widths[parent] for parent in inlet.parents)
        return {"any": 1, "all_done": len(inlet.parents)}.get(str(inlet.wait)) or int(inlet.wait)

    def type(self, inlets: tuple[Inlet, ...], region: str | None) -> Type:
        """Return the type of what *inlets* bring, for a part that passes it on."""
        lists = {wire.name for wire in self.lists(region)}
        brought = [parent for inlet in inlets for parent in inlet.parents]
        return "list" if lists.issuperset(brought) else "scalar"

    # -- parts -----------------------------------------------------------------------------------

    def put(self, part: Part, type: Type, width: int = 1) -> None:  # noqa: A002
        self.parts.append(part)
        self.wires[part.region].append(Wire(part.name, type, width))

    def add_step(self) -> None:
        region = self.region()
        if self.lists(region) and self.one_in(5):
            code = msgspec.structs.replace(self.code(), takes="spread")
            inlets = (Inlet((self.any_of(self.lists(region)).name,)),)
            self.put(Step(self.name("s"), inlets, region, code), code.makes)
        else:
            self.put_step(region, self.inlets(region))

    def put_step(self, region: str | None, inlets: tuple[Inlet, ...]) -> None:
        code = self.code()
        if self.one_in(6):
            code = msgspec.structs.replace(code, bound=True)
        self.put(Step(self.name("s"), inlets, region, code), code.makes)

    def add_rule(self) -> None:
        region = self.region()
        self.put_rule(region, self.inlets(region))

    def put_rule(self, region: str | None, inlets: tuple[Inlet, ...]) -> None:
        when: Code | Expression | None = None
        way = self.any_of(("inline", "asked", "asked", "always"))
        if way == "inline":
            when = self.code(makes="scalar")
        if way == "asked":
            when = self.asked(region, inlets)
        code = self.code()
        self.put(Rule(self.name("r"), inlets, region, code, when), code.makes)

    def asked(self, region: str | None, inlets: tuple[Inlet, ...]) -> Expression:
        """Return an expression over conditions, or the name of one, to be asked about what *inlets* bring."""
        gates = [part.name for part in self.parts if isinstance(part, Gate) and self.fits(part, region, inlets)]
        if gates and self.one_in(2):
            return self.any_of(gates)
        return self.condition(region, inlets) if self.one_in(3) else self.expression(region, inlets)

    def expression(self, region: str | None, inlets: tuple[Inlet, ...]) -> Expression:
        """Return an expression that has at least one sign."""
        first: Expression = self.condition(region, inlets)
        if self.one_in(3):
            first = Not(first)
            if self.one_in(3):
                return first
        second: Expression = self.condition(region, inlets)
        if self.one_in(3):
            second = Not(second)
        both: Expression = And(first, second) if self.one_in(2) else Or(first, second)
        return Not(both) if self.one_in(5) else both

    def condition(self, region: str | None, inlets: tuple[Inlet, ...]) -> str:
        """Return a condition that others ask as well, or a new one."""
        known = [part.name for part in self.parts if isinstance(part, Condition) and self.fits(part, region, inlets)]
        if known and not self.one_in(5):
            return self.any_of(known)
        self.parts.append(Condition(self.name("c"), (), region, self.code(makes="scalar")))
        return self.parts[-1].name

    def fits(self, part: Part, region: str | None, inlets: tuple[Inlet, ...]) -> bool:
        """Whether the condition *part* can be asked about what *inlets* bring; one without its own can always."""
        if part.region != region:
            return False
        return not part.inlets or len({self.width(inlet, region) for inlet in (*inlets, *part.inlets)}) == 1

    def add_condition(self) -> None:
        region = self.region()
        self.put_condition(region, self.inlets(region))

    def put_condition(self, region: str | None, inlets: tuple[Inlet, ...]) -> None:
        inlets = tuple(i for i in inlets if self.width(i, region) == self.width(inlets[0], region))
        part = Condition(self.name("c"), inlets, region, self.code(makes="scalar"))
        self.put(part, self.type(inlets, region), self.width(inlets[0], region))

    def add_gate(self) -> None:
        """Add a composed condition, and perhaps a rule that asks for it by name."""
        region = self.region()
        inlets = self.inlets(region)
        inlets = tuple(i for i in inlets if self.width(i, region) == self.width(inlets[0], region))
        when = self.expression(region, inlets)
        gate = Gate(self.name("g"), inlets, region, when)
        self.put(gate, self.type(inlets, region), self.width(inlets[0], region))
        if self.one_in(3):
            code = self.code()
            self.put(Rule(self.name("r"), inlets, region, code, gate.name), code.makes)

    def add_map(self) -> None:
        graph = Graph(tuple(self.parts))
        depths = {region: graph.around(region).index(None) for region in self.wires}
        choices = [region for region, depth in depths.items() if depth < DEEPEST for _ in range(1 + 4 * depth)]
        self.put_map(self.any_of(choices))

    def put_map(self, region: str | None) -> None:
        """Add a map and what takes its elements, and a list for it if there is none."""
        if not self.lists(region):
            code = self.code(makes="list")
            self.put(Step(self.name("s"), (self.inlet(region),), region, code), "list")
        wires = self.single(region) if self.one_in(12) else self.lists(region)
        part = Map(self.name("m"), self.single_inlets(wires, region), region)
        self.parts.append(part)
        self.wires[part.name] = [Wire(part.name, "scalar", 1)]
        entry = self.any_of((self.put_step, self.put_step, self.put_rule, self.put_condition))
        entry(part.name, (Inlet((part.name,)),))

    def add_two_maps(self) -> None:
        """Add two maps side by side, and a reduce of both."""
        region = None
        known = set(self.wires)
        self.put_map(region)
        self.put_map(region)
        ends = [wires[-1] for name, wires in self.wires.items() if name not in known]
        if ends and all(end.width == 1 for end in ends):
            self.put_reduce(region, tuple(Inlet((end.name,)) for end in ends))

    def add_reduce(self) -> None:
        """Add a reduce of maps, or else of a collection."""
        outer: dict[str | None, list[Wire]] = {}
        for name in self.wires:
            if name is not None:
                inside = [wire for wire in self.single(name) if wire.name != name]
                outer.setdefault(self.part(name).region, []).extend(inside)
        choices = [region for region, wires in outer.items() for _ in range(1 + (region is not None)) if wires]
        if not choices or self.one_in(3):
            self.add_plain_reduce()
            return
        region = self.any_of(choices)
        self.put_reduce(region, self.single_inlets(outer[region], region))

    def add_plain_reduce(self) -> None:
        region = self.region()
        graph = Graph(tuple(self.parts))
        wires = self.lists(region)
        if region is not None:
            wires = [wire for wire in wires if graph.is_reachable(self.part(wire.name))]
        if wires:
            self.put_reduce(region, self.single_inlets(wires, region))
        elif region is not None:  # an element is a number: a reduce of it fails
            self.put_reduce(region, (Inlet((region,)),))
        else:
            self.add_step()

    def put_reduce(self, region: str | None, inlets: tuple[Inlet, ...]) -> None:
        code = self.code(foldable=True)
        self.put(Reduce(self.name("f"), inlets, region, code, self.one_in(4)), code.makes)

    def add_accumulator(self) -> None:
        region = self.region()
        code = self.code(makes="scalar", foldable=True)
        part = Accumulator(
            self.name("a"), self.single_inlets(self.single(region), region), region, code, not self.one_in(4)
        )
        self.put(part, "scalar")

    def add_race(self) -> None:
        """Add steps that make the same of the same, and one that takes the first of them."""
        if not self.races:
            self.add_step()
            return
        region = self.region()
        inlets, code = (self.inlet(region),), self.code()
        twins = [self.name("s")]
        self.put(Step(twins[0], inlets, region, code), code.makes)
        for _ in range(1 + self.one_in(3)):
            twins.append(self.name("s"))
            self.put(Step(twins[-1], inlets, region, code), code.makes)
        wait: Wait = "any" if self.one_in(2) else self.number(1, len(twins))
        self.put_step(region, (Inlet(tuple(twins), wait),))

    def part(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)

    def read_downstream(self) -> None:
        """Let a part read itself, or one that comes after it, which reads the version before the input."""
        readers = [part for part in self.parts if isinstance(part, Step | Rule) and len(part.code.reads) < 2]
        if not self.readers or not readers or not self.one_in(4):
            return
        reader = self.any_of(readers)
        below = Graph(tuple(self.parts)).downstream[reader.name]
        target = self.any_of([part for part in self.parts if part.name in below and part.makes_facts])
        code = msgspec.structs.replace(reader.code, reads=(*reader.code.reads, self.read_of(target)))
        self.parts[self.parts.index(reader)] = msgspec.structs.replace(reader, code=code)
