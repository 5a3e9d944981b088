"""
A workflow as plain data: what the strategies draw, the evaluator evaluates and a person can read.

A graph is a tuple of parts, parents first.  Its ``repr`` is a program: paste it, and ``building.build`` makes
the same workflow again.

    >>> Graph((Step("s1", (Inlet(("INPUT",)),), code=Code(k=1)), Map("m2", (Inlet(("s1",)),)))).leaves
    []

A function does nothing clever: it adds up what it is given, each at its own weight, so that a value that is
lost, doubled, late or at the wrong place shows in everything that comes after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal, TypeAlias, cast

import msgspec

import weft
from weft.typing import Wait

INPUT = "INPUT"
"""The parent of what the input of the workflow is given to."""
MODULUS = 23
"""Numbers stay below this, so that a run is readable and equal values are common."""
ABSENT_KEY = "absent"
"""A context key that no run is given."""
DEFAULT = 3
"""The value of a parameter that reads :data:`ABSENT_KEY`."""

Type: TypeAlias = Literal["scalar", "list"]
How: TypeAlias = Literal["state_of", "latest", "all_values", "step_ran", "fact_count", "context"]


# -- what functions do ---------------------------------------------------------------------------


class Read(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A parameter that reads the component, or the context key, *target*."""

    how: How
    target: str

    def reference(self) -> Any:
        """Return what stands as the default of the parameter."""
        if self.how == "context" and self.target == ABSENT_KEY:
            return weft.context(self.target, default=DEFAULT)
        return getattr(weft, self.how)(self.target)


class Code(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """
    The work of a function.

    *takes* says how the arriving values are taken: one parameter each, none at all, ``*values``, or one list
    that is spread.  *bound* passes *k* by ``Step.bind`` instead of a default argument.
    """

    k: int = 0
    makes: Type = "scalar"
    takes: Literal["each", "nothing", "any", "spread"] = "each"
    fails: bool = False
    is_async: bool = False
    bound: bool = False
    reads: tuple[Read, ...] = ()

    def total(self, args: tuple[Any, ...], seen: tuple[Any, ...], k: int) -> int:
        """Return the number that stands for all that the function was given."""
        given = () if self.takes == "nothing" else args
        return (k + sum((place + 2) * weigh(value) for place, value in enumerate((*given, *seen)))) % MODULUS

    def work(self, args: tuple[Any, ...], seen: tuple[Any, ...], k: int) -> Any:
        """Return what a step or a reaction makes of *args*, and of what its parameters have *seen*."""
        total = self.total(args, seen, k)
        self.check(total)
        return total if self.makes == "scalar" else [(total + 3 * i) % MODULUS for i in range(total % 4)]

    def test(self, args: tuple[Any, ...], seen: tuple[Any, ...], k: int) -> bool:
        """Return what a condition says of *args*."""
        total = self.total(args, seen, k)
        self.check(total)
        return total % 3 != 1

    def check(self, total: int) -> None:
        """Raise, if this function is one that fails, where the *total* says so."""
        if self.fails and total % 3 == 0:
            raise ValueError(f"{total} can be divided by three")


def weigh(value: Any) -> int:
    """Return a number that tells values of all kinds apart."""
    if isinstance(value, weft.Absent):
        return {"failed": 4, "skipped": 5, "gated": 6}[value.reason]
    if isinstance(value, list | tuple):
        weight = 1
        for item in cast("Iterable[Any]", value):
            weight = (3 * weight + weigh(item)) % MODULUS
        return weight
    return 9 if value is None else int(value)


# -- the parts of a graph ------------------------------------------------------------------------


class Inlet(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """One way into a part: one parent, or several that are joined.  A map as a parent is its element."""

    parents: tuple[str, ...]
    wait: Wait = "all"


class Not(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """The opposite of an expression over conditions."""

    of: Expression


class And(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Both of two expressions."""

    left: Expression
    right: Expression


class Or(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Either of two expressions."""

    left: Expression
    right: Expression


Expression: TypeAlias = str | Not | And | Or


class Part(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """
    One component: its name, the ways into it, and the map whose elements it runs on, if any.

    The order of the inlets counts.  The element of a map comes first, since a body is written before what
    else feeds its parts.
    """

    name: str
    inlets: tuple[Inlet, ...] = ()
    region: str | None = None

    @property
    def codes(self) -> dict[str, Code]:
        """The functions, by the name under which they run."""
        return {}

    @property
    def asks(self) -> tuple[str, ...]:
        """The conditions that this part asks, by name."""
        return ()

    @property
    def makes_facts(self) -> bool:
        """Whether it makes values that others may read."""
        return True


class Step(Part, frozen=True):
    """A step."""

    code: Code = Code()

    @property
    def codes(self) -> dict[str, Code]:
        return {self.name: self.code}


class Condition(Part, frozen=True):
    """A condition with a function.  Without inlets it is only asked by others."""

    code: Code = Code()

    @property
    def codes(self) -> dict[str, Code]:
        return {self.name: self.code}

    @property
    def makes_facts(self) -> bool:
        return False


class Gate(Part, frozen=True):
    """A condition composed of others."""

    when: Expression = ""

    @property
    def asks(self) -> tuple[str, ...]:
        return tuple(leaves(self.when))

    @property
    def makes_facts(self) -> bool:
        return False


class Rule(Part, frozen=True):
    """A rule: *when* is a separate function, an expression over conditions, or nothing."""

    code: Code = Code()
    when: Code | Expression | None = None

    @property
    def codes(self) -> dict[str, Code]:
        own = {f"{self.name}.when": self.when} if isinstance(self.when, Code) else {}
        return {self.name: self.code, **own}

    @property
    def asks(self) -> tuple[str, ...]:
        return () if self.when is None or isinstance(self.when, Code) else tuple(leaves(self.when))


class Map(Part, frozen=True):
    """An ``each``; its body is every part whose region it is."""

    @property
    def makes_facts(self) -> bool:
        return False


class Reduce(Part, frozen=True):
    """A reduce: of the maps in which its parents stand, or of collections if they stand where it stands."""

    code: Code = Code()
    stops: bool = False

    @property
    def codes(self) -> dict[str, Code]:
        return {self.name: self.code}

    @property
    def init(self) -> Any:
        """The state that the fold begins with."""
        return 1 if self.code.makes == "scalar" else []

    def fold(self, args: tuple[Any, ...], seen: tuple[Any, ...], k: int) -> Any:
        """Return the next accumulator; the order of the elements shows in it."""
        total = self.code.total(args, seen, k)
        self.code.check(total)
        acc, value = args
        new = total if self.code.makes == "scalar" else [*acc, weigh(value)]
        return weft.Stop(new) if self.stops and weigh(value) % 4 == 0 else new


class Accumulator(Part, frozen=True):
    """An accumulator; *commutes* says that the order of its folds does not show in the final state."""

    code: Code = Code()
    commutes: bool = True

    @property
    def codes(self) -> dict[str, Code]:
        return {self.name: self.code}

    @property
    def init(self) -> int:
        """The state before the first fold."""
        return 1

    def fold(self, args: tuple[int, Any], seen: tuple[Any, ...], k: int) -> int:
        """Return the next state."""
        state, value = args
        if not self.commutes:
            total = self.code.total(args, seen, k)
            self.code.check(total)
            return total
        added = self.code.total((value,), seen, k)
        self.code.check(added)
        return (state + added) % MODULUS


def leaves(expression: Expression) -> Iterator[str]:
    """Yield the conditions of *expression*, left to right."""
    match expression:
        case str():
            yield expression
        case Not(of):
            yield from leaves(of)
        case And(left, right) | Or(left, right):
            yield from leaves(left)
            yield from leaves(right)


# -- graphs --------------------------------------------------------------------------------------


class Graph(msgspec.Struct, frozen=True, dict=True, repr_omit_defaults=True):
    """Parts, parents first; what kind of input they take; and the context that a run is given."""

    parts: tuple[Part, ...]
    takes: Type = "scalar"
    context: tuple[tuple[str, int], ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Part]:
        """The parts, by name."""
        return {part.name: part for part in self.parts}

    @cached_property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """By part: those that it feeds, and of a map those that take its elements."""
        found: dict[str, dict[str, None]] = {part.name: {} for part in self.parts}
        for part in self.parts:
            for inlet in part.inlets:
                for parent in inlet.parents:
                    if parent != INPUT:
                        found[parent][part.name] = None
        return {name: tuple(children) for name, children in found.items()}

    @cached_property
    def downstream(self) -> Mapping[str, frozenset[str]]:
        """By part: itself, what it feeds, and what asks it, however indirectly."""
        found: dict[str, frozenset[str]] = {}
        for part in reversed(self.parts):
            users = (user.name for user in self.parts if part.name in user.asks)
            below = [found[name] for name in (*self.children[part.name], *users)]
            found[part.name] = frozenset({part.name}).union(*below)
        return found

    @property
    def leaves(self) -> list[str]:
        """The parts that make values which nothing else takes."""
        return [part.name for part in self.parts if part.makes_facts and not self.children[part.name]]

    @property
    def reads(self) -> Iterator[tuple[Part, Read]]:
        """Every part that reads another one, and what it reads."""
        for part in self.parts:
            for code in part.codes.values():
                for read in code.reads:
                    if read.how != "context":
                        yield part, read

    def around(self, region: str | None) -> list[str | None]:
        """Return *region* and the regions around it, innermost first."""
        chain: list[str | None] = [region]
        while region is not None:
            region = self.by_name[region].region
            chain.append(region)
        return chain

    def waits(self, reader: str, target: str) -> bool:
        """Whether *reader* waits for *target*, which it does not if that lies downstream."""
        return target not in self.downstream[reader]

    def common(self, reader: str, target: str) -> str | None:
        """Return the innermost region that *reader* and *target* both stand in."""
        around = self.around(self.by_name[reader].region)
        return next(region for region in self.around(self.by_name[target].region) if region in around)

    def given(self, part: str, key: str) -> int:
        """Return what *part* gets when it reads *key* of the context; what is meant for it alone wins."""
        context = dict(self.context)
        return context.get(f"{part}.{key}", context.get(key, DEFAULT))

    def closes(self, part: Part) -> bool:
        """Whether *part* is a reduce that closes the maps of its parents."""
        parents = [self.by_name.get(parent) for inlet in part.inlets for parent in inlet.parents]
        made = [parent for parent in parents if parent is not None and not isinstance(parent, Map)]
        return isinstance(part, Reduce) and any(parent.region != part.region for parent in made)

    def is_reachable(self, part: Part) -> bool:
        """Whether a chain of first inlets leads from the element of its map to *part*, crossing no other map."""
        first = part.inlets[:1]
        return not self.closes(part) and any(
            all(parent == part.region or self.is_reachable(self.by_name[parent]) for parent in inlet.parents)
            for inlet in first
            if INPUT not in inlet.parents
        )
